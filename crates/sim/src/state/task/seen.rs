//! What programs see of a task: each member of its `task_struct` that changes by itself, and the one way to change it.
//!
//! A task is shown to programs as a record in memory of theirs ([`Kernel::show_task`]). The members here are private to
//! [`Task`], to be read by all and changed by the functions of this file alone. These write each change to that record at
//! once: what a program reads there is what the kernel has, whenever it looks.

pub(crate) mod flat;

use super::SchedClass;
use super::{OpsState, RunState, ScxEntity, Task};
use crate::flags::{PF_FORKNOEXEC, PF_KTHREAD, SCX_DSQ_INVALID, SCX_SLICE_DFL};
use crate::state::kernel::Kernel;
use schedlab_base::{
    CpuId, CpuMask, DsqId, DurationNs, MAX_CPUS, Nice, Place, Policy, Shared, TaskId, TimeNs,
};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of a `task_struct` as the simulated kernel lays it out.
pub const TASK_BYTES: usize = AFTER_MASK + 232;
/// Where `cpus_mask` ends.
const AFTER_MASK: usize = 336 + MAX_CPUS / 8;
/// `EXIT_DEAD`, the state of a thread that is gone, and `EXIT_ZOMBIE`, that of a process, whose parent has to take note.
const EXIT_DEAD: u32 = 0x10;
const EXIT_ZOMBIE: u32 = 0x20;
/// `PF_IDLE`, the flag of idle tasks.
const PF_IDLE: u32 = 2;
/// `PF_NO_SETAFFINITY`, another one of theirs.
const PF_NO_SETAFFINITY: u32 = 0x0400_0000;
/// `TASK_ON_RQ_MIGRATING`: between two run queues.
const TASK_ON_RQ_MIGRATING: u8 = 2;
/// `TASK_WAKING`, the state of a task for which a wakeup selects a CPU.
const TASK_WAKING: u32 = 0x200;
/// `SCX_OPSS_QSEQ_SHIFT`.
const QSEQ_SHIFT: u32 = 2;

/// What may change a member besides the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Nothing.
    Kernel,
    /// Programs, as `scx_bpf_task_set_slice()` does.
    ProgramSlice,
    /// Programs, as `scx_bpf_task_set_dsq_vtime()` does.
    ProgramVtime,
}

/// A member of `task_struct` that the kernel keeps.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The member's path in C.
    pub path: &'static str,
    /// The member's distance from the start, in bytes.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// What may change it.
    pub writer: Writer,
}

macro_rules! members {
    ($($name:ident: $number:ty, $offset:expr, $path:literal, $writer:ident;)*) => {
        $(const $name: Place<$number, TASK_BYTES> = Place::new($offset);)*

        /// The members of `task_struct` that the kernel keeps true, the masks and names of a task besides.
        pub const MEMBERS: &[Member] = &[$(Member {
            path: $path,
            offset: $name.offset(),
            size: size_of::<$number>(),
            writer: Writer::$writer,
        }),*];
    };
}

