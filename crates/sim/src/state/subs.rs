//! Sub-schedulers (`kernel/sched/ext/sub.c`): which schedulers there are, over which groups, and what each may do on which CPU.
//!
//! The scheduler at hand, whose callback runs or whose task is dealt with, is [`Kernel::sched`]. The others are kept here.
//! Programs name CPUs by cid; here they are CPUs.

use crate::state::cpu::Kick;
use crate::state::dsq::{Dsq, DsqIx};
use crate::state::group::GroupIx;
use crate::state::kernel::Kernel;
use crate::state::ops::OpKind;
use crate::state::rescue::{Rescue, RescueKnobs};
use crate::state::sched::Sched;
use crate::state::timer::TimerState;
use schedlab_base::{CpuId, CpuMask, TaskId};
use std::collections::BTreeMap;

/// A scheduler of the run; the root is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchedIx(pub u16);

impl SchedIx {
    /// The root scheduler.
    pub const ROOT: SchedIx = SchedIx(0);

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// Capabilities, by bit (`enum scx_cap_flags`).
pub(crate) const CAPS: usize = 4;
/// `SCX_CAP_ENQ_IMMED` and `SCX_CAP_BASE`: tasks that start at once, kicks.
pub const CAP_ENQ_IMMED: u8 = 1;
/// `SCX_CAP_ENQ`: any task on the local queue.
pub const CAP_ENQ: u8 = 1 << 1;
/// `SCX_CAP_PREEMPT`: preempting the tasks of others.
pub const CAP_PREEMPT: u8 = 1 << 2;
/// `SCX_CAP_PERF`: the CPU's speed.
pub const CAP_PERF: u8 = 1 << 3;
/// `__SCX_CAP_ALL`.
pub const CAP_ALL: u8 = (1 << CAPS) - 1;
/// `SCX_SUB_MAX_DEPTH`.
pub(crate) const MAX_DEPTH: u16 = 4;

/// What the holder of capabilities may do besides (`scx_caps_implied()`).
fn with_implied(caps: u8) -> u8 {
    let preempt = if caps & CAP_PREEMPT != 0 { CAP_ENQ | CAP_ENQ_IMMED } else { 0 };
    let enq = if caps & CAP_ENQ != 0 { CAP_ENQ_IMMED } else { 0 };
    caps | preempt | enq
}

/// Where a sub-scheduler is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubLife {
    /// Its callbacks other than `ops.init()` are not called yet.
    Attaching,
    Live,
    /// Its exit is claimed.
    Leaving,
    Gone,
}

/// What a sub-scheduler has on one CPU (`struct scx_sched_pcpu`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubCpu {
    /// Capabilities in effect.
    pub(crate) effective: u8,
    /// Those that `ops.sub_ecaps_updated()` has reported.
    pub(crate) reported: u8,
    /// It is owed an `ops.update_idle()`.
    pub(crate) renotify: bool,
    /// CPU time of rescues, which counts half after a time, as of this jiffy (`rescue_avg`, `rescue_avg_at`).
    pub(crate) rescued: u64,
    rescued_at: u64,
    /// Passes of `ops.dispatch()` as the host of tasks whose own scheduler is bypassed.
    pub(crate) hosted: u32,
}

impl SubCpu {
    /// `scx_rescue_decay_avg()`.
    pub(crate) fn decay_rescued(&mut self, jiffy: u64, halflife: u64) {
        let halves = jiffy.saturating_sub(self.rescued_at) / halflife.max(1);
        self.rescued = self.rescued.checked_shr(halves.min(64) as u32).unwrap_or(0);
        self.rescued_at += halves * halflife;
    }
}

