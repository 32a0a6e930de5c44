//! Where the run's events go: hash, summary, checkers and extra sinks.

use crate::check::StreamChecker;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::{Event, EventKind, IDLE_LOOK, RunHash, Sink, Summary};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// A sink that the caller keeps a handle of.
pub type SharedSink = Rc<RefCell<dyn Sink>>;

/// Takes every event of the run.
pub(crate) struct Tracer {
    pub(crate) hash: RunHash,
    pub(crate) summary: Summary,
    pub(crate) sinks: Vec<SharedSink>,
    pub(crate) checker: Option<Box<StreamChecker>>,
    /// There is a checker, or are sinks.
    has_others: bool,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("hash", &self.hash).field("sinks", &self.sinks.len()).finish()
    }
}

impl Tracer {
    pub(crate) fn new(cpus: usize, sinks: Vec<SharedSink>, check: bool) -> Tracer {
        let checker = check.then(|| Box::new(StreamChecker::new(cpus)));
        let has_others = checker.is_some() || !sinks.is_empty();
        let mut summary = Summary::new(cpus);
        summary.look_from(IDLE_LOOK);
        Tracer { hash: RunHash::default(), summary, sinks, checker, has_others }
    }

    /// Inlined where events are made, so that their kinds need no further distinction.
    #[inline(always)]
    pub(crate) fn emit(&mut self, event: &Event) {
        self.hash.event(event);
        self.summary.event(event);
        if self.has_others {
            // A copy: the event itself then need not lie in memory.
            let event = *event;
            self.emit_to_others(&event);
        }
    }

    #[cold]
    #[inline(never)]
    fn emit_to_others(&mut self, event: &Event) {
        if let Some(checker) = &mut self.checker {
            checker.event(event);
        }
        self.tell_sinks(event);
    }

    fn tell_sinks(&self, event: &Event) {
        for sink in &self.sinks {
            sink.borrow_mut().event(event);
        }
    }
}

impl crate::Kernel {
    /// Emits an event at the present CPU and time.
    #[inline(always)]
    pub(crate) fn emit(&mut self, kind: EventKind) {
        self.emit_on(self.ctx.cpu, kind);
    }

    /// Tells the sinks alone of an event of `cpu`.
    pub(crate) fn tell_sinks(&mut self, cpu: CpuId, kind: EventKind) {
        if !self.silent {
            let time = self.in_run(self.ctx.now);
            self.trace.tell_sinks(&Event { time, cpu, kind });
        }
    }

    /// Tells the sinks of a line that the scheduler prints now.
    pub fn printed(&self, text: &str) {
        let time = self.run_time();
        let (cpu, current) = (self.ctx.cpu, self.ctx.current);
        for sink in &self.trace.sinks {
            sink.borrow_mut().printed(time, cpu, current, text);
        }
    }

    /// Tells the sinks that asked for it what priority a task has from now on.
    pub(crate) fn tell_priority(&mut self, task: TaskId) {
        if self.wait_events {
            let prio = self.task(task).prio();
            self.tell_sinks(self.ctx.cpu, EventKind::Priority { task, prio });
        }
    }

    /// Emits an event of `cpu` at the present time.
    #[inline(always)]
    pub(crate) fn emit_on(&mut self, cpu: CpuId, kind: EventKind) {
        // The path that the run's end cuts off does not reach beyond it.
        if self.silent {
            return;
        }
        let time = self.in_run(self.ctx.now.min(self.limit));
        self.trace.emit(&Event { time, cpu, kind });
        if let EventKind::SchedSwitch { .. } = kind
            && let Some(look) = self.trace.summary.take_look()
        {
            self.look_for_idle(look, time);
        }
    }
}
