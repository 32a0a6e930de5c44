//! What blocked tasks wait for, what could end each wait, and the tasks whose wait nothing can end.
//!
//! A wait ends by what another task does: a write, an unlock, a signal. A task can do it if the operation lies ahead in its
//! program, or in that of a child that it may fork. So a wait never ends if none of the tasks that could end it ever
//! continues. What a program merely could do counts as done: no task is called stuck that may continue.

use super::{Executor, Phase, TaskExec};
use crate::state::kernel::Kernel;
use crate::state::task::Task;
use schedlab_base::TaskId;
use schedlab_workload::{
    Amount, BarrierId, ChannelId, CondId, ListenerId, LockId, LockKind, Op, ProgramId, SemId, Watched, WordId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What ends a wait, as far as tasks give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    Data(ChannelId),
    /// The answer to a message of a connection, whichever that is.
    AnAnswer,
    Room(ChannelId),
    /// Room in a connection, whichever that is.
    SomeRoom,
    Units(SemId),
    /// The lock from its holder.
    Lock(LockId, TaskId),
    Condition(CondId),
    Arrival(BarrierId),
    Connection(ListenerId),
    Signal(TaskId),
    Value(WordId),
    /// The end of a task.
    End(TaskId),
}

/// The living children of each task.
type Children = BTreeMap<TaskId, Vec<TaskId>>;

/// The tasks that wait, and for what.
#[derive(Debug)]
pub(crate) struct Waits {
    needs: BTreeMap<TaskId, Vec<Need>>,
    /// The tasks whose wait no task can end.
    for_ever: BTreeSet<TaskId>,
    /// The tasks that would give something, if they did not wait indefinitely themselves.
    givers: BTreeMap<Need, Vec<TaskId>>,
}

impl Waits {
    /// The waits of the present. Takes time in proportion to the tasks and the operations ahead of them.
    pub(crate) fn of(exec: &Executor, k: &Kernel) -> Waits {
        let mut children = Children::new();
        for task in k.own_tasks() {
            task.parent.into_iter().for_each(|parent| children.entry(parent).or_default().push(task.id));
        }
        let needs: BTreeMap<TaskId, Vec<Need>> =
            k.own_tasks().filter_map(|task| Some((task.id, exec.needs(task, &children)?))).collect();
        let mut waiting: BTreeMap<Need, Vec<TaskId>> = BTreeMap::new();
        for (task, needs) in &needs {
            needs.iter().for_each(|need| waiting.entry(*need).or_default().push(*task));
        }
        let mut for_ever: BTreeSet<TaskId> = needs.keys().copied().collect();
        let mut going_on: Vec<TaskId> =
            k.own_tasks().map(|task| task.id).filter(|task| !for_ever.contains(task)).collect();
        while let Some(task) = going_on.pop().and_then(|task| k.get_task(task)) {
            for given in exec.gives(task) {
                let ended = waiting.remove(&given).unwrap_or_default();
                going_on.extend(ended.into_iter().filter(|task| for_ever.remove(task)));
            }
        }
        let mut givers: BTreeMap<Need, Vec<TaskId>> = BTreeMap::new();
        for task in for_ever.iter().filter_map(|task| k.get_task(*task)) {
            exec.gives(task).into_iter().for_each(|need| givers.entry(need).or_default().push(task.id));
        }
        Waits { needs, for_ever, givers }
    }

    /// True for a task whose wait nothing can end.
    pub(crate) fn is_for_ever(&self, task: TaskId) -> bool {
        self.for_ever.contains(&task)
    }

    /// What a task needs to continue.
    pub(super) fn needs(&self, task: TaskId) -> &[Need] {
        self.needs.get(&task).map_or(&[], Vec::as_slice)
    }

    /// Other tasks that would give it one of these, but wait indefinitely themselves.
    pub(super) fn givers(&self, task: TaskId, needs: &[Need]) -> BTreeSet<TaskId> {
        let givers = needs.iter().filter_map(|need| self.givers.get(need)).flatten();
        givers.copied().filter(|giver| *giver != task).collect()
    }
}

impl TaskExec {
    /// The task keeps no run alive.
    pub(crate) fn is_background(&self) -> bool {
        self.background
    }

    /// The operation that the task is blocked in.
    pub(super) fn blocked_in(&self) -> Option<Op> {
        match self.phase {
            Phase::Enter(op) | Phase::Resume(op) | Phase::Again(op) => Some(op),
            _ => None,
        }
    }
}

