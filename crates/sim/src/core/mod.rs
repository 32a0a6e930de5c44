//! What all classes share: `schedule()`, wakeups, changes of attributes (`kernel/sched/core.c`).

mod change;
mod classes;
mod group;
pub(crate) mod hotplug;
pub(crate) mod sched;
pub(crate) mod wake_list;
mod wakeup;
