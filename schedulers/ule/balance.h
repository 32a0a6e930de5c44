/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * balance.h - which CPU a task becomes ready on, and the two balancers: pull by
 * idle CPUs, push by time. Included by ule.bpf.c.
 *
 * Lengths of other queues are read without their lock: they are hints, and a
 * move looks again under the lock.
 */
#ifndef SCHEDLAB_ULE_BALANCE_H
#define SCHEDLAB_ULE_BALANCE_H

/* When the next push is due, ns; those within cores come half a second later. */
static u64 next_push, next_core_push;

static __always_inline u32 core_size(void)
{
	return profile == PROFILE_6_X && core_cpus > 1 ? core_cpus : 1;
}

static __always_inline u32 first_of_core(u32 cpu)
{
	return cpu - cpu % core_size();
}

/* ---- becoming ready ---- */

/* An idle CPU of the core of @cpu that @p may use, else NO_CPU; @all: only if the whole core is idle. */
static __noinline s32 idle_in_core(task_t *p, u32 cpu, bool all)
{
	u32 i, other, first = first_of_core(cpu);
	s32 found = NO_CPU;

	use_arena();
	for (i = zero; i < core_size() && can_loop; i++) {
		other = first + i;
		if (other >= nr_cpus)
			break;
		if (!cpu_idle(other)) {
			if (all)
				return NO_CPU;
		} else if (found == NO_CPU && cpu_allowed(p, other)) {
			found = other;
		}
	}
	return found;
}

/* kseq_transfer(): an idle CPU for @p: of its last core, of the first idle core, of the core of @cpu. */
static __always_inline s32 find_idle(task_t *p, u32 cpu, u32 prev_cpu)
{
	s32 found = idle_in_core(p, prev_cpu, true), idle, last;

	if (found != NO_CPU)
		goto idle_core;
	for (last = NO_CPU, idle = next_idle_cpu(nr_cpus - 1); idle > last && can_loop;
	     last = idle, idle = next_idle_cpu(idle)) {
		found = idle_in_core(p, idle, true);
		if (found != NO_CPU)
			goto idle_core;
	}
	found = idle_in_core(p, cpu, false);
	if (found != NO_CPU)
		count(nr_wake_sibling);
	return found;
idle_core:
	count(nr_wake_idle);
	return found;
}

/*
 * 5.2: its last CPU, or an idle one if that has any task. 6.x: the one that wakes it, or an idle one
 * if that has a task waiting.
 */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	u32 enough = profile == PROFILE_6_X ? 2 : 1;
	s32 cpu = prev_cpu, idle;

	if (profile == PROFILE_6_X && cpu_allowed(p, this_cpu))
		cpu = this_cpu;
	if (rq_nr(cpu)->load >= enough && p->movable) {
		idle = find_idle(p, cpu, prev_cpu);
		if (idle != NO_CPU)
			return idle;
	}
	if (cpu == prev_cpu)
		count(nr_wake_prev);
	else
		count(nr_wake_here);
	return cpu;
}

/* ---- moving ---- */

/* @any: those of the idle class too. From the head: the one that waits longest for its turn. */
static task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	prio_queue_t *first = profile == PROFILE_5_2 ? src->curr : src->next;
	prio_queue_t *second = profile == PROFILE_5_2 ? src->next : src->curr;
	task_t *p = first_task(first, cpu, NULL);

	if (!p)
		p = first_task(second, cpu, NULL);
	if (!p && any)
		p = first_task(&src->idle, cpu, NULL);
	return p;
}

/* Tasks that CPU @cpu can give away: not the one that runs. */
static __always_inline u32 transferable(u32 cpu)
{
	task_t *curr = cpu_nr(cpu)->curr;
	u32 nr = rq_nr(cpu)->nr_movable;

	return nr && curr && curr->in_movable ? nr - 1 : nr;
}

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
 * Of @nr groups of @size CPUs from @first on, beginning with the one @start after
 * the first: which has the most load of those with a task to give away, and which
 * the least?
 */
