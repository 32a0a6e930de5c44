//! The end of a task (`do_exit()`).

use super::{locks, pages, state};
use crate::flags::{PF_EXITING, PF_POSTCOREDUMP};
use crate::state::ops::{SchedExt, TracePoint, TracePointKind};
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{RunState, Task};
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::EventKind;

/// `do_exit()` of the current task, up to its last `schedule()`.
#[inline(never)]
pub(crate) fn exit<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId) {
    let cost = sim.k.machine.costs.exit;
    sim.charge_task(cost);
    let entry = sim.k.task_mut(task);
    entry.set_flags(entry.flags | PF_EXITING | PF_POSTCOREDUMP);
    if sim.k.scx.wants.wants(TracePointKind::SchedProcessExit) {
        let tgid = sim.k.task(task).tgid;
        let lives = |other: &&Task| other.tgid == tgid && !other.is_exiting();
        let group_dead = !sim.k.live_tasks().any(|other| lives(&other));
        let point = TracePoint::SchedProcessExit { task, group_dead };
        sim.trace(TracePointKind::SchedProcessExit, || point);
    }
    pages::leave(sim, task);
    sim.k.emit(EventKind::Exit { task });
    exited(sim, task);
    sim.k.task_mut(task).set_state(RunState::Dead);
    let complete = sim.schedule(cpu);
    debug_assert!(complete, "the dead wait on no queue");
}

/// Takes down what the task used, and wakes the parent that waits for it.
fn exited<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) {
    let now = sim.k.ctx.now;
    let entry = sim.k.task_mut(task);
    let used = entry.cpu_time(now);
    let exec = &mut entry.exec;
    if !exec.background {
        // It ends inside a system call.
        exec.leave_kernel(used);
        let system = exec.system;
        let ended = &mut sim.exec.ended;
        *ended = (ended.0 + used, ended.1 + system);
        sim.exec.foreground -= 1;
    }
    locks::exited(sim, task);
    let (pid, tgid) = (sim.k.task(task).pid, sim.k.task(task).tgid);
    if pid != tgid {
        // The parent of a process hears of no thread.
        return;
    }
    let parent = sim.k.task(task).parent.filter(|&parent| sim.k.get_task(parent).is_some());
    let Some(parent) = parent else { return };
    let exec = state(sim, parent);
    exec.zombies.push(pid);
    if std::mem::take(&mut exec.waits_for_child) {
        // __wake_up_parent() is a synchronous wakeup: the child is about to be gone.
        sim.wake(parent, WakeFlags { sync: true, ..WakeFlags::default() });
    }
}
