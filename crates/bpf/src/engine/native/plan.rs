//! Which accesses need a check of their own: those by one pointer are checked together where that can be.
//!
//! A stretch is code that is entered at its head only: it goes on over conditional jumps that are not taken, and ends before
//! the targets of jumps and behind calls that could take a page away ([`crate::engine::KEEPS_PAGES`] cannot). Accesses
//! whose addresses differ by constants from one another form a group; the first of them (the lead) checks the bytes from
//! the lowest to the highest, and the others go straight to memory. Where that check fails, control goes to a copy of the
//! stretch in which each access is checked alone.
//!
//! What is told here is relied on: an access that goes without a check lies in what its lead has checked, whatever the
//! program's registers held.

use super::LOOKUP;
use crate::code::{Code, Op, OpCode};
use crate::memory::{FRAME_SIZE, NO_LINES, PAGE_SIZE};
use std::collections::BTreeMap;

/// Accesses whose distance from their origin lies in the same so many bytes are checked together. Chosen: what mostly lies in
/// one page, and more than the members that a program looks at at once.
const WINDOW: i64 = 1024;
/// Most that a known distance may be, so that displacements have room.
const MOST_DISTANCE: i64 = 1 << 20;

/// How an access is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Alone.
    Single,
    /// With its group.
    Lead(Group),
    /// By its lead, or by nobody: it lies in the function's own frame.
    Done,
}

/// What the lead of a group checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// First byte, from what the lead's register holds; the address itself where that is `constant`.
    pub(super) from: i32,
    /// Bytes.
    pub(super) len: i32,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// The address is known, and all bytes lie in one page.
    pub(super) constant: bool,
    /// The first lead of the stretch, and the operation behind it.
    pub(super) first: usize,
    pub(super) end: usize,
}

/// The checks of all operations.
pub(super) struct Plan {
    checks: Vec<Check>,
    /// By operation: the running CPU has the line of its access for certain. It lies in the own frame, or an earlier access
    /// of the stretch has had the same place, and has written it if this one does.
    has_line: Vec<bool>,
    /// By operation that calls `bpf_map_lookup_elem()` for a known map with a key in the function's own frame.
    lookups: BTreeMap<usize, Lookup>,
}

/// What a look-up is known to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// The value that stands for the map.
    pub(super) map: u64,
    /// The key's distance from the frame pointer; a key of 4 bytes lies in the frame.
    pub(super) key: i32,
}

impl Plan {
    /// Those of an image; `heads` are the operations at which stretches begin.
    pub(super) fn new(code: &Code, heads: &[bool]) -> Plan {
        let (count, lookups) = (code.ops.len(), BTreeMap::new());
        let mut plan = Plan { checks: vec![Check::Single; count], has_line: vec![false; count], lookups };
        let mut stretch = Stretch::default();
        for (pc, op) in code.ops.iter().enumerate() {
            if heads[pc] {
                plan.settle(std::mem::take(&mut stretch), pc);
            }
            if let Some(access) = stretch.access(pc, op) {
                match access {
                    Found::OwnFrame => {
                        plan.checks[pc] = Check::Done;
                        plan.has_line[pc] = true;
                    }
                    Found::By(place, access) => {
                        let before = stretch.groups.entry(place).or_default();
                        // Where the address is known the line is.
                        let shift = if place.0 == Origin::Number { code.line_shift } else { 0 };
                        let same = |earlier: &Access| {
                            earlier.at >> shift == access.at >> shift && (earlier.writes || !access.writes)
                        };
                        plan.has_line[pc] = code.line_shift != NO_LINES && before.iter().any(same);
                        before.push(access);
                    }
                }
            }
            if let Some(lookup) = stretch.lookup(op) {
                plan.lookups.insert(pc, lookup);
            }
            stretch.follow(op);
        }
        plan.settle(stretch, code.ops.len());
        plan
    }