static __noinline int search_groups(struct search __arena *s, u32 first, u32 nr, u32 size, u32 start)
{
	u32 i, cpu, load, movable;

	use_arena();
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
	return 0;
}

/*
 * 5.2: from the CPU with most tasks, if it has two. 6.x: from one of the same core;
 * CPUs of other cores send tasks here when these become ready.
 */
static bool balance_newidle(u32 cpu, u64 now)
{
	struct search __arena *s = &rq_nr(cpu)->search;
	bool all = profile == PROFILE_5_2;

	if (!all && core_size() == 1)
		return false;
	if (all)
		search_groups(s, 0, nr_cpus, 1, 0);
	else
		search_groups(s, first_of_core(cpu), core_size(), 1, 0);
	if (s->most < 2)
		return false;
	if (!move_tasks(s->from, cpu, now, 1, all)) {
		count(nr_failed_moves);
		return false;
	}
	count(nr_pulls);
	return true;
}

/* Moves half of the difference in load from the CPU @from to the CPU @to. False: nothing moved. */
static __noinline bool push(u32 from, u32 to, u32 diff, u32 movable, u64 now)
{
	use_arena();
	/* 5.2: what runs does not count */
	if (profile == PROFILE_5_2)
		diff--;
	if (!move_tasks(from, to, now, min((diff + 1) / 2, movable), true)) {
		count(nr_failed_moves);
		return false;
	}
	if (cpu_idle(to))
		kick_idle(to);
	return true;
}

/* From the core with most load to that with least; there, from and to the CPU of which that is true. */
static __noinline int push_to_cores(u32 cpu, u64 now)
{
	struct search __arena *s = &rq_nr(cpu)->search;
	u32 size = core_size(), cores = (nr_cpus + size - 1) / size, from, to, diff, movable;

	use_arena();
	search_groups(s, 0, cores, size, bpf_get_prandom_u32() % cores);
	if (!s->most || s->most <= s->least || (profile == PROFILE_5_2 && s->most - s->least < 2)) {
		count(nr_balanced);
		return 0;
	}
	from = s->from;
	to = s->to;
	diff = s->most - s->least;
	movable = s->nr_movable;
	if (size > 1) {
		search_groups(s, to, size, 1, 0);
		to = s->to;
		search_groups(s, from, size, 1, 0);
		if (s->most)
			from = s->from;
	}
	if (push(from, to, diff, movable, now))
		count(nr_pushes);
	return 0;
}

/* 6.x: within each core, from the CPU with most load to that with least. */
static __noinline int push_within_cores(u32 cpu, u64 now)
{
	struct search __arena *s = &rq_nr(cpu)->search;
	u32 first;

	use_arena();
	for (first = zero; first < nr_cpus && can_loop; first += core_size()) {
		search_groups(s, first, core_size(), 1, 0);
		if (!s->most || s->most <= s->least)
			count(nr_balanced);
		else if (push(s->from, s->to, s->most - s->least, s->nr_movable, now))
			count(nr_core_pushes);
	}
	return 0;
}

static __always_inline u64 push_period(void)
{
	if (push_period_ns)
		return push_period_ns;
	if (profile == PROFILE_5_2)
		return SEC_NS;
	return bpf_get_prandom_u32() % (2 * SEC_NS / clock_length()) * clock_length();
}

/* Is it time for what *@next says? For one CPU alone it is. The first time is @first after the load. */
static __always_inline bool is_due(u64 *next, u64 now, u64 first)
{
	u64 due = READ_ONCE(*next), then;

	if (now < due)
		return false;
	if (due)
		then = now + push_period();
	else
		then = now + (push_period_ns ?: first);
	return __sync_val_compare_and_swap(next, due, then) == due && due;
}

static void balance_tick(u32 cpu, u64 now)
{
	if (nr_cpus == 1)
		return;
	if (is_due(&next_push, now, SEC_NS))
		push_to_cores(cpu, now);
	if (core_size() > 1 && is_due(&next_core_push, now, SEC_NS / 2))
		push_within_cores(cpu, now);
}

#endif
