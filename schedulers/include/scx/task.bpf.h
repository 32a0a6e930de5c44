/* SPDX-License-Identifier: GPL-2.0-only */
/* task.bpf.h - whether a task may migrate, walks over CPUs, and the clocks of a CPU's run queue. */
#ifndef SCHEDLAB_TASK_BPF_H
#define SCHEDLAB_TASK_BPF_H

#include <bpf/bpf_core_read.h>
#include "kfuncs.bpf.h"

/*
 * Is @p bound to its CPU for a while? Programs that may not sleep ask. Entering a program binds the current task too, on
 * kernels before 6.18 and on those with CONFIG_PREEMPT_RCU. So a count of 1 says nothing about the current task there.
 */
static inline bool is_migration_disabled(const struct task_struct *p)
{
	if (!bpf_core_field_exists(p->migration_disabled))
		return false;
	if (p->migration_disabled != 1)
		return p->migration_disabled;
	if (!CONFIG_PREEMPT_RCU && LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 18, 0))
		return true;
	return bpf_get_current_task_btf() != p;
}

static __always_inline const struct cpumask *cast_mask(struct bpf_cpumask *mask)
{
	return (const struct cpumask *)mask;
}

/* The iterators behind for_each_possible_cpu() and for_each_online_cpu(): a walk over the bits of a mask that is given back. */
#define __scx_cpu_iterator(name)                                                                \
	struct bpf_iter_##name {                                                                \
		struct bpf_iter_bits it;                                                        \
		const struct cpumask *bitmap;                                                   \
	};                                                                                      \
	static inline int bpf_iter_##name##_new(struct bpf_iter_##name *it, const u64 *unused, u32 none) \
	{                                                                                       \
		it->bitmap = scx_bpf_get_##name##_cpumask();                                    \
		return bpf_iter_bits_new(&it->it, (const u64 *)it->bitmap, sizeof(struct cpumask) / 8); \
	}                                                                                       \
	static inline int *bpf_iter_##name##_next(struct bpf_iter_##name *it)                   \
	{                                                                                       \
		return bpf_iter_bits_next(&it->it);                                             \
	}                                                                                       \
	static inline void bpf_iter_##name##_destroy(struct bpf_iter_##name *it)                \
	{                                                                                       \
		scx_bpf_put_cpumask(it->bitmap);                                                \
		bpf_iter_bits_destroy(&it->it);                                                 \
	}

__scx_cpu_iterator(possible)
__scx_cpu_iterator(online)

/* int *cpu; for_each_online_cpu(cpu) sum += *cpu; */
#define for_each_possible_cpu(cpu) bpf_for_each(possible, cpu, NULL, 0)
#define for_each_online_cpu(cpu) bpf_for_each(online, cpu, NULL, 0)

/* Members of struct rq that vmlinux.h need not have. */
struct rq___local {
	u64 clock_task;
	u64 clock_pelt;
	unsigned long lost_idle_time;
	u64 prev_steal_time_rq;
} __attribute__((preserve_access_index));

extern struct rq runqueues __ksym;

/* The run queue of @cpu; the caller is a callback that holds its lock. */
static inline struct rq___local *get_current_rq(u32 cpu)
{
	return bpf_per_cpu_ptr(&runqueues, cpu);
}

/* The time that tasks had on @cpu: without interrupts and what the host took. An idle CPU's stands still. */
static inline u64 scx_clock_task(u32 cpu)
{
	struct rq___local *rq = get_current_rq(cpu);

	return rq ? rq->clock_task : 0;
}

/* The same, scaled by the CPU's capacity and frequency. */
static inline u64 scx_clock_pelt(u32 cpu)
{
	struct rq___local *rq = get_current_rq(cpu);

	return rq ? rq->clock_pelt - rq->lost_idle_time : 0;
}

/* What the host took so far; 0 where the kernel does not count it. */
static inline u64 scx_clock_virt(u32 cpu)
{
	struct rq___local *rq;

	if (!bpf_core_field_exists(((struct rq___local *)0)->prev_steal_time_rq))
		return 0;
	rq = get_current_rq(cpu);
	return rq ? BPF_CORE_READ(rq, prev_steal_time_rq) : 0;
}

#endif
