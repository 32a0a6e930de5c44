//! Bytes as a program, on both engines. The first byte is the length of its memory, the rest are instruction slots.
//! Some slots are mended so that programs get past the checks. Each is refused, ends in a fault, or ends with a result;
//! both engines give the same result, count and memory.

use schedlab_bpf::insn::op;
use schedlab_bpf::{
    Code, Compiler, Done, Engine, Fault, FuncId, GuestAddr, Insn, Interpreter, Memory, NoHost, Perm, code,
};
use std::cell::RefCell;

/// Instructions that one input may execute.
const BUDGET: u64 = 10_000;

thread_local! {
    static MACHINE: RefCell<(Memory, Interpreter, Compiler)> = RefCell::new((
        Memory::new().expect("8 GiB of address space"),
        Interpreter::new(),
        Compiler::new(),
    ));
}

/// Runs the program on an engine; returns also its memory afterwards.
fn run_on(
    engine: &mut impl Engine,
    code: &Code,
    addr: GuestAddr,
    len: u64,
    mem: &mut Memory,
) -> (Result<Done, Fault>, Vec<u8>) {
    // The same start each time: zeroed memory and stack.
    let stack = mem.stack();
    for (addr, len) in [(addr, len), stack] {
        mem.slice_mut(addr, len).expect("mapped").fill(0);
    }
    let done = engine.run(code, FuncId(0), &[addr.0, len], mem, &mut NoHost, BUDGET);
    (done, mem.slice(addr, len).expect("mapped").to_vec())
}

/// Registers that exist, and no operands where an instruction has none; jumps within the program.
fn mended(mut insn: Insn, at: usize, count: usize) -> Insn {
    let class = insn.code & 7;
    (insn.dst, insn.src) = (insn.dst % 11, insn.src % 11);
    if matches!(class, op::ALU | op::ALU64) {
        insn.off = 0;
        if insn.code & op::X == 0 {
            insn.src = 0
        } else {
            insn.imm = 0
        }
        insn.dst %= 10;
    }
    if matches!(class, op::JMP | op::JMP32) {
        let target = insn.off.unsigned_abs() as usize % count;
        insn.off = (target as i64 - at as i64 - 1) as i16;
        if insn.code & op::X == 0 { insn.src = 0 } else { insn.imm = 0 }
    }
    insn
}

/// Runs an input.
pub(crate) fn run(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    let Some(mut slots) = Insn::all_from_bytes(&bytes[..bytes.len() / 8 * 8]) else { return };
    if first & 0x80 != 0 {
        let count = slots.len() + 1;
        slots = slots.into_iter().enumerate().map(|(at, insn)| mended(insn, at, count)).collect();
        slots.push(Insn::exit());
    }
    let Ok(code) = code::from_slots("fuzz", &slots, false) else { return };
    MACHINE.with_borrow_mut(|(mem, interpreter, compiler)| {
        let len = u64::from(*first) + 1;
        let addr = mem.map(len, Perm::READ_WRITE).expect("room");
        let interpreted = run_on(interpreter, &code, addr, len, mem);
        let compiled = run_on(compiler, &code, addr, len, mem);
        assert_eq!(interpreted, compiled, "the engines differ");
        let insns = match &interpreted.0 {
            Ok(done) => done.insns,
            Err(fault) => fault.insns(),
        };
        assert!(insns <= BUDGET, "{insns} instructions executed");
        mem.unmap(addr, len);
    });
}
