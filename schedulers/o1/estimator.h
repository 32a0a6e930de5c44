/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * estimator.h - how long a slice is, how much a task sleeps, and what that
 * makes of its priority. Included by o1.bpf.c.
 *
 * d1      The share of the last seconds that a task slept removes a penalty of
 *         up to 13 priorities.
 * rh8     An average of up to 2 s grows by what a task sleeps and shrinks by
 *         what it runs; it is worth -5..+5 priorities.
 * 2.6.10  The same with 1 s, but a sleep counts up to ten times the more the
 *         lower the average is, waiting in the queue counts a little, and
 *         credit decides how fast it shrinks.
 */
#ifndef SCHEDLAB_O1_ESTIMATOR_H
#define SCHEDLAB_O1_ESTIMATOR_H

#define MAX_BONUS 10
#define CREDIT_LIMIT 100
#define DEF_TIMESLICE (100 * MS)
#define MIN_TIMESLICE (5 * MS)
/* d1: most that a task which never sleeps loses, in priorities: 40 / 3 */
#define MAX_PENALTY 13
/* d1: seconds of history before the current one */
#define HIST_SLOTS 3

static __always_inline u64 max_sleep(void)
{
	if (max_sleep_ns)
		return max_sleep_ns;
	return profile == PROFILE_RH8 ? 2 * SEC_NS : SEC_NS;
}

static __always_inline u64 starvation_limit(void)
{
	if (starvation_limit_ns)
		return starvation_limit_ns;
	return profile == PROFILE_RH8 ? 2 * SEC_NS : SEC_NS;
}

/* ---- slices ---- */

/* d1: 2..15 ticks of 10 ms by dynamic priority. */
static __always_inline u32 timeslice_d1(task_t *p)
{
	u32 shortest = 20 * MS / tick_length(), longest = 150 * MS / tick_length();
	u32 steps = NR_PRIO - 1 - p->prio;

	return (steps * (longest - shortest) + 39) / 40 + shortest;
}

/* rh8: 1..30 ticks of 10 ms, 15 at nice 0. */
static __always_inline u32 timeslice_rh8(task_t *p)
{
	u32 shortest = 10 * MS / tick_length(), longest = 300 * MS / tick_length();
	u32 steps = NR_PRIO - 1 - p->static_prio;

	return shortest + (longest - shortest) * steps / 39;
}

/* 2.6.10: 5 ms per nice value, four times as much below nice 0: 5..100, 420..800 ms. */
static __always_inline u32 timeslice_2_6(task_t *p)
{
	u64 base = p->static_prio < NICE_TO_STATIC_PRIO(0) ? 4 * DEF_TIMESLICE : DEF_TIMESLICE;
	u64 ns = base * (NR_PRIO - p->static_prio) / 20;

	return max(ns, MIN_TIMESLICE) / tick_length();
}

/* Ticks of a whole slice. */
static __always_inline u32 task_timeslice(task_t *p)
{
	u32 ticks;

	switch (profile) {
	case PROFILE_D1:
		ticks = timeslice_d1(p);
		break;
	case PROFILE_RH8:
		ticks = timeslice_rh8(p);
		break;
	default:
		ticks = timeslice_2_6(p);
	}
	return ticks ? ticks : 1;
}

/* ---- d1: history of sleep ---- */

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

	slept = p->sleep_hist[0] + p->sleep_hist[1] + p->sleep_hist[2] + p->sleep_hist[3];
	slept = min(slept * hz / (HIST_SLOTS * hz + now % hz), hz);
	return MAX_PENALTY * (hz - slept) / hz;
}

/* ---- rh8, 2.6.10: average sleep ---- */

/* 0..10 */
static __always_inline u32 current_bonus(task_t *p)
{
	return p->sleep_avg * MAX_BONUS / max_sleep();
}

