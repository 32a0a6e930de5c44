//! The pages of a task's buffer ([`Op::Touch`]): new ones, and those that a fork has made common.
//!
//! [`Op::Touch`]: schedlab_workload::Op::Touch

use super::state;
use crate::flags::PF_FORKNOEXEC;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use schedlab_base::{DurationNs, TaskId};

/// KiB of a page.
const PAGE_KIB: u32 = 4;

/// How many pages of its buffer a task has, counted from the buffer's begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages {
    /// Written since the image began.
    own: u32,
    /// Of these, not written since the last fork: the next write finds them read-only.
    common: u32,
    /// Children that have them in common with this task.
    holders: u32,
}

impl Pages {
    /// Every page becomes read-only for parent and child.
    pub(super) fn fork(&mut self) {
        self.common = self.own;
        self.holders += 1;
    }

    /// Writes to the first pages: how many of them are new, and how many were common.
    fn write(&mut self, pages: u32) -> (u32, u32) {
        let (new, common) = (pages.saturating_sub(self.own), pages.min(self.common));
        self.own += new;
        self.common -= common;
        debug_assert!(self.common <= self.own, "shared pages are among a task's own");
        (new, common)
    }
}

/// The image of `child` is gone, by `exec` or at its end: its parent has its pages alone.
pub(super) fn leave<S: SchedExt>(sim: &mut Sim<S>, child: TaskId) {
    let entry = sim.k.task(child);
    let parent = entry.parent.filter(|_| entry.flags & PF_FORKNOEXEC != 0);
    if let Some(parent) = parent.filter(|&parent| sim.k.get_task(parent).is_some())
        && let Some(rare) = &mut state(sim, parent).rare
    {
        rare.pages.holders = rare.pages.holders.saturating_sub(1);
    }
    if let Some(rare) = &mut state(sim, child).rare {
        rare.pages = Pages::default();
    }
}

/// What the page faults of a walk over so many KiB cost `task`, in system time.
pub(super) fn faults<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, kib: u32) -> DurationNs {
    let pages = &mut state(sim, task).rare().pages;
    let is_held = pages.holders > 0;
    let (new, common) = pages.write(kib.div_ceil(PAGE_KIB));
    let costs = &sim.k.machine().costs;
    let again = if is_held { costs.page_copy } else { costs.page_reuse };
    let cost = costs.page_fault * u64::from(new) + again * u64::from(common);
    state(sim, task).system += cost;
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_faults_when_it_is_new_and_after_a_fork() {
        let mut pages = Pages::default();
        assert_eq!(pages.write(3), (3, 0));
        assert_eq!(pages.write(3), (0, 0));
        pages.fork();
        assert_eq!(pages.write(2), (0, 2));
        assert_eq!(pages.write(5), (2, 1));
        pages.fork();
        assert_eq!(pages.write(5), (0, 5));
    }
}
