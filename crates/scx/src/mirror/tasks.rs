//! Tasks in guest memory: which task has which slot, and what of a `task_struct` never changes.

use super::beside::{FILES, Mms};
use super::creds::Creds;
use super::groups::Groups;
use super::{Members, kernel_perm};
use crate::kernel_model::{Offsets, TaskAt};
use schedlab_base::{CpuId, MAX_TASKS, Nice, OfTask, ROOM_FOR_TASKS, TaskId, TaskTable};
use schedlab_bpf::{Fault, GuestAddr, Memory, MemoryError};
use schedlab_sim::{
    ENABLER_COMM, ENABLER_PID, GroupIx, Kernel, MEMBERS, Member, RR_SLICE, RunState, SHELL_PID,
    USER_SPACE_PID, Writer,
};
use schedlab_workload::ProcessId;

/// The signal that a process sends its parent when it ends.
const SIGCHLD: u32 = 17;
/// A free slot.
const FREE: u32 = u32::MAX;
/// A slot of a task that is none of the run's: an idle task or the shell.
const SYSTEM: u32 = u32::MAX - 1;

/// No task that was shown: an address without a slot, and a number that no task has.
const NOT_SHOWN: (GuestAddr, TaskId) = (GuestAddr(u64::MAX), TaskId(u32::MAX));

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
    /// Where the slots of the tasks are that programs know.
    known: TaskTable<Known>,
    /// The task that was shown to a program last, and where it is: mostly the one that its calls are about.
    /// Before, it is [`NOT_SHOWN`], whose number no task has: one comparison decides.
    shown: (GuestAddr, TaskId),
    /// A task that is on its way into a group.
    entering: Option<(TaskId, GroupIx)>,
    /// By slot: the task id, `FREE` or `SYSTEM`.
    owner: Vec<u32>,
    /// By slot: the process whose address space the task uses.
    processes: Vec<Option<ProcessId>>,
    free: Vec<u32>,
    mms: Mms,
    /// The table of descriptors, and where a `files_struct` points to it.
    fd_table: GuestAddr,
    fdt: u64,
    creds: Creds,
    /// The groups.
    pub(crate) groups: Groups,
    /// Number of idle tasks, which have the first slots; the shell follows.
    nr_cpus: u32,
    /// See [`Tasks::enabler`] and [`Tasks::early_loader`].
    enabler: Option<GuestAddr>,
    loader: Option<GuestAddr>,
    pid_nr: u64,
    /// Where a `signal_struct` counts the threads of its process, those that live and all, and an `mm_struct` its users.
    live: u64,
    nr_threads: u64,
    mm_users: u64,
    mm_owner: u64,
}

/// Where a task's slot is.
#[derive(Clone, Copy, Debug)]
struct Known {
    task: TaskId,
    addr: GuestAddr,
}

impl OfTask for Known {
    #[inline(always)]
    fn task_id(&self) -> TaskId {
        self.task
    }
}

/// Bytes from one slot to the next for a content of `size` bytes: an odd number of cache lines. The hot members are at
/// the same place of every slot; with a power of two they would share a few sets of the host's caches.
fn slot_stride(size: u64) -> u64 {
    let stride = (size.div_ceil(64) | 1) * 64;
    assert!(stride * u64::from(MAX_TASKS) <= u64::from(u32::MAX), "distances between slots fit 32 bits");
    stride
}

/// The distance of a member that the kernel keeps from the start of its task.
fn kept(path: &str) -> u64 {
    let member = MEMBERS.iter().find(|member| member.path == path);
    member.expect("the kernel keeps it").offset as u64
}

impl Tasks {
    /// Maps room for the tasks and makes those of the system.
    pub(crate) fn new(mem: &mut Memory, offsets: &Offsets, nr_cpus: usize) -> Result<Tasks, MemoryError> {
        let pid = offsets.task.size.next_multiple_of(8);
        let signal = (pid + offsets.pid_size).next_multiple_of(8);
        let regs = (signal + offsets.signal_size).next_multiple_of(8);
        let stride = slot_stride(regs + offsets.regs.size);
        let [all, room] = [MAX_TASKS, ROOM_FOR_TASKS].map(|tasks| stride * u64::from(tasks));
        let base = mem.map_first(all, room, kernel_perm())?;
        let mms = Mms::new(mem, offsets)?;
        let creds = Creds::new(mem, offsets)?;
        let groups = Groups::new(mem, offsets)?;
        let mut tasks = Tasks {
            at: offsets.task,
            pid,
            signal,
            regs,
            base,
            stride,
            known: TaskTable::new(),
            shown: NOT_SHOWN,
            owner: Vec::new(),
            processes: Vec::new(),
            free: Vec::new(),
            mms,
            fd_table: mem.map(offsets.files.table_size, kernel_perm())?,
            fdt: offsets.files.fdt,
            creds,
            groups,
            entering: None,
            nr_cpus: nr_cpus as u32,
            enabler: None,
            loader: None,
            pid_nr: offsets.pid_nr,
            live: offsets.signal_live,
            nr_threads: offsets.signal_nr_threads,
            mm_users: offsets.mm_users,
            mm_owner: offsets.mm_owner,
        };
        for cpu in 0..tasks.nr_cpus {
            tasks.add_system(mem, &format!("swapper/{cpu}"), 0);
        }
        tasks.add_system(mem, "sh", SHELL_PID);
        Ok(tasks)
    }

