//! How executed instructions are counted: once for each region, not for each block.
//!
//! A region begins at a function's entry, behind a call that leaves the code, at the target of a jump back, behind the
//! last jump to it, and where a jump leaves a loop. Within one, all jumps go forward. Its beginning takes the longest way to its end
//! off what is left, and looks whether that is there: a region that begins runs to its end, so that no other place needs
//! to look. A step from one operation to the next needs no counting as long as it is on a longest way; a step that cuts
//! the rest of the way short gives back what it leaves out. So the count is exact at every call and exit, and at every
//! other operation it is known how far it is ahead.

use super::TooLong;
use crate::code::{Code, Op, OpCode};

/// What is counted where.
pub(super) struct Counts {
    /// By operation: a region begins there.
    begins: Vec<bool>,
    /// By operation: instructions on the longest way from it to the end of its region, itself included.
    longest: Vec<u32>,
}

impl Counts {
    /// The counts of an image; `in_line` says of an operation that calls a helper that the code answers it itself.
    ///
    /// # Errors
    /// A way is longer than can be counted.
    pub(super) fn new(code: &Code, in_line: impl Fn(usize) -> bool) -> Result<Counts, TooLong> {
        let begins = beginnings(code, in_line);
        let mut counts = Counts { longest: vec![0; begins.len()], begins };
        debug_assert_eq!(counts.longest.len(), code.ops.len(), "each operation has a count");
        for (pc, op) in code.ops.iter().enumerate().rev() {
            let next = if goes_on(op) { counts.along(pc + 1) } else { 0 };
            let rest = op.target().map_or(next, |target| next.max(counts.along(target)));
            counts.longest[pc] = rest.checked_add(1).ok_or(TooLong)?;
        }
        debug_assert!(counts.longest.iter().all(|count| *count > 0), "an operation counts itself");
        Ok(counts)
    }

    /// What the beginning of a region at operation `pc` takes off; nothing where none begins.
    pub(super) fn taken(&self, pc: usize) -> Option<u32> {
        self.begins[pc].then(|| self.longest[pc])
    }

    /// How many instructions more than are executed, `pc`'s included, have been taken off while `pc` runs.
    pub(super) fn ahead(&self, pc: usize) -> u32 {
        self.longest[pc] - 1
    }

    /// What a step from operation `pc` to `to` gives back.
    pub(super) fn given_back(&self, pc: usize, to: usize) -> u32 {
        debug_assert!(self.along(to) <= self.ahead(pc), "no way ahead is longer than the longest");
        self.ahead(pc) - self.along(to)
    }

    /// How far the count is ahead before `pc` runs; 0 where a region begins.
    pub(super) fn along(&self, pc: usize) -> u32 {
        match self.begins.get(pc) {
            Some(false) => self.longest[pc],
            _ => 0,
        }
    }
}

/// Whether an operation can fall through to the next one.
pub(super) fn goes_on(op: &Op) -> bool {
    !matches!(op.code, OpCode::Exit | OpCode::Ja)
}

/// The operations at which regions begin.
fn beginnings(code: &Code, in_line: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut begins = vec![false; code.ops.len() + 1];
    debug_assert!(
        code.ranges().all(|(first, _)| first < code.ops.len()),
        "a function begins at an operation"
    );
    for (first, _) in code.ranges() {
        begins[first] = true;
    }
    let loops = loop_ends(&code.ops);
    // The loops around the present operation, innermost last, by their ends.
    let mut around: Vec<usize> = Vec::new();
    for (pc, op) in code.ops.iter().enumerate() {
        around.extend(loops[pc]);
        while around.last().is_some_and(|end| *end < pc) {
            around.pop();
        }
        match op.target() {
            Some(target) if target <= pc => {
                begins[target] = true;
                // The pass continues behind a jump to the next pass from the middle of a loop.
                begins[pc + 1] |= loops[target] == Some(pc);
            }
            Some(target) => begins[target] |= around.last().is_some_and(|end| target > *end),
            None => {}
        }
        begins[pc + 1] |= match op.code {
            OpCode::CallHelper => !in_line(pc),
            OpCode::CallKfunc | OpCode::CallLocal | OpCode::CallReg => true,
            _ => false,
        };
    }
    begins.pop();
    begins
}

/// For each operation the last one that jumps back to it.
fn loop_ends(ops: &[Op]) -> Vec<Option<usize>> {
    let mut ends = vec![None; ops.len()];
    for (pc, op) in ops.iter().enumerate() {
        if let Some(target) = op.target().filter(|target| *target <= pc) {
            ends[target] = Some(pc);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeBuilder, Marks};
    use crate::insn::{Insn, op};

    fn counts(insns: &[Insn]) -> Counts {
        let mut builder = CodeBuilder::new();
        builder.add_function("f", insns, &Marks::default()).expect("it decodes");
        Counts::new(&builder.build().expect("it links"), |_| false).expect("it can be counted")
    }

    fn mov(register: u8) -> Insn {
        Insn::alu64_imm(op::MOV, register, 1)
    }

    #[test]
    fn the_longer_way_needs_no_counting_and_the_shorter_one_gives_back() {
        // One arm of one instruction and the jump over the other, one of three.
        let found = counts(&[
            Insn::jump_imm(op::JEQ, 1, 0, 2),
            mov(2),
            Insn::jump(3),
            mov(2),
            mov(3),
            mov(4),
            mov(0),
            Insn::exit(),
        ]);
        assert_eq!(found.taken(0), Some(6), "the jump, three, two behind both");
        assert!((1..8).all(|pc| found.taken(pc).is_none()), "all of it is one region");
        assert_eq!((found.given_back(0, 3), found.given_back(0, 1)), (0, 1));
        assert_eq!((found.given_back(2, 6), found.given_back(5, 6)), (0, 0));
        assert_eq!(found.ahead(7), 0, "exact at the exit");
    }

    #[test]
    fn a_pass_of_a_loop_counts_neither_what_follows_nor_what_leaves_it() {
        let found = counts(&[
            mov(1),
            Insn::jump_imm(op::JEQ, 2, 0, 3),
            mov(3),
            Insn::jump_imm(op::JNE, 1, 0, -3),
            mov(4),
            mov(0),
            Insn::exit(),
        ]);
        assert_eq!([found.taken(1), found.taken(4), found.taken(5)], [Some(3), Some(1), Some(2)]);
        assert_eq!((found.given_back(3, 1), found.given_back(3, 4), found.given_back(1, 5)), (0, 0, 2));
    }

    #[test]
    fn a_call_finds_the_count_exact() {
        let found = counts(&[mov(1), Insn::call_helper(1), mov(0), Insn::exit()]);
        assert_eq!((found.taken(0), found.taken(2)), (Some(2), Some(2)));
        assert_eq!(found.ahead(1), 0);
    }
}
