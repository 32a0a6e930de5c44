/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/v5_x.h - the generation of 2003 and 2004: FreeBSD 5.1 to 5.x.
 *
 * The scheduler knows of one CPU: all tasks are in the queue of all, estcpu weighs the
 * same whatever the number of CPUs. An idle CPU halts, and looks at the queue when a
 * clock ticks.
 */
#ifndef SCHEDLAB_BSD4_V5_X_H
#define SCHEDLAB_BSD4_V5_X_H

#include "queue.h"

/* Points of estcpu per priority. */
static __always_inline u32 v5_x_estcpu_weight(void)
{
	return ESTCPU_WEIGHT;
}

/* The CPU whose own queue @k belongs to; NO_CPU: that of all. */
static __always_inline s32 v5_x_bound_to(struct task_struct *k)
{
	return NO_CPU;
}

/* Does an idle CPU hear of a wakeup only when its clock ticks? */
static __always_inline bool v5_x_halts(void)
{
	return idle_halts;
}

/* The task that @cpu runs next. */
static __always_inline task_t *v5_x_best_task(rq_t *rq, u32 cpu, task_t *prev, s32 nice)
{
	return first_task(&rq->queue, cpu, prev, nice);
}

/* A task became ready, and @idle is a CPU that may take it: idle CPUs watch the queue, so one is enough. */
static __always_inline s32 v5_x_told(s32 idle)
{
	return idle;
}

/* Does @curr, preempted by @p, stay the first of its list? */
static __always_inline bool v5_x_keeps_first(task_t *p, task_t *curr)
{
	return false;
}

#endif
