//! A running simulation: the kernel, the loaded scheduler and the executor, and
//! the verbs that the executor has.

use crate::Kernel;
use crate::check::Watch;
use crate::event::Event;
use crate::exec::Executor;
use crate::flags::PF_FORKNOEXEC;
use crate::state::kernel::Deferred;
use crate::state::lane::Lane;
use crate::state::ops::{OpKind, SchedExt, TracePoint, TracePointKind};
use crate::state::states::SharedStates;
use crate::state::subs::{SchedIx, SubLife};
use crate::state::task::RunState;
use schedlab_base::{CpuId, DurationNs, TaskId, TimeNs};

/// How a task is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WakeFlags {
    /// The waker is about to sleep (`WF_SYNC`).
    pub(crate) sync: bool,
    /// By an interrupt, not by the current task.
    pub(crate) from_interrupt: bool,
    /// The first wakeup of a new task.
    pub(crate) fork: bool,
}

/// A running simulation.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sim<S> {
    pub(crate) k: Kernel,
    pub(crate) ops: Option<S>,
    pub(crate) exec: Executor,
    pub(crate) watch: Watch,
    pub(crate) lane: Lane,
    pub(crate) states: Option<SharedStates>,
    /// Sub-schedulers of the run that could not be attached, by number, with the errno.
    pub(crate) sub_refusals: Vec<(usize, i32)>,
}

impl<S> Sim<S> {
    /// One that has not begun.
    pub(crate) fn new(k: Kernel, ops: Option<S>, exec: Executor, config: &crate::Config) -> Sim<S> {
        Sim {
            k,
            ops,
            exec,
            watch: Watch::default(),
            lane: Lane::new(config.core),
            states: config.states.clone(),
            sub_refusals: Vec::new(),
        }
    }
}

/// The object of the scheduler at hand.
#[cold]
pub(crate) fn object_at_hand<'a, S: SchedExt>(root: &'a mut S, k: &Kernel) -> &'a mut S {
    if k.subs.at == SchedIx::ROOT {
        return root;
    }
    k.subs.node(k.subs.at).path.iter().fold(root, |at, &step| at.sub(step))
}

/// The scheduler at hand.
impl<S: SchedExt> Sim<S> {
    /// Does something with another scheduler at hand.
    pub(crate) fn with_sched<R>(&mut self, ix: SchedIx, body: impl FnOnce(&mut Self) -> R) -> R {
        let was = self.k.sched_here();
        if ix == was {
            return body(self);
        }
        self.k.switch_sched(ix);
        let result = body(self);
        self.k.switch_sched(was);
        result
    }

    /// Does something about a task with its scheduler at hand.
    #[cold]
    #[inline(never)]
    pub(crate) fn with_sched_of<R>(&mut self, task: TaskId, body: impl FnOnce(&mut Self) -> R) -> R {
        let sched = self.k.task(task).sched;
        self.with_sched(sched, body)
    }

    /// The schedulers that are not the root's and live, parents first.
    pub(crate) fn live_subs(&self) -> Vec<SchedIx> {
        let subs = &self.k.subs;
        if !subs.many {
            return Vec::new();
        }
        let all = subs.with_below(SchedIx::ROOT).into_iter().skip(1);
        all.filter(|&ix| matches!(subs.node(ix).life, SubLife::Live | SubLife::Leaving)).collect()
    }

    /// Something for each live sub-scheduler, with it at hand.
    pub(crate) fn for_each_sub(&mut self, mut body: impl FnMut(&mut Self)) {
        for ix in self.live_subs() {
            self.with_sched(ix, &mut body);
        }
    }
}

/// Calls into the scheduler.
impl<S: SchedExt> Sim<S> {
    /// True when the loaded scheduler has `op`.
    #[inline]
    pub(crate) fn has(&self, op: OpKind) -> bool {
        self.k.sched.present.has(op)
    }

