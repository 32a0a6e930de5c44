//! A running simulation: the kernel, the loaded scheduler and the executor, and
//! the verbs that the executor has.

use crate::Kernel;
use crate::check::Watch;
use crate::event::Event;
use crate::exec::Executor;
use crate::flags::{DEQUEUE_CLASS, DEQUEUE_MOVE, DEQUEUE_NOCLOCK, DEQUEUE_SAVE, PF_FORKNOEXEC, SCX_ENQ_HEAD};
use crate::state::kernel::Deferred;
use crate::state::lane::{Core, Lane};
use crate::state::ops::{OpKind, SchedExt, TracePoint, TracePointKind};
use crate::state::states::SharedStates;
use crate::state::task::{NewTask, RunState, SchedClass, Task, USER_SPACE_PID};
use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Policy, TaskId, TimeNs};
use schedlab_trace::EventKind;
use std::sync::Arc;

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
}

impl<S> Sim<S> {
    /// One that has not begun.
    pub(crate) fn new(k: Kernel, ops: Option<S>, exec: Executor, core: Core) -> Sim<S> {
        Sim { k, ops, exec, watch: Watch::default(), lane: Lane::new(core), states: None }
    }
}

/// Calls into the scheduler.
impl<S: SchedExt> Sim<S> {
    /// True when the loaded scheduler has `op`.
    #[inline]
    pub(crate) fn has(&self, op: OpKind) -> bool {
        self.k.scx.present.has(op)
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
        let ops = self.ops.as_mut().expect("a callback needs a scheduler");
        let k = &mut self.k;
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
                    if self.has(OpKind::Dequeue) && self.k.get_task(task).is_some() {
                        let rq = Some(self.k.task(task).cpu);
                        self.call(OpKind::Dequeue, Some(task), rq, |ops, k| ops.dequeue(k, task, flags));
                    }
                }
                Deferred::Trace(point) => {
                    if self.ops.is_some() {
                        self.call(OpKind::Tracing, None, None, |ops, k| ops.tracepoint(k, &point));
                    }
                }
            }
        }
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

    /// Makes a task, a child of `parent` (the current task) or of the shell, and
    /// wakes it (`kernel_clone()`; the caller charges its cost).
    pub(crate) fn fork(&mut self, parent: Option<TaskId>, spec: NewTask) -> TaskId {
        let id = TaskId(self.k.tasks_made);
        self.k.tasks_made += 1;
        self.fork_as(id, parent, spec);
        id
    }

    /// [`Sim::fork`] with an id that no task has.
    pub(crate) fn fork_as(&mut self, id: TaskId, parent: Option<TaskId>, mut spec: NewTask) {
        let now = self.k.ctx.now;
        debug_assert!(self.k.get_task(id).is_none(), "a task is made once");
        // A task asks for its reservation when it is there.
        let asks = spec.policy.reservation().is_some().then(|| std::mem::take(&mut spec.policy));
        let mut task =
            Task::new(id, parent.map(|parent| self.k.task(parent)), spec, now, self.k.unseen.clone());
        if self.k.scx.user_space == Some(id) {
            (task.pid, task.tgid) = (USER_SPACE_PID, USER_SPACE_PID);
        }
        task.tgid = self.k.leader_pid(task.process, task.pid);
        if task.tgid != task.pid {
            // CLONE_THREAD: a thread is no child of the one that makes it, but its sibling.
            task.parent = parent.and_then(|maker| self.k.task(maker).parent);
        }
        task.class = self.k.class_of(task.policy);
        self.k.tasks.insert(task);
        if let Some(policy) = asks.filter(|policy| self.k.dl_admit(id, *policy)) {
            let entry = self.k.task_mut(id);
            entry.set_policy(policy);
            entry.class = SchedClass::Dl;
        }
        self.k.live_tasks += 1;
        self.enter_group(id);
        self.k.emit(EventKind::Fork { parent, child: id });
        self.k.tell_priority(id);
        self.init_forked(id);
        self.trace(TracePointKind::SchedProcessFork, || TracePoint::SchedProcessFork { parent, child: id });
        self.wake_new(id);
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

    /// `set_user_nice()`.
    pub(crate) fn set_nice(&mut self, task: TaskId, nice: Nice) {
        if self.k.task(task).nice == nice {
            return;
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            sim.k.task_mut(task).begin_nice(nice);
            sim.reweight(task);
            sim.k.task_mut(task).show_priority();
        });
        self.k.tell_priority(task);
    }

    /// `sched_setscheduler()`.
    pub(crate) fn set_policy(&mut self, task: TaskId, policy: Policy) {
        if self.k.task(task).policy == policy {
            return;
        }
        if !self.k.dl_admit(task, policy) {
            return;
        }
        let class = self.k.class_with(policy, self.k.task(task).boost);
        let old = self.k.task(task).class;
        let entry = self.k.task(task);
        let deadline = old == SchedClass::Dl || class == SchedClass::Dl;
        let moves = if deadline || entry.prio() != entry.prio_with(policy) { DEQUEUE_MOVE } else { 0 };
        let switches = if class == old { 0 } else { DEQUEUE_CLASS };
        // One that loses priority stays before others of its new one.
        let head = if entry.prio() < entry.prio_with(policy) { SCX_ENQ_HEAD } else { 0 };
        self.change_to(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK | moves | switches, head, |sim| {
            sim.switched_from(task, old, class);
            sim.k.task_mut(task).set_policy(policy);
            sim.switch_class_of(task, old, class);
            if class == old {
                sim.reweight(task);
            }
        });
        self.k.tell_priority(task);
        let cpu = self.k.task(task).cpu;
        if self.k.task(task).on_rq {
            self.k.resched_curr(cpu);
        }
    }

    /// `rt_mutex_setprio()`: the task runs with this real-time priority while it is above its own; 0 ends it.
    pub(crate) fn boost(&mut self, task: TaskId, priority: u8) {
        if self.k.task(task).boost == priority {
            return;
        }
        let class = self.k.class_with(self.k.task(task).policy, priority);
        let old = self.k.task(task).class;
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            sim.switched_from(task, old, class);
            sim.k.task_mut(task).set_boost(priority);
            sim.switch_class_of(task, old, class);
        });
        self.k.tell_priority(task);
        let cpu = self.k.task(task).cpu;
        if self.k.task(task).on_rq {
            self.k.resched_curr(cpu);
        }
    }

    /// `set_cpus_allowed_ptr()`: a queued or running task leaves a CPU that is no
    /// longer allowed. `mask` has at least one CPU of the machine.
    pub(crate) fn set_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        let mask = mask.and(&self.k.machine.all_cpus());
        assert!(!mask.is_empty(), "an affinity mask has a CPU of the machine");
        if !self.k.dl_allows_affinity(task, &mask) {
            return;
        }
        self.change(task, DEQUEUE_SAVE | DEQUEUE_NOCLOCK, |sim| {
            let entry = sim.k.task_mut(task);
            entry.set_cpus_allowed(Arc::new(mask));
            if sim.has(OpKind::SetCpumask) && sim.k.task(task).class == SchedClass::Ext {
                let rq = Some(sim.k.task(task).cpu);
                sim.call(OpKind::SetCpumask, Some(task), rq, |ops, k| ops.set_cpumask(k, task, &mask));
            }
        });
        let entry = self.k.task(task);
        let (cpu, on_rq, on_cpu) = (entry.cpu, entry.on_rq, entry.on_cpu);
        if !on_rq || mask.contains(cpu) {
            return;
        }
        if on_cpu {
            self.k.cpu_mut(cpu).push_off = true;
            self.k.resched_curr(cpu);
        } else {
            self.move_queued(task);
        }
    }
}
