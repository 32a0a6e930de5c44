// SPDX-License-Identifier: GPL-2.0-only
/*
 * staircase - Con Kolivas' Staircase scheduler, version 10.5 for Linux 2.6.10.
 *
 * Each CPU has one array of 140 lists, one list per priority, with a bitmap of
 * those that are not empty. A task starts at the top of a staircase, which is
 * its nice value, and steps down one priority for every 10 ms that it runs. At
 * the bottom, 139, it is lifted back to the top:
 *
 *     120 |A|<---------------------------+   lift after a whole slice
 *     121    |_|                         |
 *     122       |B|                      |   10 ms a step
 *      :            . . .                |
 *     139                 |_|------------+
 *
 * The lower the nice value, the higher the stairs, and the longer the way down. All
 * tasks keep stepping down and up, so that each gets its turn without an expired array.
 *
 * A task that sleeps as long as it has run starts at the top again, and earns a
 * burst: 10 ms more there before it begins to descend. So there is no estimator
 * of interactivity; sleeping is answered at once. Two switches may be changed
 * while it runs: without `interactive` bursts do not count, with `compute` all
 * steps are ten times as long and wakeups preempt late.
 *
 * Worked decision: A and B of nice 0 compute. A runs at 120 for 10 ms and steps to
 * 121, where 121 > 120: B runs. So they alternate every 10 ms, down to 139. C has run
 * for 1 ms, sleeps for 9 and wakes up. 9 >= 1, so C is at 120 again, and preempts a
 * task that has come down to 121 or below.
 *
 * Gain: response that a few numbers predict, in constant time. Failure: tasks
 * that wake each other up sleep as long as they run, and stay at the top for good.
 *
 * Tasks change their queue as in Linux 2.6.10 (balance.h). README.md has sources,
 * numbered behaviours, tunables and limits.
 */
#include "balance.h"

/* How many times slower everything is with compute. */
#define COMPUTE_FACTOR 10

static u64 tick_length(void)
{
	return tick_ns;
}

static u64 cache_hot(void)
{
	return cache_hot_ns;
}

static u32 ticks_left(task_t *p)
{
	return min(p->slice, p->time_slice);
}

/* ---- the stairs ---- */

/* Ticks of a step. */
static __always_inline s32 rr_interval(void)
{
	u32 ticks = rr_interval_ns / tick_ns;

	return (ticks ? ticks : 1) * (compute ? COMPUTE_FACTOR : 1);
}

/* The number of steps down to 139: 39 at nice -20, 19 at nice 0, none at 19. */
static __always_inline s32 best_burst(task_t *p)
{
	debug_expect(p->static_prio >= MAX_RT_PRIO && p->static_prio < NR_PRIO, BAD_PRIORITY);
	return NR_PRIO - 1 - p->static_prio;
}

/* Ticks of the whole staircase: 400, 200 and 10 ms. */
static __always_inline s32 slice(task_t *p)
{
	return (best_burst(p) + 1) * rr_interval();
}

static __always_inline bool bursts_count(void)
{
	return interactive && !compute;
}

/*
 * The step that @p is on. With a burst of 5 and nice 0: 120 for 6 steps, then
 * 121 to 134.
 */
static __always_inline s32 effective_prio(task_t *p)
{
	s32 rr = rr_interval(), used = slice(p) - p->slice, first = rr;

	debug_expect(used >= 0 && p->slice > 0, BAD_STEP);
	if (bursts_count())
		first += p->burst * rr;
	if (used < first)
		return p->static_prio;
	return min(p->static_prio + 1 + (s32)((u32)(used - first) / (u32)rr), NR_PRIO - 1);
}

static __always_inline void inc_burst(task_t *p)
{
	count(nr_bursts_earned);
	expect(p->burst >= 0 && p->burst <= best_burst(p), BAD_STEP);
	p->burst = min(p->burst + 1, best_burst(p));
}

static __always_inline void dec_burst(task_t *p)
{
	debug_expect(p->burst >= 0, BAD_STEP);
	if (!p->burst)
		return;
	count(nr_bursts_lost);
	p->burst--;
}

/* To the top, with a whole slice. */
static __always_inline void fresh_slice(task_t *p)
{
	p->slice = slice(p);
	p->time_slice = rr_interval();
}

/* What is left fits no more when compute was switched off or nice raised. */
static __always_inline void fit_slice(task_t *p)
{
	p->slice = min(p->slice, slice(p));
	p->time_slice = min(p->time_slice, rr_interval());
	p->burst = min(p->burst, best_burst(p));
	debug_expect(p->slice > 0 && p->time_slice > 0, BAD_STEP);
}

