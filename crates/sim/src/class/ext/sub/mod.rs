//! Sub-schedulers: how they are attached to a group and leave, nested dispatch, and capabilities where they come into effect
//! (`kernel/sched/ext/sub.c`).

mod caps;
mod leave;
mod nested;

use crate::flags::*;
use crate::state::group::GroupIx;
use crate::state::kernel::Kernel;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sched::Sched;
use crate::state::sim::{Sim, object_at_hand};
use crate::state::subs::{MAX_DEPTH, SchedIx, SubLife};
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::{ExitKind, ExitRecord};

/// How a sub-scheduler of the run fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubOutcome {
    /// The group, from below the root.
    pub group: String,
    /// Why it was not attached, if it was not: the errno of the attempt.
    pub refused: Option<i32>,
    /// How it left.
    pub exit: ExitRecord,
    /// Its `SCX_EV_*` counters.
    pub events: crate::state::sched::EventCounters,
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
        self.let_caps_settle();
        let told = self.take_over_groups(ix, parent) && self.take_over_tasks(ix, parent);
        if !told {
            self.sub_failed(ix);
            return Ok(());
        }
        self.bypass_sub(ix, false);
        self.tell_caps();
        Ok(())
    }

    /// What `ops.sub_attach()` has granted is in effect when the tasks come. On a kernel all of this takes milliseconds, in which
    /// the CPUs that were kicked pass through `schedule()`.
    fn let_caps_settle(&mut self) {
        let here = self.k.ctx.cpu;
        for cpu in self.k.online_cpus().iter().collect::<Vec<CpuId>>() {
            self.k.ctx.cpu = cpu;
            self.sync_caps(cpu, None);
        }
        self.k.ctx.cpu = here;
    }

    /// The new scheduler is known, and its object belongs to its parent's.
    fn admit_sub(&mut self, number: usize, parent: SchedIx, group: GroupIx) -> SchedIx {
        let root = self.ops.as_mut().expect("a scheduler has its sub-schedulers");
        let sub = root.take_sub(number);
        let info = sub.info();
        let sched = Sched::new(info.clone(), Self::callbacks_of(info.present, &self.k));
        self.k.scx.wants = self.k.scx.wants.with_all(sub.wants());
        let ix = self.k.add_sub(parent, group, number, sched);
        self.with_sched(parent, |sim| {
            let root = sim.ops.as_mut().expect("a scheduler has its sub-schedulers");
            object_at_hand(root, &sim.k).adopt(ix, sub);
        });
        ix
    }

    /// `ops.init()` of the child and `ops.sub_attach()` of its parent: false if one of them refuses.
    fn prepare_sub(&mut self, ix: SchedIx, parent: SchedIx) -> bool {
        let depth = self.k.subs.node(ix).path.len() as u16;
        let fine = self.with_sched(ix, |sim| {
            if !sim.validate_ops() {
                return false;
            }
            // `scx_link_sched()`.
            if sim.k.sched_of(parent).bypassing {
                sim.k.error(ExitKind::Error, format!("parent bypassing (-{})", errno::EBUSY));
                return false;
            }
            if sim.k.sched_of(parent).exit.is_some() {
                sim.k.error(ExitKind::Error, format!("parent disabled (-{})", errno::ENOENT));
                return false;
            }
            if depth >= MAX_DEPTH {
                sim.k.error(ExitKind::Error, format!("max nesting depth {MAX_DEPTH} violated"));
                return false;
            }
            sim.call_init();
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
                let message = Self::group_failure(errno);
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
                let message = format!("{} while disabling a sub-scheduler", Self::group_failure(errno));
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
        let running: Vec<TaskId> = self.k.online_cpus().iter().filter_map(|cpu| self.k.curr(cpu)).collect();
        for task in running {
            if on && below.contains(&self.k.task(task).sched) {
                self.k.slice_ended(task);
            }
        }
        for cpu in self.k.online_cpus().iter().collect::<Vec<CpuId>>() {
            if !on {
                below.iter().for_each(|&sched| self.k.after_bypass(sched, cpu));
            }
            self.k.resched_curr(cpu);
        }
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
