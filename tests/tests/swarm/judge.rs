//! Runs a case with all of the simulator's checkers and says what went wrong.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use schedlab_base::{CpuMask, DurationNs, TaskId, TimeNs};
use schedlab_scx::{BpfScheduler, LoadOptions};
use schedlab_sim::{Class, Config, run};
use schedlab_trace::{Event, EventKind, Sink, TaskState};
use schedlab_workload::{Attribute, Scenario};

use crate::draw::Case;

/// A scheduler: its name, and its object unless it is the kernel's fair class.
pub(crate) type Scheduler = (String, Option<Vec<u8>>);

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Kind, by which troubles count as the same: an exit kind, `checker`, `lost task`, `load`, `run`.
    pub(crate) kind: String,
    /// What was said about it.
    pub(crate) words: String,
}

fn trouble<T>(kind: &str, words: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble { kind: kind.to_string(), words: words.into() })
}

/// Runs the case; its trace hash when all is well.
pub(crate) fn judge((name, object): &Scheduler, case: &Case) -> Result<String, Trouble> {
    match catch_unwind(AssertUnwindSafe(|| run_case(name, object.as_deref(), case))) {
        Ok(result) => result,
        Err(panic) => trouble("checker", words_of(panic.as_ref())),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run_case(name: &str, object: Option<&[u8]>, case: &Case) -> Result<String, Trouble> {
    let lost = Rc::new(RefCell::new(LostTasks::new(case)));
    let mut config = Config { checkers: true, ..Config::new(case.machine.clone(), case.seed) };
    config.sinks.push(lost.clone());
    let class = match object {
        None => Class::Fair,
        Some(bytes) => {
            let options = LoadOptions { settings: case.settings.clone(), ..LoadOptions::default() };
            match BpfScheduler::load(name, bytes, &options, &case.machine) {
                Ok(scheduler) => Class::Ext(scheduler),
                Err(error) => return trouble("load", error.to_string()),
            }
        }
    };
    let result = match run(&config, &case.scenario, class) {
        Ok(result) => result,
        Err(error) => return trouble("run", error.to_string()),
    };
    if result.exit.kind.is_ejection() {
        return trouble(result.exit.kind.name(), format!("{}: {}", result.exit.reason, result.exit.message));
    }
    lost.borrow_mut().pass(TimeNs::ZERO + result.duration);
    match lost.borrow_mut().found.take() {
        Some(words) => trouble("lost task", words),
        None => Ok(result.trace_hash.to_string()),
    }
}

/// For how long, in one wait of a task, all CPUs that it may use may be idle. Chosen: some ticks of the slowest clock.
const IDLE_BOUND: DurationNs = DurationNs::from_ms(40);

/// Finds tasks that wait although every CPU that they may use is idle: the scheduler has forgotten them.
#[derive(Debug)]
struct LostTasks {
    idle: CpuMask,
    /// For each task that waits, how long its CPUs have been idle meanwhile.
    waiting: Vec<Option<DurationNs>>,
    allowed: Vec<CpuMask>,
    all: CpuMask,
    last: TimeNs,
    found: Option<String>,
}

impl LostTasks {
    fn new(case: &Case) -> LostTasks {
        let all = case.machine.all_cpus();
        LostTasks {
            idle: all,
            waiting: Vec::new(),
            allowed: allowed(&case.scenario, all),
            all,
            last: TimeNs::ZERO,
            found: None,
        }
    }

    fn wait(&mut self, task: TaskId, waits: bool) {
        if self.waiting.len() <= task.index() {
            self.waiting.resize(task.index() + 1, None);
        }
        self.waiting[task.index()] = waits.then_some(DurationNs::ZERO);
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
                    self.found.get_or_insert(words);
                }
            }
        }
    }
}

/// The CPUs of the tasks at the start; all of them where something may change them on the way.
fn allowed(scenario: &Scenario, all: CpuMask) -> Vec<CpuMask> {
    let changing = scenario.changes.iter().any(|change| matches!(change, Attribute::Affinity(_)));
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
                        self.idle.clear(event.cpu);
                    }
                    None => self.idle.set(event.cpu),
                }
            }
            _ => {}
        }
    }
}
