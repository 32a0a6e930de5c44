//! Sub-schedulers: how they are attached to a group and leave, the nested pass through `ops.dispatch()`, and capabilities where
//! they come into effect (`kernel/sched/ext/sub.c`).

use crate::class::ext::Verdict;
use crate::class::ext::queue::Insert;
use crate::event::Event;
use crate::flags::*;
use crate::state::group::GroupIx;
use crate::state::kernel::{Deferred, Kernel};
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sched::{PendingExit, SMALL_DSQ_IDS, Sched};
use crate::state::sim::Sim;
use crate::state::subs::{CAP_ENQ, CAP_ENQ_IMMED, CAP_PREEMPT, MAX_DEPTH, SchedIx, SubLife};
use crate::state::task::SchedClass;
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_trace::{ExitKind, ExitRecord};

/// A host looks after tasks of bypassed sub-schedulers in each so many passes (`SCX_BYPASS_HOST_NTH`).
const HOST_NTH: u32 = 2;

/// How a sub-scheduler of the run fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubOutcome {
    /// The group, from below the root.
    pub group: String,
    /// `ops.name`.
    pub name: String,
    /// Why it was not attached, if it was not: the errno of the attempt.
    pub refused: Option<i32>,
    /// How it left.
    pub exit: ExitRecord,
    /// Its `SCX_EV_*` counters.
    pub events: crate::state::sched::EventCounters,
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
    fn live_subs(&self) -> Vec<SchedIx> {
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

/// Attaching.
impl<S: SchedExt> Sim<S> {
    /// The run attaches its sub-scheduler of this number (`scx_sub_enable_workfn()`).
    #[inline(never)]
    pub(crate) fn attach_sub(&mut self, number: usize) {
        let was = self.k.set_setup(true);
        if let Err(errno) = self.try_attach(number) {
            self.sub_refusals.push((number, errno));
        }
        self.check_exit();
        self.k.set_setup(was);
    }

    /// The scheduler under which one of a group would be (`find_parent_sched()`), or the errno.
    fn parent_for(&self, group: GroupIx) -> Result<SchedIx, i32> {
        let parent = self.k.sched_of_group(group);
        let is_root = parent == SchedIx::ROOT;
        let taken = if is_root { group.is_root() } else { self.k.subs.node(parent).group == group };
        if taken {
            return Err(errno::EBUSY);
        }
        if !self.k.sched_of(parent).present.has(OpKind::SubAttach) {
            return Err(errno::EOPNOTSUPP);
        }
        let children = if self.k.subs.many { self.k.subs.node(parent).children.as_slice() } else { &[] };
        let between = |&&child: &&SchedIx| self.k.groups.is_below(self.k.subs.node(child).group, group);
        if children.iter().find(between).is_some() { Err(errno::EBUSY) } else { Ok(parent) }
    }

    fn try_attach(&mut self, number: usize) -> Result<(), i32> {
        let root = self.ops.as_mut().expect("a scheduler has its sub-schedulers");
        let path = root.subs()[number].group.clone();
        if !self.k.scx.enabled || self.k.scx.disabling {
            return Err(errno::ENODEV);
        }
        let group = self.k.groups.iter().find(|(_, group)| group.path == path && group.life.exists());
        let group = group.map(|(ix, _)| ix).ok_or(errno::ENOENT)?;
        let parent = self.parent_for(group)?;
        self.k.begin_subs();
        let ix = self.admit_sub(number, parent, group);
        if !self.prepare_sub(ix, parent) {
            self.sub_failed(ix);
            return Ok(());
        }
        self.bypass_sub(ix, true);
        self.k.subs.node_mut(ix).life = SubLife::Live;
        let told = self.take_over_groups(ix, parent) && self.take_over_tasks(ix, parent);
        if !told {
            self.sub_failed(ix);
            return Ok(());
        }
        self.bypass_sub(ix, false);
        self.tell_caps();
        Ok(())
    }

    /// The new scheduler is known, and its object belongs to its parent's.
    fn admit_sub(&mut self, number: usize, parent: SchedIx, group: GroupIx) -> SchedIx {
        let root = self.ops.as_mut().expect("a scheduler has its sub-schedulers");
        let sub = root.take_sub(number);
        let info = sub.info().clone();
        let most = DurationNs::from_secs(SCX_WATCHDOG_MAX_TIMEOUT_SECS);
        let mut sched = Sched {
            flags: info.flags,
            present: info.present,
            timeout: if info.timeout == DurationNs::ZERO { most } else { info.timeout },
            max_batch: if info.dispatch_max_batch == 0 {
                SCX_DSP_DFL_MAX_BATCH
            } else {
                info.dispatch_max_batch
            },
            dsq_small: vec![0; SMALL_DSQ_IDS],
            ..Sched::default()
        };
        let limit = if info.exit_dump_len == 0 { SCX_EXIT_DUMP_DFL_LEN } else { info.exit_dump_len };
        sched.dump.limit = limit as usize;
        self.k.scx.wants = self.k.scx.wants.with_all(sub.wants());
        sched.info = Some(info);
        let ix = self.k.add_sub(parent, group, number, sched);
        self.ops_at(parent).adopt(ix, sub);
        ix
    }

    /// The object of a scheduler.
    fn ops_at(&mut self, ix: SchedIx) -> &mut S {
        let root = self.ops.as_mut().expect("a scheduler has its sub-schedulers");
        if ix == SchedIx::ROOT {
            return root;
        }
        self.k.subs.node(ix).path.iter().fold(root, |at, &step| at.sub(step))
    }

    /// `ops.init()` of the child and `ops.sub_attach()` of its parent: false if one of them refuses.
    fn prepare_sub(&mut self, ix: SchedIx, parent: SchedIx) -> bool {
        let depth = self.k.subs.node(ix).path.len() as u16;
        let fine = self.with_sched(ix, |sim| {
            if !sim.validate_ops() {
                return false;
            }
            if depth >= MAX_DEPTH {
                sim.k.error(ExitKind::Error, format!("max nesting depth {MAX_DEPTH} violated"));
                return false;
            }
            if sim.has(OpKind::Init)
                && let Err(errno) = sim.call(OpKind::Init, None, None, |ops, k| ops.init(k))
            {
                sim.k.error(ExitKind::Error, format!("ops.init() failed (-{errno})"));
            }
            sim.k.sched.exit.is_none()
        });
        if !fine {
            return false;
        }
        let call = |ops: &mut S, k: &mut Kernel| ops.sub_attach(k, ix);
        let answer = self.with_sched(parent, |sim| sim.call(OpKind::SubAttach, None, None, call));
        if let Err(errno) = answer {
            self.k.as_sched(ix, |k| k.error(ExitKind::Error, format!("parent rejected (-{errno})")));
            return false;
        }
        self.k.subs.node_mut(ix).accepted = true;
        self.k.sched_of(ix).exit.is_none()
    }

    /// What is left of a scheduler that could not be attached is removed.
    fn sub_failed(&mut self, ix: SchedIx) {
        self.k.as_sched(ix, |k| k.error(ExitKind::Error, "scx_sub_enable() failed".into()));
        if self.k.subs.node(ix).life == SubLife::Attaching {
            self.forget_sub(ix);
        } else {
            self.disable_sub(ix);
        }
    }

    /// Existing groups below that of a scheduler which belong to `owner`, parents first.
    fn groups_of(&self, ix: SchedIx, owner: SchedIx) -> Vec<GroupIx> {
        let top = self.k.subs.node(ix).group;
        let groups = &self.k.groups;
        let all = groups.existing_before().into_iter();
        all.filter(|&group| groups.is_below(group, top) && groups.get(group).sched == owner).collect()
    }

    /// `scx_cgroup_claim_subtree()`: false after a failure, whose exit is claimed.
    fn take_over_groups(&mut self, ix: SchedIx, parent: SchedIx) -> bool {
        let groups = self.groups_of(ix, parent);
        for (at, &group) in groups.iter().enumerate() {
            let inited = self.with_sched(ix, |sim| sim.tell_group_init(group));
            if let Err(errno) = inited {
                let message = format!("ops.cgroup_init() failed (-{errno})");
                self.k.as_sched(ix, |k| k.error(ExitKind::Error, message));
                for &group in groups[..at].iter().rev() {
                    self.with_sched(ix, |sim| sim.tell_group_exit(group));
                }
                return false;
            }
        }
        for &group in groups.iter().rev() {
            if self.k.groups.get(group).inited {
                self.with_sched(parent, |sim| sim.tell_group_exit(group));
            }
            let entry = self.k.groups.get_mut(group);
            (entry.sched, entry.inited) = (ix, true);
        }
        true
    }

    /// `scx_cgroup_return_subtree()`. A parent that fails to take a group leaves as well.
    fn return_groups(&mut self, ix: SchedIx, parent: SchedIx) {
        let groups = self.groups_of(ix, ix);
        for &group in groups.iter().rev() {
            if self.k.groups.get(group).inited {
                self.with_sched(ix, |sim| sim.tell_group_exit(group));
            }
            let entry = self.k.groups.get_mut(group);
            (entry.sched, entry.inited) = (parent, false);
        }
        for &group in &groups {
            if let Err(errno) = self.with_sched(parent, |sim| sim.tell_group_init(group)) {
                let message = format!("ops.cgroup_init() failed (-{errno}) while disabling a sub-scheduler");
                self.k.as_sched(parent, |k| k.error(ExitKind::Error, message));
                return;
            }
            self.k.groups.get_mut(group).inited = true;
        }
    }

    /// The living tasks in the groups of a scheduler.
    fn tasks_below(&self, ix: SchedIx) -> Vec<TaskId> {
        let top = self.k.subs.node(ix).group;
        let groups = &self.k.groups;
        self.k.live_tasks().filter(|task| groups.is_below(task.group, top)).map(|task| task.id).collect()
    }

    /// All tasks are initialised for the new scheduler before the first one leaves its old one.
    fn take_over_tasks(&mut self, ix: SchedIx, parent: SchedIx) -> bool {
        let tasks = self.tasks_below(ix);
        for (at, &task) in tasks.iter().enumerate() {
            if let Err(errno) = self.with_sched(ix, |sim| sim.call_init_task(task, false)) {
                let message = self.init_failure(task, errno);
                self.k.as_sched(ix, |k| k.error(ExitKind::Error, message));
                for &task in &tasks[..at] {
                    self.with_sched(ix, |sim| sim.call_exit_task(task, true));
                }
                return false;
            }
        }
        tasks.into_iter().for_each(|task| self.rehome(task, parent, ix));
        true
    }

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

    /// `scx_bypass()` of a sub-scheduler and all below it: their tasks wait with the nearest ancestor that does not bypass.
    fn bypass_sub(&mut self, ix: SchedIx, on: bool) {
        let below = self.k.subs.with_below(ix);
        let mut changed = false;
        for &sched in &below {
            let node = self.k.subs.node_mut(sched);
            let was = node.bypasses;
            node.bypasses = if on { was + 1 } else { was.saturating_sub(1) };
            let turns = (was == 0) != (node.bypasses == 0);
            changed |= turns && sched == ix;
            if turns {
                self.turn_bypass(sched, on);
            }
        }
        if !changed {
            return;
        }
        self.requeue_waiting_of(&below);
        let here = self.k.ctx.cpu;
        for cpu in self.k.online_cpus().iter().collect::<Vec<CpuId>>() {
            if !on {
                below.iter().for_each(|&sched| self.k.after_bypass(sched, cpu));
            }
            self.k.resched_curr(cpu);
        }
        self.k.ctx.cpu = here;
        if !on {
            below.iter().for_each(|&sched| self.k.end_bypass_dispatch(sched));
        }
    }

    /// The state of a scheduler as its bypass begins or ends.
    fn turn_bypass(&mut self, ix: SchedIx, on: bool) {
        let now = self.k.ctx.now;
        let sched = self.k.sched_of_mut(ix);
        sched.bypassing = on;
        if on {
            sched.bypass_since = now;
            sched.events.bypass_activate += 1;
            self.k.begin_bypass_dispatch(ix);
        } else {
            sched.events.bypass_duration += now.since(sched.bypass_since).0;
        }
    }
}

/// Leaving.
impl<S: SchedExt> Sim<S> {
    /// Sub-schedulers whose exit was claimed begin to leave, and those below them.
    #[cold]
    pub(crate) fn begin_sub_exits(&mut self) {
        self.k.subs.exits = false;
        for ix in self.live_subs() {
            if self.k.sched_of(ix).exit.is_none() || self.k.subs.node(ix).life != SubLife::Live {
                continue;
            }
            for below in self.k.subs.with_below(ix) {
                self.leave_as(below, ExitKind::Parent);
            }
            let was = self.k.set_setup(true);
            self.with_sched(ix, |sim| sim.name_and_dump());
            self.bypass_sub(ix, true);
            self.k.set_setup(was);
            self.k
                .queue
                .push(self.k.ctx.now + super::life::DISABLE_DELAY, Event::DisableSub { sub: ix.0.into() });
        }
    }

    /// The exit of a scheduler is claimed if it was not.
    fn leave_as(&mut self, ix: SchedIx, kind: ExitKind) {
        let (now, site) = (self.k.ctx.now, None);
        let sched = self.k.sched_of_mut(ix);
        if sched.exit.is_none() {
            sched.exit =
                Some(PendingExit { kind, message: String::new(), cpu: None, current: None, at: now, site });
        }
        if self.k.subs.node(ix).life == SubLife::Live {
            self.k.subs.node_mut(ix).life = SubLife::Leaving;
        }
    }

    /// The helper thread of a sub-scheduler runs.
    #[inline(never)]
    pub(crate) fn disable_later(&mut self, ix: SchedIx) {
        if self.k.subs.node(ix).life == SubLife::Gone {
            return;
        }
        let was = self.k.set_setup(true);
        self.disable_sub(ix);
        self.check_exit();
        self.k.set_setup(was);
    }

    /// `scx_sub_disable()`: those below it first, then its groups and tasks go to its parent.
    pub(crate) fn disable_sub(&mut self, ix: SchedIx) {
        for child in self.k.subs.node(ix).children.clone() {
            self.leave_as(child, ExitKind::Parent);
            self.disable_sub(child);
        }
        let parent = self.k.sched_parent(ix);
        self.return_groups(ix, parent);
        let mut failed = false;
        for task in self.tasks_below(ix) {
            if self.k.stop.is_raised() {
                break;
            }
            if self.k.task(task).sched != ix {
                continue;
            }
            if !failed && let Err(errno) = self.with_sched(parent, |sim| sim.call_init_task(task, false)) {
                let message = format!("{} while disabling a sub-scheduler", self.init_failure(task, errno));
                self.k.as_sched(parent, |k| k.error(ExitKind::Error, message));
                failed = true;
            }
            if failed { self.punt(task, ix, parent) } else { self.rehome(task, ix, parent) }
        }
        self.forget_sub(ix);
    }

    /// A task goes to a scheduler that leaves as well and has not initialised it (`scx_punt_task()`).
    fn punt(&mut self, task: TaskId, from: SchedIx, to: SchedIx) {
        self.change(task, DEQUEUE_SAVE | DEQUEUE_MOVE, |sim| {
            sim.with_sched(from, |sim| sim.ext_exit_task(task));
            sim.k.task_mut(task).sched = to;
            sim.show_to_owner(task);
        });
    }

    fn show_to_owner(&mut self, task: TaskId) {
        let sched = self.k.task(task).sched;
        self.with_sched(sched, |sim| {
            let mut ops = sim.ops.as_mut().expect("a scheduler has its sub-schedulers");
            if sched != SchedIx::ROOT {
                ops = crate::state::sim::sub_at_hand(ops, &sim.k);
            }
            ops.owns(&mut sim.k, task);
        });
    }

    /// It has no task any more: its parent is told, then `ops.exit()` runs, and it is gone.
    fn forget_sub(&mut self, ix: SchedIx) {
        if self.k.subs.node(ix).bypasses > 0 {
            self.k.end_bypass_dispatch_of_gone(ix);
        }
        let parent = self.k.sched_parent(ix);
        let node = self.k.subs.node_mut(ix);
        node.life = SubLife::Gone;
        let accepted = node.accepted;
        self.k.subs.node_mut(parent).children.retain(|&child| child != ix);
        self.k.subs.to_sync.iter_mut().for_each(|waiting| waiting.retain(|&sched| sched != ix));
        self.k.subs.reenqueue.iter_mut().for_each(|wanted| wanted.retain(|&(sched, _)| sched != ix));
        if accepted && self.k.sched_of(parent).present.has(OpKind::SubDetach) {
            let call = |ops: &mut S, k: &mut Kernel| ops.sub_detach(k, ix);
            self.with_sched(parent, |sim| sim.call(OpKind::SubDetach, None, None, call));
        }
        self.with_sched(ix, |sim| {
            let record = sim.exit_record();
            if sim.has(OpKind::Exit) {
                sim.call(OpKind::Exit, None, None, |ops, k| ops.exit(k, &record));
            }
            let sched = &mut sim.k.sched;
            (sched.present, sched.bypassing) = (Default::default(), false);
            sched.buffer.clear();
        });
    }

    /// A group goes: so does the sub-scheduler that is attached to it (`scx_cgroup_lifetime_notify()`).
    pub(crate) fn shoot_down_sub(&mut self, group: GroupIx) {
        let attached = self.live_subs().into_iter().find(|&ix| self.k.subs.node(ix).group == group);
        let Some(ix) = attached else { return };
        let message = format!("cgroup {} going offline", self.k.sched_group_id(ix));
        self.k.as_sched(ix, |k| {
            if k.sched.exit.is_none() {
                k.sched.exit_code = SCX_ECODE_RSN_CGROUP_OFFLINE;
            }
            k.claim_exit(ExitKind::UnregKern, message, Some(k.ctx.cpu));
        });
    }

    /// The root bypasses, and with it all below it, which leave.
    pub(super) fn subs_bypass(&mut self) {
        for ix in self.live_subs() {
            self.leave_as(ix, ExitKind::Parent);
            let node = self.k.subs.node_mut(ix);
            node.bypasses += 1;
            if node.bypasses == 1 {
                self.turn_bypass(ix, true);
            }
        }
    }

    /// The root leaves, or the run ends: all below it go first.
    pub(crate) fn disable_subs(&mut self, kind: ExitKind) {
        for ix in self.live_subs().into_iter().rev() {
            self.leave_as(ix, kind);
            self.disable_sub(ix);
        }
    }

    /// What became of the run's sub-schedulers, by number.
    pub(crate) fn sub_outcomes(&mut self) -> Vec<SubOutcome> {
        let wished = self.ops.as_ref().map(|ops| ops.subs().to_vec()).unwrap_or_default();
        let outcome = |sim: &mut Self, number: usize| {
            let at = sim.k.subs.nodes.iter().skip(1).position(|node| node.number == number);
            let ix = at.map(|at| SchedIx(at as u16 + 1));
            let refused =
                sim.sub_refusals.iter().find(|(which, _)| *which == number).map(|(_, errno)| *errno);
            let (exit, events) = match ix {
                Some(ix) => sim.with_sched(ix, |sim| (sim.exit_record(), sim.k.sched.events)),
                None => Default::default(),
            };
            SubOutcome {
                group: wished[number].group.clone(),
                name: wished[number].name.clone(),
                refused,
                exit,
                events,
            }
        };
        (0..wished.len()).map(|number| outcome(self, number)).collect()
    }
}

/// Queues and CPUs.
impl Kernel {
    /// `enable_bypass_dsp()`.
    fn begin_bypass_dispatch(&mut self, ix: SchedIx) {
        let parent = self.sched_parent(ix);
        self.subs.node_mut(ix).bypass_dispatch += 1;
        self.subs.node_mut(parent).bypass_dispatch += 1;
    }

    /// `scx_disable_bypass_dsp()`.
    fn end_bypass_dispatch(&mut self, ix: SchedIx) {
        let parent = self.sched_parent(ix);
        for sched in [ix, parent] {
            let node = self.subs.node_mut(sched);
            node.bypass_dispatch = node.bypass_dispatch.saturating_sub(1);
        }
    }

    fn end_bypass_dispatch_of_gone(&mut self, ix: SchedIx) {
        self.subs.node_mut(ix).bypasses = 0;
        self.end_bypass_dispatch(ix);
    }

    /// A scheduler that has left its bypass is owed what was not told meanwhile (`unbypass_renotify_idle()`,
    /// `scx_unbypass_replay_ecaps()`).
    fn after_bypass(&mut self, ix: SchedIx, cpu: CpuId) {
        let entry = &mut self.subs.node_mut(ix).cpus[cpu.index()];
        entry.renotify = true;
        if entry.effective != entry.reported {
            self.queue_sync(ix, cpu);
        }
    }

    /// Whether the scheduler at hand may have a task on the local queue of a CPU (`scx_resolve_local_dsq()`). If not, the task
    /// is to go back to it, with flags that suit that.
    pub(crate) fn resolve_local(&mut self, cpu: CpuId, task: TaskId, insert: &mut Insert) -> bool {
        if insert.flags & SCX_ENQ_IGNORE_CAPS != 0 {
            return true;
        }
        let mut needed = if insert.flags & SCX_ENQ_IMMED != 0 { CAP_ENQ_IMMED } else { CAP_ENQ };
        if insert.flags & SCX_ENQ_PREEMPT != 0 {
            needed |= self.caps_to_preempt(cpu);
        }
        let missing = self.missing_caps(cpu, needed);
        if missing == 0 {
            return true;
        }
        let entry = self.task(task);
        if !self.is_online(cpu) || entry.migration_disabled > 0 {
            self.sched.events.sub_forced_admit += 1;
            insert.flags &= !SCX_ENQ_PREEMPT;
            return true;
        }
        if insert.flags & SCX_ENQ_RESCUE != 0 {
            let text = "a sub-scheduler inserts a task with SCX_ENQ_RESCUE on a CPU that it does not have; rescue is not simulated";
            self.refusal.get_or_insert_with(|| text.into());
        }
        insert.flags &= !(SCX_ENQ_IMMED | SCX_ENQ_PREEMPT | SCX_ENQ_HEAD | SCX_ENQ_APPLY_SLICE);
        self.task_mut(task).drop_scx_flags(SCX_TASK_IMMED);
        self.task_mut(task).scx.reenq_reason = (missing, cpu);
        false
    }

    /// The capability that the scheduler at hand needs to preempt what runs on a CPU (`scx_caps_for_preempt()`).
    pub(crate) fn caps_to_preempt(&self, cpu: CpuId) -> u8 {
        let Some(curr) = self.curr(cpu) else { return 0 };
        let entry = self.task(curr);
        let own = entry.class != SchedClass::Ext || self.subs.is_below(entry.sched, self.subs.at);
        if own { 0 } else { CAP_PREEMPT }
    }

    /// A task that was on its local queue may not stay there (`scx_task_reenq_on_cap_revoke()`).
    fn lost_its_place(&self, task: TaskId, cpu: CpuId) -> bool {
        let entry = self.task(task);
        let needed = if entry.scx.flags & SCX_TASK_IMMED != 0 { CAP_ENQ_IMMED } else { CAP_ENQ };
        entry.migration_disabled == 0 && self.missing_caps_of(entry.sched, cpu, needed) != 0
    }

    /// A task may go on on its CPU (`scx_task_can_stay_on_cpu()`).
    pub(crate) fn can_stay(&self, task: TaskId, cpu: CpuId) -> bool {
        let entry = self.task(task);
        !self.subs.many
            || entry.migration_disabled > 0
            || self.missing_caps_of(entry.sched, cpu, CAP_ENQ_IMMED) == 0
    }

    /// `scx_bpf_sub_dispatch()` for a child of the scheduler at hand, whose object is `ops`: true if it has found something to
    /// run.
    pub fn sub_dispatch<S: SchedExt>(&mut self, child: SchedIx, ops: &mut S) -> bool {
        let cpu = self.ctx.rq.unwrap_or(self.ctx.cpu);
        if self.missing_caps_of(child, cpu, CAP_ENQ_IMMED) != 0 {
            return false;
        }
        let (op, about, rq, site) = (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site);
        let deferred = std::mem::take(&mut self.deferred);
        self.switch_sched(child);
        let found = self.dispatch_nested(cpu, ops);
        let parent = self.sched_parent(child);
        self.switch_sched(parent);
        let later = std::mem::replace(&mut self.deferred, deferred);
        self.deferred.extend(later);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site) = (op, about, rq, site);
        found
    }

    /// `scx_dispatch_sched()` inside of the parent's `ops.dispatch()`.
    fn dispatch_nested<S: SchedExt>(&mut self, cpu: CpuId, ops: &mut S) -> bool {
        if self.consume(cpu, self.dsq_global(cpu), 0) {
            self.dequeues_nested(ops);
            return true;
        }
        if let Some(found) = self.bypass_share(cpu) {
            return found;
        }
        if !self.sched.present.has(OpKind::Dispatch) || !self.is_online(cpu) {
            return false;
        }
        let prev = self.subs.dispatch_prev;
        let own = prev.filter(|&task| {
            self.task(task).class == SchedClass::Ext && self.task(task).sched == self.subs.at
        });
        for _ in 0..SCX_DSP_MAX_LOOPS {
            self.sched.nr_dispatched = 0;
            self.call_nested(OpKind::Dispatch, own, cpu, |k| ops.dispatch(k, cpu, own));
            self.flush_dispatch_buffer(cpu);
            self.dequeues_nested(ops);
            let kept = prev.is_some_and(|task| {
                let scx = &self.task(task).scx;
                scx.flags & SCX_TASK_QUEUED != 0 && scx.slice != 0
            });
            if kept || self.dsq(self.dsq_local(cpu)).nr > 0 || self.consume(cpu, self.dsq_global(cpu), 0) {
                self.dequeues_nested(ops);
                return true;
            }
            if self.sched.nr_dispatched == 0 {
                return self.bypass_rest(cpu);
            }
        }
        self.kick_cpu(cpu.0 as i32, 0);
        self.bypass_rest(cpu)
    }

    /// Runs a callback of a scheduler below the one at hand from inside of that one's.
    pub fn call_below<R>(&mut self, ix: SchedIx, op: OpKind, body: impl FnOnce(&mut Kernel) -> R) -> R {
        let (was, about, rq, site) = (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site);
        self.charge(self.machine.costs.callback);
        (self.ctx.op, self.ctx.op_task) = (op, None);
        let result = self.as_sched(ix, body);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site) = (was, about, rq, site);
        result
    }

    /// Calls a child's callback from inside of its parent's.
    fn call_nested<R>(
        &mut self,
        op: OpKind,
        task: Option<TaskId>,
        rq: CpuId,
        body: impl FnOnce(&mut Kernel) -> R,
    ) -> R {
        self.charge(self.machine.costs.callback);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq) = (op, task, Some(rq));
        let result = body(self);
        (self.ctx.op, self.ctx.op_task, self.ctx.rq, self.ctx.site) = (OpKind::None, None, None, None);
        result
    }

    /// The `ops.dequeue()` calls that a nested pass has left behind; trace points wait for its end.
    fn dequeues_nested<S: SchedExt>(&mut self, ops: &mut S) {
        let mut later = std::collections::VecDeque::new();
        while let Some(call) = self.deferred.pop_front() {
            match call {
                Deferred::Dequeue(task, flags)
                    if self.get_task(task).is_some() && !self.is_elsewhere(task) =>
                {
                    let rq = self.task(task).cpu;
                    self.call_nested(OpKind::Dequeue, Some(task), rq, |k| ops.dequeue(k, task, flags));
                }
                other => later.push_back(other),
            }
        }
        self.deferred = later;
    }

    /// What a bypassing scheduler, or the host of one, takes from its bypass queues first. Nothing: on to its own dispatch.
    pub(crate) fn bypass_share(&mut self, cpu: CpuId) -> Option<bool> {
        let here = self.subs.at;
        if self.subs.node(here).bypass_dispatch == 0 {
            return None;
        }
        if self.sched.bypassing {
            return Some(self.consume_bypass(cpu));
        }
        let entry = &mut self.subs.node_mut(here).cpus[cpu.index()];
        entry.hosted = entry.hosted.wrapping_add(1);
        let due = (entry.hosted - 1).is_multiple_of(HOST_NTH);
        (due && self.consume_bypass(cpu)).then(|| self.count_hosted())
    }

    /// What a host takes from its bypass queues when it has found nothing else.
    pub(crate) fn bypass_rest(&mut self, cpu: CpuId) -> bool {
        let hosts = self.subs.node(self.subs.at).bypass_dispatch > 0;
        hosts && self.consume_bypass(cpu) && self.count_hosted()
    }

    fn count_hosted(&mut self) -> bool {
        self.sched.events.sub_bypass_dispatch += 1;
        true
    }

    /// The bypass queue of this CPU first, then those of others, as for the root.
    fn consume_bypass(&mut self, cpu: CpuId) -> bool {
        let count = self.cpus.len() as u32;
        (0..count).any(|step| {
            let ix = self.own_bypass_queue(CpuId((cpu.0 + step) % count));
            self.dsq(ix).nr > 0 && self.consume(cpu, ix, 0)
        })
    }
}

