//! What is checked of a scenario before anything runs it.

use crate::group::{GroupChange, MOST_GROUPS, check_path, check_settings, check_weight};
use crate::program::{ChangeId, GroupChangeId, GroupId, MAX_SHARED_TIMERS, Op, TaskRef};
use crate::scenario::{
    Attribute, ChannelKind, LockKind, ProcessId, Scenario, ScenarioError, SemKind, TaskSpec, Watched,
};
use schedlab_base::CpuId;
use std::collections::BTreeSet;

/// Why a task cannot be in a group: cgroup v2 wants no tasks in a group whose children have controllers.
const NO_HOME: &str = "a group with groups in it has no tasks (cgroup v2)";

impl Scenario {
    /// Checks that every index points at something and that every message fits
    /// its channel. Executors rely on it.
    ///
    /// # Errors
    /// Names the first offending task, program or operation.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        if self.tasks.is_empty() {
            return Err(ScenarioError(format!("{}: a scenario needs at least one task", self.name)));
        }
        self.check_groups()?;
        let named = |(number, text): (usize, String)| format!("task {}: {text}", self.tasks[number].name);
        self.check_identities().map_err(|wrong| ScenarioError(named(wrong)))?;
        let inner = self.inner_groups();
        for task in &self.tasks {
            self.check_start(task, &inner)
                .map_err(|text| ScenarioError(format!("task {}: {text}", task.name)))?;
            if task.program.index() >= self.programs.len() {
                return Err(ScenarioError(format!("task {}: no program {}", task.name, task.program.0)));
            }
            if task.affinity.as_ref().is_some_and(|mask| mask.is_empty()) {
                return Err(ScenarioError(format!("task {}: an empty affinity mask", task.name)));
            }
        }
        for (number, program) in self.programs.iter().enumerate() {
            for (at, op) in program.ops().iter().enumerate() {
                self.check_op(op)
                    .and_then(|()| self.check_group_op(op, &inner))
                    .map_err(|text| ScenarioError(format!("program {number}, op {at} ({op:?}): {text}")))?;
            }
        }
        self.check_objects()
    }

    /// Checks one operation of a program as [`Scenario::validate`] does.
    pub(crate) fn check_op(&self, op: &Op) -> Result<(), &'static str> {
        match *op {
            Op::Send { channel, bytes } | Op::Recv { channel, bytes } => {
                known(channel.index(), self.channels.len())?;
                if bytes > self.channels[channel.index()].capacity {
                    return Err("the message is larger than the channel");
                }
                Ok(())
            }
            Op::SemWait(sem) | Op::SemPost { sem, .. } => known(sem.index(), self.semaphores.len()),
            Op::SemDrain(sem) => {
                known(sem.index(), self.semaphores.len())?;
                if self.semaphores[sem.index()].kind != SemKind::Sysv {
                    return Err("only System V semaphores can be drained");
                }
                Ok(())
            }
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::LockShared(_)
            | Op::CondWait { .. }
            | Op::CondSignal(_)
            | Op::CondBroadcast(_)
            | Op::Barrier(_) => self.check_lock(op),
            Op::Poll(set) => known(set.index(), self.polls.len()),
            Op::Kill(task) => known(task.index(), self.tasks.len()),
            Op::Store { word, .. }
            | Op::Advance(word)
            | Op::Await { word, .. }
            | Op::Note(word)
            | Op::RestartIfChanged(word) => known(word.index(), self.words as usize),
            Op::TimerWait { timer, .. }
                if timer.shared().is_some_and(|number| number >= MAX_SHARED_TIMERS) =>
            {
                Err("too many timers")
            }
            Op::Late { timer, .. } if timer.shared().is_some() => Err("too many timers in a task"),
            Op::Io { disk, .. } | Op::Fsync { disk, .. } => known(disk.index(), self.disks.len()),
            Op::Accept(listener) => known(listener.index(), self.listeners as usize),
            Op::Connect { listener, channel } => {
                known(listener.index(), self.listeners as usize)?;
                match channel.map(|channel| self.channels.get(channel.index())) {
                    Some(None) => Err("no such object"),
                    Some(Some(channel)) if channel.peer.is_none() => {
                        Err("only one of two channels that are each other's peer can be connected")
                    }
                    _ => Ok(()),
                }
            }
            Op::Age { channel, span } => {
                known(channel.index(), self.channels.len())?;
                known(span.0 as usize, self.spans as usize)
            }
            Op::Close(span) | Op::Late { span, .. } => known(span.0 as usize, self.spans as usize),
            Op::Set { task, change } => self.check_change(task, change),
            Op::SetGroup { group, change } => self.check_group_change(group, change),
            Op::Hotplug { cpu: CpuId(0), .. } => Err("CPU 0 stays online"),
            Op::Fork { program } => known(program.index(), self.programs.len()),
            Op::Count { counter, .. } => known(counter.0 as usize, self.counters as usize),
            Op::SpanBegin(span) | Op::SpanEnd(span) => known(span.0 as usize, self.spans as usize),
            _ => Ok(()),
        }
    }

    fn check_change(&self, task: Option<TaskRef>, change: ChangeId) -> Result<(), &'static str> {
        known(change.index(), self.changes.len())?;
        match self.changes[change.index()] {
            Attribute::Affinity(mask) if mask.is_empty() => return Err("an empty affinity mask"),
            Attribute::Group(Some(group)) => known(group.index(), self.groups.len())?,
            _ => {}
        }
        task.map_or(Ok(()), |task| known(task.index(), self.tasks.len()))
    }

    /// The groups that have groups in them.
    pub(crate) fn inner_groups(&self) -> BTreeSet<GroupId> {
        self.groups.iter().filter_map(|group| group.parent).collect()
    }

    /// Checks that an operation, whose indices are known, asks of groups in `inner` nothing that only one without groups in it can do.
    pub(crate) fn check_group_op(&self, op: &Op, inner: &BTreeSet<GroupId>) -> Result<(), &'static str> {
        match *op {
            Op::Set { change, .. } => match self.changes[change.index()] {
                Attribute::Group(Some(group)) if inner.contains(&group) => Err(NO_HOME),
                _ => Ok(()),
            },
            Op::SetGroup { group, change } => match self.group_changes[change.index()] {
                GroupChange::Remove if inner.contains(&group) => {
                    Err("a group with groups in it cannot be removed")
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_group_change(&self, group: GroupId, change: GroupChangeId) -> Result<(), &'static str> {
        known(group.index(), self.groups.len())?;
        known(change.index(), self.group_changes.len())?;
        match self.group_changes[change.index()] {
            GroupChange::Weight(weight) if check_weight(weight).is_err() => Err("a weight is 1 to 10000"),
            GroupChange::Cpus(mask) if mask.is_empty() => Err("an empty set of CPUs"),
            GroupChange::Make if !self.groups[group.index()].later => {
                Err("only a group with later = true can be made by a program")
            }
            _ => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), ScenarioError> {
        if self.groups.len() > MOST_GROUPS {
            let text = format!("{} groups, at most {MOST_GROUPS} are supported", self.groups.len());
            return Err(ScenarioError(text));
        }
        let mut paths = BTreeSet::new();
        for (number, group) in self.groups.iter().enumerate() {
            let refused = |text: String| Err(ScenarioError(format!("group {}: {text}", group.path)));
            check_path(&group.path).and_then(|()| check_settings(&group.settings)).or_else(refused)?;
            let parent = match group.parent {
                Some(parent) if parent.index() >= number => {
                    return refused("its parent comes after it".to_string());
                }
                parent => parent.map(|parent| &self.groups[parent.index()]),
            };
            let above = group.path.rsplit_once('/').map(|(above, _)| above);
            if parent.map(|parent| parent.path.as_str()) != above || !paths.insert(&group.path) {
                return refused("it is not the one of its path".to_string());
            }
            if parent.is_some_and(|parent| parent.later && !group.later) {
                return refused("its parent is not there at the start".to_string());
            }
            if group.cpus.is_some_and(|cpus| cpus.is_empty()) {
                return refused("an empty set of CPUs".to_string());
            }
        }
        Ok(())
    }

    /// The task can start in its group.
    fn check_start(&self, task: &TaskSpec, inner: &BTreeSet<GroupId>) -> Result<(), &'static str> {
        let Some(group) = task.group else { return Ok(()) };
        known(group.index(), self.groups.len())?;
        match self.groups[group.index()].later {
            _ if inner.contains(&group) => Err(NO_HOME),
            true => Err("its group is not there at the start"),
            false => Ok(()),
        }
    }

    fn check_lock(&self, op: &Op) -> Result<(), &'static str> {
        match *op {
            Op::Lock(lock) | Op::Unlock(lock) => known(lock.index(), self.locks.len()),
            Op::LockShared(lock) => {
                known(lock.index(), self.locks.len())?;
                if !self.locks[lock.index()].is_file() {
                    return Err("only file locks can be shared");
                }
                Ok(())
            }
            Op::CondWait { cond, lock } => {
                known(cond.index(), self.conds as usize)?;
                known(lock.index(), self.locks.len())?;
                if self.locks[lock.index()] != LockKind::Futex {
                    return Err("a condition variable goes with a mutex");
                }
                Ok(())
            }
            Op::CondSignal(cond) | Op::CondBroadcast(cond) => known(cond.index(), self.conds as usize),
            Op::Barrier(barrier) => {
                known(barrier.index(), self.barriers.len())?;
                if self.barriers[barrier.index()] == 0 {
                    return Err("a barrier needs at least one party");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Poll sets watch what can be watched, messages of one queue have one length, and
    /// record locks are not shared by threads.
    fn check_objects(&self) -> Result<(), ScenarioError> {
        for (number, set) in self.polls.iter().enumerate() {
            let fail = |text: &str| Err(ScenarioError(format!("poll set {number}: {text}")));
            if set.watched.is_empty() {
                return fail("it watches nothing");
            }
            for watched in &set.watched {
                let kind = match *watched {
                    Watched::Channel(channel) => self.channels.get(channel.index()).map(|c| {
                        if c.kind == ChannelKind::SysvQueue { "a System V message queue" } else { "" }
                    }),
                    Watched::Semaphore(sem) => self
                        .semaphores
                        .get(sem.index())
                        .map(|s| if s.kind == SemKind::Sysv { "a System V semaphore" } else { "" }),
                };
                match kind {
                    None => return fail("it watches an object that does not exist"),
                    Some("") => {}
                    Some(what) => return fail(&format!("{what} cannot be polled")),
                }
            }
        }
        self.check_messages()?;
        self.check_record_locks()
    }

    fn check_messages(&self) -> Result<(), ScenarioError> {
        if !self.channels.iter().any(|channel| channel.kind.is_message_based()) {
            return Ok(());
        }
        let lengths = self.message_lengths();
        for op in self.programs.iter().flat_map(|program| program.ops()) {
            if let Op::Send { channel, bytes } | Op::Recv { channel, bytes } = *op
                && self.channels[channel.index()].kind.is_message_based()
                && lengths[channel.index()] != bytes
            {
                return Err(ScenarioError(format!(
                    "channel {}: all messages of a queue or datagram socket need one length",
                    channel.0
                )));
            }
        }
        Ok(())
    }

    fn check_record_locks(&self) -> Result<(), ScenarioError> {
        for (number, _) in self.locks.iter().enumerate().filter(|(_, kind)| **kind == LockKind::Fcntl) {
            let uses =
                |op: &Op| matches!(*op, Op::Lock(lock) | Op::LockShared(lock) if lock.index() == number);
            let users: Vec<ProcessId> = self
                .tasks
                .iter()
                .filter(|task| self.programs[task.program.index()].ops().iter().any(uses))
                .map(|task| task.process)
                .collect();
            let mut distinct = users.clone();
            distinct.sort_unstable();
            distinct.dedup();
            if distinct.len() < users.len() {
                return Err(ScenarioError(format!(
                    "lock {number}: a record lock belongs to a process, its threads cannot exclude each other"
                )));
            }
        }
        Ok(())
    }
}

fn known(index: usize, len: usize) -> Result<(), &'static str> {
    if index < len { Ok(()) } else { Err("no such object") }
}
