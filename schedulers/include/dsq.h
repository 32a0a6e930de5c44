/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dsq.h - all that an ordinary sched_ext scheduler needs: one whose tasks wait on the kernel's own dispatch queues.
 *
 * The functions without scx_bpf_ in their names have had several forms; they take the one that the running kernel has,
 * from 6.12 on (see compat.h). The others are the kernel's own and have always been there.
 */
#ifndef SCHEDLAB_DSQ_H
#define SCHEDLAB_DSQ_H

#include "compat.h"

#define DSQ_GLOBAL scx_enum(scx_dsq_id_flags, SCX_DSQ_GLOBAL)
/* The queue of the CPU that is added: DSQ_LOCAL_ON | cpu. */
#define DSQ_LOCAL_ON scx_enum(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON)

/* Weight of a task of nice 0. */
#define WEIGHT_DFL 100

/* Dispatch queues. Their numbers are the scheduler's own, from 0. */
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;

/* Idle CPUs. */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
s32 scx_bpf_pick_any_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask) __ksym;

bool scx_bpf_task_running(const struct task_struct *p) __ksym;

/* The arguments of an insertion by virtual time, as 6.19 and later take them. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

bool __scx_bpf_dsq_insert_vtime___new(struct task_struct *p,
				      struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
void scx_bpf_dsq_insert_vtime___mid(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				    u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				  u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2___new(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___mid(u64 dsq_id) __ksym __weak;
bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime___new(struct task_struct *p, u64 vtime) __ksym __weak;
u64 scx_bpf_now___new(void) __ksym __weak;
struct task_struct *scx_bpf_dsq_peek___new(u64 dsq_id) __ksym __weak;

/* Hands @p to a queue whose tasks leave it in the order of their virtual times. */
static __always_inline void dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
					     u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = { dsq_id, slice, vtime, enq_flags };

	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime___new))
		__scx_bpf_dsq_insert_vtime___new(p, &args);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___mid))
		scx_bpf_dsq_insert_vtime___mid(p, dsq_id, slice, vtime, enq_flags);
	else
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice, vtime, enq_flags);
}

/* In dispatch(): moves the first task of a queue that may run here to this CPU's own; false when there is none. */
static __always_inline bool dsq_move_to_local(u64 dsq_id)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___new))
		return scx_bpf_dsq_move_to_local___v2___new(dsq_id, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___mid))
		return scx_bpf_dsq_move_to_local___mid(dsq_id);
	return scx_bpf_consume___old(dsq_id);
}

/* The first task of a queue, which may leave it meanwhile; NULL where it is empty, and before 6.19. */
static __always_inline struct task_struct *dsq_first(u64 dsq_id)
{
	return bpf_ksym_exists(scx_bpf_dsq_peek___new) ? scx_bpf_dsq_peek___new(dsq_id) : (void *)0;
}

/* Sets @p's virtual time; older kernels let us write the member. */
static __always_inline void set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___new))
		scx_bpf_task_set_dsq_vtime___new(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/* The time; ns. The kernel's own function for schedulers is cheaper than the helper. */
static __always_inline u64 now_ns(void)
{
	return bpf_ksym_exists(scx_bpf_now___new) ? scx_bpf_now___new() : bpf_ktime_get_ns();
}

/* Is @a before @b, virtual times that may have wrapped around? */
static __always_inline bool is_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Prints a line into the kernel's trace, with up to three numbers: bpf_printk("%d runs", p->pid). */
#define bpf_printk(fmt, ...)                                                     \
	({                                                                       \
		static const char printk_fmt[] = fmt;                            \
		bpf_trace_printk(printk_fmt, sizeof(printk_fmt), ##__VA_ARGS__); \
	})

/*
 * Ends the scheduler with a message: scx_error("no queue for CPU %d", cpu). Numbers alone can be printed. The last element of the
 * array is not passed: without arguments, the verifier wants the address of something all the same.
 */
#define scx_error(fmt, ...)                                                    \
	({                                                                     \
		static char error_fmt[] = fmt;                                 \
		u64 error_args[] = { __VA_ARGS__ __VA_OPT__(, ) 0 };           \
		scx_bpf_error_bstr(error_fmt, error_args,                      \
				   sizeof(error_args) - sizeof(error_args[0])); \
	})

#endif
