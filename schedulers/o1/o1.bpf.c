// SPDX-License-Identifier: GPL-2.0-only
/*
 * o1 - Ingo Molnar's O(1) scheduler, as it was in early 2002, in Red Hat 8.0
 * and in Linux 2.6.10.
 *
 * Each CPU has two arrays of 140 lists, one list per priority, with a bitmap of
 * those that are not empty:
 *
 *                 active                          expired
 *     100 ... 118 ... 120 ... 125 ... 139    100 ... 125 ... 139
 *              |               |                      |
 *              C               A  <- runs             B  <- slice used up
 *
 * The first task of the first list of the active array runs. A task whose slice is
 * used up gets a new one at once and goes to the expired array. When the active array
 * is empty the two swap. So neither a pick nor an expiry looks at more than one task,
 * however many there are.
 *
 * Worked decision (2.6.10): A and B of nice 0 compute. Their average sleep is 0, so
 * both have priority 120 + 5 = 125, and slices of 100 ms. A runs from 0 to 100 ms, B
 * to 200 ms, then the arrays swap. C of nice 0 has slept for 70 ms. That counts
 * tenfold, 700 of 1000 ms: bonus 7, priority 120 - 2 = 118. 118 < 125: C preempts A at
 * once. At its slice's end C is interactive (118 <= 120 - 2) and stays active.
 *
 * Gain: constant time, no shared lock, and tasks that keep their CPU. Failure: tasks
 * that sleep much are never out of the active array, and starve the expired one.
 *
 * The generations differ in how sleep is estimated, how long slices are and which CPU
 * pulls from which: d1.h, rh8.h, v2_6_10.h. README.md has sources, numbered
 * behaviours, tunables and limits.
 */
#include "d1.h"
#include "rh8.h"
#include "v2_6_10.h"

static u32 ticks_left(task_t *p)
{
	return p->time_slice;
}

static u64 cache_hot(void)
{
	if (cache_hot_ns)
		return cache_hot_ns;
	return profile == PROFILE_2_6_10 ? 2500000 : 10 * MS;
}

/* Ticks of a whole slice. */
static __always_inline u32 task_timeslice(task_t *p)
{
	return GENERATION(timeslice, p) ?: 1;
}

/* The priority of @p by how it sleeps; @now: in ticks, for d1. */
static __always_inline s32 effective_prio(task_t *p, u64 now)
{
	return GENERATION(effective_prio, p, now);
}

static void init_rq(rq_t *rq, u32 cpu)
{
	rq->active = &rq->arrays[0];
	rq->expired = &rq->arrays[1];
	rq->best_expired_prio = NR_PRIO;
	rq->domain.balance_interval = MIN_INTERVAL;
	prio_queue_init(&rq->arrays[0]);
	prio_queue_init(&rq->arrays[1]);
}

static void init_task(task_t *p)
{
	u32 i;

	p->static_prio = NICE_TO_STATIC_PRIO(p->base.nice);
	WRITE_ONCE(p->array, NULL);
	WRITE_ONCE(p->credit, 0);
	WRITE_ONCE(p->activated, 0);
	WRITE_ONCE(p->first_time_slice, false);
	WRITE_ONCE(p->expired, false);
	WRITE_ONCE(p->child_first, false);
	WRITE_ONCE(p->sleep_avg, 0);
	WRITE_ONCE(p->timestamp, 0);
	WRITE_ONCE(p->last_ran, 0);
	WRITE_ONCE(p->hist_slot, 0);
	WRITE_ONCE(p->hist_tick, 0);
	for (i = zero; i < ARRAY_SIZE(p->sleep_hist) && can_loop; i++)
		*element(p->sleep_hist, i) = 0;
	p->prio = effective_prio(p, 0);
	p->time_slice = task_timeslice(p);
}

/* ---- birth and death ---- */

/* Parent and child share what is left, so that no task gains by forking. */
static bool task_fork(task_t *parent, task_t *child)
{
	debug_expect(parent->time_slice >= 0 && child->time_slice >= 0, SLICE_BELOW_ZERO);
	child->time_slice = (parent->time_slice + 1) >> 1;
	child->first_time_slice = true;
	GENERATION(inherit, parent, child);
	parent->time_slice >>= 1;
	if (parent->time_slice)
		return false;
	parent->time_slice = 1;
	return task_tick(rq_nr(parent->base.rq), parent);
}

static void task_exit(task_t *parent, task_t *child)
{
	s32 cap = task_timeslice(child);

	if (child->first_time_slice)
		parent->time_slice = min(parent->time_slice + child->time_slice, cap);
	GENERATION(reap, parent, child);
	debug_expect(parent->time_slice >= 0, SLICE_BELOW_ZERO);
}

/* ---- queueing ---- */

