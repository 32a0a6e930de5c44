/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/arrays.h - the active and the expired array of a CPU, and its clock.
 */
#ifndef SCHEDLAB_O1_ARRAYS_H
#define SCHEDLAB_O1_ARRAYS_H

#include "glue.h"

static u64 tick_length(void)
{
	if (tick_ns)
		return tick_ns;
	return profile == PROFILE_2_6_10 ? MS : 10 * MS;
}

/* The clock of @rq in ticks, as jiffies were. */
static __always_inline u64 jiffies(rq_t *rq)
{
	debug_expect(tick_length(), BAD_STATE);
	return rq->base.clock / tick_length();
}

static __always_inline void array_add(task_t *p, prio_queue_t *array)
{
	debug_expect(!p->array, LINKED_TWICE);
	expect((u32)p->prio - MAX_RT_PRIO < NR_PRIO - MAX_RT_PRIO, BAD_PRIORITY);
	prio_queue_add_tail(array, p, p->prio);
	p->array = array;
}

static __always_inline void array_del(task_t *p)
{
	expect(p->array, NOT_ON_ARRAY);
	prio_queue_del(p->array, p, p->prio);
	WRITE_ONCE(p->array, NULL);
}

/* To the tail of its list, which may be another one by now. */
static __always_inline void requeue(task_t *p, prio_queue_t *array, s32 prio)
{
	debug_expect(p->array, NOT_ON_ARRAY);
	array_del(p);
	p->prio = prio;
	array_add(p, array);
}

/* @prio, if it is one of an ordinary task; else the nearest of these. */
static __always_inline s32 user_prio(s32 prio)
{
	return min(max(prio, MAX_RT_PRIO), NR_PRIO - 1);
}

#endif
