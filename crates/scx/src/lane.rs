//! Programs in the lane: the same runs, whose commonest kernel functions act on the lane's tasks.
//!
//! The table of kernel functions stays the reference. What asks nothing of a task runs as it is; the few here act on the lane's tasks. All
//! else is done by the general core in between ([`Kernel::in_general`]).

use crate::join::{Join, KTIME_GET_NS};
use crate::kfunc::{Function, dsq_id, slot_asks_tasks};
use crate::mirror::Field;
use crate::scheduler::BpfScheduler;
use schedlab_base::{DsqId, DurationNs, TaskId};
use schedlab_bpf::engine::Engine;
use schedlab_bpf::helpers::{Env, LockKind};
use schedlab_bpf::link::Runtime;
use schedlab_bpf::{Fault, FuncId, GuestAddr, Host, Memory, Vm};
use schedlab_sim::{Kernel, OpKind};

/// Slots of the kernel functions that have a way of their own here, as the table has them.
mod slot {
    pub(super) const SELECT_CPU_DFL: usize = 0;
    pub(super) const INSERT: usize = 1;
    pub(super) const INSERT_VTIME: usize = 2;
    pub(super) const INSERT_VTIME_ARGS: usize = 3;
    pub(super) const MOVE_TO_LOCAL: usize = 4;
    pub(super) const MOVE_TO_LOCAL_V2: usize = 5;
    pub(super) const TASK_RUNNING: usize = 7;
    pub(super) const TASK_CPU: usize = 8;
    pub(super) const TASK_SET_SLICE: usize = 9;
    pub(super) const TASK_SET_DSQ_VTIME: usize = 10;
    pub(super) const CPUMASK_TEST_CPU: usize = 13;
    pub(super) const TASK_FROM_PID: usize = 16;
    pub(super) const TASK_RELEASE: usize = 17;
}

/// The kernel, whose tasks the lane has, joined to a loaded object.
pub(crate) struct LaneJoin<'k> {
    join: Join<'k>,
    /// The pointer to the task that the callback is about, which the kernel's context names.
    pointer: u64,
    /// The task that the program has looked up last, and the pointer to it.
    found: (Option<TaskId>, u64),
}