/// A scheduler of the tree.
#[derive(Debug)]
pub(crate) struct SubNode {
    pub(crate) life: SubLife,
    /// Schedulers from below the root down to this one.
    pub(crate) path: Vec<SchedIx>,
    pub(crate) parent: SchedIx,
    pub(crate) children: Vec<SchedIx>,
    pub(crate) group: GroupIx,
    /// The number of its group when it was attached.
    pub(crate) group_id: u64,
    /// By capability, the CPUs on which its parent has granted it (`scx_pshard.caps`).
    pub(crate) caps: [CpuMask; CAPS],
    pub(crate) cpus: Vec<SubCpu>,
    /// Bypasses of its own and of its ancestors.
    pub(crate) bypasses: u32,
    /// It or a child of it bypasses (`bypass_dsp_enable_depth`).
    pub(crate) bypass_dispatch: u32,
    /// `ops.sub_attach()` has accepted it.
    pub(crate) accepted: bool,
    /// Its first global queue; there is one for each node.
    first_global: u32,
    /// Its first bypass queue; there is one for each CPU.
    pub(crate) first_bypass: u32,
    /// By cache domain, the capabilities that have changed, and where (`struct scx_caps_updated`).
    pub(crate) changed: BTreeMap<u32, (CpuMask, u8)>,
    /// Its timers, by number.
    pub(crate) timers: Vec<TimerState>,
    /// Its number among those that the run attaches.
    pub(crate) number: usize,
}

/// The tree of schedulers.
#[derive(Debug, Default)]
pub(crate) struct Subs {
    /// A sub-scheduler is, or was, attached (`scx_has_subs()`).
    pub(crate) many: bool,
    /// The scheduler at hand.
    pub(crate) at: SchedIx,
    /// By [`SchedIx`], the root first. Empty without sub-schedulers.
    pub(crate) nodes: Vec<SubNode>,
    /// By [`SchedIx`]: those that are not at hand.
    kept: Vec<Sched>,
    /// By CPU, the schedulers whose capabilities are to come into effect (`ecaps_to_sync`), the last one first.
    pub(crate) to_sync: Vec<Vec<SchedIx>>,
    /// By CPU, schedulers that want the tasks of its local queue back, and whether only those that may not stay.
    pub(crate) reenqueue: Vec<Vec<(SchedIx, bool)>>,
    /// The first queue of tasks that may not be on a local one; there is one for each CPU.
    first_reject: u32,
    /// By CPU.
    pub(crate) rescue: Vec<Rescue>,
    pub(crate) rescue_knobs: RescueKnobs,
    /// The task that ran before the pass through `ops.dispatch()` (`sub_dispatch_prev`).
    pub(crate) dispatch_prev: Option<TaskId>,
    /// A sub-scheduler's exit was claimed.
    pub(crate) exits: bool,
}

impl Subs {
    /// The scheduler of this number. The root has none before the first sub-scheduler.
    pub(crate) fn node(&self, ix: SchedIx) -> &SubNode {
        &self.nodes[ix.index()]
    }

    pub(crate) fn node_mut(&mut self, ix: SchedIx) -> &mut SubNode {
        &mut self.nodes[ix.index()]
    }

    /// A scheduler and all below it, parents first (`scx_for_each_descendant_pre()`).
    pub(crate) fn with_below(&self, top: SchedIx) -> Vec<SchedIx> {
        let mut all = vec![top];
        let mut next = 0;
        while let Some(&at) = all.get(next) {
            next += 1;
            let below = self.node(at).children.iter().copied();
            all.splice(next..next, below);
        }
        all
    }

    /// True if `sched` is `above` or below it.
    pub(crate) fn is_below(&self, sched: SchedIx, above: SchedIx) -> bool {
        above == SchedIx::ROOT || sched == above || self.node(sched).path.contains(&above)
    }
}

/// A tree's nodes and queues.
impl Kernel {
    /// The first sub-scheduler comes: the root has a node from now on.
    pub(crate) fn begin_subs(&mut self) {
        if !self.subs.nodes.is_empty() {
            return;
        }
        let cpus = self.cpus.len();
        let (first_global, first_bypass) = (cpus as u32, cpus as u32 + self.nr_nodes);
        let root =
            SubNode { first_global, first_bypass, life: SubLife::Live, ..self.new_node(SchedIx::ROOT) };
        self.subs.nodes.push(root);
        self.subs.kept.push(Sched::default());
        self.subs.to_sync = vec![Vec::new(); cpus];
        self.subs.reenqueue = vec![Vec::new(); cpus];
        self.subs.first_reject = self.dsqs.len() as u32;
        self.dsqs.extend((0..cpus).map(|_| Dsq::new(crate::flags::SCX_DSQ_REJECT, None)));
        self.dsqs.extend((0..cpus).map(|_| Dsq::new(crate::flags::SCX_DSQ_RESCUE, None)));
        self.subs.rescue = vec![Rescue::default(); cpus];
        let tick = self.machine.tick_period();
        let knobs = self.sched.info.as_ref().map(|info| RescueKnobs::new(info, tick));
        self.subs.rescue_knobs = knobs.unwrap_or_default();
        self.subs.many = true;
    }

