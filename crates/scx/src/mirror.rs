//! Kernel objects in guest memory: tasks, run queues, masks, the root cgroup.
//!
//! A program reads them like any kernel memory, and finds what the simulated kernel knows. Most programs read a few
//! members now and then, so what changes of tasks and run queues is written when somebody looks: it lies in pages whose
//! loads come to [`crate::state::State::freshen`] first. Programs' stores are decided one by one ([`Tasks::field`]).
//!
//! A task's place (its slot) is given back when the task is gone and goes to a later task. A pointer that a program
//! keeps beyond that finds a dead task's remains, then another task, as with memory under RCU that was not protected.

use crate::kernel_model::{Offsets, RqAt, TaskAt};
use crate::masks::write_mask;
use schedlab_base::{CpuId, CpuMask, DurationNs, OfTask, Policy, TaskId, TaskTable};
use schedlab_bpf::{Fault, GuestAddr, Memory, MemoryError, Perm};
use schedlab_sim::flags::{PF_KTHREAD, SCX_DSQ_LOCAL, SCX_SLICE_DFL};
use schedlab_sim::{Kernel, UPTIME};
use schedlab_sim::{OpsState, RunState, SHELL_PID, Task};
use schedlab_workload::ProcessId;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::num::NonZeroU64;

/// Tasks that can exist at once. Chosen: twice the default of `kernel.pid_max`.
const MAX_TASKS: u32 = 1 << 16;
/// Bytes from one address space object to the next, and from its start to the process's `files_struct`.
const MM_STRIDE: u64 = 128;
const FILES: u64 = 64;
/// `PF_IDLE`, the flag of idle tasks.
const PF_IDLE: u32 = 2;
/// `PF_FORKNOEXEC`, which those have that were forked: all but that of CPU 0.
const PF_FORKNOEXEC: u32 = 0x40;
/// `PF_NO_SETAFFINITY`, another one of theirs.
const PF_NO_SETAFFINITY: u32 = 0x0400_0000;
/// Priority of a task of nice 0, which idle tasks have as well.
const NICE_0_PRIO: u32 = 120;
/// `se.load.weight` of nice 0.
const NICE_0_LOAD: u64 = 1024 << 10;
/// `SCX_OPSS_QSEQ_SHIFT`.
const QSEQ_SHIFT: u32 = 2;
/// `SCX_TG_ONLINE | SCX_TG_INITED`.
const ROOT_GROUP: u32 = 3;
/// `EXIT_DEAD`, the state of a task that is gone.
const EXIT_DEAD: u32 = 0x10;
/// A slot that nobody has.
const FREE: u32 = u32::MAX;
/// A slot of a task that is none of the run's: an idle task or the shell.
const SYSTEM: u32 = u32::MAX - 1;

/// Pages that programs may read and whose stores the kernel decides on.
pub(crate) fn kernel_perm() -> Perm {
    Perm::READ | Perm::KERNEL
}

/// Kernel pages that are written when somebody looks.
fn lazy_perm() -> Perm {
    Perm::LAZY | Perm::KERNEL
}

/// Bytes of a mask.
const MASK_BYTES: u64 = (schedlab_base::MAX_CPUS / 8) as u64;

/// What a store to a task would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// `p->scx.slice`.
    Slice(TaskId),
    /// `p->scx.dsq_vtime`.
    DsqVtime(TaskId),
    /// `p->scx.disallow`.
    Disallow(TaskId),
    /// `p->scx.slice` or `p->scx.dsq_vtime` of an idle task or the shell.
    OfSystem,
}

/// The tasks of the run and of the system, by slot.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    at: TaskAt,
    /// Where pid, signal and saved registers lie in a slot.
    pid: u64,
    signal: u64,
    regs: u64,
    base: GuestAddr,
    stride: u64,
    /// Words of a mask that can be other than zero.
    mask_words: usize,
    /// Where the slots of the tasks are that programs know.
    known: TaskTable<Known>,
    /// The task that was shown to a program last, and where it is: mostly the one that its calls are about.
    shown: (GuestAddr, TaskId),
    /// By slot: the task id, `FREE` or `SYSTEM`.
    owner: Vec<u32>,
    /// By slot: the process whose address space the task uses.
    processes: Vec<Option<ProcessId>>,
    free: Vec<u32>,
    mms: Mms,
    /// The table of descriptors, and where a `files_struct` points to it.
    fd_table: GuestAddr,
    fdt: u64,
    shared: Shared,
    /// Number of idle tasks, which have the first slots; the shell follows.
    nr_cpus: u32,
    pid_nr: u64,
    /// Length of a jiffy.
    jiffy: u64,
}

