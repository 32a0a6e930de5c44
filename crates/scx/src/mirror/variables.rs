//! Per-CPU variables of the kernel that keep their values during a run.
//!
//! A kernel without frequency scaling has no policies: each CPU's pointer is null, as in a virtual machine.

use super::kernel_perm;
use schedlab_base::{CpuId, Machine};
use schedlab_bpf::{GuestAddr, Memory, MemoryError};

/// Declaration in C, and what a CPU's is.
type Variable = (&'static str, &'static str, fn(&Machine, CpuId) -> u64);

/// Linux 7.3's (`kernel/sched/topology.c`, `drivers/cpufreq/cpufreq.c`).
const VARIABLES: [Variable; 3] = [
    ("cpufreq_cpu_data", "struct cpufreq_policy *cpufreq_cpu_data", |_, _| 0),
    ("sd_llc_id", "int sd_llc_id", |machine, cpu| u64::from(machine.cpus[cpu.index()].llc)),
    ("sd_llc_size", "int sd_llc_size", llc_size),
];

fn llc_size(machine: &Machine, cpu: CpuId) -> u64 {
    let own = machine.cpus[cpu.index()].llc;
    machine.cpus.iter().filter(|other| other.llc == own).count() as u64
}

/// Bytes of a CPU's value, the next one's place behind it.
const VALUE: u64 = 8;

/// Where they lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables {
    /// What programs hold as their addresses: one word each, only ever compared.
    templates: GuestAddr,
    /// The values: of each variable those of all CPUs.
    values: GuestAddr,
    nr_cpus: u64,
}

impl Variables {
    /// Names and declarations of all of them.
    pub(super) fn declared() -> impl Iterator<Item = (&'static str, &'static str)> {
        VARIABLES.into_iter().map(|(name, declaration, _)| (name, declaration))
    }

    /// Maps and fills them.
    pub(super) fn new(mem: &mut Memory, machine: &Machine) -> Result<Variables, MemoryError> {
        let (count, nr_cpus) = (VARIABLES.len() as u64, machine.cpu_count() as u64);
        let templates = mem.map(VALUE * count, kernel_perm())?;
        let values = mem.map(VALUE * count * nr_cpus, kernel_perm())?;
        let variables = Variables { templates, values, nr_cpus };
        for (number, (.., value)) in VARIABLES.into_iter().enumerate() {
            for cpu in 0..nr_cpus as u32 {
                let place = variables.value(number as u64, CpuId(cpu));
                mem.write_u64(place, value(machine, CpuId(cpu))).expect("just mapped");
            }
        }
        Ok(variables)
    }

    /// The variables' names with what programs hold as their addresses.
    pub(super) fn ksyms(self) -> impl Iterator<Item = (&'static str, GuestAddr)> {
        let place = move |number: usize| self.templates.offset(VALUE * number as u64);
        VARIABLES.into_iter().enumerate().map(move |(number, (name, ..))| (name, place(number)))
    }

    /// Where a CPU has the variable of this address.
    pub(super) fn per_cpu(self, variable: GuestAddr, cpu: CpuId) -> Option<GuestAddr> {
        let distance = variable.0.wrapping_sub(self.templates.0);
        let known = distance < VALUE * VARIABLES.len() as u64 && distance.is_multiple_of(VALUE);
        (known && u64::from(cpu.0) < self.nr_cpus).then(|| self.value(distance / VALUE, cpu))
    }

    fn value(self, number: u64, cpu: CpuId) -> GuestAddr {
        self.values.offset(VALUE * (number * self.nr_cpus + u64::from(cpu.0)))
    }
}
