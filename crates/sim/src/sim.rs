//! A running simulation: the kernel, the loaded scheduler and the executor, and
//! the verbs that the executor has.

use crate::Kernel;
use crate::event::Event;
use crate::exec::{self, Executor};
use crate::ops::SchedExt;
use crate::task::NewTask;
use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Policy, TaskId, TimeNs};

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
pub(crate) struct Sim<S> {
    pub(crate) k: Kernel,
    pub(crate) ops: Option<S>,
    pub(crate) exec: Executor,
}

/// The executor's verbs. All run in the present context ([`Kernel::ctx`]).
impl<S: SchedExt> Sim<S> {
    /// Charges system call work to the current task and advances the local time.
    pub(crate) fn charge_task(&mut self, cost: DurationNs) {
        self.k.ctx.now += cost;
    }

    /// Marks the current task of `cpu` as about to sleep; the executor then
    /// returns [`exec::Step::Blocked`]. A wakeup in between cancels it.
    pub(crate) fn block(&mut self, cpu: CpuId, interruptible: bool) {
        let _ = (cpu, interruptible);
        unimplemented!()
    }

    /// Wakes `task` (`try_to_wake_up()`): select_task_rq, enqueue, preemption
    /// check. False when it does not sleep.
    pub(crate) fn wake(&mut self, task: TaskId, flags: WakeFlags) -> bool {
        let _ = (task, flags);
        unimplemented!()
    }

    /// An interrupt with `event` at `time` on `cpu`.
    pub(crate) fn at(&mut self, time: TimeNs, cpu: CpuId, event: exec::Event) {
        self.k.queue.push(time, Event::Exec { cpu, event });
    }

    /// Makes a task, a child of `parent` (the current task) or of the shell, and
    /// wakes it (`kernel_clone()` without its cost).
    pub(crate) fn fork(&mut self, parent: Option<TaskId>, spec: NewTask) -> TaskId {
        let _ = (parent, spec);
        unimplemented!()
    }

    /// The current task of `cpu` replaces its image: trace point only.
    pub(crate) fn exec_image(&mut self, cpu: CpuId) {
        let _ = cpu;
        unimplemented!()
    }

    /// Entry of a system call: `sys_enter` for attached programs.
    pub(crate) fn sys_enter(&mut self, nr: i64, args: [u64; 6]) {
        let _ = (nr, args);
        unimplemented!()
    }

    /// Exit of a system call: `sys_exit` for attached programs.
    pub(crate) fn sys_exit(&mut self, nr: i64, ret: i64) {
        let _ = (nr, ret);
        unimplemented!()
    }

    /// `set_user_nice()`.
    pub(crate) fn set_nice(&mut self, task: TaskId, nice: Nice) {
        let _ = (task, nice);
        unimplemented!()
    }

    /// `sched_setscheduler()`.
    pub(crate) fn set_policy(&mut self, task: TaskId, policy: Policy) {
        let _ = (task, policy);
        unimplemented!()
    }

    /// `set_cpus_allowed_ptr()`. `mask` has at least one CPU of the machine.
    pub(crate) fn set_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        let _ = (task, mask);
        unimplemented!()
    }
}
