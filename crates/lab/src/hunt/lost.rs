//! Looks for tasks that their scheduler has forgotten, and for tasks on CPUs that they may not use.

use super::case::Case;
use super::property::{Property, Trouble};
use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use schedlab_workload::{Attribute, Scenario};

/// For how long, in one wait of a task, all CPUs that it may use may be idle. Chosen: some ticks of the slowest clock.
const IDLE_BOUND: DurationNs = DurationNs::from_ms(40);

/// Finds tasks that wait although every CPU that they may use is idle, and tasks that run outside of their affinity.
#[derive(Debug)]
pub(crate) struct LostTasks {
    idle: CpuMask,
    /// For each task that waits, how long its CPUs have been idle meanwhile.
    waiting: Vec<Option<DurationNs>>,
    allowed: Vec<CpuMask>,
    all: CpuMask,
    /// Nothing changes an affinity or a CPU during the run.
    fixed: bool,
    last: TimeNs,
    lost: Option<String>,
    outside: Option<String>,
}

impl LostTasks {
    pub(crate) fn new(case: &Case) -> LostTasks {
        let all = case.machine.all_cpus();
        LostTasks {
            idle: all,
            waiting: Vec::new(),
            allowed: allowed(&case.scenario, all),
            all,
            fixed: !changes_affinity(&case.scenario) && case.scenario.hotplugged().is_empty(),
            last: TimeNs::ZERO,
            lost: None,
            outside: None,
        }
    }

    fn wait(&mut self, task: TaskId, waits: bool) {
        if self.waiting.len() <= task.index() {
            self.waiting.resize(task.index() + 1, None);
        }
        self.waiting[task.index()] = waits.then_some(DurationNs::ZERO);
    }

    /// What was found up to the run's end.
    pub(crate) fn finish(&mut self, end: TimeNs) -> Vec<Trouble> {
        self.pass(end);
        let lost = self.lost.take().map(|words| Trouble::new(Some(Property::Lost), "lost task", words));
        let outside = self.outside.take();
        let outside = outside.map(|words| Trouble::new(Some(Property::Affinity), "affinity", words));
        lost.into_iter().chain(outside).collect()
    }

    /// A task of the start runs on a CPU.
    fn runs(&mut self, task: TaskId, event: &Event) {
        let allowed = self.allowed.get(task.index()).unwrap_or(&self.all);
        if self.fixed && !allowed.contains(event.cpu) && self.outside.is_none() {
            let (cpu, time) = (event.cpu.0, event.time);
            self.outside = Some(format!("{task} runs on CPU {cpu} at {time}, which it may not use"));
        }
    }

    /// Time has passed up to `now`.
    fn pass(&mut self, now: TimeNs) {
        let passed = now.since(self.last);
        self.last = now.max(self.last);
        if self.idle.is_empty() || passed == DurationNs::ZERO {
            return;
        }
        for (task, idle) in self.waiting.iter_mut().enumerate() {
            let Some(idle) = idle else { continue };
            let allowed = self.allowed.get(task).unwrap_or(&self.all);
            if allowed.and(&self.idle) == *allowed {
                *idle += passed;
                if *idle > IDLE_BOUND {
                    let task = TaskId(task as u32);
                    let words = format!(
                        "{task} waits at {now}; all CPUs that it may use were idle for {idle} meanwhile"
                    );
                    self.lost.get_or_insert(words);
                }
            }
        }
    }
}

/// Whether the affinity of a task changes.
fn changes_affinity(scenario: &Scenario) -> bool {
    scenario.changes.iter().any(|change| matches!(change, Attribute::Affinity(_)))
}

/// The CPUs of the tasks at the start; all of them where something may change them on the way.
fn allowed(scenario: &Scenario, all: CpuMask) -> Vec<CpuMask> {
    let changing = changes_affinity(scenario);
    let mask = |affinity: Option<&CpuMask>| affinity.filter(|_| !changing).map_or(all, |mask| mask.and(&all));
    scenario.tasks.iter().map(|task| mask(task.affinity.as_deref())).collect()
}

impl Sink for LostTasks {
    fn event(&mut self, event: &Event) {
        self.pass(event.time);
        match event.kind {
            EventKind::SchedWakeup { task, .. } => self.wait(task, true),
            EventKind::SchedSwitch { prev, prev_state, next } => {
                if let Some(prev) = prev {
                    self.wait(prev, prev_state == TaskState::Runnable);
                }
                match next {
                    Some(next) => {
                        self.wait(next, false);
                        self.runs(next, event);
                        self.idle.clear(event.cpu);
                    }
                    None => self.idle.set(event.cpu),
                }
            }
            _ => {}
        }
    }
}
