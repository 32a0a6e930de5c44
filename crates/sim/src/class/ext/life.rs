//! The life of a loaded scheduler: enabling, tasks coming and going, the
//! watchdog, errors, bypass, ejection.

use crate::class::ext::kfunc::cut_message;
use crate::event::Event;
use crate::flags::*;
use crate::state::kernel::Kernel;
use crate::state::ops::{OpKind, OpsSet, SchedExt, TracePointKind, TracePoints};
use crate::state::sched::Sched;
use crate::state::sim::{Sim, object_at_hand};
use crate::state::subs::SchedIx;
use crate::state::task::{OpsState, SchedClass, Task};
use schedlab_base::{CpuId, DurationNs, KernelChange, TaskId, TimeNs};
use schedlab_trace::{Bounds, ExitKind, ExitRecord, IDLE_LOOK};

/// From a claimed exit to the helper thread that removes the scheduler: a wakeup
/// and a switch. Chosen.
pub(crate) const DISABLE_DELAY: DurationNs = DurationNs::from_us(50);

/// Tasks that wait at the end of a run, of which it is kept where. Chosen: more than warnings name.
const TOLD: usize = 64;

/// The kernel's words for an exit kind (`scx_exit_reason()`).
pub(crate) fn exit_reason(kind: ExitKind) -> &'static str {
    match kind {
        ExitKind::None | ExitKind::Done => "<UNKNOWN>",
        ExitKind::Unreg => "unregistered from user space",
        ExitKind::UnregBpf => "unregistered from BPF",
        ExitKind::UnregKern => "unregistered from the main kernel",
        ExitKind::Sysrq => "disabled by sysrq-S",
        ExitKind::Parent => "parent exiting",
        ExitKind::ParentKill => "killed by parent scheduler",
        ExitKind::Error => "runtime error",
        ExitKind::ErrorBpf => "scx_bpf_error",
        ExitKind::ErrorStall => "runnable task stall",
        ExitKind::ErrorReenq => "reenqueue limit",
        ExitKind::ErrorRescue => "rescue bandwidth overload",
    }
}

/// Enabling.
impl Kernel {
    /// The scheduler leaves, to be started again with the CPUs that are online then.
    pub(crate) fn exit_for_hotplug(&mut self, message: String) {
        if self.sched.exit.is_none() {
            self.sched.exit_code = SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG;
        }
        self.claim_exit(ExitKind::UnregKern, message, Some(self.ctx.cpu));
    }

    /// `check_hotplug_seq()`: false if CPUs came or went since the scheduler was opened.
    fn check_hotplug_seq(&mut self, expected: u64) -> bool {
        let actual = self.hotplug_seq();
        if expected == 0 || expected == actual {
            return true;
        }
        self.exit_for_hotplug(format!("expected hotplug seq {expected} did not match actual {actual}"));
        false
    }
}

