//! The table of kernel functions: all that is known of one stands in its row.
//!
//! The first columns are the version of Linux that brought the function, and the first one without it (`-`: as old as sched_ext
//! or older; still there). The next ones are what it costs, its slot in compiled code, and the groups of callbacks that may
//! call it. Then comes the Rust function, whose parameters say what the arguments are. Last is the C prototype, which has the
//! name and becomes the function's BTF.
//!
//! The versions are those that the compatibility header of `tools/sched_ext` states (7.3), and for what it does not name those
//! of the kernel's history. Those of 6.17 left with commit 4ecf83741401 ("sched_ext: Drop kfuncs marked for removal in 6.15").
//! `kernel/sched/ext/ext.c` of 7.3 has no `scx_bpf_cpu_rq()`; the compatibility header there tells that it was dropped.
//!
//! A slot is a function of its own in compiled code, in which the compiler of the host knows what is called. None is looked
//! up, and its arguments stay in registers. The functions that schedulers call most have one; rows with one Rust function
//! share theirs.

use super::group::*;
use super::{Kfunc, Price, cid, cpu, cpumask, css, dsq, exit, idle, iter, sub, task};
use crate::args::Cx;
use schedlab_bpf::Fault;

/// A version in a row.
macro_rules! version {
    (-) => {
        None
    };
    ($version:literal) => {
        Some(super::version_of(stringify!($version)))
    };
}

/// A slot in a row.
macro_rules! slot {
    (-) => {
        None
    };
    ($slot:literal) => {
        Some($slot)
    };
}