/// Where a task's slot is. No slot lies at NULL, which makes an empty place of the table as small as a full one.
#[derive(Clone, Copy, Debug)]
struct Known {
    task: TaskId,
    addr: NonZeroU64,
}

impl OfTask for Known {
    #[inline(always)]
    fn task_id(&self) -> TaskId {
        self.task
    }
}

/// Objects that all tasks point at.
#[derive(Clone, Copy, Debug)]
struct Shared {
    cred: GuestAddr,
    css_set: GuestAddr,
    task_group: GuestAddr,
    cgroup: GuestAddr,
}

/// Address spaces: one object for each process that lives.
#[derive(Clone, Debug)]
struct Mms {
    base: GuestAddr,
    by_process: BTreeMap<ProcessId, (u32, u32)>,
    free: Vec<u32>,
    next: u32,
}

impl Mms {
    fn acquire(&mut self, process: ProcessId) -> GuestAddr {
        let slot = match self.by_process.get_mut(&process) {
            Some((slot, users)) => {
                *users += 1;
                *slot
            }
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.next += 1;
                    self.next - 1
                });
                self.by_process.insert(process, (slot, 1));
                slot
            }
        };
        self.base.offset(u64::from(slot) * MM_STRIDE)
    }

    fn release(&mut self, process: ProcessId) {
        if let Some((slot, users)) = self.by_process.get_mut(&process) {
            *users -= 1;
            if *users == 0 {
                self.free.push(*slot);
                self.by_process.remove(&process);
            }
        }
    }
}

/// Bytes from one slot to the next for a content of `size` bytes: an odd number of cache lines. The hot members are at
/// the same place of every slot; with a power of two they would share a few sets of the host's caches.
fn slot_stride(size: u64) -> u64 {
    let stride = (size.div_ceil(64) | 1) * 64;
    assert!(stride * u64::from(MAX_TASKS) <= u64::from(u32::MAX), "distances between slots fit 32 bits");
    stride
}

/// Little-endian stores into the host's view of an object.
pub(crate) struct Object<'a>(pub(crate) &'a mut [u8]);

