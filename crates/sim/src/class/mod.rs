//! The scheduling classes: deadline, real-time, fair, sched_ext, and the deadline servers above the last two.

pub(crate) mod admission;
pub(crate) mod deadline;
pub(crate) mod ext;
pub(crate) mod fair;
pub(crate) mod rt;
pub(crate) mod server;