impl Executor {
    /// What would end the task's wait; nothing where it does not wait for a task.
    fn needs(&self, task: &Task, children: &Children) -> Option<Vec<Need>> {
        if !task.state.is_blocked() || task.waking {
            return None;
        }
        let op = task.exec.blocked_in()?;
        let needs = match op {
            Op::Recv { channel, .. } => self.data(channel),
            Op::Send { channel, .. } => vec![Need::Room(channel), Need::SomeRoom],
            Op::SemWait(sem) => vec![Need::Units(sem)],
            Op::Lock(lock) | Op::LockShared(lock) => {
                let holders = self.holders(lock);
                return (!holders.is_empty())
                    .then(|| holders.into_iter().map(|holder| Need::Lock(lock, holder)).collect());
            }
            Op::Poll(set) => {
                let watched = self.scenario.polls[set.index()].watched.iter();
                watched
                    .flat_map(|watched| match *watched {
                        Watched::Channel(channel) => self.data(channel),
                        Watched::Semaphore(sem) => vec![Need::Units(sem)],
                    })
                    .collect()
            }
            Op::Accept(listener) => vec![Need::Connection(listener)],
            Op::SigWait => vec![Need::Signal(task.id)],
            // Asleep between two looks: what it will see is there already.
            Op::Await { word, value, .. } if self.objects.words[word.index()] == value => return None,
            Op::Await { word, .. } => vec![Need::Value(word)],
            Op::CondWait { cond, .. } => vec![Need::Condition(cond)],
            Op::Barrier(barrier) => vec![Need::Arrival(barrier)],
            Op::WaitChild => children.get(&task.id).into_iter().flatten().copied().map(Need::End).collect(),
            no_calls!()
            | Op::RunKernel(_)
            | Op::Sleep(_)
            | Op::Io { .. }
            | Op::Fsync { .. }
            | Op::SemPost { .. }
            | Op::SemDrain(_)
            | Op::Unlock(_)
            | Op::Connect { .. }
            | Op::Close(_)
            | Op::Kill(_)
            | Op::CondSignal(_)
            | Op::CondBroadcast(_)
            | Op::TimerWait { .. }
            | Op::Yield
            | Op::Fork { .. }
            | Op::Exec
            | Op::Set { .. }
            | Op::SetGroup { .. }
            | Op::Hotplug { .. }
            | Op::Exit => return None,
        };
        Some(needs)
    }

    /// What a reader of the channel needs.
    fn data(&self, channel: ChannelId) -> Vec<Need> {
        let answered = self.scenario.channels.iter().any(|other| other.peer == Some(channel));
        let opened_later = self.scenario.channels[channel.index()].peer.is_some();
        let answers = (answered || opened_later).then_some(Need::AnAnswer);
        [Need::Data(channel)].into_iter().chain(answers).collect()
    }

    /// The tasks that hold a lock.
    fn holders(&self, lock: LockId) -> Vec<TaskId> {
        let at = lock.index();
        match self.scenario.lock_kind(lock) {
            LockKind::Futex => self.objects.mutexes[at].holder().into_iter().collect(),
            LockKind::FutexPi => self.objects.pi_mutexes[at].owner().into_iter().collect(),
            LockKind::Flock | LockKind::Fcntl => self.objects.file_locks[at].holders().collect(),
        }
    }

    /// All that the task may give before it ends, and its end if it may come to that.
    fn gives(&self, task: &Task) -> BTreeSet<Need> {
        let ahead = task.exec.cursor.ahead(&self.scenario.programs[task.exec.program.index()]);
        let mut given = BTreeSet::new();
        self.given_by(ahead, task.id, &mut given, &mut BTreeSet::new());
        if may_end(ahead) {
            given.insert(Need::End(task.id));
            let locks = (0..).map(LockId).take(self.scenario.locks.len());
            let of_files = locks.filter(|&lock| is_of_file(self.scenario.lock_kind(lock)));
            given.extend(of_files.map(|lock| Need::Lock(lock, task.id)));
        }
        given
    }

    /// Adds what operations of a task give, with those of the children that they fork.
    fn given_by(
        &self,
        ops: &[Op],
        task: TaskId,
        given: &mut BTreeSet<Need>,
        forked: &mut BTreeSet<ProgramId>,
    ) {
        for &op in ops {
            let gives = match op {
                Op::Send { channel, .. } => Need::Data(channel),
                Op::Answer { .. } => Need::AnAnswer,
                Op::Recv { channel, .. } => Need::Room(channel),
                Op::RecvReady { .. } => Need::SomeRoom,
                Op::SemPost { sem, .. } => Need::Units(sem),
                Op::Unlock(lock) | Op::CondWait { lock, .. } => Need::Lock(lock, task),
                Op::CondSignal(cond) | Op::CondBroadcast(cond) => Need::Condition(cond),
                Op::Barrier(barrier) => Need::Arrival(barrier),
                Op::Connect { listener, .. } => Need::Connection(listener),
                Op::Kill(target) => Need::Signal(TaskId(target.0)),
                Op::Store { word, .. } | Op::Advance(word) => Need::Value(word),
                Op::Fork { program } => {
                    if forked.insert(program) {
                        self.given_by(self.scenario.programs[program.index()].ops(), task, given, forked);
                    }
                    continue;
                }
                _ => continue,
            };
            given.insert(gives);
        }
    }
}

/// True for locks that the end of their holder releases.
fn is_of_file(kind: LockKind) -> bool {
    match kind {
        LockKind::Flock | LockKind::Fcntl => true,
        LockKind::Futex | LockKind::FutexPi => false,
    }
}

/// True if a task with these operations ahead may come to its end.
fn may_end(ahead: &[Op]) -> bool {
    let endless = ahead.iter().any(|op| matches!(op, Op::Loop(Amount::Forever)));
    !endless || ahead.contains(&Op::Exit)
}
