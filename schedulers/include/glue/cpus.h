/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/cpus.h - idle CPUs, and CPUs that are kicked to look for a task.
 */
#ifndef SCHEDLAB_GLUE_CPUS_H
#define SCHEDLAB_GLUE_CPUS_H

#include "glue/queues.h"

u64 nr_idle_kicks COUNTS("idle CPUs told to look for work");
u64 nr_preempt_kicks COUNTS("CPUs told to preempt their task");

static u64 idle_mask[MASK_WORDS];

static __always_inline bool cpu_idle(u32 cpu)
{
	return cpu_nr(cpu)->idle_since;
}

static __always_inline void set_idle(u32 cpu, u64 now)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	cpu_nr(cpu)->idle_since = now ?: 1;
	__sync_fetch_and_or(&idle_mask[cpu / 64 % MASK_WORDS], 1ull << (cpu % 64));
}

static __always_inline void clear_idle(u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	if (!cpu_idle(cpu))
		return;
	WRITE_ONCE(cpu_nr(cpu)->idle_since, 0);
	__sync_fetch_and_and(&idle_mask[cpu / 64 % MASK_WORDS], ~(1ull << (cpu % 64)));
}

/* Tells @cpu to pick again, although what it runs has time left. */
static __always_inline void preempt_cpu(u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	count(nr_preempt_kicks);
	cpu_nr(cpu)->resched = true;
	scx_bpf_kick_cpu(cpu, KICK_PREEMPT);
}

/* Tells @cpu to look for work, if it is idle. */
static __always_inline void kick_idle(u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	count(nr_idle_kicks);
	scx_bpf_kick_cpu(cpu, KICK_IDLE);
}

/* The first idle CPU after @cpu, coming round to it, or NO_CPU. */
static __always_inline s32 next_idle_cpu(u32 cpu)
{
	u32 i, word = cpu / 64 % MASK_WORDS;
	u64 mask = idle_mask[word] & ~((2ull << (cpu % 64)) - 1);

	for (i = zero; !mask && i < MASK_WORDS && can_loop; i++) {
		word = (word + 1) % MASK_WORDS;
		mask = idle_mask[word];
	}
	return mask ? (s32)(word * 64 + __builtin_ctzll(mask)) : NO_CPU;
}

static __noinline int kick_idle_cpus(void)
{
	u32 cpu;

	use_arena();
	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++)
		if (cpu_idle(cpu))
			kick_idle(cpu);
	return 0;
}

/* Wakes @target for a task of @cpu. The kernel itself wakes @cpu for a waking task. */
static __always_inline void kick(s32 target, s32 cpu, u32 reason)
{
	debug_expect(target < (s32)nr_cpus, BAD_CPU);
	if (target == IDLE_CPUS)
		kick_idle_cpus();
	if (target < 0)
		return;
	if (!cpu_idle(target))
		preempt_cpu(target);
	else if (target != cpu || reason > ENQ_NEW)
		kick_idle(target);
}

/*
 * @cpu went idle or is not any more. The former is known from ops.dispatch. Only
 * CPUs that were idle before the scheduler was loaded come here first: they look once.
 */
SEC("struct_ops/update_idle")
void glue_update_idle(u64 *ctx)
{
	s32 cpu = ctx[0];
	bool idle = ctx[1];

	use_arena();
	if (!idle) {
		clear_idle(cpu);
	} else if (!cpu_idle(cpu)) {
		set_idle(cpu, bpf_ktime_get_ns());
		kick_idle(cpu);
	}
}

#endif
