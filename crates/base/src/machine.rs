//! The machine that is simulated: CPUs, their topology and what things cost.

use crate::{Background, CpuMask, DurationNs, KernelFeatures, MAX_CPUS};
use std::fmt;

/// Where one logical CPU sits. Numbers are dense and start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Physical core; CPUs that share one are SMT siblings.
    pub core: u32,
    /// Last-level cache domain.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// What the simulated kernel and the scheduler's code cost. All spans are of
/// simulated CPU time unless the text says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// One executed BPF instruction, in picoseconds.
    pub bpf_insn_ps: u64,
    /// A callback's entry and exit (trampoline, run queue pinning).
    pub callback: DurationNs,
    /// A kernel function that looks at something: a task's CPU, a bit of a mask, a clock that is kept.
    pub kfunc: DurationNs,
    /// A BPF helper, besides what it does.
    pub helper: DurationNs,
    /// A kernel function that finds a dispatch queue, and perhaps puts a task there.
    pub kfunc_insert: DurationNs,
    /// A kernel function that takes a task from a dispatch queue to a CPU's own.
    pub kfunc_move: DurationNs,
    /// A kernel function that finds a task by its number; giving it back is a call like others.
    pub kfunc_find: DurationNs,
    /// Putting a task on a dispatch queue (`scx_dispatch_enqueue()`), behind the call that asked for it.
    pub dsq_enqueue: DurationNs,
    /// A kernel function that kicks a CPU, besides the interrupts.
    pub kfunc_kick: DurationNs,
    /// The interrupt by which a CPU lets itself carry out the kicks that were asked for (`irq_work`).
    pub irq_work: DurationNs,
    /// Taking and releasing a lock whose cache line is local.
    pub lock: DurationNs,
    /// Extra when the lock was last held by another CPU: moving its line.
    pub lock_transfer: DurationNs,
    /// A cache line of a scheduler's memory that another CPU has written since, where the machine has lines
    /// ([`Machine::line_bytes`]).
    pub line_transfer: DurationNs,
    /// Extra of a contended hand-over for each CPU that spins on the lock: all of
    /// them read the line again and try to take it, over one bus. Grows with the
    /// number of waiters as simple spin locks do (Anderson, "The performance of spin
    /// lock alternatives", 1990); 0 for queued locks.
    pub lock_spinner: DurationNs,
    /// Fixed part of the core's `schedule()` outside policy code.
    pub schedule: DurationNs,
    /// Taking a task that goes to sleep off its queue, outside policy code.
    pub block: DurationNs,
    /// Register and address space switch between two tasks, up to the event that tells of it.
    pub context_switch: DurationNs,
    /// The cost of a switch between a task and the idle task.
    pub idle_switch: DurationNs,
    /// What is left of a switch to a task behind that event, up to the task's own code.
    pub switch_end: DurationNs,
    /// Extra of a switch to another address space.
    pub address_space_switch: DurationNs,
    /// Fixed part of a wakeup outside policy code.
    pub wakeup: DurationNs,
    /// The waker's part of a wakeup that an idle CPU completes (`TTWU_QUEUE` of the fair class).
    pub wakeup_queued: DurationNs,
    /// The fair class's part of a wakeup: placing the entity.
    pub fair_wakeup: DurationNs,
    /// The fair class's part of a switch between two of its tasks: half for taking one off, half for choosing the other.
    pub fair_switch: DurationNs,
    /// Sending an inter-processor interrupt, paid by the sender.
    pub ipi_send: DurationNs,
    /// Latency until the receiver acts on it (not CPU time of the sender).
    pub ipi_latency: DurationNs,
    /// Entering the idle state, after the last task was switched from.
    pub idle_enter: DurationNs,
    /// Leaving the idle state, before the idle CPU can schedule.
    pub idle_exit: DurationNs,
    /// An interrupt of a device or of another timer than the tick, besides what it does.
    pub interrupt: DurationNs,
    /// Arming the timer that a sleeping task is woken by, besides the system call, or the one that ends a slice (HRTICK).
    pub timer: DurationNs,
    /// The timer tick's work outside policy code.
    pub tick: DurationNs,
    /// Refilling one KiB of working set from the next level: the last-level cache where
    /// the machine has one, else memory.
    pub cache_refill_per_kib: DurationNs,
    /// Extra of a KiB that the last-level cache does not have either.
    pub memory_refill_per_kib: DurationNs,
    /// Walking one KiB of a buffer, a line at a time, besides what caches cost.
    pub touch_per_kib: DurationNs,
    /// Fixed extra of running on another CPU than last time.
    pub migration: DurationNs,
    /// Entry and exit of any system call.
    pub syscall: DurationNs,
    /// A pipe read or write besides `syscall` and waiting.
    pub pipe: DurationNs,
    /// A socket send or receive besides `syscall` and waiting.
    pub socket: DurationNs,
    /// How long a packet over loopback holds the lock of the device, which all CPUs share; 0 for kernels that send without
    /// one, as later ones do (`NETIF_F_LLTX`).
    pub loopback: DurationNs,
    /// A semaphore, message queue or signal operation besides `syscall`.
    pub sysv: DurationNs,
    /// A futex operation besides `syscall`.
    pub futex: DurationNs,
    /// `sched_yield` besides `syscall`.
    pub sched_yield: DurationNs,
    /// `fork`/`clone`, paid by the parent.
    pub fork: DurationNs,
    /// What a forked process pays before its own code: its first writes to pages that it has in common with its parent.
    pub fork_child: DurationNs,
    /// `execve`.
    pub exec: DurationNs,
    /// `exit` and being reaped.
    pub exit: DurationNs,
    /// The first write to a page of a task's own: the fault, a page of zeros, and giving it back at the end.
    pub page_fault: DurationNs,
    /// The first write to a page since a fork, while a child still has it: the fault and a copy.
    pub page_copy: DurationNs,
    /// The cost of such a write when no child has the page any more: the fault alone.
    pub page_reuse: DurationNs,
    /// Moving one byte through a channel, in picoseconds, in each direction.
    pub copy_byte_ps: u64,
}