impl<S: SchedExt> Sim<S> {
    /// Loads the scheduler (`scx_root_enable_workfn()`), before the first task exists or among those that are there. After a
    /// failure its exit is claimed and the run continues under the fair class.
    pub(crate) fn load(&mut self) {
        let Some(ops) = &self.ops else { return };
        let info = ops.info().clone();
        let present = Self::callbacks_of(info.present, &self.k);
        let scx = &mut self.k.scx;
        scx.wants = ops.wants();
        let traced = [TracePointKind::SysEnter, TracePointKind::SysExit];
        scx.shows_calls = ops.reads_registers() || traced.into_iter().any(|kind| scx.wants.wants(kind));
        scx.loaded = true;
        let own_idle = info.present.has(OpKind::UpdateIdle);
        scx.builtin_idle = !own_idle || info.flags & SCX_OPS_KEEP_BUILTIN_IDLE != 0;
        scx.idle_per_node = info.flags & SCX_OPS_BUILTIN_IDLE_PER_NODE != 0;
        self.k.sched = Sched::new(info, present);
        self.k.bounds = Bounds { watchdog: self.k.sched.timeout };
        self.k.trace.summary.look_from(self.k.bounds.idle().min(IDLE_LOOK));
        self.k.idle_reset();
        if !self.validate_ops() {
            return;
        }
        if !self.run_init() {
            return;
        }
        // What follows runs under a bypass, which takes no time here.
        self.k.sched.events.bypass_activate += 1;
        self.k.sched.bypassing = true;
        if !self.init_groups() {
            return;
        }
        let tasks: Vec<TaskId> = self.k.live_tasks().map(|task| task.id).collect();
        if !tasks.iter().all(|&task| self.init_task(task, false)) {
            return;
        }
        self.k.scx.enabled = true;
        self.k.scx.switch_all = self.k.sched.flags & SCX_OPS_SWITCH_PARTIAL == 0;
        tasks.iter().for_each(|&task| self.take_in(task));
        self.k.sched.bypassing = false;
        self.requeue_waiting();
        self.k.attach_servers();
        // Enabling ends with a reschedule of every CPU (`scx_bypass(false)`): idle ones
        // call ops.dispatch() and tell that they are idle.
        let here = self.k.ctx.cpu;
        for cpu in self.k.online_cpus().iter().collect::<Vec<CpuId>>() {
            self.k.ctx.cpu = cpu;
            if tasks.is_empty() {
                let complete = self.schedule(cpu);
                debug_assert!(complete, "no task leaves an idle CPU");
            }
            self.notify_idle(cpu);
            // The end of the bypass that enabling runs under: `scx_bypass()` reschedules every CPU, so that each idle
            // one passes through ops.dispatch() once.
            self.k.resched_curr(cpu);
        }
        self.k.ctx.cpu = here;
        let interval = (self.k.sched.timeout / 2).max(self.k.machine.tick_period());
        self.k.scx.watchdog_interval = interval;
        let begin = if tasks.is_empty() { TimeNs::ZERO } else { self.k.ctx.now };
        self.k.queue.push(begin + interval, Event::Watchdog);
    }

    /// Calls `ops.init()`: false if the scheduler leaves for what it did, or for CPUs that came or went.
    fn run_init(&mut self) -> bool {
        self.call_init();
        let expected = self.k.sched.info.as_ref().map_or(0, |info| info.hotplug_seq);
        self.k.sched.exit.is_none() && self.k.check_hotplug_seq(expected)
    }

    /// `ops.init()` of the scheduler at hand, if it has that; a failure claims its exit.
    pub(super) fn call_init(&mut self) {
        if self.has(OpKind::Init)
            && let Err(errno) = self.call(OpKind::Init, None, None, |ops, k| ops.init(k))
        {
            self.k.error(ExitKind::Error, format!("ops.init() failed (-{errno})"));
        }
    }

    /// The callbacks among `present` that this version of the kernel makes.
    pub(super) fn callbacks_of(present: OpsSet, k: &Kernel) -> OpsSet {
        let version = k.machine.kernel.version;
        let later = [
            (KernelChange::GroupBandwidth, OpKind::CgroupSetBandwidth),
            (KernelChange::GroupIdle, OpKind::CgroupSetIdle),
        ];
        let lacking = later.into_iter().filter(|(change, _)| !version.has(*change));
        lacking.fold(present, |present, (_, op)| present.without(op))
    }

    /// A task that was there before the scheduler: of its class from now on, if its policy is.
    fn take_in(&mut self, task: TaskId) {
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            let entry = sim.k.task_mut(task);
            entry.set_slice(SCX_SLICE_DFL);
            let (old, policy, boosted) = (entry.class, entry.policy, entry.boost > 0);
            if !boosted {
                let new = sim.k.class_of(policy);
                sim.switched_from(task, old, new);
                sim.switch_class_of(task, old, new);
            }
        });
    }

    /// `scx_validate_ops()`.
    pub(super) fn validate_ops(&mut self) -> bool {
        let (scx, sched) = (&self.k.scx, &self.k.sched);
        let by_number = |k: &Kernel| k.sched_of(SchedIx::ROOT).flags & SCX_OPS_TID_TO_TASK != 0;
        let most = DurationNs::from_secs(SCX_WATCHDOG_MAX_TIMEOUT_SECS);
        let problem = if sched.flags & !SCX_OPS_ALL_FLAGS != 0 {
            Some(format!("unknown ops.flags {:#x}", sched.flags & !SCX_OPS_ALL_FLAGS))
        } else if sched.flags & SCX_OPS_ENQ_LAST != 0 && !sched.present.has(OpKind::Enqueue) {
            Some("SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented".into())
        } else if sched.flags & SCX_OPS_TID_TO_TASK != 0 && !by_number(&self.k) {
            Some("SCX_OPS_TID_TO_TASK requires root scheduler to enable it".into())
        } else if scx.idle_per_node && !scx.builtin_idle {
            Some("SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled".into())
        } else if sched.timeout > most {
            Some(format!("ops.timeout_ms of {} is above the maximum of {most}", sched.timeout))
        } else {
            None
        };
        if let Some(message) = problem {
            self.k.error(ExitKind::Error, message);
            return false;
        }
        true
    }

    /// Tells an idle CPU's state to the masks and the scheduler.
    fn notify_idle(&mut self, cpu: CpuId) {
        if self.k.cpu(cpu).curr.is_some() {
            return;
        }
        if self.k.scx.builtin_idle {
            self.k.idle_update(cpu, true);
        }
        if self.has(OpKind::UpdateIdle) {
            self.call(OpKind::UpdateIdle, None, Some(cpu), |ops, k| ops.update_idle(k, cpu, true));
        }
    }
}

