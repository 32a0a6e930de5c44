//! What all classes share: `schedule()`, wakeups, fork, exit, changes of attributes (`kernel/sched/core.c`).

pub(crate) mod sched;
pub(crate) mod sim;
pub(crate) mod wake_list;
