// SPDX-License-Identifier: GPL-2.0-only
/* A policy on the layers of the shipped schedulers whose pick is a task that has blocked. */
#include "glue.h"

static u64 tick_length(void)
{
	return MS;
}

static u32 ticks_left(task_t *p)
{
	return 10;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	list_init(&rq->head);
	WRITE_ONCE(rq->gone, NULL);
}

static void init_task(task_t *p)
{
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	list_add_tail(run_list(p), &rq->head);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	list_del(run_list(p));
	if (reason == DEQ_SLEEP)
		rq->gone = p;
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *p = rq->gone;
	list_t *pos;

	if (p)
		return p;
	list_for_each(pos, &rq->head) {
		p = linked_task(pos);
		if (can_run(p, cpu, prev))
			return p;
	}
	return NULL;
}

static bool task_tick(rq_t *rq, task_t *p)
{
	return false;
}

static bool yield_task(rq_t *rq, task_t *p)
{
	return true;
}

static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	return NO_CPU;
}

SCHED_OPS(impossible);
