//! Sets of objects that tasks poll.

use schedlab_base::TaskId;
use schedlab_workload::{PollKind, PollSet as Spec, Watched};

/// A set: what it watches, and the tasks that wait in the system call.
#[derive(Debug)]
pub(crate) struct PollSet {
    pub(crate) kind: PollKind,
    pub(crate) watched: Vec<Watched>,
    /// In the order in which they are woken: the latest first, as pollers and `epoll_wait()` put themselves at
    /// the heads of the wait queues.
    waiters: Vec<TaskId>,
    /// Where the search for a readable object begins: an epoll instance takes turns, the others begin at the
    /// front.
    from: usize,
}

impl PollSet {
    pub(crate) fn new(spec: &Spec) -> PollSet {
        PollSet { kind: spec.kind, watched: spec.watched.clone(), waiters: Vec::new(), from: 0 }
    }

    /// Queues a task that found nothing.
    pub(crate) fn wait(&mut self, task: TaskId) {
        self.waiters.insert(0, task);
    }

    /// The next task to wake when a watched object can be read.
    pub(crate) fn pop_waiter(&mut self) -> Option<TaskId> {
        (!self.waiters.is_empty()).then(|| self.waiters.remove(0))
    }

    /// How many an event wakes: one for epoll, where waiting is exclusive, else all.
    pub(crate) fn to_wake(&self) -> usize {
        if self.kind == PollKind::Epoll { self.waiters.len().min(1) } else { self.waiters.len() }
    }

    /// The object to read next of those that `is_readable` says yes to, and how many there are.
    pub(crate) fn choose(&mut self, is_readable: impl Fn(Watched) -> bool) -> Option<(Watched, usize)> {
        let len = self.watched.len();
        let count = self.watched.iter().filter(|watched| is_readable(**watched)).count();
        let at = (0..len).map(|step| (self.from + step) % len).find(|&at| is_readable(self.watched[at]))?;
        if self.kind == PollKind::Epoll {
            self.from = (at + 1) % len;
        }
        Some((self.watched[at], count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::ChannelId;

    fn set(kind: PollKind) -> PollSet {
        let watched = (0..3).map(|channel| Watched::Channel(ChannelId(channel))).collect();
        PollSet::new(&Spec { kind, watched })
    }

    #[test]
    fn epoll_takes_turns_and_wakes_one() {
        let mut epoll = set(PollKind::Epoll);
        let of = |channel| Some((Watched::Channel(ChannelId(channel)), 2));
        let readable = |watched| watched != Watched::Channel(ChannelId(1));
        assert_eq!((epoll.choose(readable), epoll.choose(readable)), (of(0), of(2)));
        assert_eq!(epoll.choose(readable), of(0));
        epoll.wait(TaskId(1));
        epoll.wait(TaskId(2));
        assert_eq!((epoll.to_wake(), epoll.pop_waiter()), (1, Some(TaskId(2))));
    }

    #[test]
    fn poll_begins_at_the_front_and_wakes_all() {
        let mut poll = set(PollKind::Poll);
        for _ in 0..2 {
            assert_eq!(poll.choose(|_| true), Some((Watched::Channel(ChannelId(0)), 3)));
        }
        assert_eq!(poll.choose(|_| false), None);
        poll.wait(TaskId(1));
        poll.wait(TaskId(2));
        assert_eq!(poll.to_wake(), 2);
    }
}
