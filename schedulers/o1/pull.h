/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/pull.h - how CPUs pull tasks before 2.6: from the longest queue, half of the
 * difference.
 */
#ifndef SCHEDLAB_O1_PULL_H
#define SCHEDLAB_O1_PULL_H

#include "balance.h"
#include "arrays.h"

/*
 * The longest queue, for @cpu to pull from. A length counts only if it was as great at
 * the last look (or the CPU has nothing to run). A quarter of the longest queue must be
 * to gain.
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
	debug_expect(pull->from != (s32)cpu, BAD_SEARCH);
	return 0;
}

/* Pulls from the longest queue; returns the number of tasks that came. */
static __always_inline u32 pull_from_longest(u32 cpu, u64 now, bool idle)
{
	find_longest(cpu, idle);
	return end_pull(cpu, now, idle, idle);
}

/* Tick on the busy @cpu, which looks around every @interval ns. */
static __always_inline void look_around(u32 cpu, u64 now, u64 interval)
{
	struct domain __arena *domain = &rq_nr(cpu)->domain;

	nudge_idle(cpu);
	if (now < domain->next_balance)
		return;
	if (pull_from_longest(cpu, now, false))
		count(nr_periodic_pulls);
	domain->next_balance = now + interval;
}

#endif
