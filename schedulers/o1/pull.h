/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pull.h - where a task wakes up and who pulls from whom before 2.6, and the
 * choice between that and balance.h. Included by o1.bpf.c.
 */
#ifndef SCHEDLAB_O1_PULL_H
#define SCHEDLAB_O1_PULL_H

/* rh8: a busy CPU looks around this often. */
#define RH8_BUSY_INTERVAL (250 * MS)

static u64 cache_hot(void)
{
	if (cache_hot_ns)
		return cache_hot_ns;
	return profile == PROFILE_2_6_10 ? 2500000 : 10 * MS;
}

/* rh8: a waker that is about to sleep has the woken task come to its CPU. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	if (profile == PROFILE_2_6_10)
		return wake_cpu(p, prev_cpu, this_cpu, sync, now);
	if (profile == PROFILE_RH8 && sync && cpu_allowed(p, this_cpu))
		return wakes_on(this_cpu, prev_cpu);
	return wakes_on(prev_cpu, prev_cpu);
}

/* In the expired array first, where waiting does least harm. */
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
	struct pull __arena *pull = begin_pull(cpu);
	u32 own = rq->nr_running, length, longest, i;
	u16 __arena *prev;

	if (!idle && own < rq->prev_running[cpu % MAX_CPUS])
		own = rq->prev_running[cpu % MAX_CPUS];
	rq->prev_running[cpu % MAX_CPUS] = rq->nr_running;
	for (i = zero; i < nr_cpus && can_loop; i++) {
		if (i == cpu)
			continue;
		prev = element(rq->prev_running, i);
		length = rq_nr(i)->nr_running;
		if (!idle && length > *prev)
			length = *prev;
		*prev = rq_nr(i)->nr_running;
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

/* Looks for a CPU to pull from and pulls; returns the number of tasks that came. */
static __always_inline u32 load_balance(u32 cpu, u64 now, bool idle)
{
	if (profile == PROFILE_2_6_10)
		return balance_domain(cpu, now, idle);
	find_longest(cpu, idle);
	return end_pull(cpu, now, idle, idle);
}

static bool balance_newidle(u32 cpu, u64 now)
{
	if (!load_balance(cpu, now, true))
		return false;
	count(nr_newidle_pulls);
	return true;
}

static void balance_tick(u32 cpu, u64 now)
{
	struct domain __arena *domain = &rq_nr(cpu)->domain;

	if (profile == PROFILE_2_6_10) {
		rebalance_tick(cpu, now);
		return;
	}
	nudge_idle(cpu);
	if (now < domain->next_balance)
		return;
	if (load_balance(cpu, now, false))
		count(nr_periodic_pulls);
	domain->next_balance = now + (profile == PROFILE_RH8 ? RH8_BUSY_INTERVAL : tick_length());
}

#endif
