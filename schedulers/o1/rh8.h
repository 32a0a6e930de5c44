/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/rh8.h - the generation of autumn 2002: 2.4.18-14 of Red Hat 8.0.
 *
 * An average of up to 2 s grows by what a task sleeps and shrinks by what it runs; it
 * is worth -5..+5 priorities. The slice is by nice. A busy CPU looks for a longer
 * queue every 250 ms.
 */
#ifndef SCHEDLAB_O1_RH8_H
#define SCHEDLAB_O1_RH8_H

#include "pull.h"
#include "sleep_avg.h"

/* A busy CPU looks around this often. */
#define RH8_BUSY_INTERVAL (250 * MS)

/* 1..30 ticks of 10 ms, 15 at nice 0. */
static __always_inline u32 rh8_timeslice(task_t *p)
{
	u32 shortest = 10 * MS / tick_length(), longest = 300 * MS / tick_length();
	u32 steps = NR_PRIO - 1 - p->static_prio;

	debug_expect(steps < 40, BAD_PRIORITY);
	return shortest + (longest - shortest) * steps / 39;
}

static __always_inline s32 rh8_effective_prio(task_t *p, u64 now)
{
	return bonus_prio(p);
}

static __always_inline bool rh8_interactive(task_t *p)
{
	return has_interactive_bonus(p);
}

static __always_inline bool rh8_starving(rq_t *rq, task_t *p)
{
	return expired_starving(rq);
}

/* @p woke up: its whole sleep counts. */
static __always_inline void rh8_woke(rq_t *rq, task_t *p)
{
	u64 slept = (jiffies(rq) - p->timestamp / tick_length()) * tick_length();

	p->sleep_avg = min(p->sleep_avg + slept, max_sleep());
	debug_expect(p->sleep_avg <= max_sleep(), BAD_SLEEP);
}

static __always_inline void rh8_switched_to(rq_t *rq, task_t *p)
{
}

static __always_inline void rh8_ran(task_t *p, u64 ran)
{
}

static __always_inline void rh8_inherit(task_t *parent, task_t *child)
{
	child->sleep_avg = parent->sleep_avg * child_penalty / 100;
	parent->sleep_avg = parent->sleep_avg * parent_penalty / 100;
}

static __always_inline void rh8_reap(task_t *parent, task_t *child)
{
	reap_average(parent, child);
}

static __always_inline bool rh8_queue_before_parent(rq_t *rq, task_t *p)
{
	return false;
}

/* A tick that runs is taken from the average. */
static __always_inline void rh8_begin_tick(task_t *p)
{
	p->sleep_avg -= min(p->sleep_avg, tick_length());
}

static __always_inline bool rh8_tick(rq_t *rq, task_t *p)
{
	return false;
}

/* Behind the next task of its list, or down to the next list in use. */
static __always_inline void rh8_yield(rq_t *rq, task_t *p)
{
	prio_queue_t *array = p->array;
	list_t *next = run_list(p)->next, *head = &array->list[p->prio];
	u32 prio;

	if (head->next != run_list(p) || head->prev != run_list(p)) {
		list_del(run_list(p));
		if (next == head)
			next = head->prev;
		list_add(run_list(p), next);
		return;
	}
	prio = prio_queue_next(array, p->prio + 1);
	if (prio < NR_PRIO)
		requeue(p, array, prio);
}

static __always_inline bool rh8_waits_for_waker(void)
{
	return true;
}

/* ---- balance ---- */

/* A waker that is about to sleep has the woken task come to its CPU. */
static __always_inline s32 rh8_wake_cpu(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return wakes_on(sync && cpu_allowed(p, this_cpu) ? this_cpu : prev_cpu, prev_cpu);
}

static __always_inline u32 rh8_pull(u32 cpu, u64 now, bool idle)
{
	return pull_from_longest(cpu, now, idle);
}

static __always_inline void rh8_balance_tick(u32 cpu, u64 now)
{
	look_around(cpu, now, RH8_BUSY_INTERVAL);
}

#endif
