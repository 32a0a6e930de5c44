//! A running program's view of the kernel: calls that leave the BPF machine arrive here.
//!
//! Before anything that looks at time, takes a lock or has an effect, the instructions executed so far are charged to
//! the simulated CPU. Before anything reads a run queue, that is brought up to date.

use crate::kfunc::{Callee, Function, run_direct};
use crate::mirror::Field;
use crate::state::State;
use schedlab_base::{CpuId, DurationNs, TaskId};
use schedlab_bpf::args::{Caller, MAX_TEXT, cut};
use schedlab_bpf::{Fault, GuestAddr, Host, Memory, Vm};
use schedlab_sim::{Kernel, OpKind, OpsSet};
use schedlab_trace::ExitKind;

/// Numbers of `bpf_ktime_get_ns()`, `bpf_spin_lock()` and `bpf_spin_unlock()`.
pub(crate) const KTIME_GET_NS: u32 = 5;
const SPIN_LOCK: u32 = 93;
const SPIN_UNLOCK: u32 = 94;
/// Number of the helper `bpf_task_pt_regs()`.
pub(crate) const TASK_PT_REGS: u32 = 175;

/// The simulated kernel joined to a loaded object, for the length of one program run.
pub(crate) struct Join<'k> {
    /// The kernel.
    pub(crate) k: &'k mut Kernel,
    /// What belongs to the loaded object.
    pub(crate) state: &'k mut State,
    /// Instructions of this run that are charged already.
    pub(crate) charged: u64,
    /// What calls cost that is not charged yet: it is before anything looks at time.
    pub(crate) owed: DurationNs,
    /// The running callback.
    pub(crate) op: OpKind,
}

impl Join<'_> {
    /// Charges what was executed since the last time, and what calls cost that were made meanwhile.
    #[inline]
    pub(crate) fn settle(&mut self, executed: u64) {
        debug_assert!(executed >= self.charged, "instructions are charged once");
        if executed != self.charged || self.owed != DurationNs::ZERO {
            self.settle_with(executed, DurationNs::ZERO);
        }
    }

    /// Charges the instructions and calls so far, and the `cost` of the present call.
    #[inline(always)]
    pub(crate) fn settle_with(&mut self, executed: u64, cost: DurationNs) {
        debug_assert!(executed >= self.charged, "instructions are charged once");
        self.k.charge_call(executed - self.charged, self.owed + cost);
        (self.charged, self.owed) = (executed, DurationNs::ZERO);
    }

    /// Charges what calls cost so far: a run queue that is brought up to date shows the time with it.
    pub(crate) fn settle_calls(&mut self) {
        self.k.charge(std::mem::replace(&mut self.owed, DurationNs::ZERO));
    }

    /// Charges the lines that came from other CPUs since the last time.
    #[inline(always)]
    pub(crate) fn settle_lines(&mut self, mem: &mut Memory) {
        debug_assert!(
            self.state.follows_lines || !mem.follows_lines(),
            "lines are followed from the load on"
        );
        if self.state.follows_lines {
            let moved = mem.take_moved();
            if moved > 0 {
                self.k.charge_lines(moved);
            }
        }
    }

    /// Charges a call of a helper, and with it what was executed before one that would do that next: once for both.
    #[inline(always)]
    fn settle_helper(&mut self, id: u32, executed: u64) {
        match id {
            // Short ones, besides the price of a lock.
            SPIN_LOCK | SPIN_UNLOCK => self.settle_with(executed, self.state.kfunc_cost),
            KTIME_GET_NS => self.settle_with(executed, self.state.helper_cost),
            _ => self.owed += self.state.helper_cost,
        }
    }

    /// A program calls a helper: charges that, perhaps later.
    #[inline(always)]
    pub(crate) fn enter_helper(&mut self, id: u32, vm: &mut Vm<'_>) {
        self.settle_lines(vm.mem);
        self.settle_helper(id, vm.insns());
    }

    /// Number of CPUs.
    pub(crate) fn nr_cpus(&self) -> usize {
        self.state.nr_cpus
    }

    /// The task that a pointer means; nothing for one that is gone, or of the system.
    ///
    /// # Errors
    /// A pointer that is no task's: verified programs cannot have one, except NULL by a missing check.
    #[inline]
    pub(crate) fn task_of(&self, pointer: u64) -> Result<Option<TaskId>, Fault> {
        match self.living_task(pointer) {
            None if !self.state.tasks.is_task_pointer(GuestAddr(pointer)) => Err(no_task(pointer)),
            task => Ok(task),
        }
    }

    /// The living task of the run at an address.
    #[inline]
    pub(crate) fn living_task(&self, pointer: u64) -> Option<TaskId> {
        self.state.tasks.task_at(GuestAddr(pointer)).filter(|task| self.k.lasting(*task).is_some())
    }

    /// True for an idle task or another one that is not of the run.
    pub(crate) fn is_system_task(&self, addr: GuestAddr) -> bool {
        self.state.tasks.slot_of_pointer(addr).is_some() && self.state.tasks.task_at(addr).is_none()
    }

    /// A CPU argument; a bad one is an error of the scheduler, as the kernel's `scx_cpu_valid()`.
    pub(crate) fn cpu_or_error(&mut self, cpu: u32) -> Option<CpuId> {
        if (cpu as usize) < self.state.nr_cpus {
            return Some(CpuId(cpu));
        }
        self.k.error(ExitKind::Error, format!("invalid CPU {}", cpu as i32));
        None
    }

    /// The CPU whose run queue is locked while the callback runs, if one is.
    pub(crate) fn locked_rq(&self) -> Option<CpuId> {
        self.k.ctx().rq
    }

    /// True in the dump callbacks.
    pub(crate) fn in_dump(&self) -> bool {
        matches!(self.k.ctx().op, OpKind::Dump | OpKind::DumpCpu | OpKind::DumpTask)
    }

    /// Adds a text to the dump. As in the kernel, lines may come in pieces: what is there is passed on when it ends a line or
    /// fills the buffer.
    pub(crate) fn add_to_dump(&mut self, text: &str) {
        let line = &mut self.state.dump_text;
        let room = (MAX_TEXT as usize).saturating_sub(line.len());
        debug_assert!(line.len() <= MAX_TEXT as usize, "a line of the dump has its limit");
        line.push_str(cut(text, room));
        if line.ends_with('\n') || text.len() >= room {
            self.flush_dump();
        }
    }

    /// Passes on what has been added to the dump.
    pub(crate) fn flush_dump(&mut self) {
        for line in std::mem::take(&mut self.state.dump_text).lines() {
            self.k.dump_line(line);
        }
    }

    /// A program calls a kernel function with this price: charges what was executed and the call.
    #[inline(always)]
    fn enter_kfunc(&mut self, price: DurationNs, vm: &mut Vm<'_>) {
        self.settle_lines(vm.mem);
        self.settle_with(vm.insns(), price);
        self.k.set_site(Some(vm.site()));
    }

    /// The same for the kernel function of this index, which the program may call; the function.
    #[inline(always)]
    pub(crate) fn enter_numbered(&mut self, index: u32, vm: &mut Vm<'_>) -> Result<Function, Fault> {
        let (Callee { callers, what }, price) = self.state.kfuncs[index as usize];
        self.enter_kfunc(price, vm);
        if !self.may_call(callers, vm) {
            self.check_kfunc(vm)?;
        }
        Ok(what)
    }

    /// Whether the program may call a kernel function that these callbacks may call.
    #[inline(always)]
    pub(crate) fn may_call(&self, callers: OpsSet, vm: &Vm<'_>) -> bool {
        !vm.is_locked() && callers.has(self.op)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn check_kfunc(&self, vm: &Vm<'_>) -> Result<(), Fault> {
        let index = vm.called();
        debug_assert!((index as usize) < self.state.kfuncs.len(), "the linker numbers the kernel functions");
        let (Callee { callers, what }, _) = self.state.kfuncs[index as usize];
        if vm.is_locked() {
            what.under_lock()?;
        }
        if callers.has(self.op) { Ok(()) } else { Err(self.forbidden(callers, what.name())) }
    }

    /// The kernel's verifier does not let this happen; with its words.
    #[cold]
    fn forbidden(&self, callers: OpsSet, name: &str) -> Fault {
        let place = match callers == OpsSet::EMPTY {
            true => "cid-form schedulers".into(),
            false => crate::callbacks::op_name(self.k.ctx().op),
        };
        Fault::host(0, format!("calling kernel function {name} is not allowed from {place}"))
    }
}

