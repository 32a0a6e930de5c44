//! Which accesses need a check of their own: those by one pointer are checked together where that can be.
//!
//! A stretch is code that is entered at its head only: it continues over conditional jumps that are not taken, and ends before
//! the targets of jumps and behind calls that could take a page away. Accesses
//! whose addresses differ by constants from one another form a group; the first of them (the lead) checks the bytes from
//! the lowest to the highest, and the others go straight to memory. So do accesses of later stretches to what every way to
//! them has checked ([`Facts`]), and so that there are more of these, a lead checks what is read later by the same pointer too. Where the check of a lead fails, control goes to a copy of the stretch in which each access
//! is checked alone; from there, what relies on that check is left to the interpreter.
//!
//! The compiler relies on this plan: an access that goes without a check lies in what its lead has checked, whatever the
//! program's registers held.

use super::LOOKUP;
use super::count::goes_on;
use super::known::{Fact, Facts, Origin, Origins, Place, Ranges, Value, Values, takes_pages};
use crate::code::{Code, Op, OpCode};
use crate::memory::{FRAME_SIZE, NO_LINES, PAGE_COUNT, PAGE_SIZE, PERM_BYTES};
use std::collections::BTreeMap;

/// Accesses whose distance from their origin lies in the same so many bytes are checked together. Chosen: what mostly lies in
/// one page, and more than the members that a program looks at at once.
const WINDOW: i64 = 1024;
/// Targets of jumps for which what is known is kept at once. Chosen: more than functions have, and little memory.
const MOST_PENDING: usize = 4096;
/// How far beyond the guest's memory an address may be that still has a permission byte: where [`crate::memory::PERM_BYTES`] has
/// zeros.
const MOST_BEYOND: i64 = ((PERM_BYTES - PAGE_COUNT) as u64 * PAGE_SIZE) as i64;
/// Bytes of each of the members that programs may store to a kernel object, which lie side by side.
const KERNEL_MEMBER: i64 = 8;

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
    /// The accesses begin less than [`MOST_BEYOND`] above an address of the guest, so that their page has a permission byte.
    pub(super) bounded: bool,
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
    /// By operation: the same as [`Group::bounded`] of the bytes that it accesses.
    bounded: Vec<bool>,
    /// By operation: what follows relies on checks before it.
    relies: Vec<bool>,
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
    /// The checks of an image; `heads` are the operations at which stretches begin.
    pub(super) fn new(code: &Code, heads: &[bool]) -> Plan {
        let count = code.ops.len();
        debug_assert_eq!(heads.len(), count, "each operation begins a stretch or not");
        let plan = Plan {
            checks: vec![Check::Single; count],
            has_line: vec![false; count],
            bounded: vec![false; count],
            relies: vec![false; count],
            lookups: BTreeMap::new(),
        };
        let mut walk = Walk::new(plan, &code.ops);
        for (first, count) in code.ranges() {
            for (pc, head) in heads.iter().enumerate().skip(first).take(count) {
                if *head {
                    walk.begin(pc, pc == first, pc > first && goes_on(&code.ops[pc - 1]));
                }
                walk.operation(pc, &code.ops[pc]);
            }
            walk.check(first + count, code.line_shift);
        }
        walk.plan
    }

    /// Whether what begins at operation `pc`, a head, relies on checks that were made before it.
    pub(super) fn relies(&self, pc: usize) -> bool {
        self.relies.get(pc).is_some_and(|relies| *relies)
    }

    /// What the look-up that operation `pc` calls asks for, as far as it is known.
    pub(super) fn lookup(&self, pc: usize) -> Option<Lookup> {
        self.lookups.get(&pc).copied()
    }

    /// How operation `pc` is checked.
    pub(super) fn check(&self, pc: usize) -> Check {
        self.checks[pc]
    }

    /// Whether the page of what operation `pc` accesses certainly has a permission byte.
    pub(super) fn is_bounded(&self, pc: usize) -> bool {
        self.bounded[pc]
    }

    /// Whether the running CPU certainly has the line of operation `pc`'s access.
    pub(super) fn has_line(&self, pc: usize) -> bool {
        self.has_line[pc]
    }

    /// Makes a group of these accesses, which checks what is in `extent` besides; says which is its lead, and what it checks.
    fn group(
        &mut self,
        place: Place,
        members: &[&Access],
        extent: Option<(i64, i64)>,
        end: usize,
    ) -> Option<(usize, Fact)> {
        debug_assert!(!members.is_empty(), "a group has a lead");
        let lead = members[0];
        debug_assert!(
            members.is_sorted_by_key(|access| access.pc),
            "the lead is the first access of its group"
        );
        let own = members.iter().map(|access| (access.at, access.at + access.size));
        let (low, high) = own.chain(extent).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        debug_assert!(low < high, "a group covers bytes");
        let constant = place.0 == Origin::Number;
        let from = if constant { low } else { low - lead.distance };
        let (Ok(from), Ok(len)) = (i32::try_from(from), i32::try_from(high - low)) else { return None };
        members.iter().for_each(|access| self.checks[access.pc] = Check::Done);
        let reads = extent.is_some() || members.iter().any(|access| access.reads);
        let writes = members.iter().any(|access| access.writes);
        // The members are of one origin, and so is what is read later.
        let bounded = lead.reached || self.bounded[lead.pc] && low >= 0;
        let (first, end) = (lead.pc, end);
        self.checks[lead.pc] = Check::Lead(Group { from, len, reads, writes, constant, bounded, first, end });
        Some((lead.pc, Fact { place, from: low, to: high, reads, writes }))
    }
}

