/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/interact.h - the history of a task, and what its score makes of its priority and
 * slice; how much of the CPU it used.
 */
#ifndef SCHEDLAB_ULE_INTERACT_H
#define SCHEDLAB_ULE_INTERACT_H

#include "v5_2.h"
#include "v6_x.h"

/* pctcpu: the window of the CPU usage estimate, and how much longer it may grow */
#define CPU_WINDOW (10 * SEC_NS)
#define CPU_WINDOW_SLACK SEC_NS

static __always_inline u64 clock_length(void)
{
	return clock_ns ?: GENERATION(clock_length);
}

/* ---- history ---- */

/* Brings the history back into range. */
static __always_inline void cut_history(task_t *p)
{
	u64 sum = p->run_time + p->sleep_time;

	if (sum < slp_run_max_ns)
		return;
	count(nr_history_cuts);
	GENERATION(cut, p, sum);
	debug_expect(p->run_time + p->sleep_time <= sum, BAD_HISTORY);
}

static __always_inline void add_run_time(task_t *p, u64 ns)
{
	p->run_time += ns;
	cut_history(p);
}

/* @p woke up; a sleep as long as all history is history alone. */
static __always_inline void credit_sleep(rq_t *rq, task_t *p)
{
	u64 slept;

	if (!p->slept_at)
		return;
	slept = (rq->base.clock / clock_length() - p->slept_at / clock_length()) * clock_length();
	WRITE_ONCE(p->slept_at, 0);
	if (slept >= slp_run_max_ns) {
		count(nr_full_sleeps);
		p->sleep_time = slp_run_max_ns;
		p->run_time = 1;
		return;
	}
	p->sleep_time += slept;
	cut_history(p);
	debug_expect(p->run_time + p->sleep_time <= 2 * slp_run_max_ns, BAD_HISTORY);
}

/* Time-share: 160..223 by score and nice. Example, nice 0: score 10 is 166, 50 is 192. */
static __always_inline void set_user_pri(task_t *p)
{
	u32 score;
	s32 pri;

	if (p->class != CLASS_TIMESHARE) {
		p->user_pri = class_priority(p->class, p->base.nice);
		return;
	}
	score = interact_score(p);
	expect(score <= INTERACT_MAX, BAD_SCORE);
	pri = PRI_MIN_TIMESHARE + score * PRI_RANGE / INTERACT_MAX;
	pri += p->base.nice;
	p->user_pri = min(max(pri, PRI_MIN_TIMESHARE), PRI_MAX_TIMESHARE);
}

/* ---- slice ---- */

/*
 * Ticks of a new slice, by nice against the least nice one of the time-share tasks
 * that @rq counts. Example, 6.x: n = 0, 5, 10, 15, 18 nicer: 18, 14, 9, 4, 1.
 */
static __always_inline s32 new_slice(rq_t *rq, task_t *p)
{
	s32 longest = slice_max ?: GENERATION(longest_slice), nicer;

	if (p->class == CLASS_IDLE)
		return slice_min;
	if (p->class != CLASS_TIMESHARE)
		return longest;
	if (interactive(p))
		return GENERATION(interactive_slice, longest);
	nicer = p->base.nice - least_nice(&rq->timeshare);
	if (nicer < 0)
		return longest;
	if (nicer <= SLICE_NTHRESH)
		return longest - (u32)nicer * (longest - slice_min + 1) / SLICE_NTHRESH;
	return GENERATION(nicest_slice);
}

/* ---- CPU usage ---- */

/*
 * One more tick that @p ran within the last ten seconds or so. Only ps ever asked
 * for it: in percent it is cpu_ticks / 10 of the ticks of a second.
 */
static __always_inline void count_cpu_tick(rq_t *rq, task_t *p)
{
	u64 now = rq->base.clock, since = p->window_start;

	debug_expect(since <= now, RAN_BACKWARDS);
	if (!since) {
		p->window_start = now;
	} else if (now - since > CPU_WINDOW + CPU_WINDOW_SLACK) {
		if (p->window_end + CPU_WINDOW > now)
			p->cpu_ticks = p->cpu_ticks * CPU_WINDOW / (now - since);
		else
			WRITE_ONCE(p->cpu_ticks, 0);
		p->window_start = now - CPU_WINDOW;
	}
	p->cpu_ticks++;
	p->window_end = now;
}

#endif
