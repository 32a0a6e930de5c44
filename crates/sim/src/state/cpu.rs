//! CPUs: run queue, local clock and what runs.

use crate::class::fair::hrtick::HrTick;
use crate::class::fair::queue::FairRq;
use crate::class::server::Servers;
use crate::core::wake_list::QueuedWakeup;
use crate::event::Event;
use crate::event::lock::Timeline;
use crate::exec::sleepers::Sleepers;
use crate::flags::{SCX_CPUPERF_ONE, SCX_KICK_IDLE, SCX_KICK_PREEMPT, SCX_KICK_WAIT};
use crate::state::rq::RtBudget;
use crate::state::task::TASK_BYTES;
use schedlab_base::{CpuId, CpuMask, KernelVersion, Machine, Shared, TaskId, TimeNs};
use std::collections::{BTreeMap, VecDeque};

/// One logical CPU. The run queue's fields are guarded by its lock's timeline.
///
/// In memory the members lie as they are declared: those that every switch touches share three cache lines of the host.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The task that runs; nothing is the idle task.
    pub curr: Option<TaskId>,
    /// Local time up to which the CPU's kernel paths have run.
    pub(crate) clock: TimeNs,
    /// When the running task's burst ends if nothing disturbs it.
    pub(crate) burst_end: TimeNs,
    /// How long the running burst takes per work, in permille.
    pub(crate) burst_factor: u32,
    pub(crate) burst_active: bool,
    /// The CPU runs tasks.
    pub online: bool,
    /// Reschedule at the next return to user mode.
    pub need_resched: bool,
    pub(crate) lazy_resched: bool,
    /// A reschedule interrupt is on its way.
    pub(crate) ipi_pending: bool,
    pub(crate) tick_armed: bool,
    pub(crate) in_dispatch: bool,
    /// `rq->scx.cpu_released`.
    pub cpu_released: bool,
    /// Look for tasks of the local queue that must be re-enqueued.
    pub(crate) reenq_local: bool,
    /// Re-enqueue all of them.
    pub(crate) reenq_any: bool,
    /// The running task may not use this CPU any more.
    pub(crate) push_off: bool,
    /// Where the running task is to continue, for balance.
    pub(crate) push_to: Option<CpuId>,
    pub(crate) nr_immed: u32,
    /// Tasks on the run queue, running included, of all classes.
    pub nr_running: u32,
    /// Tasks of sched_ext among them.
    pub scx_nr_running: u32,
    /// `rq->scx.cpuperf_target`.
    pub cpuperf_target: u32,
    pub(crate) lock: Timeline,
    /// `rq->scx.kick_sync`.
    pub kick_sync: u64,
    /// Switches so far.
    pub nr_switches: u64,
    pub(crate) last_switch: TimeNs,
    /// Address space that ran last.
    pub(crate) last_mm: Option<u32>,
    /// The CPU's number.
    pub id: CpuId,
    /// Physical core.
    pub core: u32,
    /// Last-level cache domain.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Deadline tasks by deadline, earliest first.
    pub(crate) dl: Vec<(TimeNs, TaskId)>,
    pub(crate) rt: Vec<TaskId>,
    pub(crate) rt_budget: RtBudget,
    /// For the normal tasks, where real-time ones leave them nothing.
    pub(crate) servers: Servers,
    pub(crate) fair: FairRq,
    pub(crate) hrtick: HrTick,
    /// Other CPUs of the same core.
    pub(crate) siblings: Vec<CpuId>,
    /// Where the last pick of any CPU ended (`distribute_cpu_mask_prev`).
    pub(crate) distribute_prev: u32,
    /// Where programs see its idle task.
    pub(crate) idle_task: Shared<TASK_BYTES>,
    /// Kicks of the running kernel path, one for each target and kind.
    pub(crate) kicks: Kicks,
    /// The pass through `schedule()` that it has laid down. While there is one, [`Event::Pass`] is pending.
    pub(crate) pass: Option<Pass>,
    /// Interrupts that came while the CPU was in a kernel path, in order. While there are some, [`Event::Late`] is pending.
    pub(crate) late: VecDeque<Event>,
    /// Tasks that sleep here until a timer.
    pub(crate) sleepers: Sleepers,
    /// Tasks that others have woken and this CPU is to activate.
    pub(crate) wake_list: VecDeque<QueuedWakeup>,
}

/// What sinks get of a pass through `schedule()`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    /// When it began.
    pub(crate) begin: TimeNs,
    /// The scheduler's mark changed in it.
    pub(crate) mark: bool,
}

/// Kicks that wait for the end of the running kernel path, by the kernel's masks: adding one is O(1).
#[derive(Clone, Debug)]
pub(crate) struct Kicks {
    /// In the order in which they were added; the flags are in the masks.
    list: Vec<Kick>,
    /// `cpus_to_kick`, `cpus_to_kick_if_idle`, `cpus_to_preempt`, `cpus_to_wait`.
    masks: Box<[CpuMask; 4]>,
}

