/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/v6_x.h - the generation of December 2005: FreeBSD 6.x, revision 1.161.
 *
 * A full history goes to four fifths. Every task goes to its queue by its score. A
 * task that wakes a better one gives the current queue up. CPUs of one core pull from
 * each other, and pushes come at random times.
 */
#ifndef SCHEDLAB_ULE_V6_X_H
#define SCHEDLAB_ULE_V6_X_H

#include "search.h"

/* Length of a tick of the clock that sleep is measured with, ns. */
static __always_inline u64 v6_x_clock_length(void)
{
	return MS;
}

/* The history @sum is full: to four fifths, or to half if it is far too long. */
static __always_inline void v6_x_cut(task_t *p, u64 sum)
{
	if (sum > slp_run_max_ns / 5 * 6) {
		p->run_time /= 2;
		p->sleep_time /= 2;
	} else {
		p->run_time = p->run_time / 5 * 4;
		p->sleep_time = p->sleep_time / 5 * 4;
	}
}

/* ---- slice ---- */

/* A seventh of a second's ticks, of the statistics clock. */
static __always_inline u32 v6_x_longest_slice(void)
{
	return 18;
}

static __always_inline s32 v6_x_interactive_slice(s32 longest)
{
	return longest;
}

/* Of a task more than SLICE_NTHRESH nicer than the least nice one. */
static __always_inline s32 v6_x_nicest_slice(void)
{
	return slice_min;
}

/* ---- queueing ---- */

static __always_inline bool v6_x_wakes_boosted(task_t *p)
{
	return false;
}

static __always_inline bool v6_x_passes_by(rq_t *rq, task_t *p)
{
	return false;
}

static __always_inline bool v6_x_stays_current(task_t *p)
{
	return false;
}

/*
 * @p loses the CPU before its slice's end. An interrupt that preempts lets it keep its
 * place, at the head of its list. If @p woke a better task itself it is queued like
 * one that becomes ready: a task that is not interactive goes to the next queue.
 */
static __always_inline void v6_x_preempted(rq_t *rq, task_t *p, bool gave_way)
{
	if (!gave_way || p->queue == home_queue(rq, p))
		return;
	requeue(p, home_queue(rq, p), p->prio);
	count(nr_gave_way);
}

static __always_inline prio_queue_t *v6_x_yield_queue(rq_t *rq, task_t *p)
{
	return home_queue(rq, p);
}

/* ---- balance ---- */

static __always_inline u32 v6_x_core_size(void)
{
	return core_cpus;
}

/* Tasks on the CPU that wakes @p, from which on an idle CPU is better: one waits besides the waker. */
static __always_inline u32 v6_x_enough_tasks(void)
{
	return 2;
}

/* A task becomes ready where it is woken. */
static __always_inline s32 v6_x_ready_cpu(task_t *p, s32 prev_cpu, s32 this_cpu)
{
	return cpu_allowed(p, this_cpu) ? this_cpu : prev_cpu;
}

static __always_inline prio_queue_t *v6_x_first_movable(rq_t *rq)
{
	return rq->next;
}

static __always_inline prio_queue_t *v6_x_second_movable(rq_t *rq)
{
	return rq->curr;
}

/*
 * @cpu has nothing to run. True: it may pull from the CPU of its core that the search
 * finds. CPUs of other cores send tasks here when these become ready.
 */
static __always_inline bool v6_x_search_newidle(u32 cpu, bool *any)
{
	*any = false;
	if (core_cpus == 1)
		return false;
	search_groups(&rq_nr(cpu)->search, cpu - cpu % core_cpus, core_cpus, 1, 0);
	return true;
}

static __always_inline u32 v6_x_push_difference(u32 diff)
{
	return diff;
}

/* Least difference in load that makes a push. */
static __always_inline u32 v6_x_push_threshold(void)
{
	return 1;
}

/* Up to 2 s, in ticks of the clock. */
static __always_inline u64 v6_x_push_period(void)
{
	u64 tick = clock_ns ?: v6_x_clock_length();

	return bpf_get_prandom_u32() % (2 * SEC_NS / tick) * tick;
}

#endif
