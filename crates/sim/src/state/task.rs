//! Tasks: the part of `task_struct` that schedulers can see, and what the core
//! needs to run them.

mod seen;

pub(crate) use seen::View;
pub(crate) use seen::flat::FlatTask;
pub use seen::{MEMBERS, Member, ScxSeen, Seen, TASK_BYTES, Writer};

use crate::class::fair::FairEntity;
use crate::exec::TaskExec;
use crate::flags::{PF_FORKNOEXEC, PF_KTHREAD, PF_RANDOMIZE, SCX_DSQ_INVALID};
use crate::state::cache::Warmth;
use crate::state::deadline::DlEntity;
use crate::state::dsq::DsqIx;
use crate::state::group::GroupIx;
use crate::state::pressure::Stall;
use crate::state::subs::SchedIx;
use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, OfTask, Policy, TaskId, TimeNs};
use schedlab_workload::ProcessId;
use std::sync::Arc;

/// The pid of task 0 of a run; task `n` has this plus `n`. Chosen: above the
/// pids that a booted system's own processes have.
pub const FIRST_PID: i32 = 1001;

/// The pid of the scheduler's own user space, whose program knows it before there are tasks. Chosen: others never come so far.
pub const USER_SPACE_PID: i32 = 4_000_000;

/// The pid of the shell that started the run's tasks; it is no task of the run.
pub const SHELL_PID: i32 = 1000;

/// The pid of the kernel thread that enables schedulers (`scx_enable()`), which is no task of the run. Chosen: the first scheduler's
/// loader has it made, after the machine has booted.
pub const ENABLER_PID: i32 = 999;

/// The thread's name, as far as a `comm` takes it.
pub const ENABLER_COMM: &str = "scx_enable_help";

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Made, not yet woken for the first time.
    New,
    /// On a run queue or running.
    Runnable,
    /// Blocked in an interruptible sleep (`TASK_INTERRUPTIBLE`).
    Interruptible,
    /// Blocked in an uninterruptible sleep (`TASK_UNINTERRUPTIBLE`), e.g. for a disk.
    Uninterruptible,
    /// Has exited.
    Dead,
}

impl RunState {
    /// The kernel's `__state` bits.
    pub fn bits(self) -> u32 {
        match self {
            RunState::Runnable => 0,
            RunState::Interruptible => 1,
            RunState::Uninterruptible => 2,
            RunState::Dead => 0x80,
            RunState::New => 0x800,
        }
    }

    /// True for the two sleeping states.
    pub fn is_blocked(self) -> bool {
        matches!(self, RunState::Interruptible | RunState::Uninterruptible)
    }
}

/// The scheduling class of a task, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchedClass {
    /// `SCHED_DEADLINE`.
    Dl,
    /// `SCHED_FIFO` and `SCHED_RR`.
    Rt,
    /// EEVDF.
    Fair,
    /// sched_ext.
    Ext,
}

/// `p->scx.ops_state` without the queue sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpsState {
    /// Not with the BPF scheduler.
    #[default]
    None,
    /// Being handed over by `ops.enqueue()`.
    Queueing,
    /// With the BPF scheduler.
    Queued,
    /// Claimed by a finishing dispatch.
    Dispatching,
}

/// `struct sched_ext_entity`.
#[derive(Clone, Copy, Debug)]
pub struct ScxEntity {
    seen: ScxSeen,
    /// The task's id for `scx_bpf_tid_to_task()`, from 1.
    pub tid: u64,
    pub(crate) ddsp_slice: u64,
    pub(crate) ddsp_vtime: u64,
    pub(crate) dsq: Option<DsqIx>,
    pub(crate) dsq_prev: Option<TaskId>,
    pub(crate) dsq_next: Option<TaskId>,
    pub(crate) dsq_seq: u32,
    pub(crate) on_priq: bool,
    pub(crate) reenq_cnt: u32,
    /// The capabilities that were missing for a local queue, and of which CPU, when it was last rejected
    /// (`reenq_reason_caps`, `reenq_reason_cid`).
    pub reenq_reason: (u8, CpuId),
    /// When it began to wait for a rescue.
    pub(crate) rescue_at: TimeNs,
}

impl ScxEntity {
    pub(crate) fn new(task: TaskId) -> ScxEntity {
        ScxEntity {
            seen: ScxSeen {
                flags: 0,
                weight: 0,
                slice: crate::flags::SCX_SLICE_DFL,
                dsq_vtime: 0,
                ops_state: OpsState::None,
                ops_qseq: 0,
                runnable_at: TimeNs::ZERO,
                runnable_seq: 0,
                selected_cpu: 0,
                ddsp_dsq_id: SCX_DSQ_INVALID,
                ddsp_enq_flags: 0,
            },
            tid: u64::from(task.0) + 1,
            reenq_reason: (0, CpuId(0)),
            rescue_at: TimeNs::ZERO,
            ddsp_slice: 0,
            ddsp_vtime: 0,
            dsq: None,
            dsq_prev: None,
            dsq_next: None,
            dsq_seq: 0,
            on_priq: false,
            reenq_cnt: 0,
        }
    }

