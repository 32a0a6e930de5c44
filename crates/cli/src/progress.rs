//! Progress on standard error: only on a terminal, only for what takes longer than a
//! second, never with `-q`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schedlab_base::DurationNs;
use schedlab_trace::{Event, Sink};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const DELAY: Duration = Duration::from_secs(1);

/// A bar that appears late.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: Mutex<bool>,
    wanted: bool,
}

impl Progress {
    /// A bar over `total` steps of what `label` names; without a total, a count of what
    /// was done.
    pub(crate) fn new(label: &str, total: Option<u64>, quiet: bool) -> Progress {
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let template = match total {
            Some(_) => "{prefix} [{bar:30}] {percent:>3} % {msg}, {eta} left",
            None => "{prefix} {spinner} {msg}, {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label.to_string());
        let wanted = !quiet && std::io::stderr().is_terminal();
        Progress { bar, start: Instant::now(), shown: Mutex::new(false), wanted }
    }

    /// Sets how far the work is, with a word about it.
    pub(crate) fn set(&self, position: u64, message: String) {
        if !self.wanted || self.start.elapsed() < DELAY {
            self.bar.set_position(position);
            return;
        }
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !*shown {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            *shown = true;
        }
        self.bar.set_message(message);
        self.bar.set_position(position);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
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
