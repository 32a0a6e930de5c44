//! Looks for tasks that their scheduler has forgotten, and for tasks on CPUs that they may not use.

use super::case::Case;
use super::property::{Property, Trouble};
use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use schedlab_workload::{Attribute, GroupChange, GroupSpec, Op, Scenario, TaskSpec};

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
    /// Nothing changes an affinity or a CPU during the run, and no group has CPUs of its own.
    fixed: bool,
    /// A group has a quota at some time: its tasks may have to wait beside idle CPUs.
    throttles: bool,
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
            fixed: !changes_affinity(&case.scenario)
                && case.scenario.hotplugged().is_empty()
                && !confines(&case.scenario),
            throttles: throttles(&case.scenario),
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
        if self.idle.is_empty() || passed == DurationNs::ZERO || self.throttles {
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

/// Whether a group has CPUs of its own at some time.
fn confines(scenario: &Scenario) -> bool {
    let changes = |change: &GroupChange| matches!(change, GroupChange::Cpus(_));
    scenario.groups.iter().any(|group| group.cpus.is_some()) || scenario.group_changes.iter().any(changes)
}

/// Whether a group has a quota at some time.
fn throttles(scenario: &Scenario) -> bool {
    let changes = |change: &GroupChange| matches!(change, GroupChange::Quota(Some(_)));
    let has = |group: &GroupSpec| group.settings.quota.is_some();
    scenario.groups.iter().any(has) || scenario.group_changes.iter().any(changes)
}

/// Whether the affinity of a task changes.
fn changes_affinity(scenario: &Scenario) -> bool {
    scenario.changes.iter().any(|change| matches!(change, Attribute::Affinity(_)))
}

/// The CPUs that each task of the start may use at some time. Where CPUs leave, that is all of them: one that is away looks idle, and
/// the kernel widens a mask that has no CPU left. Groups with CPUs of their own are taken so as well.
fn allowed(scenario: &Scenario, all: CpuMask) -> Vec<CpuMask> {
    if !scenario.hotplugged().is_empty() || confines(scenario) {
        return vec![all; scenario.tasks.len()];
    }
    let own = |task: &TaskSpec| task.affinity.as_deref().map_or(all, |mask| mask.and(&all));
    let mut masks: Vec<CpuMask> = scenario.tasks.iter().map(own).collect();
    // A program that changes the task that runs it changes any that does.
    let runs = |at: usize, program: usize| scenario.tasks[at].program.index() == program;
    for (number, program) in scenario.programs.iter().enumerate() {
        for op in program.ops() {
            let Op::Set { task, change } = op else { continue };
            let Attribute::Affinity(mask) = &scenario.changes[change.index()] else { continue };
            for (at, may) in masks.iter_mut().enumerate() {
                if task.map_or_else(|| runs(at, number), |task| task.index() == at) {
                    mask.and(&all).iter().for_each(|cpu| may.set(cpu));
                }
            }
        }
    }
    masks
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