/// Capabilities where they come into effect.
impl<S: SchedExt> Sim<S> {
    /// `scx_process_sync_ecaps()`. Holds the rq lock of `cpu`.
    #[cold]
    pub(crate) fn sync_caps(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        let batch = std::mem::take(&mut self.k.subs.to_sync[cpu.index()]);
        if !self.k.is_online(cpu) {
            return;
        }
        let mut lost_any = 0;
        for ix in batch {
            let now = self.k.granted(ix, cpu);
            let entry = &mut self.k.subs.node_mut(ix).cpus[cpu.index()];
            let (was, before) = (std::mem::replace(&mut entry.effective, now), entry.reported);
            lost_any |= was & !now;
            let told = self.k.sched_of(ix).present.has(OpKind::SubEcapsUpdated);
            if now != before && told && !self.k.sched_of(ix).bypassing {
                self.with_sched(ix, |sim| {
                    sim.k.subs.dispatch_prev = prev;
                    let call = |ops: &mut S, k: &mut Kernel| ops.sub_ecaps_updated(k, cpu, before, now);
                    sim.call(OpKind::SubEcapsUpdated, None, Some(cpu), call);
                    sim.k.subs.dispatch_prev = None;
                    sim.k.flush_dispatch_buffer(cpu);
                    sim.run_deferred();
                });
                self.k.subs.node_mut(ix).cpus[cpu.index()].reported = now;
            }
            let gained = now & !was & CAP_ENQ_IMMED != 0;
            let lost = was & !now & CAP_ENQ_IMMED != 0;
            let entry = &mut self.k.subs.node_mut(ix).cpus[cpu.index()];
            entry.renotify = gained || entry.renotify && !lost;
        }
        if lost_any & (CAP_ENQ_IMMED | CAP_ENQ) != 0 {
            self.k.subs.reenqueue[cpu.index()].push((SchedIx::ROOT, true));
            self.k.cpu_mut(cpu).reenq_local = true;
        }
    }