members! {
    EXEC_START: u64, 0, ".se.exec_start", Kernel;
    NR_MIGRATIONS: u64, 8, ".se.nr_migrations", Kernel;
    SE_ON_RQ: u8, 16, ".se.on_rq", Kernel;
    LOAD_WEIGHT: u64, 40, ".se.load.weight", Kernel;
    LOAD_INV_WEIGHT: u32, 48, ".se.load.inv_weight", Kernel;
    SUM_EXEC_RUNTIME: u64, 128, ".se.sum_exec_runtime", Kernel;
    CPU: u32, 148, ".thread_info.cpu", Kernel;
    STATE: u32, 152, ".__state", Kernel;
    FLAGS: u32, 156, ".flags", Kernel;
    ON_CPU: u8, 168, ".on_cpu", Kernel;
    ON_RQ: u8, 169, ".on_rq", Kernel;
    IS_BLOCKED: u8, 170, ".is_blocked", Kernel;
    RECENT_USED_CPU: u32, 172, ".recent_used_cpu", Kernel;
    WAKE_CPU: u32, 176, ".wake_cpu", Kernel;
    MIGRATION_DISABLED: u16, 180, ".migration_disabled", Kernel;
    EXIT_STATE: u32, 184, ".exit_state", Kernel;
    SLICE: u64, 192, ".scx.slice", ProgramSlice;
    DSQ_VTIME: u64, 200, ".scx.dsq_vtime", ProgramVtime;
    SCX_FLAGS: u32, 208, ".scx.flags", Kernel;
    SCX_WEIGHT: u32, 212, ".scx.weight", Kernel;
    SELECTED_CPU: u32, 224, ".scx.selected_cpu", Kernel;
    RUNNABLE_CPU: u32, 228, ".scx.runnable_cpu", Kernel;
    OPS_STATE: u64, 232, ".scx.ops_state", Kernel;
    RUNNABLE_AT: u64, 240, ".scx.runnable_at", Kernel;
    DDSP_DSQ_ID: u64, 264, ".scx.ddsp_dsq_id", Kernel;
    DDSP_ENQ_FLAGS: u64, 272, ".scx.ddsp_enq_flags", Kernel;
    PRIO: u32, 280, ".prio", Kernel;
    STATIC_PRIO: u32, 284, ".static_prio", Kernel;
    NORMAL_PRIO: u32, 288, ".normal_prio", Kernel;
    RT_PRIORITY: u32, 292, ".rt_priority", Kernel;
    POLICY: u32, 296, ".policy", Kernel;
    NR_CPUS_ALLOWED: u32, 300, ".nr_cpus_allowed", Kernel;
    CPUS_MASK: u64, 336, ".cpus_mask", Kernel;
    NVCSW: u64, AFTER_MASK + 200, ".nvcsw", Kernel;
    NIVCSW: u64, AFTER_MASK + 208, ".nivcsw", Kernel;
    UTIME: u64, AFTER_MASK + 216, ".utime", Kernel;
}

/// What programs see of a task, besides its sched_ext part and what never changes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Seen {
    /// Where it is in its life.
    pub state: RunState,
    /// On a run queue (`on_rq`), running included.
    pub on_rq: bool,
    /// Running at present (`on_cpu`).
    pub on_cpu: bool,
    /// Real-time priority lent by a waiter of a mutex that it holds; 0 without.
    pub boost: u8,
    /// The CPU whose run queue it is on, or was on last.
    pub cpu: CpuId,
    /// The number of CPUs it may use.
    pub nr_cpus_allowed: u32,
    /// Depth of `migrate_disable()`.
    pub migration_disabled: u32,
    /// `PF_*`.
    pub flags: u32,
    /// Since when the running task has not been charged.
    pub exec_start: TimeNs,
    /// CPU time used, as of the last update (tick or switch).
    pub sum_exec_runtime: DurationNs,
    /// Changes of CPU.
    pub nr_migrations: u64,
    /// Voluntary switches.
    pub nvcsw: u64,
    /// Involuntary switches.
    pub nivcsw: u64,
    /// The task's nice value.
    pub nice: Nice,
    /// The weight that the fair class keeps for it (`se.load`, unscaled): that of the last time that it was not sched_ext's.
    pub se_weight: u32,
    /// The task's scheduling policy.
    pub policy: Policy,
    /// The CPUs it may use.
    pub cpus_allowed: Arc<CpuMask>,
}

/// What programs see of the sched_ext part.
#[derive(Clone, Copy, Debug)]
pub struct ScxSeen {
    /// `SCX_TASK_*`, state bits included.
    pub flags: u32,
    /// 1 to 10000, 100 is nice 0.
    pub weight: u32,
    /// Remaining slice in ns; [`crate::flags::SCX_SLICE_INF`] never ends.
    pub slice: u64,
    /// Order key of priority queues.
    pub dsq_vtime: u64,
    /// Where it stands between core and scheduler.
    pub ops_state: OpsState,
    /// Sequence number of the last hand-over; 0 before the first.
    pub ops_qseq: u32,
    /// Since when it waits for a CPU.
    pub runnable_at: TimeNs,
    /// Order of becoming runnable, for dumps and bypass; 0 while it does not wait.
    pub runnable_seq: u64,
    /// What `ops.select_cpu()` answered last.
    pub selected_cpu: i32,
    /// Where it was dispatched directly and is to go; [`crate::flags::SCX_DSQ_INVALID`] without that.
    pub ddsp_dsq_id: DsqId,
    /// `SCX_ENQ_*` of that dispatch.
    pub ddsp_enq_flags: u64,
}