    fn new_node(&self, parent: SchedIx) -> SubNode {
        SubNode {
            life: SubLife::Attaching,
            path: Vec::new(),
            parent,
            children: Vec::new(),
            group: GroupIx::ROOT,
            group_id: 1,
            caps: [CpuMask::EMPTY; CAPS],
            cpus: vec![SubCpu::default(); self.cpus.len()],
            bypasses: 0,
            bypass_dispatch: 0,
            accepted: false,
            first_global: 0,
            first_bypass: 0,
            changed: BTreeMap::new(),
            timers: Vec::new(),
            number: 0,
        }
    }

    /// A new sub-scheduler of `parent` for a group, with its built-in queues.
    pub(crate) fn add_sub(
        &mut self,
        parent: SchedIx,
        group: GroupIx,
        number: usize,
        sched: Sched,
    ) -> SchedIx {
        let ix = SchedIx(self.subs.nodes.len() as u16);
        let mut path = self.subs.node(parent).path.clone();
        path.push(ix);
        let first_global = self.dsqs.len() as u32;
        let first_bypass = first_global + self.nr_nodes;
        let global = (0..self.nr_nodes).map(|_| Dsq::new(crate::flags::SCX_DSQ_GLOBAL, None));
        self.dsqs.extend(global);
        self.dsqs.extend((0..self.cpus.len()).map(|_| Dsq::new(crate::flags::SCX_DSQ_BYPASS, None)));
        let group_id = self.groups.get(group).id;
        let bypasses = self.subs.node(parent).bypasses;
        let node = SubNode {
            path,
            group,
            group_id,
            first_global,
            first_bypass,
            bypasses,
            number,
            ..self.new_node(parent)
        };
        self.subs.nodes.push(node);
        self.subs.kept.push(sched);
        self.subs.node_mut(parent).children.push(ix);
        ix
    }

    /// The scheduler of this number is at hand.
    pub(crate) fn switch_sched(&mut self, to: SchedIx) {
        let from = std::mem::replace(&mut self.subs.at, to);
        debug_assert!(from != to, "another scheduler comes to hand");
        std::mem::swap(&mut self.sched, &mut self.subs.kept[from.index()]);
        std::mem::swap(&mut self.sched, &mut self.subs.kept[to.index()]);
    }

    /// A scheduler, at hand or not.
    pub(crate) fn sched_of(&self, ix: SchedIx) -> &Sched {
        if ix == self.subs.at { &self.sched } else { &self.subs.kept[ix.index()] }
    }

    pub(crate) fn sched_of_mut(&mut self, ix: SchedIx) -> &mut Sched {
        if ix == self.subs.at { &mut self.sched } else { &mut self.subs.kept[ix.index()] }
    }

    /// Runs with another scheduler at hand.
    pub fn as_sched<R>(&mut self, ix: SchedIx, body: impl FnOnce(&mut Kernel) -> R) -> R {
        let was = self.subs.at;
        if ix == was {
            return body(self);
        }
        self.switch_sched(ix);
        let result = body(self);
        self.switch_sched(was);
        result
    }

    /// The scheduler that a group's tasks have; the root's without sub-schedulers.
    pub(crate) fn sched_of_group(&self, group: GroupIx) -> SchedIx {
        self.groups.get(group).sched
    }

    /// The scheduler that learns of changes of a group's files: its parent's (`scx_tg_knob_sched()`).
    pub(crate) fn sched_told_of(&self, group: GroupIx) -> SchedIx {
        let entry = self.groups.get(group);
        entry.parent.map_or(entry.sched, |parent| self.groups.get(parent).sched)
    }

    /// The scheduler was one of the tree and is not any more.
    pub(crate) fn is_gone(&self, ix: SchedIx) -> bool {
        ix != SchedIx::ROOT && self.subs.node(ix).life == SubLife::Gone
    }

    /// The task is another scheduler's than the one at hand.
    #[inline(always)]
    pub(crate) fn is_elsewhere(&self, task: TaskId) -> bool {
        self.subs.many && self.task(task).sched != self.subs.at
    }

