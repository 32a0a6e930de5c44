//! Message queues, System V and POSIX. No contents are kept, only how many messages there are: all messages of a
//! queue have one length.
//!
//! As in the kernel a sender hands its message directly to a waiting receiver, which is thereby served: no
//! other task can get in between (`pipelined_send()` of both implementations). They differ in which task is
//! served, and in what happens to senders that found the queue full.

use crate::event::lock::Timeline;
use schedlab_base::TaskId;
use schedlab_workload::ChannelKind;
use std::collections::VecDeque;

/// A queue of messages.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    posix: bool,
    /// Messages it holds at most.
    room: u32,
    count: u32,
    receivers: VecDeque<TaskId>,
    senders: VecDeque<TaskId>,
    /// The queue's lock.
    pub(crate) lock: Timeline,
}

/// What happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// This receiver has it and is to be woken.
    Handed(TaskId),
    /// The message lies in the queue.
    Queued,
    /// There was no room; the sender blocks.
    Full,
}

impl MessageQueue {
    /// An empty queue of `capacity` bytes for messages of `length`.
    pub(crate) fn new(kind: ChannelKind, capacity: u32, length: u32) -> MessageQueue {
        MessageQueue {
            posix: kind == ChannelKind::PosixQueue,
            room: (capacity / length.max(1)).max(1),
            count: 0,
            receivers: VecDeque::new(),
            senders: VecDeque::new(),
            lock: Timeline::default(),
        }
    }

    /// True when a message can be received.
    pub(crate) fn is_readable(&self) -> bool {
        self.count > 0
    }

    /// Sends a message of `task`, which is queued to wait when there is no room. `rank` orders waiters, the
    /// smallest first; it counts for POSIX queues alone (`wq_add()` sorts by `task->prio`).
    pub(crate) fn send(&mut self, task: TaskId, rank: impl Fn(TaskId) -> i32) -> Sent {
        debug_assert!(self.count <= self.room, "a queue holds what it has room for");
        if let Some(receiver) = Self::first(&mut self.receivers, self.posix, rank) {
            return Sent::Handed(receiver);
        }
        if self.count < self.room {
            self.count += 1;
            return Sent::Queued;
        }
        self.senders.push_back(task);
        Sent::Full
    }

    /// Receives a message, or queues the task; false when it has to block.
    pub(crate) fn receive(&mut self, task: TaskId) -> bool {
        debug_assert!(self.count <= self.room, "a queue holds what it has room for");
        if self.count == 0 {
            self.receivers.push_back(task);
            return false;
        }
        self.count -= 1;
        true
    }

    /// After a receive: a waiting sender that is to be woken. That of a POSIX queue has been served
    /// (`pipelined_receive()`). One of a System V queue tries again, as do all others of its kind
    /// (`ss_wakeup()`), so this is to be called until none is left.
    pub(crate) fn next_sender(&mut self, rank: impl Fn(TaskId) -> i32) -> Option<TaskId> {
        debug_assert!(self.count <= self.room, "a queue holds what it has room for");
        if self.count == self.room {
            return None;
        }
        let sender = Self::first(&mut self.senders, self.posix, rank)?;
        self.count += u32::from(self.posix);
        Some(sender)
    }

    /// True when a woken sender has sent: it does not try again.
    pub(crate) fn serves_senders(&self) -> bool {
        self.posix
    }

    fn first(waiters: &mut VecDeque<TaskId>, by_rank: bool, rank: impl Fn(TaskId) -> i32) -> Option<TaskId> {
        if !by_rank {
            return waiters.pop_front();
        }
        let best = (0..waiters.len()).min_by_key(|&at| (rank(waiters[at]), at))?;
        waiters.remove(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TaskId = TaskId(1);
    const TWO: TaskId = TaskId(2);
    const THREE: TaskId = TaskId(3);

    #[test]
    fn a_waiting_receiver_gets_the_message() {
        let mut queue = MessageQueue::new(ChannelKind::SysvQueue, 100, 100);
        assert!(!queue.receive(ONE));
        assert!(!queue.receive(TWO));
        assert_eq!(queue.send(THREE, |_| 0), Sent::Handed(ONE));
        assert!(!queue.is_readable());
        assert_eq!(queue.send(THREE, |_| 0), Sent::Handed(TWO));
        assert_eq!(queue.send(THREE, |_| 0), Sent::Queued);
        assert!(queue.receive(ONE));
    }

    #[test]
    fn all_senders_of_a_system_v_queue_try_again() {
        let mut queue = MessageQueue::new(ChannelKind::SysvQueue, 100, 100);
        assert_eq!(queue.send(THREE, |_| 0), Sent::Queued);
        assert_eq!(queue.send(ONE, |_| 0), Sent::Full);
        assert_eq!(queue.send(TWO, |_| 0), Sent::Full);
        assert_eq!(queue.next_sender(|_| 0), None);
        assert!(queue.receive(THREE));
        assert_eq!((queue.next_sender(|_| 0), queue.next_sender(|_| 0)), (Some(ONE), Some(TWO)));
        assert!(!queue.serves_senders());
        assert_eq!(queue.send(TWO, |_| 0), Sent::Queued);
        assert_eq!(queue.send(ONE, |_| 0), Sent::Full);
    }

    #[test]
    fn a_posix_queue_serves_the_best_priority() {
        let prio = |task: TaskId| if task == TWO { 100 } else { 120 };
        let mut queue = MessageQueue::new(ChannelKind::PosixQueue, 100, 100);
        assert!(!queue.receive(ONE) && !queue.receive(TWO));
        assert_eq!(queue.send(THREE, prio), Sent::Handed(TWO));
        assert_eq!(queue.send(THREE, prio), Sent::Handed(ONE));
        assert_eq!(queue.send(THREE, prio), Sent::Queued);
        assert_eq!(queue.send(ONE, prio), Sent::Full);
        assert!(queue.receive(THREE));
        // The sender's message is in the queue when it wakes.
        assert_eq!(queue.next_sender(prio), Some(ONE));
        assert!(queue.is_readable() && queue.serves_senders());
    }
}