    /// True while it waits for a CPU (`p->scx.runnable_node` is linked).
    pub fn is_waiting(&self) -> bool {
        self.runnable_seq != 0
    }
}

/// The work a task has in hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    /// Work left of the present burst, in time at full speed.
    pub(crate) work: DurationNs,
    /// Cache refill to be paid before the work continues, in real time.
    pub(crate) refill: DurationNs,
}

/// What a task is and has; one per live task.
///
/// In memory the members lie as they are declared. What a wakeup or a switch touches shares a few cache lines at the
/// beginning, since with thousands of tasks the host waits for memory more than for anything else.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Task {
    seen: Seen,
    view: View,
    /// The task's class at present.
    pub class: SchedClass,
    /// The task's id.
    pub id: TaskId,
    /// The task that woke it last, if a task did.
    pub last_waker: Option<TaskId>,
    /// Woken, and on its way to the CPU that activates it (`TASK_WAKING`).
    pub(crate) waking: bool,
    /// Between two run queues (`task_on_rq_migrating()`): for sched_ext it stays runnable meanwhile.
    pub(crate) migrating: bool,
    /// What it counts as in its groups.
    pub(crate) stall: Stall,
    pub(crate) ready_at: TimeNs,
    /// The sched_ext part.
    pub scx: ScxEntity,
    pub(crate) burst: Burst,
    /// Working set in KiB.
    pub working_set_kib: u32,
    /// The task's process (address space).
    pub process: ProcessId,
    /// The group that it is in.
    pub group: GroupIx,
    /// The scheduler that it has: its group's.
    pub(crate) sched: SchedIx,
    /// The CPUs that it has asked for (`user_cpus_ptr`), of which its group may allow fewer.
    pub(crate) user_cpus: Option<Arc<CpuMask>>,
    /// Where it ran last.
    pub(crate) ran_on: Option<CpuId>,
    pub(crate) exec: TaskExec,
    pub(crate) warmth: Warmth,
    /// The system call that it is in, running or blocked: number (x86-64) and arguments, as its saved registers
    /// show them. Nothing where no program looks at that.
    pub syscall: Option<(i64, [u64; 6])>,
    pub(crate) fair: FairEntity,
    pub(crate) rt_slice: DurationNs,
    /// Of a task that has been a deadline task.
    pub(crate) dl: Option<Box<DlEntity>>,
    /// `pid`: the thread's id, [`FIRST_PID`] plus the id.
    pub pid: i32,
    /// `tgid`: the pid of its process's first thread.
    pub tgid: i32,
    /// `cred->uid`, and all others of its kind.
    pub uid: u32,
    /// `cred->gid`, and all others of its kind.
    pub gid: u32,
    /// `comm`, NUL padded.
    pub comm: [u8; 16],
    /// Which task created its process, when that is one of the run.
    pub parent: Option<TaskId>,
    /// When it was made.
    pub start_time: TimeNs,
}

impl OfTask for Task {
    #[inline(always)]
    fn task_id(&self) -> TaskId {
        self.id
    }
}

/// What a new task starts with.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The task's name; the first 15 bytes become `comm`.
    pub name: String,
    /// The task's process.
    pub process: ProcessId,
    /// Nice value.
    pub nice: Nice,
    /// Policy.
    pub policy: Policy,
    /// The slice that it asks the fair class for.
    pub slice: Option<DurationNs>,
    /// The CPUs it may use.
    pub cpus_allowed: Arc<CpuMask>,
    /// The CPUs that it has asked for, if it has.
    pub user_cpus: Option<Arc<CpuMask>>,
    /// Working set in KiB.
    pub working_set_kib: u32,
    /// The group that it is in.
    pub group: GroupIx,
    /// A thread of the kernel, which has no address space.
    pub kernel_thread: bool,
    /// User and group of users.
    pub uid: u32,
    /// See `uid`.
    pub gid: u32,
    /// The executor's part.
    pub exec: TaskExec,
}

/// The first 15 bytes of a name as `comm`, cut at a character boundary.
pub(crate) fn comm_of(name: &str) -> [u8; 16] {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut comm = [0; 16];
    comm[..end].copy_from_slice(&name.as_bytes()[..end]);
    comm
}

/// The real-time priority of a policy, 0 for others.
fn rt_priority_of(policy: Policy) -> u8 {
    match policy {
        Policy::Fifo(prio) | Policy::Rr(prio) => prio,
        _ => 0,
    }
}

