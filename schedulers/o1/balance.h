/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * balance.h - which CPU a task wakes up on, and who pulls tasks from whom.
 * Included by o1.bpf.c.
 *
 * The lengths of other queues are read without their lock: they are hints, and
 * a pull looks again under the lock.
 */
#ifndef SCHEDLAB_O1_BALANCE_H
#define SCHEDLAB_O1_BALANCE_H

/* One task's worth of load. */
#define LOAD_SCALE 128ull
/* 2.6.10: a CPU looks around every 1 to 4 ms, and 64 times as rarely while it is busy. */
#define MIN_INTERVAL MS
#define MAX_INTERVAL (4 * MS)
#define BUSY_FACTOR 64
/* 2.6.10: pulls that may fail before warm tasks are pulled as well. */
#define NICE_TRIES 1
/* rh8: a busy CPU looks around this often. */
#define RH8_BUSY_INTERVAL (250 * MS)

static __always_inline u64 cache_hot(void)
{
	if (cache_hot_ns)
		return cache_hot_ns;
	return profile == PROFILE_2_6_10 ? 2500000 : 10 * MS;
}

/* ---- 2.6.10: load ---- */

/*
 * The averaged load of @rq at @now. Every tick moves it half way to the number
 * of its tasks, rounded towards that; a CPU that is idle has no ticks, so they
 * are made up for here.
 */
static __always_inline u64 averaged_load(rq_t *rq, u64 now)
{
	u64 target = rq->nr_running * LOAD_SCALE, ticks;

	ticks = now > rq->load_updated ? (now - rq->load_updated) / tick_length() : 0;
	ticks = min(ticks, 63ull);
	if (rq->load > target)
		return target + ((rq->load - target) >> ticks);
	return target - ((target - rq->load) >> ticks);
}

static __always_inline void update_load(rq_t *rq, u64 now)
{
	if (now - rq->load_updated < tick_length())
		return;
	rq->load = averaged_load(rq, now);
	rq->load_updated = now;
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

/* 2.6.10: does it pay that @p wakes up on its waker's CPU? */
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

/* 2.6.10: an idle CPU of the core of @cpu, else @cpu. */
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

static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	s32 cpu = prev_cpu;

	if (this_cpu != prev_cpu && cpu_allowed(p, this_cpu)) {
		if (profile == PROFILE_RH8 && sync)
			cpu = this_cpu;
		if (profile == PROFILE_2_6_10 && wakes_affine(p, prev_cpu, this_cpu, sync, now))
			cpu = this_cpu;
	}
	if (cpu == prev_cpu)
		count(nr_wake_prev);
	else
		count(nr_wake_affine);
	return profile == PROFILE_2_6_10 ? idle_sibling(p, cpu) : cpu;
}

/* ---- pulling ---- */

/*
 * Looks where waiting does least harm: in the expired array first, from high
 * priorities to low ones, and from the tail of each list, where the task is that
 * ran longest ago.
 */
static __always_inline task_t *movable_in(rq_t *rq, prio_queue_t *array, u32 cpu, bool any)
{
	list_t *pos, *head;
	task_t *p;
	u32 prio;

	prio_queue_for_each(prio, array) {
		head = &array->list[prio];
		for (pos = head->prev; pos != head && can_loop; pos = pos->prev) {
			p = linked_task(pos);
			count(nr_scanned);
			if (!can_run(p, cpu, NULL))
				continue;
			if (any || rq->base.clock - p->last_ran >= cache_hot())
				return p;
			count(nr_too_warm);
		}
	}
	return NULL;
}

static task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	task_t *p = movable_in(src, src->expired, cpu, any);

	return p ?: movable_in(src, src->active, cpu, any);
}

/*
 * d1, rh8: from the longest queue, half of the difference. A length counts only
 * if it was as great at the last look (or the CPU has nothing to run), and a
 * quarter of the longest queue must be to gain.
 */
