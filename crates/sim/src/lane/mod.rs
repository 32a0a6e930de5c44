//! The lane: a core for the runs that most are, beside the general one.
//!
//! A context switch of a task of sched_ext passes many places of the general core that ask what a run may have. There may be other classes,
//! trace points, pauses in callbacks, a setup, uneven speed. Its tasks lie each behind a pointer, with much that no switch touches.
//! The lane has nothing of it. It takes the tasks over between two events ([`crate::state::flat`]), takes events in straight paths, and gives the
//! tasks back at the first event that it does not know. The general core takes that one, and continues until the lane fits again.
//! Both write the same trace; the general core is the reference, and what a path here does stands at the verb that it names.
//!
//! Within an event there are two ways out. What is over when the general core has done it ends the event there
//! ([`Sim::finish_in_general`]). What a callback or a queue needs in between is done by the general core, which has the tasks meanwhile
//! ([`crate::Kernel::in_general`]). A fault of a program needs no care of its own: claiming an exit touches no task, and the lane ends with
//! the event. A feature is a way out, or another lane; never a question on the way.
//!
//! Taking over and giving back takes time in proportion to the number of tasks. So after a way out the general core keeps the events for a
//! while, the longer the fewer events the lane has had ([`crate::state::lane::Lane::ended`]).

mod dispatch;
mod events;
mod program;
mod queue;
mod schedule;
mod wakeup;

use crate::state::charge::Charging;
use crate::state::ops::{OpKind, OpsSet, SchedExt, TracePoints};
use crate::state::programs::FlatPrograms;
use crate::state::sim::Sim;
use schedlab_base::{CpuId, TaskId, TimeNs};
use schedule::Passed;

/// Callbacks that a scheduler needs for the lane.
const NEEDED: OpsSet = OpsSet::EMPTY.with(OpKind::Enqueue).with(OpKind::Dispatch);

/// Callbacks that the lane makes, or that are made by none of its events.
const KNOWN: OpsSet = NEEDED
    .with(OpKind::SelectCpu)
    .with(OpKind::Running)
    .with(OpKind::Stopping)
    .with(OpKind::Runnable)
    .with(OpKind::Quiescent)
    .with(OpKind::Tick)
    .with(OpKind::Yield)
    .with(OpKind::UpdateIdle)
    .with(OpKind::CoreSchedBefore)
    .with(OpKind::CpuAcquire)
    .with(OpKind::CpuRelease)
    .with(OpKind::CpuOnline)
    .with(OpKind::CpuOffline)
    .with(OpKind::Enable)
    .with(OpKind::Disable)
    .with(OpKind::Init)
    .with(OpKind::Exit)
    .with(OpKind::InitTask)
    .with(OpKind::ExitTask)
    .with(OpKind::SetWeight)
    .with(OpKind::SetCpumask)
    .with(OpKind::CgroupInit)
    .with(OpKind::CgroupExit)
    .with(OpKind::CgroupPrepMove)
    .with(OpKind::CgroupMove)
    .with(OpKind::CgroupSetWeight)
    .with(OpKind::CgroupSetBandwidth)
    .with(OpKind::CgroupSetIdle)
    .with(OpKind::Dump)
    .with(OpKind::DumpCpu)
    .with(OpKind::DumpTask);

impl<S: SchedExt> Sim<S> {
    /// Takes events in the lane up to `look`, if the run fits it; false if it takes none. The general core has the tasks again when this
    /// returns.
    #[inline]
    pub(crate) fn run_lane(&mut self, look: TimeNs) -> bool {
        !self.lane.waits() && self.enter_lane(look)
    }

    #[inline(never)]
    fn enter_lane(&mut self, look: TimeNs) -> bool {
        let tasks = self.k.tasks_made;
        if !self.lane_fits() || !self.take_tasks_over() {
            self.lane.refused(tasks);
            return false;
        }
        let before = self.lane.events;
        self.take_events(look);
        if self.k.is_flat() {
            self.k.give_back();
        }
        self.check_exit();
        self.lane.ended(self.lane.events - before, tasks);
        true
    }

    /// The events of the lane, until it ends.
    #[inline(always)]
    fn take_events(&mut self, look: TimeNs) {
        self.k.flat.interrupted = false;
        while self.k.queue.next_time() < look && !self.k.is_stuck() {
            if self.lane.leaves_one() {
                break;
            }
            let Some((time, event)) = self.k.queue.pop() else { break };
            self.k.event_time = time;
            if !self.lane_take(time, event) {
                self.k.give_back();
                self.take_in_general(time, event);
            } else {
                self.lane.events += 1;
                self.note_state(time, event);
            }
            let leaves = !self.k.is_flat() || self.k.flat.interrupted || self.k.sched.exit.is_some();
            if leaves || self.is_broken_off() {
                break;
            }
        }
    }

