//! The place of a task in its program.

use crate::program::{Amount, MAX_LOOP_DEPTH, Op, Program};

/// A task's position in its program and the counts of its open loops. Small and
/// copyable; it holds no reference to the program.
#[derive(Clone, Copy, Debug, Default)]
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

    /// The next operation that an executor has to do; loops are walked here.
    /// [`Op::Exit`] at the end of the program, for ever. Takes time in proportion
    /// to the loop operations passed.
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
    fn endless_loops_stay_endless() {
        let program = ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(Op::Yield)).build().unwrap();
        let mut cursor = Cursor::start();
        assert!((0..1000).all(|_| cursor.next(&program) == Op::Yield));
    }
}
