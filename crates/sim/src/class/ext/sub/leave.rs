//! How sub-schedulers leave: by themselves, with their parent, with their group.

use crate::class::ext::life::DISABLE_DELAY;
use crate::class::ext::sub::SubOutcome;
use crate::event::Event;
use crate::flags::*;
use crate::state::group::GroupIx;
use crate::state::kernel::Kernel;
use crate::state::ops::{OpKind, SchedExt};
use crate::state::sched::PendingExit;
use crate::state::sim::Sim;
use crate::state::subs::{SchedIx, SubLife};
use schedlab_trace::ExitKind;

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
            self.k.queue.push(self.k.ctx.now + DISABLE_DELAY, Event::DisableSub { sub: ix.0.into() });
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

    /// It has no task any more: its parent learns of it, then `ops.exit()` runs, and it is gone.
    pub(super) fn forget_sub(&mut self, ix: SchedIx) {
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
    pub(crate) fn subs_bypass(&mut self) {
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
            SubOutcome { group: wished[number].group.clone(), refused, exit, events }
        };
        (0..wished.len()).map(|number| outcome(self, number)).collect()
    }
}
