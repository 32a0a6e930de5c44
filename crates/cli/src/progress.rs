//! Progress on standard error, never with `-q`. It is a bar on a terminal for what takes longer than a second, elsewhere a line
//! now and then. A word comes before the start of what is known to take long.

use crate::args::SweepArgs;
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use schedlab_base::{DurationNs, counted};
use schedlab_lab::failure::Failure;
use schedlab_lab::run::deadline::TimeLimit;
use schedlab_lab::run::simulation::Simulation;
use schedlab_lab::run::sweep::{Made, sweep};
use schedlab_lab::workload::{endless, fixed_end};
use schedlab_trace::{Event, Sink};
use schedlab_workload::Scenario;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Work shorter than this shows no bar.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two lines where there is no terminal. Chosen: a log of an hour stays readable.
const LINES: Duration = Duration::from_secs(30);
/// Time between two pictures of a bar.
const TICK: Duration = Duration::from_millis(200);
/// Simulated time of all runs from which on it is announced. Chosen: some seconds of host time for a small machine.
const LONG: DurationNs = DurationNs::from_secs(60);

/// Real time of all runs from which on it is announced. Chosen: longer than a person waits without a word.
const LONG_REAL: DurationNs = DurationNs::from_secs(10);

/// Runs from which on their number is announced, however short they are. Chosen: some seconds of host time.
const MANY: usize = 1_000;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    Nothing,
    Bar,
    Lines,
}

/// How far the work is, shown late.
///
/// A thread of its own shows it, so that a first step of minutes has a word, too.
#[derive(Debug)]
pub(crate) struct Progress {
    work: Arc<Work>,
    watcher: Option<JoinHandle<()>>,
}

/// What the thread that shows progress shares with the one that makes it.
#[derive(Debug)]
struct Work {
    bar: ProgressBar,
    start: Instant,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Progress {
    /// A bar over `total` steps of what `label` names; without a total, a count of what
    /// was done.
    pub(crate) fn new(label: &str, total: Option<u64>, quiet: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => "{prefix} [{bar:30}] {percent:>3} % {msg}, {elapsed} so far{left}",
            None => "{prefix} {spinner} {msg}, {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", left).progress_chars("=> "));
        }
        bar.set_prefix(label.to_string());
        bar.set_message("begun");
        let show = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Show::Nothing,
            (false, true) => Show::Bar,
            (false, false) => Show::Lines,
        };
        let work =
            Arc::new(Work { bar, start: Instant::now(), ended: Mutex::new(false), end: Condvar::new() });
        let watched = work.clone();
        let watcher = (show != Show::Nothing).then(|| std::thread::spawn(move || watched.show(show)));
        Progress { work, watcher }
    }

    /// Sets how far the work is, with a word about it.
    pub(crate) fn set(&self, position: u64, message: String) {
        self.work.bar.set_message(message);
        self.work.bar.set_position(position);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        *self.work.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.work.end.notify_all();
        self.work.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
        if let Some(watcher) = self.watcher.take() {
            // The thread ends by itself; its panic would be a defect of the bar alone.
            drop(watcher.join());
        }
    }
}

impl Work {
    /// Shows how far the work is until it ends.
    fn show(&self, show: Show) {
        if self.ends_within(if show == Show::Bar { DELAY } else { LINES }) {
            return;
        }
        if show == Show::Bar {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TICK);
            return;
        }
        loop {
            let (bar, elapsed) = (&self.bar, self.start.elapsed());
            output::note(&line(&bar.prefix(), bar.position(), bar.length(), &bar.message(), elapsed));
            if self.ends_within(LINES) {
                return;
            }
        }
    }

    /// Waits for the end of the work, at most so long.
    fn ends_within(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// `, 12 s left`: nothing before the first step has told the pace.
fn left(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        // A text of the bar's own takes all that is written.
        let _ = write!(text, ", {:.0} s left", state.eta().as_secs_f64());
    }
}

/// A line of progress: how far, and how long the rest will take at this pace.
fn line(label: &str, position: u64, total: Option<u64>, message: &str, elapsed: Duration) -> String {
    let total = total.filter(|total| (1..=*total).contains(&position));
    let Some(total) = total else { return format!("{label}: {message}, {} s so far", elapsed.as_secs()) };
    let left = elapsed.as_secs_f64() * (total - position) as f64 / position as f64;
    format!("{label}: {message}, {} s so far, about {left:.0} s left", elapsed.as_secs())
}

/// Makes all runs, and shows how far it is.
///
/// # Errors
/// As of [`sweep`].
pub(crate) fn swept(
    runs: &[Simulation],
    args: &SweepArgs,
    limit: TimeLimit,
    quiet: bool,
) -> Result<Option<Made>, Failure> {
    let progress = OnceLock::new();
    let told = |count: usize, total: usize| {
        let bar = progress.get_or_init(|| Progress::new("running", Some(total as u64), quiet));
        if count > 0 {
            bar.set(count as u64, format!("{count} of {}", counted(total, "run")));
        }
    };
    sweep(runs, &args.options(), limit, quiet, &told)
}