impl Deref for Task {
    type Target = Seen;

    #[inline(always)]
    fn deref(&self) -> &Seen {
        &self.seen
    }
}

impl Deref for ScxEntity {
    type Target = ScxSeen;

    #[inline(always)]
    fn deref(&self) -> &ScxSeen {
        &self.seen
    }
}

/// Where programs see a task.
#[derive(Clone, Debug)]
pub(crate) struct View {
    record: Shared<TASK_BYTES>,
    /// Length of a jiffy in ns.
    jiffy: u64,
    /// How long the kernel had been up when the run began.
    uptime: DurationNs,
}

impl View {
    /// Nowhere: no program knows the task.
    pub(crate) fn none() -> View {
        View { record: Shared::unseen(), jiffy: 1, uptime: DurationNs::ZERO }
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
        Policy::Deadline(_) => 6,
        Policy::Ext => 7,
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($path:ident).+: $ty:ty) { $($member:ident = $number:expr;)+ })*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(&mut self, value: $ty) {
            self.$($path).+ = value;
            $(self.view.record.set($member, ($number)(value));)+
        }
    )* };
}

impl Task {
    setters! {
        /// Whether it runs.
        set_on_cpu(seen.on_cpu: bool) { ON_CPU = u8::from; }
        /// `PF_*`.
        set_flags(seen.flags: u32) { FLAGS = |number| number; }
        /// `SCX_TASK_*`.
        set_scx_flags(scx.seen.flags: u32) { SCX_FLAGS = |number| number; }
        /// The weight that sched_ext gives it.
        set_scx_weight(scx.seen.weight: u32) { SCX_WEIGHT = |number| number; }
        /// The remaining slice.
        set_slice(scx.seen.slice: u64) { SLICE = |number| number; }
        /// The key of priority queues.
        set_dsq_vtime(scx.seen.dsq_vtime: u64) { DSQ_VTIME = |number| number; }
        /// The answer of `ops.select_cpu()`.
        set_selected_cpu(scx.seen.selected_cpu: i32) { SELECTED_CPU = i32::cast_unsigned; }
        /// The target of a direct dispatch.
        set_ddsp_dsq_id(scx.seen.ddsp_dsq_id: DsqId) { DDSP_DSQ_ID = |id: DsqId| id.0; }
        /// The flags of a direct dispatch.
        set_ddsp_enq_flags(scx.seen.ddsp_enq_flags: u64) { DDSP_ENQ_FLAGS = |number| number; }
    }

