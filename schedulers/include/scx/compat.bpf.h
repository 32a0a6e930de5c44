/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.bpf.h - functions that the kernel has had under several names or with other arguments, by today's name.
 *
 * All is decided when the object is loaded, as insert.bpf.h says. Names that begin with __COMPAT_ stand for functions that a
 * kernel may lack altogether; what then happens stands at each.
 */
#ifndef __SCX_COMPAT_BPF_H
#define __SCX_COMPAT_BPF_H

#include "enums.bpf.h"
#include "errno.bpf.h"
#include "insert.bpf.h"
#include "kfuncs.bpf.h"
#include "ops.bpf.h"

void scx_bpf_dsq_insert_vtime___mid(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				    u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				  u64 enq_flags) __ksym __weak;
s32 scx_bpf_select_cpu_and___mid(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				 const struct cpumask *cpus_allowed, u64 flags) __ksym __weak;
bool scx_bpf_dsq_move___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags) __ksym __weak;
bool scx_bpf_dispatch_from_dsq___old(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
				     u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_vtime___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
				  u64 enq_flags) __ksym __weak;
bool scx_bpf_dispatch_vtime_from_dsq___old(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
					   u64 dsq_id, u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_move_set_slice___new(struct bpf_iter_scx_dsq *it__iter, u64 slice) __ksym __weak;
void scx_bpf_dispatch_from_dsq_set_slice___old(struct bpf_iter_scx_dsq *it__iter,
					       u64 slice) __ksym __weak;
void scx_bpf_dsq_move_set_vtime___new(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym __weak;
void scx_bpf_dispatch_from_dsq_set_vtime___old(struct bpf_iter_scx_dsq *it__iter,
					       u64 vtime) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime___new(struct task_struct *p, u64 vtime) __ksym __weak;
struct cgroup *scx_bpf_task_cgroup___new(struct task_struct *p) __ksym __weak;
int bpf_cpumask_populate(struct bpf_cpumask *dst, void *src, size_t src__sz) __ksym __weak;
void scx_bpf_dsq_reenq___new(u64 dsq_id, u64 reenq_flags) __ksym __weak;
void scx_bpf_reenqueue_local___v2___mid(void) __ksym __weak;
u32 scx_bpf_reenqueue_local___old(void) __ksym __weak;
bool scx_bpf_sub_dispatch___new(u64 cgroup_id) __ksym __weak;
void scx_bpf_cid_override___new(const s32 __arena *cpu_to_cid__arena, u32 cpu_to_cid_cnt,
				const s32 __arena *shard_start__arena, u32 shard_start_cnt) __ksym __weak;

/* The structures stand in functions of their own: a kernel without them must not see what fills them. */
static __always_inline bool __scx_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
					       u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {
		.dsq_id = dsq_id,
		.slice = slice,
		.vtime = vtime,
		.enq_flags = enq_flags,
	};

	return __scx_bpf_dsq_insert_vtime(p, &args);
}

static __always_inline s32 __scx_select_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					    const struct cpumask *cpus_allowed, u64 flags)
{
	struct scx_bpf_select_cpu_and_args args = {
		.prev_cpu = prev_cpu,
		.wake_flags = wake_flags,
		.flags = flags,
	};

	return __scx_bpf_select_cpu_and(p, cpus_allowed, &args);
}

/* Hands @p to a queue whose tasks leave it in the order of their virtual times. 6.19 takes a structure, 6.13 renamed it. */
static __always_inline bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
						     u64 enq_flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime))
		return __scx_insert_vtime(p, dsq_id, slice, vtime, enq_flags);
	if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___mid))
		scx_bpf_dsq_insert_vtime___mid(p, dsq_id, slice, vtime, enq_flags);
	else
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice, vtime, enq_flags);
	return true;
}

/* An idle CPU for @p among @cpus_allowed, by the kernel's own choice; from 6.16 on. */
static __always_inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
						  const struct cpumask *cpus_allowed, u64 flags)
{
	if (bpf_ksym_exists(__scx_bpf_select_cpu_and))
		return __scx_select_and(p, prev_cpu, wake_flags, cpus_allowed, flags);
	return scx_bpf_select_cpu_and___mid(p, prev_cpu, wake_flags, cpus_allowed, flags);
}

