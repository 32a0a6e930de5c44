//! A task's wait in words: what for, and which tasks stand behind it.

use super::Executor;
use super::blocked::{Need, Waits};
use crate::state::kernel::Kernel;
use crate::state::task::{FIRST_PID, Task};
use schedlab_base::TaskId;
use schedlab_workload::{BarrierId, ChannelKind, LockKind, Op, SemKind, Watched};
use std::collections::BTreeSet;

/// Tasks that are named where several stand behind a wait. Chosen: what a person reads.
const NAMED: usize = 3;

impl Executor {
    /// A task and what it waits for: `two[1002] for a mutex that one[1001] holds`.
    pub(crate) fn wait_in_words(&self, k: &Kernel, waits: &Waits, task: &Task) -> String {
        format!("{} for {}", named(task), self.wait_for(k, waits, task))
    }

    fn wait_for(&self, k: &Kernel, waits: &Waits, task: &Task) -> String {
        let Some(op) = task.exec.blocked_in() else { return "the CPU".to_string() };
        let needs = waits.needs(task.id);
        let givers = waits.givers(task.id, needs);
        let from = |nobody: &str| match givers.is_empty() {
            true => format!(" that no task {nobody}"),
            false => format!(" from {}", self.list(k, &givers)),
        };
        match op {
            Op::Recv { channel, .. } | Op::Send { channel, .. } => {
                let (what, verb) = transfer(op, self.scenario.channels[channel.index()].kind);
                format!("{what}{}", from(verb))
            }
            Op::SemWait(sem) => match self.scenario.semaphores[sem.index()].kind {
                SemKind::Sysv => format!("a unit of a semaphore{}", from("posts")),
                SemKind::EventFd => format!("a unit of an eventfd{}", from("posts")),
            },
            Op::Lock(lock) | Op::LockShared(lock) => {
                let kind = match self.scenario.lock_kind(lock) {
                    LockKind::Futex | LockKind::FutexPi => "a mutex",
                    LockKind::Flock | LockKind::Fcntl => "a lock of a file",
                };
                format!("{kind}{}", self.held_by(k, task.id, needs))
            }
            Op::CondWait { .. } => format!("a condition variable{}", from("signals")),
            Op::Barrier(barrier) => self.at_barrier(k, waits, needs, (barrier, givers)),
            Op::Poll(set) => {
                let of_semaphores = |watched: &Watched| matches!(watched, Watched::Semaphore(_));
                let what = match self.scenario.polls[set.index()].watched.iter().all(of_semaphores) {
                    true => "one of several eventfds",
                    false => "one of several descriptors",
                };
                format!("{what}{}", from("writes to"))
            }
            Op::Accept(_) => format!("a connection{}", from("opens")),
            Op::SigWait => format!("a signal{}", from("sends")),
            Op::WaitChild => format!("the end of a child: {}", self.list(k, &ends(needs))),
            Op::Await { .. } => format!("the value of a word{}", from("sets")),
            Op::Io { .. } | Op::Fsync { .. } => "a disk".to_string(),
            Op::Sleep(_) | Op::TimerWait { .. } => "a timer".to_string(),
            no_calls!()
            | Op::RunKernel(_)
            | Op::SemPost { .. }
            | Op::SemDrain(_)
            | Op::Unlock(_)
            | Op::Connect { .. }
            | Op::Close(_)
            | Op::Kill(_)
            | Op::CondSignal(_)
            | Op::CondBroadcast(_)
            | Op::Yield
            | Op::Fork { .. }
            | Op::Exec
            | Op::Set { .. }
            | Op::SetGroup { .. }
            | Op::Hotplug { .. }
            | Op::Exit => "the CPU".to_string(),
        }
    }

    /// How many tasks are at a barrier, and which of those that would come wait for something else.
    fn at_barrier(
        &self,
        k: &Kernel,
        waits: &Waits,
        needs: &[Need],
        (barrier, mut others): (BarrierId, BTreeSet<TaskId>),
    ) -> String {
        let (there, parties) = self.objects.barriers[barrier.index()].arrived();
        others.retain(|task| waits.needs(*task) != needs);
        let missing =
            if others.is_empty() { String::new() } else { format!(", not {}", self.list(k, &others)) };
        format!("a barrier where {there} of {parties} tasks are{missing}")
    }

    /// The holders of the lock that the task waits for.
    fn held_by(&self, k: &Kernel, task: TaskId, needs: &[Need]) -> String {
        let holder = |need: &Need| match need {
            Need::Lock(_, holder) => Some(*holder),
            _ => None,
        };
        let holders: BTreeSet<TaskId> = needs.iter().filter_map(holder).collect();
        match holders.len() {
            0 => String::new(),
            1 if holders.contains(&task) => " that it holds itself".to_string(),
            1 => format!(" that {} holds", self.list(k, &holders)),
            _ => format!(" that {} hold", self.list(k, &holders)),
        }
    }

    /// The first of some tasks, and how many more there are.
    fn list(&self, k: &Kernel, tasks: &BTreeSet<TaskId>) -> String {
        let first: Vec<String> = tasks.iter().take(NAMED).map(|task| self.named(k, *task)).collect();
        let more = tasks.len() - first.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", first.join(", "))
    }

    /// A task that lives or has ended, with its pid.
    fn named(&self, k: &Kernel, task: TaskId) -> String {
        if let Some(task) = k.get_task(task) {
            return named(task);
        }
        let name = self.scenario.tasks.get(task.index()).map_or("a child", |task| task.name.as_str());
        format!("{name}[{}], which has ended,", FIRST_PID.cast_unsigned() + task.0)
    }
}

fn named(task: &Task) -> String {
    format!("{}[{}]", task.name(), task.pid)
}

/// What a task waits for in a channel, and what another task would do for it.
fn transfer(op: Op, kind: ChannelKind) -> (&'static str, &'static str) {
    let reads = matches!(op, Op::Recv { .. });
    match kind {
        ChannelKind::Pipe if reads => ("data in a pipe", "writes"),
        ChannelKind::Pipe => ("room in a pipe", "makes by reading"),
        ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp if reads => ("data in a socket", "writes"),
        ChannelKind::Unix | ChannelKind::Tcp | ChannelKind::Udp => ("room in a socket", "makes by reading"),
        ChannelKind::SysvQueue | ChannelKind::PosixQueue if reads => ("a message in a queue", "sends"),
        ChannelKind::SysvQueue | ChannelKind::PosixQueue => ("room in a queue", "makes by receiving"),
    }
}

/// The tasks whose end is needed.
fn ends(needs: &[Need]) -> BTreeSet<TaskId> {
    let end = |need: &Need| match need {
        Need::End(task) => Some(*task),
        _ => None,
    };
    needs.iter().filter_map(end).collect()
}
