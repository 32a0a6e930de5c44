//! Which instructions of a function can be reached, following constants: what the kernel's verifier would prune.
//!
//! A forward analysis over registers that hold known values: immediates, addresses put in by the linker, and loads
//! from frozen data (`const volatile` options, kernel configuration). It follows both sides of a branch unless both
//! operands are known. Values on the stack or in other functions are not followed, so it finds less dead code than the
//! verifier, never more.

use crate::insn::{Insn, op};
use crate::limits::Steps;

/// Registers with known values.
#[derive(Clone, Copy)]
struct Known {
    /// What each holds, if it is known; else 0.
    values: [u64; 11],
    /// Those that are known, by bit.
    known: u16,
}

impl Known {
    const NOTHING: Known = Known { values: [0; 11], known: 0 };

    fn get(&self, register: usize) -> Option<u64> {
        (self.known >> register & 1 != 0).then(|| self.values[register])
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        self.values[register] = value.unwrap_or(0);
        self.known = self.known & !(1 << register) | u16::from(value.is_some()) << register;
    }
}

/// For each slot, whether execution can reach it; `constant` reads frozen data (address, bytes). When `steps` ran out, the
/// answer means nothing.
pub(super) fn reachable(
    insns: &[Insn],
    constant: impl Fn(u64, u64) -> Option<u64>,
    steps: &Steps,
) -> Vec<bool> {
    let mut states: Vec<Option<Known>> = vec![None; insns.len()];
    let mut work = Vec::new();
    if !insns.is_empty() {
        states[0] = Some(Known::NOTHING);
        work.push(0usize);
    }
    while let Some(at) = work.pop() {
        let Some(state) = states[at].filter(|_| steps.take(1)) else {
            continue;
        };
        let insn = insns[at];
        let mut after = state;
        step(insns, at, &mut after, &constant);
        for slot in ways(insn, at, &state).into_iter().flatten() {
            if states.get_mut(slot).is_some_and(|into| join(into, &after)) {
                work.push(slot);
            }
        }
    }
    let mut out: Vec<bool> = states.iter().map(Option::is_some).collect();
    // The second slot of a 64-bit constant belongs to the first.
    for at in 0..insns.len().saturating_sub(1) {
        if insns[at].is_ld_imm64() && out[at] {
            out[at + 1] = true;
        }
    }
    out
}

/// Merges a state into a slot's; says whether the slot changed.
fn join(into: &mut Option<Known>, from: &Known) -> bool {
    let Some(old) = into else {
        *into = Some(*from);
        return true;
    };
    let before = old.known;
    old.known &= from.known;
    for register in 0..old.values.len() {
        if old.get(register) != from.get(register) {
            old.set(register, None);
        }
    }
    old.known != before
}

/// Applies one instruction to the state.
fn step(insns: &[Insn], at: usize, known: &mut Known, constant: &impl Fn(u64, u64) -> Option<u64>) {
    let insn = insns[at];
    let (dst, src) = (usize::from(insn.dst.min(10)), usize::from(insn.src.min(10)));
    match insn.code & 7 {
        op::LD if insn.is_ld_imm64() => {
            let high = insns.get(at + 1).map_or(0, |i| i.imm as u32);
            let value = u64::from(insn.imm as u32) | u64::from(high) << 32;
            known.set(dst, (insn.src == 0).then_some(value));
        }
        op::LDX => {
            let size = 1u64 << [2, 1, 0, 3][usize::from(insn.code >> 3 & 3)];
            let addr = known.get(src).map(|a| a.wrapping_add(i64::from(insn.off) as u64));
            let value = addr.filter(|_| insn.code & 0xe0 == op::MEM).and_then(|a| constant(a, size));
            known.set(dst, value);
        }
        op::ALU | op::ALU64 => known.set(dst, arithmetic(insn, known.get(dst), known.get(src))),
        op::JMP if insn.code & 0xf0 == op::CALL => (0..6).for_each(|register| known.set(register, None)),
        op::STX if insn.code & 0xe0 == op::ATOMIC => {
            // Fetching forms change the source register or r0.
            known.set(src, None);
            known.set(0, None);
            if insn.imm == op::LOAD_ACQ {
                known.set(dst, None);
            }
        }
        _ => {}
    }
}

