// SPDX-License-Identifier: GPL-2.0-only
/*
 * vanilla - the scheduler of Linux 2.4: one list of all runnable tasks under
 * one lock, and goodness() asked about each of them at every decision.
 *
 * Every task owns a number of clock ticks. The task with most ticks left (plus
 * bonuses for low nice, the CPU it ran on last, and the address space that is
 * loaded) runs until its ticks are used up. When no runnable task has any left,
 * an epoch ends: all tasks, sleeping ones too, get new ticks on top of half of
 * those they kept. So a task that sleeps comes to own up to nearly twice its
 * share, and beats the others when it wakes up. There is no other notion of
 * interactivity.
 *
 * Profile TSSS is what became of it in 2.5.2: the ticks are split into a slice
 * and a bonus that grows with every epoch slept through, so that an epoch's end
 * no longer visits tasks that sleep.
 *
 * README.md has a worked example, sources, tunables and limits.
 */
#define POLICY_GLOBAL_RQ
#define POLICY_PUSHES
#define POLICY_WALKS_TASKS
#include "../include/types.h"

enum profile {
	PROFILE_2_4,	/* Linux 2.4.18: ticks of all tasks recalculated */
	PROFILE_TSSS,	/* Linux 2.5.2-pre9: slice and bonus, runnable tasks only */
};

/* Generation of the scheduler; enum, default PROFILE_2_4. */
const volatile enum profile profile = PROFILE_2_4;
/* Bonus for the CPU that a task ran on last; goodness points, 0..1000; 15 as on i386. */
const volatile u32 proc_change_penalty = 15;
/* Bonus for the address space that is loaded; goodness points, 0..1000; 1 as in 2.4.18. */
const volatile u32 mm_bonus = 1;
/* Length of a clock tick; ns, 100000..100000000; 10 ms as with HZ=100. */
const volatile u64 tick_ns = 10000000;
/* 2.4: ticks per epoch are ((20 - nice) >> scale_shift) + 1; bits, 0..5; 2 as for HZ < 200. */
const volatile u32 scale_shift = 2;
/* TSSS: the longest slice, that of nice -20; us, 10000..200000; 65000 gives nice 0 30 ms. */
const volatile u32 max_slice_us = 65000;
/* On a tie the running task stays instead of the first in the list; off as in 2.4.18,
 * on as in 2.4.13, which Libenzi measured. */
const volatile bool prev_wins_ties = false;

/* A waker that says it is about to sleep leaves its CPU to the wakee; off, because
 * today's kernel says so for every pipe and socket, and Linux 2.4's sent the wakee to
 * an idle or worse CPU there. */
const volatile bool sync_wakeups = false;

u64 nr_goodness COUNTS("tasks that a pick evaluated");
u64 nr_recalcs COUNTS("epochs that ended");
u64 nr_idle_last COUNTS("ready tasks whose last CPU was idle");
u64 nr_idle_longest COUNTS("ready tasks sent to the CPU that was idle longest");
u64 nr_preemptions COUNTS("ready tasks better than what some CPU runs");
u64 nr_no_target COUNTS("ready tasks that have to wait");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_yields_ignored COUNTS("yields with no more tasks than CPUs");
u64 nr_yields_picked COUNTS("picks of a task that had yielded, for want of others");

/* cap on ticks of a parent that inherits from its children, at 10 ms */
#define MAX_COUNTER 20
/* cap on the TSSS bonus, goodness points */
#define MAX_DYN_PRIO 40
/* goodness of a CPU that runs nothing, and of a task that has yielded */
#define GOODNESS_IDLE (-1000)
#define GOODNESS_YIELDED (-1)

struct task {
	struct task_base base;
	s32 counter;		/* ticks left in this epoch */
	s32 processor;		/* CPU it ran on last */
	u32 dyn_prio;		/* TSSS: bonus, goodness points */
	u32 epoch;		/* TSSS: epoch that dyn_prio was brought up to */
	bool yielded;		/* has yielded since it was last put */
};

struct rq {
	struct rq_base base;
	struct list_head head;	/* every runnable task, running ones too */
	u32 nr_running;
	u32 epoch;		/* TSSS: number of the epoch */
};

#include "../include/glue.h"

static u64 tick_length(void)
{
	return tick_ns;
}

static u32 ticks_left(task_t *p)
{
	return p->counter;
}

/* Ticks that a task gets per epoch. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	u32 us, ticks;

	if (profile == PROFILE_2_4)
		return ((20 - nice) >> scale_shift) + 1;
	us = 10000 + (max_slice_us - 10000) / 39 * (19 - nice);
	ticks = (u64)us * 1000 / tick_ns;
	return ticks ? ticks : 1;
}

/*
 * How desirable is it that @cpu, with address space @mm loaded, runs @p?
 * 0: its ticks are used up. Example, nice 0, 6 ticks: 41 on its own CPU.
 */
static __always_inline s32 goodness(task_t *p, u32 cpu, u64 mm)
{
	s32 weight;

	if (p->yielded)
		return GOODNESS_YIELDED;
	weight = p->counter;
	if (!weight)
		return 0;
	if (profile == PROFILE_TSSS)
		weight = p->dyn_prio + 1;
	if (p->processor == (s32)cpu)
		weight += proc_change_penalty;
	if (p->base.mm == mm || !p->base.mm)
		weight += mm_bonus;
	return weight + 20 - p->base.nice;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	list_init(&rq->head);
}

static void init_task(task_t *p)
{
	p->counter = nice_to_ticks(p->base.nice);
	p->processor = -1;
	WRITE_ONCE(p->dyn_prio, 0);
	WRITE_ONCE(p->epoch, 0);
	WRITE_ONCE(p->yielded, false);
}