/* d1: 120 + nice + penalty. Others: 5 below to 5 above. @now: in ticks, for d1. */
static __always_inline s32 effective_prio(task_t *p, u64 now)
{
	s32 prio = p->static_prio;

	if (profile == PROFILE_D1) {
		if (now > p->hist_tick)
			update_history(p, now, now);
		prio += penalty(p, now);
	} else {
		prio -= (s32)current_bonus(p) - MAX_BONUS / 2;
	}
	return min(max(prio, MAX_RT_PRIO), NR_PRIO - 1);
}

/* Priorities above its static one that make a task interactive: 2 at nice 0, -3..6. */
static __always_inline s32 delta(task_t *p)
{
	s32 nice = p->static_prio - NICE_TO_STATIC_PRIO(0);
	u32 scaled = (u32)(nice < 0 ? -nice : nice) * MAX_BONUS / 40;

	return (nice < 0 ? -(s32)scaled : (s32)scaled) + (s32)interactive_delta;
}

/* May it stay in the active array when its slice ends? */
static __always_inline bool task_interactive(task_t *p)
{
	if (profile == PROFILE_D1)
		return p->prio <= MAX_RT_PRIO + MAX_PENALTY / 2;
	return p->prio <= p->static_prio - delta(p);
}

/* A sleep longer than this is idling, not interaction; ns, 799 ms at nice 0. */
static __always_inline u64 interactive_sleep(task_t *p)
{
	return max_sleep() * (u32)(MAX_BONUS / 2 + delta(p) + 1) / MAX_BONUS - MS;
}

/* 2.6.10: 5 ms per CPU at full bonus, twice as much for each bonus less. */
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
	slice = task_timeslice(p) * tick_length();
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
}

/* @p woke up. */
static __always_inline void credit_sleep(rq_t *rq, task_t *p)
{
	u64 since = p->timestamp / tick_length(), now = jiffies(rq), slept;

	switch (profile) {
	case PROFILE_D1:
		if (now != p->hist_tick)
			update_history(p, since, now);
		break;
	case PROFILE_RH8:
		slept = (now - since) * tick_length();
		p->sleep_avg = min(p->sleep_avg + slept, max_sleep());
		break;
	default:
		p->activated = p->base.uninterruptible ? -1 : 0;
		if (p->timestamp)
			recalc_sleep(p, rq->base.clock - p->timestamp);
		if (!p->activated)
			p->activated = 1;
	}
	p->timestamp = rq->base.clock;
}

/* 2.6.10: @p is switched to; a little of what it waited since it woke up is sleep. */
static __always_inline void credit_wait(rq_t *rq, task_t *p)
{
	u64 waited = rq->base.clock - p->timestamp;
	s32 prio;

	if (p->activated > 0) {
		recalc_sleep(p, waited * (on_runqueue_weight * 128 / 100) / 128);
		prio = effective_prio(p, 0);
		if (prio != p->prio)
			requeue(p, p->array, prio);
	}
	p->activated = 0;
}

/* 2.6.10: @p ran for @ran ns; with much credit that costs the less the higher its bonus. */
static __always_inline void charge_run(task_t *p, u64 ran)
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

/* What a child starts with, and what forking costs its parent. */
static __always_inline void inherit_average(task_t *parent, task_t *child)
{
	u64 step = max_sleep() / MAX_BONUS, bonus = current_bonus(parent);
	u32 i;

	switch (profile) {
	case PROFILE_D1:
		for (i = zero; i < ARRAY_SIZE(child->sleep_hist) && can_loop; i++)
			child->sleep_hist[i] = parent->sleep_hist[i];
		child->hist_slot = parent->hist_slot;
		child->hist_tick = parent->hist_tick;
		break;
	case PROFILE_RH8:
		child->sleep_avg = parent->sleep_avg * child_penalty / 100;
		parent->sleep_avg = parent->sleep_avg * parent_penalty / 100;
		break;
	default:
		child->sleep_avg = bonus * child_penalty / 100 * step;
		parent->sleep_avg = bonus * parent_penalty / 100 * step;
	}
}

#endif