/* The barrier keeps the compiler from testing both addresses by one OR of them, which the verifier refuses. */
static __always_inline bool __scx_has_select_and(void)
{
	if (bpf_ksym_exists(__scx_bpf_select_cpu_and))
		return true;
	barrier();
	return bpf_ksym_exists(scx_bpf_select_cpu_and___mid);
}
#define __COMPAT_HAS_scx_bpf_select_cpu_and __scx_has_select_and()

/* In a walk over a queue: moves the task at hand. Macros, because the verifier follows an iterator only by its own variable. */
#define scx_bpf_dsq_move(it, p, dsq_id, enq_flags)                                 \
	(bpf_ksym_exists(scx_bpf_dsq_move___new) ?                                 \
		 scx_bpf_dsq_move___new(it, p, dsq_id, enq_flags) :                \
	 bpf_ksym_exists(scx_bpf_dispatch_from_dsq___old) ?                        \
		 scx_bpf_dispatch_from_dsq___old(it, p, dsq_id, enq_flags) :       \
		 false)
#define scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags)                           \
	(bpf_ksym_exists(scx_bpf_dsq_move_vtime___new) ?                           \
		 scx_bpf_dsq_move_vtime___new(it, p, dsq_id, enq_flags) :          \
	 bpf_ksym_exists(scx_bpf_dispatch_vtime_from_dsq___old) ?                  \
		 scx_bpf_dispatch_vtime_from_dsq___old(it, p, dsq_id, enq_flags) : \
		 false)
#define scx_bpf_dsq_move_set_slice(it, slice)                                      \
	(bpf_ksym_exists(scx_bpf_dsq_move_set_slice___new) ?                       \
		 scx_bpf_dsq_move_set_slice___new(it, slice) :                     \
	 bpf_ksym_exists(scx_bpf_dispatch_from_dsq_set_slice___old) ?              \
		 scx_bpf_dispatch_from_dsq_set_slice___old(it, slice) :            \
		 (void)0)
#define scx_bpf_dsq_move_set_vtime(it, vtime)                                      \
	(bpf_ksym_exists(scx_bpf_dsq_move_set_vtime___new) ?                       \
		 scx_bpf_dsq_move_set_vtime___new(it, vtime) :                     \
	 bpf_ksym_exists(scx_bpf_dispatch_from_dsq_set_vtime___old) ?              \
		 scx_bpf_dispatch_from_dsq_set_vtime___old(it, vtime) :            \
		 (void)0)

/* Sets @p's virtual time; before 6.19 the member is written. */
static __always_inline void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___new))
		scx_bpf_task_set_dsq_vtime___new(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* The time, ns. The kernel's own function for schedulers, which came with 6.14, is cheaper than the helper. */
#define scx_bpf_now() (bpf_ksym_exists(scx_bpf_now) ? scx_bpf_now() : bpf_ktime_get_ns())

/* The task's cgroup, to be released; NULL where the kernel schedules without them. */
#define scx_bpf_task_cgroup(p) \
	(bpf_ksym_exists(scx_bpf_task_cgroup___new) ? scx_bpf_task_cgroup___new(p) : NULL)

/* The first task of a queue. The kernel's function misses tasks before 7.1; a walk of one step serves there. */
static inline struct task_struct *__COMPAT_scx_bpf_dsq_peek(u64 dsq_id)
{
	struct task_struct *first = NULL;
	struct bpf_iter_scx_dsq it;

	if (bpf_ksym_exists(scx_bpf_dsq_peek) && LINUX_KERNEL_VERSION >= KERNEL_VERSION(7, 1, 0))
		return scx_bpf_dsq_peek(dsq_id);
	if (bpf_iter_scx_dsq_new(&it, dsq_id, 0) == 0)
		first = bpf_iter_scx_dsq_next(&it);
	bpf_iter_scx_dsq_destroy(&it);
	return first;
}

/* The task that runs on @cpu; before 6.18 it is read from the run queue. */
static inline struct task_struct *__COMPAT_scx_bpf_cpu_curr(int cpu)
{
	struct rq *rq;

	if (bpf_ksym_exists(scx_bpf_cpu_curr))
		return scx_bpf_cpu_curr(cpu);
	rq = scx_bpf_cpu_rq(cpu);
	return rq ? rq->curr : NULL;
}

/* Has ops.select_cpu() been asked? A kernel without the flag asks always. */
static inline bool __COMPAT_is_enq_cpu_selected(u64 enq_flags)
{
	if (!bpf_core_enum_value_exists(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED))
		return true;
	return enq_flags & bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED);
}

