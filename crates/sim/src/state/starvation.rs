//! CPUs that idle while a task waits that they may run.

use crate::Kernel;
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};
use schedlab_trace::{IDLE_LOOK, Look};
use std::collections::BTreeMap;

/// The worst case so far, how many long ones there were, and how much all come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleBeside {
    pub(crate) count: u64,
    pub(crate) worst: Option<Beside>,
    pub(crate) sum: DurationNs,
    /// Up to when the time of a CPU, and the wait of a task, is in the sum: one CPU can run one task at a time.
    cpus: BTreeMap<CpuId, TimeNs>,
    tasks: BTreeMap<TaskId, TimeNs>,
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
    /// Takes the longest of some spans that end `now` in, and counts it if it is `long`.
    fn add(&mut self, spans: &[Beside], long: DurationNs, now: TimeNs) {
        let longest = |spans: &mut dyn Iterator<Item = Beside>| {
            spans.reduce(|a, b| if b.length > a.length { b } else { a })
        };
        let Some(span) = longest(&mut spans.iter().copied()) else { return };
        self.count += u64::from(span.length >= long);
        if self.worst.is_none_or(|worst| span.length > worst.length) {
            self.worst = Some(span);
        }
        let left = |span: Beside| {
            let cpu = self.cpus.get(&span.cpu).copied().unwrap_or(TimeNs::ZERO);
            let task = self.tasks.get(&span.task).copied().unwrap_or(TimeNs::ZERO);
            let since = span.since.max(cpu).max(task).min(now);
            Beside { since, length: now.since(since), ..span }
        };
        if let Some(span) = longest(&mut spans.iter().copied().map(left)) {
            self.sum += span.length;
            self.cpus.insert(span.cpu, now);
            self.tasks.insert(span.task, now);
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
            // Without a task that waits the list of all tasks needs no look.
            let others = self.trace.summary.waiting();
            let others = (self.total_running > self.busy_cpus).then_some(others).into_iter().flatten();
            let spans = self.spans_beside(others.chain(look.waited).map(|wait| (look.cpu, idle, wait)), now);
            self.idle_beside.add(&spans, self.bounds.idle(), now);
        }
        if let Some(wait) = look.waited {
            let idle = self.trace.summary.idle_cpus();
            let spans = self.spans_beside(idle.map(|(cpu, since)| (cpu, since, wait)), now);
            self.idle_beside.add(&spans, self.bounds.idle(), now);
            self.idle_beside.tasks.remove(&wait.0);
        }
    }

    /// Looks at the spans that the run's end cuts short.
    pub(crate) fn look_at_the_end(&mut self, end: TimeNs) {
        let idle: Vec<(CpuId, TimeNs)> = self.trace.summary.idle_cpus().collect();
        for (cpu, since) in idle {
            let waiting = self.trace.summary.waiting();
            let spans = self.spans_beside(waiting.map(|wait| (cpu, since, wait)), end);
            self.idle_beside.add(&spans, self.bounds.idle(), end);
        }
    }

    /// The spans in which a CPU, idle since a time, may have run a task that waited since another.
    fn spans_beside(
        &self,
        pairs: impl Iterator<Item = (CpuId, TimeNs, (TaskId, TimeNs))>,
        now: TimeNs,
    ) -> Vec<Beside> {
        let allowed = |cpu: CpuId, task: TaskId| {
            self.is_online(cpu)
                && self.lasting(task).is_some_and(|task| {
                    // Deadline tasks may be throttled meanwhile, and real-time ones of older kernels.
                    let throttled = match task.class {
                        SchedClass::Dl => true,
                        SchedClass::Rt => self.rt_throttling.runtime.is_some(),
                        SchedClass::Fair => self.groups.has_quota(task.group),
                        SchedClass::Ext => false,
                    };
                    task.allows(cpu) && task.migration_disabled == 0 && !throttled
                })
        };
        let spans = pairs.filter(|(cpu, _, (task, _))| allowed(*cpu, *task));
        let span = |(cpu, idle, (task, waits)): (CpuId, TimeNs, (TaskId, TimeNs))| {
            let since = idle.max(waits);
            Beside { cpu, task, since, length: now.since(since) }
        };
        spans.map(span).filter(|span| span.length >= IDLE_LOOK).collect()
    }
}
