//! What belongs to a loaded object besides its code and memory.

use crate::helpers::{Messages, Rings, preempt_count};
use crate::kernel_model::Offsets;
use crate::kfunc::{self, Callee, Cids, Direct};
use crate::locks::Locks;
use crate::mirror::{Cpus, Tasks};
use crate::paths::Paths;
use crate::pool::Cpumasks;
use crate::subs::Children;
use schedlab_base::{DurationNs, Machine, TaskId};
use schedlab_bpf::btf::Btf;
use schedlab_bpf::engine::DIRECT_KFUNCS;
use schedlab_bpf::helpers::TimerCall;
use schedlab_bpf::link::{KfuncRef, Runtime};
use schedlab_bpf::object::MapType;
use schedlab_bpf::{Fault, GuestAddr, Memory, MemoryError};
use schedlab_sim::{DsqIter, EventCounters, GroupIx, Kernel, TimerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A task that is none of the run, in which a program may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The kernel thread that enables schedulers.
    Enabler,
    /// The scheduler's user space, which has no task yet.
    Loader,
}

/// The joined object's state.
#[derive(Clone)]
pub(crate) struct State {
    /// Where members of kernel objects lie.
    pub(crate) offsets: Offsets,
    /// The kernel's types, for messages about members.
    pub(crate) btf: Arc<Btf>,
    /// Tasks in guest memory.
    pub(crate) tasks: Tasks,
    /// Run queues and masks in guest memory.
    pub(crate) cpus: Cpus,
    /// Masks that programs made.
    pub(crate) cpumasks: Cpumasks,
    /// Locks that programs use.
    pub(crate) locks: Locks,
    /// Iterators over dispatch queues that the running program has made, and where.
    pub(crate) iters: Vec<(DsqIter, GuestAddr)>,
    /// By the linker's number, with what a call costs.
    pub(crate) kfuncs: Vec<(Callee, DurationNs)>,
    /// The same by slot of compiled code, whose functions know their slots.
    pub(crate) direct: [Direct; DIRECT_KFUNCS],
    /// CPUs by topological number.
    pub(crate) cids: Cids,
    /// `ops.flags`.
    pub(crate) ops_flags: u64,
    /// The scheduler is of the cid form.
    pub(crate) cid_form: bool,
    /// What a call of a helper costs, and one of a short kernel function.
    pub(crate) helper_cost: DurationNs,
    pub(crate) kfunc_cost: DurationNs,
    /// For each member of `struct scx_event_stats`, which of the simulated kernel's counters it is.
    pub(crate) event_order: Vec<Option<usize>>,
    /// Number of CPUs.
    pub(crate) nr_cpus: usize,
    /// Maps, timers and the like of the object.
    pub(crate) runtime: Runtime,
    /// What programs printed.
    pub(crate) messages: Messages,
    /// Ring buffers, which a user-space half would read.
    pub(crate) rings: Rings,
    /// The ways of callbacks, where they are followed.
    pub(crate) paths: Option<Box<Paths>>,
    /// The memory follows lines.
    pub(crate) follows_lines: bool,
    /// The object reads `__preempt_count`, so the kernel must maintain it.
    reads_preempt_count: bool,
    /// Which task outside of the run executes the program, if one does.
    pub(crate) outside: Option<Outside>,
    /// `ops.init()` has succeeded.
    pub(crate) initialized: bool,
    /// Text of the dump that has no line end yet.
    pub(crate) dump_text: String,
    /// Sub-schedulers that are attached below this one.
    pub(crate) children: Children,
}

/// The kernel's side of a state: all that does not depend on the object.
pub(crate) struct KernelState {
    pub(crate) offsets: Offsets,
    btf: Arc<Btf>,
    tasks: Tasks,
    cpus: Cpus,
    nr_cpus: usize,
}