/* Takes back all tasks of this CPU's own queue, or of another queue, and enqueues them again. From 7.1 on any queue serves. */
static inline bool __COMPAT_has_generic_reenq(void)
{
	return bpf_ksym_exists(scx_bpf_dsq_reenq___new);
}

/* May scx_bpf_reenqueue_local() be called outside of ops.cpu_release()? From 6.19 on. */
static inline bool __COMPAT_scx_bpf_reenqueue_local_from_anywhere(void)
{
	return bpf_ksym_exists(scx_bpf_reenqueue_local___v2___mid);
}

static inline int scx_bpf_reenqueue_local_from_anywhere(void)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq___new)) {
		scx_bpf_dsq_reenq___new(SCX_DSQ_LOCAL, 0);
		return 0;
	}
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___mid)) {
		scx_bpf_reenqueue_local___v2___mid();
		return 0;
	}
	return -EOPNOTSUPP;
}

static inline void scx_bpf_reenqueue_local(void)
{
	if (scx_bpf_reenqueue_local_from_anywhere())
		scx_bpf_reenqueue_local___old();
}

static inline void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq___new))
		scx_bpf_dsq_reenq___new(dsq_id, reenq_flags);
	else if (dsq_id == SCX_DSQ_LOCAL && !reenq_flags)
		scx_bpf_reenqueue_local();
	else
		scx_bpf_error("this kernel enqueues anew the tasks of local queues alone");
}

/* Lets the child scheduler of a cgroup dispatch; false where the kernel knows none. */
static inline bool scx_bpf_sub_dispatch(u64 cgroup_id)
{
	return bpf_ksym_exists(scx_bpf_sub_dispatch___new) && scx_bpf_sub_dispatch___new(cgroup_id);
}

/* Gives CPUs other cids; ignored where the kernel has none. */
static inline void scx_bpf_cid_override(const s32 __arena *cpu_to_cid, u32 cpu_to_cid_cnt,
					const s32 __arena *shard_start, u32 shard_start_cnt)
{
	if (bpf_ksym_exists(scx_bpf_cid_override___new))
		scx_bpf_cid_override___new(cpu_to_cid, cpu_to_cid_cnt, shard_start, shard_start_cnt);
}

/* From 6.15 on; before, one node has all CPUs and no event is counted. */
#define __COMPAT_scx_bpf_events(events, size) \
	(bpf_ksym_exists(scx_bpf_events) ? scx_bpf_events(events, size) : (void)0)
#define __COMPAT_bpf_cpumask_populate(cpumask, src, size) \
	(bpf_ksym_exists(bpf_cpumask_populate) ? bpf_cpumask_populate(cpumask, src, size) : -EOPNOTSUPP)
#define __COMPAT_scx_bpf_nr_node_ids() (bpf_ksym_exists(scx_bpf_nr_node_ids) ? scx_bpf_nr_node_ids() : 1u)
#define __COMPAT_scx_bpf_cpu_node(cpu) (bpf_ksym_exists(scx_bpf_cpu_node) ? scx_bpf_cpu_node(cpu) : 0)
#define __COMPAT_scx_bpf_get_idle_cpumask_node(node)                                           \
	(bpf_ksym_exists(scx_bpf_get_idle_cpumask_node) ? scx_bpf_get_idle_cpumask_node(node) : \
							  scx_bpf_get_idle_cpumask())
#define __COMPAT_scx_bpf_get_idle_smtmask_node(node)                                           \
	(bpf_ksym_exists(scx_bpf_get_idle_smtmask_node) ? scx_bpf_get_idle_smtmask_node(node) : \
							  scx_bpf_get_idle_smtmask())
#define __COMPAT_scx_bpf_pick_idle_cpu_node(cpus_allowed, node, flags)                       \
	(bpf_ksym_exists(scx_bpf_pick_idle_cpu_node) ?                                       \
		 scx_bpf_pick_idle_cpu_node(cpus_allowed, node, flags) :                     \
		 scx_bpf_pick_idle_cpu(cpus_allowed, flags))
#define __COMPAT_scx_bpf_pick_any_cpu_node(cpus_allowed, node, flags)                        \
	(bpf_ksym_exists(scx_bpf_pick_any_cpu_node) ?                                        \
		 scx_bpf_pick_any_cpu_node(cpus_allowed, node, flags) :                      \
		 scx_bpf_pick_any_cpu(cpus_allowed, flags))

#endif