/// What is read at a place: the bytes from the lowest to the highest, and the last operation that does.
#[derive(Clone, Copy, Debug)]
struct Extent {
    from: i64,
    to: i64,
    last: usize,
}

/// A first walk through the operations of each function: where values come from, and so which accesses have to do with each other.
struct Walk {
    plan: Plan,
    origins: Origins,
    /// What registers hold before the present operation.
    values: Values,
    ranges: Ranges,
    /// What registers hold at the jumps so far, by their targets.
    pending: BTreeMap<usize, Values>,
    /// By operation: some jump to it is not in `pending`.
    lost: Vec<bool>,
    /// Of the present function.
    stretches: Vec<Stretch>,
    extents: BTreeMap<Place, Extent>,
}

impl Walk {
    fn new(plan: Plan, ops: &[Op]) -> Walk {
        let mut origins = Origins::default();
        let (values, lost) = (Values::unknown(&mut origins), vec![false; ops.len()]);
        let (pending, stretches, extents) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Walk { plan, origins, values, ranges: Ranges::new(ops), pending, lost, stretches, extents }
    }

    /// The function ends before operation `end`: decides on the checks of its stretches.
    fn check(&mut self, end: usize, line_shift: u8) {
        let (stretches, extents) = (std::mem::take(&mut self.stretches), std::mem::take(&mut self.extents));
        debug_assert!(stretches.is_sorted_by_key(|stretch| stretch.head), "stretches follow one another");
        let mut checker = Checker { plan: &mut self.plan, extents, pending: BTreeMap::new() };
        let mut before = Facts::default();
        for (number, stretch) in stretches.iter().enumerate() {
            if line_shift != NO_LINES {
                checker.note_lines(stretch, line_shift);
            }
            let end = stretches.get(number + 1).map_or(end, |next| next.head);
            before = checker.stretch(stretch, end, before);
        }
    }