/// Where a task that is ready waits, and since when: what the kernel's own words leave to its dump.
fn where_it_waits(k: &Kernel, task: &Task) -> String {
    let since = format!("{:.6} s", task.ready_at.since(TimeNs::ZERO).as_secs_f64());
    match task.scx.dsq.map(|ix| k.dsq(ix)) {
        None if task.scx.ops_state == OpsState::Queued => {
            format!(
                "; ops.enqueue() took it at {since} and put it on no queue, nor has another callback since"
            )
        }
        None => String::new(),
        Some(dsq) => match dsq.local {
            Some(cpu) => format!("; it waits on the local queue of CPU {} since {since}", cpu.0),
            None => format!(
                "; it waits on dispatch queue {:#x} since {since}, and no callback has moved it to a CPU",
                dsq.id.0
            ),
        },
    }
}

/// Leaving.
impl<S: SchedExt> Sim<S> {
    /// `scx_watchdog_workfn()`: ejects the scheduler when a task waits too long.
    #[inline(never)]
    pub(crate) fn watchdog(&mut self, time: TimeNs) {
        if !self.k.scx.loaded || self.k.scx.disabling {
            return;
        }
        self.k.queue.push(time + self.k.scx.watchdog_interval, Event::Watchdog);
        let waits = |task: &&Task| task.scx.runnable_seq != 0 && task.class == SchedClass::Ext;
        let late = |task: &&Task| {
            let timeout =
                if self.k.subs.many { self.k.sched_of(task.sched).timeout } else { self.k.sched.timeout };
            time.since(task.scx.runnable_at) > timeout
        };
        let stalled = self.k.live_tasks().filter(waits).filter(late);
        let Some(task) = stalled.min_by_key(|task| (task.cpu, task.scx.runnable_seq)) else { return };
        let ms = time.since(task.scx.runnable_at).0 / 1_000_000;
        let message =
            format!("{}[{}] failed to run for {}.{:03}s", task.name(), task.pid, ms / 1000, ms % 1000);
        let message = message + &where_it_waits(&self.k, task);
        let (cpu, sched) = (task.cpu, task.sched);
        self.k.ctx.now = self.k.ctx.now.max(time);
        self.k.ctx.current = None;
        self.k.as_sched(sched, |k| k.claim_exit(ExitKind::ErrorStall, message, Some(cpu)));
        self.check_exit();
    }