/// A machine description. Build one with [`Machine::uniform`] or fill the
/// fields and call [`Machine::validate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name, as in `-m NAME`.
    pub name: String,
    /// The CPUs by [`crate::CpuId`].
    pub cpus: Vec<Cpu>,
    /// Clock of the cycle counter in MHz. Only turns times into cycles; how fast code
    /// runs is in `costs`.
    pub clock_mhz: u32,
    /// Timer frequency in Hz.
    pub hz: u32,
    /// Cache of a core, which its SMT siblings share, in KiB: what of a task's working
    /// set it holds is warm.
    pub cache_kib: u32,
    /// Last-level cache behind it, which the CPUs of a domain ([`Cpu::llc`]) share, in
    /// KiB; 0 for none.
    pub llc_kib: u32,
    /// Bytes of a cache line, a power of two from 16 to 256: which CPU has which line of the memory that a scheduler's
    /// programs share is followed then, and [`Costs::line_transfer`] paid. 0: it has no price.
    pub line_bytes: u32,
    /// Share of full speed, in percent, that each of two busy SMT siblings has.
    pub smt_speed_percent: u32,
    /// Work factor in permille by number of busy CPUs: shared bus and memory
    /// contention of computing tasks. Entry `n` is for `n + 1` busy CPUs, the last
    /// one holds beyond; empty means 1000 throughout.
    pub contention_permille: Vec<u32>,
    /// The CPUs are turns of one processor, as an emulator gives them on one thread. While `n` of them execute anything,
    /// each has an `n`th of the speed, in the kernel too. Idle ones take nothing.
    pub one_processor: bool,
    /// The kernel that runs on it.
    pub kernel: KernelFeatures,
    /// What runs beside the workload; nothing on a quiet machine.
    pub background: Vec<Background>,
    /// What things cost.
    pub costs: Costs,
}

/// The largest cache, in KiB. Chosen: far above any real one.
pub const MAX_CACHE_KIB: u32 = 4 << 20;

/// The largest number of [`Background`] threads. Chosen.
const MAX_BACKGROUND: usize = 64;

/// Why a machine description is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError(pub String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MachineError {}