impl Object<'_> {
    pub(crate) fn u64(&mut self, at: u64, value: u64) {
        self.0[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, at: u64, value: u32) {
        self.0[at as usize..at as usize + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}

impl Tasks {
    /// Maps room for the tasks and makes those of the system.
    pub(crate) fn new(
        mem: &mut Memory,
        offsets: &Offsets,
        nr_cpus: usize,
        jiffy: DurationNs,
    ) -> Result<Tasks, MemoryError> {
        let pid = offsets.task.size.next_multiple_of(8);
        let signal = (pid + offsets.pid_size).next_multiple_of(8);
        let regs = (signal + offsets.signal_size).next_multiple_of(8);
        let stride = slot_stride(regs + offsets.regs.size);
        let base = mem.map(stride * u64::from(MAX_TASKS), lazy_perm())?;
        check_hot(&offsets.task);
        let mms = Mms {
            base: mem.map(MM_STRIDE * u64::from(MAX_TASKS), kernel_perm())?,
            by_process: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
        };
        assert!(offsets.mm_size <= FILES, "an mm_struct fits its place");
        assert!(FILES + offsets.files.files_size <= MM_STRIDE, "a files_struct fits its place");
        let shared = Shared::new(mem, offsets)?;
        let mut tasks = Tasks {
            at: offsets.task,
            pid,
            signal,
            regs,
            base,
            stride,
            mask_words: nr_cpus.div_ceil(64),
            known: TaskTable::new(),
            shown: (GuestAddr::NULL, TaskId(0)),
            owner: Vec::new(),
            processes: Vec::new(),
            free: Vec::new(),
            mms,
            fd_table: mem.map(offsets.files.table_size, kernel_perm())?,
            fdt: offsets.files.fdt,
            shared,
            nr_cpus: nr_cpus as u32,
            pid_nr: offsets.pid_nr,
            jiffy: jiffy.0,
        };
        for cpu in 0..tasks.nr_cpus {
            tasks.add_system(mem, &format!("swapper/{cpu}"), 0, cpu);
        }
        tasks.add_system(mem, "sh", SHELL_PID, 0);
        Ok(tasks)
    }

    fn address(&self, slot: u32) -> GuestAddr {
        self.base.offset(u64::from(slot) * self.stride)
    }

    /// The idle task of a CPU.
    pub(crate) fn idle(&self, cpu: CpuId) -> GuestAddr {
        self.address(cpu.0)
    }

    /// The shell, parent of all tasks that have none in the run.
    pub(crate) fn shell(&self) -> GuestAddr {
        self.address(self.nr_cpus)
    }

    /// The part of the task at `start` that [`Tasks::refresh`] keeps up to date, or that does not change by itself:
    /// its address and length.
    #[inline]
    pub(crate) fn kept(&self, start: GuestAddr) -> (GuestAddr, u64) {
        let first = offset_of!(Hot, sum_exec_runtime) as u64;
        (start.offset(first), self.at.nvcsw - first)
    }

    /// Whether a load at this distance from a task's address may meet what [`Tasks::refresh_rare`] writes.
    #[inline]
    pub(crate) fn is_rare(&self, within: u64) -> bool {
        within < offset_of!(Hot, sum_exec_runtime) as u64
            || within + 8 > self.at.nvcsw && within < self.at.size
    }

    /// The saved registers of a task at this address.
    pub(crate) fn regs(&self, task: GuestAddr) -> GuestAddr {
        task.offset(self.regs)
    }

    /// The task whose memory an address lies in, and where that begins; nothing for tasks of the system, which do not
    /// change, and for what is left of a task that is gone.
    #[inline]
    pub(crate) fn around(&self, addr: GuestAddr) -> Option<(TaskId, GuestAddr)> {
        let (slot, within) = self.slot_at(addr)?;
        let owner = self.owner[slot as usize];
        (owner < SYSTEM).then_some((TaskId(owner), GuestAddr(addr.0 - within)))
    }

    /// The CPU whose idle task an address lies in.
    pub(crate) fn idle_around(&self, addr: GuestAddr) -> Option<CpuId> {
        let (slot, _) = self.slot_at(addr)?;
        (slot < self.nr_cpus).then_some(CpuId(slot))
    }

    /// Writes what changes of an idle task.
    pub(crate) fn refresh_idle(&self, cpu: CpuId, runs: bool, mem: &mut Memory) -> Result<(), Fault> {
        mem.write_u8(self.idle(cpu).offset(self.at.on_cpu), u8::from(runs))
    }

    /// The slot that an address lies in, and the distance from its start.
    #[inline]
    fn slot_at(&self, addr: GuestAddr) -> Option<(u32, u64)> {
        // All slots together are less than 4 GiB, and a short division is a cheap one.
        let distance = u32::try_from(addr.0.wrapping_sub(self.base.0)).ok()?;
        let stride = self.stride as u32;
        let slot = distance / stride;
        ((slot as usize) < self.owner.len()).then_some((slot, u64::from(distance % stride)))
    }

    /// The number of the slot of a task pointer: small, and unique among living tasks.
    pub(crate) fn slot_of_pointer(&self, addr: GuestAddr) -> Option<u32> {
        self.slot_at(addr)
            .filter(|(slot, within)| *within == 0 && self.owner[*slot as usize] != FREE)
            .map(|(slot, _)| slot)
    }

    /// The task that a pointer means: nothing for one that is gone or belongs to the system.
    #[inline]
    pub(crate) fn task_at(&self, addr: GuestAddr) -> Option<TaskId> {
        let (shown, task) = self.shown;
        if addr == shown && !shown.is_null() {
            return Some(task);
        }
        let (slot, within) = self.slot_at(addr)?;
        let owner = self.owner[slot as usize];
        (within == 0 && owner < SYSTEM).then_some(TaskId(owner))
    }

    /// True for a pointer to a slot, whoever has it.
    pub(crate) fn is_task_pointer(&self, addr: GuestAddr) -> bool {
        self.slot_at(addr).is_some_and(|(_, within)| within == 0)
    }

    /// The slot of a task, if it has one.
    pub(crate) fn slot(&self, task: TaskId) -> Option<u32> {
        self.known(task).and_then(|addr| self.slot_at(addr)).map(|(slot, _)| slot)
    }

    /// The address of a task that is known to programs.
    #[inline]
    pub(crate) fn known(&self, task: TaskId) -> Option<GuestAddr> {
        self.known.get(task).map(|known| GuestAddr(known.addr.get()))
    }

    /// The address of a task, if a program was called about it last.
    #[inline]
    pub(crate) fn shown(&self, task: TaskId) -> Option<GuestAddr> {
        let (addr, shown) = self.shown;
        (shown == task && !addr.is_null()).then_some(addr)
    }

    /// A program is called about the task at this address.
    #[inline]
    pub(crate) fn show(&mut self, task: TaskId, addr: GuestAddr) {
        self.shown = (addr, task);
    }

    /// The address of a task; makes it known if it is not.
    ///
    /// # Errors
    /// When more tasks live than there are slots.
    #[inline]
    pub(crate) fn pointer(&mut self, task: TaskId, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        match self.known(task) {
            Some(addr) => Ok(addr),
            None => self.make_known(task, k, mem),
        }
    }

    #[inline(never)]
    fn make_known(&mut self, task: TaskId, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        // Who runs may be forking the task: the parent comes first.
        if let Some(current) = k.ctx().current.filter(|current| *current != task) {
            self.pointer(current, k, mem)?;
        }
        match k.get_task(task).filter(|task| task.state != RunState::Dead) {
            Some(task) => self.add(task, k, mem),
            // Gone already, and its slot given back: whoever asks finds its parent, the shell.
            None => Ok(self.shell()),
        }
    }

    fn claim(&mut self, owner: u32) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.owner[slot as usize] = owner;
            return Some(slot);
        }
        let slot = self.owner.len() as u32;
        (slot < MAX_TASKS).then(|| {
            self.owner.push(owner);
            self.processes.push(None);
            slot
        })
    }

    fn add(&mut self, task: &Task, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        let leader = match task.tgid == task.pid {
            true => None,
            false => k.task_by_pid(task.tgid).and_then(|leader| self.known(leader)),
        };
        let parent = task.parent.and_then(|parent| self.known(parent)).unwrap_or(self.address(self.nr_cpus));
        let slot = self
            .claim(task.id.0)
            .ok_or_else(|| Fault::unsupported(format!("more than {MAX_TASKS} tasks at once")))?;
        let addr = self.address(slot);
        let known = NonZeroU64::new(addr.0).expect("no slot lies at NULL");
        self.known.insert(Known { task: task.id, addr: known });
        let (mut mm, mut files) = (GuestAddr::NULL, GuestAddr::NULL);
        if !task.is_kthread() {
            mm = self.mms.acquire(task.process);
            files = mm.offset(FILES);
            mem.write_u64(files.offset(self.fdt), self.fd_table.0)?;
            self.processes[slot as usize] = Some(task.process);
        }
        let at = self.at;
        self.write_fixed(mem, addr, task.pid, task.tgid)?;
        let mut object = Object(mem.slice_mut(addr, at.size)?);
        object.u64(at.tid, task.scx.tid);
        object.u64(at.mm, mm.0);
        object.u64(at.active_mm, mm.0);
        object.u64(at.files, files.0);
        object.u64(at.real_parent, parent.0);
        object.u64(at.parent, parent.0);
        object.u64(at.group_leader, leader.unwrap_or(addr).0);
        object.u64(at.start_time, (task.start_time + UPTIME).0);
        object.u64(at.start_boottime, (task.start_time + UPTIME).0);
        self.refresh(task, addr, mem);
        self.refresh_rare(task, addr, mem)?;
        self.refresh_attributes(task, mem)?;
        Ok(addr)
    }

    /// The members that every task has and that never change.
    fn write_fixed(&self, mem: &mut Memory, addr: GuestAddr, pid: i32, tgid: i32) -> Result<(), Fault> {
        let at = self.at;
        let whole = mem.slice_mut(addr, self.stride)?;
        whole.fill(0);
        let mut object = Object(whole);
        object.u32(at.pid, pid as u32);
        object.u32(at.tgid, tgid as u32);
        object.u64(at.cpus_ptr, addr.offset(at.cpus_mask).0);
        object.u64(at.thread_pid, addr.offset(self.pid).0);
        object.u64(at.signal, addr.offset(self.signal).0);
        object.u64(at.stack, addr.offset(self.regs).0);
        object.u64(at.cred, self.shared.cred.0);
        object.u64(at.real_cred, self.shared.cred.0);
        object.u64(at.cgroups, self.shared.css_set.0);
        object.u64(at.sched_task_group, self.shared.task_group.0);
        object.u32(at.sticky_cpu, u32::MAX);
        object.u32(at.holding_cpu, u32::MAX);
        object.u32(self.pid + self.pid_nr, pid as u32);
        Ok(())
    }

    fn add_system(&mut self, mem: &mut Memory, name: &str, pid: i32, cpu: u32) {
        let slot = self.claim(SYSTEM).expect("the system's tasks have room");
        let addr = self.address(slot);
        let at = self.at;
        self.write_fixed(mem, addr, pid, pid).expect("slots are mapped");
        let mut object = Object(mem.slice_mut(addr, at.size).expect("slots are mapped"));
        object.bytes(at.comm, name.as_bytes());
        object.u32(at.cpu, cpu);
        object.u64(at.group_leader, addr.0);
        let first = self.base.0;
        object.u64(at.parent, first);
        object.u64(at.real_parent, first);
        object.u32(at.prio, NICE_0_PRIO);
        object.u32(at.static_prio, NICE_0_PRIO);
        object.u32(at.normal_prio, NICE_0_PRIO);
        object.u64(at.load_weight, NICE_0_LOAD);
        object.u64(at.slice, SCX_SLICE_DFL);
        object.u32(at.runnable_cpu, u32::MAX);
        object.u32(at.nr_cpus_allowed, if pid == 0 { 1 } else { self.nr_cpus });
        let allowed =
            if pid == 0 { CpuMask::single(CpuId(cpu)) } else { CpuMask::first(self.nr_cpus as usize) };
        if pid == 0 {
            let forked = if cpu > 0 { PF_FORKNOEXEC } else { 0 };
            object.u32(at.flags, PF_IDLE | PF_NO_SETAFFINITY | PF_KTHREAD | forked);
            object.bytes(at.on_rq, &[1]);
        }
        write_mask(mem, addr.offset(at.cpus_mask), &allowed).expect("slots are mapped");
    }

    /// Writes what changes of a task as it runs, waits and blocks.
    #[inline(never)]
    pub(crate) fn refresh(&self, task: &Task, addr: GuestAddr, mem: &mut Memory) {
        let hot = mem.array_mut::<HOT>(addr).expect("slots lie in the guest's memory");
        put(hot, offset_of!(Hot, sum_exec_runtime), task.sum_exec_runtime.0.to_le_bytes());
        put(hot, offset_of!(Hot, cpu), task.cpu.0.to_le_bytes());
        put(hot, offset_of!(Hot, state), (task.state.bits()).to_le_bytes());
        put(hot, offset_of!(Hot, flags), task.flags.to_le_bytes());
        put(hot, offset_of!(Hot, on_cpu), u8::from(task.on_cpu).to_le_bytes());
        put(hot, offset_of!(Hot, on_rq), u8::from(task.on_rq).to_le_bytes());
        put(hot, offset_of!(Hot, recent_used_cpu), task.cpu.0.to_le_bytes());
        put(hot, offset_of!(Hot, wake_cpu), task.cpu.0.to_le_bytes());
        put(hot, offset_of!(Hot, migration_disabled), (task.migration_disabled as u16).to_le_bytes());
        put(
            hot,
            offset_of!(Hot, exit_state),
            (if task.state == RunState::Dead { EXIT_DEAD } else { 0 }).to_le_bytes(),
        );
        put(hot, offset_of!(Hot, slice), task.scx.slice.to_le_bytes());
        put(hot, offset_of!(Hot, dsq_vtime), task.scx.dsq_vtime.to_le_bytes());
        put(hot, offset_of!(Hot, scx_flags), task.scx.flags.to_le_bytes());
        put(hot, offset_of!(Hot, scx_weight), task.scx.weight.to_le_bytes());
        put(hot, offset_of!(Hot, selected_cpu), (task.scx.selected_cpu as u32).to_le_bytes());
        put(
            hot,
            offset_of!(Hot, runnable_cpu),
            (if task.scx.is_waiting() { task.cpu.0 } else { u32::MAX }).to_le_bytes(),
        );
        put(hot, offset_of!(Hot, ops_state), ops_state(task).to_le_bytes());
        let jiffies = (task.scx.runnable_at + UPTIME).0 / self.jiffy;
        put(hot, offset_of!(Hot, runnable_at), jiffies.to_le_bytes());
    }

    /// Writes what changes with every run of a task and is looked at rarely: it is always written then.
    #[inline(never)]
    pub(crate) fn refresh_rare(&self, task: &Task, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        let at = &self.at;
        let mut object = Object(mem.slice_mut(addr, at.size)?);
        object.u64(at.nvcsw, task.nvcsw);
        object.u64(at.nivcsw, task.nivcsw);
        object.u64(at.utime, task.sum_exec_runtime.0);
        object.u64(at.exec_start, (task.exec_start + UPTIME).0);
        object.u64(at.nr_migrations, task.nr_migrations);
        object.bytes(at.se_on_rq, &[u8::from(task.on_rq)]);
        Ok(())
    }

    /// Writes name, priority and affinity of a task that programs know. They change only with a callback about it.
    pub(crate) fn refresh_attributes(&self, task: &Task, mem: &mut Memory) -> Result<(), Fault> {
        let Some(addr) = self.known(task.id) else { return Ok(()) };
        let at = &self.at;
        let mut object = Object(mem.slice_mut(addr, at.size)?);
        let (rt, prio) = (u32::from(task.own_rt_priority()), task.prio() as u32);
        object.u32(at.prio, prio);
        object.u32(at.normal_prio, prio);
        object.u32(at.static_prio, task.static_prio() as u32);
        object.u32(at.rt_priority, rt);
        object.u32(at.policy, policy_number(task.policy));
        object.u64(at.load_weight, u64::from(task.load_weight()) << 10);
        object.u32(at.nr_cpus_allowed, task.nr_cpus_allowed);
        let words = task.cpus_allowed.words();
        for (index, word) in words.iter().take(self.mask_words).enumerate() {
            object.u64(at.cpus_mask + index as u64 * 8, *word);
        }
        object.bytes(at.comm, &task.comm);
        Ok(())
    }

    /// Gives a dead task's slot back; returns which it was.
    pub(crate) fn remove(&mut self, task: TaskId) -> Option<u32> {
        let slot = self.slot(task)?;
        self.known.remove(task);
        self.shown = (GuestAddr::NULL, task);
        self.owner[slot as usize] = FREE;
        self.free.push(slot);
        if let Some(process) = self.processes[slot as usize].take() {
            self.mms.release(process);
        }
        Some(slot)
    }

    /// The table of descriptors that all processes share.
    pub(crate) fn fd_table(&self) -> GuestAddr {
        self.fd_table
    }

    /// The root cgroup.
    pub(crate) fn cgroup(&self) -> GuestAddr {
        self.shared.cgroup
    }

    /// The field that a store of `size` bytes at `addr` would change, if programs may change it.
    pub(crate) fn field(&self, addr: GuestAddr, size: u8) -> Option<Field> {
        let (slot, within) = self.slot_at(addr)?;
        let task = TaskId(self.owner[slot as usize]);
        match (within, size) {
            _ if task.0 == FREE => None,
            (at, 8) if task.0 == SYSTEM && (at == self.at.slice || at == self.at.dsq_vtime) => {
                Some(Field::OfSystem)
            }
            _ if task.0 == SYSTEM => None,
            (at, 8) if at == self.at.slice => Some(Field::Slice(task)),
            (at, 8) if at == self.at.dsq_vtime => Some(Field::DsqVtime(task)),
            (at, 1) if at == self.at.disallow => Some(Field::Disallow(task)),
            _ => None,
        }
    }

    /// The distance of an address from the start of its task.
    pub(crate) fn offset_in_task(&self, addr: GuestAddr) -> Option<u64> {
        self.slot_at(addr).map(|(_, within)| within)
    }

    /// Whether a program set `p->scx.disallow`.
    pub(crate) fn disallow_at(&self, addr: GuestAddr) -> GuestAddr {
        addr.offset(self.at.disallow)
    }
}

