//! From instruction slots to the engine's form: one fixed-size operation for each instruction, its kind one of a dense
//! list, its jump target absolute, its immediate extended.

use super::{CodeErrorKind, FuncId, Marks};
use crate::insn::{FRAME_POINTER, Insn, REG_COUNT, op};
use crate::limits::PROGRAM_INSNS;

/// Kinds of operations. Suffixes: width of the operands in bits; `K` immediate, `X` register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum OpCode {
    Add32K, Add32X, Add64K, Add64X, Sub32K, Sub32X, Sub64K, Sub64X, Mul32K, Mul32X, Mul64K, Mul64X,
    Div32K, Div32X, Div64K, Div64X, Sdiv32K, Sdiv32X, Sdiv64K, Sdiv64X,
    Mod32K, Mod32X, Mod64K, Mod64X, Smod32K, Smod32X, Smod64K, Smod64X,
    Or32K, Or32X, Or64K, Or64X, And32K, And32X, And64K, And64X, Xor32K, Xor32X, Xor64K, Xor64X,
    Lsh32K, Lsh32X, Lsh64K, Lsh64X, Rsh32K, Rsh32X, Rsh64K, Rsh64X, Arsh32K, Arsh32X, Arsh64K, Arsh64X,
    Mov32K, Mov32X, Mov64K, Mov64X, Neg32, Neg64,
    Movsx8To32, Movsx16To32, Movsx8To64, Movsx16To64, Movsx32To64,
    Zext16, Swap16, Swap32, Swap64, Cast,
    Ja, MayGoto,
    Jeq32K, Jeq32X, Jeq64K, Jeq64X, Jne32K, Jne32X, Jne64K, Jne64X, Jset32K, Jset32X, Jset64K, Jset64X,
    Jgt32K, Jgt32X, Jgt64K, Jgt64X, Jge32K, Jge32X, Jge64K, Jge64X,
    Jlt32K, Jlt32X, Jlt64K, Jlt64X, Jle32K, Jle32X, Jle64K, Jle64X,
    Jsgt32K, Jsgt32X, Jsgt64K, Jsgt64X, Jsge32K, Jsge32X, Jsge64K, Jsge64X,
    Jslt32K, Jslt32X, Jslt64K, Jslt64X, Jsle32K, Jsle32X, Jsle64K, Jsle64X,
    Load8, Load16, Load32, Load64, Loads8, Loads16, Loads32,
    Store8K, Store16K, Store32K, Store64K, Store8X, Store16X, Store32X, Store64X,
    Atomic32, Atomic64,
    CallHelper, CallKfunc, CallLocal, CallReg, Exit,
    /// A reference to a function; linking turns it into `Mov64K`.
    FuncPointer,
}

/// A register's number as an index into sixteen. An enumeration and not a number, because the compiler then knows its
/// range and indexes without a check; r11 to r15 exist for that only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum Reg { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15 }

impl Reg {
    #[rustfmt::skip]
    const ALL: [Reg; 16] = [
        Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R6, Reg::R7,
        Reg::R8, Reg::R9, Reg::R10, Reg::R11, Reg::R12, Reg::R13, Reg::R14, Reg::R15,
    ];

    /// The register of this number; numbers were checked before.
    fn new(number: u8) -> Reg {
        debug_assert!(number < REG_COUNT, "the register was checked");
        Reg::ALL[usize::from(number & 15)]
    }
}

/// One decoded instruction, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub(crate) code: OpCode,
    pub(crate) dst: Reg,
    pub(crate) src: Reg,
    /// A failing access is skipped.
    pub(crate) probe: bool,
    /// A skipped load leaves its register alone instead of clearing it.
    pub(crate) keep: bool,
    /// Jumps: index of the target among all operations. Accesses: the displacement. Calls of the host: how many of the five
    /// registers it does not look at.
    pub(crate) off: i32,
    /// The immediate, sign-extended; calls of local functions: index of the target once linked.
    pub(crate) imm: i64,
}