    /// Tells schedulers what has been granted to them and taken from them, where that was not told yet.
    fn tell_caps(&mut self) {
        self.with_sched(SchedIx::ROOT, |sim| {
            while let Some((ix, cpus, caps)) = sim.k.next_caps_change() {
                let call = |ops: &mut S, k: &mut Kernel| ops.sub_caps_updated(k, &cpus, caps);
                sim.with_sched(ix, |sim| sim.call(OpKind::SubCapsUpdated, None, None, call));
            }
        });
    }

    /// The idle state of a CPU for those that may use it (`scx_idle_notify()`); a transition is told to all.
    #[cold]
    pub(crate) fn tell_subs_idle(&mut self, cpu: CpuId, idle: bool, transition: bool) {
        for ix in self.live_subs() {
            if self.k.missing_caps_of(ix, cpu, CAP_ENQ_IMMED) != 0 {
                continue;
            }
            let owed = std::mem::take(&mut self.k.subs.node_mut(ix).cpus[cpu.index()].renotify);
            let sched = self.k.sched_of(ix);
            if (transition || owed) && sched.present.has(OpKind::UpdateIdle) && !sched.bypassing {
                self.with_sched(ix, |sim| {
                    sim.call(OpKind::UpdateIdle, None, Some(cpu), |ops, k| ops.update_idle(k, cpu, idle));
                });
            }
        }
    }