    /// What the look-up that operation `pc` calls asks for, as far as it is known.
    pub(super) fn lookup(&self, pc: usize) -> Option<Lookup> {
        self.lookups.get(&pc).copied()
    }

    /// How operation `pc` is checked.
    pub(super) fn check(&self, pc: usize) -> Check {
        self.checks[pc]
    }

    /// Whether the running CPU certainly has the line of operation `pc`'s access.
    pub(super) fn has_line(&self, pc: usize) -> bool {
        self.has_line[pc]
    }

    /// Forms the groups of a stretch that ends before operation `end`.
    fn settle(&mut self, stretch: Stretch, end: usize) {
        let mut leads = Vec::new();
        for ((origin, _), accesses) in stretch.groups {
            // A single store is often one to a kernel object, which the host does, among loads that could go together.
            let lone = accesses.iter().filter(|access| access.writes).count() == 1;
            let members: Vec<&Access> = accesses.iter().filter(|access| !(lone && access.writes)).collect();
            if members.len() > 1 {
                leads.extend(self.group(origin == Origin::Number, &members, end));
            }
        }
        let first = leads.iter().copied().min().unwrap_or(end);
        for lead in leads {
            if let Check::Lead(group) = &mut self.checks[lead] {
                group.first = first;
            }
        }
    }

    /// Makes a group of these accesses; says which is its lead.
    fn group(&mut self, constant: bool, members: &[&Access], end: usize) -> Option<usize> {
        let lead = members[0];
        let low = members.iter().map(|access| access.at).min().unwrap_or(lead.at);
        let high = members.iter().map(|access| access.at + access.size).max().unwrap_or(lead.at);
        let from = if constant { low } else { low - lead.distance };
        let (Ok(from), Ok(len)) = (i32::try_from(from), i32::try_from(high - low)) else { return None };
        members.iter().for_each(|access| self.checks[access.pc] = Check::Done);
        let reads = members.iter().any(|access| access.reads);
        let writes = members.iter().any(|access| access.writes);
        self.checks[lead.pc] = Check::Lead(Group { from, len, reads, writes, constant, first: lead.pc, end });
        Some(lead.pc)
    }
}

/// Where a value comes from: values of one origin differ by a known distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// None: the number itself is known.
    Number,
    /// The function's frame pointer.
    Frame,
    /// What some operation of the stretch, or what was before it, left in a register.
    Value(u32),
}

/// A value that a register holds.
#[derive(Clone, Copy, Debug)]
struct Value {
    origin: Origin,
    /// How far it is from its origin; the number itself where that is known.
    distance: i64,
}

/// An access by a register: where it is from the register's origin, and how far the register is.
#[derive(Clone, Copy, Debug)]
struct Access {
    pc: usize,
    at: i64,
    size: i64,
    distance: i64,
    reads: bool,
    writes: bool,
}

/// An origin, and which of its windows; of known numbers the page.
type Place = (Origin, i64);

enum Found {
    OwnFrame,
    By(Place, Access),
}

/// A stretch so far.
struct Stretch {
    /// By register.
    values: [Value; 16],
    origins: u32,
    groups: BTreeMap<Place, Vec<Access>>,
}

impl Default for Stretch {
    /// Nothing is known of the registers but what r10 is.
    fn default() -> Stretch {
        let mut values = std::array::from_fn(|n| Value { origin: Origin::Value(n as u32), distance: 0 });
        values[10] = Value { origin: Origin::Frame, distance: 0 };
        Stretch { values, origins: values.len() as u32, groups: BTreeMap::new() }
    }
}