    /// A global or bypass queue of a scheduler that is not the root.
    #[cold]
    pub(crate) fn dsq_of_sub(&self, global: Option<u32>, bypass: Option<CpuId>) -> DsqIx {
        let node = self.subs.node(self.subs.at);
        match (global, bypass) {
            (Some(place), _) => DsqIx(node.first_global + place),
            (None, Some(cpu)) => DsqIx(self.subs.node(self.bypass_host()).first_bypass + cpu.0),
            (None, None) => unreachable!("one of the two is asked for"),
        }
    }

    /// Where the tasks of the scheduler at hand wait while it bypasses: its nearest ancestor that does not, or the root
    /// (`bypass_enq_target_dsq()`).
    fn bypass_host(&self) -> SchedIx {
        let mut at = self.subs.at;
        while at != SchedIx::ROOT && self.sched_of(at).bypassing {
            at = self.subs.node(at).parent;
        }
        at
    }

    /// The queue of the tasks that wait for a rescue on a CPU.
    pub(crate) fn dsq_rescue(&self, cpu: CpuId) -> DsqIx {
        DsqIx(self.subs.first_reject + self.cpus.len() as u32 + cpu.0)
    }

    /// The queue of the tasks that may not be on the local queue of a CPU.
    pub(crate) fn dsq_reject(&self, cpu: CpuId) -> DsqIx {
        DsqIx(self.subs.first_reject + cpu.0)
    }
}

/// Capabilities.
impl Kernel {
    /// Those among `needed` that the scheduler at hand lacks on a CPU (`scx_missing_caps()`).
    #[inline(always)]
    pub(crate) fn missing_caps(&self, cpu: CpuId, needed: u8) -> u8 {
        if self.subs.at == SchedIx::ROOT { 0 } else { self.missing_caps_of(self.subs.at, cpu, needed) }
    }

    pub(crate) fn missing_caps_of(&self, sched: SchedIx, cpu: CpuId, needed: u8) -> u8 {
        if sched == SchedIx::ROOT {
            return 0;
        }
        needed & !self.subs.node(sched).cpus[cpu.index()].effective
    }

    /// What a sub-scheduler has been granted on a CPU, with what that implies (`calc_effective_caps()`).
    pub(crate) fn granted(&self, sched: SchedIx, cpu: CpuId) -> u8 {
        let caps = &self.subs.node(sched).caps;
        let literal = (0..CAPS).filter(|&bit| caps[bit].contains(cpu)).fold(0, |caps, bit| caps | 1 << bit);
        with_implied(literal)
    }

    /// The attached sub-scheduler of the group of this number, if there is one.
    pub fn sub_of_group(&self, id: u64) -> Option<SchedIx> {
        let live = |node: &SubNode| node.life != SubLife::Gone && node.group_id == id;
        let at = self.subs.nodes.iter().skip(1).position(live)?;
        Some(SchedIx(at as u16 + 1))
    }

    /// The scheduler at hand.
    pub fn sched_here(&self) -> SchedIx {
        self.subs.at
    }

    /// The schedulers from the one at hand down to one below it; the last is that one.
    pub fn way_down(&self, to: SchedIx) -> &[SchedIx] {
        let path = &self.subs.node(to).path;
        let here = if self.subs.at == SchedIx::ROOT { 0 } else { self.subs.node(self.subs.at).path.len() };
        &path[here..]
    }

    /// The task is one of the scheduler at hand.
    pub fn is_own(&self, task: TaskId) -> bool {
        !self.subs.many || self.get_task(task).is_none_or(|task| task.sched == self.subs.at)
    }

    /// `ops.name` of a scheduler.
    pub fn sched_name(&self, ix: SchedIx) -> String {
        self.sched_of(ix).info.as_ref().map(|info| info.name.clone()).unwrap_or_default()
    }

    /// The parent of a sub-scheduler.
    pub fn sched_parent(&self, ix: SchedIx) -> SchedIx {
        self.subs.node(ix).parent
    }

    /// The path of the group of a scheduler, as the kernel writes it.
    pub fn sched_path(&self, ix: SchedIx) -> String {
        let group = if ix == SchedIx::ROOT { GroupIx::ROOT } else { self.subs.node(ix).group };
        format!("/{}", self.groups.get(group).path)
    }

    /// The number of the group of a sub-scheduler.
    pub fn sched_group_id(&self, ix: SchedIx) -> u64 {
        self.subs.node(ix).group_id
    }