    /// Tasks of a CPU that go back to their schedulers: rejected ones (`scx_reenq_reject()`), and those of the local queue that
    /// may not stay or that their scheduler wants back.
    #[cold]
    pub(crate) fn reenqueue_for_subs(&mut self, cpu: CpuId) {
        let mut tasks = self.k.queued_on(self.k.dsq_reject(cpu));
        tasks.iter().for_each(|&task| {
            self.k.dispatch_dequeue(task);
            self.k.task_mut(task).add_scx_flags(SCX_TASK_REENQ_CAP);
        });
        let wanted = std::mem::take(&mut self.k.subs.reenqueue[cpu.index()]);
        let revoked = wanted.iter().any(|&(_, revoked)| revoked);
        for task in self.k.queued_on(self.k.dsq_local(cpu)) {
            let sched = self.k.task(task).sched;
            let asked = wanted.iter().any(|&(by, revoked)| !revoked && self.k.subs.is_below(sched, by));
            let lost = revoked && self.k.lost_its_place(task, cpu);
            if lost || asked {
                self.k.dispatch_dequeue(task);
                let reason = if lost { SCX_TASK_REENQ_CAP } else { SCX_TASK_REENQ_KFUNC };
                self.k.task_mut(task).add_scx_flags(reason);
                tasks.push(task);
            }
        }
        for task in tasks {
            self.with_sched_of(task, |sim| sim.ext_do_enqueue(cpu, task, SCX_ENQ_REENQ));
            self.k.task_mut(task).drop_scx_flags(SCX_TASK_REENQ_REASON_MASK);
        }
        let curr = self.k.curr(cpu).filter(|&task| self.k.task(task).class == SchedClass::Ext);
        if let Some(curr) = curr.filter(|&task| revoked && self.k.lost_its_place(task, cpu)) {
            self.k.task_mut(curr).set_slice(0);
            self.k.resched_curr(cpu);
        }
    }