    /// Where it is in its life.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, state: RunState) {
        debug_assert!(self.state != RunState::Dead || state == RunState::Dead, "the dead stay dead");
        self.seen.state = state;
        self.view.record.set(STATE, state.bits());
        if state == RunState::Dead {
            let is_leader = self.pid == self.tgid;
            self.view.record.set(EXIT_STATE, if is_leader { EXIT_ZOMBIE } else { EXIT_DEAD });
        }
    }

    /// Whether it is on a run queue.
    #[inline(always)]
    pub(crate) fn set_on_rq(&mut self, value: bool) {
        self.seen.on_rq = value;
        self.show_on_rq();
    }

    /// The task is about to be on a run queue: programs see that when its class has put it there.
    #[inline(always)]
    pub(crate) fn begin_activation(&mut self) {
        debug_assert!(!self.seen.on_rq, "a task is activated once");
        self.seen.on_rq = true;
    }

    /// Shows whether it is on a run queue, and on one of the fair class.
    #[inline(always)]
    pub(crate) fn show_on_rq(&mut self) {
        let migrating = if self.migrating { TASK_ON_RQ_MIGRATING } else { u8::from(self.on_rq) };
        self.view.record.set(ON_RQ, migrating);
        self.view.record.set(SE_ON_RQ, u8::from(self.on_rq && self.class == SchedClass::Fair));
    }

    /// `try_to_block_task()`: it leaves its run queue to sleep (kernel/sched/core.c, 7.3).
    #[inline(always)]
    pub(crate) fn show_blocked(&mut self) {
        self.view.record.set(IS_BLOCKED, 1);
    }

    /// `try_to_wake_up()`: a CPU is selected for it, and it is put there.
    #[inline(always)]
    pub(crate) fn show_waking(&mut self) {
        self.view.record.set(STATE, TASK_WAKING);
    }

    /// `ttwu_do_wakeup()`.
    #[inline(always)]
    pub(crate) fn set_woken(&mut self) {
        debug_assert!(self.state != RunState::Dead, "the dead are not woken");
        self.set_state(RunState::Runnable);
        self.view.record.set(IS_BLOCKED, 0);
    }

    /// Sets some of `SCX_TASK_*`.
    #[inline(always)]
    pub(crate) fn add_scx_flags(&mut self, flags: u32) {
        self.set_scx_flags(self.scx.flags | flags);
    }

    /// Clears some of `SCX_TASK_*`.
    #[inline(always)]
    pub(crate) fn drop_scx_flags(&mut self, flags: u32) {
        self.set_scx_flags(self.scx.flags & !flags);
    }

    /// The CPU that it belongs to.
    #[inline(always)]
    pub(crate) fn set_cpu(&mut self, cpu: CpuId) {
        debug_assert!((cpu.0 as usize) < MAX_CPUS, "the CPU is one of the machine");
        self.seen.cpu = cpu;
        let record = &self.view.record;
        record.set(CPU, cpu.0);
        record.set(RECENT_USED_CPU, cpu.0);
        record.set(WAKE_CPU, cpu.0);
        self.show_waiting();
    }

    /// `set_task_cpu()`'s count.
    #[inline(always)]
    pub(crate) fn count_migration(&mut self) {
        self.seen.nr_migrations += 1;
        self.view.record.set(NR_MIGRATIONS, self.seen.nr_migrations);
    }

    /// Counts a switch away from it.
    #[inline(always)]
    pub(crate) fn count_switch(&mut self, voluntary: bool) {
        if voluntary {
            self.seen.nvcsw += 1;
            self.view.record.set(NVCSW, self.seen.nvcsw);
        } else {
            self.seen.nivcsw += 1;
            self.view.record.set(NIVCSW, self.seen.nivcsw);
        }
    }

    /// `update_curr_common()`: charges the time since the last update; returns it in ns.
    #[inline(always)]
    pub(crate) fn charge_runtime(&mut self, now: TimeNs) -> u64 {
        let delta = now.since(self.exec_start);
        self.set_exec_start(self.exec_start.max(now));
        self.seen.sum_exec_runtime += delta;
        self.view.record.set(SUM_EXEC_RUNTIME, self.seen.sum_exec_runtime.0);
        self.view.record.set(UTIME, self.seen.sum_exec_runtime.0);
        delta.0
    }

    /// Where it stands between core and scheduler. The hand-over's number is there only while the scheduler gets or has
    /// the task.
    #[inline(always)]
    pub(crate) fn set_ops_state(&mut self, state: OpsState) {
        self.scx.seen.ops_state = state;
        let number = match state {
            OpsState::Queueing | OpsState::Queued => u64::from(self.scx.ops_qseq) << QSEQ_SHIFT,
            OpsState::None | OpsState::Dispatching => 0,
        };
        self.view.record.set(OPS_STATE, state as u64 | number);
    }

    /// `ops.enqueue()` is about to get it, under the next number.
    #[inline(always)]
    pub(crate) fn begin_hand_over(&mut self) {
        debug_assert_eq!(self.scx.ops_state, OpsState::None, "a task is handed over once");
        self.scx.seen.ops_qseq = self.scx.ops_qseq.wrapping_add(1).max(1);
        self.set_ops_state(OpsState::Queueing);
    }

    /// Since when it has not been charged.
    #[inline(always)]
    pub(crate) fn set_exec_start(&mut self, time: TimeNs) {
        self.seen.exec_start = time;
        self.view.record.set(EXEC_START, (time + self.view.uptime).0);
    }

    /// Since when it waits.
    #[inline(always)]
    pub(crate) fn set_runnable_at(&mut self, time: TimeNs) {
        self.scx.seen.runnable_at = time;
        self.view.record.set(RUNNABLE_AT, (time + self.view.uptime).0 / self.view.jiffy);
    }

    /// The task waits for a CPU under this number, or with 0 no longer.
    #[inline(always)]
    pub(crate) fn set_runnable_seq(&mut self, seq: u64) {
        self.scx.seen.runnable_seq = seq;
        self.show_waiting();
    }

    #[inline(always)]
    fn show_waiting(&mut self) {
        let cpu = if self.scx.is_waiting() { self.cpu.0 } else { u32::MAX };
        self.view.record.set(RUNNABLE_CPU, cpu);
    }

    /// Sets the task's nice value. Programs see its priorities when [`Task::show_priority`] is called: `set_user_nice()` gives the class
    /// the weight before them.
    pub(crate) fn begin_nice(&mut self, nice: Nice) {
        self.seen.nice = nice;
        self.view.record.set(STATIC_PRIO, self.static_prio().cast_unsigned());
        self.set_load();
    }

    /// `set_load_weight()`: sched_ext keeps a weight of its own, and leaves the fair class's as it is.
    fn set_load(&mut self) {
        if self.class != SchedClass::Ext {
            self.seen.se_weight = self.load_weight();
        }
        self.show_load();
    }

    fn show_load(&mut self) {
        let weight = self.seen.se_weight;
        self.view.record.set(LOAD_WEIGHT, u64::from(weight) << 10);
        // `sched_prio_to_wmult`: 2^32 by the weight.
        self.view.record.set(LOAD_INV_WEIGHT, ((1u64 << 32) / u64::from(weight.max(1))) as u32);
    }

    /// Sets the task's policy.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.seen.policy = policy;
        self.set_load();
        self.show_priority();
    }

    /// The priority lent to it.
    pub(crate) fn set_boost(&mut self, priority: u8) {
        self.seen.boost = priority;
        self.show_priority();
    }

    /// Shows its priorities and its policy.
    pub(crate) fn show_priority(&mut self) {
        let record = &self.view.record;
        record.set(PRIO, self.prio().cast_unsigned());
        record.set(NORMAL_PRIO, self.prio().cast_unsigned());
        record.set(STATIC_PRIO, self.static_prio().cast_unsigned());
        record.set(RT_PRIORITY, u32::from(self.own_rt_priority()));
        record.set(POLICY, policy_number(self.policy));
    }

    /// The CPUs that it may use.
    pub(crate) fn set_cpus_allowed(&mut self, mask: Arc<CpuMask>) {
        debug_assert!(mask.count() > 0, "a task may use a CPU");
        self.seen.nr_cpus_allowed = mask.count() as u32;
        self.seen.cpus_allowed = mask;
        show_cpus(&self.view.record, &self.seen.cpus_allowed);
    }

    /// Shows it somewhere, as it is.
    fn show(&mut self, view: View) {
        self.view = view;
        self.set_state(self.state);
        self.set_on_cpu(self.on_cpu);
        self.set_on_rq(self.on_rq);
        if self.state.is_blocked() && !self.on_cpu {
            self.show_blocked();
        }
        self.set_flags(self.flags);
        self.set_exec_start(self.exec_start);
        self.set_scx_flags(self.scx.flags);
        self.set_scx_weight(self.scx.weight);
        self.set_slice(self.scx.slice);
        self.set_dsq_vtime(self.scx.dsq_vtime);
        self.set_selected_cpu(self.scx.selected_cpu);
        self.set_ddsp_dsq_id(self.scx.ddsp_dsq_id);
        self.set_ddsp_enq_flags(self.scx.ddsp_enq_flags);
        self.set_ops_state(self.scx.ops_state);
        self.set_runnable_at(self.scx.runnable_at);
        self.set_cpu(self.cpu);
        self.show_priority();
        self.show_load();
        let (seen, record) = (&self.seen, &self.view.record);
        show_cpus(record, &seen.cpus_allowed);
        record.set(MIGRATION_DISABLED, seen.migration_disabled as u16);
        record.set(NR_MIGRATIONS, seen.nr_migrations);
        record.set(NVCSW, seen.nvcsw);
        record.set(NIVCSW, seen.nivcsw);
        record.set(SUM_EXEC_RUNTIME, seen.sum_exec_runtime.0);
        record.set(UTIME, seen.sum_exec_runtime.0);
    }
}