impl Default for Costs {
    /// A present-day 3 GHz core; each figure is an assumption of the right order
    /// (see `machines/modern.toml`, which documents them one by one).
    fn default() -> Costs {
        Costs {
            bpf_insn_ps: 350,
            callback: DurationNs(15),
            kfunc: DurationNs(5),
            helper: DurationNs(16),
            kfunc_insert: DurationNs(45),
            kfunc_move: DurationNs(170),
            kfunc_find: DurationNs(5),
            dsq_enqueue: DurationNs(0),
            kfunc_kick: DurationNs(90),
            irq_work: DurationNs(175),
            lock: DurationNs(10),
            lock_transfer: DurationNs(60),
            line_transfer: DurationNs(60),
            lock_spinner: DurationNs(0),
            schedule: DurationNs(250),
            block: DurationNs(0),
            context_switch: DurationNs(400),
            idle_switch: DurationNs(400),
            switch_end: DurationNs(0),
            address_space_switch: DurationNs(200),
            wakeup: DurationNs(250),
            wakeup_queued: DurationNs(60),
            fair_wakeup: DurationNs(150),
            fair_switch: DurationNs(330),
            ipi_send: DurationNs(150),
            ipi_latency: DurationNs(800),
            idle_enter: DurationNs(0),
            idle_exit: DurationNs(1_000),
            interrupt: DurationNs(300),
            timer: DurationNs(100),
            tick: DurationNs(700),
            cache_refill_per_kib: DurationNs(60),
            memory_refill_per_kib: DurationNs(200),
            touch_per_kib: DurationNs(0),
            migration: DurationNs(500),
            syscall: DurationNs(100),
            pipe: DurationNs(350),
            socket: DurationNs(700),
            loopback: DurationNs(0),
            sysv: DurationNs(250),
            futex: DurationNs(200),
            sched_yield: DurationNs(100),
            fork: DurationNs(60_000),
            fork_child: DurationNs(0),
            exec: DurationNs(250_000),
            exit: DurationNs(40_000),
            page_fault: DurationNs(500),
            page_copy: DurationNs(700),
            page_reuse: DurationNs(300),
            copy_byte_ps: 100,
        }
    }
}

