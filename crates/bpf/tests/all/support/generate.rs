//! Random programs that the kernel's verifier accepts: every register and stack slot starts as an unknown number, no
//! pointer is ever in reach of arithmetic, jumps go forward, loops have small constant bounds.

use super::Prng;
use super::reference::{ARITHMETIC, COMPARISONS, UNARY};
use schedlab_bpf::Insn;
use schedlab_bpf::insn::op;

/// Numbers that a program is given and leaves: registers r0 to r9, then the stack's slots from the lowest.
pub(crate) const CELLS: usize = REGISTERS + STACK_SLOTS;
/// Bytes of the memory that holds them, and a zero behind them.
pub(crate) const MEMORY_LEN: usize = (CELLS + 1) * 8;

/// Memory with random cells.
pub(crate) fn memory(prng: &mut Prng) -> Vec<u8> {
    let cells = (0..CELLS).flat_map(|_| prng.value().to_le_bytes());
    cells.chain([0; 8]).collect()
}
/// Slots that give registers and stack their numbers.
pub(crate) const PROLOGUE_LEN: usize = 3 + 2 * STACK_SLOTS + REGISTERS;
const REGISTERS: usize = 10;
/// 8-byte slots of stack that the body uses; the memory's address is kept below them.
const STACK_SLOTS: usize = 8;
const STACK_BYTES: i16 = STACK_SLOTS as i16 * 8;
const SAVED_ADDRESS: i16 = -STACK_BYTES - 8;
/// Where r1's final value waits while r1 holds the address again.
const SAVED_R1: i16 = SAVED_ADDRESS - 8;
/// The loop counter's slot, out of the body's reach.
const COUNTER: i16 = SAVED_R1 - 8;
/// A slot that holds a 0 which the verifier does not know, and one in which `launder` keeps a register.
const HIDDEN_ZERO: i16 = COUNTER - 8;
const LAUNDER_SAVED: i16 = HIDDEN_ZERO - 8;

const SIZES: [(u8, i16); 4] = [(op::B, 1), (op::H, 2), (op::W, 4), (op::DW, 8)];

/// A program with about `length` random instructions, in the kernel's encoding.
pub(crate) fn program(prng: &mut Prng, length: usize) -> Vec<Insn> {
    let mut slots = prologue();
    // Three stretches: straight, looped, straight.
    let part = length / 3;
    body(prng, &mut slots, part);
    slots.push(Insn::store_imm(op::DW, 10, COUNTER, 1 + prng.below(4) as i32));
    let top = slots.len();
    body(prng, &mut slots, part);
    // r9 is only borrowed: its value comes back on both ways.
    slots.push(Insn::store(op::DW, 10, SAVED_R1, 9));
    slots.push(Insn::load(op::DW, 9, 10, COUNTER));
    slots.push(Insn::alu64_imm(op::SUB, 9, 1));
    slots.push(Insn::store(op::DW, 10, COUNTER, 9));
    slots.push(Insn::jump_imm(op::JEQ, 9, 0, 2));
    slots.push(Insn::load(op::DW, 9, 10, SAVED_R1));
    let back = top as i64 - slots.len() as i64 - 1;
    slots.push(Insn::new(op::JMP32 | op::JA, 0, 0, 0, back as i32));
    slots.push(Insn::load(op::DW, 9, 10, SAVED_R1));
    body(prng, &mut slots, part);
    epilogue(&mut slots);
    // The verifier refuses functions that nobody calls.
    if slots.iter().any(|insn| insn.code == op::CALL_K) {
        leaf(prng, &mut slots);
    }
    slots
}

