/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * interact.h - how interactive a task is, and what that makes of its priority
 * and slice; how much of the CPU it used. Included by ule.bpf.c.
 *
 * A task's history is the time that it ran and the time that it slept, together
 * no more than slp_run_max_ns. The score is 50 times the quotient of the two, the
 * lesser one on top, and mirrored at 50 if it ran more than it slept:
 *
 *   0 ... 50 (slept more)  50 * run / sleep        50 ... 100 (ran more)  100 - 50 * sleep / run
 */
#ifndef SCHEDLAB_ULE_INTERACT_H
#define SCHEDLAB_ULE_INTERACT_H

#define INTERACT_MAX 100
#define INTERACT_HALF (INTERACT_MAX / 2)
/* time-share priorities that the score moves a task over */
#define PRI_RANGE (PRI_MAX_TIMESHARE - PRI_MIN_TIMESHARE + 1)
/* how much nicer than the least nice task one may be and still get a slice by its nice */
#define SLICE_NTHRESH 19
/* pctcpu: the window of the CPU usage estimate, and how much longer it may grow */
#define CPU_WINDOW (10 * SEC_NS)
#define CPU_WINDOW_SLACK SEC_NS

static __always_inline u64 clock_length(void)
{
	if (clock_ns)
		return clock_ns;
	return profile == PROFILE_5_2 ? 10 * MS : MS;
}

/* ---- history ---- */

/*
 * Brings the history back into range. 6.x: to four fifths, or to half if it is
 * far too long. 5.2 compares with another unit by mistake and always halves.
 */
static __always_inline void cut_history(task_t *p)
{
	u64 sum = p->run_time + p->sleep_time;

	if (sum < slp_run_max_ns)
		return;
	count(nr_history_cuts);
	if (profile == PROFILE_5_2 || sum > slp_run_max_ns / 5 * 6) {
		p->run_time /= 2;
		p->sleep_time /= 2;
	} else {
		p->run_time = p->run_time / 5 * 4;
		p->sleep_time = p->sleep_time / 5 * 4;
	}
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
}

/* ---- score and priority ---- */

/* 0..100. As much run as sleep is 0, as in the source. Examples (run, sleep): (1, 9) 5, (9, 1) 95. */
static __always_inline u32 interact_score(task_t *p)
{
	u64 run = p->run_time, sleep = p->sleep_time, unit;

	if (run > sleep) {
		unit = max(run / INTERACT_HALF, 1ull);
		return INTERACT_MAX - sleep / unit;
	}
	if (sleep > run) {
		unit = max(sleep / INTERACT_HALF, 1ull);
		return run / unit;
	}
	return 0;
}

static __always_inline bool interactive(task_t *p)
{
	return !p->batch && interact_score(p) < interact_thresh;
}

/* Time-share: 160..223 by score and nice. Example, nice 0: score 10 is 166, 50 is 192. */
static __always_inline void set_user_pri(task_t *p)
{
	s32 pri;

	if (p->class != CLASS_TIMESHARE) {
		p->user_pri = class_priority(p->class, p->base.nice);
		return;
	}
	pri = PRI_MIN_TIMESHARE + interact_score(p) * PRI_RANGE / INTERACT_MAX;
	pri += p->base.nice;
	p->user_pri = min(max(pri, PRI_MIN_TIMESHARE), PRI_MAX_TIMESHARE);
}

/* ---- slice ---- */

static __always_inline u32 longest_slice(void)
{
	if (slice_max)
		return slice_max;
	return profile == PROFILE_5_2 ? 14 : 18;
}

/*
 * Ticks of a new slice, by nice against the least nice one of the time-share tasks
 * that @rq counts. Example, 6.x: n = 0, 5, 10, 15, 18 nicer: 18, 14, 9, 4, 1.
 */
static __always_inline s32 new_slice(rq_t *rq, task_t *p)
{
	s32 longest = longest_slice(), nicer;

	if (p->class == CLASS_IDLE)
		return slice_min;
	if (p->class != CLASS_TIMESHARE)
		return longest;
	if (interactive(p))
		return profile == PROFILE_5_2 ? (s32)slice_min : longest;
	nicer = p->base.nice - least_nice(&rq->timeshare);
	if (nicer < 0)
		return longest;
	if (nicer <= SLICE_NTHRESH)
		return longest - (u32)nicer * (longest - slice_min + 1) / SLICE_NTHRESH;
	return profile == PROFILE_5_2 && nice_window ? 0 : slice_min;
}

/* ---- CPU usage ---- */

/*
 * One more tick that @p ran within the last ten seconds or so. Only ps ever asked
 * for it: in percent it is cpu_ticks / 10 of the ticks of a second.
 */
static __always_inline void count_cpu_tick(rq_t *rq, task_t *p)
{
	u64 now = rq->base.clock, since = p->window_start;

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
