/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/balance.h - which CPU a task becomes ready on, and the two balancers: pull by
 * idle CPUs, push by time.
 */
#ifndef SCHEDLAB_ULE_BALANCE_H
#define SCHEDLAB_ULE_BALANCE_H

#include "interact.h"

/* When the next push is due, ns; those within cores come half a second later. */
static u64 next_push, next_core_push;

static __always_inline u32 core_size(void)
{
	return GENERATION(core_size);
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

/* A task becomes ready where its generation says, or on an idle CPU if that has enough to do. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	s32 cpu = GENERATION(ready_cpu, p, prev_cpu, this_cpu), idle;

	if (rq_nr(cpu)->load >= GENERATION(enough_tasks) && p->movable) {
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
	task_t *p = first_task(GENERATION(first_movable, src), cpu, NULL);

	if (!p)
		p = first_task(GENERATION(second_movable, src), cpu, NULL);
	if (!p && any)
		p = first_task(&src->idle, cpu, NULL);
	return p;
}

/* A CPU with nothing to run pulls from one that has two tasks. */
static bool balance_newidle(u32 cpu, u64 now)
{
	struct search __arena *s = &rq_nr(cpu)->search;
	bool any = false;

	if (!GENERATION(search_newidle, cpu, &any) || s->most < 2)
		return false;
	if (!move_tasks(s->from, cpu, now, 1, any)) {
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
	diff = GENERATION(push_difference, diff);
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
	if (!s->most || s->most < s->least + GENERATION(push_threshold)) {
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
	return push_period_ns ?: GENERATION(push_period);
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