fn prologue() -> Vec<Insn> {
    let mut slots = vec![Insn::store(op::DW, 10, SAVED_ADDRESS, 1)];
    slots.extend([Insn::load(op::DW, 0, 1, CELLS as i16 * 8), Insn::store(op::DW, 10, HIDDEN_ZERO, 0)]);
    for slot in 0..STACK_SLOTS as i16 {
        slots.push(Insn::load(op::DW, 0, 1, (REGISTERS as i16 + slot) * 8));
        slots.push(Insn::store(op::DW, 10, -STACK_BYTES + slot * 8, 0));
    }
    for register in [0, 2, 3, 4, 5, 6, 7, 8, 9, 1] {
        slots.push(Insn::load(op::DW, register, 1, i16::from(register) * 8));
    }
    assert_eq!(slots.len(), PROLOGUE_LEN);
    slots
}

fn epilogue(slots: &mut Vec<Insn>) {
    slots.push(Insn::store(op::DW, 10, SAVED_R1, 1));
    slots.push(Insn::load(op::DW, 1, 10, SAVED_ADDRESS));
    for register in [0, 2, 3, 4, 5, 6, 7, 8, 9] {
        slots.push(Insn::store(op::DW, 1, i16::from(register) * 8, register));
    }
    slots.push(Insn::load(op::DW, 0, 10, SAVED_R1));
    slots.push(Insn::store(op::DW, 1, 8, 0));
    for slot in 0..STACK_SLOTS as i16 {
        slots.push(Insn::load(op::DW, 0, 10, -STACK_BYTES + slot * 8));
        slots.push(Insn::store(op::DW, 1, (REGISTERS as i16 + slot) * 8, 0));
    }
    slots.push(Insn::exit());
}

/// The function behind the program, which `body` calls: it clobbers r6 to r9 and its own stack.
fn leaf(prng: &mut Prng, slots: &mut Vec<Insn>) {
    let start = slots.len() as i64;
    slots.extend([
        Insn::alu64_reg(op::MOV, 0, 1),
        Insn::alu64_reg(op::ADD, 0, 2),
        Insn::alu64_reg(op::MOV, 6, 3),
    ]);
    slots.extend([
        Insn::alu64_reg(op::XOR, 6, 4),
        Insn::store(op::DW, 10, -8, 6),
        Insn::alu64_reg(op::MOV, 9, 5),
    ]);
    slots.extend([Insn::alu64_imm(op::MUL, 9, prng.next() as i32), Insn::load(op::DW, 7, 10, -8)]);
    slots.extend([Insn::alu64_reg(op::ADD, 0, 7), Insn::alu64_reg(op::XOR, 0, 9), Insn::exit()]);
    for (slot, insn) in slots.iter_mut().enumerate().filter(|(_, insn)| insn.code == op::CALL_K) {
        insn.imm = (start - slot as i64 - 1) as i32;
    }
}

fn body(prng: &mut Prng, slots: &mut Vec<Insn>, length: usize) {
    // Distances count instructions first, because some take several slots.
    let mut starts = Vec::new();
    let mut jumps = Vec::new();
    for index in 0..length {
        starts.push(slots.len());
        if prng.below(6) == 0 {
            let over = 1 + prng.below(6) as usize;
            jumps.push((slots.len(), (index + 1 + over).min(length)));
            slots.push(comparison(prng));
        } else {
            random_insn(prng, slots);
        }
    }
    starts.push(slots.len());
    for (slot, to) in jumps {
        slots[slot].off = (starts[to] - slot - 1) as i16;
    }
}

fn register(prng: &mut Prng) -> u8 {
    prng.below(REGISTERS as u64) as u8
}

fn immediate(prng: &mut Prng) -> i32 {
    prng.value() as i32
}

fn comparison(prng: &mut Prng) -> Insn {
    let class = prng.pick(&[op::JMP, op::JMP32]);
    let code = class | prng.pick(&COMPARISONS);
    let dst = register(prng);
    if prng.below(2) == 0 {
        Insn::new(code | op::X, dst, register(prng), 0, 0)
    } else {
        Insn::new(code, dst, 0, 0, immediate(prng))
    }
}