impl Machine {
    /// `count` equal CPUs, one per core, one cache domain and node, HZ 1000,
    /// default costs.
    pub fn uniform(name: &str, count: usize) -> Machine {
        Machine {
            name: name.to_string(),
            cpus: (0..count).map(|core| Cpu { core: core as u32, llc: 0, node: 0 }).collect(),
            clock_mhz: 3000,
            hz: 1000,
            cache_kib: 1024,
            llc_kib: 32 * 1024,
            line_bytes: 0,
            smt_speed_percent: 60,
            contention_permille: Vec::new(),
            one_processor: false,
            kernel: KernelFeatures::default(),
            background: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// The number of CPUs.
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// All CPUs.
    pub fn all_cpus(&self) -> CpuMask {
        CpuMask::first(self.cpu_count())
    }

    /// The span between two timer ticks.
    pub fn tick_period(&self) -> DurationNs {
        DurationNs(1_000_000_000 / u64::from(self.hz))
    }

    /// The work factor in permille with `busy` computing CPUs.
    pub fn contention(&self, busy: usize) -> u32 {
        let last = self.contention_permille.len().saturating_sub(1);
        self.contention_permille.get(busy.saturating_sub(1).min(last)).copied().unwrap_or(1000)
    }

    /// How many CPUs have come online by the end of the boot, as sched_ext counts them (`hotplug_seq`): all but the first one, which
    /// starts the others. Linux 7.3.4 says 0, 1 and 3 on 1, 2 and 4 CPUs.
    pub fn hotplugs_of_boot(&self) -> u64 {
        self.cpu_count().saturating_sub(1) as u64
    }

    /// The slice of the fair class, ns: 0.7 ms (0.75 before 6.15) times 1 + log2 of at most 8 CPUs
    /// (`normalized_sysctl_sched_base_slice`, `get_update_sysctl_factor()`): 2.8 ms from 8 CPUs on.
    pub fn base_slice(&self) -> u64 {
        let cpus = self.cpu_count().min(8) as u64;
        let slice =
            if self.kernel.version.has(crate::KernelChange::ShorterBaseSlice) { 700_000 } else { 750_000 };
        slice * (1 + u64::from(cpus.max(1).ilog2()))
    }

    /// This machine with `count` CPUs: the first ones of the description, or
    /// more of the kind of the last one (own cores, its cache domain and node).
    pub fn with_cpus(&self, count: usize) -> Result<Machine, MachineError> {
        if count > MAX_CPUS {
            return Err(too_many_cpus(count));
        }
        let mut machine = self.clone();
        machine.cpus.truncate(count);
        while machine.cpus.len() < count {
            let next_core = machine.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
            let last =
                *self.cpus.last().ok_or_else(|| MachineError("a machine needs at least one CPU".into()))?;
            machine.cpus.push(Cpu { core: next_core, ..last });
        }
        machine.validate()?;
        Ok(machine)
    }

    /// Checks what the simulator relies on.
    ///
    /// # Errors
    /// Names the first field that is out of range and the range.
    pub fn validate(&self) -> Result<(), MachineError> {
        let fail = |text: String| Err(MachineError(text));
        if self.cpus.is_empty() {
            return fail("cpus: a machine needs at least one CPU".into());
        }
        if self.cpus.len() > MAX_CPUS {
            return Err(too_many_cpus(self.cpus.len()));
        }
        if !(1..=100_000).contains(&self.clock_mhz) {
            return fail(format!("clock_mhz: {} is outside 1..100000", self.clock_mhz));
        }
        if !(10..=10_000).contains(&self.hz) {
            return fail(format!("hz: {} is outside 10..10000", self.hz));
        }
        let limit = MAX_CPUS as u32;
        if let Some(cpu) = self.cpus.iter().find(|cpu| cpu.core.max(cpu.llc).max(cpu.node) >= limit) {
            return fail(format!("cpus: {cpu:?}: core, llc and node are numbers below {limit}"));
        }
        for (key, kib) in [("cache_kib", self.cache_kib), ("llc_kib", self.llc_kib)] {
            if kib > MAX_CACHE_KIB {
                return fail(format!("{key}: {kib} is more than {MAX_CACHE_KIB} (4 GiB)"));
            }
        }
        let bytes = self.line_bytes;
        if bytes != 0 && !(bytes.is_power_of_two() && (16..=256).contains(&bytes)) {
            return fail(format!("line_bytes: {bytes} is neither 0 nor a power of two from 16 to 256"));
        }
        if !(1..=100).contains(&self.smt_speed_percent) {
            return fail(format!("smt_speed_percent: {} is outside 1..100", self.smt_speed_percent));
        }
        self.validate_kernel()?;
        if self.contention_permille.iter().any(|&permille| !(1000..=100_000).contains(&permille)) {
            return fail("contention: factors start at 1.0 and stay below 100".into());
        }
        if self.one_processor && self.contention_permille.iter().any(|&permille| permille != 1000) {
            return fail("contention: one_processor says how fast busy CPUs are already".into());
        }
        Ok(())
    }
}

impl Machine {
    /// The part of [`Machine::validate`] on what the kernel does by itself.
    fn validate_kernel(&self) -> Result<(), MachineError> {
        let fail = |text: String| Err(MachineError(text));
        let (jitter, period) = (self.kernel.tick_jitter, self.tick_period());
        if jitter > period / 4 {
            return fail(format!("tick_jitter: {jitter} is more than a quarter of a tick ({period})"));
        }
        if self.kernel.timer_slack > DurationNs::from_secs(1) {
            return fail(format!("timer_slack: {} is more than 1 s", self.kernel.timer_slack));
        }
        if self.background.len() > MAX_BACKGROUND {
            return fail(format!("background: {} threads, at most {MAX_BACKGROUND}", self.background.len()));
        }
        for thread in &self.background {
            let name = &thread.name;
            if name.is_empty() || name.len() > 15 || name.chars().any(char::is_control) {
                return fail(format!(
                    "background: {name:?}: a name has 1 to 15 bytes and no control characters"
                ));
            }
            if thread.period < DurationNs::from_us(100) || thread.period > DurationNs::from_secs(3600) {
                return fail(format!(
                    "background: {name}: a period of {} is outside 100us..3600s",
                    thread.period
                ));
            }
            if thread.length == DurationNs::ZERO || thread.length > thread.period {
                return fail(format!(
                    "background: {name}: its length is more than nothing and at most its period"
                ));
            }
        }
        Ok(())
    }
}

fn too_many_cpus(count: usize) -> MachineError {
    MachineError(format!("cpus: {count} CPUs, at most {MAX_CPUS} are supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_cpus_are_refused() {
        let machine = Machine::uniform("none", 0);
        assert!(machine.validate().unwrap_err().to_string().contains("at least one CPU"));
        assert!(machine.with_cpus(2).is_err());
    }

    #[test]
    fn cpus_can_be_added_and_taken_away() {
        let machine = Machine::uniform("m", 4);
        assert_eq!(machine.with_cpus(2).unwrap().cpu_count(), 2);
        assert_eq!(machine.with_cpus(6).unwrap().cpus[5].core, 5);
        assert!(machine.with_cpus(usize::MAX).unwrap_err().to_string().contains("at most 4096"));
    }
}