/// The start of `task_struct`: what changes as a task waits and runs, laid out as its declaration in `kernel_model` is,
/// in two cache lines from `sum_exec_runtime` on. Only the offsets are used: known to the compiler, they make
/// [`Tasks::refresh`] a row of plain stores.
#[repr(C)]
struct Hot {
    /// The rest of `se`, of which little changes and less is looked at.
    entity: [u64; 16],
    sum_exec_runtime: u64,
    thread_flags: u64,
    status: u32,
    cpu: u32,
    state: u32,
    flags: u32,
    pid: u32,
    tgid: u32,
    on_cpu: u8,
    on_rq: u8,
    blocked: [u8; 2],
    recent_used_cpu: u32,
    wake_cpu: u32,
    migration_disabled: u16,
    migration_flags: u16,
    exit_state: u32,
    slice: u64,
    dsq_vtime: u64,
    scx_flags: u32,
    scx_weight: u32,
    tid: u64,
    selected_cpu: u32,
    runnable_cpu: u32,
    ops_state: u64,
    runnable_at: u64,
}

/// Bytes of the hot part.
const HOT: usize = size_of::<Hot>();

/// The two descriptions of the hot part must agree.
fn check_hot(at: &TaskAt) {
    let pairs = [
        (at.sum_exec_runtime, offset_of!(Hot, sum_exec_runtime)),
        (at.cpu, offset_of!(Hot, cpu)),
        (at.state, offset_of!(Hot, state)),
        (at.flags, offset_of!(Hot, flags)),
        (at.on_cpu, offset_of!(Hot, on_cpu)),
        (at.on_rq, offset_of!(Hot, on_rq)),
        (at.recent_used_cpu, offset_of!(Hot, recent_used_cpu)),
        (at.wake_cpu, offset_of!(Hot, wake_cpu)),
        (at.migration_disabled, offset_of!(Hot, migration_disabled)),
        (at.exit_state, offset_of!(Hot, exit_state)),
        (at.slice, offset_of!(Hot, slice)),
        (at.dsq_vtime, offset_of!(Hot, dsq_vtime)),
        (at.scx_flags, offset_of!(Hot, scx_flags)),
        (at.scx_weight, offset_of!(Hot, scx_weight)),
        (at.selected_cpu, offset_of!(Hot, selected_cpu)),
        (at.runnable_cpu, offset_of!(Hot, runnable_cpu)),
        (at.ops_state, offset_of!(Hot, ops_state)),
        (at.runnable_at, offset_of!(Hot, runnable_at)),
    ];
    let entity = offset_of!(Hot, sum_exec_runtime);
    assert!(entity.is_multiple_of(64), "the hot members begin a cache line");
    assert!(
        at.exec_start.max(at.nr_migrations).max(at.se_on_rq) < entity as u64,
        "what is rarely looked at comes first"
    );
    assert!(at.nvcsw < at.nivcsw && at.nivcsw < at.utime && at.utime + 8 == at.size, "or last");
    for (index, (declared, here)) in pairs.into_iter().enumerate() {
        assert_eq!(declared, here as u64, "hot member {index} of task_struct is elsewhere");
    }
}