impl Op {
    /// Whether `off` is the index of a target.
    pub(crate) fn is_jump(&self) -> bool {
        (OpCode::Ja as u8..=OpCode::Jsle64X as u8).contains(&(self.code as u8))
    }

    /// Index of the operation that a jump leads to.
    pub(crate) fn target(&self) -> Option<usize> {
        usize::try_from(self.off).ok().filter(|_| self.is_jump())
    }

    /// The function that this operation refers to, before linking.
    pub(crate) fn callee(&self) -> Option<u32> {
        matches!(self.code, OpCode::CallLocal | OpCode::FuncPointer).then_some(self.imm as u32)
    }

    /// Replaces the reference to a function by its entry, or by its value.
    pub(crate) fn link(&mut self, entry: usize) {
        debug_assert!(
            matches!(self.code, OpCode::CallLocal | OpCode::FuncPointer),
            "only calls and addresses of functions are linked"
        );
        if self.code == OpCode::FuncPointer {
            self.code = OpCode::Mov64K;
            self.imm = FuncId(self.imm as u32).to_pointer() as i64;
        } else {
            self.imm = entry as i64;
        }
    }
}

/// A function's operations and the slot of each.
pub(crate) struct Decoded {
    pub(crate) ops: Vec<Op>,
    pub(crate) slots: Vec<u32>,
}

type Fail = CodeErrorKind;

/// Decodes a function whose first operation will have index `first`.
pub(crate) fn function(
    insns: &[Insn],
    marks: &Marks,
    first: usize,
    wide_shifts: bool,
) -> Result<Decoded, (u32, Fail)> {
    if insns.is_empty() || insns.len() > PROGRAM_INSNS.most_len() {
        return Err((0, Fail::BadLength(insns.len())));
    }
    let mut decoded =
        Decoded { ops: Vec::with_capacity(insns.len()), slots: Vec::with_capacity(insns.len()) };
    // For each slot the index of the operation that begins there; u32::MAX in second halves.
    let mut op_of_slot = vec![u32::MAX; insns.len()];
    let mut slot = 0;
    while slot < insns.len() {
        op_of_slot[slot] = (first + decoded.ops.len()) as u32;
        let second = insns.get(slot + 1);
        let decoded_op = one(&insns[slot], second, wide_shifts).map_err(|kind| (slot as u32, kind))?;
        decoded.ops.push(decoded_op);
        decoded.slots.push(slot as u32);
        slot += if insns[slot].is_ld_imm64() { 2 } else { 1 };
    }
    debug_assert_eq!(decoded.ops.len(), decoded.slots.len(), "each operation has a slot");
    finish_jumps(&mut decoded, &op_of_slot)?;
    debug_assert!(
        decoded
            .ops
            .iter()
            .filter_map(Op::target)
            .all(|target| (first..first + decoded.ops.len()).contains(&target)),
        "a jump stays in its function"
    );
    apply_marks(&mut decoded, marks)?;
    let last = decoded.ops.len() - 1;
    if !matches!(decoded.ops[last].code, OpCode::Exit | OpCode::Ja) {
        return Err((decoded.slots[last], Fail::FallsOffEnd));
    }
    Ok(decoded)
}

/// Turns the relative slot offsets of jumps into operation indices.
fn finish_jumps(decoded: &mut Decoded, op_of_slot: &[u32]) -> Result<(), (u32, Fail)> {
    for (decoded_op, slot) in decoded.ops.iter_mut().zip(&decoded.slots) {
        if decoded_op.is_jump() {
            debug_assert!(
                (*slot as usize) < op_of_slot.len(),
                "an operation comes from a slot of the function"
            );
            let target = i64::from(*slot) + 1 + i64::from(decoded_op.off);
            let index = usize::try_from(target).ok().and_then(|target| op_of_slot.get(target));
            match index.filter(|index| **index != u32::MAX) {
                Some(index) => decoded_op.off = *index as i32,
                None => return Err((*slot, Fail::BadJump(target))),
            }
        }
    }
    Ok(())
}