    /// The run is to stop, or cannot continue.
    #[inline(always)]
    pub(crate) fn is_broken_off(&self) -> bool {
        self.k.refusal.is_some() || self.k.stop.is_raised()
    }

    /// True while the run has nothing that the lane does not know.
    fn lane_fits(&mut self) -> bool {
        let Some(ops) = self.ops.as_ref().filter(|ops| ops.subs().is_empty()) else { return false };
        let (k, scx) = (&self.k, &self.k.scx);
        let loaded = scx.loaded && scx.enabled && scx.switch_all;
        let leaves = k.sched.bypassing || scx.disabling || k.sched.exit.is_some();
        let watched = scx.wants.besides_groups() != TracePoints::NONE
            || scx.shows_calls
            || k.schedule_events
            || k.wait_events;
        let special = k.held.on
            || k.charging != Charging::Whole
            || k.silent
            || k.hotplugs > 0
            || k.checker_on
            || k.idle_path;
        let pending = k.kicks_pending || !k.deferred.is_empty() || !scx.deferred_locals.is_empty();
        let even = k.topology.even_speed && k.machine.kernel.timer_slack.0 > 0;
        let callbacks = k.sched.present.has_all(NEEDED) && KNOWN.has_all(k.sched.present) && ops.fits_lane();
        let whole = k.live_tasks == k.tasks_made && k.live_tasks > 0;
        loaded && !leaves && !watched && !special && !pending && even && callbacks && whole && self.cpus_fit()
    }

    /// The CPUs have tasks of sched_ext alone, and nothing is asked of them that the lane does not know.
    fn cpus_fit(&self) -> bool {
        let fits = |cpu: &crate::Cpu| {
            let others = cpu.nr_running != cpu.scx_nr_running || cpu.servers.running().is_some();
            let moves = cpu.push_off || cpu.push_to.is_some() || cpu.cpu_released;
            let again = cpu.reenq_local || cpu.reenq_any || cpu.nr_immed > 0;
            let asked = cpu.lazy_resched || !cpu.wake_list.is_empty() || !cpu.kicks.is_empty();
            cpu.online && !others && !moves && !again && !asked && cpu.hrtick.is_off()
        };
        self.k.cpus.iter().all(fits)
    }

    fn take_tasks_over(&mut self) -> bool {
        if self.k.flat.programs.ops.is_empty() {
            let Some(programs) = FlatPrograms::new(&self.exec.scenario.programs) else {
                self.lane.give_up();
                return false;
            };
            self.k.flat.programs = programs;
        }
        let Some(ops) = &self.ops else { return false };
        self.k.take_over(|task| ops.seen_at(task))
    }

    /// As [`crate::Kernel::in_general`], of the whole run. What `body` uses is moved into it: the straight path then keeps that in registers.
    #[cold]
    #[inline(never)]
    fn in_general<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let rows = self.k.lend();
        let result = body(self);
        self.k.take_back(rows);
        result
    }

    /// The general core does what is left of the event.
    #[cold]
    #[inline(never)]
    fn finish_in_general(&mut self, body: impl FnOnce(&mut Self)) -> Passed {
        self.k.give_back();
        body(self);
        Passed::Over
    }

    /// [`Sim::call`], without pauses and what a trace point leaves behind.
    #[inline(always)]
    fn lane_call(&mut self, op: OpKind, task: Option<TaskId>, rq: Option<CpuId>, args: [u64; 3]) -> u64 {
        let ops = self.ops.as_mut().expect("a callback needs a scheduler");
        let k = &mut self.k;
        k.lane_charge(k.machine.costs.callback);
        (k.ctx.op, k.ctx.op_task, k.ctx.rq) = (op, task, rq);
        let result = ops.lane_call(k, op, args);
        (k.ctx.op, k.ctx.op_task, k.ctx.rq, k.ctx.site) = (OpKind::None, None, None, None);
        result
    }

    /// Where programs see the task.
    #[inline(always)]
    fn lane_pointer(&mut self, task: TaskId) -> u64 {
        match self.k.lane_pointer(task) {
            0 => self.show_lane_task(task),
            pointer => pointer,
        }
    }

    /// No program has seen the task yet.
    #[cold]
    #[inline(never)]
    fn show_lane_task(&mut self, task: TaskId) -> u64 {
        let pointer =
            self.in_general(move |sim| sim.ops.as_mut().map_or(0, |ops| ops.show(&mut sim.k, task)));
        self.k.set_lane_pointer(task, pointer);
        pointer
    }
}