/// Stores bytes at a constant place.
#[inline(always)]
fn put<const N: usize>(hot: &mut [u8; HOT], at: usize, bytes: [u8; N]) {
    hot[at..at + N].copy_from_slice(&bytes);
}

/// `p->scx.ops_state`: the hand-over's number is there only while the scheduler gets or has the task.
fn ops_state(task: &Task) -> u64 {
    let (state, number) = (task.scx.ops_state, u64::from(task.scx.ops_qseq) << QSEQ_SHIFT);
    match state {
        OpsState::Queueing | OpsState::Queued => state as u64 | number,
        OpsState::None | OpsState::Dispatching => state as u64,
    }
}

/// `SCHED_*` numbers (include/uapi/linux/sched.h). Tasks that sched_ext runs keep the policy that they asked for.
fn policy_number(policy: Policy) -> u32 {
    match policy {
        Policy::Other => 0,
        Policy::Fifo(_) => 1,
        Policy::Rr(_) => 2,
        Policy::Batch => 3,
        Policy::Idle => 5,
    }
}

impl Shared {
    fn new(mem: &mut Memory, offsets: &Offsets) -> Result<Shared, MemoryError> {
        let mut place = |size: u64| mem.map(size, kernel_perm());
        let shared = Shared {
            cred: place(offsets.cred_size)?,
            css_set: place(offsets.css_set_size)?,
            task_group: place(offsets.task_group_size)?,
            cgroup: place(offsets.cgroup.size)?,
        };
        let kernfs = place(offsets.kernfs_size)?;
        let cgroup = shared.cgroup;
        let at = offsets.cgroup;
        let words = [
            (shared.css_set.offset(offsets.css_set_dfl_cgrp), cgroup.0),
            (shared.task_group.offset(offsets.task_group_css_cgroup), cgroup.0),
            (cgroup.offset(at.kn), kernfs.0),
            (cgroup.offset(at.self_cgroup), cgroup.0),
            (cgroup.offset(at.ancestors), cgroup.0),
            // The cpu controller, `cpu_cgrp_id`.
            (cgroup.offset(at.subsys + 8), shared.task_group.0),
            // The root cgroup's inode number.
            (kernfs.offset(offsets.kernfs_id), 1),
        ];
        for (addr, value) in words {
            mem.write_u64(addr, value).expect("just mapped");
        }
        mem.write_u32(shared.task_group.offset(offsets.task_group_weight), 100).expect("just mapped");
        mem.write_u32(shared.task_group.offset(offsets.task_group_flags), ROOT_GROUP).expect("just mapped");
        mem.write_u32(cgroup.offset(at.self_id), 1).expect("just mapped");
        Ok(shared)
    }
}

