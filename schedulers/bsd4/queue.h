/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/queue.h - the queue of all CPUs, and the first task of it that a CPU may run.
 */
#ifndef SCHEDLAB_BSD4_QUEUE_H
#define SCHEDLAB_BSD4_QUEUE_H

#include "glue.h"

/* Points of estcpu per priority, on one CPU. */
#define ESTCPU_WEIGHT 8
/* No nice value is that high. */
#define ANY_NICE 100

static __always_inline prio_queue_t *queue_of(rq_t *rq, task_t *p)
{
	debug_expect(p->bound < (s32)nr_cpus, BAD_CPU);
	return p->bound == NO_CPU ? &rq->queue : &rq->own[(u32)p->bound % MAX_CPUS];
}

/* The highest nice value that may run now. */
static __always_inline s32 highest_nice(rq_t *rq)
{
	return nice_starve_window ? least_nice(&rq->timeshare) + (s32)nice_starve_window : ANY_NICE;
}

static __always_inline bool barred(task_t *p, s32 nice)
{
	return p->base.nice > nice && p->class == CLASS_TIMESHARE;
}

/* runq_fuzz: a task among the next ones of the list of @p that @cpu ran last, or @p. */
static __noinline task_t *warm_task(prio_queue_t *queue, task_t *p, u32 cpu, task_t *prev, s32 nice)
{
	list_t *pos = run_list(p);
	task_t *other;
	u32 i;

	use_arena();
	if (p->last_cpu == (s32)cpu)
		return p;
	for (i = zero + 1; i < runq_fuzz && can_loop; i++) {
		pos = pos->next;
		if (pos == &queue->list[list_nr(p) % NR_PRIO])
			break;
		other = linked_task(pos);
		if (other->last_cpu == (s32)cpu && can_run(other, cpu, prev) && !barred(other, nice)) {
			count(nr_fuzzy_picks);
			return other;
		}
	}
	return p;
}

/* First task of @queue, in order of priority, that @cpu may run, of at most @nice. */
static __noinline task_t *first_task(prio_queue_t *queue, u32 cpu, task_t *prev, s32 nice)
{
	list_t *pos;
	task_t *p;
	u32 prio;

	use_arena();
	prio_queue_for_each(prio, queue) {
		list_for_each(pos, &queue->list[prio]) {
			p = linked_task(pos);
			if (!can_run(p, cpu, prev))
				continue;
			if (!barred(p, nice))
				return runq_fuzz > 1 ? warm_task(queue, p, cpu, prev, nice) : p;
			count(nr_barred);
		}
	}
	return NULL;
}

/* An idle CPU that @p may use, or NO_CPU. */
static __always_inline s32 idle_cpu_for(task_t *p)
{
	u32 word;
	u64 mask;

	for (word = zero; word * 64 < nr_cpus && can_loop; word++) {
		mask = idle_mask[word % MASK_WORDS] & p->base.allowed[word % MASK_WORDS];
		if (mask)
			return word * 64 + __builtin_ctzll(mask);
	}
	debug_expect(word * 64 <= MAX_CPUS, BAD_CPU);
	return NO_CPU;
}

#endif
