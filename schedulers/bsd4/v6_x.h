/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/v6_x.h - the generation of 2005: FreeBSD 6.x.
 *
 * A task that one CPU alone may run is in a queue of that CPU's. estcpu weighs less the
 * more CPUs there are. A waker whose own CPU is busy sends the idle CPUs to look.
 */
#ifndef SCHEDLAB_BSD4_V6_X_H
#define SCHEDLAB_BSD4_V6_X_H

#include "queue.h"

/* Points of estcpu per priority. */
static __always_inline u32 v6_x_estcpu_weight(void)
{
	return ESTCPU_WEIGHT * nr_cpus;
}

/* The CPU whose own queue @k belongs to; NO_CPU: that of all. */
static __always_inline s32 v6_x_bound_to(struct task_struct *k)
{
	return nr_cpus > 1 && k->nr_cpus_allowed == 1 ? scx_bpf_task_cpu(k) : NO_CPU;
}

static __always_inline bool v6_x_halts(void)
{
	return false;
}

/* The task that @cpu runs next: those that only this CPU may run come first when they are better. */
static __always_inline task_t *v6_x_best_task(rq_t *rq, u32 cpu, task_t *prev, s32 nice)
{
	task_t *p = first_task(&rq->queue, cpu, prev, nice), *own;
	prio_queue_t *queue = &rq->own[cpu % MAX_CPUS];

	if (!queue->nr_queued)
		return p;
	own = first_task(queue, cpu, prev, nice);
	if (!own || (p && own->prio >= p->prio))
		return p;
	count(nr_bound_picks);
	return own;
}

/* A task became ready, and @idle is a CPU that may take it: the waker sends all idle CPUs. */
static __always_inline s32 v6_x_told(s32 idle)
{
	return wake_one_cpu ? idle : IDLE_CPUS;
}

/* Does @curr, preempted by @p, stay the first of its list? An interrupt's task leaves soon. */
static __always_inline bool v6_x_keeps_first(task_t *p, task_t *curr)
{
	return p->prio <= PRI_MAX_INTERRUPT || curr->class == CLASS_IDLE;
}

#endif
