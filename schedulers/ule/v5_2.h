/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/v5_2.h - the generation of the end of 2003: FreeBSD 5.2.
 *
 * The history is halved when it is full. A woken task goes first whatever its score.
 * An interactive task has a slice of one tick, and a task 19 or more nicer than the
 * least nice one has none. Idle CPUs pull from the CPU with most tasks.
 */
#ifndef SCHEDLAB_ULE_V5_2_H
#define SCHEDLAB_ULE_V5_2_H

#include "search.h"

/* Length of a tick of the clock that sleep is measured with, ns. */
static __always_inline u64 v5_2_clock_length(void)
{
	return 10 * MS;
}

/* The history @sum is full. The source compares with another unit by mistake, and always halves. */
static __always_inline void v5_2_cut(task_t *p, u64 sum)
{
	p->run_time /= 2;
	p->sleep_time /= 2;
}

/* ---- slice ---- */

/* A seventh of a second's ticks, of a clock of 100 Hz. */
static __always_inline u32 v5_2_longest_slice(void)
{
	return 14;
}

static __always_inline s32 v5_2_interactive_slice(s32 longest)
{
	return slice_min;
}

/* Of a task more than SLICE_NTHRESH nicer than the least nice one. */
static __always_inline s32 v5_2_nicest_slice(void)
{
	return nice_window ? 0 : slice_min;
}

/* ---- queueing ---- */

/* Does @p wake up before all that run in user mode? */
static __always_inline bool v5_2_wakes_boosted(task_t *p)
{
	return wake_boost && p->class == CLASS_TIMESHARE && !p->batch;
}

/* A task without a slice, because much less nice ones are there, goes to the next queue instead of running. */
static __always_inline bool v5_2_passes_by(rq_t *rq, task_t *p)
{
	return !p->slice && nice_window;
}

/* The slice of @p has ended: a task whose priority is another one now is taken for one that just woke up. */
static __always_inline bool v5_2_stays_current(task_t *p)
{
	return p->prio != p->user_pri && !p->batch;
}

/* @p loses the CPU before its slice's end: to the tail of its list. */
static __always_inline void v5_2_preempted(rq_t *rq, task_t *p, bool gave_way)
{
	requeue(p, p->queue, p->prio);
}

static __always_inline prio_queue_t *v5_2_yield_queue(rq_t *rq, task_t *p)
{
	return p->queue;
}

/* ---- balance ---- */

static __always_inline u32 v5_2_core_size(void)
{
	return 1;
}

/* Tasks on the CPU that wakes @p, from which on an idle CPU is better. */
static __always_inline u32 v5_2_enough_tasks(void)
{
	return 1;
}

/* A task becomes ready on its last CPU. */
static __always_inline s32 v5_2_ready_cpu(task_t *p, s32 prev_cpu, s32 this_cpu)
{
	return prev_cpu;
}

static __always_inline prio_queue_t *v5_2_first_movable(rq_t *rq)
{
	return rq->curr;
}

static __always_inline prio_queue_t *v5_2_second_movable(rq_t *rq)
{
	return rq->next;
}

/* @cpu has nothing to run. True: it may pull from the CPU that the search finds, also tasks of the idle class. */
static __always_inline bool v5_2_search_newidle(u32 cpu, bool *any)
{
	*any = true;
	search_groups(&rq_nr(cpu)->search, 0, nr_cpus, 1, 0);
	return true;
}

/* The task that runs does not count in a difference of loads. */
static __always_inline u32 v5_2_push_difference(u32 diff)
{
	return diff - 1;
}

/* Least difference in load that makes a push. */
static __always_inline u32 v5_2_push_threshold(void)
{
	return 2;
}

static __always_inline u64 v5_2_push_period(void)
{
	return SEC_NS;
}

#endif
