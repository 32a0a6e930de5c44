/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * goodness.h - ticks, epochs and goodness() of Linux 2.4, for the policies that
 * descend from it: tasks on an unordered list, each of which is asked at a pick.
 * Included after glue.h by a policy that has defined
 *
 *   POLICY_WALKS_TASKS  for the epochs of 2.4, which recalculate sleeping tasks too,
 *   HAS_TSSS            for those of 2.5.2, with a slice and a bonus per task,
 *   TSSS                for which of the two is in force,
 *   PREV_FIRST          for whether the running task stays on a tie, or the first
 *                       in the list wins,
 *
 * whose structures have these members (* with HAS_TSSS),
 *
 *   struct task    counter, yielded, dyn_prio *, epoch *
 *   struct rq      head, nr_running, epoch *
 *
 * and that defines add_cpu_bonus(): what a CPU is worth to a task.
 */
#ifndef SCHEDLAB_GOODNESS_H
#define SCHEDLAB_GOODNESS_H

const volatile u32 mm_bonus
	TUNABLE("bonus for the address space that is loaded; 1 as in 2.4.18", "goodness points", 0, 1000) = 1;
const volatile u64 tick_ns TUNABLE("length of a clock tick; 10 ms as with HZ=100", "ns", 100000, 100000000) = 10000000;
#ifdef POLICY_WALKS_TASKS
const volatile u32 scale_shift
	TUNABLE("2.4: ticks per epoch are ((20 - nice) >> scale_shift) + 1; 2 as for HZ below 200", "bits", 0, 5) = 2;
#endif
#ifdef HAS_TSSS
const volatile u32 max_slice_us
	TUNABLE("TSSS: the longest slice, that of nice -20; 65000 gives nice 0 30 ms", "us", 10000, 200000) = 65000;
#endif

/* 10 s is chosen: the kernel unloads a scheduler under which a task waits for 30 s. */
const volatile u64 epoch_max_ns
	TUNABLE("the most that an epoch lasts; with more tasks than ticks for all of them, turns end sooner, after "
		"a tick at least", "ns", 1000000, 1000000000000) = 10000000000;
/* Off: today's kernel marks the wakeups of every pipe and socket so, where Linux 2.4 sent the woken task to an idle or
 * worse CPU. */
const volatile bool sync_wakeups
	SETS("a waker that is about to sleep, as its wakeup says, leaves its CPU to the woken task") = false;

u64 nr_goodness COUNTS("tasks that a pick evaluated");
u64 nr_recalcs COUNTS("epochs that ended");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_cut_turns COUNTS("turns that ended early, because so many tasks wait");
u64 nr_yields_ignored COUNTS("yields with nobody to yield to");
u64 nr_yields_picked COUNTS("picks of a task that had yielded, for want of others");

/* cap on ticks of a parent that inherits from its children, at 10 ms */
#define MAX_COUNTER 20
/* cap on the TSSS bonus, goodness points */
#define MAX_DYN_PRIO 40
#ifdef POLICY_GLOBAL_RQ
#define PER_CPU_RQ false
#else
#define PER_CPU_RQ true
#endif

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
	return p->counter;
}

/* The clock of @rq in ticks. */
static __always_inline u64 jiffies(rq_t *rq)
{
	return rq->base.clock / tick_ns;
}

/* Ticks that a task gets per epoch. */
static __always_inline s32 nice_to_ticks(s32 nice)
{
	u32 us __unused, ticks __unused;

#ifdef POLICY_WALKS_TASKS
	if (!TSSS)
		return ((20 - nice) >> scale_shift) + 1;
#endif
#ifdef HAS_TSSS
	us = 10000 + (max_slice_us - 10000) / 39 * (19 - nice);
	ticks = (u64)us * 1000 / tick_ns;
	return ticks ? ticks : 1;
#endif
}

/*
 * How desirable is it that @cpu, with address space @mm loaded, runs @p? 0: its
 * ticks are used up. Example, nice 0, 6 ticks: 26, and the bonuses.
 */
static __always_inline s32 goodness(task_t *p, u32 cpu, u64 mm, u64 clock)
{
	s32 weight;

	if (p->yielded)
		return GOODNESS_YIELDED;
	weight = p->counter;
	if (!weight)
		return 0;
#ifdef HAS_TSSS
	if (TSSS)
		weight = p->dyn_prio + 1;
#endif
	weight = add_cpu_bonus(weight, p, cpu, clock);
	if (p->base.mm == mm || !p->base.mm)
		weight += mm_bonus;
	return weight + 20 - p->base.nice;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	list_init(&rq->head);
}