/// A kernel function was called with something that is no task: verified programs cannot do that.
#[cold]
fn no_task(pointer: u64) -> Fault {
    let addr = GuestAddr(pointer);
    Fault::host(0, format!("kernel function called with {addr}, which is no task_struct"))
}

impl Host for Join<'_> {
    #[inline(always)]
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.enter_helper(id, vm);
        schedlab_bpf::helpers::call(id, args, vm, self)
    }

    #[inline(always)]
    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        match self.enter_numbered(index, vm)? {
            Function::Own(own) => (own.run)(Caller::new(self, vm), args),
            Function::Generic(generic, _) => generic.call(args, vm, self),
        }
    }

    #[inline(always)]
    fn direct_kfunc<const SLOT: usize>(&mut self, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.enter_kfunc(self.state.direct[SLOT].price, vm);
        if !self.may_call(self.state.direct[SLOT].callers, vm) {
            self.check_kfunc(vm)?;
        }
        run_direct::<SLOT>(Caller::new(self, vm), args)
    }

    #[inline(always)]
    fn current_cpu(&self) -> u32 {
        self.k.ctx().cpu.0
    }

    #[inline(always)]
    fn answered(&mut self, helpers: u64) {
        debug_assert!(helpers > 0, "the code has answered a helper");
        self.owed += self.state.helper_cost * helpers;
    }

    #[inline(always)]
    fn recall(&mut self, map: u64, task: u64) -> Option<u64> {
        let found = self.state.runtime.maps.recalled(map, task)?;
        self.owed += self.state.helper_cost;
        Some(found)
    }

    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        self.settle_calls();
        self.state.freshen(addr, self.k, mem)
    }

    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.settle_lines(vm.mem);
        self.settle(vm.insns());
        let field = self.state.tasks.field(addr, size);
        match field {
            // The verifier of cid-form schedulers takes kernel functions instead.
            Some(Field::Slice(_) | Field::DsqVtime(_) | Field::OfSystem) if self.state.cid_form => {
                Err(self.state.refuse_store(addr, size))
            }
            // A task that is gone is not written.
            Some(Field::Slice(task)) if self.k.task_set_slice(task, value) => Ok(()),
            Some(Field::DsqVtime(task)) if self.k.task_set_dsq_vtime(task, value) => Ok(()),
            Some(Field::Slice(_) | Field::DsqVtime(_)) => vm.mem.write_u64(addr, value),
            // No decision depends on an idle task's slice.
            Some(Field::OfSystem) => vm.mem.write_u64(addr, value),
            Some(Field::Disallow(_)) if self.k.ctx().op == OpKind::InitTask => {
                vm.mem.write_u8(addr, value as u8)
            }
            _ => Err(self.state.refuse_store(addr, size)),
        }
    }
}
