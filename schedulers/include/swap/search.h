/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/search.h - which task runs in place of a blocked one?
 *
 * The requester's providers that can run are candidates, valued by the confidence in
 * them. A provider that is blocked itself leads to its own providers. The value of
 * such a way is the product of the confidences on it, divided by C for every provider
 * after the first. The greatest value wins, of equal ones the entry that is first in
 * its list.
 */
#ifndef SCHEDLAB_SWAP_SEARCH_H
#define SCHEDLAB_SWAP_SEARCH_H

#include "glue/cpus.h"
#include "swap/hooks.h"
#include "swap/table.h"

u64 nr_swap_cut COUNTS("searches given up because too many providers were in question");

/*
 * How often a provider has become ready. It does so without the lock of the CPU that
 * searches for one. What a search finds out may be out of date before it is written
 * down, and the provider may have looked at its requesters before that.
 */
static u64 swap_readied;

/* Has a provider become ready since @search began with its pick? What was written before is visible to it if not. */
static __always_inline bool swap_overtaken(struct swap_search __arena *search)
{
	return __sync_fetch_and_add(&swap_readied, 0) != search->readied;
}

/* The number after @last among those of @cpu, which no other CPU has. */
static __always_inline u64 swap_next_number(u64 last, u32 cpu)
{
	return ((last >> 9) + 1) << 9 | cpu;
}

/* @cpu is about to pick: it looks for providers afresh. */
static __always_inline void swap_begin_pick(u32 cpu)
{
	struct swap_search __arena *search = &cpu_nr(cpu)->search;

	search->left = SWAP_SEARCH_LIMIT;
	search->pick = swap_next_number(search->pick, cpu);
	search->readied = READ_ONCE(swap_readied);
}

/* Enters the requester @p as step @depth. */
static __always_inline struct swap_step __arena *
swap_enter(struct swap_search __arena *search, u32 depth, task_t *p, u64 product, u64 scale, u32 order)
{
	struct swap_step __arena *step;

	hide_value(depth);
	debug_expect(depth < SWAP_DEPTH, TABLE_OVERRUN);
	step = &search->step[depth % SWAP_DEPTH];
	step->task = p;
	step->product = product;
	step->scale = scale;
	step->order = order;
	step->depth = depth;
	WRITE_ONCE(step->request, 0);
	WRITE_ONCE(step->entries, 0);
	p->base.swap.on_way = search->serial;
	return step;
}

/* Advances to the next resource with providers that the task of @step waits for; false: there is none. */
static __always_inline bool swap_next_list(struct swap_step __arena *step)
{
	struct swap_task __arena *s = &step->task->base.swap;
	resource_t *resource;
	u32 request;

	while (step->request < s->nr_requests && can_loop) {
		request = step->request++;
		hide_value(request);
		resource = s->request[request % SWAP_REQUESTS].resource;
		if (!resource->nr_providers)
			continue;
		step->entry = resource->provider;
		step->entries = min(resource->nr_providers, SWAP_PROVIDERS);
		step->scale_behind = step->depth ? step->scale * resource->confidence : 1;
		return true;
	}
	return false;
}

/* Is the provider of @entry, worth @value, better than what was found so far? */
static __always_inline bool swap_better(struct swap_search __arena *search, provider_t *entry,
					u64 value, u32 first_order)
{
	s32 later = first_order - search->first_order;

	if (!search->task || value != search->value)
		return value > search->value;
	if (!later)
		later = entry->order - search->order;
	return later < 0;
}

/* The provider of @entry, an entry of @step, can run in place of the requester: takes it, if it is better. */
static __always_inline void swap_take(struct swap_search __arena *search, struct swap_step __arena *step,
				      provider_t *entry, u64 value)
{
	u32 order = step->depth ? step->order : entry->order;

	if (!swap_better(search, entry, value, order))
		return;
	search->task = entry->task;
	search->entry = entry;
	search->value = value;
	search->first_order = order;
	search->order = entry->order;
}

/*
 * Descends to the providers of the blocked @p, which is listed as @entry in @step. It
 * does so no second time by a way that is worth no more, nor if it is known that no task
 * behind it can run. Where many wait for many there are more ways than can be looked
 * at. Returns the step to continue with.
 */