/* Sets up these members of a task. */
static __always_inline void init_ticks(task_t *p)
{
	p->counter = nice_to_ticks(p->base.nice);
#ifdef HAS_TSSS
	WRITE_ONCE(p->dyn_prio, 0);
	WRITE_ONCE(p->epoch, 0);
#endif
	WRITE_ONCE(p->yielded, false);
}

/*
 * The child takes half of the ticks, or nobody would run out of them by forking.
 * True: the parent has none left and has to reschedule.
 */
static __always_inline bool split_ticks(task_t *parent, task_t *child)
{
	child->counter = (parent->counter + 1) >> 1;
	parent->counter >>= 1;
#ifdef HAS_TSSS
	child->epoch = parent->epoch;
#endif
	return !parent->counter;
}

static void task_exit(task_t *parent, task_t *child)
{
	parent->counter = min(parent->counter + child->counter, MAX_COUNTER);
}

#ifdef HAS_TSSS
/* TSSS: one point for every epoch of @old, its last queue, that @p missed. */
static __always_inline void catch_up(rq_t *rq, rq_t *old, task_t *p)
{
	p->dyn_prio = min(p->dyn_prio + old->epoch - p->epoch, (u32)MAX_DYN_PRIO);
	p->epoch = rq->epoch;
}
#endif

/* At the head: of equally good tasks the one that woke up last runs first. */
static __always_inline void add_to_list(rq_t *rq, task_t *p)
{
	list_add(run_list(p), &rq->head);
	rq->nr_running++;
}

static __always_inline void take_off_list(rq_t *rq, task_t *p)
{
	list_del(run_list(p));
	rq->nr_running--;
}

#ifdef POLICY_WALKS_TASKS
static void recalculate_task(task_t *p)
{
	p->counter = (p->counter >> 1) + nice_to_ticks(p->base.nice);
}
#endif

#ifdef HAS_TSSS
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
#endif

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
		if (!PUSHES && p->yielded && p != prev)
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
#ifdef POLICY_WALKS_TASKS
		if (!TSSS) {
			rq->base.walk_tasks = true;
			return NULL;
		}
#endif
#ifdef HAS_TSSS
		recalculate_runnable(rq);
		next = best_task(rq, cpu, prev, &best);
#endif
	}
	if (best == GOODNESS_YIELDED)
		count(nr_yields_picked);
	if (prev && (next == prev || !PUSHES))
		prev->yielded = false;
	return next;
}

/* Ticks that each task on @rq may run for in an epoch of epoch_max_ns. */
static __always_inline s64 fair_ticks(rq_t *rq)
{
	u64 cpus = PER_CPU_RQ ? 1 : nr_cpus;

	return epoch_max_ns * cpus / (tick_ns * max(rq->nr_running, 1u));
}

static bool task_tick(rq_t *rq, task_t *p)
{
	s64 fair = max(fair_ticks(rq), 1ll);

	if (p->counter > fair) {
		p->counter = fair;
		count(nr_cut_turns);
	}
	if (--p->counter > 0)
		return false;
	p->counter = 0;
#ifdef HAS_TSSS
	if (TSSS && p->dyn_prio)
		p->dyn_prio--;
#endif
	return true;
}

/* @p yields to others, of which there are some. */
static __always_inline void give_way(rq_t *rq, task_t *p)
{
#ifdef HAS_TSSS
	if (TSSS) {
		p->counter = 0;
		p->dyn_prio++;
	}
#endif
	p->yielded = true;
	list_del(run_list(p));
	list_add_tail(run_list(p), &rq->head);
}

#ifndef POLICY_GLOBAL_RQ
/* Somebody else on the same CPU has to be there to yield to. */
static bool yield_task(rq_t *rq, task_t *p)
{
	if (rq->nr_running <= 1) {
		count(nr_yields_ignored);
		return false;
	}
	give_way(rq, p);
	return true;
}
#endif

/* Does @p, which became ready, wait for its waker, about to sleep, to leave it the CPU? */
static __always_inline bool waits_for_waker(task_t *p, enum enqueue_reason reason)
{
	s32 waker = p->base.waker_cpu;

	if (!sync_wakeups || reason != ENQ_WAKE || waker < 0 || !cpu_allowed(p, waker))
		return false;
	count(nr_sync_wakeups);
	return true;
}

/* Read at the next goodness() and recalculation, nothing to do now. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	return false;
}

#endif