    /// A stretch begins at operation `pc`, perhaps behind the one before it, perhaps as a function.
    fn begin(&mut self, pc: usize, entry: bool, falls: bool) {
        debug_assert!(self.stretches.last().is_none_or(|last| last.head < pc), "stretches begin in order");
        let before = falls.then_some(self.values);
        let jumped = self.pending.remove(&pc);
        let mut values = match (before, jumped) {
            _ if entry || self.lost[pc] => None,
            (Some(mut values), Some(other)) => {
                values.meet(&other, &mut self.origins);
                Some(values)
            }
            (values, None) | (None, values) => values,
        };
        let mut loses_pages = false;
        if self.ranges.is_loop(pc) {
            let body = self.ranges.loop_body(pc);
            values = values.zip(body).map(|(mut values, body)| {
                values.before_loop(body, &mut self.origins);
                loses_pages = body.takes_pages;
                values
            });
        }
        let known = values.is_some() && !loses_pages;
        self.values = values.unwrap_or_else(|| Values::unknown(&mut self.origins));
        let (accesses, jumps) = (Vec::new(), Vec::new());
        self.stretches.push(Stretch { head: pc, known, falls, accesses, jumps, takes_pages: false });
    }

    fn operation(&mut self, pc: usize, op: &Op) {
        let stretch = self.stretches.last_mut().expect("code begins with a head");
        debug_assert!(stretch.head <= pc, "an operation lies in the last stretch");
        match access(&self.values, pc, op) {
            Some(Found::OwnFrame) => {
                self.plan.checks[pc] = Check::Done;
                self.plan.has_line[pc] = true;
            }
            Some(Found::By(place, access)) => {
                stretch.accesses.push((place, access));
                let above = (0..MOST_BEYOND).contains(&access.at);
                self.plan.bounded[pc] = access.reached || above && self.origins.is_bounded(place.0);
                // One that may fail and be passed over says nothing.
                if !op.probe {
                    self.values.reach(access.base, access.at);
                }
                if access.reads && !access.writes {
                    let (from, to) = (access.at, access.at + access.size);
                    let extent = self.extents.entry(place).or_insert(Extent { from, to, last: pc });
                    *extent = Extent { from: extent.from.min(from), to: extent.to.max(to), last: pc };
                }
            }
            None => {}
        }
        if let Some(lookup) = lookup(&self.values, op) {
            self.plan.lookups.insert(pc, lookup);
        }
        if let Some(target) = op.target().filter(|target| *target > pc) {
            debug_assert!(target < self.lost.len(), "a jump leads to an operation");
            if let Some(pending) = self.pending.get_mut(&target) {
                pending.meet(&self.values, &mut self.origins);
            } else if self.pending.len() < MOST_PENDING {
                self.pending.insert(target, self.values);
            } else {
                self.lost[target] = true;
            }
            stretch.jumps.push((pc, target));
        }
        stretch.takes_pages |= takes_pages(op);
        self.values.follow(op, &mut self.origins);
    }
}

/// A second walk through a function, from stretch to stretch: what is checked where.
struct Checker<'a> {
    plan: &'a mut Plan,
    extents: BTreeMap<Place, Extent>,
    /// What has been checked at the jumps so far, by their targets.
    pending: BTreeMap<usize, Facts>,
}

