//! The built-in idle tracking and the default CPU selection
//! (`kernel/sched/ext/idle.c`).

use crate::Kernel;
use crate::flags::*;
use crate::state::ops::OpKind;
use schedlab_base::{CpuId, CpuMask, TaskId};
use schedlab_trace::ExitKind;

/// No node in particular.
const NUMA_NO_NODE: i32 = -1;

/// The kernel's words where a CPU is picked without a node though idle CPUs are tracked by node.
const PICK_BY_NODE: &str = "per-node idle tracking is enabled";

/// A CPU as programs get it: `-EBUSY` for none.
fn or_busy(found: Option<CpuId>) -> i32 {
    found.map_or(-errno::EBUSY, |cpu| cpu.0 as i32)
}

/// The lowest CPU of both sets that is `>= from`, among the first `words` words.
fn next_of(a: &CpuMask, b: &CpuMask, words: usize, from: usize) -> Option<CpuId> {
    debug_assert!(words <= a.words().len(), "a mask has the words");
    let (a, b) = (a.words(), b.words());
    let mut mask = !0u64 << (from % 64);
    for index in from / 64..words {
        let both = a[index] & b[index] & mask;
        if both != 0 {
            return Some(CpuId((index * 64) as u32 + both.trailing_zeros()));
        }
        mask = !0;
    }
    None
}

