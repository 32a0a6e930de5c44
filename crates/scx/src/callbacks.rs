//! The callbacks: the table of the operations of `struct sched_ext_ops` and of its cid form, and the trace points.
//!
//! All that is known of an operation stands in its row. The first column names what calls it (`Never`: nothing does, and an
//! object may have it all the same). The second has the groups of kernel functions that it may call. The next two say whether
//! its program may be sleepable, and whether the core wants it where an object has none. Last is the member of
//! `struct sched_ext_ops` as C declares it. After a slash is that of `struct sched_ext_ops_cid` where it is another one (`-`:
//! none). The two structs of the simulated kernel's types are made of the rows.
//!
//! Sources, of Linux 7.3: `scx_kf_allow_flags[]` for the groups, `bpf_scx_check_member()` for what may sleep.

use crate::kfunc::group;
use schedlab_bpf::object::ProgramKind;
use schedlab_sim::{OpKind, TracePointKind};

/// Number of kinds of callback.
pub(crate) const OP_COUNT: usize = OpKind::Tracing as usize + 1;

/// What calls an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The simulated core.
    Core(OpKind),
    /// [`crate::scheduler::BpfScheduler`], around what the core calls.
    Around(Around),
    /// Nothing.
    Never,
}

/// Operations that the simulated core does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// Before `ops.init()` in the cid form.
    InitCids,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Its member of `struct sched_ext_ops`, then of `struct sched_ext_ops_cid`.
    members: [Option<&'static str>; 2],
    /// What calls it.
    pub(crate) call: Call,
    /// Groups of the kernel functions that it may call.
    pub(crate) groups: u8,
    /// Its program may be sleepable.
    pub(crate) may_sleep: bool,
    /// The core calls for it whether the object has it or not.
    pub(crate) is_wanted: bool,
}

impl Operation {
    /// Its name in this form of scheduler, if that has it.
    pub(crate) fn name(&self, cid_form: bool) -> Option<&'static str> {
        self.members[usize::from(cid_form)]
    }

    /// Its kind, if the core calls it.
    pub(crate) fn kind(&self) -> Option<OpKind> {
        if let Call::Core(kind) = self.call { Some(kind) } else { None }
    }
}

/// The operations that the core calls, with their kinds, in order of the table.
pub(crate) fn called_by_core() -> impl Iterator<Item = (OpKind, &'static Operation)> {
    OPERATIONS.iter().filter_map(|operation| Some((operation.kind()?, operation)))
}

/// What instructions are counted for: the operations that the core calls, timers, and programs at trace points.
pub fn counted_callbacks() -> Vec<&'static str> {
    let members = called_by_core().flat_map(|(_, operation)| operation.members.into_iter().flatten());
    let mut names: Vec<&str> = members.chain(["timer", "tracing"]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The operation with a member of this name in either form.
pub(crate) fn operation(member: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.members.contains(&Some(member)))
}