impl LaneJoin<'_> {
    /// The task that a kernel function is called with: mostly the one that the callback is about.
    #[inline(always)]
    fn task(&self, pointer: u64) -> Option<TaskId> {
        match self.join.k.ctx().op_task {
            Some(task) if pointer == self.pointer => Some(task),
            _ if pointer == self.found.1 => self.found.0,
            _ => self.other_task(pointer),
        }
    }

    #[inline(never)]
    fn other_task(&self, pointer: u64) -> Option<TaskId> {
        self.join.living_task(pointer)
    }

    /// Has the general core do something for the program.
    #[cold]
    #[inline(never)]
    fn in_general<R>(&mut self, body: impl FnOnce(&mut Join<'_>) -> R) -> R {
        let Join { k, state, charged, owed, op } = &mut self.join;
        k.in_general(|k| {
            let mut join = Join { k, state, charged: *charged, owed: *owed, op: *op };
            let result = body(&mut join);
            (*charged, *owed) = (join.charged, join.owed);
            result
        })
    }

    /// As [`Join::settle_with`].
    #[inline(always)]
    fn settle_with(&mut self, executed: u64, cost: DurationNs) {
        let join = &mut self.join;
        join.k.lane_charge_call(executed - join.charged, join.owed + cost);
        (join.charged, join.owed) = (executed, DurationNs::ZERO);
    }

    /// The kernel function of a slot where it has no way of its own. The arguments come by value: they need not be stored where it has.
    #[cold]
    #[inline(never)]
    fn direct_in_general<const SLOT: usize>(
        &mut self,
        args: [u64; 5],
        vm: &mut Vm<'_>,
    ) -> Result<u64, Fault> {
        self.in_general(|join| join.direct_kfunc::<SLOT>(&args, vm))
    }

    /// Charges what was executed and the call; nothing if the function may not be called here.
    #[inline(always)]
    fn enter<const SLOT: usize>(&mut self, vm: &Vm<'_>) -> Option<()> {
        let direct = &self.join.state.direct[SLOT];
        let (callers, price) = (direct.callers, direct.price);
        if !self.join.may_call(callers, vm) {
            return None;
        }
        self.settle_with(vm.insns(), price);
        self.join.k.set_site(Some(vm.site()));
        Some(())
    }

    /// The kernel function of a slot, where it is one of those above and called about the callback's task; else nothing, and nothing is
    /// changed.
    #[inline(always)]
    fn direct<const SLOT: usize>(&mut self, args: &[u64; 5], vm: &mut Vm<'_>) -> Option<u64> {
        let [a, b, c, d, e] = *args;
        match SLOT {
            slot::SELECT_CPU_DFL => {
                let task = self.task(a).filter(|_| is_on_stack(d, 1, vm))?;
                self.enter::<SLOT>(vm)?;
                let (cpu, idle) = self.join.k.lane_select_cpu_dfl(task, b as u32 as i32, c);
                vm.mem.write_u8(GuestAddr(d), u8::from(idle)).expect("the stack is mapped");
                Some(i64::from(cpu) as u64)
            }
            slot::INSERT => {
                let task = self.task(a)?;
                self.enter::<SLOT>(vm)?;
                Some(u64::from(self.join.k.lane_insert(task, dsq_id(&self.join, b), c, d)))
            }
            slot::INSERT_VTIME => {
                let task = self.task(a)?;
                self.enter::<SLOT>(vm)?;
                Some(u64::from(self.join.k.lane_insert_vtime(task, dsq_id(&self.join, b), c, d, e)))
            }
            slot::INSERT_VTIME_ARGS => {
                let task = self.task(a).filter(|_| is_on_stack(b, 32, vm))?;
                let bytes = vm.mem.slice(GuestAddr(b), 32).expect("the stack is mapped");
                let (words, _) = bytes.as_chunks();
                let [dsq, slice, vtime, flags] = [0, 1, 2, 3].map(|at: usize| u64::from_le_bytes(words[at]));
                self.enter::<SLOT>(vm)?;
                let dsq = dsq_id(&self.join, dsq);
                Some(u64::from(self.join.k.lane_insert_vtime(task, dsq, slice, vtime, flags)))
            }
            slot::MOVE_TO_LOCAL => {
                self.enter::<SLOT>(vm)?;
                Some(u64::from(self.join.k.lane_move_to_local(DsqId(a), 0)))
            }
            slot::MOVE_TO_LOCAL_V2 => {
                self.enter::<SLOT>(vm)?;
                Some(u64::from(self.join.k.lane_move_to_local(DsqId(a), b)))
            }
            _ => None,
        }
    }

    /// What the kernel function of a slot does whose caller is charged later, as nothing of it depends on the time.
    #[inline(always)]
    fn ready<const SLOT: usize>(&mut self, [a, b, c, d, _]: [u64; 5], vm: &Vm<'_>) -> Option<u64> {
        Some(match SLOT {
            slot::INSERT => {
                let (task, dsq) = (self.task(a)?, dsq_id(&self.join, b));
                self.join.k.set_site(Some(vm.site()));
                self.join.k.lane_insert_plain(task, dsq, c, d).then_some(1)?
            }
            slot::TASK_RUNNING => u64::from(self.join.k.lane_task_running(self.task(a)?)),
            slot::TASK_CPU => u64::from(self.join.k.lane_task_cpu(self.task(a)?).0),
            slot::TASK_SET_SLICE => {
                self.join.k.lane_set_slice(self.task(a)?, b);
                1
            }
            slot::TASK_SET_DSQ_VTIME => {
                self.join.k.lane_set_dsq_vtime(self.task(a)?, b);
                1
            }
            slot::CPUMASK_TEST_CPU if (a as u32 as usize) < self.join.state.nr_cpus => {
                let cpu = u64::from(a as u32);
                let word = vm.mem.read_u64(GuestAddr(b.wrapping_add(cpu / 64 * 8))).ok()?;
                word >> (cpu % 64) & 1
            }
            slot::TASK_FROM_PID => {
                let task = self.join.k.lane_task_by_pid(a as u32 as i32)?;
                let pointer = Some(self.join.k.lane_pointer(task)).filter(|pointer| *pointer != 0)?;
                self.found = (Some(task), pointer);
                pointer
            }
            slot::TASK_RELEASE => self.task(a).map(|_| 0)?,
            _ => return None,
        })
    }
}

/// The kernel functions that [`LaneJoin::ready`] knows.
const fn is_ready(slot: usize) -> bool {
    use slot::*;
    matches!(
        slot,
        INSERT | TASK_RUNNING..=TASK_SET_DSQ_VTIME | CPUMASK_TEST_CPU | TASK_FROM_PID | TASK_RELEASE
    )
}

