//! What generic helpers ask of the simulated kernel: time, identity, locks, timers, output.

use crate::join::Join;
use crate::state::Outside;
use schedlab_base::{CpuId, KernelChange, TaskId, TimeNs};
use schedlab_bpf::helpers::{Env, LockKind};
use schedlab_bpf::link::Runtime;
use schedlab_bpf::maps::MapId;
use schedlab_bpf::object::MapType;
use schedlab_bpf::{Fault, GuestAddr, Memory, Perm, Vm};
use schedlab_sim::{ENABLER_COMM, ENABLER_PID, GroupIx, Interrupt, OpKind, TimerId, USER_SPACE_PID};

/// `PREEMPT_OFFSET` and `HARDIRQ_OFFSET` of Linux 7.3's `preempt_count`: programs run with preemption off.
const PREEMPT_OFF: u32 = 1;
const IN_HARD_INTERRUPT: u32 = 1 << 24;
/// `SOFTIRQ_OFFSET`, the same in all versions.
const IN_SOFT_INTERRUPT: u32 = 1 << 8;

impl Env for Join<'_> {
    fn runtime(&mut self) -> &mut Runtime {
        &mut self.state.runtime
    }

    /// Run queues are kept lazily.
    #[inline]
    fn freshen(&mut self, addresses: &[u64], vm: &mut Vm<'_>) -> Result<(), Fault> {
        for addr in addresses.iter().map(|addr| GuestAddr(*addr)) {
            if vm.mem.perm_at(addr).contains(Perm::LAZY) {
                self.settle_calls();
                self.state.freshen(addr, self.k, vm.mem)?;
            }
        }
        Ok(())
    }

    fn cpu(&self) -> u32 {
        self.k.ctx().cpu.0
    }

    fn now_ns(&mut self, vm: &Vm<'_>) -> u64 {
        self.settle(vm.insns());
        self.k.now().0
    }

    fn random_u32(&mut self) -> u32 {
        self.k.prandom_u32()
    }

    fn current_task(&mut self, vm: &mut Vm<'_>) -> Result<u64, Fault> {
        match (self.state.outside, self.k.ctx().current) {
            (Some(Outside::Enabler), _) => self.state.tasks.enabler(self.k, vm.mem).map(|addr| addr.0),
            (_, Some(task)) => self.state.tasks.pointer(task, self.k, vm.mem).map(|addr| addr.0),
            (Some(Outside::Loader), None) => self.state.tasks.early_loader(self.k, vm.mem).map(|addr| addr.0),
            (None, None) => Ok(self.state.tasks.idle(self.k.ctx().cpu).0),
        }
    }

    fn current_pid_tgid(&mut self) -> u64 {
        let alone = |pid: i32| (pid as u64) << 32 | pid as u64;
        match (self.state.outside, self.k.ctx().current) {
            (Some(Outside::Enabler), _) => return alone(ENABLER_PID),
            (Some(Outside::Loader), None) => return alone(USER_SPACE_PID),
            _ => {}
        }
        let task = self.k.ctx().current.and_then(|task| self.k.lasting(task));
        task.map_or(0, |task| (task.tgid as u64) << 32 | u64::from(task.pid as u32))
    }

    fn current_uid_gid(&mut self) -> u64 {
        let task = self.k.ctx().current.and_then(|task| self.k.lasting(task));
        task.map_or(0, |task| u64::from(task.gid) << 32 | u64::from(task.uid))
    }

    fn current_comm(&mut self) -> [u8; 16] {
        if self.state.outside == Some(Outside::Enabler) {
            let mut comm = [0; 16];
            comm[..ENABLER_COMM.len()].copy_from_slice(ENABLER_COMM.as_bytes());
            return comm;
        }
        let task = self.k.ctx().current.and_then(|task| self.k.lasting(task));
        task.map_or(*b"swapper\0\0\0\0\0\0\0\0\0", |task| task.comm)
    }

    fn read_user(&mut self, addr: u64, length: usize) -> Option<Vec<u8>> {
        self.k.read_user(addr, length)
    }

    /// The registers with which the task entered the kernel: of its system call, or of an interrupt.
    fn task_pt_regs(&mut self, task: u64, vm: &mut Vm<'_>) -> Result<u64, Fault> {
        let call = self.task_of(task)?.and_then(|task| self.k.lasting(task)).and_then(|task| task.syscall);
        let addr = GuestAddr(task);
        self.state.write_regs(addr, call, vm.mem)?;
        Ok(self.state.tasks.slot_of_pointer(addr).map_or(0, |_| self.state.tasks.regs(addr).0))
    }

    #[inline]
    fn task_owner(&mut self, task: u64) -> Option<u32> {
        self.state.tasks.slot_of_pointer(GuestAddr(task))
    }

    fn cgroup_owner(&mut self, cgroup: u64) -> Option<u32> {
        // Numbers of owners begin at 1.
        self.state.tasks.groups.living_at(GuestAddr(cgroup)).map(|place| place + 1)
    }

    fn current_cgroup_id(&mut self) -> u64 {
        self.group_id(self.current_group())
    }

    fn current_ancestor_cgroup_id(&mut self, level: i32) -> u64 {
        let level = u32::try_from(level).ok();
        let above = level.and_then(|level| self.k.groups().ancestor(self.current_group(), level));
        above.map_or(0, |group| self.group_id(group))
    }

    fn per_cpu_address(&mut self, variable: u64, cpu: u32) -> Option<u64> {
        self.state.cpus.per_cpu(GuestAddr(variable), CpuId(cpu)).map(|addr| addr.0)
    }

    #[inline]
    fn is_known_lock(&self, lock: GuestAddr) -> bool {
        self.state.locks.is_known(lock)
    }

    #[inline(always)]
    fn lock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.settle(vm.insns());
        self.state.locks.acquire(lock, kind, self.k, vm.mem)
    }

    #[inline(always)]
    fn unlock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.settle(vm.insns());
        self.state.locks.release(lock, kind, self.k)
    }

    fn timer_start(&mut self, timer: u32, expires_ns: u64) {
        let at = self.k.since_start(schedlab_base::TimeNs(expires_ns));
        self.k.timer_arm(TimerId(timer), at, None);
    }

    fn timer_cancel(&mut self, timer: u32) -> bool {
        self.k.timer_cancel(TimerId(timer))
    }

    fn defers_timers(&self) -> bool {
        let on = matches!(
            self.op,
            OpKind::Init
                | OpKind::Exit
                | OpKind::InitTask
                | OpKind::CpuOnline
                | OpKind::CpuOffline
                | OpKind::CgroupInit
                | OpKind::CgroupExit
                | OpKind::CgroupPrepMove
                | OpKind::CgroupSetWeight
                | OpKind::CgroupSetBandwidth
                | OpKind::CgroupSetIdle
                | OpKind::Timer
        );
        !on && self.k.machine().kernel.version.has(KernelChange::DeferredTimers)
    }

    fn trace(&mut self, text: &str, insns: u64) {
        self.settle(insns);
        let (time, ctx) = (self.k.run_time(), self.k.ctx());
        let current = ctx.current.and_then(|task| Some((task, self.k.lasting(task)?.comm)));
        let cpu = ctx.cpu;
        let order = self.k.count_line();
        let line = self.state.messages.push((order, time, cpu, current), text);
        self.k.printed(&line);
    }

    fn jiffies(&mut self, vm: &Vm<'_>) -> u64 {
        self.now_ns(vm) / self.k.machine().tick_period().0
    }

    fn numa_node(&self) -> u32 {
        self.k.cpu(self.k.ctx().cpu).node
    }
}

