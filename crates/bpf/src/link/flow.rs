//! Which instructions of a function can be reached, following constants: what the kernel's verifier would prune.
//!
//! A forward analysis over registers that hold known values: immediates, addresses put in by the linker, and loads
//! from frozen data (`const volatile` options, kernel configuration). It follows both sides of a branch unless both
//! operands are known. Values on the stack or in other functions are not followed, so it finds less dead code than the
//! verifier, never more.
//!
//! It follows addresses of functions too, to the calls that they are handed to: a compiler loads them before the branch
//! that decides, so that a load that is reached does not mean that its function is called.

use crate::insn::{Insn, op};
use crate::limits::Steps;
use std::collections::BTreeSet;

/// Registers with known values.
#[derive(Clone, Copy)]
struct Known {
    /// What each holds, if it is known; else 0.
    values: [u64; 11],
    /// The registers that are known, by bit.
    known: u16,
    /// Which loads of a function's address each may stem from, by bit.
    functions: [u64; 11],
}

impl Known {
    const NOTHING: Known = Known { values: [0; 11], known: 0, functions: [0; 11] };

    fn get(&self, register: usize) -> Option<u64> {
        debug_assert!(register < self.values.len(), "there are eleven registers");
        (self.known >> register & 1 != 0).then(|| self.values[register])
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        debug_assert!(register < self.values.len(), "there are eleven registers");
        self.values[register] = value.unwrap_or(0);
        self.known = self.known & !(1 << register) | u16::from(value.is_some()) << register;
    }

    /// A register no longer holds the address of a function, or one of those that another holds.
    fn hand_on(&mut self, dst: usize, functions: u64) {
        self.functions[dst] = functions;
    }
}

/// What execution of a function can reach.
pub(super) struct Reached {
    /// For each slot, whether it can be reached.
    pub(super) slots: Vec<bool>,
    /// Addresses of functions that are handed to calls: slot of the call, slot of the load.
    pub(super) handed: BTreeSet<(u32, u32)>,
}

/// What execution can reach; `constant` reads frozen data (address, bytes), and `loads` are the slots that load addresses of
/// functions, of which the first 64 are followed. When `steps` ran out, the answer means nothing.
pub(super) fn reached(
    insns: &[Insn],
    loads: &[usize],
    constant: impl Fn(u64, u64) -> Option<u64>,
    steps: &Steps,
) -> Reached {
    debug_assert!(loads.iter().all(|load| *load < insns.len()), "a load is one of the function");
    let meets = Meetings::of(insns);
    let mut states: Vec<Option<Known>> = vec![None; meets.count];
    let mut reached = Reached { slots: vec![false; insns.len()], handed: BTreeSet::new() };
    let mut work = Vec::new();
    if !insns.is_empty() {
        states[0] = Some(Known::NOTHING);
        work.push(0usize);
    }
    while let Some(begin) = work.pop() {
        let Some(mut state) = meets.at(begin).and_then(|place| states[place]) else { continue };
        let mut next = Some(begin);
        while let Some(at) = next.take().filter(|_| steps.take(1)) {
            let insn = insns[at];
            reached.slots[at] = true;
            if insn.code == op::CALL_K && !loads.is_empty() {
                reached.hand(at, loads, &state);
            }
            let ways = ways(insn, at, &state);
            step(insns, at, &mut state, &constant);
            if insn.is_ld_imm64()
                && let Some(place) = loads.iter().take(64).position(|load| *load == at)
            {
                state.set(usize::from(insn.dst.min(10)), None);
                state.hand_on(usize::from(insn.dst.min(10)), 1 << place);
            }
            for slot in ways.into_iter().flatten().filter(|slot| *slot < insns.len()) {
                match meets.at(slot) {
                    Some(place) if join(&mut states[place], &state) => work.push(slot),
                    Some(_) => {}
                    None => next = Some(slot),
                }
            }
        }
    }
    // The second slot of a 64-bit constant belongs to the first.
    for (at, _) in insns.iter().enumerate().filter(|(_, insn)| insn.is_ld_imm64()) {
        if reached.slots[at] && at + 1 < insns.len() {
            reached.slots[at + 1] = true;
        }
    }
    reached
}

impl Reached {
    /// Takes down the addresses of functions that a call is handed.
    fn hand(&mut self, call: usize, loads: &[usize], state: &Known) {
        let functions = state.functions[1..6].iter().fold(0, |all, functions| all | functions);
        let handed = loads.iter().enumerate().take(64).filter(|(place, _)| functions >> place & 1 != 0);
        self.handed.extend(handed.map(|(_, load)| (call as u32, *load as u32)));
    }
}

/// The slots at which states can meet: the first one, what jumps lead to, and what follows a conditional jump. In between, one
/// state is enough.
struct Meetings {
    /// For each slot its number among them, else [`Meetings::NONE`].
    places: Vec<u32>,
    count: usize,
}