/// An argument lies in the stack of the program, where nothing is to be asked and no object of the kernel can be.
#[inline(always)]
fn is_on_stack(addr: u64, len: u64, vm: &Vm<'_>) -> bool {
    let (start, size) = vm.mem.stack();
    addr.wrapping_sub(start.0) <= size - len
}

impl Host for LaneJoin<'_> {
    #[inline(always)]
    fn helper(&mut self, id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.join.enter_helper(id, vm);
        schedlab_bpf::helpers::call(id, args, vm, self)
    }

    fn kfunc(&mut self, index: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        match self.join.state.kfuncs[index as usize].0.what {
            Function::Own(own) if own.asks_tasks() => self.in_general(|join| join.kfunc(index, args, vm)),
            Function::Own(_) => self.join.kfunc(index, args, vm),
            Function::Generic(generic, _) => {
                self.join.enter_numbered(index, vm)?;
                generic.call(args, vm, self)
            }
        }
    }

    #[inline(always)]
    fn direct_kfunc<const SLOT: usize>(&mut self, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
        match self.direct::<SLOT>(args, vm) {
            Some(r0) => Ok(r0),
            None if const { !slot_asks_tasks(SLOT) } => self.join.direct_kfunc::<SLOT>(args, vm),
            None => self.direct_in_general::<SLOT>(*args, vm),
        }
    }

    #[inline(always)]
    fn ready_kfunc<const SLOT: usize>(&mut self, args: [u64; 5], vm: &Vm<'_>) -> Option<u64> {
        if const { !is_ready(SLOT) } {
            return None;
        }
        let (callers, price) = (self.join.state.direct[SLOT].callers, self.join.state.direct[SLOT].price);
        if !self.join.may_call(callers, vm) {
            return None;
        }
        let r0 = self.ready::<SLOT>(args, vm)?;
        self.join.owed += price;
        self.join.k.set_site(Some(vm.site()));
        Some(r0)
    }

    #[inline(always)]
    fn ready_helper<const ID: u32>(&mut self, vm: &Vm<'_>) -> Option<u64> {
        if ID != KTIME_GET_NS || vm.is_locked() {
            return None;
        }
        self.join.settle_with(vm.insns(), self.join.state.helper_cost);
        Some(self.join.k.now().0)
    }

    #[inline(always)]
    fn current_cpu(&self) -> u32 {
        self.join.current_cpu()
    }

    #[inline(always)]
    fn answered(&mut self, helpers: u64) {
        self.join.answered(helpers);
    }

    #[inline(always)]
    fn recall(&mut self, map: u64, task: u64) -> Option<u64> {
        self.join.recall(map, task)
    }

    fn kernel_load(&mut self, addr: GuestAddr, mem: &mut Memory) -> Result<(), Fault> {
        self.join.kernel_load(addr, mem)
    }

    fn kernel_store(&mut self, addr: GuestAddr, size: u8, value: u64, vm: &mut Vm<'_>) -> Result<(), Fault> {
        let field = self.join.state.tasks.field(addr, size);
        match field {
            Some(Field::Slice(task))
                if self.join.k.ctx().op_task == Some(task) && !self.join.state.cid_form =>
            {
                self.join.settle(vm.insns());
                self.join.k.lane_set_slice(task, value);
                Ok(())
            }
            Some(Field::DsqVtime(task))
                if self.join.k.ctx().op_task == Some(task) && !self.join.state.cid_form =>
            {
                self.join.settle(vm.insns());
                self.join.k.lane_set_dsq_vtime(task, value);
                Ok(())
            }
            _ => self.in_general(|join| join.kernel_store(addr, size, value, vm)),
        }
    }
}

