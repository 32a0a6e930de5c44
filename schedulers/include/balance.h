/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * balance.h - which CPU a task wakes up on, and which CPU pulls tasks from which, as
 * in Linux 2.6.10 with one scheduling domain of all CPUs. For policies with the state
 * of domain.h.
 *
 * The lengths of other queues are read without their lock: they are hints, and
 * a pull looks again under the lock.
 */
#ifndef SCHEDLAB_BALANCE_H
#define SCHEDLAB_BALANCE_H

#include "glue.h"

/* One task's worth of load. */
#define LOAD_SCALE 128ull
/* A CPU looks around every 1 to 4 ms, and 64 times as rarely while it is busy. */
#define MIN_INTERVAL MS
#define MAX_INTERVAL (4 * MIN_INTERVAL)
#define BUSY_FACTOR 64
/* Pulls that may fail before warm tasks are pulled as well. */
#define NICE_TRIES 1
/* Pulls that may fail before the running task has to make way: active balancing. */
#define PUSH_TRIES (NICE_TRIES + 2)

/* The policy's: a task that ran less than this long ago is too warm to be pulled; ns. */
static u64 cache_hot(void);

/* ---- load ---- */

/*
 * The averaged load of @rq at @now. Every tick moves it half way to the number
 * of its tasks, rounded towards that; a CPU that is idle has no ticks, so they
 * are made up for here.
 */
static __always_inline u64 averaged_load(rq_t *rq, u64 now)
{
	u64 target = rq->nr_running * LOAD_SCALE, load = rq->domain.load, ticks;

	debug_expect(target <= 1000000 * LOAD_SCALE, LOAD_BELOW_ZERO);
	ticks = now > rq->domain.load_updated ? (now - rq->domain.load_updated) / tick_length() : 0;
	ticks = min(ticks, 63ull);
	if (load > target)
		return target + ((load - target) >> ticks);
	return target - ((target - load) >> ticks);
}

static __always_inline void update_load(rq_t *rq, u64 now)
{
	debug_expect(now >= rq->domain.load_updated, RAN_BACKWARDS);
	if (now - rq->domain.load_updated < tick_length())
		return;
	rq->domain.load = averaged_load(rq, now);
	rq->domain.load_updated = now;
}

/* Load of a CPU that may lose tasks: rather too little. */
static __always_inline u64 source_load(u32 cpu, u64 now)
{
	rq_t *rq = rq_nr(cpu);

	return min(averaged_load(rq, now), rq->nr_running * LOAD_SCALE);
}

/* Load of a CPU that may get tasks: rather too much. */
static __always_inline u64 target_load(u32 cpu, u64 now)
{
	rq_t *rq = rq_nr(cpu);

	return max(averaged_load(rq, now), rq->nr_running * LOAD_SCALE);
}

/* ---- wakeup ---- */

/* Does it pay that @p wakes up on its waker's CPU? */
static __always_inline bool wakes_affine(task_t *p, u32 prev_cpu, u32 this_cpu, bool sync, u64 now)
{
	u64 load = source_load(prev_cpu, now), this_load = target_load(this_cpu, now);
	u32 margin = imbalance_pct + (imbalance_pct - 100) / 2;

	if (sync)
		this_load -= min(this_load, LOAD_SCALE);
	/* not from an idle CPU to a busy one */
	if (load < LOAD_SCALE / 2 && this_load > LOAD_SCALE / 2)
		return false;
	return now - p->last_ran >= cache_hot() || margin * this_load <= 100 * load;
}

/* An idle CPU of the core of @cpu, else @cpu. */
static __always_inline s32 idle_sibling(task_t *p, u32 cpu)
{
	u32 i, other, first;

	if (smt_siblings <= 1 || cpu_idle(cpu))
		return cpu;
	first = cpu - cpu % smt_siblings;
	for (i = zero; i < smt_siblings && can_loop; i++) {
		other = first + i;
		if (other < nr_cpus && cpu_idle(other) && cpu_allowed(p, other)) {
			count(nr_wake_sibling);
			return other;
		}
	}
	return cpu;
}

/* Counts where a woken task is queued; returns @cpu. */
static __always_inline s32 wakes_on(s32 cpu, s32 prev_cpu)
{
	if (cpu == prev_cpu)
		count(nr_wake_prev);
	else
		count(nr_wake_affine);
	return cpu;
}

/* The CPU that @p wakes up on. */
static __always_inline s32 wake_cpu(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	s32 cpu = prev_cpu;

	debug_expect((u32)prev_cpu < nr_cpus && (u32)this_cpu < nr_cpus, BAD_CPU);
	if (this_cpu != prev_cpu && cpu_allowed(p, this_cpu) &&
	    wakes_affine(p, prev_cpu, this_cpu, sync, now))
		cpu = this_cpu;
	return idle_sibling(p, wakes_on(cpu, prev_cpu));
}

/* ---- pulling ---- */

/*
 * A task of @queue, which is @rq's, that @cpu may pull. High priorities come first,
 * and in each list the tail, where the task is that ran longest ago.
 */
static __always_inline task_t *movable_in(rq_t *rq, prio_queue_t *queue, u32 cpu, bool any)
{
	list_t *pos, *head;
	task_t *p;
	u32 prio;

	prio_queue_for_each(prio, queue) {
		head = &queue->list[prio];
		for (pos = head->prev; pos != head && can_loop; pos = pos->prev) {
			p = linked_task(pos);
			count(nr_scanned);
			if (!can_move(p, cpu))
				continue;
			if (any || rq->base.clock - p->last_ran >= cache_hot())
				return p;
			count(nr_too_warm);
		}
	}
	return NULL;
}