impl KernelState {
    /// Puts the kernel's objects into guest memory.
    pub(crate) fn new(
        mem: &mut Memory,
        btf: &Arc<Btf>,
        machine: &Machine,
    ) -> Result<KernelState, MemoryError> {
        let offsets = Offsets::new(btf);
        let nr_cpus = machine.cpu_count();
        let tasks = Tasks::new(mem, &offsets, nr_cpus)?;
        let cpus = Cpus::new(mem, &offsets, machine, &tasks)?;
        Ok(KernelState { offsets, btf: btf.clone(), tasks, cpus, nr_cpus })
    }

    /// Kernel variables by name.
    pub(crate) fn ksyms(&self) -> BTreeMap<String, GuestAddr> {
        self.cpus.ksyms().map(|(name, addr)| (name.to_string(), addr)).collect()
    }

    /// Joins a linked object to it.
    ///
    /// # Panics
    /// If the linker let a kernel function through that does not exist.
    pub(crate) fn join(
        self,
        machine: &Machine,
        runtime: Runtime,
        kfuncs: &[KfuncRef],
        (ops_flags, cid_form): (u64, bool),
    ) -> State {
        let callee = |wanted: &KfuncRef| {
            let callee = kfunc::find(&wanted.name, cid_form);
            let callee = callee.expect("the linker resolves only what the model has");
            (callee, callee.what.price(&machine.costs))
        };
        let btf = self.btf;
        let events = btf.find_struct("scx_event_stats");
        let events = events.map_or(&[][..], |events| btf.members(events));
        let known = EventCounters::default().named();
        let place = |name: &str| known.iter().position(|(counter, _)| *counter == name);
        let event_order = events.iter().map(|member| place(btf.member_name(member))).collect();
        let mask = btf.find_struct("bpf_cpumask").expect("the model has bpf_cpumask");
        let usage = btf.member(mask, "usage").map_or(0, |member| member.offset());
        let mask_size = btf.size_of(mask).unwrap_or(0);
        State {
            offsets: self.offsets,
            tasks: self.tasks,
            cpus: self.cpus,
            cpumasks: Cpumasks::new(mask_size, usage),
            locks: Locks::new(),
            iters: Vec::new(),
            kfuncs: kfuncs.iter().map(callee).collect(),
            direct: kfunc::direct(cid_form, &machine.costs),
            cids: Cids::new(machine),
            ops_flags,
            cid_form,
            helper_cost: machine.costs.helper,
            kfunc_cost: machine.costs.kfunc,
            event_order,
            nr_cpus: self.nr_cpus,
            rings: Rings::new(&runtime),
            paths: None,
            runtime,
            messages: Messages::default(),
            follows_lines: false,
            reads_preempt_count: false,
            outside: None,
            initialized: false,
            dump_text: String::new(),
            children: Children::default(),
            btf,
        }
    }
}

impl State {
    /// Keeps `__preempt_count` for objects that read it.
    pub(crate) fn keep_preempt_count(&mut self, is_read: bool) {
        self.reads_preempt_count = is_read;
    }

    /// The object reads `__preempt_count`.
    pub(crate) fn reads_preempt_count(&self) -> bool {
        self.reads_preempt_count
    }

    /// Makes guest memory ready for a program.
    pub(crate) fn prepare(&mut self, k: &Kernel, mem: &mut Memory) -> Result<(), Fault> {
        if self.reads_preempt_count {
            let ctx = k.ctx();
            self.cpus.set_preempt_count(ctx.cpu, preempt_count(ctx.interrupt), mem)?;
        }
        Ok(())
    }

    /// Writes a task's saved registers: number and arguments of its system call, else -1 as after an interrupt.
    pub(crate) fn write_regs(
        &self,
        task: GuestAddr,
        call: Option<(i64, [u64; 6])>,
        mem: &mut Memory,
    ) -> Result<(), Fault> {
        let at = &self.offsets.regs;
        let (nr, args) = call.unwrap_or((-1, [0; 6]));
        let regs = self.tasks.regs(task);
        mem.write_u64(regs.offset(at.orig_ax), nr as u64)?;
        // -ENOSYS, until the call has a result.
        mem.write_u64(regs.offset(at.ax), -38i64 as u64)?;
        for (offset, value) in [at.di, at.si, at.dx, at.r10, at.r8, at.r9].into_iter().zip(args) {
            mem.write_u64(regs.offset(offset), value)?;
        }
        Ok(())
    }