impl Kicks {
    /// None.
    fn new() -> Kicks {
        Kicks { list: Vec::new(), masks: Box::new([CpuMask::EMPTY; 4]) }
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a kick; one of the same kind for the same CPU takes its flags over.
    pub(crate) fn add(&mut self, kick: Kick) {
        let [to_kick, if_idle, to_preempt, to_wait] = &mut *self.masks;
        let kind = if kick.flags & SCX_KICK_IDLE != 0 {
            if_idle
        } else {
            if kick.flags & SCX_KICK_PREEMPT != 0 {
                to_preempt.set(kick.cpu);
            }
            if kick.flags & SCX_KICK_WAIT != 0 {
                to_wait.set(kick.cpu);
            }
            to_kick
        };
        if !kind.contains(kick.cpu) {
            kind.set(kick.cpu);
            self.list.push(kick);
        }
    }

    /// Takes all of them out, in the order in which they were added.
    pub(crate) fn take(&mut self) -> Vec<Kick> {
        debug_assert!(
            self.list.iter().all(|kick| self.masks.iter().any(|mask| mask.contains(kick.cpu))),
            "a kick of the list is in a mask"
        );
        let mut list = std::mem::take(&mut self.list);
        let [_, _, to_preempt, to_wait] = &*self.masks;
        for kick in &mut list {
            if kick.flags & SCX_KICK_IDLE == 0 {
                let flag = |mask: &CpuMask, flag| if mask.contains(kick.cpu) { flag } else { 0 };
                kick.flags |= flag(to_preempt, SCX_KICK_PREEMPT) | flag(to_wait, SCX_KICK_WAIT);
            }
        }
        for kick in &list {
            self.masks.iter_mut().for_each(|mask| mask.clear(kick.cpu));
        }
        list
    }

    /// Gives an empty list back, so that its room is used again.
    pub(crate) fn reuse(&mut self, mut list: Vec<Kick>) {
        list.clear();
        if self.list.is_empty() {
            self.list = list;
        }
    }
}

/// A kick that waits for the end of the running kernel path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kick {
    pub(crate) cpu: CpuId,
    pub(crate) flags: u64,
}

impl Cpu {
    /// The idle CPUs of `machine`.
    pub(crate) fn all(machine: &Machine) -> Vec<Cpu> {
        let ids = || (0..machine.cpu_count() as u32).map(CpuId).zip(&machine.cpus);
        let mut cores: BTreeMap<u32, Vec<CpuId>> = BTreeMap::new();
        for (id, place) in ids() {
            cores.entry(place.core).or_default().push(id);
        }
        let siblings =
            |id: CpuId, core: u32| cores[&core].iter().copied().filter(|&other| other != id).collect();
        let version = machine.kernel.version;
        ids().map(|(id, place)| Cpu::new(id, place, siblings(id, place.core), version)).collect()
    }

    /// It switches to another task, or from one, now.
    #[inline]
    pub(crate) fn count_switch(&mut self, now: TimeNs) {
        self.nr_switches += 1;
        self.last_switch = now;
    }

    fn new(id: CpuId, place: &schedlab_base::Cpu, siblings: Vec<CpuId>, version: KernelVersion) -> Cpu {
        Cpu {
            id,
            core: place.core,
            llc: place.llc,
            node: place.node,
            curr: None,
            need_resched: false,
            nr_running: 0,
            scx_nr_running: 0,
            cpuperf_target: SCX_CPUPERF_ONE,
            nr_switches: 0,
            cpu_released: false,
            kick_sync: 0,
            clock: TimeNs::ZERO,
            siblings,
            lock: Timeline::default(),
            dl: Vec::new(),
            rt: Vec::new(),
            rt_budget: RtBudget::default(),
            servers: Servers::new(version),
            fair: FairRq::default(),
            hrtick: HrTick::default(),
            lazy_resched: false,
            pass: None,
            ipi_pending: false,
            tick_armed: false,
            burst_end: TimeNs::ZERO,
            burst_factor: 1000,
            burst_active: false,
            online: true,
            in_dispatch: false,
            nr_immed: 0,
            reenq_local: false,
            reenq_any: false,
            push_off: false,
            push_to: None,
            distribute_prev: 0,
            last_mm: None,
            last_switch: TimeNs::ZERO,
            idle_task: Shared::unseen(),
            kicks: Kicks::new(),
            late: VecDeque::new(),
            sleepers: Sleepers::default(),
            wake_list: VecDeque::new(),
        }
    }

    /// True when the idle task runs.
    pub fn is_idle(&self) -> bool {
        self.curr.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_kicked_once_of_each_kind_with_all_flags() {
        let (mut kicks, a, b) = (Kicks::new(), CpuId(0), CpuId(900));
        let kick = |cpu, flags| Kick { cpu, flags };
        for kick in [kick(b, 0), kick(a, SCX_KICK_IDLE), kick(b, SCX_KICK_PREEMPT), kick(a, SCX_KICK_WAIT)] {
            kicks.add(kick);
        }
        kicks.add(kick(a, SCX_KICK_IDLE));
        let taken: Vec<(CpuId, u64)> = kicks.take().iter().map(|kick| (kick.cpu, kick.flags)).collect();
        assert_eq!(taken, [(b, SCX_KICK_PREEMPT), (a, SCX_KICK_IDLE), (a, SCX_KICK_WAIT)]);
        kicks.add(kick(b, 0));
        assert_eq!(kicks.take().iter().map(|kick| kick.flags).collect::<Vec<_>>(), [0]);
    }
}
