//! Tasks that wait without end: a run in which nothing can continue, and tasks that stand still beside others that run.

use super::SimError;
use crate::exec::Waits;
use crate::state::ops::SchedExt;
use crate::state::sim::Sim;
use crate::state::task::Task;
use schedlab_base::{DurationNs, TimeNs};
use schedlab_trace::{Names, Warning, WarningKind};

/// Tasks that a message names. Chosen: what a person reads.
const TOLD: usize = 8;

/// When a run without a limit is first looked at for tasks that it would wait for in vain; then each time that twice as much time
/// has passed. Chosen: long against what workloads take, so that a look costs nothing.
pub(super) const FIRST_LOOK: DurationNs = DurationNs::from_ms(10_000);

/// A run without a limit that is not over at its last look is refused. Chosen: 146 years; the kernel's signed times end after 292,
/// and the looks before and after are within them.
pub(super) const LAST_LOOK: TimeNs = TimeNs(1 << 62);

impl<S: SchedExt> Sim<S> {
    /// Since when no task of the workload can run any more, and what each waits for; nothing where one can, or where only
    /// background tasks are left.
    pub(super) fn stuck(&self) -> Option<String> {
        let tasks: Vec<&Task> = self.k.own_tasks().collect();
        if !self.k.is_stuck() || tasks.iter().all(|task| task.exec.is_background()) {
            return None;
        }
        let waits = Waits::of(&self.exec, &self.k);
        let wait = |task: &Task| self.exec.wait_in_words(&self.k, &waits, task);
        let since = seconds(self.k.in_run(self.k.ctx.now));
        Some(format!("every task waits for another one from {since} s on: {}", listed(&tasks, wait)))
    }

    /// Which tasks of the foreground wait without end, for what and since when, while others may continue.
    fn for_ever(&self) -> Option<String> {
        let waits = Waits::of(&self.exec, &self.k);
        let of_foreground = || self.k.own_tasks().filter(|task| !task.exec.is_background());
        let tasks: Vec<&Task> = of_foreground().filter(|task| waits.is_for_ever(task.id)).collect();
        // A task was last charged when it gave the CPU away.
        let wait = |task: &Task| {
            let words = self.exec.wait_in_words(&self.k, &waits, task);
            format!("{words} (since {} s)", seconds(self.k.in_run(task.exec_start)))
        };
        let all = of_foreground().count();
        let verb = if tasks.len() == 1 { "waits" } else { "wait" };
        let told = || format!("{} of {all} tasks {verb} for ever: {}", tasks.len(), listed(&tasks, wait));
        (!tasks.is_empty()).then(told)
    }

    /// Time in ns does not reach to the end of the run.
    #[cold]
    pub(super) fn beyond_time(&self) -> SimError {
        let years = self.k.ctx.now.0 / (365 * 24 * 3_600_000_000_000);
        SimError::Refused(format!(
            "{}: after {years} years of simulated time the workload has not ended, and times of the kernel end after 292; shorten its sleeps, or give the run an end (--duration)",
            self.exec.scenario.name
        ))
    }

    /// The warning about tasks that waited without end.
    pub(super) fn stuck_warning(&self) -> Option<Warning> {
        let text = match &self.exec.stuck {
            Some(text) => format!("{text}; nothing ran from then to the end of the run"),
            None => format!("{}; the others went on", self.for_ever()?),
        };
        Some(Warning { kind: WarningKind::Stuck, text, count: 1, worst: None })
    }

    /// Adds to warnings about tasks that waited to the end of the run where each was then. It leads the author of a scheduler that
    /// has forgotten a task to the callback that took it.
    pub(super) fn lead_to_queues(&self, warnings: &mut [Warning], names: &Names, long: DurationNs) {
        let still = &self.k.scx.still_waiting;
        for warning in warnings {
            let Some(worst) = warning.worst.as_ref().filter(|worst| worst.since + worst.length >= long)
            else {
                continue;
            };
            let found = still.iter().find(|(task, _)| names.of(*task, *task) == worst.task);
            if let Some((_, words)) = found {
                warning.text.push_str(words);
            }
        }
    }

    /// An error if the run refuses something, or is to stop.
    #[inline(always)]
    pub(super) fn check_broken_off(&mut self, time: TimeNs) -> Result<(), SimError> {
        if self.is_broken_off() { Err(self.broken_off(time)) } else { Ok(()) }
    }

    /// Why a run ends that refuses something, or is to stop.
    #[cold]
    #[inline(never)]
    fn broken_off(&mut self, time: TimeNs) -> SimError {
        match self.k.refusal.take() {
            Some(why) => SimError::Refused(format!("{}: {why}", self.exec.scenario.name)),
            None => SimError::Stopped(time),
        }
    }

    /// True if no further event is to be taken.
    pub(super) fn is_done(&self, until_exit: bool) -> bool {
        self.is_over() || until_exit && self.k.sched.exit.is_some()
    }

    /// A run without a limit lasts until its tasks have ended.
    ///
    /// # Errors
    /// Some of the tasks wait without end, so the run never ends although others run.
    pub(super) fn can_end(&self) -> Result<(), SimError> {
        let name = &self.exec.scenario.name;
        match self.for_ever() {
            Some(text) => Err(SimError::Refused(format!(
                "{name}: {text}; the others go on, and the workload never ends"
            ))),
            None => Ok(()),
        }
    }
}

fn seconds(time: TimeNs) -> String {
    format!("{:.6}", time.0 as f64 / 1e9)
}

/// The first tasks in words, and how many more there are.
fn listed(tasks: &[&Task], words: impl Fn(&Task) -> String) -> String {
    let first: Vec<String> = tasks.iter().take(TOLD).map(|task| words(task)).collect();
    let more = tasks.len() - first.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}