    /// The tables of tasks and address spaces: where they begin, and how many bytes of them were ever filled.
    pub(crate) fn filled(&self) -> [(GuestAddr, u64); 2] {
        [(self.base, self.stride * self.owner.len() as u64), self.mms.filled()]
    }

    fn address(&self, slot: u32) -> GuestAddr {
        debug_assert!(slot < ROOM_FOR_TASKS, "the slot is one of the table");
        self.base.offset(u64::from(slot) * self.stride)
    }

    /// The idle task of a CPU.
    pub(crate) fn idle(&self, cpu: CpuId) -> GuestAddr {
        debug_assert!(cpu.0 < self.nr_cpus, "each CPU has an idle task");
        self.address(cpu.0)
    }

    /// The shell, parent of all tasks that have none in the run.
    pub(crate) fn shell(&self) -> GuestAddr {
        self.address(self.nr_cpus)
    }

    /// The kernel thread that enables schedulers, in which `ops.init()` runs. Its record is made when a program first asks for it.
    ///
    /// # Errors
    /// None: slots are mapped.
    pub(crate) fn enabler(&mut self, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        if let Some(addr) = self.enabler {
            return Ok(addr);
        }
        let addr = self.add_system(mem, ENABLER_COMM, ENABLER_PID);
        k.show_kernel_thread(&mem.share(addr)?);
        self.enabler = Some(addr);
        Ok(addr)
    }

    /// The scheduler's user space while it has no task yet, as programs find it that it runs.
    ///
    /// # Errors
    /// None: slots are mapped.
    pub(crate) fn early_loader(&mut self, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        if let Some(addr) = self.loader {
            return Ok(addr);
        }
        let addr = self.add_system(mem, "loader", USER_SPACE_PID);
        k.show_shell(&mem.share(addr)?);
        self.loader = Some(addr);
        Ok(addr)
    }

    /// The saved registers of a task at this address.
    pub(crate) fn regs(&self, task: GuestAddr) -> GuestAddr {
        task.offset(self.regs)
    }

    /// The CPU whose idle task an address lies in.
    pub(crate) fn idle_around(&self, addr: GuestAddr) -> Option<CpuId> {
        let (slot, _) = self.slot_at(addr)?;
        (slot < self.nr_cpus).then_some(CpuId(slot))
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

    /// The task that a pointer means: nothing for one that is gone or belongs to the system. For the address of [`NOT_SHOWN`], a
    /// number that no task has.
    #[inline]
    pub(crate) fn task_at(&self, addr: GuestAddr) -> Option<TaskId> {
        let (shown, task) = self.shown;
        if addr == shown {
            return Some(task);
        }
        let (slot, within) = self.slot_at(addr)?;
        let owner = self.owner[slot as usize];
        (within == 0 && owner < SYSTEM).then_some(TaskId(owner))
    }

    /// True for a pointer to a slot, whichever task has it.
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
        self.known.get(task).map(|known| known.addr)
    }

    /// The address of a task, if a program was called about it last.
    #[inline]
    pub(crate) fn shown(&self, task: TaskId) -> Option<GuestAddr> {
        let (addr, shown) = self.shown;
        debug_assert!(task != NOT_SHOWN.1, "a task has a number of its own");
        (shown == task).then_some(addr)
    }

    /// A program is called about the task at this address.
    #[inline]
    pub(crate) fn show(&mut self, task: TaskId, addr: GuestAddr) {
        debug_assert!(self.slot_at(addr).is_some(), "a task that programs see has a slot");
        self.shown = (addr, task);
    }

    /// The address of a task; makes it known if it is not.
    ///
    /// # Errors
    /// When more tasks live than there are slots.
    #[inline]
    pub(crate) fn pointer(
        &mut self,
        task: TaskId,
        k: &mut Kernel,
        mem: &mut Memory,
    ) -> Result<GuestAddr, Fault> {
        match self.known(task) {
            Some(addr) => Ok(addr),
            None => self.make_known(task, k, mem),
        }
    }