/// Calls the function of a slot, which has these arguments, if it is the wanted one. The closure is called here alone, so that the
/// compiler of the host puts the function into it. By its name it would stay a call, since the interpreter makes it too.
macro_rules! call_slot {
    ($slot:literal $wanted:ident, $cx:ident $args:ident $function:path, $($param:ident)*) => {
        if $wanted == $slot {
            return $cx.invoke(|cx: &mut Cx<'_, '_, '_>, $($param),*| $function(cx, $($param),*), $args);
        }
    };
}

/// Calls the function of a row if the slot is its one.
macro_rules! run_slot {
    (- $($row:tt)*) => {};
    (0 $($row:tt)*) => { call_slot!(0 $($row)*, a b c d); };
    (1 $($row:tt)*) => { call_slot!(1 $($row)*, a b c d); };
    (2 $($row:tt)*) => { call_slot!(2 $($row)*, a b c d e); };
    (4 $($row:tt)*) => { call_slot!(4 $($row)*, a); };
    (6 $($row:tt)*) => { call_slot!(6 $($row)*, a); };
    (7 $($row:tt)*) => { call_slot!(7 $($row)*, a); };
    (8 $($row:tt)*) => { call_slot!(8 $($row)*, a); };
    (12 $($row:tt)*) => { call_slot!(12 $($row)*,); };
    (14 $($row:tt)*) => { call_slot!(14 $($row)*, a); };
    (15 $($row:tt)*) => { call_slot!(15 $($row)*,); };
    (16 $($row:tt)*) => { call_slot!(16 $($row)*, a); };
    (17 $($row:tt)*) => { call_slot!(17 $($row)*, a); };
    // The others have two arguments.
    ($slot:tt $($row:tt)*) => { call_slot!($slot $($row)*, a b); };
}

macro_rules! kernel_functions {
    ($($since:tt $until:tt $price:ident $slot:tt [$($group:ident)+] $module:ident::$function:ident $prototype:literal)+) => {
        /// All kernel functions of this module, in a fixed order.
        pub(super) static TABLE: &[Kfunc] = &[$(Kfunc {
            name: super::name_of($prototype),
            prototype: $prototype,
            since: version!($since),
            until: version!($until),
            price: Price::$price,
            slot: slot!($slot),
            groups: $($group)|+,
            run: |caller, args| caller.invoke($module::$function, args),
            #[cfg(test)]
            shape: || super::shape_of($module::$function),
            #[cfg(test)]
            function: stringify!($module::$function),
        }),+];

        /// Calls the function of a slot.
        #[inline(always)]
        pub(crate) fn run_direct<const SLOT: usize>(cx: Cx<'_, '_, '_>, args: &[u64; 5]) -> Result<u64, Fault> {
            $(run_slot!($slot SLOT, cx args $module::$function);)+
            unreachable!("slot {SLOT} has a function")
        }
    };
}

/// Functions of sched_ext that are not modelled and that objects ask for, each with the version that brought it. Objects fall
/// back to `scx_bpf_reenqueue_local()` for the second, which takes any queue.
pub(super) const NOT_MODELLED: [(&str, (u32, u32)); 2] =
    [("scx_bpf_cid_override", (7, 3)), ("scx_bpf_dsq_reenq", (7, 1))];

kernel_functions! {
    // since until price slot groups
    // Dispatch queues: creating, inserting, moving, asking.
    -    -    Call   -   [UNLOCKED SLEEPABLE]             dsq::create_dsq               "s32 scx_bpf_create_dsq(u64 dsq_id, s32 node);"
    -    -    Call   -   [ANY]                            dsq::destroy_dsq              "void scx_bpf_destroy_dsq(u64 dsq_id);"
    6.13 -    Insert 1   [ENQUEUE TASKS]                  dsq::insert                   "void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);"
    6.19 -    Insert 1   [ENQUEUE TASKS]                  dsq::insert                   "bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);"
    6.13 -    Insert 2   [ENQUEUE TASKS]                  dsq::insert_vtime             "void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);"
    6.19 -    Insert 3   [ENQUEUE TASKS]                  dsq::insert_vtime_args        "bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args);"
    // The names before Linux 6.13.
    -    6.17 Insert 1   [ENQUEUE TASKS]                  dsq::insert                   "void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);"
    -    6.17 Insert 2   [ENQUEUE TASKS]                  dsq::insert_vtime             "void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);"
    -    6.17 Move   4   [DISPATCH TASKS]                 dsq::move_to_local            "bool scx_bpf_consume(u64 dsq_id);"
    -    -    Call   -   [DISPATCH]                       dsq::nr_slots                 "u32 scx_bpf_dispatch_nr_slots(void);"
    -    -    Call   -   [DISPATCH]                       dsq::cancel                   "void scx_bpf_dispatch_cancel(void);"
    6.13 -    Move   4   [DISPATCH TASKS]                 dsq::move_to_local            "bool scx_bpf_dsq_move_to_local(u64 dsq_id);"
    7.1  -    Move   5   [DISPATCH TASKS]                 dsq::move_to_local_v2         "bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags);"
    7.1  -    Call   -   [DISPATCH]                       sub::dispatch                 "bool scx_bpf_sub_dispatch(u64 cgroup_id);"
    -    -    Insert 6   [ANY]                            dsq::nr_queued                "s32 scx_bpf_dsq_nr_queued(u64 dsq_id);"
    6.19 -    Insert -   [ANY]                            dsq::peek                     "struct task_struct *scx_bpf_dsq_peek(u64 dsq_id);"
    -    -    Move   -   [CPU_RELEASE]                    dsq::reenqueue_local          "u32 scx_bpf_reenqueue_local(void);"
    6.19 -    Move   -   [ANY]                            dsq::reenqueue_local_v2       "void scx_bpf_reenqueue_local___v2(void);"
    7.3  -    Call   -   [ANY]                            sub::grant                    "s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask, struct scx_cmask *denied);"
    7.3  -    Call   -   [ANY]                            sub::revoke                   "void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask);"
    7.3  -    Call   -   [ANY]                            sub::kill                     "s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 data__sz);"

    // Idle CPUs: selecting one, the masks.
    -    -    Call   0   [SELECT_CPU UNLOCKED CPU_FORM]   idle::select_cpu_dfl          "s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);"
    6.16 -    Call   -   [SELECT_CPU UNLOCKED CPU_FORM]   idle::select_cpu_and          "s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags, const struct cpumask *cpus_allowed, u64 flags);"
    6.19 -    Call   -   [SELECT_CPU UNLOCKED CPU_FORM]   idle::select_cpu_and_args     "s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *cpus_allowed, struct scx_bpf_select_cpu_and_args *args);"
    -    -    Call   14  [CPU_FORM]                       idle::test_and_clear          "bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);"
    -    -    Call   -   [CPU_FORM]                       idle::pick_idle               "s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags);"
    -    -    Call   -   [CPU_FORM]                       idle::pick_any                "s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags);"
    6.15 -    Call   -   [CPU_FORM]                       idle::pick_idle_node          "s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);"
    6.15 -    Call   -   [CPU_FORM]                       idle::pick_any_node           "s32 scx_bpf_pick_any_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags);"
    -    -    Call   -   [CPU_FORM]                       idle::idle_cpumask            "const struct cpumask *scx_bpf_get_idle_cpumask(void);"
    -    -    Call   -   [CPU_FORM]                       idle::idle_smtmask            "const struct cpumask *scx_bpf_get_idle_smtmask(void);"
    6.15 -    Call   -   [CPU_FORM]                       idle::idle_cpumask_node       "const struct cpumask *scx_bpf_get_idle_cpumask_node(int node);"
    6.15 -    Call   -   [CPU_FORM]                       idle::idle_smtmask_node       "const struct cpumask *scx_bpf_get_idle_smtmask_node(int node);"
    -    -    Call   -   [CPU_FORM]                       idle::put_mask                "void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask);"
    -    -    Call   -   [CPU_FORM]                       idle::put_mask                "void scx_bpf_put_cpumask(const struct cpumask *cpumask);"
    6.15 -    Call   -   [CPU_FORM]                       idle::cpu_node                "s32 scx_bpf_cpu_node(s32 cpu);"

    // CPUs, run queues, clocks and counters.
    -    -    Kick   11  [CPU_FORM]                       cpu::kick_cpu                 "void scx_bpf_kick_cpu(s32 cpu, u64 flags);"
    -    -    Call   -   [CPU_FORM]                       cpu::cpuperf_cap              "u32 scx_bpf_cpuperf_cap(s32 cpu);"
    -    -    Call   -   [CPU_FORM]                       cpu::cpuperf_cur              "u32 scx_bpf_cpuperf_cur(s32 cpu);"
    -    -    Call   -   [CPU_FORM]                       cpu::cpuperf_set              "void scx_bpf_cpuperf_set(s32 cpu, u32 perf);"
    6.15 -    Call   -   [ANY]                            cpu::nr_node_ids              "u32 scx_bpf_nr_node_ids(void);"
    -    -    Call   15  [ANY]                            cpu::nr_cpu_ids               "u32 scx_bpf_nr_cpu_ids(void);"
    -    -    Call   -   [CPU_FORM]                       cpu::all_cpus                 "const struct cpumask *scx_bpf_get_possible_cpumask(void);"
    -    -    Call   -   [CPU_FORM]                       cpu::online_cpus              "const struct cpumask *scx_bpf_get_online_cpumask(void);"
    // Objects of before Linux 7.1 need it.
    -    7.3  Call   -   [ANY]                            cpu::cpu_rq                   "struct rq *scx_bpf_cpu_rq(s32 cpu);"
    6.18 -    Call   -   [ANY]                            cpu::locked_rq                "struct rq *scx_bpf_locked_rq(void);"
    6.18 -    Call   -   [CPU_FORM]                       cpu::cpu_curr                 "struct task_struct *scx_bpf_cpu_curr(s32 cpu);"
    6.14 -    Call   12  [ANY]                            cpu::now                      "u64 scx_bpf_now(void);"
    6.15 -    Call   -   [ANY]                            cpu::events                   "void scx_bpf_events(struct scx_event_stats *events, size_t events__sz);"

    // CPUs by cid, and capabilities.
    7.3  -    Call   -   [ANY]                            cid::cid_to_cpu               "s32 scx_bpf_cid_to_cpu(s32 cid);"
    7.3  -    Call   -   [ANY]                            cid::cpu_to_cid               "s32 scx_bpf_cpu_to_cid(s32 cpu);"
    7.3  -    Call   -   [ANY]                            cid::cid_topo                 "void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, size_t out__sz);"
    7.3  -    Kick   -   [ANY]                            cid::kick_cid                 "void scx_bpf_kick_cid(s32 cid, u64 flags);"
    7.3  -    Call   -   [ANY]                            cid::task_cid                 "s32 scx_bpf_task_cid(const struct task_struct *p);"
    7.3  -    Call   -   [ANY]                            cid::this_cid                 "s32 scx_bpf_this_cid(void);"
    7.3  -    Call   -   [ANY]                            cid::cid_curr                 "struct task_struct *scx_bpf_cid_curr(s32 cid);"
    7.3  -    Call   -   [ANY]                            cid::nr_cids                  "u32 scx_bpf_nr_cids(void);"
    7.3  -    Call   -   [ANY]                            cid::nr_online                "u32 scx_bpf_nr_online_cids(void);"
    7.3  -    Call   -   [ANY]                            cid::perf                     "u32 scx_bpf_cidperf_cap(s32 cid);"
    7.3  -    Call   -   [ANY]                            cid::perf                     "u32 scx_bpf_cidperf_cur(s32 cid);"
    7.3  -    Call   -   [ANY]                            cid::perf_set                 "s32 scx_bpf_cidperf_set(s32 cid, u32 perf);"
    7.3  -    Call   -   [ANY]                            sub::caps                     "s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask *out);"

    // Tasks and cgroups.
    -    -    Call   7   [TASKS]                          task::task_running            "bool scx_bpf_task_running(const struct task_struct *p);"
    -    -    Call   8   [CPU_FORM TASKS]                 task::task_cpu                "s32 scx_bpf_task_cpu(const struct task_struct *p);"
    6.19 -    Call   9   [TASKS]                          task::task_set_slice          "bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);"
    6.19 -    Call   10  [TASKS]                          task::task_set_dsq_vtime      "bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime);"
    7.3  -    Call   -   [ANY]                            task::tid_to_task             "struct task_struct *scx_bpf_tid_to_task(u64 tid);"
    -    -    Find   16  [ANY]                            task::task_from_pid           "struct task_struct *bpf_task_from_pid(s32 pid);"
    -    -    Find   16  [ANY]                            task::task_from_pid           "struct task_struct *bpf_task_from_vpid(s32 vpid);"
    -    -    Call   -   [ANY]                            task::task_acquire            "struct task_struct *bpf_task_acquire(struct task_struct *p);"
    -    -    Call   17  [ANY]                            task::task_release            "void bpf_task_release(struct task_struct *p);"
    -    -    Call   -   [ANY]                            task::task_cgroup             "struct cgroup *scx_bpf_task_cgroup(struct task_struct *p);"
    -    -    Call   -   [ANY]                            task::cgroup_from_id          "struct cgroup *bpf_cgroup_from_id(u64 cgid);"
    -    -    Call   -   [ANY]                            task::cgroup_acquire          "struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp);"
    -    -    Call   -   [ANY]                            task::cgroup_release          "void bpf_cgroup_release(struct cgroup *cgrp);"
    -    -    Call   -   [ANY]                            task::cgroup_ancestor         "struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level);"
    -    -    Call   -   [ANY]                            task::under_cgroup            "long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor);"

    // Leaving and reporting.
    -    -    Call   -   [ANY]                            exit::error_bstr              "void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz);"
    -    -    Call   -   [ANY]                            exit::exit_bstr               "void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz);"
    -    -    Call   -   [ANY]                            exit::dump_bstr               "void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz);"

    // Iterators over a dispatch queue.
    -    -    Call   -   [ANY]                            iter::dsq_new                 "int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);"
    -    -    Call   -   [ANY]                            iter::dsq_next                "struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);"
    -    -    Call   -   [ANY]                            iter::dsq_destroy             "void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);"
    6.13 -    Call   -   [DISPATCH UNLOCKED]              iter::set_slice               "void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);"
    6.13 -    Call   -   [DISPATCH UNLOCKED]              iter::set_vtime               "void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);"
    6.13 -    Move   -   [DISPATCH UNLOCKED]              iter::dsq_move                "bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);"
    6.13 -    Move   -   [DISPATCH UNLOCKED]              iter::dsq_move_vtime          "bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);"
    // The names before Linux 6.13.
    -    6.17 Call   -   [DISPATCH UNLOCKED]              iter::set_slice               "void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it, u64 slice);"
    -    6.17 Call   -   [DISPATCH UNLOCKED]              iter::set_vtime               "void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime);"
    -    6.17 Move   -   [DISPATCH UNLOCKED]              iter::dsq_move                "bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);"
    -    6.17 Move   -   [DISPATCH UNLOCKED]              iter::dsq_move_vtime          "bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags);"

    // Iterators over cgroups.
    -    -    Call   -   [ANY]                            css::css_new                  "int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags);"
    -    -    Call   -   [ANY]                            css::css_next                 "struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it);"
    -    -    Call   -   [ANY]                            css::css_destroy              "void bpf_iter_css_destroy(struct bpf_iter_css *it);"

    // CPU masks of programs.
    -    -    Call   -   [ANY]                            cpumask::create               "struct bpf_cpumask *bpf_cpumask_create(void);"
    -    -    Call   -   [ANY]                            cpumask::acquire              "struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::release              "void bpf_cpumask_release(struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::first                "u32 bpf_cpumask_first(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::first_zero           "u32 bpf_cpumask_first_zero(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::first_and            "u32 bpf_cpumask_first_and(const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::set_cpu              "void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::clear_cpu            "void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask);"
    -    -    Call   13  [ANY]                            cpumask::test_cpu             "bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::set_cpu              "bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::clear_cpu            "bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::set_all              "void bpf_cpumask_setall(struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::clear                "void bpf_cpumask_clear(struct bpf_cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::copy                 "void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src);"
    -    -    Call   -   [ANY]                            cpumask::and                  "bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::or                   "void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::xor                  "void bpf_cpumask_xor(struct bpf_cpumask *dst, const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::equal                "bool bpf_cpumask_equal(const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::intersects           "bool bpf_cpumask_intersects(const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::subset               "bool bpf_cpumask_subset(const struct cpumask *src1, const struct cpumask *src2);"
    -    -    Call   -   [ANY]                            cpumask::empty                "bool bpf_cpumask_empty(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::full                 "bool bpf_cpumask_full(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::weight               "u32 bpf_cpumask_weight(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::any_distribute       "u32 bpf_cpumask_any_distribute(const struct cpumask *cpumask);"
    -    -    Call   -   [ANY]                            cpumask::any_and_distribute   "u32 bpf_cpumask_any_and_distribute(const struct cpumask *src1, const struct cpumask *src2);"
    6.15 -    Call   -   [ANY]                            cpumask::populate             "int bpf_cpumask_populate(struct bpf_cpumask *cpumask, void *src, size_t src__sz);"
}