/// Run queues, and the masks that programs can point at.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    at: RqAt,
    rqs: GuestAddr,
    stride: u64,
    nr_cpus: u64,
    all: GuestAddr,
    /// Copies of the idle masks: for each node two, of CPUs and of whole cores.
    idle: GuestAddr,
    /// What programs hold as the addresses of per-CPU variables.
    runqueues: GuestAddr,
    preempt_count: GuestAddr,
    /// One word for each CPU.
    preempt_counts: GuestAddr,
}

impl Cpus {
    /// Maps and fills them.
    pub(crate) fn new(
        mem: &mut Memory,
        offsets: &Offsets,
        (nr_cpus, nr_nodes): (usize, usize),
        tasks: &Tasks,
    ) -> Result<Cpus, MemoryError> {
        let at = offsets.rq;
        let stride = at.size.next_multiple_of(64);
        let rqs = mem.map(stride * nr_cpus as u64, lazy_perm())?;
        let masks = mem.map(MASK_BYTES * (1 + 2 * nr_nodes as u64), kernel_perm())?;
        // Templates of per-CPU variables are only ever compared; a page each keeps them apart from everything.
        let templates = mem.map(128, kernel_perm())?;
        let cpus = Cpus {
            at,
            rqs,
            stride,
            nr_cpus: nr_cpus as u64,
            all: masks,
            idle: masks.offset(MASK_BYTES),
            runqueues: templates,
            preempt_count: templates.offset(64),
            preempt_counts: mem.map(4 * nr_cpus as u64, kernel_perm())?,
        };
        write_mask(mem, cpus.all, &CpuMask::first(nr_cpus)).expect("just mapped");
        for cpu in 0..nr_cpus as u32 {
            let mut object = Object(mem.slice_mut(cpus.rq(CpuId(cpu)), at.size).expect("just mapped"));
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

    /// Names of the kernel variables that programs can refer to.
    pub(crate) const KSYMS: [&'static str; 2] = ["runqueues", "__preempt_count"];

    /// The same with their addresses.
    pub(crate) fn ksyms(&self) -> [(&'static str, GuestAddr); 2] {
        let [runqueues, preempt_count] = Self::KSYMS;
        [(runqueues, self.runqueues), (preempt_count, self.preempt_count)]
    }

    /// Where a per-CPU variable is for a CPU.
    pub(crate) fn per_cpu(&self, variable: GuestAddr, cpu: CpuId) -> Option<GuestAddr> {
        if variable == self.runqueues {
            return Some(self.rq(cpu));
        }
        (variable == self.preempt_count).then(|| self.preempt_counts.offset(u64::from(cpu.0) * 4))
    }

    /// Sets a CPU's `__preempt_count`.
    pub(crate) fn set_preempt_count(&self, cpu: CpuId, count: u32, mem: &mut Memory) -> Result<(), Fault> {
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

    /// Where the copy of a node's idle mask goes; that of all nodes goes where the first one's does.
    pub(crate) fn idle_mask(&self, smt: bool, node: usize) -> GuestAddr {
        self.idle.offset((2 * node as u64 + u64::from(smt)) * MASK_BYTES)
    }

    /// Writes what can change of a run queue.
    pub(crate) fn refresh(
        &self,
        k: &Kernel,
        cpu: CpuId,
        tasks: &mut Tasks,
        mem: &mut Memory,
    ) -> Result<(), Fault> {
        let from = k.cpu(cpu);
        let curr = match from.curr {
            Some(task) if k.get_task(task).is_some() => tasks.pointer(task, k, mem)?,
            _ => tasks.idle(cpu),
        };
        let now = k.now().0;
        let at = self.at;
        let mut object = Object(mem.slice_mut(self.rq(cpu), at.size)?);
        object.u64(at.curr, curr.0);
        object.u32(at.nr_running, from.nr_running);
        object.u32(at.scx_nr_running, from.scx_nr_running);
        object.u32(at.cpuperf_target, from.cpuperf_target);
        object.u32(at.local_nr, k.local_dsq_len(cpu));
        object.bytes(at.cpu_released, &[u8::from(from.cpu_released)]);
        object.u64(at.nr_switches, from.nr_switches);
        object.u64(at.clock, now);
        object.u64(at.clock_task, now);
        object.u64(at.scx_clock, now);
        Ok(())
    }
}
