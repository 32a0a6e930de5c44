/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * epoch_tsss.h - the epochs of Linux 2.5.2 (Davide Libenzi's time-slice split). The
 * ticks are a slice and count no more as goodness. A bonus does, dyn_prio: it grows
 * by one for every epoch that a task has slept through, up to 40. So the end of an
 * epoch visits the runnable tasks alone.
 */
#ifndef SCHEDLAB_EPOCH_TSSS_H
#define SCHEDLAB_EPOCH_TSSS_H

#include "glue/queues.h"

const volatile u32 max_slice_us
	TUNABLE("TSSS: the longest slice, that of nice -20; 65000 gives nice 0 30 ms", "us", 10000, 200000) = 65000;

/* cap on the bonus, goodness points */
#define MAX_DYN_PRIO 40

/* Ticks that a task gets per epoch: 60, 30 and 10 ms at nice -20, 0 and 19. */
static __always_inline s32 tsss_ticks(s32 nice)
{
	u32 us = 10000 + (max_slice_us - 10000) / 39 * (19 - nice);
	u32 ticks = (u64)us * 1000 / tick_length();

	return ticks ? ticks : 1;
}

/* What @p, which has ticks left, is worth by its bonus. */
static __always_inline s32 tsss_weight(task_t *p)
{
	debug_expect(p->counter > 0, BAD_COUNTER);
	return p->dyn_prio + 1;
}

/* The new @child belongs to the epoch of its parent. */
static __always_inline void tsss_fork(task_t *parent, task_t *child)
{
	child->epoch = parent->epoch;
}

/* An epoch of @rq ends, for the runnable tasks only and without leaving the lock. True: pick again. */
static __always_inline bool tsss_end(rq_t *rq)
{
	list_t *pos;
	task_t *p;

	rq->epoch++;
	list_for_each(pos, &rq->head) {
		p = linked_task(pos);
		p->counter = tsss_ticks(p->base.nice);
		p->epoch = rq->epoch;
	}
	return true;
}

/* The ticks of the running @p are used up: so is a point of its bonus. */
static __always_inline void tsss_used_up(task_t *p)
{
	debug_expect(!p->counter, BAD_COUNTER);
	if (p->dyn_prio)
		p->dyn_prio--;
}

/* @p yields: it gives its slice away, and gets a point for it. */
static __always_inline void tsss_yield(task_t *p)
{
	p->counter = 0;
	p->dyn_prio++;
}

/* One point for every epoch of @old, its last queue, that @p missed. */
static __always_inline void tsss_catch_up(rq_t *rq, rq_t *old, task_t *p)
{
	p->dyn_prio = min(p->dyn_prio + old->epoch - p->epoch, (u32)MAX_DYN_PRIO);
	p->epoch = rq->epoch;
	debug_expect(p->dyn_prio <= MAX_DYN_PRIO, BAD_COUNTER);
}

#endif
