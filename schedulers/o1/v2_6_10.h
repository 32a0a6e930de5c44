/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/v2_6_10.h - the generation of December 2004: Linux 2.6.10.
 *
 * The average sleep of rh8 with 1 s, but a sleep counts up to ten times, the more the
 * lower the average is. Waiting in the queue counts a little, and credit decides how
 * fast the average shrinks. Balancing is that of balance.h.
 */
#ifndef SCHEDLAB_O1_V2_6_10_H
#define SCHEDLAB_O1_V2_6_10_H

#include "balance.h"
#include "sleep_avg.h"

#define CREDIT_LIMIT 100
#define DEF_TIMESLICE (100 * MS)
#define MIN_TIMESLICE (5 * MS)

/* 5 ms per nice value, four times as much below nice 0: 5..100, 420..800 ms. */
static __always_inline u32 v2_6_10_timeslice(task_t *p)
{
	u64 base = p->static_prio < NICE_TO_STATIC_PRIO(0) ? 4 * DEF_TIMESLICE : DEF_TIMESLICE;
	u64 ns = base * (NR_PRIO - p->static_prio) / 20;

	return max(ns, MIN_TIMESLICE) / tick_length();
}

static __always_inline u32 whole_slice(task_t *p)
{
	return v2_6_10_timeslice(p) ?: 1;
}

static __always_inline s32 v2_6_10_effective_prio(task_t *p, u64 now)
{
	return bonus_prio(p);
}

static __always_inline bool v2_6_10_interactive(task_t *p)
{
	return has_interactive_bonus(p);
}

/* An interactive task expires, too, when a better one than it has. */
static __always_inline bool v2_6_10_starving(rq_t *rq, task_t *p)
{
	return expired_starving(rq) || p->static_prio > rq->best_expired_prio;
}

/* A sleep longer than this is idling, not interaction; ns, 799 ms at nice 0. */
static __always_inline u64 interactive_sleep(task_t *p)
{
	return max_sleep() * (u32)(MAX_BONUS / 2 + delta(p) + 1) / MAX_BONUS - MS;
}

/* 5 ms per CPU at full bonus, twice as much for each bonus less. */
static __always_inline u32 granularity_ticks(task_t *p)
{
	u32 missing = MAX_BONUS - min(current_bonus(p), (u32)MAX_BONUS);
	u64 ns = granularity_ns << (missing ? missing - 1 : 0);
	u32 ticks;

	if (ncpus_in_gran)
		ns *= nr_cpus;
	ticks = ns / tick_length();
	return ticks ? ticks : 1;
}

static __always_inline bool high_credit(task_t *p)
{
	return interactive_credit && p->credit > CREDIT_LIMIT;
}

static __always_inline bool low_credit(task_t *p)
{
	return interactive_credit && p->credit < -CREDIT_LIMIT;
}

/* recalc_task_prio() of 2.6.10: adds @sleep ns to the average. */
static __noinline void recalc_sleep(task_t *p, u64 sleep)
{
	u64 limit = interactive_sleep(p), slice;
	u32 missing;

	sleep = min(sleep, max_sleep());
	if (!sleep)
		return;
	if (p->activated != -1 && sleep > limit) {
		p->sleep_avg = max_sleep() - DEF_TIMESLICE;
		if (!high_credit(p))
			p->credit++;
		return;
	}
	missing = MAX_BONUS - min(current_bonus(p), (u32)MAX_BONUS);
	sleep *= missing ? missing : 1;
	slice = whole_slice(p) * tick_length();
	if (low_credit(p))
		sleep = min(sleep, slice);
	/* waiting for a disk must not make a batch job interactive */
	if (p->activated == -1 && !high_credit(p)) {
		if (p->sleep_avg >= limit) {
			sleep = 0;
		} else if (p->sleep_avg + sleep >= limit) {
			p->sleep_avg = limit;
			sleep = 0;
		}
	}
	p->sleep_avg += sleep;
	if (p->sleep_avg > max_sleep()) {
		p->sleep_avg = max_sleep();
		if (!high_credit(p))
			p->credit++;
	}
	debug_expect(p->sleep_avg <= max_sleep(), BAD_SLEEP);
}

