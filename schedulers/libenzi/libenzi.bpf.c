// SPDX-License-Identifier: GPL-2.0-only
/*
 * libenzi - Davide Libenzi's multi-queue scheduler for Linux 2.4 ("xsched").
 *
 *     CPU 0  [A runs] - [B] - [C, marked for 1]     picked, C is sent over
 *     CPU 1  (idle: has marked C)
 *
 *     goodness   ticks left  +  history  +  20 - nice
 *                               history: ticks run last, less the ticks since
 *
 * Every CPU has a list and a lock of its own, and picks from it by goodness() as
 * Linux 2.4 does from its only one (vanilla). A task belongs to a CPU, so there is
 * no bonus for the CPU that it ran on last. Instead it has a history weight: what
 * it ran in its last turn, in ticks, less the time since then. That is a guess at what
 * the CPU's cache still holds of it, and counts as goodness. An epoch is a matter
 * of one CPU and its tasks.
 *
 * Tasks change their CPU as seldom as possible. A new one goes to the CPU with the
 * fewest tasks. A CPU that has become idle marks one waiting task of the longest
 * list. When that CPU picks the task, it does not run it but sends it over. A
 * picked task is one that has waited long, and has little left in the cache.
 *
 * Worked decision: A of nice 0 is interrupted after 3 of its 6 ticks: 3 left, history
 * 3, so 3 + 3 + 20 = 26. B has 6 ticks and no history: 26. A tie goes to the task that
 * ran: A continues with a warm cache. Under vanilla, B would run.
 *
 * Gain: as many lists and locks as CPUs, and warm caches. Failure: nothing balances
 * CPUs that are busy, and three tasks on two CPUs stay 2:1.
 *
 * README.md has sources, numbered behaviours, tunables and limits.
 */
#include "goodness.h"

/* What the cache may still hold: example, 6 ticks run, 2 ticks ago, 4 points. */
static __always_inline s32 add_cpu_bonus(s32 weight, task_t *p, u32 cpu, u64 clock)
{
	if (p->cpu_jtime > clock)
		weight += p->cpu_jtime - clock;
	return weight;
}

static void init_task(task_t *p)
{
	init_ticks(p);
	WRITE_ONCE(p->move_to, 0);
	WRITE_ONCE(p->cpu_jtime, 0);
	WRITE_ONCE(p->sched_jtime, 0);
}

static bool task_fork(task_t *parent, task_t *child)
{
	return split_ticks(parent, child);
}

/* ---- queueing ---- */

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	add_to_list(rq, p);
}

static __always_inline void unmark(task_t *p)
{
	if (!p->move_to)
		return;
	WRITE_ONCE(p->move_to, 0);
	count(nr_lapsed);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	if (reason != DEQ_MOVED)
		unmark(p);
	take_off_list(rq, p);
}

static void recalculate_task(task_t *p)
{
	v2_4_recalculate(p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	return pick_best(rq, cpu, prev);
}

/* A marked task goes where it was marked for. */
static s32 picked_cpu(task_t *p, u32 cpu)
{
	s32 to = (s32)p->move_to - 1;

	debug_expect(to < (s32)nr_cpus, BAD_CPU);
	if (to < 0)
		return cpu;
	if (!cpu_allowed(p, to)) {
		unmark(p);
		return cpu;
	}
	WRITE_ONCE(p->move_to, 0);
	count(nr_sent);
	return to;
}

static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	unmark(p);
	p->sched_jtime = jiffies(rq);
}

/* The turn is over: a retry of the pick, with nothing run, is none. */
static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	u64 clock = jiffies(rq), left = 0;

	debug_expect(p->sched_jtime <= clock, RAN_BACKWARDS);
	if (!ran)
		return;
	if (p->cpu_jtime > p->sched_jtime)
		left = (p->cpu_jtime - p->sched_jtime) * history_carry / 100;
	p->cpu_jtime = clock + (clock - p->sched_jtime) + left;
}

/* Another task on the same CPU must be there to yield to. */
static bool yield_task(rq_t *rq, task_t *p)
{
	return yield_on_cpu(rq, p);
}

/* ---- preemption: on its own CPU only ---- */