/* The child takes half of the ticks, or nobody would run out of them by forking. */
static bool task_fork(task_t *parent, task_t *child)
{
	child->counter = (parent->counter + 1) >> 1;
	parent->counter >>= 1;
	child->processor = parent->processor;
	child->epoch = parent->epoch;
	return !parent->counter;
}

static void task_exit(task_t *parent, task_t *child)
{
	parent->counter = min(parent->counter + child->counter, MAX_COUNTER);
}

/* TSSS: one point for every epoch that @p missed. */
static __always_inline void catch_up(rq_t *rq, task_t *p)
{
	p->dyn_prio = min(p->dyn_prio + rq->epoch - p->epoch, (u32)MAX_DYN_PRIO);
	p->epoch = rq->epoch;
}

/* At the head: of equally good tasks the one that woke up last runs first. */
static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	if (profile == PROFILE_TSSS)
		catch_up(rq, p);
	list_add(run_list(p), &rq->head);
	rq->nr_running++;
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	list_del(run_list(p));
	rq->nr_running--;
}

static void recalculate_task(task_t *p)
{
	p->counter = (p->counter >> 1) + nice_to_ticks(p->base.nice);
}

/* TSSS: a new epoch, for the runnable tasks only and without leaving the lock. */
static __always_inline void recalculate_runnable(rq_t *rq)
{
	list_t *pos;
	task_t *p;

	rq->epoch++;
	list_for_each(pos, &rq->head) {
		p = linked_task(pos);
		p->counter = nice_to_ticks(p->base.nice);
		p->epoch = rq->epoch;
	}
}

/* Walks the whole list for the best task, whose goodness goes to *@best. */
static __noinline task_t *best_task(rq_t *rq, u32 cpu, task_t *prev, s32 *best)
{
	u64 mm = cpu_nr(cpu)->mm, evaluated = 0;
	task_t *p, *next = NULL;
	s32 weight, c = GOODNESS_IDLE;
	list_t *pos;

	if (prev && prev_wins_ties) {
		next = prev;
		c = goodness(prev, cpu, mm);
	}
	list_for_each(pos, &rq->head) {
		p = linked_task(pos);
		if (!can_run(p, cpu, prev))
			continue;
		evaluated++;
		weight = goodness(p, cpu, mm);
		if (weight > c) {
			c = weight;
			next = p;
		}
	}
	nr_goodness += evaluated;
	*best = c;
	return next;
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	s32 best;
	task_t *next = best_task(rq, cpu, prev, &best);

	if (!best) {
		nr_recalcs++;
		if (profile == PROFILE_2_4) {
			rq->base.walk_tasks = true;
			return NULL;
		}
		recalculate_runnable(rq);
		next = best_task(rq, cpu, prev, &best);
	}
	if (best == GOODNESS_YIELDED)
		nr_yields_picked++;
	if (next && next == prev)
		next->yielded = false;
	return next;
}

static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	p->processor = cpu;
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
}

static bool task_tick(rq_t *rq, task_t *p)
{
	if (--p->counter > 0)
		return false;
	p->counter = 0;
	if (profile == PROFILE_TSSS && p->dyn_prio)
		p->dyn_prio--;
	return true;
}

/* Only if there are more runnable tasks than busy CPUs is there somebody to yield to. */
static bool yield_task(rq_t *rq, task_t *p)
{
	s32 pending = rq->nr_running;
	u32 cpu;

	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++)
		if (!cpu_idle(cpu))
			pending--;
	if (pending <= 0) {
		nr_yields_ignored++;
		return false;
	}
	if (profile == PROFILE_TSSS) {
		p->counter = 0;
		p->dyn_prio++;
	}
	p->yielded = true;
	list_del(run_list(p));
	list_add_tail(run_list(p), &rq->head);
	return true;
}

/*
 * reschedule_idle(): finds a CPU for @p. Its last one if that is idle, else the
 * one that has been idle longest, else the one whose task is worst against it.
 */
static __always_inline s32 reschedule_idle(task_t *p)
{
	s32 target = NO_CPU, most = 0, gain;
	u64 oldest = ~0ull;
	u32 cpu = p->processor;
	cpu_t *c;

	if (p->processor >= 0 && cpu_allowed(p, cpu) && cpu_idle(cpu)) {
		nr_idle_last++;
		return cpu;
	}
	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++) {
		if (!cpu_allowed(p, cpu))
			continue;
		c = cpu_nr(cpu);
		if (c->idle_since) {
			if (c->idle_since < oldest) {
				oldest = c->idle_since;
				target = cpu;
			}
		} else if (oldest == ~0ull && c->curr) {
			gain = goodness(p, cpu, c->mm) - goodness(c->curr, cpu, c->mm);
			if (gain > most) {
				most = gain;
				target = cpu;
			}
		}
	}
	if (target == NO_CPU)
		nr_no_target++;
	else if (oldest != ~0ull)
		nr_idle_longest++;
	else
		nr_preemptions++;
	return target;
}

/*
 * A synchronous waker is about to sleep and leaves its CPU to @p. A preempted
 * task is pushed to another CPU, if one is idle or worse off; not if it yielded.
 */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	s32 waker = p->base.waker_cpu;

	if (reason == ENQ_PREEMPTED && p->yielded) {
		p->yielded = false;
		return NO_CPU;
	}
	if (sync_wakeups && reason == ENQ_WAKE && waker >= 0 && cpu_allowed(p, waker)) {
		nr_sync_wakeups++;
		return NO_CPU;
	}
	return reschedule_idle(p);
}

/* Read at the next goodness() and recalculation, nothing to do now. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	return false;
}

SCHED_OPS(vanilla);
