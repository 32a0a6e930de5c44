//! Which mechanisms of the kernel a scenario uses, to separate what was measured with the same ones from what was not.

use crate::program::{Op, Program};
use crate::scenario::{Attribute, ChannelKind, LockKind, PollKind, Scenario, SemKind, TaskSpec, Watched};
use schedlab_base::{Nice, Policy};
use std::collections::BTreeSet;

impl Scenario {
    /// True if a program moves a task between groups, or makes, changes or removes one.
    pub fn changes_groups(&self) -> bool {
        let moves = |change: &Attribute| matches!(change, Attribute::Group(_));
        !self.group_changes.is_empty() || self.changes.iter().any(moves)
    }

    /// The names of the mechanisms besides computing that the scenario's tasks can use, in alphabetical order.
    pub fn mechanisms(&self) -> BTreeSet<&'static str> {
        let used = self.reachable();
        let ops = self.programs.iter().enumerate().filter(|(at, _)| used.contains(at));
        let of_ops = ops.flat_map(|(_, program)| program.ops()).flat_map(|op| self.of_op(op));
        let of_tasks = self.tasks.iter().flat_map(of_task);
        of_ops.chain(of_tasks).collect()
    }

    /// The programs of the tasks at the start, and of their children.
    fn reachable(&self) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        let mut ahead: Vec<usize> = self.tasks.iter().map(|task| task.program.index()).collect();
        while let Some(at) = ahead.pop() {
            if found.insert(at) {
                let children = self.programs.get(at).into_iter().flat_map(Program::ops);
                ahead.extend(children.filter_map(|op| match op {
                    Op::Fork { program } => Some(program.index()),
                    _ => None,
                }));
            }
        }
        found
    }

    fn of_op(&self, op: &Op) -> Vec<&'static str> {
        let of_channel = |kind: ChannelKind| match kind {
            ChannelKind::Pipe => "pipe",
            ChannelKind::Unix => "unix",
            ChannelKind::Tcp => "tcp",
            ChannelKind::Udp => "udp",
            ChannelKind::SysvQueue | ChannelKind::PosixQueue => "message-queue",
        };
        let of_semaphore = |kind: SemKind| match kind {
            SemKind::Sysv => "semaphore",
            SemKind::EventFd => "eventfd",
        };
        match *op {
            Op::Sleep(_) | Op::Await { .. } | Op::TimerWait { .. } => vec!["sleep"],
            Op::Io { .. } | Op::Fsync { .. } => vec!["disk"],
            Op::Send { channel, .. } | Op::Recv { channel, .. } => {
                vec![of_channel(self.channels[channel.index()].kind)]
            }
            Op::SemWait(sem) | Op::SemPost { sem, .. } | Op::SemDrain(sem) => {
                vec![of_semaphore(self.semaphores[sem.index()].kind)]
            }
            Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => {
                vec![match self.lock_kind(lock) {
                    LockKind::Futex => "futex",
                    LockKind::FutexPi => "pi-futex",
                    LockKind::Flock | LockKind::Fcntl => "file-lock",
                }]
            }
            Op::CondWait { .. } | Op::CondSignal(_) | Op::CondBroadcast(_) | Op::Barrier(_) => vec!["futex"],
            Op::Poll(set) => {
                let set = &self.polls[set.index()];
                let watched = set.watched.iter().map(|watched| match *watched {
                    Watched::Channel(channel) => of_channel(self.channels[channel.index()].kind),
                    Watched::Semaphore(sem) => of_semaphore(self.semaphores[sem.index()].kind),
                });
                let call = match set.kind {
                    PollKind::Epoll => "epoll",
                    PollKind::Select | PollKind::Poll => "poll",
                };
                watched.chain([call]).collect()
            }
            Op::Connect { .. } | Op::Accept(_) | Op::Close(_) => vec!["listener"],
            Op::Kill(_) | Op::SigWait => vec!["signal"],
            Op::Fork { .. } | Op::WaitChild => vec!["fork"],
            Op::Exec => vec!["exec"],
            Op::Touch { .. } => vec!["pages"],
            Op::RunKernel(_) => vec!["kernel-work"],
            Op::Yield => vec!["yield"],
            Op::Set { change, .. } => of_attribute(&self.changes[change.index()]).into_iter().collect(),
            Op::SetGroup { .. } => vec!["groups"],
            Op::Hotplug { .. } => vec!["hotplug"],
            Op::Loop(_)
            | Op::EndLoop
            | Op::Run(_)
            | Op::RunFor(_)
            | Op::RecvReady { .. }
            | Op::Answer { .. }
            | Op::Late { .. }
            | Op::Age { .. }
            | Op::Store { .. }
            | Op::Advance(_)
            | Op::Note(_)
            | Op::RestartIfChanged(_)
            | Op::Count { .. }
            | Op::SpanBegin(_)
            | Op::SpanEnd(_)
            | Op::Exit => Vec::new(),
        }
    }
}

fn of_policy(policy: Policy) -> Option<&'static str> {
    match policy {
        Policy::Other | Policy::Ext => None,
        Policy::Batch | Policy::Idle => Some("batch"),
        Policy::Fifo(_) | Policy::Rr(_) => Some("real-time"),
        Policy::Deadline(_) => Some("deadline"),
    }
}

fn of_attribute(attribute: &Attribute) -> Option<&'static str> {
    match attribute {
        Attribute::Nice(_) => Some("nice"),
        Attribute::Policy(policy) => of_policy(*policy),
        Attribute::Affinity(_) => Some("affinity"),
        Attribute::Group(_) => Some("groups"),
    }
}

fn of_task(task: &TaskSpec) -> impl Iterator<Item = &'static str> {
    let flags = [
        (task.nice != Nice::ZERO, "nice"),
        (task.slice.is_some(), "slice"),
        (task.affinity.is_some(), "affinity"),
        (task.working_set_kib > 0, "working-set"),
        (task.group.is_some(), "groups"),
    ];
    of_policy(task.policy).into_iter().chain(flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use crate::catalog;

    fn of(spec: &str) -> Vec<&'static str> {
        catalog::build(spec, 1).unwrap().mechanisms().into_iter().collect()
    }

    #[test]
    fn a_scenario_names_what_its_tasks_use() {
        assert_eq!(of("cpuhog:ntasks=2"), Vec::<&str>::new());
        assert_eq!(of("cpuhog:ntasks=3,nice=0/5/10"), ["nice"]);
        assert_eq!(of("pipe"), ["pipe", "working-set"]);
        assert!(of("mkbench").contains(&"exec") && of("mkbench").contains(&"fork"));
        assert!(of("chat").contains(&"tcp"));
    }
}
