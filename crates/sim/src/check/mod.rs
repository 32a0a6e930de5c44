//! Checkers of a running simulation: simple, slow, and apart from what they
//! check. They panic at the first broken invariant and name it.
//!
//! After every event ([`state`]): every runnable task is in exactly one place (running, on its
//! class's queue, on a dispatch queue, or in the scheduler's custody). No task is on two CPUs;
//! affinity is kept; the counts match; queues are linked well. No sched_ext task waits beyond the
//! watchdog's bound. No CPU of the fair class idles for more than two ticks beside a waiting task
//! it may run.
//!
//! On the event stream ([`stream`]): times never go back on a CPU, and a task runs on one CPU at a
//! time. A task starts only when it is runnable, and its times in the states sum up to its life.
//!
//! Not checked: fairness, latencies, and anything about policies.

mod state;
mod stream;

pub(crate) use state::Watch;
pub(crate) use stream::StreamChecker;
