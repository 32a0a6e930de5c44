/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/realtime.h - blocked tasks of the kernel's real-time classes.
 *
 * FIFO and RR tasks are not scheduled by us, but the tasks that they wait for may be.
 * Such a requester is above every task of ours, so that its provider runs before the
 * policy is asked. It is never linked: a short table has it while it is blocked.
 */
#ifndef SCHEDLAB_SWAP_REALTIME_H
#define SCHEDLAB_SWAP_REALTIME_H

#include "swap/search.h"

u64 nr_swap_realtime COUNTS("real-time tasks that blocked with known providers");
u64 nr_swap_untracked COUNTS("real-time tasks that blocked while the table of them was full");
u64 nr_swap_realtime_picks COUNTS("picks in which a provider ran for a real-time task");

/* @t, of a real-time class, blocks in the call that was saved. */
static __always_inline bool swap_track_realtime(task_t *t)
{
	u32 i;

	for (i = zero; i < SWAP_REALTIME && can_loop; i++) {
		hide_value(i);
		if (__sync_val_compare_and_swap(&swap_realtime->task[i], 0, (u64)t))
			continue;
		t->base.swap.slot = i;
		__sync_fetch_and_add(&swap_realtime->nr, 1);
		count(nr_swap_realtime);
		return true;
	}
	count(nr_swap_untracked);
	return false;
}

static __always_inline void swap_untrack_realtime(task_t *t)
{
	u32 slot = t->base.swap.slot;

	debug_expect(slot <= SWAP_REALTIME, TABLE_OVERRUN);
	if (slot >= SWAP_REALTIME)
		return;
	t->base.swap.slot = SWAP_REALTIME;
	WRITE_ONCE(swap_realtime->task[slot], 0);
	__sync_fetch_and_add(&swap_realtime->nr, -1);
}

/* A real-time task in whose place @cpu, which @prev is about to leave, can run a provider. */
static __noinline task_t *swap_pick_realtime(u32 cpu, task_t *prev)
{
	task_t *p;
	u32 i;

	use_arena();
	if (!swap_realtime->nr || !swap_enabled)
		return NULL;
	for (i = zero; i < SWAP_REALTIME && can_loop; i++) {
		hide_value(i);
		p = (task_t *)swap_realtime->task[i];
		if (p && !p->base.swap.barren && swap_search(p, cpu, prev, true)) {
			count(nr_swap_realtime_picks);
			return p;
		}
	}
	return NULL;
}

/* ---- birth and death ---- */

/* @p, which @leaves us or wakes up, waits for nothing any more. Entries lose their validity with a task's id. */
static __always_inline void swap_forget(task_t *p, bool leaves)
{
	WRITE_ONCE(p->base.swap.kind, 0);
	WRITE_ONCE(p->base.swap.waits, 0);
	swap_withdraw(p, leaves);
	swap_untrack_realtime(p);
}

static __always_inline void swap_init_task(task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;
	u32 i;

	WRITE_ONCE(s->kind, 0);
	WRITE_ONCE(s->waits, 0);
	WRITE_ONCE(s->nr_requests, 0);
	WRITE_ONCE(s->entry, NULL);
	WRITE_ONCE(s->used, 0);
	WRITE_ONCE(s->next_owned, 0);
	WRITE_ONCE(s->ran_on, 0);
	WRITE_ONCE(s->cpu, 0);
	WRITE_ONCE(s->slot, SWAP_REALTIME);
	WRITE_ONCE(s->yielded, false);
	WRITE_ONCE(s->seen, 0);
	WRITE_ONCE(s->on_way, 0);
	WRITE_ONCE(s->noted, 0);
	WRITE_ONCE(s->barren, false);
	WRITE_ONCE(s->found_pick, 0);
	for (i = zero; i < SWAP_OWNED && can_loop; i++)
		WRITE_ONCE(*element(s->owned, i), NULL);
}

/* Makes the tables. Not 0: no memory. */
static __always_inline int swap_init(void)
{
	swap_table = (struct swap_table __arena *)bpf_arena_alloc_pages(
		&arena, NULL, PAGES(sizeof(struct swap_table)), NUMA_NO_NODE, 0);
	swap_realtime = (struct swap_realtime __arena *)bpf_arena_alloc_pages(
		&arena, NULL, PAGES(sizeof(struct swap_realtime)), NUMA_NO_NODE, 0);
	return swap_table && swap_realtime ? 0 : -ENOMEM;
}

#endif