/// The picking kfuncs.
impl Kernel {
    /// `scx_bpf_test_and_clear_cpu_idle()`.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: i32) -> bool {
        if !self.builtin_idle_on() {
            return false;
        }
        self.valid_cpu(cpu, None).is_some_and(|cpu| self.idle_test_and_clear(cpu))
    }

    /// `scx_bpf_pick_idle_cpu()`: the CPU or `-EBUSY`.
    pub fn pick_idle_cpu(&mut self, allowed: &CpuMask, flags: u64) -> i32 {
        if !self.tracks_all(PICK_BY_NODE) {
            return -errno::EBUSY;
        }
        or_busy(self.pick_idle(allowed, 0, flags))
    }

    /// `scx_bpf_pick_idle_cpu_node()`: the CPU or a negative error, `-EBUSY` where none is idle.
    pub fn pick_idle_cpu_node(&mut self, allowed: &CpuMask, node: i32, flags: u64) -> i32 {
        match self.check_node(node) {
            Ok(node) => or_busy(self.pick_idle(allowed, node, flags)),
            Err(errno) => -errno,
        }
    }

    /// `scx_bpf_pick_any_cpu()`: an idle CPU if there is one, else the next of
    /// `allowed` in turn, or `-EBUSY` for an empty set.
    pub fn pick_any_cpu(&mut self, allowed: &CpuMask, flags: u64) -> i32 {
        if !self.tracks_without_nodes(PICK_BY_NODE) {
            return -errno::EBUSY;
        }
        let idle = if self.scx.builtin_idle { self.pick_idle(allowed, 0, flags) } else { None };
        self.any_of(idle, allowed)
    }

    /// `scx_bpf_pick_any_cpu_node()`: the same, of the node alone with `SCX_PICK_IDLE_IN_NODE`.
    pub fn pick_any_cpu_node(&mut self, allowed: &CpuMask, node: i32, flags: u64) -> i32 {
        let node = match self.check_node(node) {
            Ok(node) => node,
            Err(errno) => return -errno,
        };
        let idle = self.pick_idle(allowed, node, flags);
        let mut from = *allowed;
        if flags & SCX_PICK_IDLE_IN_NODE != 0 {
            let elsewhere = self.cpus.iter().filter(|cpu| cpu.node as usize != node);
            elsewhere.for_each(|cpu| from.clear(cpu.id));
        }
        self.any_of(idle, &from)
    }

    /// The idle CPU that was found, else the next of `from` in turn; `-EBUSY` for an empty set.
    fn any_of(&mut self, idle: Option<CpuId>, from: &CpuMask) -> i32 {
        or_busy(idle.or_else(|| self.any_distribute(from)))
    }

    /// `scx_bpf_get_idle_cpumask()`, or with `smt` `scx_bpf_get_idle_smtmask()`, of whole idle cores; of a node if one is asked
    /// for. Empty where idle CPUs are not tracked that way.
    pub fn idle_mask(&mut self, smt: bool, node: Option<i32>) -> CpuMask {
        let place = match node {
            Some(node) => self.check_node(node).ok(),
            None => self.tracks_all("SCX_OPS_BUILTIN_IDLE_PER_NODE enabled").then_some(0),
        };
        let masks = &self.scx.idle_cpus;
        let masks = if smt && self.topology.smt { &masks.smt } else { &masks.cpu };
        place.map_or(CpuMask::EMPTY, |node| masks[node])
    }

    /// `scx_bpf_select_cpu_dfl()`: the CPU, and whether it was idle (then its idle
    /// bit is taken).
    pub fn select_cpu_dfl(&mut self, task: TaskId, prev_cpu: i32, wake_flags: u64) -> (i32, bool) {
        let Some(prev) = self.valid_cpu(prev_cpu, None) else { return (prev_cpu, false) };
        if !self.builtin_idle_on() || !self.may_select(task) {
            return (prev_cpu, false);
        }
        match self.select_idle(task, prev, wake_flags, None, 0) {
            Some(cpu) => (cpu.0 as i32, true),
            None => (prev_cpu, false),
        }
    }

    /// `scx_bpf_select_cpu_and()`: an idle CPU of `allowed` (its idle bit is
    /// taken), or `-EBUSY`.
    pub fn select_cpu_and(
        &mut self,
        task: TaskId,
        prev_cpu: i32,
        wake_flags: u64,
        allowed: &CpuMask,
        flags: u64,
    ) -> i32 {
        let Some(prev) = self.valid_cpu(prev_cpu, None) else { return -errno::EINVAL };
        if !self.builtin_idle_on() {
            return -errno::EBUSY;
        }
        if !self.may_select(task) {
            return -errno::EINVAL;
        }
        or_busy(self.select_idle(task, prev, wake_flags, Some(allowed), flags))
    }

    /// A CPU may be selected for the task whose CPU is being selected, and for one of the run queue that is held. Where
    /// no queue is held it may be selected for any task; else false, with an error.
    #[inline(always)]
    fn may_select(&mut self, task: TaskId) -> bool {
        let operated_on = self.ctx.op != OpKind::SelectCpu || self.ctx.op_task == Some(task);
        if operated_on && self.ctx.rq.is_none() { true } else { self.may_select_here(task) }
    }

    #[inline(never)]
    fn may_select_here(&mut self, task: TaskId) -> bool {
        let entry = self.lasting(task).expect("a CPU is selected for a task that lives");
        let cpu = if self.is_flat() { self.lane_task_cpu(task) } else { entry.cpu };
        let problem = match (self.ctx.op, self.ctx.rq) {
            (OpKind::SelectCpu, _) if self.ctx.op_task != Some(task) => return self.operates_on(Some(task)),
            (_, Some(held)) if held != cpu => {
                format!("select_cpu kfunc called cross-task on {}[{}]", entry.name(), entry.pid)
            }
            _ => return true,
        };
        self.error(ExitKind::Error, problem);
        false
    }

    fn builtin_idle_on(&mut self) -> bool {
        if !self.scx.builtin_idle {
            self.error(ExitKind::Error, "built-in idle tracking is disabled".into());
        }
        self.scx.builtin_idle
    }

    /// False, with the error `message`, where idle CPUs are tracked by node.
    fn tracks_without_nodes(&mut self, message: &str) -> bool {
        if self.scx.idle_per_node {
            self.error(ExitKind::Error, message.into());
        }
        !self.scx.idle_per_node
    }

    /// True where one mask tracks the idle CPUs of all nodes; as above, and false with an error where none does.
    fn tracks_all(&mut self, message: &str) -> bool {
        self.tracks_without_nodes(message) && self.builtin_idle_on()
    }

    /// `validate_node()`: the node, or the error number for the program.
    fn check_node(&mut self, node: i32) -> Result<usize, i32> {
        if !self.scx.idle_per_node {
            self.error(ExitKind::Error, "per-node idle tracking is disabled".into());
            return Err(errno::EOPNOTSUPP);
        }
        if node == NUMA_NO_NODE {
            return Err(errno::ENOENT);
        }
        if !(0..self.nr_nodes as i32).contains(&node) {
            self.error(ExitKind::Error, format!("invalid node {node}"));
            return Err(errno::EINVAL);
        }
        Ok(node as usize)
    }
}

/// The core's part.
impl Kernel {
    fn idle_node_of(&self, cpu: CpuId) -> usize {
        if self.scx.idle_per_node { self.cpus[cpu.index()].node as usize } else { 0 }
    }

    fn mask_words(&self) -> usize {
        self.cpus.len().div_ceil(64)
    }

    /// On a busy machine there is no CPU to choose.
    #[inline]
    fn has_idle_cpu(&self) -> bool {
        let words = self.mask_words();
        self.scx.idle_cpus.cpu.iter().any(|mask| mask.words()[..words].iter().any(|&word| word != 0))
    }

