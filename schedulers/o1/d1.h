/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/d1.h - the generation of January 2002: patch D1, 2.5.2-pre10.
 *
 * The share of the last seconds that a task slept removes a penalty of up to 13
 * priorities. The slice is by dynamic priority. Every tick a CPU looks for a longer
 * queue to pull from.
 */
#ifndef SCHEDLAB_O1_D1_H
#define SCHEDLAB_O1_D1_H

#include "pull.h"

/* most that a task which never sleeps loses, in priorities: 40 / 3 */
#define MAX_PENALTY 13
/* seconds of history before the current one */
#define HIST_SLOTS 3

/* 2..15 ticks of 10 ms by dynamic priority. */
static __always_inline u32 d1_timeslice(task_t *p)
{
	u32 shortest = 20 * MS / tick_length(), longest = 150 * MS / tick_length();
	u32 steps = NR_PRIO - 1 - p->prio;

	return (steps * (longest - shortest) + 39) / 40 + shortest;
}

/* Ticks per second. */
static __always_inline u64 ticks_per_second(void)
{
	return SEC_NS / tick_length();
}

/* Brings the history up to tick @now; ticks from @since on were slept. */
static __always_inline void update_history(task_t *p, u64 since, u64 now)
{
	u64 hz = ticks_per_second(), slot, first = now / hz, begin, end;
	u32 i;

	debug_expect(since <= now, RAN_BACKWARDS);
	first = first > HIST_SLOTS ? first - HIST_SLOTS : 0;
	for (i = zero; i <= HIST_SLOTS && can_loop; i++) {
		slot = first + i;
		if (slot > p->hist_slot)
			p->sleep_hist[slot % 4] = 0;
		begin = max(since, slot * hz);
		end = min(now, (slot + 1) * hz);
		if (begin < end)
			p->sleep_hist[slot % 4] += end - begin;
	}
	p->hist_slot = now / hz;
	p->hist_tick = now;
}

/* 13 for a task that never slept in the last 3 s, 0 for one that always did. */
static __always_inline u32 penalty(task_t *p, u64 now)
{
	u64 hz = ticks_per_second(), slept;

	debug_expect(p->hist_tick <= now, RAN_BACKWARDS);
	slept = p->sleep_hist[0] + p->sleep_hist[1] + p->sleep_hist[2] + p->sleep_hist[3];
	slept = min(slept * hz / (HIST_SLOTS * hz + now % hz), hz);
	return MAX_PENALTY * (hz - slept) / hz;
}

/* 120 + nice + penalty at tick @now. */
static __always_inline s32 d1_effective_prio(task_t *p, u64 now)
{
	if (now > p->hist_tick)
		update_history(p, now, now);
	return user_prio(p->static_prio + (s32)penalty(p, now));
}

/* May @p stay in the active array when its slice ends? */
static __always_inline bool d1_interactive(task_t *p)
{
	return p->prio <= MAX_RT_PRIO + MAX_PENALTY / 2;
}

/* Must an interactive task that runs expire, because others have waited? There is no such rule yet. */
static __always_inline bool d1_starving(rq_t *rq, task_t *p)
{
	return false;
}

/* @p woke up. */
static __always_inline void d1_woke(rq_t *rq, task_t *p)
{
	u64 now = jiffies(rq);

	if (now != p->hist_tick)
		update_history(p, p->timestamp / tick_length(), now);
}

static __always_inline void d1_switched_to(rq_t *rq, task_t *p)
{
}

static __always_inline void d1_ran(task_t *p, u64 ran)
{
}

/* The child starts with its parent's history. */
static __always_inline void d1_inherit(task_t *parent, task_t *child)
{
	u32 i;

	for (i = zero; i < ARRAY_SIZE(child->sleep_hist) && can_loop; i++)
		child->sleep_hist[i] = parent->sleep_hist[i];
	child->hist_slot = parent->hist_slot;
	child->hist_tick = parent->hist_tick;
}

static __always_inline void d1_reap(task_t *parent, task_t *child)
{
}

static __always_inline bool d1_queue_before_parent(rq_t *rq, task_t *p)
{
	return false;
}

static __always_inline void d1_begin_tick(task_t *p)
{
}

/* @p has slice left: it is queued again, so that the estimator sees that it runs. */
static __always_inline bool d1_tick(rq_t *rq, task_t *p)
{
	requeue(p, rq->active, d1_effective_prio(p, jiffies(rq)));
	return false;
}

/* To the tail of its list; chosen, no source has it. */
static __always_inline void d1_yield(rq_t *rq, task_t *p)
{
	requeue(p, p->array, p->prio);
}

/* Does a woken task wait for its synchronous waker to sleep? */
static __always_inline bool d1_waits_for_waker(void)
{
	return false;
}

/* ---- balance ---- */

static __always_inline s32 d1_wake_cpu(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return wakes_on(prev_cpu, prev_cpu);
}

static __always_inline u32 d1_pull(u32 cpu, u64 now, bool idle)
{
	return pull_from_longest(cpu, now, idle);
}

static __always_inline void d1_balance_tick(u32 cpu, u64 now)
{
	look_around(cpu, now, tick_length());
}

#endif
