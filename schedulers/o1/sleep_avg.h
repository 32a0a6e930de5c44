/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/sleep_avg.h - the average sleep of rh8 and 2.6.10, worth -5..+5 priorities.
 *
 *   sleep_avg    0 ........ max_sleep/2 ........ max_sleep
 *   bonus        0 ............. 5 ............. 10
 *   priority   nice + 5 ....... nice ......... nice - 5
 */
#ifndef SCHEDLAB_O1_SLEEP_AVG_H
#define SCHEDLAB_O1_SLEEP_AVG_H

#include "arrays.h"

#define MAX_BONUS 10

/* Sleep that earns the full bonus, ns. */
static __always_inline u64 max_sleep(void)
{
	if (max_sleep_ns)
		return max_sleep_ns;
	return profile == PROFILE_RH8 ? 2 * SEC_NS : SEC_NS;
}

/* 0..10 */
static __always_inline u32 current_bonus(task_t *p)
{
	debug_expect(p->sleep_avg <= max_sleep(), BAD_SLEEP);
	return p->sleep_avg * MAX_BONUS / max_sleep();
}

/* 5 below to 5 above the static priority. */
static __always_inline s32 bonus_prio(task_t *p)
{
	return user_prio(p->static_prio - ((s32)current_bonus(p) - MAX_BONUS / 2));
}

/* Priorities above its static one that make a task interactive: 2 at nice 0, -3..6. */
static __always_inline s32 delta(task_t *p)
{
	s32 nice = p->static_prio - NICE_TO_STATIC_PRIO(0);
	u32 scaled = (u32)(nice < 0 ? -nice : nice) * MAX_BONUS / 40;

	return (nice < 0 ? -(s32)scaled : (s32)scaled) + (s32)interactive_delta;
}

/* Does @p have the bonus that makes it interactive? */
static __always_inline bool has_interactive_bonus(task_t *p)
{
	return p->prio <= p->static_prio - delta(p);
}

/* Have the tasks in the expired array waited longer than the limit, which grows with the tasks that run? */
static __always_inline bool expired_starving(rq_t *rq)
{
	u64 limit = starvation_limit_ns ?: profile == PROFILE_RH8 ? 2 * SEC_NS : SEC_NS;

	limit = min(limit * rq->nr_running, epoch_max_ns) / tick_length();
	return rq->expired_since && jiffies(rq) - rq->expired_since >= limit + 1;
}

/* The average of an exiting @child lowers that of its @parent. */
static __always_inline void reap_average(task_t *parent, task_t *child)
{
	if (child->sleep_avg < parent->sleep_avg)
		parent->sleep_avg = (exit_weight * parent->sleep_avg + child->sleep_avg) /
				    (exit_weight + 1);
	debug_expect(parent->sleep_avg <= max_sleep(), BAD_SLEEP);
}

#endif