/* Starts a search for a CPU to pull from. */
static __always_inline struct pull __arena *begin_pull(u32 cpu)
{
	struct pull __arena *pull = &rq_nr(cpu)->domain.pull;

	debug_expect(cpu < nr_cpus, BAD_CPU);
	pull->from = NO_CPU;
	WRITE_ONCE(pull->most, 0);
	return pull;
}

/*
 * Pulls what the search has found to @cpu, which is the calling one; returns the
 * number of tasks that came.
 */
static __always_inline u32 end_pull(u32 cpu, u64 now, bool idle, bool any)
{
	struct domain __arena *domain = &rq_nr(cpu)->domain;
	u32 moved;

	debug_expect(domain->pull.from != (s32)cpu, BAD_SEARCH);
	debug_expect(domain->balance_interval >= MIN_INTERVAL && domain->balance_interval <= MAX_INTERVAL, BAD_SEARCH);
	if (domain->pull.from == NO_CPU) {
		count(nr_balanced);
		domain->balance_interval = min(domain->balance_interval * 2, MAX_INTERVAL);
		return 0;
	}
	moved = move_tasks(domain->pull.from, cpu, now, idle ? 1 : domain->pull.amount, any);
	if (moved) {
		WRITE_ONCE(domain->balance_failed, 0);
	} else {
		count(nr_failed_pulls);
		domain->balance_failed++;
	}
	domain->balance_interval = MIN_INTERVAL;
	return moved;
}

/* Work done per time by two CPUs with these loads, one task being LOAD_SCALE. */
static __always_inline u64 throughput(u64 a, u64 b)
{
	return min(a, LOAD_SCALE) + min(b, LOAD_SCALE);
}

/*
 * Tasks to pull from a CPU with load @most to one with load @own: as many as
 * bring one of the two to the average. When that is less than one, one task moves
 * all the same if the loads are two tasks apart or an eighth of a CPU is gained.
 */
static __always_inline u32 imbalance(u64 most, u64 own, u64 average)
{
	u64 amount;

	debug_expect(average <= max(most, own), BAD_SEARCH);
	if (own >= most || own >= average || 100 * most <= imbalance_pct * own)
		return 0;
	amount = (min(most - average, average - own) + 1) / LOAD_SCALE;
	if (amount)
		return amount;
	if (most - own >= 2 * LOAD_SCALE)
		return 1;
	return throughput(most - min(most, LOAD_SCALE), own + min(most, LOAD_SCALE)) >=
	       throughput(most, own) + LOAD_SCALE / 8;
}

/* The CPU with the highest load; one with nothing to run asks for a task anyhow. */
static __noinline int find_busiest(u32 cpu, u64 now, bool idle)
{
	struct pull __arena *pull = begin_pull(cpu);
	u64 own = target_load(cpu, now), load;
	u32 i;

	pull->total = own;
	for (i = zero; i < nr_cpus && can_loop; i++) {
		if (i == cpu)
			continue;
		load = source_load(i, now);
		pull->total += load;
		if (load > pull->most) {
			pull->most = load;
			pull->from = i;
		}
	}
	pull->amount = imbalance(pull->most, own, pull->total / nr_cpus);
	if (!pull->amount && !idle)
		pull->from = NO_CPU;
	debug_expect(pull->total >= pull->most, BAD_SEARCH);
	return 0;
}

/*
 * Nothing can be pulled to @cpu, time and again: the task that its busiest CPU
 * runs is the only one that could come. It makes way for another one, and is
 * found waiting at the next look.
 */
static __always_inline void push_running(struct domain __arena *domain, u32 cpu)
{
	u32 from = domain->pull.from;
	task_t *curr = cpu_nr(from)->curr;

	debug_expect(from != cpu && from < nr_cpus, BAD_SEARCH);
	domain->balance_failed = NICE_TRIES;
	if (!curr || !cpu_allowed(curr, cpu) || rq_nr(from)->nr_running < 2)
		return;
	rq_nr(from)->domain.push = true;
	preempt_cpu(from);
}

/* The task that a pick may keep running: @prev, unless another CPU wants it. */
static __always_inline task_t *unless_pushed(rq_t *rq, task_t *prev)
{
	if (!rq->domain.push)
		return prev;
	WRITE_ONCE(rq->domain.push, false);
	if (prev)
		count(nr_active_pushes);
	return NULL;
}

/* Looks for a CPU to pull from and pulls; returns the number of tasks that came. */
static __noinline u32 balance_domain(u32 cpu, u64 now, bool idle)
{
	struct domain __arena *domain = &rq_nr(cpu)->domain;
	u32 moved;

	use_arena();
	find_busiest(cpu, now, idle);
	moved = end_pull(cpu, now, idle, idle || domain->balance_failed > NICE_TRIES);
	if (domain->balance_failed > PUSH_TRIES)
		push_running(domain, cpu);
	return moved;
}

/*
 * An idle CPU of the old kernels looked for work at every tick. Ours have no
 * ticks, so a CPU with a task to spare tells one of them.
 */
static __always_inline void nudge_idle(u32 cpu)
{
	s32 idle;

	if (rq_nr(cpu)->nr_running < 2)
		return;
	idle = next_idle_cpu(cpu);
	if (idle < 0)
		return;
	count(nr_idle_nudges);
	kick_idle(idle);
}

/* Tick on the busy CPU @cpu. */
static __always_inline void rebalance_tick(u32 cpu, u64 now)
{
	rq_t *rq = rq_nr(cpu);

	debug_expect(rq->base.nr == cpu, BAD_CPU);
	nudge_idle(cpu);
	update_load(rq, now);
	if (now < rq->domain.next_balance)
		return;
	if (balance_domain(cpu, now, false))
		count(nr_periodic_pulls);
	rq->domain.next_balance = now + rq->domain.balance_interval * BUSY_FACTOR;
}

#endif
