/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/search.h - who runs in place of a blocked task?
 *
 * The requester's providers that can run are candidates, valued by the
 * confidence in them. A provider that is blocked itself leads to its own
 * providers: the value of such a way is the product of the confidences on it,
 * divided by C for every provider after the first. The greatest value wins, of
 * equal ones the entry that is first in its list.
 */
#ifndef SCHEDLAB_SWAP_SEARCH_H
#define SCHEDLAB_SWAP_SEARCH_H

/*
 * Entries that all searches of one pick look at together, at most; chosen: a full list of
 * providers and half of another. In a crowd whose members all may provide for each other
 * (VolanoMark without hogs) every pick runs into the limit, and that costs 5 % of the throughput,
 * with 128 entries 8, found by system calls 10 and 22 %.
 */
#define SWAP_SEARCH_LIMIT 32

u64 nr_swap_cut COUNTS("searches given up because too many providers were in question");

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
}

/* Is @p one of the requesters on the way to the step at work? */
static __always_inline bool swap_on_way(struct swap_search __arena *search, task_t *p)
{
	u32 i;

	for (i = zero; i <= search->depth && i < SWAP_DEPTH && can_loop; i++) {
		hide_value(i);
		if (search->step[i].task == p)
			return true;
	}
	return false;
}

/* Enters the requester @p as step @depth. */
static __always_inline void swap_enter(struct swap_search __arena *search, u32 depth, task_t *p,
				       u64 product, u64 scale, u32 order)
{
	struct swap_step __arena *step;

	hide_value(depth);
	step = &search->step[depth % SWAP_DEPTH];
	step->task = p;
	step->product = product;
	step->scale = scale;
	step->order = order;
	step->depth = depth;
	WRITE_ONCE(step->request, 0);
	WRITE_ONCE(step->provider, 0);
	search->depth = depth;
}

/* The next entry to look at in @step, or NULL if all were. */
static __always_inline provider_t *swap_next_entry(struct swap_step __arena *step)
{
	struct swap_task __arena *s = &step->task->base.swap;
	resource_t *resource;
	u32 provider;

	while (step->request < s->nr_requests && step->request < SWAP_REQUESTS && can_loop) {
		resource = s->request[step->request].resource;
		provider = step->provider++;
		if (provider < resource->nr_providers && provider < SWAP_PROVIDERS)
			return &resource->provider[provider];
		step->request++;
		WRITE_ONCE(step->provider, 0);
	}
	return NULL;
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

/*
 * Goes on to the providers of the blocked @p; but not again by a way that is worth no more, nor if it is known that there is
 * nobody behind it. Where many wait for many there are more ways than can be looked at.
 */
static __always_inline void swap_descend(struct swap_search __arena *search,
					 struct swap_step __arena *step, task_t *p, u64 product,
					 u64 scale, u32 order)
{
	struct swap_task __arena *s = &p->base.swap;
	u64 value = product / scale;

	if (s->barren == search->pick || (s->seen == search->serial && value <= s->value))
		return;
	s->seen = search->serial;
	s->value = value;
	swap_enter(search, step->depth + 1, p, product, scale, order);
}

/*
 * Looks at one entry of @step, and goes on to the task's own providers if it is
 * blocked itself. A leaf's value is computed in one division, so that nothing is
 * lost on the way.
 */
static __always_inline void swap_look(struct swap_search __arena *search,
				      struct swap_step __arena *step, provider_t *entry, u32 cpu,
				      task_t *prev)
{
	u64 product = step->product * entry->confidence, scale = 1, value;
	u32 order = step->depth ? step->order : entry->order;
	task_t *p = entry->task;

	if (swap_on_way(search, p)) {
		search->cyclic = true;
		return;
	}
	if (step->depth)
		scale = step->scale * entry->resource->confidence;
	if (p == prev || (p->base.state == TASK_READY && cpu_allowed(p, cpu))) {
		if (p->base.swap.yielded)
			return;
		value = product / scale;
		if (!swap_better(search, entry, value, order))
			return;
		search->task = p;
		search->entry = entry;
		search->value = value;
		search->first_order = order;
		search->order = entry->order;
	} else if (p->base.state == TASK_READY) {
		if (!search->elsewhere)
			search->elsewhere = p;
	} else if (p->base.swap.waits && step->depth + 1 < SWAP_DEPTH) {
		swap_descend(search, step, p, product, scale, order);
	}
}

/* The search for @requester is over: remembers who was found, until the pick ends. */
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
 * Finds who runs in place of @requester on @cpu, the calling one, which @prev is
 * about to leave. The result is kept with the requester; false: nobody can here.
 */
static __noinline bool swap_search(task_t *requester, u32 cpu, task_t *prev)
{
	struct swap_search __arena *search;
	struct swap_step __arena *step;
	provider_t *entry;

	use_arena();
	search = &cpu_nr(cpu)->search;
	search->serial = swap_next_number(search->serial, cpu);
	WRITE_ONCE(search->cyclic, false);
	WRITE_ONCE(search->task, NULL);
	WRITE_ONCE(search->elsewhere, NULL);
	WRITE_ONCE(search->value, 0);
	swap_enter(search, 0, requester, 1, 1, 0);
	while (search->left && can_loop) {
		search->left--;
		step = &search->step[search->depth % SWAP_DEPTH];
		entry = swap_next_entry(step);
		if (entry) {
			if (swap_entry_valid(entry) && entry->confidence > 0)
				swap_look(search, step, entry, cpu, prev);
		} else {
			if (!search->task && !search->elsewhere && !search->cyclic)
				step->task->base.swap.barren = search->pick;
			if (!step->depth)
				return swap_found(search, requester);
			search->depth = step->depth - 1;
		}
	}
	count(nr_swap_cut);
	return swap_found(search, requester);
}

#endif
