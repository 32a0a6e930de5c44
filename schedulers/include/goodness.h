/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * goodness.h - ticks and goodness() of Linux 2.4, for the policies that descend from
 * it: tasks on an unordered list, each of which is asked at a pick.
 *
 * A policy has a file epochs.h in its folder. It includes the kinds of epochs that
 * the policy knows, and defines EPOCH(verb, ...) as a call of the one in force. Its
 * policy.h defines PREV_FIRST: does the running task stay on a tie, or does the first
 * one in the list win? Its structures have these members (* for epoch_tsss.h alone):
 *
 *   struct task    counter, yielded, dyn_prio *, epoch *
 *   struct rq      head, nr_running, epoch *
 *
 * It defines add_cpu_bonus(): what a CPU is worth to a task.
 */
#ifndef SCHEDLAB_GOODNESS_H
#define SCHEDLAB_GOODNESS_H

#include "epochs.h"
#include "glue.h"

const volatile u32 mm_bonus
	TUNABLE("bonus for the address space that is loaded; 1 as in 2.4.18", "goodness points", 0, 1000) = 1;
const volatile u64 tick_ns TUNABLE("length of a clock tick; 10 ms as with HZ=100", "ns", 100000, 100000000) = 10000000;
/* Off: today's kernel marks the wakeups of every pipe and socket so, where Linux 2.4 sent the woken task to an idle or
 * worse CPU. */
const volatile bool sync_wakeups
	SETS("a waker that is about to sleep, as its wakeup says, leaves its CPU to the woken task") = false;

u64 nr_goodness COUNTS("tasks that a pick evaluated");
u64 nr_recalcs COUNTS("epochs that ended");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_yields_ignored COUNTS("yields with nobody to yield to");
u64 nr_yields_picked COUNTS("picks of a task that had yielded, for want of others");

/* cap on ticks of a parent that inherits from its children, at 10 ms */
#define MAX_COUNTER 20

/* goodness of a CPU that runs nothing, and of a task that has yielded */
#define GOODNESS_IDLE (-1000)
#define GOODNESS_YIELDED (-1)

/* @weight and the points that @p has for running on @cpu at @clock, in ticks. */
static __always_inline s32 add_cpu_bonus(s32 weight, task_t *p, u32 cpu, u64 clock);

static u64 tick_length(void)
{
	return tick_ns;
}

static u32 ticks_left(task_t *p)
{
	debug_expect(p->counter >= 0, BAD_COUNTER);
	return p->counter;
}

/* The clock of @rq in ticks. */
static __always_inline u64 jiffies(rq_t *rq)
{
	return rq->base.clock / tick_ns;
}

/*
 * How desirable is it that @cpu, with address space @mm loaded, runs @p? 0: its
 * ticks are used up. Example, nice 0, 6 ticks: 26, and the bonuses.
 */
static __always_inline s32 goodness(task_t *p, u32 cpu, u64 mm, u64 clock)
{
	s32 weight;

	debug_expect(p->base.nice >= -20 && p->base.nice <= 19, BAD_NICE);
	if (p->yielded)
		return GOODNESS_YIELDED;
	if (!p->counter)
		return 0;
	weight = add_cpu_bonus(EPOCH(weight, p), p, cpu, clock);
	if (p->base.mm == mm || !p->base.mm)
		weight += mm_bonus;
	return weight + 20 - p->base.nice;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	list_init(&rq->head);
}

/* Sets up the ticks of a task. */
static __always_inline void init_ticks(task_t *p)
{
	p->counter = EPOCH(ticks, p->base.nice);
	WRITE_ONCE(p->yielded, false);
	debug_expect(p->counter > 0, BAD_COUNTER);
}

/*
 * The child takes half of the ticks, or a task could keep from running out of them
 * by forking. True: the parent has none left and has to reschedule.
 */
static __always_inline bool split_ticks(task_t *parent, task_t *child)
{
	debug_expect(parent->counter >= 0, BAD_COUNTER);
	child->counter = (parent->counter + 1) >> 1;
	parent->counter >>= 1;
	EPOCH(fork, parent, child);
	return !parent->counter;
}