/* A task that is moved keeps its array. A woken one is expired, too, once the others have waited for epoch_max_ns. */
static __always_inline bool joins_expired(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	if (reason == ENQ_MOVED && p->expired) {
		if (!rq->expired_since)
			rq->expired_since = jiffies(rq);
		return true;
	}
	if (reason != ENQ_WAKE || !rq->expired_since)
		return false;
	return jiffies(rq) - rq->expired_since >= epoch_max_ns / tick_length();
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	rq->nr_running++;
	if (reason == ENQ_NEW && GENERATION(queue_before_parent, rq, p))
		return;
	if (reason == ENQ_WAKE) {
		GENERATION(woke, rq, p);
		p->timestamp = rq->base.clock;
	}
	if (reason != ENQ_MOVED)
		p->prio = effective_prio(p, jiffies(rq));
	array_add(p, joins_expired(rq, p, reason) ? rq->expired : rq->active);
	debug_expect(p->array == rq->active || p->array == rq->expired, NOT_ON_ARRAY);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	expect(rq->nr_running, LOAD_BELOW_ZERO);
	rq->nr_running--;
	p->expired = p->array == rq->expired;
	array_del(p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	prio_queue_t *array = rq->active;
	task_t *next, *stays;

	debug_expect(rq->active != rq->expired, NOT_ON_ARRAY);
	if (!array->nr_queued) {
		rq->active = rq->expired;
		rq->expired = array;
		WRITE_ONCE(rq->expired_since, 0);
		rq->best_expired_prio = NR_PRIO;
		if (rq->active->nr_queued)
			count(nr_array_switches);
	}
	stays = unless_pushed(rq, prev);
	next = prio_queue_first(rq->active, cpu, stays) ?: prio_queue_first(rq->expired, cpu, stays);
	debug_expect(rq->active->nr_queued + rq->expired->nr_queued == rq->nr_running, LOAD_BELOW_ZERO);
	return next ?: prev;
}

static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	GENERATION(switched_to, rq, p);
	p->timestamp = rq->base.clock;
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	GENERATION(ran, p, ran);
	p->timestamp = rq->base.clock;
	p->last_ran = rq->base.clock;
}

/* ---- the tick ---- */

/* The slice is used up: a new one, and to the array where @p belongs. */
static __always_inline void expire(rq_t *rq, task_t *p)
{
	prio_queue_t *array = rq->expired;

	debug_expect(p->array == rq->active, NOT_ON_ARRAY);
	array_del(p);
	p->prio = effective_prio(p, jiffies(rq));
	p->time_slice = task_timeslice(p);
	p->first_time_slice = false;
	if (!rq->expired_since)
		rq->expired_since = jiffies(rq);
	if (!GENERATION(interactive, p)) {
		count(nr_expired);
	} else if (GENERATION(starving, rq, p)) {
		count(nr_starving);
	} else {
		count(nr_stayed_active);
		array = rq->active;
	}
	if (array == rq->expired)
		rq->best_expired_prio = min(rq->best_expired_prio, p->static_prio);
	array_add(p, array);
	debug_expect(p->time_slice > 0, SLICE_BELOW_ZERO);
}

static bool task_tick(rq_t *rq, task_t *p)
{
	if (!p->array)
		return false;
	if (p->array != rq->active)
		return true;
	GENERATION(begin_tick, p);
	if (--p->time_slice <= 0) {
		expire(rq, p);
		return true;
	}
	return GENERATION(tick, rq, p);
}

static bool yield_task(rq_t *rq, task_t *p)
{
	GENERATION(yield, rq, p);
	return true;
}

/* ---- preemption ---- */

static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	task_t *curr = cpu_nr(cpu)->curr;

	if (cpu_idle(cpu))
		return cpu;
	if (p->child_first) {
		p->child_first = false;
		return cpu;
	}
	if (!curr || p->prio >= curr->prio || p->array == rq->expired) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	if (reason == ENQ_WAKE && p->base.waker_cpu == cpu && GENERATION(waits_for_waker)) {
		count(nr_sync_wakeups);
		return NO_CPU;
	}
	count(nr_preemptions);
	return cpu;
}

/* Stays in its array; the bonus moves along with the nice value. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	s32 delta = p->base.nice - old_nice, prio;

	p->static_prio += delta;
	prio = user_prio(p->prio + delta);
	if (!rq || !p->array) {
		p->prio = prio;
		return false;
	}
	requeue(p, p->array, prio);
	/* a running task is off its CPU while it is changed */
	return delta < 0 || !cpu_nr(rq->base.nr)->curr;
}

/* ---- balancing ---- */

static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return GENERATION(wake_cpu, p, prev_cpu, this_cpu, sync, now);
}

/* In the expired array first, where waiting does least harm. */
static task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	task_t *p = movable_in(src, src->expired, cpu, any);

	return p ?: movable_in(src, src->active, cpu, any);
}

static bool balance_newidle(u32 cpu, u64 now)
{
	if (!GENERATION(pull, cpu, now, true))
		return false;
	count(nr_newidle_pulls);
	return true;
}

static void balance_tick(u32 cpu, u64 now)
{
	GENERATION(balance_tick, cpu, now);
}

SCHED_OPS(o1);