    #[inline(never)]
    fn make_known(&mut self, task: TaskId, k: &mut Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        // The task that runs may be forking this one: the parent comes first.
        if let Some(current) = k.ctx().current.filter(|current| *current != task) {
            self.pointer(current, k, mem)?;
        }
        if k.is_flat() {
            return k.in_general(|k| self.make_known(task, k, mem));
        }
        if k.get_task(task).is_none_or(|task| task.state == RunState::Dead) {
            // Gone already, and its slot given back: a program that asks finds its parent, the
            // shell.
            return Ok(self.shell());
        }
        for elder in self.unknown_elders(task, k) {
            self.pointer(elder, k, mem)?;
        }
        let addr = self.add(task, k, mem)?;
        k.show_task(task, mem.share(addr)?);
        Ok(addr)
    }

    /// The leader and the parent of a new task, and theirs, as far as programs do not know them yet. The eldest is first.
    fn unknown_elders(&self, task: TaskId, k: &Kernel) -> Vec<TaskId> {
        let elder = |of: &TaskId| {
            let entry = k.lasting(*of)?;
            let leader = k.task_by_pid(entry.tgid).filter(|leader| *leader != *of);
            let next = leader.or(entry.parent)?;
            let lives = k.lasting(next).is_some_and(|next| next.state != RunState::Dead);
            (lives && self.known(next).is_none()).then_some(next)
        };
        let mut line: Vec<TaskId> = std::iter::successors(elder(&task), elder).collect();
        line.reverse();
        line
    }

    /// A known task follows the kernel from now on, which it did not while it belonged to another scheduler.
    pub(crate) fn show_again(&self, task: TaskId, k: &mut Kernel, mem: &mut Memory) -> Result<(), Fault> {
        if let Some(addr) = self.known(task) {
            k.show_task(task, mem.share(addr)?);
        }
        Ok(())
    }