    /// Makes the masks empty, for `ops.flags`.
    pub(crate) fn idle_reset(&mut self) {
        let nodes = if self.scx.idle_per_node { self.nr_nodes as usize } else { 1 };
        self.scx.idle_cpus.cpu = vec![CpuMask::EMPTY; nodes];
        self.scx.idle_cpus.smt = vec![CpuMask::EMPTY; nodes];
    }

    /// `update_builtin_idle()`.
    pub(crate) fn idle_update(&mut self, cpu: CpuId, idle: bool) {
        let node = self.idle_node_of(cpu);
        debug_assert!(node < self.scx.idle_cpus.cpu.len(), "the node has a mask");
        let idle = idle && self.is_online(cpu);
        let masks = &mut self.scx.idle_cpus;
        if idle {
            masks.cpu[node].set(cpu);
        } else {
            masks.cpu[node].clear(cpu);
        }
        if !self.topology.smt {
            return;
        }
        let whole =
            idle && self.cpus[cpu.index()].siblings.iter().all(|&other| masks.cpu[node].contains(other));
        for other in std::iter::once(cpu).chain(self.cpus[cpu.index()].siblings.iter().copied()) {
            if whole {
                masks.smt[node].set(other);
            } else {
                masks.smt[node].clear(other);
            }
        }
    }

    /// `scx_idle_test_and_clear_cpu()`.
    pub(crate) fn idle_test_and_clear(&mut self, cpu: CpuId) -> bool {
        let node = self.idle_node_of(cpu);
        let masks = &mut self.scx.idle_cpus;
        if self.topology.smt {
            masks.smt[node].clear(cpu);
            for &other in &self.cpus[cpu.index()].siblings {
                masks.smt[node].clear(other);
            }
        }
        let was = masks.cpu[node].contains(cpu);
        masks.cpu[node].clear(cpu);
        was
    }

    /// `cpumask_any_distribute()`, which continues where the last pick on this CPU ended.
    pub fn any_distribute(&mut self, mask: &CpuMask) -> Option<CpuId> {
        let online = self.online;
        self.distribute(mask, &online)
    }

    /// `cpumask_any_and_distribute()`: the next of both sets after the last pick on
    /// this CPU, wrapping round.
    fn distribute(&mut self, a: &CpuMask, b: &CpuMask) -> Option<CpuId> {
        let words = self.mask_words();
        let entry = &mut self.cpus[self.ctx.cpu.index()];
        let from = entry.distribute_prev as usize + 1;
        let found = next_of(a, b, words, from).or_else(|| next_of(a, b, words, 0))?;
        entry.distribute_prev = found.0;
        debug_assert!(found.index() < self.cpus.len(), "the CPU is one of the machine");
        Some(found)
    }