static __noinline int find_longest(u32 cpu, bool idle)
{
	rq_t *rq = rq_nr(cpu);
	struct pull __arena *pull = &rq->pull;
	u32 own = rq->nr_running, length, longest, i;

	if (!idle && own < rq->prev_running[cpu % MAX_CPUS])
		own = rq->prev_running[cpu % MAX_CPUS];
	rq->prev_running[cpu % MAX_CPUS] = rq->nr_running;
	for (i = zero; i < nr_cpus && can_loop; i++) {
		if (i == cpu)
			continue;
		length = rq_nr(i)->nr_running;
		if (!idle && length > rq->prev_running[i])
			length = rq->prev_running[i];
		rq->prev_running[i] = rq_nr(i)->nr_running;
		if (length > pull->most) {
			pull->most = length;
			pull->from = i;
		}
	}
	longest = pull->most;
	pull->amount = longest > own ? (longest - own) / 2 : 0;
	if (longest <= own + 1 || (!idle && pull->amount < (longest + 3) / 4))
		pull->from = NO_CPU;
	return 0;
}

/* Work done per time by two CPUs with these loads, one task being LOAD_SCALE. */
static __always_inline u64 throughput(u64 a, u64 b)
{
	return min(a, LOAD_SCALE) + min(b, LOAD_SCALE);
}

/*
 * 2.6.10: tasks to pull from a CPU with load @most to one with load @own: as
 * many as bring one of the two to the average. When that is less than one, one
 * task moves all the same if the loads are two tasks apart or an eighth of a CPU
 * is gained.
 */
static __always_inline u32 imbalance(u64 most, u64 own, u64 average)
{
	u64 amount;

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

/* 2.6.10: the CPU with the highest load; one with nothing to run asks for a task anyhow. */
static __noinline int find_busiest(u32 cpu, u64 now, bool idle)
{
	struct pull __arena *pull = &rq_nr(cpu)->pull;
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
	return 0;
}

/* Looks for a CPU to pull from and pulls; returns the number of tasks that came. */
static __noinline u32 load_balance(u32 cpu, u64 now, bool idle)
{
	rq_t *rq = rq_nr(cpu);
	u32 moved;
	bool any;

	use_arena();
	rq->pull.from = NO_CPU;
	WRITE_ONCE(rq->pull.most, 0);
	if (profile == PROFILE_2_6_10)
		find_busiest(cpu, now, idle);
	else
		find_longest(cpu, idle);
	if (rq->pull.from == NO_CPU) {
		count(nr_balanced);
		rq->balance_interval = min(rq->balance_interval * 2, MAX_INTERVAL);
		return 0;
	}
	if (idle)
		rq->pull.amount = 1;
	any = idle || (profile == PROFILE_2_6_10 && rq->balance_failed > NICE_TRIES);
	moved = move_tasks(rq->pull.from, cpu, now, rq->pull.amount, any);
	if (moved) {
		WRITE_ONCE(rq->balance_failed, 0);
	} else {
		count(nr_failed_pulls);
		rq->balance_failed++;
	}
	rq->balance_interval = MIN_INTERVAL;
	return moved;
}

static bool balance_newidle(u32 cpu, u64 now)
{
	if (!load_balance(cpu, now, true))
		return false;
	count(nr_newidle_pulls);
	return true;
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

static void balance_tick(u32 cpu, u64 now)
{
	rq_t *rq = rq_nr(cpu);
	u64 interval;

	nudge_idle(cpu);
	if (profile == PROFILE_2_6_10)
		update_load(rq, now);
	if (now < rq->next_balance)
		return;
	if (load_balance(cpu, now, false))
		count(nr_periodic_pulls);
	switch (profile) {
	case PROFILE_D1:
		interval = tick_length();
		break;
	case PROFILE_RH8:
		interval = RH8_BUSY_INTERVAL;
		break;
	default:
		interval = rq->balance_interval * BUSY_FACTOR;
	}
	rq->next_balance = now + interval;
}

#endif