    fn claim(&mut self, owner: u32) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            debug_assert_eq!(self.owner[slot as usize], FREE, "a free slot has no owner");
            self.owner[slot as usize] = owner;
            return Some(slot);
        }
        let slot = self.owner.len() as u32;
        (slot < ROOM_FOR_TASKS).then(|| {
            self.owner.push(owner);
            self.processes.push(None);
            slot
        })
    }

    /// Gives a living task a slot and writes what never changes of it.
    fn add(&mut self, task: TaskId, k: &Kernel, mem: &mut Memory) -> Result<GuestAddr, Fault> {
        debug_assert!(self.known.get(task).is_none(), "a task has one slot");
        let task = k.task(task);
        let leader = match task.tgid == task.pid {
            true => None,
            false => k.task_by_pid(task.tgid).and_then(|leader| self.known(leader)),
        };
        let parent = task.parent.and_then(|parent| self.known(parent)).unwrap_or(self.address(self.nr_cpus));
        let slot = self
            .claim(task.id.0)
            .ok_or_else(|| Fault::unsupported(format!("more than {ROOM_FOR_TASKS} tasks at once")))?;
        let addr = self.address(slot);
        self.known.insert(Known { task: task.id, addr });
        let (mut mm, mut files) = (GuestAddr::NULL, GuestAddr::NULL);
        debug_assert!(self.processes[slot as usize].is_none(), "a new slot has no process");
        if !task.is_kthread() {
            mm = self.mms.acquire(task.process);
            files = mm.offset(FILES);
            mem.write_u64(files.offset(self.fdt), self.fd_table.0)?;
            self.processes[slot as usize] = Some(task.process);
        }
        let at = self.at;
        self.write_fixed(mem, addr, task.pid, task.tgid)?;
        // Threads have the signals of their leader.
        let signal = leader.unwrap_or(addr).offset(self.signal);
        let is_leader = leader.is_none();
        self.count_threads(mem, signal, mm, |now| if is_leader { 1 } else { now + 1 })?;
        if mm != GuestAddr::NULL && is_leader {
            mem.write_u64(mm.offset(self.mm_owner), addr.0)?;
        }
        let (slice, jiffies) = (k.fair_slice(task.id), RR_SLICE.0 / k.machine().tick_period().0);
        let group = k.task_group(task.id);
        let (task_group, css_set) = self.groups.of_tasks(group);
        let cred = self.creds.of(task.uid, task.gid, mem)?;
        let mut object = Members(mem.slice_mut(addr, at.size)?);
        object.u64(at.cred, cred.0);
        object.u64(at.real_cred, cred.0);
        object.u64(at.cgroups, css_set.0);
        object.u64(at.sched_task_group, task_group.0);
        // `set_task_rq()`: each group on the way to the root is an entity.
        object.u32(at.se_depth, k.groups().get(group).level);
        object.u64(at.tid, task.scx.tid);
        object.u64(at.signal, signal.0);
        // A thread that ends sends no signal.
        object.u32(at.exit_signal, if leader.is_some() { u32::MAX } else { SIGCHLD });
        object.u32(at.rt_time_slice, jiffies as u32);
        object.u64(at.se_slice, slice);
        // `init_entity_runnable_average()`: that of nice 0, which the fair class changes when it runs the task.
        object.u64(at.load_avg, u64::from(Nice::ZERO.load_weight()));
        object.u64(at.mm, mm.0);
        object.u64(at.active_mm, mm.0);
        object.u64(at.files, files.0);
        object.u64(at.real_parent, parent.0);
        object.u64(at.parent, parent.0);
        object.u64(at.group_leader, leader.unwrap_or(addr).0);
        object.u64(at.start_time, (task.start_time + k.uptime()).0);
        object.u64(at.start_boottime, (task.start_time + k.uptime()).0);
        object.bytes(at.comm, &task.comm);
        Ok(addr)
    }

    /// Changes the number of threads of a process.
    fn count_threads(
        &self,
        mem: &mut Memory,
        signal: GuestAddr,
        mm: GuestAddr,
        change: impl Fn(u32) -> u32,
    ) -> Result<(), Fault> {
        let users = (mm != GuestAddr::NULL).then(|| mm.offset(self.mm_users));
        let counts = [signal.offset(self.live), signal.offset(self.nr_threads)];
        for at in counts.into_iter().chain(users) {
            let now = mem.read_u32(at)?;
            mem.write_u32(at, change(now))?;
        }
        Ok(())
    }

    /// The members that every task has and that never change.
    fn write_fixed(&self, mem: &mut Memory, addr: GuestAddr, pid: i32, tgid: i32) -> Result<(), Fault> {
        let at = self.at;
        debug_assert!(at.size <= self.stride, "the object fits into its slot");
        let whole = mem.slice_mut(addr, self.stride)?;
        whole.fill(0);
        let mut object = Members(whole);
        object.u32(at.pid, pid as u32);
        object.u32(at.tgid, tgid as u32);
        object.u64(at.cpus_ptr, addr.offset(at.cpus_mask).0);
        object.u64(at.thread_pid, addr.offset(self.pid).0);
        object.u64(at.signal, addr.offset(self.signal).0);
        object.u64(at.stack, addr.offset(self.regs).0);
        object.u64(at.cred, self.creds.root.0);
        object.u64(at.real_cred, self.creds.root.0);
        let (task_group, css_set) = self.groups.of_tasks(GroupIx::ROOT);
        object.u64(at.cgroups, css_set.0);
        object.u64(at.sched_task_group, task_group.0);
        object.u32(at.sticky_cpu, u32::MAX);
        object.u32(at.holding_cpu, u32::MAX);
        object.u32(self.pid + self.pid_nr, pid as u32);
        Ok(())
    }

    fn add_system(&mut self, mem: &mut Memory, name: &str, pid: i32) -> GuestAddr {
        let slot = self.claim(SYSTEM).expect("the system's tasks have room");
        let addr = self.address(slot);
        let at = self.at;
        self.write_fixed(mem, addr, pid, pid).expect("slots are mapped");
        let mut object = Members(mem.slice_mut(addr, at.size).expect("slots are mapped"));
        object.bytes(at.comm, name.as_bytes());
        object.u64(at.group_leader, addr.0);
        let first = self.base.0;
        object.u64(at.parent, first);
        object.u64(at.real_parent, first);
        addr
    }

    /// Hands the idle tasks and the shell to the kernel, which keeps them from now on.
    ///
    /// # Errors
    /// None: slots are mapped.
    pub(crate) fn show_system(&self, k: &mut Kernel, mem: &mut Memory) -> Result<(), Fault> {
        for cpu in (0..self.nr_cpus).map(CpuId) {
            k.show_idle_task(cpu, mem.share(self.idle(cpu))?);
        }
        k.show_shell(&mem.share(self.shell())?);
        Ok(())
    }

    /// Gives a dead task's slot back; returns which it was.
    pub(crate) fn remove(&mut self, task: TaskId, mem: &mut Memory) -> Option<u32> {
        let slot = self.slot(task)?;
        let addr = self.address(slot);
        debug_assert_eq!(self.owner[slot as usize], task.0, "the slot is the task's");
        let pointer = |at: u64| mem.read_u64(addr.offset(at)).map(GuestAddr);
        if let (Ok(signal), Ok(mm)) = (pointer(self.at.signal), pointer(self.at.mm))
            && signal != addr.offset(self.signal)
        {
            // A leader's counts go with its slot.
            let counted = self.count_threads(mem, signal, mm, |now| now.saturating_sub(1));
            debug_assert!(counted.is_ok(), "slots are mapped");
        }
        self.known.remove(task);
        self.shown = NOT_SHOWN;
        self.owner[slot as usize] = FREE;
        debug_assert!(!self.free.contains(&slot), "a slot becomes free once");
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

    /// A task belongs to another group than the one that its scheduler has it in, until [`Tasks::moved`] or the end of its fork.
    pub(crate) fn enters(&mut self, task: TaskId, group: GroupIx, mem: &mut Memory) {
        self.entering = Some((task, group));
        let Some(addr) = self.known(task) else { return };
        let (_, css_set) = self.groups.of_tasks(group);
        mem.write_u64(addr.offset(self.at.cgroups), css_set.0).expect("slots are mapped");
    }

    /// The scheduler has a task that programs know in another group, so many levels below the root.
    pub(crate) fn moved(&mut self, task: TaskId, group: GroupIx, level: u32, mem: &mut Memory) {
        self.entering = None;
        let Some(addr) = self.known(task) else { return };
        let (task_group, css_set) = self.groups.of_tasks(group);
        let mut object = Members(mem.slice_mut(addr, self.at.size).expect("slots are mapped"));
        object.u64(self.at.cgroups, css_set.0);
        object.u64(self.at.sched_task_group, task_group.0);
        object.u32(self.at.se_depth, level);
    }

    /// The group that a task belongs to, where that is another one than the scheduler's.
    pub(crate) fn entering(&self, task: TaskId) -> Option<GroupIx> {
        self.entering.filter(|(entering, _)| *entering == task).map(|(_, group)| group)
    }

    /// The `cgroup` of the task at this address: that of the scheduler, which its `sched_task_group` has.
    pub(crate) fn cgroup_of(&self, task: GuestAddr, mem: &Memory) -> Result<GuestAddr, Fault> {
        let task_group = GuestAddr(mem.read_u64(task.offset(self.at.sched_task_group))?);
        let group = self.groups.css_at(task_group).map_or(GroupIx::ROOT, |css| css.group);
        Ok(self.groups.cgroup(group))
    }

    /// The field that a store of `size` bytes at `addr` would change, if programs may change it.
    pub(crate) fn field(&self, addr: GuestAddr, size: u8) -> Option<Field> {
        let (slot, within) = self.slot_at(addr)?;
        let owner = self.owner[slot as usize];
        if owner == FREE {
            return None;
        }
        let task = TaskId(owner);
        if owner < SYSTEM && within == self.at.disallow && size == 1 {
            return Some(Field::Disallow(task));
        }
        let meant = |member: &&Member| member.offset as u64 == within && member.size == usize::from(size);
        match MEMBERS.iter().find(meant)?.writer {
            Writer::Kernel => None,
            _ if owner == SYSTEM => Some(Field::OfSystem),
            Writer::ProgramSlice => Some(Field::Slice(task)),
            Writer::ProgramVtime => Some(Field::DsqVtime(task)),
        }
    }

    /// Whether what lies at `task`, the remains of one that is gone, was on a CPU, and on which.
    pub(crate) fn remains(&self, task: GuestAddr, mem: &Memory) -> (bool, u32) {
        let on_cpu = mem.read_u8(task.offset(kept(".on_cpu"))).unwrap_or(0);
        (on_cpu != 0, mem.read_u32(task.offset(kept(".thread_info.cpu"))).unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_model;
    use schedlab_sim::TASK_BYTES;

    #[test]
    fn the_kernel_keeps_members_where_the_types_have_them() {
        let btf = kernel_model::build(std::iter::empty());
        let task = btf.find_struct("task_struct").expect("the model has tasks");
        for member in MEMBERS {
            let place = btf.at_path(task, member.path).expect("the member exists");
            assert_eq!(place.offset(), member.offset as u64, "{}", member.path);
            let declared = btf.size_of(place.ty).expect("a complete type");
            let is_array = member.path == ".cpus_mask";
            assert!(declared == member.size as u64 || is_array, "{}: {declared}", member.path);
        }
        assert_eq!(btf.size_of(task), Some(TASK_BYTES as u64));
    }
}