/// The result of an arithmetic instruction on known operands; `None` for the rarer operations.
fn arithmetic(insn: Insn, dst: Option<u64>, src: Option<u64>) -> Option<u64> {
    let wide = insn.code & 7 == op::ALU64;
    if insn.off != 0 {
        return None;
    }
    let b = if insn.code & op::X != 0 { src } else { Some(i64::from(insn.imm) as u64) };
    let operation = insn.code & 0xf0;
    if operation == op::MOV {
        return b.map(|v| if wide { v } else { v & 0xffff_ffff });
    }
    let (a, b) = (dst?, b?);
    let (a, b) = if wide { (a, b) } else { (a & 0xffff_ffff, b & 0xffff_ffff) };
    let shift = (b & if wide { 63 } else { 31 }) as u32;
    let value = match operation {
        op::ADD => a.wrapping_add(b),
        op::SUB => a.wrapping_sub(b),
        op::MUL => a.wrapping_mul(b),
        op::OR => a | b,
        op::AND => a & b,
        op::XOR => a ^ b,
        op::LSH => a << shift,
        op::RSH => a >> shift,
        op::ARSH if wide => ((a as i64) >> shift) as u64,
        op::ARSH => ((a as u32 as i32) >> shift) as u32 as u64,
        _ => return None,
    };
    Some(if wide { value } else { value & 0xffff_ffff })
}

/// Where execution goes on: one side of a branch whose operands are known.
fn ways(insn: Insn, at: usize, known: &Known) -> [Option<usize>; 2] {
    let [next, jump] = insn.successors(at);
    match next.and(jump).and_then(|_| taken(insn, known)) {
        Some(true) => [jump, None],
        Some(false) => [next, None],
        None => [next, jump],
    }
}

/// Whether a conditional jump is taken, if both operands are known.
fn taken(insn: Insn, known: &Known) -> Option<bool> {
    let a = known.get(usize::from(insn.dst.min(10)))?;
    let b = if insn.code & op::X != 0 {
        known.get(usize::from(insn.src.min(10)))?
    } else {
        i64::from(insn.imm) as u64
    };
    let narrow = insn.code & 7 == op::JMP32;
    let (a, b) = if narrow { (a & 0xffff_ffff, b & 0xffff_ffff) } else { (a, b) };
    let (sa, sb) =
        if narrow { (i64::from(a as u32 as i32), i64::from(b as u32 as i32)) } else { (a as i64, b as i64) };
    Some(match insn.code & 0xf0 {
        op::JEQ => a == b,
        op::JNE => a != b,
        op::JGT => a > b,
        op::JGE => a >= b,
        op::JLT => a < b,
        op::JLE => a <= b,
        op::JSET => a & b != 0,
        op::JSGT => sa > sb,
        op::JSGE => sa >= sb,
        op::JSLT => sa < sb,
        op::JSLE => sa <= sb,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_on_frozen_data_has_one_side() {
        let [lo, hi] = Insn::ld_imm64(1, 0, 0x1000);
        let program = [
            lo,
            hi,
            Insn::load(op::B, 2, 1, 4),
            Insn::jump_imm(op::JEQ, 2, 0, 1),
            Insn::call_helper(999),
            Insn::alu64_imm(op::MOV, 0, 0),
            Insn::exit(),
        ];
        let with =
            |value| reachable(&program, move |a, s| ((a, s) == (0x1004, 1)).then_some(value), &Steps::new());
        assert!(!with(0)[4]);
        assert!(with(1)[4]);
        assert!(reachable(&program, |_, _| None, &Steps::new())[4], "unknown data: both sides");
    }

    #[test]
    fn a_loop_that_changes_a_register_makes_it_unknown() {
        let program = [
            Insn::alu64_imm(op::MOV, 1, 0),
            Insn::alu64_imm(op::ADD, 1, 1),
            Insn::jump_imm(op::JNE, 1, 10, -2),
            Insn::exit(),
        ];
        assert!(reachable(&program, |_, _| None, &Steps::new())[3]);
    }
}