impl Task {
    pub(crate) fn new(id: TaskId, parent: Option<&Task>, spec: NewTask, now: TimeNs, view: View) -> Task {
        let pid = FIRST_PID + id.0 as i32;
        Task {
            id,
            pid,
            tgid: pid,
            comm: comm_of(&spec.name),
            uid: spec.uid,
            gid: spec.gid,
            process: spec.process,
            group: spec.group,
            sched: SchedIx::ROOT,
            user_cpus: spec.user_cpus,
            parent: parent.map(|parent| parent.id),
            class: SchedClass::Fair,
            seen: Seen {
                state: RunState::New,
                on_rq: false,
                on_cpu: false,
                boost: 0,
                cpu: parent.map_or(CpuId(0), |parent| parent.cpu),
                nr_cpus_allowed: spec.cpus_allowed.count() as u32,
                migration_disabled: 0,
                flags: PF_FORKNOEXEC | if spec.kernel_thread { PF_KTHREAD } else { PF_RANDOMIZE },
                exec_start: now,
                sum_exec_runtime: DurationNs::ZERO,
                nr_migrations: 0,
                nvcsw: 0,
                nivcsw: 0,
                nice: spec.nice,
                se_weight: parent.map_or(Nice::ZERO.load_weight(), |parent| parent.se_weight),
                policy: spec.policy,
                cpus_allowed: spec.cpus_allowed,
            },
            view,
            start_time: now,
            syscall: None,
            last_waker: None,
            waking: false,
            migrating: false,
            stall: Stall::None,
            scx: ScxEntity::new(id),
            working_set_kib: spec.working_set_kib,
            fair: FairEntity::with_slice(spec.slice),
            rt_slice: DurationNs::ZERO,
            dl: None,
            burst: Burst::default(),
            ran_on: None,
            warmth: Warmth::default(),
            ready_at: now,
            exec: spec.exec,
        }
    }

    /// CPU time that the running task has used by `now`.
    pub(crate) fn cpu_time(&self, now: TimeNs) -> DurationNs {
        self.sum_exec_runtime + now.since(self.exec_start)
    }

    /// `comm` as text.
    pub fn name(&self) -> &str {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(16);
        std::str::from_utf8(&self.comm[..end]).unwrap_or("?")
    }

    /// A deadline task, or one of a group with a quota, that waits for its next period, and meanwhile for no CPU.
    pub(crate) fn is_throttled(&self) -> bool {
        match self.class {
            SchedClass::Dl => self.dl.as_ref().is_some_and(|entity| entity.is_throttled()),
            SchedClass::Fair => self.fair.throttled,
            SchedClass::Rt | SchedClass::Ext => false,
        }
    }

    /// True once the task has begun to exit.
    pub fn is_exiting(&self) -> bool {
        self.flags & crate::flags::PF_EXITING != 0
    }

    /// True for kernel threads.
    pub fn is_kthread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// True when the task may run on `cpu`.
    pub fn allows(&self, cpu: CpuId) -> bool {
        self.cpus_allowed.contains(cpu)
    }

    /// True when the task may run on a CPU of a machine with `count`. Most tasks may use all of them, and their masks, which lie
    /// apart, need not be looked at.
    #[inline]
    pub(crate) fn allows_of(&self, cpu: CpuId, count: usize) -> bool {
        self.nr_cpus_allowed as usize == count || self.allows(cpu)
    }

    /// `static_prio`: 100 to 139.
    pub fn static_prio(&self) -> i32 {
        self.nice.static_prio()
    }

    /// The real-time priority that it runs with, a lent one included: 1 to 99, 0 for none.
    pub fn rt_priority(&self) -> u8 {
        self.own_rt_priority().max(self.boost)
    }

    /// `rt_priority`: that of its policy, 1 to 99, 0 for other policies.
    pub fn own_rt_priority(&self) -> u8 {
        rt_priority_of(self.policy)
    }

    /// `prio`: -1 for deadline tasks, `MAX_RT_PRIO - 1 - rt_priority` for real-time tasks (`__normal_prio()`), 100 to 139
    /// for others.
    pub fn prio(&self) -> i32 {
        self.prio_with(self.policy)
    }

    /// The priority that the task would have under this policy.
    pub(crate) fn prio_with(&self, policy: Policy) -> i32 {
        if policy.reservation().is_some() {
            return -1;
        }
        let rt = i32::from(rt_priority_of(policy).max(self.boost));
        if rt > 0 { 99 - rt } else { self.static_prio() }
    }

    /// The fair class's weight (1024 is nice 0, 3 is `SCHED_IDLE`).
    pub fn load_weight(&self) -> u32 {
        if self.policy == Policy::Idle { 3 } else { self.nice.load_weight() }
    }

    /// The sched_ext weight by nice and policy.
    pub fn scx_weight(&self) -> u32 {
        if self.policy == Policy::Idle { 1 } else { self.nice.weight().0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comm_is_cut_at_a_character() {
        assert_eq!(&comm_of("hog/0")[..6], b"hog/0\0");
        let long = comm_of("abcdefghijklmn\u{e9}");
        assert_eq!(&long[..], b"abcdefghijklmn\0\0");
    }
}
