//! Identifiers: dense indices that are not interchangeable.

use std::fmt;

/// A logical CPU, numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// A task of one run, numbered from 0 in creation order. Never reused within a
/// run. In a simulation the Linux pid is derived from it, on a real kernel it
/// stands for the n-th observed task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// A sched_ext dispatch queue id, with the kernel's encoding: user queues are
/// plain numbers, built-in ones have bit 63 set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsqId(pub u64);

impl CpuId {
    /// The CPU's number as an index of per-CPU tables.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TaskId {
    /// The task's number as an index of task tables.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task{}", self.0)
    }
}

impl fmt::Display for DsqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