fn apply_marks(decoded: &mut Decoded, marks: &Marks) -> Result<(), (u32, Fail)> {
    for slot in &marks.probe_mem {
        let bad = (*slot, Fail::BadMark);
        let index = decoded.slots.binary_search(slot).map_err(|_| bad.clone())?;
        if !(OpCode::Load8 as u8..=OpCode::Atomic64 as u8).contains(&(decoded.ops[index].code as u8)) {
            return Err(bad);
        }
        decoded.ops[index].probe = true;
    }
    for (slot, count) in &marks.arguments {
        let bad = (*slot, Fail::BadMark);
        let index = decoded.slots.binary_search(slot).map_err(|_| bad.clone())?;
        if !matches!(decoded.ops[index].code, OpCode::CallHelper | OpCode::CallKfunc) {
            return Err(bad);
        }
        decoded.ops[index].off = 5 - i32::from((*count).min(5));
    }
    Ok(())
}

/// Decodes one instruction; jumps keep their relative offset in `off`.
fn one(insn: &Insn, second: Option<&Insn>, wide_shifts: bool) -> Result<Op, Fail> {
    if let Some(bad) = [insn.dst, insn.src].into_iter().find(|register| *register >= REG_COUNT) {
        return Err(Fail::BadRegister(bad));
    }
    match insn.code & 7 {
        op::ALU | op::ALU64 => arithmetic(insn, wide_shifts),
        op::JMP | op::JMP32 => jump(insn),
        op::LDX => load(insn),
        op::ST | op::STX => store(insn),
        _ => immediate64(insn, second),
    }
}

fn plain(code: OpCode, insn: &Insn) -> Op {
    Op {
        code,
        dst: Reg::new(insn.dst),
        src: Reg::new(insn.src),
        probe: false,
        keep: false,
        off: i32::from(insn.off),
        imm: i64::from(insn.imm),
    }
}

fn require(ok: bool, insn: &Insn) -> Result<(), Fail> {
    if ok { Ok(()) } else { Err(Fail::ReservedField(*insn)) }
}

fn writable(register: u8) -> Result<(), Fail> {
    if register == FRAME_POINTER { Err(Fail::FramePointerWrite) } else { Ok(()) }
}

fn immediate64(insn: &Insn, second: Option<&Insn>) -> Result<Op, Fail> {
    debug_assert_eq!(insn.code & 7, op::LD, "the class was looked at");
    match (insn.code, insn.code & 0xe0) {
        (op::LD_IMM64, _) => {}
        (_, op::ABS) => return Err(Fail::Unsupported("legacy packet load (ld_abs)")),
        (_, op::IND) => return Err(Fail::Unsupported("legacy packet load (ld_ind)")),
        _ => return Err(Fail::UnknownOpcode(*insn)),
    }
    writable(insn.dst)?;
    require(insn.off == 0, insn)?;
    let blank = |second: &&Insn| second.code == 0 && second.dst == 0 && second.src == 0 && second.off == 0;
    let high = second.filter(blank).ok_or(Fail::TornImmediate)?.imm;
    let mut decoded = plain(OpCode::Mov64K, insn);
    decoded.src = Reg::R0;
    match insn.src {
        0 => decoded.imm = (u64::from(high as u32) << 32 | u64::from(insn.imm as u32)) as i64,
        op::PSEUDO_FUNC => {
            decoded.code = OpCode::FuncPointer;
            decoded.imm = i64::from(insn.imm as u32);
        }
        other => return Err(Fail::UnresolvedSource(other)),
    }
    Ok(decoded)
}