/* To the step where running for totalrun leads from the top. */
static __always_inline void continue_slice(task_t *p)
{
	s64 whole, ran = max(p->totalrun, 0ll);
	u32 left;

	count(nr_continued);
	fresh_slice(p);
	whole = (u64)(u32)p->slice * tick_ns;
	if (ran >= whole) {
		count(nr_overdrawn);
		p->totalrun -= whole;
		dec_burst(p);
		return;
	}
	p->slice -= (u64)ran / tick_ns;
	left = (u32)p->slice % (u32)rr_interval();
	if (left)
		p->time_slice = left;
	debug_expect(p->slice > 0, BAD_STEP);
}

/* @p woke up after enough sleep: it starts at the top. */
static __always_inline void start_over(task_t *p)
{
	count(nr_fresh_slices);
	p->totalrun = 0;
	fresh_slice(p);
}

/* Version 10: a sleep must be as long as all run time that no sleep made up for yet. */
static __always_inline void credit_sleep_v10(task_t *p, s64 slept)
{
	if (slept < p->totalrun) {
		p->totalrun -= slept;
		continue_slice(p);
		return;
	}
	if (!p->base.uninterruptible)
		inc_burst(p);
	start_over(p);
}

/*
 * Version 7, and all without bursts: a task that was not away for a whole step, run
 * time included, continues where it was.
 */
static __always_inline void credit_sleep_v7(task_t *p, u64 slept)
{
	if (p->runtime + slept < rr_interval() * tick_ns) {
		count(nr_continued);
		fit_slice(p);
		return;
	}
	if (bursts_count())
		inc_burst(p);
	start_over(p);
}

/* @p woke up. */
static __always_inline void credit_sleep(rq_t *rq, task_t *p)
{
	u64 slept = rq->base.clock - p->timestamp;

	if (p->forked) {
		count(nr_forkers);
		p->forked = false;
		continue_slice(p);
	} else if (burst_rule == BURST_RULE_V7 || !bursts_count()) {
		credit_sleep_v7(p, slept);
	} else {
		credit_sleep_v10(p, slept);
	}
	p->prio = effective_prio(p);
	if (burst_rule == BURST_RULE_V7 && p->base.uninterruptible)
		p->prio = min(p->prio + 1, NR_PRIO - 1);
	WRITE_ONCE(p->runtime, 0);
}

/* To the tail of list @prio. */
static __always_inline void requeue(rq_t *rq, task_t *p, s32 prio)
{
	expect((u32)prio - MAX_RT_PRIO < NR_PRIO - MAX_RT_PRIO, BAD_PRIORITY);
	prio_queue_del(&rq->queue, p, p->prio);
	p->prio = prio;
	prio_queue_add_tail(&rq->queue, p, prio);
}

static void init_rq(rq_t *rq, u32 cpu)
{
	rq->domain.balance_interval = MIN_INTERVAL;
	prio_queue_init(&rq->queue);
}

static void init_task(task_t *p)
{
	p->static_prio = NICE_TO_STATIC_PRIO(p->base.nice);
	WRITE_ONCE(p->burst, 0);
	WRITE_ONCE(p->forked, false);
	WRITE_ONCE(p->yielded, false);
	WRITE_ONCE(p->child_first, false);
	WRITE_ONCE(p->runtime, 0);
	WRITE_ONCE(p->totalrun, 0);
	WRITE_ONCE(p->timestamp, 0);
	WRITE_ONCE(p->last_ran, 0);
	fresh_slice(p);
	p->prio = effective_prio(p);
}

/* ---- birth and death ---- */

/* The child has stairs of its own; waiting for it is no sleep that earns a burst. */
static bool task_fork(task_t *parent, task_t *child)
{
	parent->forked = true;
	return false;
}

/* ---- queueing ---- */

/*
 * A child with an address space of its own runs before a parent that is no better,
 * which would otherwise copy pages that the child is about to throw away.
 */
static __always_inline bool queue_before_parent(rq_t *rq, task_t *p)
{
	task_t *parent = linked_parent(rq, p);

	if (!parent || parent->prio < p->prio)
		return false;
	p->child_first = true;
	count(nr_child_first);
	if (parent->prio > p->prio)
		return false;
	prio_queue_add_before(&rq->queue, p, parent);
	return true;
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	rq->nr_running++;
	if (reason == ENQ_WAKE)
		credit_sleep(rq, p);
	if (reason != ENQ_MOVED)
		p->timestamp = rq->base.clock;
	if (reason == ENQ_NEW && queue_before_parent(rq, p))
		return;
	prio_queue_add_tail(&rq->queue, p, p->prio);
	debug_expect(p->prio >= p->static_prio && p->prio < NR_PRIO, BAD_PRIORITY);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	expect(rq->nr_running, LOAD_BELOW_ZERO);
	rq->nr_running--;
	prio_queue_del(&rq->queue, p, p->prio);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *next = prio_queue_first(&rq->queue, cpu, unless_pushed(rq, prev));

	debug_expect(rq->queue.nr_queued == rq->nr_running, LOAD_BELOW_ZERO);
	return next ?: prev;
}

