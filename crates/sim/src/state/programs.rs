//! Programs as rows of plain operations, and the places of tasks in them: what the lane knows of the executor.
//!
//! A row has an operation for each of its program's, so that a place in one is a place in the other. Programs of computing,
//! sleeping and taking down figures in endless loops have no others; the end of a program stands in the row as [`FlatOp::Other`].

use schedlab_base::{DurationNs, TimeNs};
use schedlab_workload::{Amount, Op, Program, SpanId};

/// An operation of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlatOp {
    /// Nothing is done.
    Pass,
    /// Continues at this place.
    Jump(u32),
    /// Computes.
    Run(DurationNs),
    /// Sleeps.
    Sleep(DurationNs),
    /// Begins a span.
    SpanBegin(SpanId),
    /// Ends a span.
    SpanEnd(SpanId),
    /// Counts: counter, units.
    Count(u32, u32),
    /// The general core's.
    Other,
}

/// The programs of a run, one row behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlatPrograms {
    pub(crate) ops: Vec<FlatOp>,
    /// Where each program begins.
    pub(crate) starts: Vec<u32>,
    /// How many loops are open before each operation.
    pub(crate) depths: Vec<u8>,
}

impl FlatPrograms {
    /// The rows of `programs`; nothing if one of them has more than the lane knows.
    pub(crate) fn new(programs: &[Program]) -> Option<FlatPrograms> {
        let mut flat = FlatPrograms::default();
        for program in programs {
            flat.starts.push(flat.ops.len() as u32);
            let mut open = Vec::new();
            for op in program.ops() {
                flat.depths.push(open.len() as u8);
                let at = flat.ops.len() as u32;
                flat.ops.push(match *op {
                    Op::Loop(Amount::Forever) => {
                        open.push(at + 1);
                        FlatOp::Pass
                    }
                    Op::EndLoop => FlatOp::Jump(open.pop()?),
                    Op::Run(DurationNs::ZERO) => FlatOp::Pass,
                    Op::Run(span) => FlatOp::Run(span),
                    Op::Sleep(span) => FlatOp::Sleep(span),
                    Op::SpanBegin(span) => FlatOp::SpanBegin(span),
                    Op::SpanEnd(span) => FlatOp::SpanEnd(span),
                    Op::Count { counter, units } => FlatOp::Count(counter.0, units),
                    _ => return None,
                });
            }
            flat.depths.push(open.len() as u8);
            flat.ops.push(FlatOp::Other);
        }
        Some(flat)
    }
}

/// Where a task is in its present operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlatPhase {
    /// Before the next one.
    Fetch,
    /// It has paid for the system call of the one before its place, a sleep.
    Enter,
    /// It was woken from that.
    Resume,
}

/// The executor's part of a task in the lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatExec {
    /// The place of its next operation, among all rows.
    pub(crate) at: u32,
    pub(crate) phase: FlatPhase,
    pub(crate) taken_timers: u32,
    /// As [`crate::exec::TaskExec`] has them.
    pub(crate) entered: DurationNs,
    pub(crate) system: DurationNs,
    pub(crate) open: Option<(SpanId, TimeNs)>,
}