impl Kernel {
    /// Programs see the task at `record` from now on: its members there ([`MEMBERS`]) are always what the kernel has.
    pub fn show_task(&mut self, task: TaskId, record: Shared<TASK_BYTES>) {
        let (jiffy, uptime) = (self.machine.tick_period().0, self.uptime);
        let elsewhere = self.is_elsewhere(task);
        let entry = self.task_mut(task);
        let before = entry.view.clone();
        entry.show(View { record, jiffy, uptime });
        if elsewhere {
            entry.view = before;
        }
    }

    /// Programs do not know the task any more: its record stays as it is. Nothing happens if it is gone.
    pub fn hide_task(&mut self, task: TaskId) {
        let view = self.unseen.clone();
        if let Some(task) = self.tasks.get_mut(task) {
            task.view = view;
        }
    }

    /// Programs see the idle task of `cpu` at `record`, which is all zero, from now on.
    pub fn show_idle_task(&mut self, cpu: CpuId, record: Shared<TASK_BYTES>) {
        let forked = if cpu.0 > 0 { PF_FORKNOEXEC } else { 0 };
        show_system_task(&record, &CpuMask::single(cpu));
        record.set(CPU, cpu.0);
        record.set(FLAGS, PF_IDLE | PF_NO_SETAFFINITY | PF_KTHREAD | forked);
        record.set(ON_RQ, 1);
        let entry = self.cpu_mut(cpu);
        entry.idle_task = record;
        entry.set_curr(entry.curr);
    }

