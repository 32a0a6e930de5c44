/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rescue.h - a task that has waited for too long goes first. A layer of the
 * laboratory, which no policy had in its day and no policy knows of.
 *
 *   waiting   [oldest] - [ ] - [ ] - [newest]    all linked tasks, by waiting_since
 *                 |
 *                 +-- waited for starvation_max_ns? then it is picked, for one tick
 *
 * Strict priorities starve tasks, and some of these schedulers did so in their day.
 * Today the kernel unloads a scheduler under which a task waits for 30 s, and
 * complains about RCU readers that are preempted for 21 s. So each queue keeps its
 * tasks in the order in which they began to wait. A pick and a tick look at the
 * oldest one alone. When that has waited for too long it runs for one tick of the
 * policy, whatever its rank, and no wakeup preempts it. Its policy charges the tick
 * as any other.
 *
 * Example: a hog of nice 19 under o1, behind two tasks that wake each other all the
 * time. It waits for 5 s, runs for 1 ms, and waits again: 0.02 % of the CPU.
 *
 * The hooks are called by the glue; queue locks are held.
 */
#ifndef SCHEDLAB_RESCUE_H
#define SCHEDLAB_RESCUE_H

#include "glue/queues.h"

/* 5 s is chosen: a reader of RCU that was preempted has four turns before the kernel complains. */
const volatile u64 starvation_max_ns
	TUNABLE("how long a task may wait; after it, the task runs for a tick whatever its priority", "ns", 1000000,
		1000000000000) = 5000000000;

u64 nr_rescued COUNTS("tasks that had waited for too long and went first");

static __always_inline void rescue_init_rq(rq_t *rq)
{
	list_init(&rq->base.waiting);
}

static __always_inline void rescue_init_task(task_t *p)
{
	WRITE_ONCE(p->base.waiting_since, 0);
	WRITE_ONCE(p->base.rescued, false);
}

/*
 * @p is linked on @rq. A task that is moved has waited elsewhere: if it was moved
 * often and began again each time, it might wait for good.
 */
static __always_inline void rescue_link(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	list_t *waiting = &rq->base.waiting, *first = waiting->next;

	if (reason != ENQ_MOVED)
		p->base.waiting_since = rq->base.clock;
	else if (first != waiting &&
		 p->base.waiting_since < list_entry(first, struct task_base, waiting)->waiting_since)
		waiting = first;
	list_add_tail(&p->base.waiting, waiting);
	debug_expect(waiting->prev == &p->base.waiting, BAD_LINK);
}

static __always_inline void rescue_unlink(task_t *p)
{
	list_del(&p->base.waiting);
}

/* @p, which is linked on @rq, waits from now on. */
static __always_inline void rescue_wait_anew(rq_t *rq, task_t *p)
{
	debug_expect(p->base.waiting_since <= rq->base.clock || !p->base.rescued, BAD_ORDER);
	list_del(&p->base.waiting);
	p->base.waiting_since = rq->base.clock;
	list_add_tail(&p->base.waiting, &rq->base.waiting);
}

/*
 * Has @first, the first task that waits on @rq, waited for too long? By the clock of @rq,
 * which may be behind that of the queue where the wait began.
 */
static __always_inline bool rescue_due(rq_t *rq, list_t *first)
{
	return (s64)(rq->base.clock - list_entry(first, struct task_base, waiting)->waiting_since) >=
	       (s64)starvation_max_ns;
}

/* The task that has waited longest on @rq, if that is too long; else NULL. */
static __always_inline task_t *rescue_oldest(rq_t *rq)
{
	list_t *first = rq->base.waiting.next;

	if (first == &rq->base.waiting || !rescue_due(rq, first))
		return NULL;
	return (task_t *)list_entry(first, struct task_base, waiting);
}

/*
 * The task of @rq that @cpu must pick, because it has waited too long; NULL: none.
 * A linked task that runs or blocks does not wait, and begins again. One that may not
 * run on @cpu stays the oldest, for the next pick of its own CPU.
 */
static __noinline task_t *rescue_pick(rq_t *rq, u32 cpu)
{
	task_t *p;

	use_arena();
	while (can_loop) {
		p = rescue_oldest(rq);
		if (!p)
			return NULL;
		if (p->base.state != TASK_READY) {
			rescue_wait_anew(rq, p);
			continue;
		}
		if (!cpu_allowed(p, cpu))
			return NULL;
		debug_expect(!p->base.rescued, BAD_STATE);
		debug_expect(p->base.rq == (s32)rq->base.nr, PICKED_UNLINKED);
		p->base.rescued = true;
		count(nr_rescued);
		return p;
	}
	return NULL;
}

/* @p leaves its CPU, where its turn is over. */
static __always_inline void rescue_put(task_t *p)
{
	debug_expect(p->base.rq != RQ_NONE, LINKED_ELSEWHERE);
	WRITE_ONCE(p->base.rescued, false);
}

/* A tick of @p, which is linked on @rq, is charged: is its turn over, or has another task waited too long? */
static __always_inline bool rescue_tick(rq_t *rq, task_t *p)
{
	debug_expect(!list_empty(&rq->base.waiting), LINKED_ELSEWHERE);
	return p->base.rescued || rescue_due(rq, rq->base.waiting.next);
}

/* Ticks of the policy that @p may run: one if it was rescued. */
static __always_inline u32 rescue_ticks(task_t *p)
{
	return p->base.rescued ? 1 : ticks_left(p);
}

/* The CPU that has to reschedule for a ready task: @target, unless a rescued task runs there. */
static __always_inline s32 rescue_shield(s32 target)
{
	task_t *curr;

	if (target < 0)
		return target;
	curr = cpu_nr(target)->curr;
	return curr && curr->base.rescued ? NO_CPU : target;
}

#endif
