//! Which task ran where and which woke which in a window of a run: bounded memory.

use crate::event::{Event, EventKind, Sink, TaskState};
use schedlab_base::{CpuId, DurationNs, ParseDurationError, TaskId, TimeNs};
use std::fmt;
use std::str::FromStr;

/// Entries kept of a window. Chosen: a page that a browser opens at once, some 300 kB.
const ENTRIES: usize = 12_000;

/// A part of a run's time: `FROM..TO`, each a duration since the start, either may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first instant of the window.
    pub from: TimeNs,
    /// The first instant after it.
    pub to: TimeNs,
}

impl Window {
    /// The whole run.
    pub const ALL: Window = Window { from: TimeNs::ZERO, to: TimeNs::MAX };
}

/// Why a window could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseWindowError(String);

impl fmt::Display for ParseWindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write FROM..TO, as in 10ms..25ms, 1s.. or ..5ms", self.0)
    }
}

impl std::error::Error for ParseWindowError {}

impl FromStr for Window {
    type Err = ParseWindowError;

    fn from_str(text: &str) -> Result<Window, ParseWindowError> {
        let missing = || ParseWindowError(format!("'{text}' has no '..'"));
        let (from, to) = text.split_once("..").ok_or_else(missing)?;
        let instant = |text: &str, without: TimeNs| match text {
            "" => Ok(without),
            // The beginning of the run needs no unit.
            "0" => Ok(TimeNs::ZERO),
            text => text
                .parse()
                .map(|span: DurationNs| TimeNs(span.0))
                .map_err(|error: ParseDurationError| ParseWindowError(error.to_string())),
        };
        let window = Window { from: instant(from, Window::ALL.from)?, to: instant(to, Window::ALL.to)? };
        if window.from >= window.to {
            return Err(ParseWindowError(format!("'{text}' ends before it begins")));
        }
        Ok(window)
    }
}

/// A task on a CPU without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub cpu: CpuId,
    /// The task.
    pub task: TaskId,
    /// From when, not before the window.
    pub from: TimeNs,
    /// Until when, not after the window.
    pub to: TimeNs,
    /// Why the span ended; nothing when it continues after the window.
    pub end: Option<TaskState>,
}

/// A task became runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// When.
    pub at: TimeNs,
    /// The CPU on which that happened.
    pub cpu: CpuId,
    /// The task that woke it, if a task did.
    pub waker: Option<TaskId>,
    /// The task that was woken.
    pub wakee: TaskId,
    /// Where and when it got to run, if that is in the window.
    pub ran: Option<(CpuId, TimeNs)>,
}

/// What happened in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The part that is covered: it ends early where more happened than is kept.
    pub window: Window,
    /// Whether it ended early.
    pub cut: bool,
    /// Stretches in the order of their ends.
    pub stretches: Vec<Stretch>,
    /// Wakeups in order.
    pub wakeups: Vec<Wakeup>,
}

/// Takes a run's events and keeps those of a window.
#[derive(Clone, Debug)]
pub struct TimelineSink {
    timeline: Timeline,
    limit: usize,
    /// The task that runs on each CPU, and since when.
    running: Vec<Option<(TaskId, TimeNs)>>,
    /// By task: the number of the wakeup that it has not run after.
    woken: Vec<Option<usize>>,
}

impl TimelineSink {
    /// Keeps what happens in `window`.
    pub fn new(window: Window) -> TimelineSink {
        TimelineSink::with_limit(window, ENTRIES)
    }

    fn with_limit(window: Window, limit: usize) -> TimelineSink {
        let timeline = Timeline { window, cut: false, stretches: Vec::new(), wakeups: Vec::new() };
        TimelineSink { timeline, limit, running: Vec::new(), woken: Vec::new() }
    }

    /// The window of a run that ended at `end`.
    pub fn finish(mut self, end: TimeNs) -> Timeline {
        let window = &mut self.timeline.window;
        window.to = window.to.min(end).max(window.from);
        let to = window.to;
        for cpu in 0..self.running.len() {
            if let Some((task, since)) = self.running[cpu].take() {
                self.keep(CpuId(cpu as u32), task, since, to, None);
            }
        }
        // The clocks of CPUs may be apart where the window ended early.
        self.timeline.stretches.retain_mut(|stretch| {
            stretch.to = stretch.to.min(to);
            stretch.from < stretch.to
        });
        self.timeline
    }

    fn keep(&mut self, cpu: CpuId, task: TaskId, from: TimeNs, to: TimeNs, end: Option<TaskState>) {
        let from = from.max(self.timeline.window.from);
        if from < to {
            self.timeline.stretches.push(Stretch { cpu, task, from, to, end });
        }
    }

