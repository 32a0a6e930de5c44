/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/priority.h - estcpu, the estimate of a task's CPU use, and the priority that it makes.
 */
#ifndef SCHEDLAB_BSD4_PRIORITY_H
#define SCHEDLAB_BSD4_PRIORITY_H

#include "v5_x.h"
#include "v6_x.h"

/* Most priorities that estcpu is worth, and a rest: 295 points on one CPU. */
#define ESTCPU_LEVELS (PRIO_MAX - PRIO_MIN - PRIO_PER_LIST)
/* Load averages in fixed point: bits behind the point, and one. */
#define FSHIFT 11
#define FSCALE (1u << FSHIFT)
/* exp(-5 s / 60 s): what a sample leaves of the average over a minute. */
#define LOAD_DECAY 1884

static __always_inline u32 estcpu_weight(void)
{
	return GENERATION(estcpu_weight);
}

static __always_inline u32 limit_estcpu(u32 estcpu)
{
	u32 weight = estcpu_weight();

	return min(estcpu, weight * ESTCPU_LEVELS + weight - 1);
}

static __always_inline void set_user_pri(task_t *p)
{
	s32 pri = PRI_MIN_TIMESHARE + p->estcpu / estcpu_weight() + p->base.nice - PRIO_MIN;

	if (p->class == CLASS_TIMESHARE)
		p->user_pri = min(max(pri, PRI_MIN_TIMESHARE), PRI_MAX_TIMESHARE);
	else
		p->user_pri = class_priority(p->class, p->base.nice);
	debug_expect((u32)p->user_pri <= PRI_MAX_IDLE, BAD_PRIORITY);
}

/* Gives @p, which is linked, a rank; only on another list its place changes. */
static __always_inline void set_prio(rq_t *rq, task_t *p, s32 prio)
{
	prio_queue_t *queue = queue_of(rq, p);
	u32 list = list_nr(p);

	debug_expect((u32)prio <= PRI_MAX_IDLE, BAD_PRIORITY);
	debug_expect(p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
	p->prio = prio;
	if (list_nr(p) == list)
		return;
	prio_queue_del(queue, p, list);
	prio_queue_add_tail(queue, p, list_nr(p));
	count(nr_list_changes);
}

/* What a walk leaves of @estcpu: two parts in three at load 1, four in five at load 2. */
static __always_inline u32 decay(rq_t *rq, u32 estcpu)
{
	u64 twice = 2 * (fixed_load ? fixed_load * FSCALE : rq->ldavg);

	return twice * estcpu / (twice + FSCALE);
}

/* @p wakes up after a long sleep: the walks that passed it by. */
static __noinline int update_priority(rq_t *rq, task_t *p)
{
	u32 i;

	for (i = zero + 2; i < p->slptime && p->estcpu && can_loop; i++)
		p->estcpu = decay(rq, p->estcpu);
	count(nr_updatepris);
	debug_expect(p->estcpu <= limit_estcpu(~0u), BAD_ESTIMATE);
	return 0;
}

#endif
