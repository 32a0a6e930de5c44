//! What is known where a stretch of code begins: where registers' values come from, and which memory has been checked.
//!
//! Values of one origin differ by a known distance, and what has been checked at a distance from an origin stays so until a
//! call that could take pages away ([`crate::engine::KEEPS_PAGES`] cannot). Where ways meet, what all of them know is
//! known; where a loop begins, what was known before it and the loop cannot change ([`Ranges`]).

use crate::code::{Op, OpCode};
use crate::engine::KEEPS_PAGES;
use crate::memory::NULL_LIMIT;

/// Most checked places that are kept. Chosen: more than a function looks at by the pointers that it has at once.
const MOST_FACTS: usize = 24;
/// How far from its origin an access may be to say something of others by the same origin, to either side. Chosen: what is
/// between two of them and a window is less than the memory below which nothing is mapped.
const MOST_REACH: i64 = 16 << 10;
const _: () = assert!(2 * MOST_REACH + 2048 < NULL_LIMIT as i64, "what is reached does not wrap round");
/// Most that a known distance may be, so that displacements have room.
const MOST_DISTANCE: i64 = 1 << 20;
/// Registers, in the decoder's numbering.
const REGISTERS: usize = 16;

/// Where a value comes from: values of one origin differ by a known distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// None: the number itself is known.
    Number,
    /// The function's frame pointer.
    Frame,
    /// What some operation, or what was before it, left in a register. Each is given once for an image.
    Value(u32),
}

/// A value that a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) origin: Origin,
    /// How far it is from its origin; the number itself where that is known.
    pub(super) distance: i64,
}

/// An origin, and which of its windows; of known numbers the page. What is checked together has one place.
pub(super) type Place = (Origin, i64);

/// Bytes that have been checked: their distances from the origin, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) place: Place,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl Fact {
    /// Whether it says all that `other` says.
    pub(super) fn covers(&self, other: &Fact) -> bool {
        debug_assert!(other.from < other.to, "a fact is about bytes");
        let place = self.place == other.place && self.from <= other.from && other.to <= self.to;
        place && self.reads >= other.reads && self.writes >= other.writes
    }

    /// What two of one place have in common.
    fn common(&self, other: &Fact) -> Option<Fact> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        let (reads, writes) = (self.reads && other.reads, self.writes && other.writes);
        let some = self.place == other.place && from < to && (reads || writes);
        some.then_some(Fact { place: self.place, from, to, reads, writes })
    }
}

/// What has been checked on a way.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts(Vec<Fact>);

impl Facts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these bytes have been checked.
    pub(super) fn covers(&self, wanted: &Fact) -> bool {
        self.0.iter().any(|fact| fact.covers(wanted))
    }

    /// Adds what has been checked, up to [`MOST_FACTS`].
    pub(super) fn add(&mut self, fact: Fact) {
        debug_assert!(fact.reads || fact.writes, "a fact allows reads or writes");
        if self.0.len() < MOST_FACTS && !self.covers(&fact) {
            self.0.push(fact);
        }
    }

    /// Keeps what another way has checked too.
    pub(super) fn meet(&mut self, other: &Facts) {
        if self.0 == other.0 {
            return;
        }
        let mut both = Facts::default();
        for one in &self.0 {
            other.0.iter().filter_map(|theirs| one.common(theirs)).for_each(|fact| both.add(fact));
        }
        *self = both;
    }

    /// Forgets all but those of some places.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Place) -> bool) {
        self.0.retain(|fact| wanted(&fact.place));
    }
}

/// The origins that have been given.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// By number: the value is below [`crate::memory::GUEST_LIMIT`], whatever it is.
    bounded: Vec<bool>,
}

impl Origins {
    pub(super) fn new_value(&mut self) -> Value {
        self.given(false)
    }

    /// What a cast between address spaces leaves: NULL, or an address in the arena's window.
    fn new_bounded(&mut self) -> Value {
        self.given(true)
    }

    fn given(&mut self, bounded: bool) -> Value {
        let number = u32::try_from(self.bounded.len()).expect("an image has fewer values");
        self.bounded.push(bounded);
        Value { origin: Origin::Value(number), distance: 0 }
    }

    /// Whether values of this origin are below [`crate::memory::GUEST_LIMIT`].
    pub(super) fn is_bounded(&self, origin: Origin) -> bool {
        matches!(origin, Origin::Value(number) if self.bounded.get(number as usize) == Some(&true))
    }
}

/// What registers hold, by register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    of: [Value; REGISTERS],
    /// The registers, a bit each, by whose origins the program has accessed memory within [`MOST_REACH`]: so those origins are
    /// about an address of the guest.
    reached: u16,
}

impl Values {
    /// Nothing is known of the registers but what r10 is.
    pub(super) fn unknown(origins: &mut Origins) -> Values {
        let mut values = std::array::from_fn(|_| origins.new_value());
        values[10] = Value { origin: Origin::Frame, distance: 0 };
        Values { of: values, reached: 0 }
    }