    /// Programs see a kernel thread that is no task of the run at `record`, which is all zero.
    pub fn show_kernel_thread(&self, record: &Shared<TASK_BYTES>) {
        self.show_shell(record);
        record.set(FLAGS, PF_KTHREAD);
    }

    /// Programs see the shell at `record`, which is all zero.
    pub fn show_shell(&self, record: &Shared<TASK_BYTES>) {
        show_system_task(record, &CpuMask::first(self.cpus.len()));
    }
}

/// What an idle task and the shell have in common: nice 0, a whole slice, and no wait for a CPU.
fn show_system_task(record: &Shared<TASK_BYTES>, allowed: &CpuMask) {
    let nice = Nice::default();
    for place in [PRIO, STATIC_PRIO, NORMAL_PRIO] {
        record.set(place, nice.static_prio().cast_unsigned());
    }
    record.set(LOAD_WEIGHT, u64::from(nice.load_weight()) << 10);
    record.set(LOAD_INV_WEIGHT, ((1u64 << 32) / u64::from(nice.load_weight())) as u32);
    record.set(SLICE, SCX_SLICE_DFL);
    record.set(DDSP_DSQ_ID, SCX_DSQ_INVALID.0);
    record.set(RUNNABLE_CPU, u32::MAX);
    show_cpus(record, allowed);
}

/// The CPUs that a task may use.
fn show_cpus(record: &Shared<TASK_BYTES>, allowed: &CpuMask) {
    record.set(NR_CPUS_ALLOWED, allowed.count() as u32);
    for (index, word) in allowed.words().iter().enumerate() {
        record.set(Place::new(CPUS_MASK.offset() + index * size_of::<u64>()), *word);
    }
}

impl crate::Cpu {
    /// The task that runs, nothing for the idle task.
    #[inline(always)]
    pub(crate) fn set_curr(&mut self, task: Option<TaskId>) {
        self.curr = task;
        self.idle_task.set(ON_CPU, u8::from(task.is_none()));
    }
}
