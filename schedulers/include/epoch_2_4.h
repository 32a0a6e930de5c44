/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * epoch_2_4.h - the epochs of Linux 2.4. A task's goodness is the ticks that it has
 * left. When no runnable task has any, every task keeps half of its ticks and gets
 * new ones, also one that sleeps: it comes to own up to twice its share.
 *
 * Example, nice 0: 6 ticks an epoch. A task that sleeps has 6, 9, 10, 11, 11, ...
 */
#ifndef SCHEDLAB_EPOCH_2_4_H
#define SCHEDLAB_EPOCH_2_4_H

#include "glue/queues.h"

const volatile u32 scale_shift
	TUNABLE("2.4: ticks per epoch are ((20 - nice) >> scale_shift) + 1; 2 as for HZ below 200", "bits", 0, 5) = 2;

/* Ticks that a task gets per epoch. */
static __always_inline s32 v2_4_ticks(s32 nice)
{
	return ((20 - nice) >> scale_shift) + 1;
}

/* What @p, which has ticks left, is worth by them. */
static __always_inline s32 v2_4_weight(task_t *p)
{
	debug_expect(p->counter > 0, BAD_COUNTER);
	return p->counter;
}

/* The new @child belongs to the epoch of its parent. */
static __always_inline void v2_4_fork(task_t *parent, task_t *child)
{
}

/* An epoch of @rq ends. False: the glue has to walk all tasks, and picks again. */
static __always_inline bool v2_4_end(rq_t *rq)
{
	rq->base.walk_tasks = true;
	return false;
}

/* The ticks of the running @p are used up. */
static __always_inline void v2_4_used_up(task_t *p)
{
}

static __always_inline void v2_4_yield(task_t *p)
{
}

/* A new epoch, for one task. */
static __always_inline void v2_4_recalculate(task_t *p)
{
	debug_expect(p->counter >= 0, BAD_COUNTER);
	p->counter = (p->counter >> 1) + v2_4_ticks(p->base.nice);
	debug_expect(p->counter >= v2_4_ticks(p->base.nice), BAD_COUNTER);
}

#endif