impl Checker<'_> {
    /// Finds the accesses of a stretch whose line is there for certain.
    fn note_lines(&mut self, stretch: &Stretch, line_shift: u8) {
        let mut before: BTreeMap<Place, Vec<Access>> = BTreeMap::new();
        for (place, access) in &stretch.accesses {
            let before = before.entry(*place).or_default();
            // Where the address is known the line is.
            let shift = if place.0 == Origin::Number { line_shift } else { 0 };
            let same = |earlier: &Access| {
                earlier.at >> shift == access.at >> shift && (earlier.writes || !access.writes)
            };
            self.plan.has_line[access.pc] = before.iter().any(same);
            before.push(*access);
        }
    }

    /// Forms the groups of a stretch that ends before operation `end`, where `before` has been checked by what falls into it;
    /// what has been checked at its end.
    fn stretch(&mut self, stretch: &Stretch, end: usize, before: Facts) -> Facts {
        debug_assert!(stretch.head < end, "a stretch has operations");
        let begun = self.begun(stretch, before);
        self.plan.relies[stretch.head] = !begun.is_empty();
        let mut groups: BTreeMap<Place, Vec<Access>> = BTreeMap::new();
        for (place, access) in &stretch.accesses {
            groups.entry(*place).or_default().push(*access);
        }
        let mut leads: Vec<(usize, Fact)> = Vec::new();
        for (place, accesses) in &groups {
            let kernel = may_be_kernel(accesses);
            let (done, rest): (Vec<&Access>, Vec<&Access>) =
                accesses.iter().partition(|access| begun.covers(&access.fact(*place)));
            done.iter().for_each(|access| self.plan.checks[access.pc] = Check::Done);
            let members: Vec<&Access> =
                rest.into_iter().filter(|access| !(kernel && access.writes)).collect();
            let later = self.extents.get(place).filter(|extent| extent.last >= end && !stretch.takes_pages);
            if members.len() > 1 || later.is_some() && !members.is_empty() {
                let extent = later.map(|extent| (extent.from, extent.to));
                leads.extend(self.plan.group(*place, &members, extent, end));
            }
        }
        leads.sort_unstable_by_key(|(lead, _)| *lead);
        let first = leads.first().map_or(end, |(lead, _)| *lead);
        for (lead, _) in &leads {
            if let Check::Lead(group) = &mut self.plan.checks[*lead] {
                group.first = first;
            }
        }
        // Jumps stand in order too.
        let (mut facts, mut leads) = (begun, leads.iter().peekable());
        for (pc, target) in &stretch.jumps {
            while let Some((_, fact)) = leads.next_if(|(lead, _)| lead < pc) {
                facts.add(*fact);
            }
            self.jump(*target, facts.clone());
        }
        leads.for_each(|(_, fact)| facts.add(*fact));
        if stretch.takes_pages { Facts::default() } else { facts }
    }

    /// What has been checked where a stretch begins, as far as that is of use in it or later.
    fn begun(&mut self, stretch: &Stretch, before: Facts) -> Facts {
        let jumped = self.pending.remove(&stretch.head);
        let mut facts = match (stretch.falls.then_some(before), jumped) {
            _ if !stretch.known => Facts::default(),
            (Some(mut facts), Some(other)) => {
                facts.meet(&other);
                facts
            }
            (facts, None) | (None, facts) => facts.unwrap_or_default(),
        };
        facts.keep(|place| self.extents.get(place).is_some_and(|extent| extent.last >= stretch.head));
        facts
    }

    /// What has been checked where a jump goes.
    fn jump(&mut self, target: usize, facts: Facts) {
        match self.pending.get_mut(&target) {
            Some(pending) => pending.meet(&facts),
            None => drop(self.pending.insert(target, facts)),
        }
    }
}

/// Whether these accesses may be stores to the two members of a kernel object that programs may store to, which the host
/// does: one store among loads, or two side by side.
fn may_be_kernel(accesses: &[Access]) -> bool {
    let stores: Vec<&Access> = accesses.iter().filter(|access| access.writes).collect();
    match stores[..] {
        [_] => true,
        [one, other] => {
            let wide = [one, other].iter().all(|store| store.size == KERNEL_MEMBER);
            wide && (one.at - other.at).abs() == KERNEL_MEMBER
        }
        _ => false,
    }
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
    /// The register, and [`Values::is_reached`].
    base: usize,
    reached: bool,
}

impl Access {
    fn fact(&self, place: Place) -> Fact {
        Fact { place, from: self.at, to: self.at + self.size, reads: self.reads, writes: self.writes }
    }
}

enum Found {
    OwnFrame,
    By(Place, Access),
}

/// A stretch of code.
struct Stretch {
    head: usize,
    /// Something can be known where it begins.
    known: bool,
    /// The operation before it falls through to it.
    falls: bool,
    accesses: Vec<(Place, Access)>,
    /// Jumps forward: the operation, and its target.
    jumps: Vec<(usize, usize)>,
    /// The stretch ends with a call that could take pages away.
    takes_pages: bool,
}