impl Stretch {
    /// The access that an operation makes.
    fn access(&self, pc: usize, op: &Op) -> Option<Found> {
        let (base, size, reads, writes) = form(op)?;
        let Value { origin, distance } = self.values[base];
        let at = distance.checked_add(i64::from(op.off))?;
        let access = Access { pc, at, size, distance, reads, writes };
        match origin {
            Origin::Frame if (-(FRAME_SIZE as i64)..=-size).contains(&at) => Some(Found::OwnFrame),
            Origin::Number => {
                let fits = (0..=i64::from(i32::MAX) - size).contains(&at);
                let page = at / PAGE_SIZE as i64;
                (fits && (at + size - 1) / PAGE_SIZE as i64 == page)
                    .then_some(Found::By((origin, page), access))
            }
            _ => Some(Found::By((origin, at.div_euclid(WINDOW)), access)),
        }
    }

    /// What an operation looks up.
    fn lookup(&self, op: &Op) -> Option<Lookup> {
        let (map, key) = (self.values[1], self.values[2]);
        let own_frame = -(FRAME_SIZE as i64)..=-4;
        let known = op.code == OpCode::CallHelper
            && op.imm == i64::from(LOOKUP)
            && map.origin == Origin::Number
            && key.origin == Origin::Frame
            && own_frame.contains(&key.distance);
        known.then_some(Lookup { map: map.distance.cast_unsigned(), key: key.distance as i32 })
    }

    /// What registers hold behind an operation.
    fn follow(&mut self, op: &Op) {
        use OpCode::*;
        let (dst, src) = (op.dst as usize, op.src as usize);
        let known = |number: i64| Value { origin: Origin::Number, distance: number };
        match op.code {
            Mov64X => self.values[dst] = self.values[src],
            Mov64K => self.values[dst] = known(op.imm),
            Mov32K => self.values[dst] = known(i64::from(op.imm as u32)),
            Add64K => self.add(dst, op.imm),
            Sub64K => self.add(dst, op.imm.wrapping_neg()),
            Atomic32 | Atomic64 => {
                self.forget(src);
                self.forget(0);
            }
            Store8K | Store16K | Store32K | Store64K | Store8X | Store16X | Store32X | Store64X => {}
            _ if op.is_jump() => {}
            _ => self.forget(dst),
        }
    }

    fn add(&mut self, register: usize, number: i64) {
        let Value { origin, distance } = self.values[register];
        let sum = distance.checked_add(number);
        let near = |sum: &i64| origin == Origin::Number || sum.abs() <= MOST_DISTANCE;
        match sum.filter(near) {
            Some(distance) => self.values[register] = Value { origin, distance },
            None => self.forget(register),
        }
    }

    /// The register holds something new.
    fn forget(&mut self, register: usize) {
        self.values[register] = Value { origin: Origin::Value(self.origins), distance: 0 };
        self.origins += 1;
    }
}