    /// A task has left the scheduler or is gone: its storage and its place end.
    pub(crate) fn forget_task(&mut self, task: TaskId, mem: &mut Memory) {
        if let Some(slot) = self.tasks.remove(task, mem) {
            self.runtime.maps.storage_owner_gone(MapType::TASK_STORAGE, slot);
        }
    }

    /// A group is gone: its storage ends, and its place is free.
    pub(crate) fn forget_group(&mut self, group: GroupIx, mem: &mut Memory) {
        if let Some(place) = self.tasks.groups.remove(group, mem) {
            self.runtime.maps.storage_owner_gone(MapType::CGRP_STORAGE, place + 1);
        }
    }

    /// Whether a program that reached its exit has left something open.
    #[inline]
    pub(crate) fn left_open(&self) -> bool {
        !self.iters.is_empty() || self.locks.any_held()
    }

    /// Ends what a program left open and says what that was: a verified program leaves nothing.
    #[cold]
    pub(crate) fn close_all(&mut self, k: &mut Kernel) -> Option<Fault> {
        let iter = self.iters.first().map(|(_, at)| *at);
        for (iter, _) in self.iters.drain(..) {
            k.dsq_iter_destroy(iter);
        }
        let lock = self.locks.release_all(k);
        let what = iter.map(|at| format!("exits without destroying the iterator at {at}"));
        what.or(lock.map(|at| format!("exits with the lock at {at} held"))).map(|what| Fault::host(0, what))
    }

    /// What to run for a timer that is due.
    pub(crate) fn timer_due(&mut self, timer: TimerId, mem: &mut Memory) -> Option<TimerCall> {
        TimerCall::of(timer.0, &mut self.runtime, mem)
    }

    /// The timer's function has returned.
    pub(crate) fn timer_done(&mut self) {
        TimerCall::finished(&mut self.runtime);
    }

    /// Brings the run queue around an address up to date, if there is one: what lies there is about to be read.
    #[inline]
    pub(crate) fn freshen(&mut self, addr: GuestAddr, k: &mut Kernel, mem: &mut Memory) -> Result<(), Fault> {
        match self.cpus.around(addr) {
            Some(cpu) => self.cpus.refresh(k, cpu, &mut self.tasks, mem),
            None => Ok(()),
        }
    }

    /// Why a store to a kernel object is refused: names the field.
    #[cold]
    pub(crate) fn refuse_store(&self, addr: GuestAddr, size: u8) -> Fault {
        let Some(offset) = self.tasks.offset_in_task(addr) else {
            return Fault::host(
                0,
                format!("store of {size} bytes to a kernel object at {addr}, which is read-only"),
            );
        };
        let field = self.btf.find_struct("task_struct").and_then(|task| self.member_at(task, offset));
        let field = field.unwrap_or_else(|| format!("offset {offset}"));
        let allowed = match self.cid_form {
            true => "cid-form programs set scx.slice and scx.dsq_vtime by kernel functions only",
            false => "programs may only set scx.slice and scx.dsq_vtime",
        };
        Fault::host(0, format!("store to task_struct.{field}: {allowed}"))
    }

    /// The path of the member at a distance from the start of a struct.
    fn member_at(&self, ty: schedlab_bpf::btf::TypeId, offset: u64) -> Option<String> {
        let member =
            self.btf.members(ty).iter().rfind(|member| u64::from(member.bit_offset) / 8 <= offset)?;
        let inner = offset - u64::from(member.bit_offset) / 8;
        let name = self.btf.member_name(member).to_string();
        match self.member_at(member.ty, inner) {
            Some(rest) if name.is_empty() => Some(rest),
            Some(rest) => Some(format!("{name}.{rest}")),
            None => Some(name),
        }
    }
}