/* A task that yielded was the last of all; from now on it is where it belongs. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	if (cpu_nr(cpu)->curr != p)
		rq->switched = rq->base.clock;
	WRITE_ONCE(rq->preempted, false);
	if (!p->yielded)
		return;
	WRITE_ONCE(p->yielded, false);
	count(nr_yields_over);
	prio_queue_del(&rq->queue, p, p->prio);
	p->prio = effective_prio(p);
	prio_queue_add_head(&rq->queue, p, p->prio);
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	debug_expect((s64)ran >= 0, RAN_BACKWARDS);
	p->runtime += ran;
	p->totalrun += ran;
	p->timestamp = rq->base.clock;
	p->last_ran = rq->base.clock;
}

/* ---- the tick ---- */

/* Is it time for what compute has put off? */
static __always_inline bool delay_ends(rq_t *rq)
{
	if (!rq->preempted || rq->base.clock - rq->switched < cache_delay_ns)
		return false;
	WRITE_ONCE(rq->preempted, false);
	count(nr_delayed_ends);
	return true;
}

/* The whole staircase is walked through. What was run on it is settled. */
static __always_inline void lift(task_t *p)
{
	debug_expect(p->slice <= 0, BAD_STEP);
	count(nr_lifts);
	dec_burst(p);
	p->totalrun = -(s64)p->base.ran;
	fresh_slice(p);
}

static bool task_tick(rq_t *rq, task_t *p)
{
	fit_slice(p);
	p->time_slice--;
	if (--p->slice <= 0) {
		lift(p);
	} else if (p->time_slice <= 0) {
		count(nr_steps);
		p->time_slice = rr_interval();
	} else {
		return delay_ends(rq);
	}
	requeue(rq, p, effective_prio(p));
	return true;
}

/* ---- yield ---- */

/* Behind all other tasks, once; bursts are for tasks that sleep. */
static bool yield_task(rq_t *rq, task_t *p)
{
	fresh_slice(p);
	WRITE_ONCE(p->burst, 0);
	p->yielded = true;
	requeue(rq, p, NR_PRIO - 1);
	return true;
}

/* ---- preemption ---- */

/* Whether @p goes before @curr, which is first on its list. */
static __always_inline bool is_better(rq_t *rq, task_t *p, task_t *curr)
{
	if (p->prio != curr->prio)
		return p->prio < curr->prio;
	if (!equal_prio_preempt || p->slice != slice(p))
		return false;
	prio_queue_del(&rq->queue, p, p->prio);
	prio_queue_add_head(&rq->queue, p, p->prio);
	return true;
}

static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	task_t *curr = cpu_nr(cpu)->curr;

	if (cpu_idle(cpu))
		return cpu;
	if (p->child_first) {
		p->child_first = false;
		return cpu;
	}
	if (!curr || !is_better(rq, p, curr)) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	if (reason == ENQ_WAKE && p->base.waker_cpu == cpu) {
		count(nr_sync_wakeups);
		return NO_CPU;
	}
	if (compute && rq->base.clock - rq->switched < cache_delay_ns) {
		count(nr_delayed);
		rq->preempted = true;
		return NO_CPU;
	}
	count(nr_preemptions);
	return cpu;
}

/* Other stairs, with as much left to walk as before, as far as they are that long. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	task_t *curr;

	p->static_prio = NICE_TO_STATIC_PRIO(p->base.nice);
	fit_slice(p);
	if (!rq) {
		p->prio = effective_prio(p);
		return false;
	}
	requeue(rq, p, effective_prio(p));
	/* a running task is off its CPU while it is changed */
	curr = cpu_nr(rq->base.nr)->curr;
	return !curr || p->prio < curr->prio;
}

/* ---- balancing ---- */

static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return wake_cpu(p, prev_cpu, this_cpu, sync, now);
}

static task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	return movable_in(src, &src->queue, cpu, any);
}

static bool balance_newidle(u32 cpu, u64 now)
{
	if (!balance_domain(cpu, now, true))
		return false;
	count(nr_newidle_pulls);
	return true;
}

static void balance_tick(u32 cpu, u64 now)
{
	rebalance_tick(cpu, now);
}

SCHED_OPS(staircase);
