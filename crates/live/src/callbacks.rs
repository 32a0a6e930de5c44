//! How often the kernel called a scheduler's callbacks during a run, and how long they took.
//!
//! The kernel counts for each program from its load on. What counts is the difference between the run's begin and end, which
//! the leader sees: it reads the counts then and hands them over through a pipe.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;

use schedlab_base::DurationNs;
use schedlab_bpf::object::Object;
use schedlab_trace::CallbackCost;

use crate::exec::Window;
use crate::load::{InCharge, ProgramCounts, SchedulerObject, count_run_time};

/// Counts until it is dropped, which costs each call two looks at the clock.
pub(crate) struct CallbackCounter {
    programs: Vec<(String, ProgramCounts)>,
    to: PipeWriter,
    from: PipeReader,
    _counting: OwnedFd,
}

/// Calls and ns of each program, in order.
type Counts = Vec<[u64; 2]>;

impl CallbackCounter {
    /// For the callbacks of a scheduler that is in charge.
    ///
    /// # Errors
    /// A kernel that does not count, or no room for descriptors.
    pub(crate) fn start(scheduler: &SchedulerObject, loaded: &InCharge) -> io::Result<CallbackCounter> {
        let (from, to) = io::pipe()?;
        let members = members(scheduler);
        let named =
            |(program, counts): (String, ProgramCounts)| Some((members.get(&program)?.clone(), counts));
        let programs = loaded.program_counts(scheduler).into_iter().filter_map(named).collect();
        Ok(CallbackCounter { programs, to, from, _counting: count_run_time()? })
    }

    fn tell(&self) {
        let counts = self.programs.iter().flat_map(|(_, counts)| counts.read().unwrap_or_default());
        let bytes: Vec<u8> = counts.flat_map(u64::to_ne_bytes).collect();
        // What cannot be read is missing in the end.
        let _ = (&self.to).write_all(&bytes);
    }

    /// What was counted between begin and end, without callbacks that were not called; nothing for a run that had no end.
    pub(crate) fn finish(self) -> Vec<CallbackCost> {
        let CallbackCounter { programs, to, mut from, .. } = self;
        // The leader, which had the other writing end, is gone.
        drop(to);
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let numbers: Counts = bytes.as_chunks().0.iter().map(pair).collect();
        let Some((begin, end)) = numbers.split_at_checked(programs.len()) else { return Vec::new() };
        let costs = programs.into_iter().zip(begin.iter().zip(end));
        let costs = costs.map(|((name, _), (begin, end))| cost(name, *begin, *end));
        costs.filter(|cost| cost.calls > 0).collect()
    }
}

/// Of the callback of that name, by calls and ns at begin and end.
fn cost(name: String, begin: [u64; 2], end: [u64; 2]) -> CallbackCost {
    let [calls, time] = [0, 1].map(|at| end[at].saturating_sub(begin[at]));
    CallbackCost { name, calls, insns: None, time: DurationNs(time) }
}

fn pair(bytes: &[u8; 16]) -> [u64; 2] {
    let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    [number(0), number(8)]
}

/// Of each program that is a callback: the member of the scheduler's operations.
fn members(scheduler: &SchedulerObject) -> BTreeMap<String, String> {
    let Ok(object) = Object::parse(&scheduler.name, &scheduler.bytes) else { return BTreeMap::new() };
    let functions = object.struct_ops().iter().flat_map(|table| &table.functions);
    functions.map(|(member, program)| (program.clone(), member.clone())).collect()
}

impl Window for CallbackCounter {
    fn follow(&self, _leader: u32) {}

    fn open(&self, _begin_ns: u64) {
        self.tell();
    }

    fn close(&self) {
        self.tell();
    }
}
