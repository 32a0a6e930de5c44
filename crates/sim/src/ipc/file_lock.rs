//! Locks on a file (`flock`, record locks of `fcntl`), exclusive or shared.
//!
//! A waiting task is attached to a holder, or to a waiter that it conflicts with and that is attached before it
//! (`__locks_insert_block()` in the kernel's fs/locks.c). So a release wakes one exclusive waiter, or all that can
//! share. A woken task tries again and may find that a newcomer was faster. Then the tasks attached to it are
//! woken too, since they may not conflict with the one that it waits for now.

use crate::event::lock::Timeline;
use schedlab_base::TaskId;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    task: TaskId,
    shared: bool,
    /// The holder or waiter that it is attached to.
    on: TaskId,
    /// Not woken yet; others attach only to such.
    asleep: bool,
}

/// A file's lock. Holders and waiters are tasks; each is a process of its own or has opened the file itself.
#[derive(Debug, Default)]
pub(crate) struct FileLock {
    /// The task that holds it, and whether shared.
    holders: Vec<(TaskId, bool)>,
    waiters: Vec<Waiter>,
    /// The lock of the file's list of locks.
    pub(crate) lock: Timeline,
}

impl FileLock {
    /// Takes the lock or attaches the task; false when it has to block. Adds to `woken` the tasks that are
    /// to be woken. A task that holds the lock in the other mode gives it up first (flock(2)).
    pub(crate) fn take(&mut self, task: TaskId, shared: bool, woken: &mut Vec<TaskId>) -> bool {
        match self.holders.iter().find(|holder| holder.0 == task) {
            Some(&(_, held)) if held == shared => return true,
            Some(_) => self.release(task, woken),
            None => {}
        }
        let conflict = self.holders.iter().find(|holder| !(holder.1 && shared)).map(|holder| holder.0);
        self.waiters.retain(|waiter| waiter.task != task);
        let Some(holder) = conflict else {
            self.holders.push((task, shared));
            return true;
        };
        self.wake_attached(task, woken);
        let mut on = holder;
        let conflicts = |waiter: &&Waiter, on| waiter.on == on && waiter.asleep && !(waiter.shared && shared);
        while let Some(waiter) = self.waiters.iter().find(|waiter| conflicts(waiter, on)) {
            on = waiter.task;
        }
        self.waiters.push(Waiter { task, shared, on, asleep: true });
        false
    }

    /// The tasks that hold it.
    pub(crate) fn holders(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.holders.iter().map(|holder| holder.0)
    }

    /// Gives the lock up; adds to `woken` the tasks that are to be woken.
    pub(crate) fn release(&mut self, task: TaskId, woken: &mut Vec<TaskId>) {
        self.holders.retain(|holder| holder.0 != task);
        self.wake_attached(task, woken);
    }

    fn wake_attached(&mut self, on: TaskId, woken: &mut Vec<TaskId>) {
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.on == on && waiter.asleep) {
            waiter.asleep = false;
            woken.push(waiter.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lock: &mut FileLock, task: u32, shared: bool) -> (bool, Vec<u32>) {
        let mut woken = Vec::new();
        let taken = lock.take(TaskId(task), shared, &mut woken);
        (taken, woken.into_iter().map(|task| task.0).collect())
    }

    fn release(lock: &mut FileLock, task: u32) -> Vec<u32> {
        let mut woken = Vec::new();
        lock.release(TaskId(task), &mut woken);
        woken.into_iter().map(|task| task.0).collect()
    }

    #[test]
    fn exclusive_waiters_are_woken_one_by_one() {
        let mut lock = FileLock::default();
        assert_eq!(take(&mut lock, 1, false), (true, vec![]));
        assert_eq!(take(&mut lock, 2, false), (false, vec![]));
        assert_eq!(take(&mut lock, 3, false), (false, vec![]));
        assert_eq!(release(&mut lock, 1), [2]);
        assert_eq!(take(&mut lock, 2, false), (true, vec![]));
        assert_eq!(release(&mut lock, 2), [3]);
    }

    #[test]
    fn readers_share_and_are_woken_together() {
        let mut lock = FileLock::default();
        assert!(take(&mut lock, 1, false).0);
        for reader in [2, 3] {
            assert!(!take(&mut lock, reader, true).0);
        }
        assert!(!take(&mut lock, 4, false).0);
        assert_eq!(release(&mut lock, 1), [2, 3]);
        assert!(take(&mut lock, 2, true).0 && take(&mut lock, 3, true).0);
        // The writer is attached to the first reader; when that is gone it waits for the other one.
        assert_eq!(release(&mut lock, 2), [4]);
        assert!(!take(&mut lock, 4, false).0);
        assert_eq!(release(&mut lock, 3), [4]);
        assert!(take(&mut lock, 4, false).0);
    }

    #[test]
    fn a_newcomer_can_be_faster_than_the_woken() {
        let mut lock = FileLock::default();
        assert!(take(&mut lock, 1, false).0);
        assert!(!take(&mut lock, 2, false).0 && !take(&mut lock, 3, false).0);
        assert_eq!(release(&mut lock, 1), [2]);
        assert!(take(&mut lock, 4, false).0);
        // The woken one blocks again and lets go of the one behind it.
        assert_eq!(take(&mut lock, 2, false), (false, vec![3]));
        assert_eq!(take(&mut lock, 3, false), (false, vec![]));
        assert_eq!(release(&mut lock, 4), [2]);
    }
}