/// What helpers ask touches no task, or what of one stays as it is in the lane.
impl Env for LaneJoin<'_> {
    fn runtime(&mut self) -> &mut Runtime {
        self.join.runtime()
    }

    fn freshen(&mut self, addresses: &[u64], vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.join.freshen(addresses, vm)
    }

    fn cpu(&self) -> u32 {
        self.join.cpu()
    }

    #[inline(always)]
    fn now_ns(&mut self, vm: &Vm<'_>) -> u64 {
        self.join.now_ns(vm)
    }

    fn random_u32(&mut self) -> u32 {
        self.join.random_u32()
    }

    fn current_task(&mut self, vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.join.current_task(vm)
    }

    fn current_pid_tgid(&mut self) -> u64 {
        self.join.current_pid_tgid()
    }

    fn current_uid_gid(&mut self) -> u64 {
        self.join.current_uid_gid()
    }

    fn current_comm(&mut self) -> [u8; 16] {
        self.join.current_comm()
    }

    fn read_user(&mut self, addr: u64, length: usize) -> Option<Vec<u8>> {
        self.join.read_user(addr, length)
    }

    fn task_pt_regs(&mut self, task: u64, vm: &mut Vm<'_>) -> Result<u64, Fault> {
        self.join.task_pt_regs(task, vm)
    }

    fn task_owner(&mut self, task: u64) -> Option<u32> {
        self.join.task_owner(task)
    }

    fn cgroup_owner(&mut self, cgroup: u64) -> Option<u32> {
        self.join.cgroup_owner(cgroup)
    }

    fn current_cgroup_id(&mut self) -> u64 {
        self.join.current_cgroup_id()
    }

    fn current_ancestor_cgroup_id(&mut self, level: i32) -> u64 {
        self.join.current_ancestor_cgroup_id(level)
    }

    fn per_cpu_address(&mut self, variable: u64, cpu: u32) -> Option<u64> {
        self.join.per_cpu_address(variable, cpu)
    }

    fn is_known_lock(&self, lock: GuestAddr) -> bool {
        self.join.is_known_lock(lock)
    }

    #[inline(always)]
    fn lock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.join.lock(lock, kind, vm)
    }

    #[inline(always)]
    fn unlock(&mut self, lock: GuestAddr, kind: LockKind, vm: &mut Vm<'_>) -> Result<(), Fault> {
        self.join.unlock(lock, kind, vm)
    }

    fn timer_start(&mut self, timer: u32, expires_ns: u64) {
        self.join.timer_start(timer, expires_ns);
    }

    fn timer_cancel(&mut self, timer: u32) -> bool {
        self.join.timer_cancel(timer)
    }

    fn defers_timers(&self) -> bool {
        self.join.defers_timers()
    }

    fn trace(&mut self, text: &str, insns: u64) {
        self.join.trace(text, insns);
    }

    fn jiffies(&mut self, vm: &Vm<'_>) -> u64 {
        self.join.jiffies(vm)
    }

    fn numa_node(&self) -> u32 {
        self.join.numa_node()
    }
}

impl BpfScheduler {
    /// Its callbacks run compiled, and nothing is to be done before and after each.
    pub(crate) fn may_use_lane(&self) -> bool {
        let watched = self.attended || self.interleaving.is_some() || self.priorities.is_some();
        !watched && !self.cid_form && self.engine.is_some()
    }

    /// [`schedlab_sim::SchedExt::lane_call`]. Inlined where the callback is known, so that its arguments go straight to where the
    /// program has them.
    #[inline(always)]
    pub(crate) fn call_in_lane(&mut self, k: &mut Kernel, op: OpKind, args: [u64; 3]) -> u64 {
        let Some(func) = self.ops[op as usize] else { return 0 };
        let context = self.guest.context(&args);
        let pointer = if op == OpKind::Dispatch { args[1] } else { args[0] };
        self.run_in_lane(k, func, context, pointer)
    }

    /// Runs a callback, which the kernel's context names.
    #[inline(never)]
    fn run_in_lane(&mut self, k: &mut Kernel, func: FuncId, context: u64, pointer: u64) -> u64 {
        let (op, begin) = (k.ctx().op, k.ctx().now);
        let (code, mem, budget) = (&self.image.code, &mut self.mem, self.budget);
        let Some(compiler) = &mut self.engine else { return 0 };
        let join = Join { k, state: &mut self.state, charged: 0, owed: DurationNs::ZERO, op };
        let mut host = LaneJoin { join, pointer, found: (None, 0) };
        // What is rare comes to its end elsewhere, so that the result of all others stays in registers.
        let outcome = match compiler.ready(code, mem) {
            Some(ready) => match ready.run(func, context, mem, &mut host, budget) {
                Ok(done) => {
                    let (charged, owed) = (host.join.charged, host.join.owed);
                    k.lane_charge_call(done.insns - charged, owed);
                    self.costs.add(op, done.insns, begin, k.ctx().now);
                    return if self.state.left_open() { self.left_open(k, func) } else { done.r0 };
                }
                Err(fault) => Err(fault),
            },
            None => compiler.run(code, func, &[context], mem, &mut host, budget),
        };
        let due = (host.join.charged, host.join.owed);
        self.ended(k, (func, op, begin), outcome, due)
    }
}