impl Meetings {
    const NONE: u32 = u32::MAX;

    fn of(insns: &[Insn]) -> Meetings {
        let mut meets = Meetings { places: vec![Meetings::NONE; insns.len()], count: 0 };
        meets.add(0);
        for (at, insn) in insns.iter().enumerate() {
            let straight = at + 1 + usize::from(insn.is_ld_imm64());
            match insn.successors(at) {
                [Some(one), None] | [None, Some(one)] if one == straight => {}
                ways => ways.into_iter().flatten().for_each(|way| meets.add(way)),
            }
        }
        meets
    }

    fn add(&mut self, slot: usize) {
        if let Some(place) = self.places.get_mut(slot).filter(|place| **place == Meetings::NONE) {
            *place = self.count as u32;
            self.count += 1;
        }
    }

    fn at(&self, slot: usize) -> Option<usize> {
        let place = *self.places.get(slot)?;
        (place != Meetings::NONE).then_some(place as usize)
    }
}

/// Merges a state into a slot's; says whether the slot changed.
fn join(into: &mut Option<Known>, from: &Known) -> bool {
    let Some(old) = into else {
        *into = Some(*from);
        return true;
    };
    let before = (old.known, old.functions);
    old.known &= from.known;
    for register in 0..old.values.len() {
        old.functions[register] |= from.functions[register];
        if old.get(register) != from.get(register) {
            old.set(register, None);
        }
    }
    (old.known, old.functions) != before
}

/// Applies one instruction to the state.
fn step(insns: &[Insn], at: usize, known: &mut Known, constant: &impl Fn(u64, u64) -> Option<u64>) {
    let insn = insns[at];
    let (dst, src) = (usize::from(insn.dst.min(10)), usize::from(insn.src.min(10)));
    match insn.code & 7 {
        op::ALU64 if insn.code & 0xf0 == op::MOV && insn.code & op::X != 0 && insn.off == 0 => {
            known.hand_on(dst, known.functions[src]);
        }
        op::LD | op::LDX | op::ALU | op::ALU64 => known.hand_on(dst, 0),
        op::JMP if insn.code & 0xf0 == op::CALL => (0..6).for_each(|register| known.hand_on(register, 0)),
        _ => {}
    }
    match insn.code & 7 {
        op::LD if insn.is_ld_imm64() => {
            let high = insns.get(at + 1).map_or(0, |i| i.imm as u32);
            let value = u64::from(insn.imm as u32) | u64::from(high) << 32;
            known.set(dst, (insn.src == 0).then_some(value));
        }
        op::LDX => {
            let size = 1u64 << [2, 1, 0, 3][usize::from(insn.code >> 3 & 3)];
            debug_assert!(size.is_power_of_two() && size <= 8, "a load is of 1, 2, 4 or 8 bytes");
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
    debug_assert!(shift < 64, "a shift stays below the register's width");
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

/// Where execution continues: one side of a branch whose operands are known.
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
    debug_assert!(matches!(insn.code & 7, op::JMP | op::JMP32), "only jumps have two ways");
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

    fn reachable(insns: &[Insn], constant: impl Fn(u64, u64) -> Option<u64>) -> Vec<bool> {
        reached(insns, &[], constant, &Steps::new()).slots
    }

    /// Both addresses are loaded before the branch; frozen data say which one is handed on.
    #[test]
    fn addresses_of_functions_are_followed_to_their_calls() {
        let load = |dst, value| Insn::ld_imm64(dst, 0, value);
        let program = [
            load(1, 0x1000).to_vec(),
            vec![Insn::load(op::B, 3, 1, 0)],
            load(2, 7).to_vec(),
            vec![Insn::jump_imm(op::JEQ, 3, 0, 2)],
            load(2, 8).to_vec(),
            vec![Insn::call_helper(170), Insn::call_helper(5), Insn::exit()],
        ]
        .concat();
        let handed = |value: Option<u64>| {
            let found = reached(&program, &[3, 6], move |_, _| value, &Steps::new());
            found.handed.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(handed(Some(0)), [(8, 3)]);
        assert_eq!(handed(Some(1)), [(8, 6)]);
        assert_eq!(handed(None), [(8, 3), (8, 6)]);
    }

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
        let with = |value| reachable(&program, move |a, s| ((a, s) == (0x1004, 1)).then_some(value));
        assert!(!with(0)[4]);
        assert!(with(1)[4]);
        assert!(reachable(&program, |_, _| None)[4], "unknown data: both sides");
    }

    #[test]
    fn a_loop_that_changes_a_register_makes_it_unknown() {
        let program = [
            Insn::alu64_imm(op::MOV, 1, 0),
            Insn::alu64_imm(op::ADD, 1, 1),
            Insn::jump_imm(op::JNE, 1, 10, -2),
            Insn::exit(),
        ];
        assert!(reachable(&program, |_, _| None)[3]);
    }
}