    fn pick_idle_in_node(&mut self, allowed: &CpuMask, node: usize, flags: u64) -> Option<CpuId> {
        if self.topology.smt {
            let whole = self.scx.idle_cpus.smt[node];
            if let Some(cpu) = self.distribute(&whole, allowed) {
                self.idle_test_and_clear(cpu);
                return Some(cpu);
            }
            if flags & SCX_PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        let idle = self.scx.idle_cpus.cpu[node];
        let cpu = self.distribute(&idle, allowed)?;
        let was = self.idle_test_and_clear(cpu);
        assert!(was, "a CPU of the idle mask is idle");
        Some(cpu)
    }

    /// `scx_pick_idle_cpu()`: `node` first, then the others by number, since all are equally far.
    fn pick_idle(&mut self, allowed: &CpuMask, node: usize, flags: u64) -> Option<CpuId> {
        let found = self.pick_idle_in_node(allowed, node, flags);
        if found.is_some() || flags & SCX_PICK_IDLE_IN_NODE != 0 {
            return found;
        }
        let mut others = (0..self.scx.idle_cpus.cpu.len()).filter(|&other| other != node);
        others.find_map(|other| self.pick_idle_in_node(allowed, other, flags))
    }

    /// `scx_select_cpu_dfl()`: an idle CPU near `prev`, or none. Takes its idle bit.
    #[inline(always)]
    pub(crate) fn select_idle(
        &mut self,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
        limit: Option<&CpuMask>,
        flags: u64,
    ) -> Option<CpuId> {
        if self.has_idle_cpu() { self.select_among(task, prev, wake_flags, limit, flags) } else { None }
    }

    #[inline(never)]
    fn select_among(
        &mut self,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
        limit: Option<&CpuMask>,
        flags: u64,
    ) -> Option<CpuId> {
        let entry = self.lasting(task).expect("a CPU is selected for a task that lives");
        // Most tasks may use every CPU; their masks need not be looked at.
        let everywhere = entry.nr_cpus_allowed as usize == self.cpus.len();
        let allowed = match limit {
            Some(limit) if everywhere => *limit,
            Some(limit) => limit.and(&entry.cpus_allowed),
            None if everywhere => self.topology.all,
            None => *entry.cpus_allowed,
        };
        if entry.nr_cpus_allowed == 1 || entry.migration_disabled > 0 {
            let first = entry.cpus_allowed.lowest().unwrap_or(entry.cpu);
            let only = if entry.migration_disabled > 0 { entry.cpu } else { first };
            let elsewhere = self.idle_node_of(only) != self.idle_node_of(prev);
            if !allowed.contains(only) || flags & SCX_PICK_IDLE_IN_NODE != 0 && elsewhere {
                return None;
            }
            return self.idle_test_and_clear(only).then_some(only);
        }
        if self.topology.llcs == 1
            && self.nr_nodes == 1
            && !self.topology.smt
            && wake_flags & SCX_WAKE_SYNC == 0
        {
            if allowed.contains(prev) && self.idle_test_and_clear(prev) {
                return Some(prev);
            }
            return self.pick_idle(&allowed, self.idle_node_of(prev), flags);
        }
        self.select_idle_topology(&allowed, prev, wake_flags, flags)
    }

    fn select_idle_topology(
        &mut self,
        allowed: &CpuMask,
        prev: CpuId,
        wake_flags: u64,
        flags: u64,
    ) -> Option<CpuId> {
        let node = self.idle_node_of(prev);
        let prev_allowed = allowed.contains(prev);
        let (llc, numa) = (self.cpus[prev.index()].llc as usize, self.cpus[prev.index()].node as usize);
        let near: [Option<CpuMask>; 2] = [
            (self.topology.llcs > 1).then(|| self.topology.llc_masks[llc].and(allowed)),
            (self.nr_nodes > 1).then(|| self.topology.node_masks[numa].and(allowed)),
        ];
        if wake_flags & SCX_WAKE_SYNC != 0
            && let Some(cpu) = self.select_sync(allowed, prev, flags)
        {
            return Some(cpu);
        }
        if self.topology.smt {
            if prev_allowed && self.scx.idle_cpus.smt[node].contains(prev) && self.idle_test_and_clear(prev) {
                return Some(prev);
            }
            for mask in near.iter().flatten() {
                if let Some(cpu) = self.pick_idle_in_node(mask, node, SCX_PICK_IDLE_CORE) {
                    return Some(cpu);
                }
            }
            let whole = self.pick_idle(allowed, node, flags | SCX_PICK_IDLE_CORE);
            if whole.is_some() || flags & SCX_PICK_IDLE_CORE != 0 {
                return whole;
            }
        }
        if prev_allowed && self.idle_test_and_clear(prev) {
            return Some(prev);
        }
        if self.topology.smt {
            let siblings = self.cpus[prev.index()].siblings.clone();
            let idle = |&cpu: &CpuId| allowed.contains(cpu) && self.idle_test_and_clear(cpu);
            if let Some(cpu) = siblings.into_iter().find(idle) {
                return Some(cpu);
            }
        }
        for mask in near.iter().flatten() {
            if let Some(cpu) = self.pick_idle_in_node(mask, node, 0) {
                return Some(cpu);
            }
        }
        self.pick_idle(allowed, node, flags)
    }

    /// The waker will sleep: its CPU is a good place when others are idle.
    fn select_sync(&mut self, allowed: &CpuMask, prev: CpuId, flags: u64) -> Option<CpuId> {
        let here = self.ctx.cpu;
        let shares = self.cpus[here.index()].llc == self.cpus[prev.index()].llc;
        if allowed.contains(prev) && shares && self.idle_test_and_clear(prev) {
            return Some(prev);
        }
        let exiting =
            self.ctx.current.and_then(|task| self.lasting(task)).is_some_and(|task| task.is_exiting());
        let node = self.idle_node_of(here);
        let near = flags & SCX_PICK_IDLE_IN_NODE == 0 || node == self.idle_node_of(prev);
        let alone = self.dsq(self.dsq_local(here)).nr == 0;
        if !exiting && alone && near && !self.scx.idle_cpus.cpu[node].is_empty() && allowed.contains(here) {
            self.idle_test_and_clear(here);
            return Some(here);
        }
        None
    }
}