    pub(super) fn of(&self, register: usize) -> Value {
        self.of[register]
    }

    /// An access at a distance from the origin of a register's value has not ended the run: its address is one of the guest,
    /// or else of the arena. What may fail and be passed over is left to the caller.
    pub(super) fn reach(&mut self, register: usize, at: i64) {
        let origin = self.of[register].origin;
        if at.abs() > MOST_REACH || !matches!(origin, Origin::Value(_)) {
            return;
        }
        for (other, value) in self.of.iter().enumerate() {
            self.reached |= u16::from(value.origin == origin) << other;
        }
    }

    /// Whether what is at a distance from the origin of a register's value lies less than three times [`MOST_REACH`] from an
    /// address of the guest, and not below all of them.
    pub(super) fn is_reached(&self, register: usize, at: i64) -> bool {
        self.reached >> register & 1 != 0 && at.abs() <= MOST_REACH
    }

    /// Keeps what another way knows too.
    pub(super) fn meet(&mut self, other: &Values, origins: &mut Origins) {
        self.reached &= other.reached;
        for (register, (value, theirs)) in self.of.iter_mut().zip(&other.of).enumerate() {
            if value != theirs {
                *value = origins.new_value();
                self.reached &= !(1 << register);
            }
        }
    }

    /// What a loop that begins here and contains `body` leaves of it.
    pub(super) fn before_loop(&mut self, body: Effects, origins: &mut Origins) {
        self.change(body.sets, origins);
    }

    /// What registers hold behind an operation.
    pub(super) fn follow(&mut self, op: &Op, origins: &mut Origins) {
        use OpCode::*;
        let (dst, src) = (op.dst as usize, op.src as usize);
        let known = |number: i64| Value { origin: Origin::Number, distance: number };
        let reached = match op.code {
            Mov64X => self.reached >> src & 1,
            Add64K | Sub64K => self.reached >> dst & 1,
            _ => 0,
        };
        let before = self.of[dst].origin;
        match op.code {
            Mov64X => self.of[dst] = self.of[src],
            Mov64K => self.of[dst] = known(op.imm),
            Mov32K => self.of[dst] = known(i64::from(op.imm as u32)),
            Add64K => self.of[dst] = self.moved(dst, op.imm, origins),
            Sub64K => self.of[dst] = self.moved(dst, op.imm.wrapping_neg(), origins),
            Cast => self.of[dst] = origins.new_bounded(),
            _ => return self.change(sets(op), origins),
        }
        let same = op.code == Mov64X || self.of[dst].origin == before;
        self.reached = self.reached & !(1 << dst) | (u16::from(same) * reached) << dst;
    }

    /// These registers hold something new.
    fn change(&mut self, mut registers: u16, origins: &mut Origins) {
        self.reached &= !registers;
        while registers != 0 {
            self.of[registers.trailing_zeros() as usize] = origins.new_value();
            registers &= registers - 1;
        }
    }

    /// The value of a register plus a number.
    fn moved(&self, register: usize, number: i64, origins: &mut Origins) -> Value {
        let Value { origin, distance } = self.of[register];
        let near = |sum: &i64| origin == Origin::Number || sum.abs() <= MOST_DISTANCE;
        match distance.checked_add(number).filter(near) {
            Some(distance) => Value { origin, distance },
            None => origins.new_value(),
        }
    }
}

/// The registers that an operation may change.
fn sets(op: &Op) -> u16 {
    use OpCode::*;
    let bit = |register: usize| 1u16 << register;
    match op.code {
        // The callee has r0 to r5 for itself.
        CallLocal | CallReg => 0b11_1111,
        Atomic32 | Atomic64 => bit(op.src as usize) | 1,
        Store8K | Store16K | Store32K | Store64K | Store8X | Store16X | Store32X | Store64X | Exit => 0,
        CallHelper | CallKfunc => 1,
        _ if op.is_jump() => 0,
        _ => bit(op.dst as usize),
    }
}

/// Whether the host may take pages away while it carries the operation out.
pub(super) fn takes_pages(op: &Op) -> bool {
    match op.code {
        OpCode::CallHelper => !KEEPS_PAGES.iter().any(|id| i64::from(*id) == op.imm),
        OpCode::CallKfunc | OpCode::CallLocal | OpCode::CallReg => true,
        _ => false,
    }
}

/// What operations of a range do together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effects {
    /// The registers that they may change.
    sets: u16,
    pub(super) takes_pages: bool,
    /// The last operation that jumps back to one of them, plus 1; 0 without any.
    end: u32,
    /// The first operation that jumps to one of them; `u32::MAX` without any.
    entered: u32,
}

impl Default for Effects {
    fn default() -> Effects {
        Effects { sets: 0, takes_pages: false, end: 0, entered: u32::MAX }
    }
}