fn arithmetic(insn: &Insn, wide_shifts: bool) -> Result<Op, Fail> {
    debug_assert!(matches!(insn.code & 7, op::ALU | op::ALU64), "the class was looked at");
    writable(insn.dst)?;
    let wide = insn.code & 7 == op::ALU64;
    let register = insn.code & op::X != 0;
    match insn.code & 0xf0 {
        op::END => return byte_order(insn, wide, register),
        op::MOV if register && insn.off != 0 => return special_move(insn, wide),
        op::NEG => {
            if register {
                return Err(Fail::UnknownOpcode(*insn));
            }
            require(insn.src == 0 && insn.off == 0 && insn.imm == 0, insn)?;
            return Ok(plain(if wide { OpCode::Neg64 } else { OpCode::Neg32 }, insn));
        }
        _ => {}
    }
    require(if register { insn.imm == 0 } else { insn.src == 0 }, insn)?;
    let codes = arithmetic_codes(insn)?;
    let shift = matches!(insn.code & 0xf0, op::LSH | op::RSH | op::ARSH) && !register;
    let width = if wide { 64 } else { 32 };
    if shift && !(0..width).contains(&insn.imm) && !wide_shifts {
        return Err(Fail::BadShift(insn.imm));
    }
    Ok(plain(codes[usize::from(wide) * 2 + usize::from(register)], insn))
}

/// The four forms of an operation: 32 bits with immediate and register, then 64 bits.
#[rustfmt::skip]
fn arithmetic_codes(insn: &Insn) -> Result<[OpCode; 4], Fail> {
    use OpCode::*;
    let codes = match (insn.code & 0xf0, insn.off) {
        (op::ADD, 0) => [Add32K, Add32X, Add64K, Add64X],
        (op::SUB, 0) => [Sub32K, Sub32X, Sub64K, Sub64X],
        (op::MUL, 0) => [Mul32K, Mul32X, Mul64K, Mul64X],
        (op::DIV, 0) => [Div32K, Div32X, Div64K, Div64X],
        (op::DIV, 1) => [Sdiv32K, Sdiv32X, Sdiv64K, Sdiv64X],
        (op::MOD, 0) => [Mod32K, Mod32X, Mod64K, Mod64X],
        (op::MOD, 1) => [Smod32K, Smod32X, Smod64K, Smod64X],
        (op::OR, 0) => [Or32K, Or32X, Or64K, Or64X],
        (op::AND, 0) => [And32K, And32X, And64K, And64X],
        (op::XOR, 0) => [Xor32K, Xor32X, Xor64K, Xor64X],
        (op::LSH, 0) => [Lsh32K, Lsh32X, Lsh64K, Lsh64X],
        (op::RSH, 0) => [Rsh32K, Rsh32X, Rsh64K, Rsh64X],
        (op::ARSH, 0) => [Arsh32K, Arsh32X, Arsh64K, Arsh64X],
        (op::MOV, 0) => [Mov32K, Mov32X, Mov64K, Mov64X],
        (operation, _) if operation > op::END => return Err(Fail::UnknownOpcode(*insn)),
        _ => return Err(Fail::ReservedField(*insn)),
    };
    Ok(codes)
}

fn byte_order(insn: &Insn, wide: bool, big: bool) -> Result<Op, Fail> {
    debug_assert_eq!(insn.code & 0xf0, op::END, "the operation was looked at");
    require(insn.src == 0 && insn.off == 0, insn)?;
    // The guest is little-endian: conversion to little-endian only cuts, to big-endian swaps.
    let code = match (wide, big, insn.imm) {
        (true, true, _) => return Err(Fail::UnknownOpcode(*insn)),
        (true, false, 16) | (false, true, 16) => OpCode::Swap16,
        (true, false, 32) | (false, true, 32) => OpCode::Swap32,
        (true, false, 64) | (false, true, 64) => OpCode::Swap64,
        (false, false, 16) => OpCode::Zext16,
        (false, false, 32) => OpCode::Mov32X,
        (false, false, 64) => OpCode::Mov64X,
        _ => return Err(Fail::UnknownOpcode(*insn)),
    };
    let mut decoded = plain(code, insn);
    decoded.src = decoded.dst;
    Ok(decoded)
}

