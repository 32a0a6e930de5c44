//! What is derived from the machine's topology and the CPUs that are online.

use schedlab_base::{CpuId, CpuMask, Machine};
use std::sync::Arc;

/// What is derived from the machine's topology.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) smt: bool,
    /// Work takes the same time whatever the other CPUs do.
    pub(crate) even_speed: bool,
    /// [`Machine::one_processor`].
    pub(crate) one_processor: bool,
    pub(crate) llcs: u32,
    /// All that are online.
    pub(crate) all: CpuMask,
    /// All of the machine, which tasks share.
    pub(crate) machine: Arc<CpuMask>,
    pub(crate) llc_masks: Vec<CpuMask>,
    pub(crate) node_masks: Vec<CpuMask>,
    /// [`Machine::base_slice`], by the number of CPUs.
    pub(crate) base_slice: u64,
}

impl Topology {
    /// Of the CPUs that are online.
    pub(crate) fn new(machine: &Machine, online: &CpuMask) -> Topology {
        let masks = |key: fn(&schedlab_base::Cpu) -> u32| {
            let count = machine.cpus.iter().map(|cpu| key(cpu) + 1).max().unwrap_or(1);
            let mut masks = vec![CpuMask::EMPTY; count as usize];
            for (number, cpu) in machine.cpus.iter().enumerate() {
                if online.contains(CpuId(number as u32)) {
                    masks[key(cpu) as usize].set(CpuId(number as u32));
                }
            }
            masks
        };
        let llc_masks = masks(|cpu| cpu.llc);
        let smt = masks(|cpu| cpu.core).iter().any(|core| core.count() > 1);
        Topology {
            smt,
            one_processor: machine.one_processor,
            even_speed: !smt
                && !machine.one_processor
                && machine.contention_permille.iter().all(|&permille| permille == 1000),
            llcs: llc_masks.len() as u32,
            all: *online,
            machine: Arc::new(machine.all_cpus()),
            llc_masks,
            node_masks: masks(|cpu| cpu.node),
            base_slice: machine.base_slice(),
        }
    }
}

impl crate::Kernel {
    /// The CPUs that are online (`cpu_active_mask`).
    pub fn online_cpus(&self) -> &CpuMask {
        &self.online
    }

    /// True if `cpu` runs tasks.
    #[inline]
    pub(crate) fn is_online(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].online
    }

    /// `cpu`, or the first CPU that is online where it is not: timers move there.
    #[inline]
    pub(crate) fn or_online(&self, cpu: CpuId) -> CpuId {
        if self.is_online(cpu) { cpu } else { self.online.lowest().expect("one CPU stays online") }
    }

    /// `sched_ext`'s sequence of CPUs that came and went, the boot included.
    pub(crate) fn hotplug_seq(&self) -> u64 {
        self.machine.hotplugs_of_boot() + self.hotplugs
    }
}
