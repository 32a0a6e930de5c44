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
 * Entries that one search looks at, at most; chosen: three full lists of providers. In a
 * crowd whose members all may provide for each other (VolanoMark) every search runs into
 * the limit, and 256 cost a quarter of the throughput.
 */
#define SWAP_SEARCH_LIMIT 64

u64 nr_swap_cut COUNTS("searches given up because too many providers were in question");

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

	if (swap_on_way(search, p))
		return;
	if (step->depth)
		scale = step->scale * entry->resource->confidence;
	if (p == prev || (p->base.state == TASK_READY && cpu_allowed(p, cpu))) {
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
		swap_enter(search, step->depth + 1, p, product, scale, order);
	}
}

/*
 * Finds who runs in place of @requester on @cpu, the calling one, which @prev is
 * about to leave. The result is in the CPU's search; false: nobody can here.
 */
static __noinline bool swap_search(task_t *requester, u32 cpu, task_t *prev)
{
	struct swap_search __arena *search;
	struct swap_step __arena *step;
	provider_t *entry;
	u32 looks;

	use_arena();
	search = &cpu_nr(cpu)->search;
	search->requester = requester;
	WRITE_ONCE(search->task, NULL);
	WRITE_ONCE(search->elsewhere, NULL);
	WRITE_ONCE(search->value, 0);
	swap_enter(search, 0, requester, 1, 1, 0);
	for (looks = zero; looks < SWAP_SEARCH_LIMIT && can_loop; looks++) {
		step = &search->step[search->depth % SWAP_DEPTH];
		entry = swap_next_entry(step);
		if (entry) {
			if (swap_entry_valid(entry) && entry->confidence > 0)
				swap_look(search, step, entry, cpu, prev);
		} else if (step->depth) {
			search->depth = step->depth - 1;
		} else {
			return search->task;
		}
	}
	count(nr_swap_cut);
	return search->task;
}

#endif
