/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/queues.h - the current, next and idle queue of a CPU, and which of them a task
 * goes to; how interactive a task is.
 *
 * A task's history is the time that it ran and the time that it slept, together
 * no more than slp_run_max_ns. The score is 50 times the quotient of the two, the
 * lesser one on top, and mirrored at 50 if it ran more than it slept:
 *
 *   0 ... 50 (slept more)  50 * run / sleep        50 ... 100 (ran more)  100 - 50 * sleep / run
 */
#ifndef SCHEDLAB_ULE_QUEUES_H
#define SCHEDLAB_ULE_QUEUES_H

#include "glue.h"

#define INTERACT_MAX 100
#define INTERACT_HALF (INTERACT_MAX / 2)
/* time-share priorities that the score moves a task over */
#define PRI_RANGE (PRI_MAX_TIMESHARE - PRI_MIN_TIMESHARE + 1)
/* how much nicer than the least nice task one may be and still get a slice by its nice */
#define SLICE_NTHRESH 19

static __always_inline void queue_add_tail(task_t *p, prio_queue_t *queue)
{
	debug_expect(!p->queue, LINKED_TWICE);
	prio_queue_add_tail(queue, p, list_nr(p));
	p->queue = queue;
}

static __always_inline void queue_del(task_t *p)
{
	expect(p->queue, NOT_ON_ARRAY);
	prio_queue_del(p->queue, p, list_nr(p));
	WRITE_ONCE(p->queue, NULL);
}

/* To the tail of its list, which may be another one by now. */
static __noinline int requeue(task_t *p, prio_queue_t *queue, s32 prio)
{
	use_arena();
	debug_expect((u32)prio <= PRI_MAX_IDLE, BAD_PRIORITY);
	queue_del(p);
	p->prio = prio;
	queue_add_tail(p, queue);
	return 0;
}

/* The best task of @queue that @cpu can run. */
static __noinline task_t *first_task(prio_queue_t *queue, u32 cpu, task_t *prev)
{
	use_arena();
	return prio_queue_first(queue, cpu, prev);
}

/* ---- score ---- */

/* 0..100. As much run as sleep is 0, as in the source. Examples (run, sleep): (1, 9) 5, (9, 1) 95. */
static __always_inline u32 interact_score(task_t *p)
{
	u64 run = p->run_time, sleep = p->sleep_time, unit;

	debug_expect(run + sleep < 1ull << 62, BAD_HISTORY);
	if (run > sleep) {
		unit = max(run / INTERACT_HALF, 1ull);
		return INTERACT_MAX - sleep / unit;
	}
	if (sleep > run) {
		unit = max(sleep / INTERACT_HALF, 1ull);
		return run / unit;
	}
	return 0;
}

static __always_inline bool interactive(task_t *p)
{
	return !p->batch && interact_score(p) < interact_thresh;
}

/* Woken in the kernel, and has not run since. */
static __always_inline bool boosted(task_t *p)
{
	return p->class == CLASS_TIMESHARE && p->prio < PRI_MIN_TIMESHARE;
}

/* The queue that @p goes to when it becomes ready or its slice ends. */
static __always_inline prio_queue_t *home_queue(rq_t *rq, task_t *p)
{
	if (p->class == CLASS_IDLE)
		return &rq->idle;
	if (p->class != CLASS_TIMESHARE || interactive(p) || boosted(p))
		return rq->curr;
	return rq->next;
}

/* The CPU mask of @p may have changed since @rq looked. */
static __always_inline void count_movable(rq_t *rq, task_t *p, bool movable)
{
	debug_expect(movable || !p->in_movable || rq->nr_movable, LOAD_BELOW_ZERO);
	rq->nr_movable += movable - p->in_movable;
	p->in_movable = movable;
}

/* Tasks that CPU @cpu can give away: not the one that runs. */
static __always_inline u32 transferable(u32 cpu)
{
	task_t *curr = cpu_nr(cpu)->curr;
	u32 nr = rq_nr(cpu)->nr_movable;

	return nr && curr && curr->in_movable ? nr - 1 : nr;
}

#endif