    /// A CPU comes or goes: what sub-schedulers may do there comes or goes with it (`scx_online_ecaps()`,
    /// `scx_offline_ecaps()`).
    pub(crate) fn subs_hotplug(&mut self, cpu: CpuId, online: bool) {
        for ix in self.live_subs() {
            if online {
                self.k.queue_sync(ix, cpu);
            } else {
                self.k.subs.node_mut(ix).cpus[cpu.index()].effective = 0;
            }
        }
    }

    /// The verdict of a host that has found nothing of its own.
    pub(super) fn hosted_verdict(&mut self, found: bool) -> Verdict {
        self.run_deferred();
        if found { Verdict::Local } else { Verdict::Nothing }
    }
}

impl Kernel {
    /// The tasks of a queue in order.
    fn queued_on(&self, ix: crate::state::dsq::DsqIx) -> Vec<TaskId> {
        let first = self.dsq(ix).head;
        std::iter::successors(first, |&task| self.task(task).scx.dsq_next).collect()
    }

    /// A task that may not be on a local queue waits for its way back to the scheduler.
    pub(crate) fn reject(&mut self, cpu: CpuId, task: TaskId, insert: Insert) {
        let ix = self.dsq_reject(cpu);
        self.insert_rejected(ix, task, insert);
        self.cpu_mut(cpu).reenq_local = true;
        if !self.cpus[cpu.index()].in_dispatch {
            self.resched_curr(cpu);
        }
    }
}