/// The register by which an operation accesses memory, bytes, and whether it reads and writes them.
#[rustfmt::skip]
fn form(op: &Op) -> Option<(usize, i64, bool, bool)> {
    use OpCode::*;
    let (dst, src) = (op.dst as usize, op.src as usize);
    Some(match op.code {
        Load8 | Loads8 => (src, 1, true, false), Load16 | Loads16 => (src, 2, true, false),
        Load32 | Loads32 => (src, 4, true, false), Load64 => (src, 8, true, false),
        Store8K | Store8X => (dst, 1, false, true), Store16K | Store16X => (dst, 2, false, true),
        Store32K | Store32X => (dst, 4, false, true), Store64K | Store64X => (dst, 8, false, true),
        Atomic32 => (dst, 4, true, true), Atomic64 => (dst, 8, true, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeBuilder, Marks};
    use crate::insn::{Insn, op};

    fn checks(insns: &[Insn], heads: &[usize]) -> Vec<Check> {
        let mut builder = CodeBuilder::new();
        builder.add_function("f", insns, &Marks::default()).expect("it decodes");
        let code = builder.build().expect("it links");
        let heads: Vec<bool> = (0..code.ops.len()).map(|pc| pc == 0 || heads.contains(&pc)).collect();
        Plan::new(&code, &heads).checks
    }

    fn lead(check: Check) -> Group {
        match check {
            Check::Lead(group) => group,
            other => panic!("{other:?} is no lead"),
        }
    }

    #[test]
    fn accesses_by_one_pointer_are_checked_once() {
        let code = [
            Insn::load(op::DW, 2, 1, 16),
            Insn::alu64_reg(op::MOV, 3, 1),
            Insn::alu64_imm(op::ADD, 3, 100),
            Insn::load(op::W, 4, 3, -4),
            Insn::load(op::B, 1, 1, 8),
            Insn::load(op::B, 2, 1, 8),
            Insn::exit(),
        ];
        let found = checks(&code, &[]);
        let group = lead(found[0]);
        assert_eq!((group.from, group.len, group.reads, group.writes), (8, 92, true, false));
        assert_eq!([found[3], found[4]], [Check::Done; 2]);
        assert_eq!(found[5], Check::Single, "the register holds something else");
    }

    #[test]
    fn a_head_ends_what_is_known() {
        let code = [Insn::load(op::DW, 2, 1, 16), Insn::load(op::DW, 2, 1, 8), Insn::exit()];
        assert_eq!(checks(&code, &[1])[..2], [Check::Single; 2]);
        assert_eq!(lead(checks(&code, &[])[0]).end, 3);
    }

    #[test]
    fn what_is_far_apart_is_not_checked_together() {
        let code =
            |second: i16| [Insn::load(op::DW, 2, 1, 0), Insn::load(op::DW, 2, 1, second), Insn::exit()];
        assert_eq!(checks(&code(1024), &[])[..2], [Check::Single; 2]);
        assert_eq!(lead(checks(&code(1016), &[])[0]).len, 1024);
    }

    #[test]
    fn the_own_frame_needs_no_check_and_what_is_outside_does() {
        let code = |off: i16| {
            let copy = [Insn::alu64_reg(op::MOV, 2, 10), Insn::alu64_imm(op::ADD, 2, -512)];
            [copy[0], copy[1], Insn::store_imm(op::DW, 2, off, 1), Insn::exit()]
        };
        assert_eq!(checks(&code(0), &[])[2], Check::Done);
        assert_eq!(checks(&code(504), &[])[2], Check::Done);
        assert_eq!(checks(&code(505), &[])[2], Check::Single);
        assert_eq!(checks(&code(-1), &[])[2], Check::Single);
    }

    #[test]
    fn known_addresses_are_grouped_by_page() {
        let code = |first: i32, second: i32| {
            let to = |at| [Insn::alu64_imm(op::MOV, 1, at), Insn::load(op::DW, 2, 1, 0)];
            [to(first)[0], to(first)[1], to(second)[0], to(second)[1], Insn::exit()]
        };
        let group = lead(checks(&code(0x10008, 0x10ff8), &[])[1]);
        assert_eq!((group.constant, group.from, group.len), (true, 0x10008, 0xff8));
        assert_eq!(checks(&code(0x10008, 0x11000), &[])[1], Check::Single);
    }

    #[test]
    fn registers_that_atomics_change_are_new() {
        let fetch = Insn::new(op::STX | op::ATOMIC | op::DW, 10, 1, -8, op::FETCH);
        let code = [Insn::load(op::DW, 2, 1, 0), fetch, Insn::load(op::DW, 2, 1, 8), Insn::exit()];
        assert_eq!(checks(&code, &[])[2], Check::Single);
    }

    #[test]
    fn one_store_among_loads_is_checked_alone() {
        let loads = |count: usize| vec![Insn::load(op::DW, 2, 1, 0); count];
        let mut code = loads(2);
        code.extend([Insn::store_imm(op::DW, 1, 8, 1), Insn::exit()]);
        let found = checks(&code, &[]);
        assert!(!lead(found[0]).writes);
        assert_eq!(found[2], Check::Single);
    }
}
