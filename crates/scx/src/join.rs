//! A running program's view of the kernel: calls that leave the BPF machine arrive here.
//!
//! Before anything that looks at time, takes a lock or has an effect, the instructions executed so far are charged to
//! the simulated CPU; before anything reads a task or run queue, that is brought up to date.

use crate::kfunc::{Function, write_mask};
use crate::mirror::Field;
use crate::state::State;
use schedlab_base::{CpuId, TaskId};
use schedlab_bpf::{Fault, GuestAddr, Host, Memory, Vm};
use schedlab_sim::{Kernel, OpKind};
use schedlab_trace::ExitKind;

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
    /// The running callback.
    pub(crate) op: OpKind,
}

impl Join<'_> {
    /// Charges what was executed since the last time.
    #[inline]
    pub(crate) fn settle(&mut self, executed: u64) {
        self.k.charge_insns(executed - self.charged);
        self.charged = executed;
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
        self.state.tasks.task_at(GuestAddr(pointer)).filter(|task| self.k.get_task(*task).is_some())
    }

    /// As [`Join::task_of`] where the kernel itself reports a NULL task.
    #[inline]
    pub(crate) fn task_or_error(&mut self, pointer: u64, function: &str) -> Option<TaskId> {
        let task = self.living_task(pointer);
        if task.is_none() {
            self.report_no_task(pointer, function);
        }
        task
    }

    #[cold]
    fn report_no_task(&mut self, pointer: u64, function: &str) {
        let what = match pointer {
            0 => "called with NULL task".into(),
            _ => format!("{function}: no such task"),
        };
        self.k.error(ExitKind::Error, what);
    }

    /// True for an idle task or another one that is not of the run.
    pub(crate) fn is_system_task(&self, pointer: u64) -> bool {
        let addr = GuestAddr(pointer);
        self.state.tasks.slot_of_pointer(addr).is_some() && self.state.tasks.task_at(addr).is_none()
    }

    /// Where a member of the task at `pointer` lies, up to date.
    pub(crate) fn task_member(
        &mut self,
        pointer: u64,
        offset: u64,
        mem: &mut Memory,
    ) -> Result<GuestAddr, Fault> {
        let addr = GuestAddr(pointer);
        if self.state.tasks.is_task_pointer(addr) {
            let member = addr.offset(offset);
            self.state.freshen(member, false, self.k, mem)?;
            return Ok(member);
        }
        Err(no_task(pointer))
    }

    /// The pointer to a task, 0 for none.
    pub(crate) fn task_pointer(&mut self, task: Option<TaskId>, mem: &mut Memory) -> Result<u64, Fault> {
        match task {
            Some(task) => Ok(self.state.tasks.pointer(task, self.k, mem)?.0),
            None => Ok(0),
        }
    }

    /// The pointer to the task that runs on a CPU, its idle task included.
    pub(crate) fn curr_pointer(&mut self, cpu: CpuId, mem: &mut Memory) -> Result<u64, Fault> {
        match self.k.curr(cpu) {
            Some(task) => Ok(self.state.tasks.pointer(task, self.k, mem)?.0),
            None => Ok(self.state.tasks.idle(cpu).0),
        }
    }

    /// A CPU argument; a bad one is an error of the scheduler, as the kernel's `scx_cpu_valid()`.
    pub(crate) fn cpu_or_error(&mut self, arg: u64) -> Option<CpuId> {
        let cpu = arg as u32;
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

    /// Passes complete lines of the dump on; all of it when `all`.
    pub(crate) fn flush_dump(&mut self, all: bool) {
        let text = &mut self.state.dump_text;
        while let Some(end) = text.find('\n') {
            self.k.dump_line(&text[..end]);
            text.drain(..=end);
        }
        if all && !text.is_empty() {
            self.k.dump_line(text);
            text.clear();
        }
    }

    /// A pointer to a copy of an idle mask as of now (the kernel's own would go on changing); `node` -1 is all nodes.
    pub(crate) fn idle_mask_pointer(&mut self, mem: &mut Memory, smt: bool, node: i32) -> Result<u64, Fault> {
        let mut mask = if smt { self.k.idle_smtmask() } else { self.k.idle_cpumask() };
        if node >= 0 {
            for cpu in 0..self.state.nr_cpus {
                if self.k.machine().cpus[cpu].node != node as u32 {
                    mask.clear(CpuId(cpu as u32));
                }
            }
        }
        let at = self.state.cpus.idle_mask(smt);
        write_mask(mem, at, &mask)?;
        Ok(at.0)
    }

    /// The kernel's verifier does not let this happen; with its words.
    #[cold]
    fn forbidden(&self, name: &str) -> Fault {
        let op = self.k.ctx().op;
        Fault::host(
            0,
            format!("calling kernel function {name} is not allowed from {}", crate::callbacks::op_name(op)),
        )
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
        self.k.charge(self.state.kfunc_cost);
        schedlab_bpf::helpers::call(id, args, vm, self)
    }

    #[inline(always)]
    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        let callee = self.state.kfuncs[index as usize];
        self.k.charge_call(vm.insns() - self.charged, self.state.kfunc_cost);
        self.charged = vm.insns();
        let own = match callee.what {
            Function::Own(own) => own,
            Function::Generic(generic) => return generic.call(args, vm, self),
        };
        if !callee.callers.has(self.op) {
            return Err(self.forbidden(own.name()));
        }
        let r0 = (own.run)(self, args, vm);
        self.state.check_fresh(self.k, vm.mem);
        r0
    }

    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        self.state.freshen(addr, false, self.k, mem)
    }

    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.settle(vm.insns());
        match self.state.tasks.field(addr, size) {
            // The program sees its store at once; the rest of the task is as it was.
            Some(Field::Slice(task)) => {
                self.k.task_set_slice(task, value);
                vm.mem.write_u64(addr, value)
            }
            Some(Field::DsqVtime(task)) => {
                self.k.task_set_dsq_vtime(task, value);
                vm.mem.write_u64(addr, value)
            }
            Some(Field::Disallow(_)) if self.k.ctx().op == OpKind::InitTask => {
                vm.mem.write_u8(addr, value as u8)
            }
            _ => Err(self.state.refuse_store(addr, size)),
        }
    }
}