/// The name of a member by its declaration: `init` of `s32 (*init)(void);`.
const fn member_name(declaration: &'static str) -> &'static str {
    let bytes = declaration.as_bytes();
    let mut begin = 0;
    while bytes[begin] != b'*' || bytes[begin - 1] != b'(' {
        begin += 1;
    }
    begin += 1;
    let mut end = begin;
    while bytes[end] != b')' {
        end += 1;
    }
    declaration.split_at(end).0.split_at(begin).1
}

/// What calls the operation of a row.
macro_rules! call {
    (Never) => {
        Call::Never
    };
    (InitCids) => {
        Call::Around(Around::InitCids)
    };
    ($kind:ident) => {
        Call::Core(OpKind::$kind)
    };
}

/// Whether a row has the word of its column.
macro_rules! has {
    (-) => {
        false
    };
    (sleeps) => {
        true
    };
    (wanted) => {
        true
    };
}

/// The names of a row's members.
macro_rules! members {
    ($both:literal) => {
        [Some(member_name($both)); 2]
    };
    ($cpu:literal -) => {
        [Some(member_name($cpu)), None]
    };
    ($cpu:literal $cid:literal) => {
        [Some(member_name($cpu)), Some(member_name($cid))]
    };
}

/// The line of a row's member in the cid form.
macro_rules! cid_line {
    ($both:literal) => {
        concat!("    ", $both, "\n")
    };
    ($cpu:literal -) => {
        ""
    };
    ($cpu:literal $cid:literal) => {
        concat!("    ", $cid, "\n")
    };
}

/// What both structs have besides operations.
macro_rules! settings {
    () => {
        "    u32 dispatch_max_batch; u64 flags; u32 timeout_ms; u32 exit_dump_len; u64 hotplug_seq;
    u32 cid_shard_size; u32 rescue_bandwidth_ppt; u32 rescue_quantum_us; u64 sub_cgroup_id;
    char name[128]; void *priv;
"
    };
}

macro_rules! operations {
    (
        $($call:ident [$($group:ident)*] $sleeps:tt $wanted:tt $cpu:literal $(/ $cid:tt)?)+;
        $($late_call:ident [$($late_group:ident)*] $late_sleeps:tt $late_wanted:tt $late_cpu:literal / -)+
    ) => {
        /// The operations in order of `struct sched_ext_ops`.
        pub(crate) static OPERATIONS: &[Operation] = &[
            $(Operation {
                members: members!($cpu $($cid)?),
                call: call!($call),
                groups: 0 $(| group::$group)*,
                may_sleep: has!($sleeps),
                is_wanted: has!($wanted),
            },)+
            $(Operation {
                members: members!($late_cpu -),
                call: call!($late_call),
                groups: 0 $(| group::$late_group)*,
                may_sleep: has!($late_sleeps),
                is_wanted: has!($late_wanted),
            },)+
        ];

        /// The structs in C.
        pub(crate) const STRUCTS: &str = concat!(
            "struct sched_ext_ops {\n",
            $("    ", $cpu, "\n",)+
            settings!(),
            $("    ", $late_cpu, "\n",)+
            "};\nstruct sched_ext_ops_cid {\n",
            $(cid_line!($cpu $($cid)?),)+
            settings!(),
            "};\n",
        );
    };
}

operations! {
    // ops.cgroup_cancel_move() is for moves of several tasks at once, and of those that another controller refuses: there are none.
    // called by     may call             sleeps wanted members
    SelectCpu       [SELECT_CPU ENQUEUE] -      -      "s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);" / "s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);"
    Enqueue         [SELECT_CPU ENQUEUE] -      -      "void (*enqueue)(struct task_struct *p, u64 enq_flags);"
    Dequeue         []                   -      -      "void (*dequeue)(struct task_struct *p, u64 deq_flags);"
    Dispatch        [ENQUEUE DISPATCH]   -      -      "void (*dispatch)(s32 cpu, struct task_struct *prev);" / "void (*dispatch)(s32 cid, struct task_struct *prev);"
    Tick            []                   -      -      "void (*tick)(struct task_struct *p);"
    Runnable        []                   -      -      "void (*runnable)(struct task_struct *p, u64 enq_flags);"
    Running         []                   -      -      "void (*running)(struct task_struct *p);"
    Stopping        []                   -      -      "void (*stopping)(struct task_struct *p, bool runnable);"
    Quiescent       []                   -      -      "void (*quiescent)(struct task_struct *p, u64 deq_flags);"
    Yield           []                   -      -      "bool (*yield)(struct task_struct *from, struct task_struct *to);"
    CoreSchedBefore []                   -      -      "bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);"
    SetWeight       []                   -      wanted "void (*set_weight)(struct task_struct *p, u32 weight);"
    SetCpumask      []                   -      wanted "void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);" / "void (*set_cmask)(struct task_struct *p, const struct scx_cmask *cmask);"
    UpdateIdle      []                   -      -      "void (*update_idle)(s32 cpu, bool idle);" / "void (*update_idle)(s32 cid, bool idle);"
    InitTask        [UNLOCKED]           sleeps -      "s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);"
    ExitTask        []                   -      -      "void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);"
    Enable          []                   -      wanted "void (*enable)(struct task_struct *p);" / "void (*enable)(struct task_struct *p, struct scx_enable_args *args);"
    Disable         []                   -      wanted "void (*disable)(struct task_struct *p);"
    Dump            [UNLOCKED]           -      -      "void (*dump)(struct scx_dump_ctx *ctx);"
    DumpCpu         []                   -      -      "void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);" / "void (*dump_cid)(struct scx_dump_ctx *ctx, s32 cid, bool idle);"
    DumpTask        []                   -      -      "void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);"
    CgroupInit      [UNLOCKED]           sleeps -      "s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);" / "s32 (*cpuctl_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);"
    CgroupExit      [UNLOCKED]           sleeps -      "void (*cgroup_exit)(struct cgroup *cgrp);" / "void (*cpuctl_exit)(struct cgroup *cgrp);"
    CgroupPrepMove  [UNLOCKED]           sleeps -      "s32 (*cgroup_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);" / "s32 (*cpuctl_prep_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);"
    CgroupMove      []                   -      -      "void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);" / "void (*cpuctl_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);"
    Never           [UNLOCKED]           -      -      "void (*cgroup_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);" / "void (*cpuctl_cancel_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);"
    CgroupSetWeight [UNLOCKED]           -      -      "void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);" / "void (*cpuctl_set_weight)(struct cgroup *cgrp, u32 weight);"
    CgroupSetBandwidth [UNLOCKED]        sleeps -      "void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);" / "void (*cpuctl_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);"
    CgroupSetIdle   [UNLOCKED]           -      -      "void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);" / "void (*cpuctl_set_idle)(struct cgroup *cgrp, bool idle);"
    SubAttach       [UNLOCKED]           sleeps -      "s32 (*sub_attach)(struct scx_sub_attach_args *args);"
    SubDetach       [UNLOCKED]           sleeps -      "void (*sub_detach)(struct scx_sub_detach_args *args);"
    SubCapsUpdated  []                   -      -      "void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);"
    SubEcapsUpdated [ENQUEUE DISPATCH]   -      -      "void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);"
    CpuOnline       [UNLOCKED]           sleeps -      "void (*cpu_online)(s32 cpu);" / "void (*cid_online)(s32 cid);"
    CpuOffline      [UNLOCKED]           sleeps -      "void (*cpu_offline)(s32 cpu);" / "void (*cid_offline)(s32 cid);"
    InitCids        [UNLOCKED]           sleeps -      "s32 (*init_cids)(void);"
    Init            [UNLOCKED]           sleeps wanted "s32 (*init)(void);"
    Exit            [UNLOCKED]           sleeps -      "void (*exit)(struct scx_exit_info *info);";

    // Members behind the settings, of struct sched_ext_ops alone.
    CpuAcquire      []                   -      -      "void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);" / -
    CpuRelease      [CPU_RELEASE]        -      -      "void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);" / -
}

/// How messages name a callback.
pub(crate) fn op_name(op: OpKind) -> String {
    let found = called_by_core().find(|(kind, _)| *kind == op);
    match found.and_then(|(_, operation)| operation.name(false)) {
        Some(name) => format!("ops.{name}()"),
        None if op == OpKind::Timer => "a timer".into(),
        None if op == OpKind::Tracing => "a tracing program".into(),
        None => "outside of callbacks".into(),
    }
}

/// Trace points by name.
pub(crate) const TRACE_POINTS: [(TracePointKind, &str); 14] = [
    (TracePointKind::SchedSwitch, "sched_switch"),
    (TracePointKind::SchedWaking, "sched_waking"),
    (TracePointKind::SchedWakeup, "sched_wakeup"),
    (TracePointKind::SchedWakeupNew, "sched_wakeup_new"),
    (TracePointKind::SchedMigrateTask, "sched_migrate_task"),
    (TracePointKind::SchedProcessFork, "sched_process_fork"),
    (TracePointKind::SchedProcessExit, "sched_process_exit"),
    (TracePointKind::SchedProcessExec, "sched_process_exec"),
    (TracePointKind::TaskRename, "task_rename"),
    (TracePointKind::SysEnter, "sys_enter"),
    (TracePointKind::SysExit, "sys_exit"),
    (TracePointKind::CgroupMkdir, "cgroup_mkdir"),
    (TracePointKind::CgroupRmdir, "cgroup_rmdir"),
    (TracePointKind::CgroupAttachTask, "cgroup_attach_task"),
];

/// Functions that programs run at the entry of (`fentry`), by name; numbered behind the trace points.
const ENTRIES: [(TracePointKind, &str); 1] = [(TracePointKind::CpusetWrite, "cpuset_write_resmask")];

/// How many kinds there are of both.
pub(crate) const TRACED: usize = TRACE_POINTS.len() + ENTRIES.len();

/// The place of the simulated kernel at which a program of this kind runs; none for a place that is not modelled.
pub(crate) fn traced(kind: &ProgramKind) -> Option<TracePointKind> {
    let (table, target): (&[_], &str) = match kind {
        ProgramKind::TpBtf(target) | ProgramKind::RawTp(target) => (&TRACE_POINTS, target),
        ProgramKind::Fentry(target) => (&ENTRIES, target),
        _ => return None,
    };
    table.iter().find(|(_, name)| *name == target).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_callback_has_one_row() {
        let kinds: Vec<usize> = called_by_core().map(|(kind, _)| kind as usize).collect();
        let all: BTreeSet<usize> = (OpKind::None as usize + 1..OpKind::Timer as usize).collect();
        assert_eq!(kinds.iter().copied().collect::<BTreeSet<usize>>(), all);
        assert_eq!(kinds.len(), all.len());
        for form in [false, true] {
            let names: Vec<&str> = OPERATIONS.iter().filter_map(|operation| operation.name(form)).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
            assert!(names.iter().all(|name| STRUCTS.contains(&format!("(*{name})("))));
        }
        let members = [Some("select_cpu"), Some("select_cid")];
        assert_eq!(operation("select_cid").map(|operation| operation.members), Some(members));
        assert_eq!(operation("cpu_release").and_then(|operation| operation.name(true)), None);
    }

    #[test]
    fn what_is_wanted_is_called() {
        assert!(OPERATIONS.iter().all(|operation| !operation.is_wanted || operation.kind().is_some()));
    }
}