    /// Ends the window where no more is kept.
    fn check_room(&mut self, now: TimeNs) {
        if self.timeline.stretches.len() + self.timeline.wakeups.len() >= self.limit {
            self.timeline.window.to = now;
            self.timeline.cut = true;
        }
    }

    fn switch(&mut self, event: &Event, state: TaskState, next: Option<TaskId>) {
        let cpu = event.cpu.index();
        if self.running.len() <= cpu {
            self.running.resize(cpu + 1, None);
        }
        if let Some((task, since)) = self.running[cpu].take() {
            self.keep(event.cpu, task, since, event.time, Some(state));
        }
        self.running[cpu] = next.map(|task| (task, event.time));
        let wakeup = next.and_then(|task| self.woken.get_mut(task.index())?.take());
        if let Some(wakeup) = wakeup.and_then(|at| self.timeline.wakeups.get_mut(at)) {
            wakeup.ran = Some((event.cpu, event.time));
        }
    }
}

impl Sink for TimelineSink {
    fn event(&mut self, event: &Event) {
        let Window { from, to } = self.timeline.window;
        if event.time >= to {
            return;
        }
        match event.kind {
            EventKind::SchedSwitch { prev_state, next, .. } => self.switch(event, prev_state, next),
            EventKind::SchedWakeup { task, waker, .. } if event.time >= from => {
                if self.woken.len() <= task.index() {
                    self.woken.resize(task.index() + 1, None);
                }
                self.woken[task.index()] = Some(self.timeline.wakeups.len());
                let (at, cpu) = (event.time, event.cpu);
                self.timeline.wakeups.push(Wakeup { at, cpu, waker, wakee: task, ran: None });
            }
            _ => return,
        }
        self.check_room(event.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(time: u64, cpu: u32, next: Option<u32>) -> Event {
        let kind =
            EventKind::SchedSwitch { prev: None, prev_state: TaskState::Blocked, next: next.map(TaskId) };
        Event { time: TimeNs(time), cpu: CpuId(cpu), kind }
    }

    fn wakeup(time: u64, waker: u32, wakee: u32) -> Event {
        let waker = Some(TaskId(waker));
        let kind = EventKind::SchedWakeup { task: TaskId(wakee), cpu: CpuId(1), waker };
        Event { time: TimeNs(time), cpu: CpuId(0), kind }
    }

    fn events() -> [Event; 6] {
        [
            switch(5, 0, Some(1)),
            wakeup(12, 1, 2),
            switch(14, 1, Some(2)),
            switch(20, 1, None),
            wakeup(22, 1, 2),
            switch(40, 0, None),
        ]
    }

    fn seen(window: &str, limit: usize) -> Timeline {
        let mut sink = TimelineSink::with_limit(window.parse().unwrap(), limit);
        events().iter().for_each(|event| sink.event(event));
        sink.finish(TimeNs(50))
    }

    #[test]
    fn a_window_cuts_what_reaches_into_it() {
        let timeline = seen("10ns..30ns", 100);
        let stretch = |cpu, task, from, to, end| Stretch {
            cpu: CpuId(cpu),
            task: TaskId(task),
            from: TimeNs(from),
            to: TimeNs(to),
            end,
        };
        let blocked = Some(TaskState::Blocked);
        assert_eq!(timeline.stretches, [stretch(1, 2, 14, 20, blocked), stretch(0, 1, 10, 30, None)]);
        assert_eq!(timeline.wakeups[0].ran, Some((CpuId(1), TimeNs(14))));
        assert_eq!((timeline.wakeups[1].at, timeline.wakeups[1].ran), (TimeNs(22), None));
        assert!(!timeline.cut);
    }

    #[test]
    fn memory_is_bounded_by_ending_the_window() {
        let timeline = seen("..", 2);
        assert_eq!((timeline.window.to, timeline.cut), (TimeNs(20), true));
        assert_eq!((timeline.stretches.len(), timeline.wakeups.len()), (2, 1));
        assert_eq!(seen("..", 100).window, Window { from: TimeNs(0), to: TimeNs(50) });
        assert!(seen("60ns..", 100).stretches.is_empty());
    }

    #[test]
    fn windows_are_read() {
        let window = |from, to| Ok(Window { from: TimeNs(from), to: TimeNs(to) });
        assert_eq!("1us..2.5us".parse(), window(1000, 2500));
        assert_eq!("..5ns".parse(), window(0, 5));
        assert_eq!("0..3ms".parse(), window(0, 3_000_000));
        assert_eq!("..".parse(), Ok(Window::ALL));
        for bad in ["", "5ms", "2ms..1ms", "1ms..1ms", "a..b", "1..2", "0..0"] {
            assert!(bad.parse::<Window>().unwrap_err().to_string().contains("10ms..25ms"), "{bad}");
        }
    }
}