static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	cpu_t *c = cpu_nr(cpu);
	u64 clock = jiffies(rq);

	if (p->base.waker_cpu == cpu && waits_for_waker(p, reason))
		return NO_CPU;
	if (c->idle_since) {
		count(nr_wake_idle);
		return cpu;
	}
	if (!c->curr || goodness(p, cpu, c->mm, clock) <= goodness(c->curr, cpu, c->mm, clock)) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	count(nr_preemptions);
	return cpu;
}

/* ---- which CPU a task belongs to ---- */

/* What CPU @cpu has without the new @p: runnable tasks, and below them tasks that belong to it. */
static __always_inline u64 load_without(task_t *p, u32 cpu)
{
	rq_t *rq = rq_nr(cpu);

	return (u64)rq->nr_running << 32 | (rq->base.nr_tasks - (p->base.home == (s32)cpu));
}

/* The CPU with the fewest runnable tasks, then the fewest tasks; @cpu on a tie, then the first. */
static __noinline s32 least_loaded(task_t *p, u32 cpu)
{
	u64 load, least = ~0ull;
	u32 i, best = cpu;

	use_arena();
	if (cpu_allowed(p, cpu))
		least = load_without(p, cpu);
	for (i = zero; i < nr_cpus && can_loop; i++) {
		load = load_without(p, i);
		if (load >= least || !cpu_allowed(p, i))
			continue;
		least = load;
		best = i;
	}
	debug_expect(best < nr_cpus, BAD_CPU);
	return best;
}

/* A task wakes up where it belongs; a new one is given a CPU to belong to. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	s32 cpu = prev_cpu;

	if (!p->base.fresh)
		return prev_cpu;
	if (fork_balance)
		cpu = least_loaded(p, this_cpu);
	if (cpu == this_cpu)
		count(nr_fork_here);
	else
		count(nr_fork_away);
	return cpu;
}

/* The longest of the other CPUs' lists, read without locks: it is a hint. */
static __always_inline void find_longest(u32 cpu)
{
	struct search __arena *search = &rq_nr(cpu)->search;
	u32 i;

	WRITE_ONCE(search->longest, 0);
	search->cpu = NO_CPU;
	for (i = zero; i < nr_cpus && can_loop; i++) {
		if (i == cpu || rq_nr(i)->nr_running <= search->longest)
			continue;
		search->longest = rq_nr(i)->nr_running;
		search->cpu = i;
	}
	debug_expect(search->cpu != (s32)cpu, BAD_SEARCH);
}

/* The first waiting task of @src that @cpu may run and that is not marked, or NULL. */
static __always_inline task_t *first_movable(rq_t *src, u32 cpu)
{
	list_t *pos;
	task_t *p;

	list_for_each(pos, &src->head) {
		p = linked_task(pos);
		if (can_move(p, cpu) && !p->move_to)
			return p;
	}
	return NULL;
}

/* Marks a task of CPU @src for @cpu. */
static __noinline int mark_task(u32 src, u32 cpu, u64 now)
{
	cpu_t *c = cpu_nr(src);
	struct lock *lock;
	task_t *p;

	use_arena();
	debug_expect(src != cpu, BAD_SEARCH);
	lock = lock_rq(src, now);
	if (!lock)
		return 0;
	p = first_movable(rq_nr(src), cpu);
	if (p) {
		p->move_to = cpu + 1;
		/* then it must be picked, instead of continuing where it was interrupted */
		if (c->interrupted == p)
			c->resched = true;
	}
	unlock(lock);
	if (p)
		count(nr_marks);
	else
		count(nr_unmarkable);
	return 0;
}

/* Nothing comes at once: the other CPU sends the task when it picks it. */
static bool balance_newidle(u32 cpu, u64 now)
{
	u32 more = steal_threshold ?: 1;
	rq_t *rq = rq_nr(cpu);

	if (!idle_balance)
		return false;
	find_longest(cpu);
	if (rq->search.cpu == NO_CPU || rq->search.longest <= rq->nr_running + more)
		count(nr_balanced);
	else
		mark_task(rq->search.cpu, cpu, now);
	return false;
}

SCHED_OPS(libenzi);