static void task_exit(task_t *parent, task_t *child)
{
	parent->counter = min(parent->counter + child->counter, MAX_COUNTER);
	debug_expect(parent->counter <= max(2 * EPOCH(ticks, -20), MAX_COUNTER), BAD_COUNTER);
}

/* At the head: of equally good tasks the one that woke up last runs first. */
static __always_inline void add_to_list(rq_t *rq, task_t *p)
{
	debug_expect(p->counter >= 0, BAD_COUNTER);
	list_add(run_list(p), &rq->head);
	rq->nr_running++;
}

static __always_inline void take_off_list(rq_t *rq, task_t *p)
{
	expect(rq->nr_running, LOAD_BELOW_ZERO);
	list_del(run_list(p));
	rq->nr_running--;
}

/* Walks the whole list for the best task, whose goodness goes to *@best. */
static __noinline task_t *best_task(rq_t *rq, u32 cpu, task_t *prev, s32 *best)
{
	u64 mm = cpu_nr(cpu)->mm, clock = jiffies(rq), evaluated = 0;
	task_t *p, *next = NULL;
	s32 weight, c = GOODNESS_IDLE;
	list_t *pos;

	if (prev && PREV_FIRST) {
		next = prev;
		c = goodness(prev, cpu, mm, clock);
	}
	list_for_each(pos, &rq->head) {
		p = linked_task(pos);
		if (!can_run(p, cpu, prev))
			continue;
		evaluated++;
		/* it was interrupted before the pick for which it yielded: that was this one */
		if (!POLICY_PUSHES && p->yielded && p != prev)
			p->yielded = false;
		weight = goodness(p, cpu, mm, clock);
		if (weight > c) {
			c = weight;
			next = p;
		}
	}
	__sync_fetch_and_add(&nr_goodness, evaluated);
	*best = c;
	return next;
}

/*
 * The best task, if need be after the end of an epoch. A task that yielded has
 * done so for one pick (for one more decision, if preempted tasks are pushed).
 */
static __always_inline task_t *pick_best(rq_t *rq, u32 cpu, task_t *prev)
{
	s32 best;
	task_t *next = best_task(rq, cpu, prev, &best);

	if (!best) {
		count(nr_recalcs);
		if (!EPOCH(end, rq))
			return NULL;
		next = best_task(rq, cpu, prev, &best);
	}
	if (best == GOODNESS_YIELDED)
		count(nr_yields_picked);
	debug_expect(!next || next->base.rq == (s32)rq->base.nr, PICKED_UNLINKED);
	if (prev && (next == prev || !POLICY_PUSHES))
		prev->yielded = false;
	return next;
}

static bool task_tick(rq_t *rq, task_t *p)
{
	expect(p->counter >= 0, BAD_COUNTER);
	if (--p->counter > 0)
		return false;
	p->counter = 0;
	EPOCH(used_up, p);
	return true;
}

/* @p yields to others, of which there are some. */
static __always_inline void give_way(rq_t *rq, task_t *p)
{
	debug_expect(rq->nr_running, LOAD_BELOW_ZERO);
	EPOCH(yield, p);
	p->yielded = true;
	list_del(run_list(p));
	list_add_tail(run_list(p), &rq->head);
}

/* A yield to another task on the same CPU, if there is one. */
static __always_inline bool yield_on_cpu(rq_t *rq, task_t *p)
{
	if (rq->nr_running <= 1) {
		count(nr_yields_ignored);
		return false;
	}
	give_way(rq, p);
	return true;
}

/* Does @p, which became ready, wait for its waker, about to sleep, to leave it the CPU? */
static __always_inline bool waits_for_waker(task_t *p, enum enqueue_reason reason)
{
	s32 waker = p->base.waker_cpu;

	if (!sync_wakeups || reason != ENQ_WAKE || waker < 0 || !cpu_allowed(p, waker))
		return false;
	count(nr_sync_wakeups);
	return true;
}

#endif
