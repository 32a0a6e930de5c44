// SPDX-License-Identifier: GPL-2.0-only
/*
 * hamq - Mike Kravetz's "haMQ" of January 2002: Linux 2.5.2-pre9 with a list per
 * CPU. A reconstruction: the patch is lost, its author's mail tells what it did.
 *
 *     CPU 0  [A runs] - [B] - [C]         B is the best that waits there:
 *     CPU 1  (nothing to run)   <-----    CPU 1 takes it
 *     CPU 2  [D runs]
 *
 * Every CPU has a list and a lock of its own. It picks from its list by goodness() as
 * Linux 2.5.2 does from its only one (vanilla, profile tsss). Epochs are a matter of
 * one CPU. There is no balancing and nothing elaborate, but no CPU is to be idle if
 * that can be helped. A task that becomes ready goes to an idle CPU if there is one. A
 * CPU with nothing to run takes the best waiting task of the CPU where most are
 * waiting. CPUs that are busy never share their tasks out.
 *
 * Worked decision: D blocks, so CPU 2 has nothing to run. Two tasks wait on CPU 0 and
 * none on CPU 1. B of nice 0 has slept through 3 epochs: 3 + 1 + 20 = 24. C has slept
 * through none: 21. CPU 2 takes B.
 *
 * Gain: no shared lock, and short lists. Failure: nine tasks on one CPU and one on
 * another stay so for good.
 *
 * README.md says what is known and what is chosen, and has sources, numbered
 * behaviours, tunables and limits.
 */
#include "goodness.h"

/* All tasks of a list share the CPU: it makes no difference. */
static __always_inline s32 add_cpu_bonus(s32 weight, task_t *p, u32 cpu, u64 clock)
{
	return weight;
}

static void init_task(task_t *p)
{
	init_ticks(p);
	WRITE_ONCE(p->dyn_prio, 0);
	WRITE_ONCE(p->epoch, 0);
	p->processor = RQ_NONE;
	p->last_cpu = NO_CPU;
}

static bool task_fork(task_t *parent, task_t *child)
{
	child->processor = parent->processor;
	return split_ticks(parent, child);
}

/* ---- queueing ---- */

/* What @p missed is counted in the epochs of the queue that it was on. */
static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	tsss_catch_up(rq, p->processor < 0 ? rq : rq_nr(p->processor), p);
	p->processor = rq->base.nr;
	add_to_list(rq, p);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	take_off_list(rq, p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	return pick_best(rq, cpu, prev);
}

static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	p->last_cpu = cpu;
	rq->woken = false;
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

	if (p->base.waker_cpu == cpu && waits_for_waker(p, reason))
		return NO_CPU;
	if (c->idle_since) {
		rq->woken = true;
		return cpu;
	}
	/* woken already, or runs a task that is none of ours */
	if (!c->curr)
		return NO_CPU;
	if (goodness(p, cpu, c->mm, 0) <= goodness(c->curr, cpu, c->mm, 0)) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	count(nr_preemptions);
	return cpu;
}

/* ---- a ready task looks for an idle CPU ---- */

/*
 * Takes @cpu's idleness for oneself: of two wakers one has it. The task that
 * follows makes the kernel wake the CPU.
 */
static __always_inline bool claim_idle(u32 cpu)
{
	u64 bit = 1ull << (cpu % 64), old;

	debug_expect(cpu < nr_cpus, BAD_CPU);
	old = __sync_fetch_and_and(&idle_mask[cpu / 64 % MASK_WORDS], ~bit);
	if (!(old & bit)) {
		count(nr_lost_claims);
		return false;
	}
	WRITE_ONCE(cpu_nr(cpu)->idle_since, 0);
	rq_nr(cpu)->woken = true;
	return true;
}