    /// Calls `op` with its cost. `rq` is the run queue whose lock is held.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        op: OpKind,
        task: Option<TaskId>,
        rq: Option<CpuId>,
        body: impl FnOnce(&mut S, &mut Kernel) -> R,
    ) -> R {
        let mut ops = self.ops.as_mut().expect("a callback needs a scheduler");
        let k = &mut self.k;
        if k.subs.at != SchedIx::ROOT {
            ops = object_at_hand(ops, k);
        }
        k.charge(k.machine.costs.callback);
        (k.ctx.op, k.ctx.op_task, k.ctx.rq) = (op, task, rq);
        let before = k.ctx.now;
        let result = body(ops, k);
        if k.held.on && k.held.pause.is_none() {
            self.let_others_run(rq);
        }
        let k = &mut self.k;
        debug_assert!(k.ctx.now >= before, "a callback does not turn time back");
        // No callback runs inside of another, but for a paused one.
        (k.ctx.op, k.ctx.op_task, k.ctx.rq, k.ctx.site) = (OpKind::None, None, None, None);
        self.run_deferred();
        result
    }

    /// Makes the calls that waited for a callback, or that the core left behind.
    #[inline]
    pub(crate) fn run_deferred(&mut self) {
        if !self.k.deferred.is_empty() {
            self.run_all_deferred();
        }
    }

    #[inline(never)]
    fn run_all_deferred(&mut self) {
        while let Some(call) = self.k.deferred.pop_front() {
            match call {
                Deferred::Dequeue(task, flags) => {
                    if self.k.get_task(task).is_none() {
                        continue;
                    }
                    if self.k.is_elsewhere(task) {
                        self.with_sched_of(task, |sim| sim.call_dequeue(task, flags));
                    } else {
                        self.call_dequeue(task, flags);
                    }
                }
                Deferred::Trace(point) => {
                    if self.ops.is_some() {
                        self.call(OpKind::Tracing, None, None, |ops, k| ops.tracepoint(k, &point));
                        if self.k.subs.many {
                            self.trace_for_subs(&point);
                        }
                    }
                }
            }
        }
    }

    fn call_dequeue(&mut self, task: TaskId, flags: u64) {
        if self.has(OpKind::Dequeue) {
            let rq = Some(self.k.task(task).cpu);
            self.call(OpKind::Dequeue, Some(task), rq, |ops, k| ops.dequeue(k, task, flags));
        }
    }

    /// A trace point for the programs of sub-schedulers.
    #[cold]
    fn trace_for_subs(&mut self, point: &TracePoint) {
        self.for_each_sub(|sim| {
            let call = |ops: &mut S, k: &mut Kernel| ops.tracepoint(k, point);
            sim.call(OpKind::Tracing, None, None, call);
        });
    }

    /// Fires a trace point at once, if a program is attached to it.
    pub(crate) fn trace(&mut self, kind: TracePointKind, point: impl FnOnce() -> TracePoint) {
        self.k.fire(kind, point);
        self.run_deferred();
    }
}

/// The executor's verbs. All run in the present context ([`Kernel::ctx`]).
impl<S: SchedExt> Sim<S> {
    /// Charges system call work to the current task and advances the local time.
    pub(crate) fn charge_task(&mut self, cost: DurationNs) {
        self.k.spend(cost);
    }

    /// Marks the current task of `cpu` as about to sleep; the executor then
    /// returns [`crate::exec::Step::Blocked`]. A wakeup in between cancels it.
    #[inline(always)]
    pub(crate) fn block(&mut self, cpu: CpuId, interruptible: bool) {
        let task = self.k.curr(cpu).expect("a task blocks itself");
        let state = if interruptible { RunState::Interruptible } else { RunState::Uninterruptible };
        let entry = self.k.task_mut(task);
        assert_eq!(entry.state, RunState::Runnable, "only a running task goes to sleep");
        entry.set_state(state);
    }

    /// An interrupt on `cpu` at `time` wakes `task`.
    pub(crate) fn wake_at(&mut self, time: TimeNs, cpu: CpuId, task: TaskId) {
        self.k.count_timeout(task, true);
        debug_assert!(self.k.get_task(task).is_some(), "a task that sleeps lives");
        self.k.queue.push(time.max(self.k.ctx.now), Event::Timeout { cpu, task });
    }

    /// The current task of `cpu` replaces its image: its cache is cold, and the
    /// trace points fire (`begin_new_exec()`, then `exec_binprm()`).
    pub(crate) fn exec_image(&mut self, cpu: CpuId) {
        let task = self.k.curr(cpu).expect("a task replaces its own image");
        self.k.cache_forget(cpu, task);
        let entry = self.k.task_mut(task);
        entry.set_flags(entry.flags & !PF_FORKNOEXEC);
        self.trace(TracePointKind::TaskRename, || TracePoint::TaskRename { task });
        self.trace(TracePointKind::SchedProcessExec, || TracePoint::SchedProcessExec { task });
    }

    /// Entry of a system call, where programs look at them: `sys_enter`.
    pub(crate) fn sys_enter(&mut self, nr: i64, args: [u64; 6]) {
        if let Some(current) = self.k.ctx.current {
            debug_assert!(
                self.k.ctx.current.is_none_or(|task| self.k.task(task).on_cpu),
                "the current task runs"
            );
            self.k.task_mut(current).syscall = Some((nr, args));
        }
        self.trace(TracePointKind::SysEnter, || TracePoint::SysEnter { nr, args });
    }

    /// Exit of a system call, where programs look at them: `sys_exit`.
    pub(crate) fn sys_exit(&mut self, ret: i64) {
        let current = self.k.ctx.current;
        let call = current.and_then(|current| self.k.task(current).syscall);
        let (nr, args) = call.unwrap_or((-1, [0; 6]));
        self.trace(TracePointKind::SysExit, || TracePoint::SysExit { nr, args, ret });
        if let Some(current) = current {
            self.k.task_mut(current).syscall = None;
        }
    }
}
