//! CPUs that idle while a task waits that they may run.

use crate::Kernel;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::Look;

/// The worst case so far, and how many there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleBeside {
    pub(crate) count: u64,
    pub(crate) worst: Option<Beside>,
}

/// A CPU idled while a task waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    pub(crate) cpu: CpuId,
    pub(crate) task: TaskId,
    pub(crate) since: TimeNs,
    pub(crate) length: DurationNs,
}

impl IdleBeside {
    /// Takes a span in if it is `long`.
    fn add(&mut self, span: Option<Beside>, long: DurationNs) {
        let Some(span) = span.filter(|span| span.length >= long) else { return };
        self.count += 1;
        if self.worst.is_none_or(|worst| span.length > worst.length) {
            self.worst = Some(span);
        }
    }
}

impl Kernel {
    /// A long wait or a long idle span has ended: was a CPU idle all the while that a task waited which it may run?
    ///
    /// The span that counts begins when both had begun and ends when the first of them ends, so that one of the two ends
    /// sees each of them once.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_for_idle(&mut self, look: Look, now: TimeNs) {
        if let Some(idle) = look.idle_since {
            let others = self.trace.summary.waiting();
            let span = self.longest_beside(others.chain(look.waited).map(|wait| (look.cpu, idle, wait)), now);
            self.idle_beside.add(span, self.bounds.idle());
        }
        if let Some(wait) = look.waited {
            let idle = self.trace.summary.idle_cpus();
            let span = self.longest_beside(idle.map(|(cpu, since)| (cpu, since, wait)), now);
            self.idle_beside.add(span, self.bounds.idle());
        }
    }

    /// The same for the spans that the run's end cuts short.
    pub(crate) fn look_at_the_end(&mut self, end: TimeNs) {
        let idle: Vec<(CpuId, TimeNs)> = self.trace.summary.idle_cpus().collect();
        for (cpu, since) in idle {
            let waiting = self.trace.summary.waiting();
            let span = self.longest_beside(waiting.map(|wait| (cpu, since, wait)), end);
            self.idle_beside.add(span, self.bounds.idle());
        }
    }

    /// The longest span of those in which a CPU, idle since a time, may have run a task that waited since another.
    fn longest_beside(
        &self,
        pairs: impl Iterator<Item = (CpuId, TimeNs, (TaskId, TimeNs))>,
        now: TimeNs,
    ) -> Option<Beside> {
        let allowed = |cpu: CpuId, task: TaskId| {
            self.is_online(cpu)
                && self.get_task(task).is_some_and(|task| {
                    // Deadline tasks may be throttled meanwhile, and real-time ones of older kernels.
                    let throttled = task.class == SchedClass::Dl
                        || task.class == SchedClass::Rt && self.rt_throttling.runtime.is_some();
                    task.allows(cpu) && task.migration_disabled == 0 && !throttled
                })
        };
        let spans =
            pairs.filter(|(cpu, _, (task, _))| allowed(*cpu, *task)).map(|(cpu, idle, (task, waits))| {
                let since = idle.max(waits);
                Beside { cpu, task, since, length: now.since(since) }
            });
        spans.reduce(|a, b| if b.length > a.length { b } else { a })
    }
}