    /// Starts the ejection when an exit was claimed: dump, bypass, helper thread.
    #[inline]
    pub(crate) fn check_exit(&mut self) {
        if self.k.scx.exit_claimed {
            self.begin_exits();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_exits(&mut self) {
        if self.k.held.pause.is_some() {
            return;
        }
        // While a sub-scheduler is at hand, nothing is known of the root's exit.
        self.k.scx.exit_claimed = self.k.subs.at != SchedIx::ROOT;
        if self.k.sched.exit.is_some() && !self.k.scx.disabling {
            self.begin_exit();
        }
        if self.k.subs.exits {
            self.begin_sub_exits();
        }
    }

    #[cold]
    fn begin_exit(&mut self) {
        self.k.scx.disabling = true;
        let was = self.k.set_setup(true);
        self.name_and_dump();
        self.bypass();
        self.k.set_setup(was);
        self.k.queue.push(self.k.ctx.now + DISABLE_DELAY, Event::Disable);
    }

    /// Writes down what is known of an ejection.
    pub(super) fn name_and_dump(&mut self) {
        self.name_source();
        if self.k.sched.exit.as_ref().is_some_and(|exit| exit.kind.is_ejection()) {
            self.dump_state();
        }
    }

    /// Adds to the message of an ejection which line of which program is at fault, where a call of a program is.
    fn name_source(&mut self) {
        let Some(exit) = self.k.sched.exit.as_mut().filter(|exit| exit.kind.is_ejection()) else { return };
        let site = exit.site.take().zip(self.ops.as_mut());
        let place = site.and_then(|(site, root)| object_at_hand(root, &self.k).source(site));
        if let (Some(place), Some(exit)) = (place, self.k.sched.exit.as_mut()) {
            exit.message = cut_message(format!("{}; {place}", exit.message));
        }
    }

    /// `scx_bypass(true)`: waiting tasks go to the bypass queues, every CPU
    /// reschedules.
    fn bypass(&mut self) {
        self.k.sched.bypassing = true;
        self.k.sched.bypass_since = self.k.ctx.now;
        self.k.sched.events.bypass_activate += 1;
        self.subs_bypass();
        self.requeue_waiting();
        for cpu in self.k.online_cpus().iter().collect::<Vec<CpuId>>() {
            self.k.resched_curr(cpu);
        }
    }

    /// The waiting tasks are queued again, those that wait longest last, as the bypass begins or ends.
    fn requeue_waiting(&mut self) {
        self.requeue_waiting_if(|_| true);
    }

    /// The same for those of some schedulers.
    pub(super) fn requeue_waiting_of(&mut self, scheds: &[SchedIx]) {
        self.requeue_waiting_if(|task| scheds.contains(&task.sched));
    }

    fn requeue_waiting_if(&mut self, concerned: impl Fn(&Task) -> bool) {
        let waits =
            |task: &&Task| task.scx.runnable_seq != 0 && task.class == SchedClass::Ext && concerned(task);
        let mut waiting: Vec<_> = self
            .k
            .live_tasks()
            .filter(waits)
            .map(|task| (task.cpu, task.scx.runnable_seq, task.id))
            .collect();
        waiting.sort_unstable_by_key(|&(cpu, seq, _)| (cpu, std::cmp::Reverse(seq)));
        for (_, _, task) in waiting {
            if self.k.stop.is_raised() {
                break;
            }
            self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |_| {});
        }
    }

    /// The scheduler's loader attaches it now.
    #[inline(never)]
    pub(crate) fn attach_late(&mut self) {
        self.quietly(Sim::load);
    }

    /// The scheduler's loader takes it out again.
    #[inline(never)]
    pub(crate) fn detach(&mut self) {
        if self.k.scx.loaded && self.k.sched.exit.is_none() {
            self.k.scx.detached = true;
            self.k.claim_exit(ExitKind::Unreg, String::new(), None);
        }
    }

    /// Does what costs nothing here.
    fn quietly(&mut self, body: impl FnOnce(&mut Self)) {
        let was = self.k.set_setup(true);
        body(self);
        self.k.set_setup(was);
    }

    /// `scx_root_disable()`: every task goes to the fair class, then `ops.exit()`.
    pub(crate) fn disable(&mut self) {
        let was = self.k.set_setup(true);
        self.disable_subs(ExitKind::Parent);
        self.k.scx.switch_all = false;
        self.exit_groups();
        let tasks: Vec<TaskId> = self.k.live_tasks().map(|task| task.id).collect();
        for task in tasks {
            // A run that was stopped ends with this event; callbacks of thousands of tasks may take long.
            if self.k.stop.is_raised() {
                break;
            }
            if self.k.task(task).class == SchedClass::Ext {
                let running = self.k.task(task).on_cpu;
                self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
                    sim.switched_from(task, SchedClass::Ext, SchedClass::Fair);
                    sim.switch_class_of(task, SchedClass::Ext, SchedClass::Fair);
                });
                let cpu = self.k.task(task).cpu;
                if self.k.task(task).on_rq && !running {
                    self.k.resched_curr(cpu);
                }
            }
            self.ext_exit_task(task);
        }
        self.k.scx.enabled = false;
        self.k.attach_servers();
        let record = self.exit_record();
        if self.has(OpKind::Exit) {
            self.call(OpKind::Exit, None, None, |ops, k| ops.exit(k, &record));
        }
        self.forget();
        self.k.set_setup(was);
    }

    /// The tasks that have waited longest and wait still, in words where.
    fn still_waiting(&self) -> Vec<(TaskId, String)> {
        let waits = |task: &&Task| task.scx.runnable_seq != 0 && task.class == SchedClass::Ext;
        let mut waiting: Vec<&Task> = self.k.live_tasks().filter(waits).collect();
        waiting.sort_by_key(|task| (task.scx.runnable_at, task.id));
        waiting.iter().take(TOLD).map(|task| (task.id, where_it_waits(&self.k, task))).collect()
    }

    /// The run ends with the scheduler in place: it is unregistered.
    pub(crate) fn unload(&mut self) {
        if !self.k.scx.loaded {
            return;
        }
        self.k.set_setup(true);
        self.k.scx.still_waiting = self.still_waiting();
        self.disable_subs(ExitKind::Unreg);
        if self.k.sched.exit.is_none() {
            self.k.claim_exit(ExitKind::Unreg, String::new(), None);
            self.k.scx.regular_end = true;
        } else if !self.k.scx.disabling {
            self.name_source();
            self.dump_state();
        }
        self.k.scx.disabling = true;
        if !self.k.sched.bypassing {
            self.k.sched.bypassing = true;
            self.k.sched.bypass_since = self.k.ctx.now;
        }
        self.disable();
    }

    /// The scheduler is gone: nothing of it is called or found any more.
    fn forget(&mut self) {
        debug_assert!(self.k.scx.loaded, "only what was loaded is forgotten");
        let spent = self.k.ctx.now.since(self.k.sched.bypass_since);
        (self.k.scx.loaded, self.k.scx.wants) = (false, TracePoints::NONE);
        let sched = &mut self.k.sched;
        sched.events.bypass_duration += spent.0;
        sched.present = OpsSet::EMPTY;
        sched.bypassing = false;
        sched.buffer.clear();
        self.k.deferred.clear();
    }

    /// The exit as `struct scx_exit_info` shows it.
    pub(crate) fn exit_record(&self) -> ExitRecord {
        match &self.k.sched.exit {
            Some(exit) => ExitRecord {
                kind: exit.kind,
                reason: exit_reason(exit.kind).to_string(),
                message: exit.message.clone(),
                dump: self.k.sched.dump.text.clone(),
                after: Some(exit.at.since(self.k.origin)),
            },
            None => ExitRecord::default(),
        }
    }
}