/* The CPU that has been idle longest of those that @p may use, or NO_CPU. */
static __noinline s32 idle_longest(task_t *p, u32 this_cpu)
{
	struct search __arena *target = &rq_nr(this_cpu)->target;
	u64 since;
	s32 cpu, last = -1;

	use_arena();
	target->best = ~0ull;
	target->cpu = NO_CPU;
	for (cpu = next_idle_cpu(MAX_CPUS - 1); cpu > last && can_loop; cpu = next_idle_cpu(last)) {
		last = cpu;
		since = cpu_nr(cpu)->idle_since;
		if (!since || since >= target->best || !cpu_allowed(p, cpu))
			continue;
		target->best = since;
		target->cpu = cpu;
	}
	debug_expect(target->cpu < (s32)nr_cpus, BAD_CPU);
	return target->cpu;
}

static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	s32 cpu;

	if (!wake_idle_search || (sync && sync_wakeups))
		return prev_cpu;
	if (cpu_idle(prev_cpu) && cpu_allowed(p, prev_cpu) && claim_idle(prev_cpu)) {
		count(nr_wake_prev);
		return prev_cpu;
	}
	cpu = idle_longest(p, this_cpu);
	if (cpu >= 0 && claim_idle(cpu)) {
		count(nr_wake_idle);
		return cpu;
	}
	count(nr_wake_busy);
	return prev_cpu;
}

/* ---- a CPU with nothing to run takes a task ---- */

/* Tasks that wait on @cpu's list, but for one that it is about to run; a hint without its lock. */
static __always_inline u32 nr_waiting(u32 cpu)
{
	rq_t *rq = rq_nr(cpu);
	u32 nr = rq->nr_running, running = cpu_nr(cpu)->curr || rq->woken;

	return nr > running ? nr - running : 0;
}

/* The CPU with most tasks waiting, the first after @cpu on a tie. */
static __always_inline void find_victim(u32 cpu)
{
	struct search __arena *victim = &rq_nr(cpu)->victim;
	u32 i, other = cpu, waiting;

	WRITE_ONCE(victim->best, 0);
	victim->cpu = NO_CPU;
	for (i = zero; i + 1 < nr_cpus && can_loop; i++) {
		other = other + 1 < nr_cpus ? other + 1 : 0;
		waiting = nr_waiting(other);
		if (waiting <= victim->best)
			continue;
		victim->best = waiting;
		victim->cpu = other;
	}
	debug_expect(victim->cpu != (s32)cpu, BAD_SEARCH);
}

/* The waiting task of @src that @cpu takes, or NULL. */
static task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	s32 weight, best = GOODNESS_IDLE;
	u64 mm = cpu_nr(cpu)->mm;
	task_t *p, *next = NULL;
	list_t *pos;

	list_for_each(pos, &src->head) {
		p = linked_task(pos);
		if (!can_move(p, cpu))
			continue;
		if (steal_pick == STEAL_HEAD)
			return p;
		weight = goodness(p, cpu, mm, 0);
		if (p->last_cpu != (s32)cpu)
			weight -= remote_bonus;
		if (weight > best) {
			best = weight;
			next = p;
		}
	}
	return next;
}

/* Twice, if the victim's tasks were gone by the time of the look under its lock. */
static bool balance_newidle(u32 cpu, u64 now)
{
	struct search __arena *victim = &rq_nr(cpu)->victim;
	u32 i;

	rq_nr(cpu)->woken = false;
	for (i = zero; i < 2 && can_loop; i++) {
		find_victim(cpu);
		if (victim->cpu == NO_CPU || victim->best < steal_min) {
			count(nr_no_steals);
			return false;
		}
		if (move_tasks(victim->cpu, cpu, now, 1, true)) {
			count(nr_steals);
			return true;
		}
		count(nr_missed_steals);
	}
	return false;
}

/*
 * Idle CPUs of the old kernels looked around at every tick. Ours have no ticks, so
 * a CPU with tasks to spare tells one of them.
 */
static void balance_tick(u32 cpu, u64 now)
{
	rq_t *rq = rq_nr(cpu);
	s32 idle;

	if (now < rq->next_poll || nr_waiting(cpu) < steal_min)
		return;
	idle = next_idle_cpu(cpu);
	if (idle < 0)
		return;
	rq->next_poll = now + poll_idle_ns;
	count(nr_idle_polls);
	kick_idle(idle);
}

SCHED_OPS(hamq);
