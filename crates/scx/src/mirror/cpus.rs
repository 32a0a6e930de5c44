//! Run queues, and the masks and per-CPU variables that programs can point at.

use super::tasks::Tasks;
use super::variables::Variables;
use super::{MASK_BYTES, Members, kernel_perm, lazy_perm};
use crate::kernel_model::{Offsets, RqAt};
use crate::masks::write_mask;
use schedlab_base::{CpuId, CpuMask, Machine};
use schedlab_bpf::{Fault, GuestAddr, Memory, MemoryError};
use schedlab_sim::Kernel;
use schedlab_sim::flags::SCX_DSQ_LOCAL;

/// Run queues, and the masks that programs can point at.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    at: RqAt,
    rqs: GuestAddr,
    stride: u64,
    nr_cpus: u64,
    all: GuestAddr,
    /// A copy of the mask of those that are online.
    online: GuestAddr,
    /// Copies of the idle masks: for each node two, of CPUs and of whole cores.
    idle: GuestAddr,
    /// What programs hold as the addresses of per-CPU variables.
    runqueues: GuestAddr,
    preempt_count: GuestAddr,
    /// One word for each CPU.
    preempt_counts: GuestAddr,
    variables: Variables,
}

impl Cpus {
    /// Maps and fills them.
    pub(crate) fn new(
        mem: &mut Memory,
        offsets: &Offsets,
        machine: &Machine,
        tasks: &Tasks,
    ) -> Result<Cpus, MemoryError> {
        let at = offsets.rq;
        let nr_cpus = machine.cpu_count();
        let nr_nodes = machine.cpus.iter().map(|cpu| cpu.node + 1).max().unwrap_or(1);
        let stride = at.size.next_multiple_of(64);
        let rqs = mem.map(stride * nr_cpus as u64, lazy_perm())?;
        let masks = mem.map(MASK_BYTES * (2 + 2 * u64::from(nr_nodes)), kernel_perm())?;
        // Templates of per-CPU variables are only ever compared; a page each keeps them apart from everything.
        let templates = mem.map(128, kernel_perm())?;
        let cpus = Cpus {
            at,
            rqs,
            stride,
            nr_cpus: nr_cpus as u64,
            all: masks,
            online: masks.offset(MASK_BYTES),
            idle: masks.offset(2 * MASK_BYTES),
            runqueues: templates,
            preempt_count: templates.offset(64),
            preempt_counts: mem.map(4 * nr_cpus as u64, kernel_perm())?,
            variables: Variables::new(mem, machine)?,
        };
        write_mask(mem, cpus.all, &CpuMask::first(nr_cpus)).expect("just mapped");
        for cpu in 0..nr_cpus as u32 {
            let mut object = Members(mem.slice_mut(cpus.rq(CpuId(cpu)), at.size).expect("just mapped"));
            object.u32(at.cpu, cpu);
            object.u32(at.online, 1);
            object.u64(at.cpu_capacity, 1024);
            object.u64(at.curr, tasks.idle(CpuId(cpu)).0);
            object.u64(at.idle, tasks.idle(CpuId(cpu)).0);
            object.u64(at.local_id, SCX_DSQ_LOCAL.0);
            object.u32(at.scx_flags, 1);
        }
        Ok(cpus)
    }

    /// The kernel variables that programs can refer to: names and declarations in C.
    pub(crate) fn declared() -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = [("runqueues", "struct rq runqueues"), ("__preempt_count", "int __preempt_count")];
        own.into_iter().chain(Variables::declared())
    }

    /// The variables' names with what programs hold as their addresses.
    pub(crate) fn ksyms(&self) -> impl Iterator<Item = (&'static str, GuestAddr)> {
        let own = [("runqueues", self.runqueues), ("__preempt_count", self.preempt_count)];
        own.into_iter().chain(self.variables.ksyms())
    }

    /// Where a per-CPU variable is for a CPU.
    pub(crate) fn per_cpu(&self, variable: GuestAddr, cpu: CpuId) -> Option<GuestAddr> {
        if variable == self.runqueues {
            return Some(self.rq(cpu));
        }
        if variable == self.preempt_count {
            return Some(self.preempt_counts.offset(u64::from(cpu.0) * 4));
        }
        self.variables.per_cpu(variable, cpu)
    }

    /// Sets a CPU's `__preempt_count`.
    pub(crate) fn set_preempt_count(&self, cpu: CpuId, count: u32, mem: &mut Memory) -> Result<(), Fault> {
        debug_assert!(u64::from(cpu.0) < self.nr_cpus, "the CPU is one of the machine");
        mem.write_u32(self.preempt_counts.offset(u64::from(cpu.0) * 4), count)
    }

    /// The CPU whose run queue an address lies in.
    pub(crate) fn around(&self, addr: GuestAddr) -> Option<CpuId> {
        let distance = addr.0.wrapping_sub(self.rqs.0);
        (distance < self.nr_cpus * self.stride).then(|| CpuId((distance / self.stride) as u32))
    }

    /// The run queue of a CPU.
    pub(crate) fn rq(&self, cpu: CpuId) -> GuestAddr {
        self.rqs.offset(u64::from(cpu.0) * self.stride)
    }

    /// The mask of all CPUs.
    pub(crate) fn all_mask(&self) -> GuestAddr {
        self.all
    }

    /// Where the copy of the mask of CPUs that are online goes.
    pub(crate) fn online_mask(&self) -> GuestAddr {
        self.online
    }

    /// Where the copy of a node's idle mask goes; that of all nodes goes where the first one's does.
    pub(crate) fn idle_mask(&self, smt: bool, node: usize) -> GuestAddr {
        self.idle.offset((2 * node as u64 + u64::from(smt)) * MASK_BYTES)
    }

    /// Writes what can change of a run queue.
    pub(crate) fn refresh(
        &self,
        k: &mut Kernel,
        cpu: CpuId,
        tasks: &mut Tasks,
        mem: &mut Memory,
    ) -> Result<(), Fault> {
        let curr = match k.curr(cpu) {
            Some(task) if k.lasting(task).is_some() => tasks.pointer(task, k, mem)?,
            _ => tasks.idle(cpu),
        };
        let (from, now) = (k.cpu(cpu), k.now().0);
        let at = self.at;
        let mut object = Members(mem.slice_mut(self.rq(cpu), at.size)?);
        object.u64(at.curr, curr.0);
        object.u32(at.online, u32::from(from.online));
        object.u32(at.scx_flags, u32::from(from.online));
        object.u32(at.nr_running, from.nr_running);
        object.u32(at.scx_nr_running, from.scx_nr_running);
        object.u32(at.cpuperf_target, from.cpuperf_target);
        object.u32(at.local_nr, k.local_dsq_len(cpu));
        object.bytes(at.cpu_released, &[u8::from(from.cpu_released)]);
        object.u64(at.nr_switches, from.nr_switches);
        object.u64(at.clock, now);
        object.u64(at.clock_task, now);
        // Without frequencies and unequal capacities it does not fall behind, and no idle time is lost.
        object.u64(at.clock_pelt, now);
        object.u64(at.scx_clock, now);
        Ok(())
    }
}