fn random_insn(prng: &mut Prng, slots: &mut Vec<Insn>) {
    let (dst, src) = (register(prng), register(prng));
    match prng.below(16) {
        0..=6 => slots.push(arithmetic(prng, dst, src)),
        7 => {
            let (code, off, imm) = prng.pick(&UNARY);
            let src = if code & 0xf0 == op::MOV { src } else { 0 };
            slots.push(Insn::new(code, dst, src, off, imm));
        }
        8 => slots.extend(Insn::ld_imm64(dst, 0, prng.value())),
        9 => slots.push(load(prng, dst)),
        10 | 11 => {
            let (size, off) = place(prng);
            slots.push(Insn::store(size, 10, off, src));
        }
        12 => {
            let (size, off) = place(prng);
            slots.push(Insn::store_imm(size, 10, off, immediate(prng)));
        }
        13 | 14 => {
            let insn = atomic(prng, src);
            slots.push(insn);
            if insn.imm & op::FETCH != 0 {
                launder(if insn.imm == op::CMPXCHG { 0 } else { src }, slots);
            }
        }
        _ => {
            // A call leaves r1 to r5 unknown to the verifier: give them numbers again.
            slots.push(Insn::call_local(0));
            slots.extend((1..=5).map(|register| Insn::alu64_reg(op::MOV, register, 0)));
        }
    }
}

/// Makes the verifier forget what it knows of a register, without changing it.
///
/// Needed after atomics that fetch: before April 2026 (fix "bpf: Fix incorrect pruning due to atomic fetch precision
/// tracking") the kernel's verifier does not trace a fetched value's precision back to the stack, so where a branch on
/// it is decided on one path, it may drop the branch for another path and miscompile the program. This generator found
/// it on 6.18.44: seed 101566 without this function.
fn launder(register: u8, slots: &mut Vec<Insn>) {
    let other = (register + 1) % REGISTERS as u8;
    slots.push(Insn::store(op::DW, 10, LAUNDER_SAVED, other));
    slots.push(Insn::load(op::DW, other, 10, HIDDEN_ZERO));
    slots.push(Insn::alu64_reg(op::ADD, register, other));
    slots.push(Insn::load(op::DW, other, 10, LAUNDER_SAVED));
}

fn arithmetic(prng: &mut Prng, dst: u8, src: u8) -> Insn {
    let class = prng.pick(&[op::ALU, op::ALU64]);
    let (operation, off) = prng.pick(&ARITHMETIC);
    if prng.below(2) == 0 {
        return Insn::new(class | operation | op::X, dst, src, off, 0);
    }
    let width = if class == op::ALU64 { 64 } else { 32 };
    let imm = match operation {
        op::LSH | op::RSH | op::ARSH => prng.below(width) as i32,
        op::DIV | op::MOD => immediate(prng) | 1,
        _ => immediate(prng),
    };
    Insn::new(class | operation, dst, 0, off, imm)
}

/// A size and an aligned place on the body's stack.
fn place(prng: &mut Prng) -> (u8, i16) {
    let (size, bytes) = prng.pick(&SIZES);
    let count = (STACK_BYTES / bytes) as u64;
    (size, -STACK_BYTES + prng.below(count) as i16 * bytes)
}

fn load(prng: &mut Prng, dst: u8) -> Insn {
    let (size, off) = place(prng);
    let signed = size != op::DW && prng.below(2) == 0;
    let mode = if signed { op::MEMSX } else { op::MEM };
    Insn::new(op::LDX | mode | size, dst, 10, off, 0)
}

fn atomic(prng: &mut Prng, src: u8) -> Insn {
    const OPERATIONS: [i32; 10] = [0x00, 0x40, 0x50, 0xa0, 0x01, 0x41, 0x51, 0xa1, op::XCHG, op::CMPXCHG];
    let (size, bytes) = prng.pick(&SIZES[2..]);
    let off = -STACK_BYTES + prng.below((STACK_BYTES / bytes) as u64) as i16 * bytes;
    Insn::new(op::STX | op::ATOMIC | size, 10, src, off, prng.pick(&OPERATIONS))
}