    /// The CPUs on which a scheduler has been granted any of `caps`; the root has all.
    pub fn caps_of(&self, sched: SchedIx, caps: u8) -> CpuMask {
        if sched == SchedIx::ROOT {
            return if caps == 0 { CpuMask::EMPTY } else { self.machine.all_cpus() };
        }
        let node = self.subs.node(sched);
        let named = (0..CAPS).filter(|bit| caps & 1 << bit != 0);
        named.fold(CpuMask::EMPTY, |all, bit| all.or(&node.caps[bit]))
    }

    /// `scx_bpf_sub_grant()` to a child of the scheduler at hand: the CPUs on which that lacks a capability, which are not
    /// granted.
    pub fn sub_grant(&mut self, child: SchedIx, caps: u8, cpus: &CpuMask) -> CpuMask {
        let here = self.subs.at;
        let mut granted = *cpus;
        for bit in (0..CAPS).filter(|bit| caps & 1 << bit != 0) {
            granted = granted.and(&self.caps_of(here, 1 << bit));
        }
        let mut changed = [CpuMask::EMPTY; CAPS];
        for bit in (0..CAPS).filter(|bit| caps & 1 << bit != 0) {
            let held = &mut self.subs.node_mut(child).caps[bit];
            changed[bit] = granted.and_not(held);
            *held = held.or(&granted);
        }
        self.caps_changed(child, &changed);
        cpus.and_not(&granted)
    }

    /// `scx_bpf_sub_revoke()` from a child of the scheduler at hand, and from all below it.
    pub fn sub_revoke(&mut self, child: SchedIx, caps: u8, cpus: &CpuMask) {
        for sched in self.subs.with_below(child) {
            let mut changed = [CpuMask::EMPTY; CAPS];
            for bit in (0..CAPS).filter(|bit| caps & 1 << bit != 0) {
                let held = &mut self.subs.node_mut(sched).caps[bit];
                changed[bit] = held.and(cpus);
                *held = held.and_not(cpus);
            }
            self.caps_changed(sched, &changed);
        }
    }

    /// Writes down which capabilities of a scheduler have changed where, and has the CPUs take it over.
    fn caps_changed(&mut self, sched: SchedIx, changed: &[CpuMask; CAPS]) {
        let all = changed.iter().fold(CpuMask::EMPTY, |all, cpus| all.or(cpus));
        let mut by_cache: BTreeMap<u32, (CpuMask, u8)> = BTreeMap::new();
        for cpu in all.iter() {
            let entry = by_cache.entry(self.cpus[cpu.index()].llc).or_insert((CpuMask::EMPTY, 0));
            entry.0.set(cpu);
        }
        for (cache, (cpus, _)) in by_cache {
            let caps = (0..CAPS)
                .filter(|&bit| !changed[bit].and(&cpus).is_empty())
                .fold(0, |caps, bit| caps | 1 << bit);
            let entry = self.subs.node_mut(sched).changed.entry(cache).or_insert((CpuMask::EMPTY, 0));
            *entry = (entry.0.or(&cpus), entry.1 | caps);
        }
        all.iter().for_each(|cpu| self.queue_sync(sched, cpu));
    }

    /// `queue_sync_ecaps()`.
    pub(crate) fn queue_sync(&mut self, sched: SchedIx, cpu: CpuId) {
        let waiting = &mut self.subs.to_sync[cpu.index()];
        if waiting.contains(&sched) {
            return;
        }
        waiting.insert(0, sched);
        if waiting.len() == 1 {
            // scx_kick_cpu() of the root, which a bypass holds back.
            if !self.sched_of(SchedIx::ROOT).bypassing {
                let here = self.ctx.cpu;
                self.cpu_mut(here).kicks.add(Kick { cpu, flags: 0 });
                self.kicks_pending = true;
            }
        }
    }

    /// The next change of capabilities, in one cache domain, that a scheduler below the one at hand has to learn of.
    pub fn next_caps_change(&mut self) -> Option<(SchedIx, CpuMask, u8)> {
        let here = self.subs.at;
        for sched in self.subs.with_below(here) {
            let told = sched != SchedIx::ROOT && sched != here && self.subs.node(sched).life == SubLife::Live;
            if told
                && self.sched_of(sched).present.has(OpKind::SubCapsUpdated)
                && let Some((_, (cpus, caps))) = self.subs.node_mut(sched).changed.pop_first()
            {
                return Some((sched, cpus, caps));
            }
        }
        None
    }
}