fn special_move(insn: &Insn, wide: bool) -> Result<Op, Fail> {
    debug_assert_ne!(insn.off, 0, "a plain move has no offset");
    let code = match (wide, insn.off) {
        (true, op::ADDR_SPACE_CAST) if insn.imm == 1 || insn.imm == 1 << 16 => OpCode::Cast,
        (true, op::ADDR_SPACE_CAST) => return Err(Fail::ReservedField(*insn)),
        (true, 8) => OpCode::Movsx8To64,
        (true, 16) => OpCode::Movsx16To64,
        (true, 32) => OpCode::Movsx32To64,
        (false, 8) => OpCode::Movsx8To32,
        (false, 16) => OpCode::Movsx16To32,
        _ => return Err(Fail::ReservedField(*insn)),
    };
    require(code == OpCode::Cast || insn.imm == 0, insn)?;
    Ok(plain(code, insn))
}

fn jump(insn: &Insn) -> Result<Op, Fail> {
    debug_assert!(matches!(insn.code & 7, op::JMP | op::JMP32), "the class was looked at");
    let wide = insn.code & 7 == op::JMP;
    let register = insn.code & op::X != 0;
    let no_registers = insn.dst == 0 && insn.src == 0;
    match (insn.code & 0xf0, wide) {
        (op::JA, _) if register => Err(Fail::Unsupported("indirect jump (gotox)")),
        (op::JA, true) => {
            require(no_registers && insn.imm == 0, insn)?;
            Ok(plain(OpCode::Ja, insn))
        }
        (op::JA, false) => {
            require(no_registers && insn.off == 0, insn)?;
            Ok(Op { off: insn.imm, imm: 0, ..plain(OpCode::Ja, insn) })
        }
        (op::JCOND, true) if !register => {
            require(no_registers && insn.imm == 0, insn)?;
            Ok(plain(OpCode::MayGoto, insn))
        }
        (op::EXIT, true) if !register => {
            require(no_registers && insn.off == 0 && insn.imm == 0, insn)?;
            Ok(plain(OpCode::Exit, insn))
        }
        (op::CALL, true) => call(insn, register),
        _ => {
            require(if register { insn.imm == 0 } else { insn.src == 0 }, insn)?;
            let codes = jump_codes(insn)?;
            Ok(plain(codes[usize::from(wide) * 2 + usize::from(register)], insn))
        }
    }
}

/// The four forms of a comparison: 32 bits with immediate and register, then 64 bits.
#[rustfmt::skip]
fn jump_codes(insn: &Insn) -> Result<[OpCode; 4], Fail> {
    use OpCode::*;
    let codes = match insn.code & 0xf0 {
        op::JEQ => [Jeq32K, Jeq32X, Jeq64K, Jeq64X],
        op::JNE => [Jne32K, Jne32X, Jne64K, Jne64X],
        op::JSET => [Jset32K, Jset32X, Jset64K, Jset64X],
        op::JGT => [Jgt32K, Jgt32X, Jgt64K, Jgt64X],
        op::JGE => [Jge32K, Jge32X, Jge64K, Jge64X],
        op::JLT => [Jlt32K, Jlt32X, Jlt64K, Jlt64X],
        op::JLE => [Jle32K, Jle32X, Jle64K, Jle64X],
        op::JSGT => [Jsgt32K, Jsgt32X, Jsgt64K, Jsgt64X],
        op::JSGE => [Jsge32K, Jsge32X, Jsge64K, Jsge64X],
        op::JSLT => [Jslt32K, Jslt32X, Jslt64K, Jslt64X],
        op::JSLE => [Jsle32K, Jsle32X, Jsle64K, Jsle64X],
        _ => return Err(Fail::UnknownOpcode(*insn)),
    };
    Ok(codes)
}

