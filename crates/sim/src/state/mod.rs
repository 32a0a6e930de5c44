//! What the simulated kernel is at an instant: tasks, CPUs, queues, locks, caches, the clock.

pub(crate) mod cache;
pub(crate) mod carry;
pub(crate) mod charge;
pub(crate) mod cpu;
pub(crate) mod deadline;
pub(crate) mod dsq;
pub(crate) mod flat;
pub(crate) mod group;
pub(crate) mod held;
pub(crate) mod kernel;
pub(crate) mod lane;
pub(crate) mod ops;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod points;
pub(crate) mod processor;
pub(crate) mod programs;
pub(crate) mod rq;
pub(crate) mod scx;
pub(crate) mod sim;
pub(crate) mod starvation;
pub(crate) mod states;
pub(crate) mod task;
pub(crate) mod timer;
pub(crate) mod topology;
pub(crate) mod trace;