static __always_inline struct swap_step __arena *
swap_descend(struct swap_search __arena *search, struct swap_step __arena *step, provider_t *entry,
	     task_t *p, u64 product)
{
	struct swap_task __arena *s = &p->base.swap;
	u64 scale = step->scale_behind, value;

	if (p->base.state != TASK_VIRTUAL || s->barren || !s->waits)
		return step;
	if (step->depth + 1 >= SWAP_DEPTH) {
		search->partial = true;
		return step;
	}
	value = product / scale;
	if (s->seen == search->serial && value <= s->value)
		return step;
	s->seen = search->serial;
	s->value = value;
	return swap_enter(search, step->depth + 1, p, product, scale, step->depth ? step->order : entry->order);
}

/*
 * Looks at one entry of @step, and descends to the task's own providers if it is blocked itself. A leaf's value is
 * computed in one division, so that nothing is lost on the way. Returns the step to continue with.
 */
static __always_inline struct swap_step __arena *
swap_look(struct swap_search __arena *search, struct swap_step __arena *step, provider_t *entry, u32 cpu,
	  task_t *prev)
{
	u64 product = step->product * entry->confidence;
	task_t *p = entry->task;

	if (p->base.swap.on_way == search->serial) {
		search->partial = true;
		return step;
	}
	if (p != prev && p->base.state != TASK_READY)
		return swap_descend(search, step, entry, p, product);
	if (p == prev || cpu_allowed(p, cpu)) {
		if (!p->base.swap.yielded)
			swap_take(search, step, entry, product / step->scale_behind);
	} else if (!search->elsewhere) {
		search->elsewhere = p;
	}
	return step;
}

/* No task can run for that of @step on any CPU, nor for one that it waits for. */
static __always_inline void swap_set_barren(struct swap_search __arena *search, struct swap_step __arena *step)
{
	struct swap_task __arena *s = &step->task->base.swap;

	if (search->task || search->elsewhere || search->partial)
		return;
	WRITE_ONCE(s->barren, true);
	if (swap_overtaken(search))
		WRITE_ONCE(s->barren, false);
}

/* The search for @requester is over: remembers the task that was found, until the pick ends. */
static __always_inline bool swap_found(struct swap_search __arena *search, task_t *requester)
{
	struct swap_task __arena *s = &requester->base.swap;

	if (!search->task)
		return false;
	s->found = search->task;
	s->found_entry = search->entry;
	s->found_pick = search->pick;
	return true;
}

/*
 * Finds the task that runs in place of @requester on @cpu, the calling one, which
 * @prev is about to leave: the @best one, or the first that is found. The result is
 * kept with the requester; false: no task can here.
 */
static __noinline bool swap_search(task_t *requester, u32 cpu, task_t *prev, bool best)
{
	struct swap_search __arena *search;
	struct swap_step __arena *step;
	provider_t *entry;
	u32 left;

	use_arena();
	search = &cpu_nr(cpu)->search;
	search->serial = swap_next_number(search->serial, cpu);
	WRITE_ONCE(search->partial, false);
	WRITE_ONCE(search->task, NULL);
	WRITE_ONCE(search->elsewhere, NULL);
	WRITE_ONCE(search->value, 0);
	step = swap_enter(search, 0, requester, 1, 1, 0);
	for (left = search->left; left && can_loop; left--) {
		if (!best && search->task)
			return swap_found(search, requester);
		if (!step->entries && !swap_next_list(step)) {
			swap_set_barren(search, step);
			if (!step->depth) {
				search->left = left - 1;
				return swap_found(search, requester);
			}
			WRITE_ONCE(step->task->base.swap.on_way, 0);
			step = &search->step[(step->depth - 1) % SWAP_DEPTH];
		} else {
			entry = step->entry;
			step->entry = entry + 1;
			step->entries--;
			if (swap_entry_valid(entry) && entry->confidence > 0)
				step = swap_look(search, step, entry, cpu, prev);
		}
	}
	search->left = 0;
	count(nr_swap_cut);
	return swap_found(search, requester);
}

#endif