/// Between schedulers.
impl<S: SchedExt> Sim<S> {
    /// A task that `to` has initialised goes over to it (`scx_rehome_task()`).
    pub(crate) fn rehome(&mut self, task: TaskId, from: SchedIx, to: SchedIx) {
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            sim.with_sched(from, |sim| sim.ext_exit_task(task));
            sim.set_state(task, SCX_TASK_READY);
            sim.k.task_mut(task).sched = to;
            sim.show_to_owner(task);
            if sim.k.task(task).class == SchedClass::Ext {
                sim.with_sched(to, |sim| sim.ext_enable(task));
            }
        });
    }

    /// A task goes to a scheduler that leaves as well and has not initialised it (`scx_punt_task()`).
    pub(super) fn punt(&mut self, task: TaskId, from: SchedIx, to: SchedIx) {
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            sim.with_sched(from, |sim| sim.ext_exit_task(task));
            sim.k.task_mut(task).sched = to;
            sim.show_to_owner(task);
        });
    }

    fn show_to_owner(&mut self, task: TaskId) {
        let sched = self.k.task(task).sched;
        self.with_sched(sched, |sim| {
            let root = sim.ops.as_mut().expect("a scheduler has its sub-schedulers");
            object_at_hand(root, &sim.k).owns(&mut sim.k, task);
        });
    }
}