impl Join<'_> {
    /// The group of the current task; the root's for an idle task.
    fn current_group(&self) -> GroupIx {
        let task = self.k.ctx().current.and_then(|task| self.k.lasting(task));
        task.map_or(GroupIx::ROOT, |task| self.state.tasks.entering(task.id).unwrap_or(task.group))
    }

    fn group_id(&self, group: GroupIx) -> u64 {
        self.k.groups().get(group).id
    }
}

/// The value of a CPU's `__preempt_count`.
pub(crate) fn preempt_count(interrupt: Interrupt) -> u32 {
    PREEMPT_OFF
        | match interrupt {
            Interrupt::None => 0,
            Interrupt::Soft => IN_SOFT_INTERRUPT,
            Interrupt::Hard => IN_HARD_INTERRUPT,
        }
}

/// Messages that are kept. Chosen: what a person would read.
const MAX_MESSAGES: usize = 1000;
/// Longest message kept, as the kernel's trace buffer line.
const MAX_MESSAGE_LEN: usize = 1024;

/// A line that a program printed with `bpf_printk()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which line of the run it is, those of all schedulers counted.
    pub order: u64,
    /// When.
    pub time: TimeNs,
    /// Where.
    pub cpu: CpuId,
    /// The current task there with its name in the kernel; nothing for the idle task.
    pub current: Option<(TaskId, [u8; 16])>,
    /// The line without its end.
    pub text: String,
}

/// What programs printed with `bpf_printk()`: the first ones, and how many in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    pub(crate) lines: Vec<Message>,
    pub(crate) count: u64,
}

/// Number, time, CPU and current task of a line.
type Said = (u64, TimeNs, CpuId, Option<(TaskId, [u8; 16])>);

impl Messages {
    /// Keeps a line if it is one of the first, and gives it in the length in which lines are kept.
    fn push(&mut self, (order, time, cpu, current): Said, text: &str) -> String {
        self.count += 1;
        let text: String = text.trim_end_matches('\n').chars().take(MAX_MESSAGE_LEN).collect();
        if self.lines.len() < MAX_MESSAGES {
            self.lines.push(Message { order, time, cpu, current, text: text.clone() });
        }
        debug_assert!(self.lines.len() as u64 <= self.count, "a line that is kept is counted");
        text
    }
}

/// Program runs between two looks at the ring buffers. Chosen: a reader that never sleeps is not far behind.
const RUNS_PER_DRAIN: u32 = 64;

/// The ring buffers of the object. They are not read here, so they are emptied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rings {
    maps: Vec<MapId>,
    /// The user space reads the rings.
    pub(crate) are_read: bool,
    runs: u32,
}

impl Rings {
    /// The rings of an object.
    pub(crate) fn new(runtime: &Runtime) -> Rings {
        let rings = runtime.maps.iter().filter(|(_, map)| map.kind() == MapType::RINGBUF);
        Rings { maps: rings.map(|(id, _)| id).collect(), are_read: false, runs: 0 }
    }

    /// The object has some.
    pub(crate) fn are_there(&self) -> bool {
        !self.maps.is_empty()
    }

    /// A program has run.
    pub(crate) fn after_run(&mut self, runtime: &mut Runtime, mem: &Memory) {
        if !self.maps.is_empty() && !self.are_read {
            self.runs += 1;
            if self.runs.is_multiple_of(RUNS_PER_DRAIN) {
                self.drain(runtime, mem);
            }
        }
    }

    fn drain(&mut self, runtime: &mut Runtime, mem: &Memory) {
        for map in &self.maps {
            runtime.maps.ring_drain(*map, mem);
        }
    }
}
