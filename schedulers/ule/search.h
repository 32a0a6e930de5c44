/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/search.h - a search for the CPUs, or cores, with the most and the least load.
 * Lengths of other queues are read without their lock: they are hints, and a move
 * looks again under the lock.
 */
#ifndef SCHEDLAB_ULE_SEARCH_H
#define SCHEDLAB_ULE_SEARCH_H

#include "queues.h"

/* Adds the load of the @size CPUs from @first on to *@load, what they can give away to *@movable. */
static __always_inline void add_loads(u32 first, u32 size, u32 *load, u32 *movable)
{
	u32 i, cpu;

	for (i = zero; i < size && can_loop; i++) {
		cpu = first + i;
		if (cpu >= nr_cpus)
			break;
		*load += rq_nr(cpu)->load;
		*movable += transferable(cpu);
	}
}

/*
 * Of @nr groups of @size CPUs from @first on, which has the most load and a task to
 * give away, and which has the least load? The search begins with the group @start
 * after the first.
 */
static __noinline int search_groups(struct search __arena *s, u32 first, u32 nr, u32 size, u32 start)
{
	u32 i, cpu, load, movable;

	use_arena();
	debug_expect(first < nr_cpus && size, BAD_SEARCH);
	s->least = ~0u;
	WRITE_ONCE(s->most, 0);
	for (i = zero; i < nr && can_loop; i++) {
		cpu = first + (start + i) % nr * size;
		if (cpu >= nr_cpus)
			continue;
		load = 0;
		movable = 0;
		add_loads(cpu, size, &load, &movable);
		if (load > s->most && movable) {
			s->most = load;
			s->from = cpu;
			s->nr_movable = movable;
		}
		if (load < s->least) {
			s->least = load;
			s->to = cpu;
		}
	}
	debug_expect(s->least == ~0u || (u32)s->to < nr_cpus, BAD_SEARCH);
	return 0;
}

#endif