fn call(insn: &Insn, register: bool) -> Result<Op, Fail> {
    debug_assert_eq!(insn.code & 0xf0, op::CALL, "the operation was looked at");
    if register {
        // LLVM has put the register into the destination field since 19, into the immediate before.
        require(insn.src == 0 && insn.off == 0 && (insn.imm == 0 || insn.dst == 0), insn)?;
        let holder = if insn.imm == 0 { i32::from(insn.dst) } else { insn.imm };
        let valid = u8::try_from(holder).ok().filter(|holder| *holder < REG_COUNT);
        let dst = valid.ok_or(Fail::BadRegister(holder.clamp(0, 255) as u8))?;
        return Ok(Op { dst: Reg::new(dst), imm: 0, ..plain(OpCode::CallReg, insn) });
    }
    // The offset of a kernel function's call picks a module's BTF; the linker folds it into its index.
    require(insn.dst == 0 && insn.off == 0, insn)?;
    let code = match insn.src {
        op::CALL_HELPER => OpCode::CallHelper,
        op::CALL_LOCAL => OpCode::CallLocal,
        op::CALL_KFUNC => OpCode::CallKfunc,
        other => return Err(Fail::UnresolvedSource(other)),
    };
    Ok(Op { imm: i64::from(insn.imm as u32), ..plain(code, insn) })
}

fn load(insn: &Insn) -> Result<Op, Fail> {
    debug_assert_eq!(insn.code & 7, op::LDX, "the class was looked at");
    writable(insn.dst)?;
    require(insn.imm == 0, insn)?;
    let code = match (insn.code & 0xe0, insn.code & 0x18) {
        (op::MEM, size) => load_code(size),
        (op::MEMSX, op::B) => OpCode::Loads8,
        (op::MEMSX, op::H) => OpCode::Loads16,
        (op::MEMSX, op::W) => OpCode::Loads32,
        _ => return Err(Fail::UnknownOpcode(*insn)),
    };
    Ok(plain(code, insn))
}

fn load_code(size: u8) -> OpCode {
    debug_assert_eq!(size & !0x18, 0, "a size has two bits");
    match size {
        op::B => OpCode::Load8,
        op::H => OpCode::Load16,
        op::W => OpCode::Load32,
        _ => OpCode::Load64,
    }
}

fn store(insn: &Insn) -> Result<Op, Fail> {
    debug_assert!(matches!(insn.code & 7, op::ST | op::STX), "the class was looked at");
    let register = insn.code & 7 == op::STX;
    match insn.code & 0xe0 {
        op::MEM => {
            require(if register { insn.imm == 0 } else { insn.src == 0 }, insn)?;
            Ok(plain(store_code(insn.code & 0x18, register), insn))
        }
        op::ATOMIC if register => atomic(insn),
        _ => Err(Fail::UnknownOpcode(*insn)),
    }
}

fn store_code(size: u8, register: bool) -> OpCode {
    debug_assert_eq!(size & !0x18, 0, "a size has two bits");
    use OpCode::*;
    let [k, x] = match size {
        op::B => [Store8K, Store8X],
        op::H => [Store16K, Store16X],
        op::W => [Store32K, Store32X],
        _ => [Store64K, Store64X],
    };
    if register { x } else { k }
}

fn atomic(insn: &Insn) -> Result<Op, Fail> {
    debug_assert_eq!(insn.code & 7, op::STX, "an atomic operation takes a register");
    let size = insn.code & 0x18;
    match insn.imm {
        // Nothing runs beside the program, so an acquiring load is a plain one; but its failure is an atomic's.
        op::LOAD_ACQ => {
            writable(insn.dst)?;
            return Ok(Op { keep: true, ..plain(load_code(size), insn) });
        }
        op::STORE_REL => return Ok(plain(store_code(size, true), insn)),
        _ => {}
    }
    let fetch = insn.imm & op::FETCH != 0;
    match insn.imm & !op::FETCH {
        0x00 | 0x40 | 0x50 | 0xa0 => {}
        0xe0 | 0xf0 if fetch => {}
        _ => return Err(Fail::UnknownOpcode(*insn)),
    }
    if fetch && insn.imm != op::CMPXCHG {
        writable(insn.src)?;
    }
    match size {
        op::W => Ok(plain(OpCode::Atomic32, insn)),
        op::DW => Ok(plain(OpCode::Atomic64, insn)),
        _ => Err(Fail::UnknownOpcode(*insn)),
    }
}
