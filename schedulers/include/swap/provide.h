/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/provide.h - the paper's detection: a task becomes a provider of a resource,
 * ceases to be one, or waits for one.
 */
#ifndef SCHEDLAB_SWAP_PROVIDE_H
#define SCHEDLAB_SWAP_PROVIDE_H

#include "swap/virtual.h"

/*
 * Time after which a task that has not touched a futex is its provider no more, ns;
 * chosen: 10 s.
 */
#define FUTEX_IDLE_NS (10 * SEC_NS)

u64 nr_swap_withdrawn COUNTS("providers that closed, unlocked or destroyed what they provided");

/* ---- providers ---- */

/* The entry of @t for this resource, if it is one of those that it remembers. */
static __always_inline provider_t *swap_owned(task_t *t, struct swap_key *key)
{
	provider_t *entry;
	u32 i;

	for (i = zero; i < SWAP_OWNED && can_loop; i++) {
		hide_value(i);
		entry = t->base.swap.owned[i];
		if (!entry)
			return NULL;
		if (entry->task == t && entry->id == t->base.id &&
		    entry->resource->what == key->what && entry->resource->kind == key->kind)
			return entry;
	}
	return NULL;
}

/*
 * Lists @t as provider of @key's resource, or the @only one, of which it is certain. How many wait for it that do not
 * know @t yet.
 */
static __noinline int swap_enlist(task_t *t, struct swap_key *key, bool only)
{
	u64 now = bpf_ktime_get_ns();
	u32 i, nr_requesters = 0;
	resource_t *resource;
	provider_t *entry, *other;
	struct lock *lock;

	use_arena();
	lock = swap_lock(swap_bucket(key->kind, key->what));
	if (!lock)
		return 0;
	resource = swap_get(key->kind, key->what, now);
	if (!resource)
		goto out;
	entry = swap_list_provider(resource, t);
	if (!entry)
		goto out;
	/* a provider that was known has brought them forward when it became ready */
	if (only || !entry->last_use)
		nr_requesters = resource->nr_requesters;
	entry->last_use = now;
	if (!only)
		goto out;
	swap_set_confidence(entry, 2 * resource->confidence);
	for_each_provider(other, i, resource)
		if (other != entry)
			WRITE_ONCE(other->task, NULL);
out:
	unlock(lock);
	return nr_requesters;
}

/*
 * @t may provide @key's resource. If a task waits for that already, @t may run in its
 * place from now on.
 */
static __always_inline void swap_provide(task_t *t, struct swap_key *key, bool only)
{
	provider_t *entry = swap_owned(t, key);

	use_arena();
	if (entry && !only) {
		if (swap_type_of(key->kind) == SWAP_FUTEX)
			entry->last_use = bpf_ktime_get_ns();
		return;
	}
	if (swap_enlist(t, key, only))
		swap_ready(t, bpf_get_smp_processor_id());
}

/* @t does not provide @key's resource any more. */
static __noinline int swap_withdraw_provider(task_t *t, struct swap_key *key)
{
	resource_t *resource;
	provider_t *entry;
	struct lock *lock;
	u32 i;

	use_arena();
	if (!key->kind)
		return 0;
	lock = swap_lock(swap_bucket(key->kind, key->what));
	if (!lock)
		return 0;
	resource = swap_find(key->kind, key->what);
	if (!resource)
		goto out;
	for_each_provider(entry, i, resource) {
		if (entry->task != t)
			continue;
		WRITE_ONCE(entry->task, NULL);
		count(nr_swap_withdrawn);
	}
	swap_drop_unused(resource);
out:
	unlock(lock);
	return 0;
}

/* No task provides @key's resource any more: it is destroyed. */
static __noinline int swap_destroyed(struct swap_key *key)
{
	resource_t *resource;
	struct lock *lock;

	use_arena();
	if (!key->kind)
		return 0;
	lock = swap_lock(swap_bucket(key->kind, key->what));
	if (!lock)
		return 0;
	resource = swap_find(key->kind, key->what);
	if (resource) {
		count(nr_swap_withdrawn);
		WRITE_ONCE(resource->nr_providers, 0);
		swap_drop_unused(resource);
	}
	unlock(lock);
	return 0;
}

/* Before @requester waits for a futex: forgets the providers that have long not touched it. */
static __always_inline void swap_forget_idle(resource_t *resource, u64 now)
{
	provider_t *entry;
	u32 i;

	for_each_provider(entry, i, resource)
		if ((s64)(now - entry->last_use) > (s64)FUTEX_IDLE_NS)
			WRITE_ONCE(entry->task, NULL);
}

/* @t waits for @key's resource too. */
static __noinline int swap_want(task_t *t, struct swap_key *key, u64 now)
{
	resource_t *resource;
	struct lock *lock;

	use_arena();
	lock = swap_lock(swap_bucket(key->kind, key->what));
	if (!lock)
		return 0;
	resource = swap_get(key->kind, key->what, now);
	if (resource) {
		if (swap_type_of(key->kind) == SWAP_FUTEX)
			swap_forget_idle(resource, now);
		swap_add_request(resource, t);
		t->base.swap.kind = key->kind;
		t->base.swap.what = key->what;
		WRITE_ONCE(t->base.swap.waits, 1);
	}
	unlock(lock);
	return 0;
}

/*
 * The futex is a mutex that hands down priority: its word names the holder, which
 * alone can provide it.
 */
static __noinline int swap_provide_holder(struct swap_key *key, struct pt_regs *regs)
{
	struct task_struct *p;
	task_t *holder;
	u32 word = 0;

	use_arena();
	if (bpf_probe_read_user(&word, sizeof(word), (void *)regs->di) || !(word & FUTEX_TID_MASK))
		return 0;
	p = bpf_task_from_pid(word & FUTEX_TID_MASK);
	if (!p)
		return 0;
	holder = task_of(p);
	if (holder && is_ours(p))
		swap_enlist(holder, key, true);
	bpf_task_release(p);
	return 0;
}

#endif
