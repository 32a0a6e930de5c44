//! One task in the summary of a run: what it has used, and what it does now.

use schedlab_base::{CpuId, DurationNs, TimeNs};

/// What is known of one task so far.
///
/// A cache line: with thousands of tasks the host waits for memory more than for anything else.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct TaskSummary {
    /// CPU time, context switches into the task and changes of CPU.
    pub cpu_time: DurationNs,
    /// Times it was switched to.
    pub switches: u64,
    /// Times it ran on another CPU than the time before.
    pub migrations: u64,
    /// Runnable but not running, in total.
    pub run_delay: DurationNs,
    /// The CPU that it ran on last, or [`NOWHERE`].
    pub(crate) last_cpu: CpuId,
    /// The CPU that it was put on last.
    pub(crate) queued_on: CpuId,
    /// Whether it waits because of a wakeup (and not of a preemption).
    pub(crate) woken: bool,
    /// When it became runnable without running, or [`NEVER`].
    pub(crate) waiting_since: TimeNs,
    /// Since when it runs, or [`NEVER`].
    pub(crate) running_since: TimeNs,
}

/// No CPU, and no time.
pub(crate) const NOWHERE: CpuId = CpuId(u32::MAX);
pub(crate) const NEVER: TimeNs = TimeNs::MAX;

impl Default for TaskSummary {
    fn default() -> TaskSummary {
        TaskSummary {
            cpu_time: DurationNs::ZERO,
            switches: 0,
            migrations: 0,
            run_delay: DurationNs::ZERO,
            last_cpu: NOWHERE,
            queued_on: NOWHERE,
            woken: false,
            waiting_since: NEVER,
            running_since: NEVER,
        }
    }
}

impl TaskSummary {
    /// It stops running, if it does: since when it ran.
    pub(crate) fn stop(&mut self, time: TimeNs) -> Option<TimeNs> {
        let since = std::mem::replace(&mut self.running_since, NEVER);
        if since == NEVER {
            return None;
        }
        self.cpu_time += time.since(since);
        Some(since)
    }

    /// The same task from `now` on, with nothing counted.
    pub(crate) fn again(&self, now: TimeNs) -> TaskSummary {
        let from = |since: TimeNs| if since == NEVER { NEVER } else { since.max(now) };
        TaskSummary {
            last_cpu: self.last_cpu,
            queued_on: self.queued_on,
            woken: self.woken,
            waiting_since: from(self.waiting_since),
            running_since: from(self.running_since),
            ..TaskSummary::default()
        }
    }

    /// What another one has used, in addition.
    pub(crate) fn add(&mut self, other: &TaskSummary) {
        self.cpu_time += other.cpu_time;
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.run_delay += other.run_delay;
    }
}