impl Effects {
    fn and(self, other: Effects) -> Effects {
        Effects {
            sets: self.sets | other.sets,
            takes_pages: self.takes_pages || other.takes_pages,
            end: self.end.max(other.end),
            entered: self.entered.min(other.entered),
        }
    }
}

/// The effects of any range of operations, in logarithmic time: a tree in an array, the leaves last.
pub(super) struct Ranges {
    nodes: Vec<Effects>,
    leaves: usize,
}

impl Ranges {
    pub(super) fn new(ops: &[Op]) -> Ranges {
        let leaves = ops.len().next_power_of_two();
        let mut nodes = vec![Effects::default(); 2 * leaves];
        for (pc, op) in ops.iter().enumerate() {
            let own = &mut nodes[leaves + pc];
            (own.sets, own.takes_pages) = (sets(op), takes_pages(op));
            if let Some(target) = op.target() {
                debug_assert!(target < ops.len(), "a jump leads to an operation");
                let led_to = &mut nodes[leaves + target];
                led_to.entered = led_to.entered.min(pc as u32);
                if target <= pc {
                    led_to.end = pc as u32 + 1;
                }
            }
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].and(nodes[2 * node + 1]);
        }
        Ranges { nodes, leaves }
    }

    /// The effects of operations `from` to before `end`.
    fn of(&self, from: usize, end: usize) -> Effects {
        debug_assert!(from <= end && end <= self.leaves, "the range lies in the code");
        let (mut from, mut end, mut found) = (from + self.leaves, end + self.leaves, Effects::default());
        while from < end {
            if from & 1 == 1 {
                found = found.and(self.nodes[from]);
                from += 1;
            }
            if end & 1 == 1 {
                end -= 1;
                found = found.and(self.nodes[end]);
            }
            (from, end) = (from / 2, end / 2);
        }
        found
    }

    /// Whether some operation jumps back to `pc`.
    pub(super) fn is_loop(&self, pc: usize) -> bool {
        self.nodes[self.leaves + pc].end != 0
    }

    /// What the loop that begins at `pc` does; nothing where code before it or behind its last jump back leads into its
    /// middle, so that a pass may begin with anything.
    pub(super) fn loop_body(&self, pc: usize) -> Option<Effects> {
        let end = self.nodes[self.leaves + pc].end;
        debug_assert!(end as usize > pc, "a loop ends behind its head");
        let (body, middle) = (self.of(pc, end as usize), self.of(pc + 1, end as usize));
        (body.end == end && middle.entered as usize >= pc).then_some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeBuilder, Marks};
    use crate::insn::{Insn, op};

    fn fact(from: i64, to: i64, writes: bool) -> Fact {
        Fact { place: (Origin::Value(1), 0), from, to, reads: true, writes }
    }

    #[test]
    fn where_ways_meet_what_both_know_is_known() {
        let mut origins = Origins::default();
        let mut one = Values::unknown(&mut origins);
        let (mut other, kept) = (one, one.of(1));
        other.of[3] = origins.new_value();
        one.meet(&other, &mut origins);
        assert_eq!(one.of(1), kept);
        assert!(one.of(3) != other.of(3));
        let (mut facts, mut others) = (Facts::default(), Facts::default());
        facts.add(fact(0, 16, true));
        others.add(fact(8, 32, false));
        facts.meet(&others);
        assert_eq!(facts.0, [fact(8, 16, false)]);
        assert!(facts.covers(&fact(8, 12, false)) && !facts.covers(&fact(8, 12, true)));
        assert!(!facts.covers(&fact(4, 12, false)));
        facts.keep(|(origin, _)| *origin == Origin::Number);
        assert!(facts.is_empty());
    }

    #[test]
    fn what_is_reached_goes_with_the_value() {
        let mut builder = CodeBuilder::new();
        let insns = [
            Insn::alu64_reg(op::MOV, 2, 1),
            Insn::alu64_imm(op::ADD, 2, 8),
            Insn::load(op::DW, 1, 1, 0),
            Insn::alu64_imm(op::MOV, 2, 8),
            Insn::exit(),
        ];
        builder.add_function("f", &insns, &Marks::default()).expect("it decodes");
        let code = builder.build().expect("it links");
        let mut origins = Origins::default();
        let mut values = Values::unknown(&mut origins);
        let other = values;
        values.reach(1, MOST_REACH + 1);
        assert!(!values.is_reached(1, 0), "too far to say anything");
        values.reach(1, 8);
        assert!(values.is_reached(1, -MOST_REACH) && !values.is_reached(1, MOST_REACH + 1));
        assert!(!values.is_reached(2, 0), "another value");
        let mut met = values;
        met.meet(&other, &mut origins);
        assert!(!met.is_reached(1, 0), "one way has reached nothing");
        let mut step = |pc: usize| {
            values.follow(&code.ops[pc], &mut origins);
            [values.is_reached(1, 0), values.is_reached(2, 0)]
        };
        assert_eq!(
            [step(0), step(1), step(2), step(3)],
            [[true, true], [true, true], [false, true], [false; 2]]
        );
    }
}