/// The access that an operation makes.
fn access(values: &Values, pc: usize, op: &Op) -> Option<Found> {
    let (base, size, reads, writes) = form(op)?;
    debug_assert!(matches!(size, 1 | 2 | 4 | 8), "an access is of 1, 2, 4 or 8 bytes");
    let Value { origin, distance } = values.of(base);
    let at = distance.checked_add(i64::from(op.off))?;
    let reached = values.is_reached(base, at);
    let access = Access { pc, at, size, distance, reads, writes, base, reached };
    match origin {
        Origin::Frame if (-(FRAME_SIZE as i64)..=-size).contains(&at) => Some(Found::OwnFrame),
        Origin::Number => {
            let fits = (0..=i64::from(i32::MAX) - size).contains(&at);
            let page = at / PAGE_SIZE as i64;
            (fits && (at + size - 1) / PAGE_SIZE as i64 == page).then_some(Found::By((origin, page), access))
        }
        _ => Some(Found::By((origin, at.div_euclid(WINDOW)), access)),
    }
}

/// What an operation looks up.
fn lookup(values: &Values, op: &Op) -> Option<Lookup> {
    let (map, key) = (values.of(1), values.of(2));
    let own_frame = -(FRAME_SIZE as i64)..=-4;
    let known = op.code == OpCode::CallHelper
        && op.imm == i64::from(LOOKUP)
        && map.origin == Origin::Number
        && key.origin == Origin::Frame
        && own_frame.contains(&key.distance);
    known.then_some(Lookup { map: map.distance.cast_unsigned(), key: key.distance as i32 })
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
    fn what_every_way_has_checked_is_checked_once() {
        let load = |at: i16| Insn::load(op::DW, 2, 1, at);
        let found = checks(&[load(16), load(8), Insn::exit()], &[1]);
        let group = lead(found[0]);
        assert_eq!((group.from, group.len, group.end), (8, 16, 1), "what is read later is checked too");
        assert_eq!(found[1], Check::Done);
        // One of two ways to the last load goes without the first one.
        let one_way = [Insn::jump_imm(op::JEQ, 3, 0, 1), load(16), load(8), Insn::exit()];
        let found = checks(&one_way, &[2]);
        assert_eq!((lead(found[1]).len, found[2]), (16, Check::Single));
        let both = [load(0), Insn::jump_imm(op::JEQ, 3, 0, 1), load(16), load(8), Insn::exit()];
        let found = checks(&both, &[3]);
        assert_eq!((lead(found[0]).len, found[2], found[3]), (24, Check::Done, Check::Done));
    }

    #[test]
    fn a_call_that_may_take_pages_away_ends_what_is_known() {
        let code = |id| {
            let load = Insn::load(op::DW, 2, 6, 0);
            [Insn::alu64_reg(op::MOV, 6, 1), load, Insn::call_helper(id), load, Insn::exit()]
        };
        assert_eq!(checks(&code(9_999), &[3])[1..4], [Check::Single; 3]);
        assert_eq!(checks(&code(LOOKUP as i32), &[])[3], Check::Done);
    }

    #[test]
    fn a_loop_keeps_what_it_does_not_change() {
        let load = |base: u8| Insn::load(op::DW, 2, base, 0);
        let code = |first: i16| {
            let back = Insn::jump_imm(op::JNE, 2, 0, -4);
            let step = Insn::alu64_imm(op::ADD, 3, 8);
            [load(1), load(3), Insn::jump(first), load(1), load(3), step, back, Insn::exit()]
        };
        let found = checks(&code(0), &[3]);
        assert_eq!((found[3], found[4]), (Check::Done, Check::Single), "r3 is another one in each pass");
        let found = checks(&code(1), &[3, 4]);
        assert_eq!(found[3], Check::Single, "the loop is entered in its middle too");
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