/* @p woke up. */
static __always_inline void v2_6_10_woke(rq_t *rq, task_t *p)
{
	p->activated = p->base.uninterruptible ? -1 : 0;
	if (p->timestamp)
		recalc_sleep(p, rq->base.clock - p->timestamp);
	if (!p->activated)
		p->activated = 1;
}

/* @p is switched to; a little of what it waited since it woke up is sleep. */
static __always_inline void v2_6_10_switched_to(rq_t *rq, task_t *p)
{
	u64 waited = rq->base.clock - p->timestamp;
	s32 prio;

	if (p->activated > 0) {
		recalc_sleep(p, waited * (on_runqueue_weight * 128 / 100) / 128);
		prio = bonus_prio(p);
		if (prio != p->prio)
			requeue(p, p->array, prio);
	}
	p->activated = 0;
}

/* @p ran for @ran ns; with much credit that costs the less the higher its bonus. */
static __always_inline void v2_6_10_ran(task_t *p, u64 ran)
{
	u32 bonus = current_bonus(p);

	ran = min(ran, max_sleep());
	if (!interactive_credit || high_credit(p))
		ran /= bonus ? bonus : 1;
	if (ran < p->sleep_avg) {
		p->sleep_avg -= ran;
		return;
	}
	WRITE_ONCE(p->sleep_avg, 0);
	if (p->credit <= CREDIT_LIMIT && p->credit >= -CREDIT_LIMIT)
		p->credit--;
}

/* Whole bonuses are inherited. */
static __always_inline void v2_6_10_inherit(task_t *parent, task_t *child)
{
	u64 step = max_sleep() / MAX_BONUS, bonus = current_bonus(parent);

	debug_expect(bonus <= MAX_BONUS, BAD_SLEEP);
	child->sleep_avg = bonus * child_penalty / 100 * step;
	parent->sleep_avg = bonus * parent_penalty / 100 * step;
}

static __always_inline void v2_6_10_reap(task_t *parent, task_t *child)
{
	reap_average(parent, child);
}

/*
 * A child with an address space of its own runs before its parent, which would
 * otherwise copy pages that the child is about to throw away.
 */
static __always_inline bool v2_6_10_queue_before_parent(rq_t *rq, task_t *p)
{
	task_t *parent = linked_parent(rq, p);

	if (!parent || !parent->array)
		return false;
	p->prio = parent->prio;
	prio_queue_add_before(parent->array, p, parent);
	p->array = parent->array;
	p->child_first = true;
	count(nr_child_first);
	return true;
}

static __always_inline void v2_6_10_begin_tick(task_t *p)
{
}

/* An interactive task gives way to its equals every granularity. */
static __always_inline bool v2_6_10_tick(rq_t *rq, task_t *p)
{
	u32 gran;

	debug_expect(p->array == rq->active, NOT_ON_ARRAY);
	if (!has_interactive_bonus(p))
		return false;
	gran = granularity_ticks(p);
	if ((u32)(whole_slice(p) - p->time_slice) % gran || (u32)p->time_slice < gran)
		return false;
	requeue(p, rq->active, bonus_prio(p));
	count(nr_round_robins);
	return true;
}

/* To the expired array, always. */
static __always_inline void v2_6_10_yield(rq_t *rq, task_t *p)
{
	requeue(p, rq->expired, p->prio);
}

static __always_inline bool v2_6_10_waits_for_waker(void)
{
	return true;
}

/* ---- balance ---- */

static __always_inline s32 v2_6_10_wake_cpu(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return wake_cpu(p, prev_cpu, this_cpu, sync, now);
}

static __always_inline u32 v2_6_10_pull(u32 cpu, u64 now, bool idle)
{
	return balance_domain(cpu, now, idle);
}

static __always_inline void v2_6_10_balance_tick(u32 cpu, u64 now)
{
	rebalance_tick(cpu, now);
}

#endif
