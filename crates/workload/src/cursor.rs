//! The place of a task in its program.

use crate::program::{Amount, MAX_LOOP_DEPTH, Op, Program};

/// A task's position in its program and the counts of its open loops. Small and
/// copyable; it holds no reference to the program.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Cursor {
    at: u32,
    depth: u8,
    left: [u64; MAX_LOOP_DEPTH],
}

impl Cursor {
    /// Before the first operation.
    pub fn start() -> Cursor {
        Cursor::default()
    }

    /// The next operation that an executor must do; loops are walked here.
    /// [`Op::Exit`] at the end of the program, at each call. Takes time in proportion
    /// to the loop operations passed.
    #[inline]
    pub fn next(&mut self, program: &Program) -> Op {
        loop {
            let at = self.at as usize;
            let Some(&op) = program.ops().get(at) else { return Op::Exit };
            self.at += 1;
            match op {
                Op::Loop(Amount::Times(0)) => self.at = program.partner(at) as u32 + 1,
                Op::Loop(amount) => {
                    self.left[usize::from(self.depth)] = match amount {
                        Amount::Times(times) => times,
                        Amount::Forever => u64::MAX,
                    };
                    self.depth += 1;
                }
                Op::EndLoop => {
                    let left = &mut self.left[usize::from(self.depth) - 1];
                    if *left != u64::MAX {
                        *left -= 1;
                    }
                    if *left > 0 {
                        self.at = program.partner(at) as u32 + 1;
                    } else {
                        self.depth -= 1;
                    }
                }
                Op::Exit => {
                    self.at = at as u32;
                    return Op::Exit;
                }
                op => return op,
            }
        }
    }
}

impl Cursor {
    /// Continues with the next pass of the outermost loop, all loops inside abandoned. Without a loop
    /// around it nothing changes.
    pub fn restart(&mut self, program: &Program) {
        let mut start = 0;
        // The place just passed lies in the outermost loop, if in any.
        let here = (self.at as usize).saturating_sub(1);
        while start < here && self.depth > 0 {
            let end = match program.ops()[start] {
                Op::Loop(_) => program.partner(start),
                _ => start,
            };
            if here < end {
                (self.at, self.depth) = (end as u32, 1);
                return;
            }
            start = end + 1;
        }
    }

    /// The operations that may still come, the last one given among them: from the outermost loop around it on.
    pub fn ahead<'a>(&self, program: &'a Program) -> &'a [Op] {
        let here = (self.at as usize).saturating_sub(1);
        let mut start = 0;
        while start < here {
            let end = match program.ops()[start] {
                Op::Loop(_) => program.partner(start),
                _ => start,
            };
            if here <= end {
                break;
            }
            start = end + 1;
        }
        program.ops().get(start..).unwrap_or_default()
    }

    /// The cursor as numbers, for [`Cursor::from_words`].
    pub fn to_words(&self) -> [u64; MAX_LOOP_DEPTH + 1] {
        let mut words = [0; MAX_LOOP_DEPTH + 1];
        words[0] = u64::from(self.at) | u64::from(self.depth) << 32;
        words[1..].copy_from_slice(&self.left);
        words
    }

    /// The cursor of the same program that [`Cursor::to_words`] wrote; nothing for numbers that are none.
    pub fn from_words(words: &[u64; MAX_LOOP_DEPTH + 1]) -> Option<Cursor> {
        let depth = u8::try_from(words[0] >> 32).ok()?;
        let mut left = [0; MAX_LOOP_DEPTH];
        left.copy_from_slice(&words[1..]);
        (usize::from(depth) <= MAX_LOOP_DEPTH).then_some(Cursor { at: words[0] as u32, depth, left })
    }
}

/// Numbers of a cursor written down.
pub const CURSOR_WORDS: usize = MAX_LOOP_DEPTH + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ProgramBuilder;

    #[test]
    fn nested_loops_unroll() {
        let program = ProgramBuilder::new()
            .repeat(Amount::Times(2), |b| b.op(Op::Exec).repeat(Amount::Times(3), |b| b.op(Op::Yield)))
            .repeat(Amount::Times(0), |b| b.op(Op::WaitChild))
            .build()
            .unwrap();
        let mut cursor = Cursor::start();
        let walked: Vec<Op> = std::iter::from_fn(|| Some(cursor.next(&program))).take(10).collect();
        let (e, y) = (Op::Exec, Op::Yield);
        assert_eq!(walked, [e, y, y, y, e, y, y, y, Op::Exit, Op::Exit]);
    }

    #[test]
    fn a_restart_goes_on_with_the_outermost_loop() {
        let program = ProgramBuilder::new()
            .repeat(Amount::Times(1), |b| b.op(Op::WaitChild))
            .repeat(Amount::Times(2), |b| b.op(Op::Exec).repeat(Amount::Times(3), |b| b.op(Op::Yield)))
            .build()
            .unwrap();
        let mut cursor = Cursor::start();
        let walk = |cursor: &mut Cursor, count| (0..count).map(|_| cursor.next(&program)).last();
        assert_eq!(walk(&mut cursor, 4), Some(Op::Yield));
        cursor.restart(&program);
        let mut cursor = Cursor::from_words(&cursor.to_words()).unwrap();
        assert_eq!(walk(&mut cursor, 1), Some(Op::Exec));
        cursor.restart(&program);
        assert_eq!(walk(&mut cursor, 1), Some(Op::Exit));
        cursor.restart(&program);
        assert_eq!(walk(&mut cursor, 1), Some(Op::Exit));
    }

    #[test]
    fn endless_loops_stay_endless() {
        let program = ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(Op::Yield)).build().unwrap();
        let mut cursor = Cursor::start();
        assert!((0..1000).all(|_| cursor.next(&program) == Op::Yield));
    }
}