/// Runs of a workload that are to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) runs: usize,
    /// How long each takes of its own time, where that is known.
    pub(crate) each: Option<DurationNs>,
    /// As the user named it.
    pub(crate) workload: &'a str,
    /// A task that keeps each run going indefinitely.
    pub(crate) endless: Option<&'a str>,
}

impl<'a> Planned<'a> {
    /// One run of a scenario, which the user named so, for at most `limit`.
    pub(crate) fn one(workload: &'a str, scenario: &'a Scenario, limit: Option<DurationNs>) -> Planned<'a> {
        Planned { runs: 1, each: fixed_end(scenario, limit), workload, endless: endless(scenario, limit) }
    }
}

/// Says beforehand how much there is to do, where it is much.
pub(crate) fn announce(planned: &[Planned], real: bool, quiet: bool) {
    if quiet {
        return;
    }
    for Planned { workload, endless, .. } in planned {
        if let Some(task) = endless {
            output::note(&format!(
                "{workload}: task '{task}' repeats for ever, so the run has no end; --duration gives it one, or end = \"10s\" in the file"
            ));
        }
    }
    if let Some(text) = announcement(planned, real) {
        output::note(&text);
    }
}

fn announcement(planned: &[Planned], real: bool) -> Option<String> {
    let known =
        planned.iter().filter_map(|plan| plan.each.map(|each| each.0.saturating_mul(plan.runs as u64)));
    let long = if real { LONG_REAL } else { LONG };
    let runs = planned.iter().map(|plan| plan.runs).fold(0, usize::saturating_add);
    if known.fold(0, u64::saturating_add) < long.0 {
        return (runs >= MANY).then(|| format!("{} to make", counted(runs, "run")));
    }
    let what = if real { "" } else { " of simulated time" };
    let part = |plan: &Planned| {
        let under = if planned.len() > 1 { format!(" under {}", plan.workload) } else { String::new() };
        let Some(each) = plan.each else {
            return format!("{}{under} until its work is done", counted(plan.runs, "run"));
        };
        let length = format!("{} s{what}", each.as_secs_f64());
        match plan.runs {
            1 => format!("one run of {length}{under}"),
            runs => format!("{runs} runs of {length} each{under}"),
        }
    };
    let parts: Vec<String> = planned.iter().map(part).collect();
    Some(format!("{}; --duration makes it less", parts.join(", ")))
}

/// Events between two looks at the clock. Chosen: some milliseconds of work.
const EVENTS_PER_LOOK: u32 = 1 << 14;

/// Shows how far a single run is, in simulated time.
#[derive(Debug)]
pub(crate) struct RunProgress {
    progress: Progress,
    known_end: bool,
    events: u32,
}

impl RunProgress {
    /// A sink for a run that ends at `end`, if that is known.
    pub(crate) fn new(end: Option<DurationNs>, quiet: bool) -> Rc<RefCell<RunProgress>> {
        let progress = Progress::new("simulating", end.map(|end| end.0 / 1_000_000), quiet);
        Rc::new(RefCell::new(RunProgress { progress, known_end: end.is_some(), events: 0 }))
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.progress.finish();
    }
}

impl Sink for RunProgress {
    fn event(&mut self, event: &Event) {
        self.events += 1;
        if self.events >= EVENTS_PER_LOOK {
            self.events = 0;
            let ms = event.time.0 / 1_000_000;
            let position = if self.known_end { ms } else { 0 };
            self.progress.set(position, format!("{:.3} s simulated", ms as f64 / 1e3));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_announced_by_workload() {
        let plan = |runs, seconds: Option<u64>, workload| Planned {
            runs,
            each: seconds.map(DurationNs::from_secs),
            workload,
            endless: None,
        };
        let (long, open) = (plan(2, Some(40), "mixed"), plan(6, None, "chat"));
        assert_eq!(
            announcement(&[long, open], false).unwrap(),
            "2 runs of 40 s of simulated time each under mixed, 6 runs under chat until its work is done; --duration makes \
             it less"
        );
        assert_eq!(
            announcement(&[plan(1, Some(60), "mixed")], true).unwrap(),
            "one run of 60 s; --duration makes it less"
        );
        assert_eq!(
            announcement(&[plan(1, Some(10), "mixed")], true).unwrap(),
            "one run of 10 s; --duration makes it less"
        );
        assert_eq!(announcement(&[plan(1, Some(9), "mixed")], true), None);
        assert_eq!(announcement(&[plan(1, None, "chat")], true), None);
        assert_eq!(announcement(&[plan(1, Some(59), "mixed"), open], false), None);
    }

    #[test]
    fn lines_say_what_is_left_where_that_is_known() {
        let elapsed = Duration::from_secs(30);
        assert_eq!(
            line("running", 3, Some(12), "3 of 12 runs", elapsed),
            "running: 3 of 12 runs, 30 s so far, about 90 s left"
        );
        assert_eq!(
            line("running", 0, Some(12), "0 of 12 runs", elapsed),
            "running: 0 of 12 runs, 30 s so far"
        );
        assert_eq!(line("simulating", 7, None, "0.007 s", elapsed), "simulating: 0.007 s, 30 s so far");
    }
}
