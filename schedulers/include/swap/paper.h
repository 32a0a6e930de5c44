/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/paper.h - the paper's detection: from the arguments of system calls.
 *
 * Who makes a call that can provide a resource is its provider from then on, until
 * it closes, unlocks or destroys it or exits. Who blocks in a call is a requester
 * of what the call needs. Who of the known providers was right shows when one of
 * them wakes up the requester.
 */
#ifndef SCHEDLAB_SWAP_PAPER_H
#define SCHEDLAB_SWAP_PAPER_H

/* Time after which who has not touched a futex is its provider no more, ns; chosen: 10 s. */
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
	provider_t *entry;
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
	/* who was known already has brought them forward when it became ready */
	if (only || !entry->last_use)
		nr_requesters = resource->nr_requesters;
	entry->last_use = now;
	if (!only)
		goto out;
	swap_set_confidence(entry, 2 * resource->confidence);
	for (i = zero; i < resource->nr_providers && i < SWAP_PROVIDERS && can_loop; i++) {
		hide_value(i);
		if (&resource->provider[i] != entry)
			WRITE_ONCE(resource->provider[i].task, NULL);
	}
out:
	unlock(lock);
	return nr_requesters;
}

/* @t may provide @key's resource. If somebody waits for that already, @t may run in its place from now on. */
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
	for (i = zero; i < resource->nr_providers && i < SWAP_PROVIDERS && can_loop; i++) {
		hide_value(i);
		if (resource->provider[i].task != t)
			continue;
		WRITE_ONCE(resource->provider[i].task, NULL);
		count(nr_swap_withdrawn);
	}
	swap_drop_unused(resource);
out:
	unlock(lock);
	return 0;
}

/* Nobody provides @key's resource any more: it is destroyed. */
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

/* Before @requester waits for a futex: forgets those who have long not touched it. */
static __always_inline void swap_forget_idle(resource_t *resource, u64 now)
{
	provider_t *entry;
	u32 i;

	for (i = zero; i < resource->nr_providers && i < SWAP_PROVIDERS && can_loop; i++) {
		hide_value(i);
		entry = &resource->provider[i];
		if ((s64)(now - entry->last_use) > (s64)FUTEX_IDLE_NS)
			WRITE_ONCE(entry->task, NULL);
	}
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

/* The futex is a mutex that hands down priority: its word names the holder, who alone can provide it. */
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

#include "poll.h"

/* @t, the current task @p, blocks in this call: for what? */
static __noinline int swap_wants(task_t *t, struct task_struct *p, s64 call, struct pt_regs *regs,
				 u64 now)
{
	struct swap_key key;
	u32 op;

	use_arena();
	swap_name_wanted(&key, p, call, regs, 0);
	if (!key.kind) {
		if (swap_type_counts(SWAP_POLL))
			swap_watches(t, p, call, regs, now);
		return 0;
	}
	op = FUTEX_CMD(regs->si);
	if (call == SYS_FUTEX && (op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2))
		swap_provide_holder(&key, regs);
	swap_want(t, &key, now);
	swap_name_wanted(&key, p, call, regs, 1);
	if (key.kind)
		swap_want(t, &key, now);
	return 0;
}

/* ---- trace points; attached for this detection only ---- */

/* @t, the current task @p, unlocks, closes or destroys something. */
static __noinline int swap_gives_up(task_t *t, struct task_struct *p, s64 call, struct pt_regs *regs)
{
	struct swap_key key;
	struct file *file;

	use_arena();
	switch (call) {
	case SYS_SEMCTL:
		if (regs->dx != IPC_RMID)
			return 0;
		swap_name(&key, SWAP_SYSV_SEM, 0, 0, regs->di);
		return swap_destroyed(&key);
	case SYS_MSGCTL:
		if (regs->si != IPC_RMID)
			return 0;
		swap_name(&key, SWAP_SYSV_MSG, SIDE_READS, 0, regs->di);
		swap_destroyed(&key);
		swap_name(&key, SWAP_SYSV_MSG, SIDE_WRITES, 0, regs->di);
		return swap_destroyed(&key);
	case SYS_FLOCK:
	case SYS_FCNTL:
		if (lock_action(call, regs) != LOCK_LEAVE)
			return 0;
		swap_name_lock(&key, p, lock_type(call), SIDE_SHARED, regs->di);
		swap_withdraw_provider(t, &key);
		swap_name_lock(&key, p, lock_type(call), SIDE_EXCLUSIVE, regs->di);
		return swap_withdraw_provider(t, &key);
	case SYS_CLOSE:
		file = file_of(p, regs->di);
		if (!file)
			return 0;
		if ((file->f_inode->i_mode & S_IFMT) != S_IFREG || file->f_inode->i_sb->s_magic == MQUEUE_MAGIC) {
			if (file->f_mode & FMODE_READ) {
				swap_name_file(&key, file, false, false);
				swap_withdraw_provider(t, &key);
			}
			if (file->f_mode & FMODE_WRITE) {
				swap_name_file(&key, file, true, false);
				swap_withdraw_provider(t, &key);
			}
			return 0;
		}
		swap_name_lock(&key, p, SWAP_FLOCK, SIDE_SHARED, regs->di);
		swap_withdraw_provider(t, &key);
		swap_name_lock(&key, p, SWAP_FLOCK, SIDE_EXCLUSIVE, regs->di);
		return swap_withdraw_provider(t, &key);
	}
	return 0;
}

/* The current task enters a system call. */
SEC("?tp_btf/sys_enter") LOADED_IF("detect=DETECT_PAPER")
s32 swap_enter_call(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct task_struct *current;
	struct swap_key key;
	s64 call = ctx[1];
	task_t *t;

	if (!swap_enabled)
		return 0;
	current = bpf_get_current_task_btf();
	swap_name_provided(&key, current, call, regs);
	if (key.kind) {
		t = swap_provider_of(current);
		if (t)
			swap_provide(t, &key, false);
		return 0;
	}
	switch (call) {
	case SYS_SEMCTL:
	case SYS_MSGCTL:
	case SYS_FLOCK:
	case SYS_FCNTL:
	case SYS_CLOSE:
		t = task_of(current);
		if (t)
			swap_gives_up(t, current, call, regs);
	}
	return 0;
}

/* The current task returns from a system call: who has waited for a futex now probably holds it. */
SEC("?tp_btf/sys_exit") LOADED_IF("detect=DETECT_PAPER")
s32 swap_leave_call(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct task_struct *current;
	struct swap_key key;
	s64 result = ctx[1];
	task_t *t;

	if (regs->orig_ax != SYS_FUTEX || result || !swap_enabled)
		return 0;
	switch (FUTEX_CMD(regs->si)) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		break;
	default:
		return 0;
	}
	current = bpf_get_current_task_btf();
	t = swap_provider_of(current);
	swap_name_futex(&key, current, regs);
	if (t && key.kind)
		swap_provide(t, &key, false);
	return 0;
}

/*
 * The current task, whose descriptor is @waker, wakes up @t: of the resources that
 * @t waits for, it has provided those of which it is a known provider.
 */
static __noinline int swap_confirm(task_t *t, task_t *waker)
{
	struct swap_task __arena *s = &t->base.swap;
	resource_t *resource;
	struct lock *lock;
	u32 i, j;

	use_arena();
	for (i = zero; i < s->nr_requests && i < SWAP_REQUESTS && can_loop; i++) {
		resource = s->request[i].resource;
		lock = swap_lock(swap_bucket(resource->kind, resource->what));
		if (!lock)
			return 0;
		for (j = zero; j < resource->nr_providers && j < SWAP_PROVIDERS && can_loop; j++) {
			hide_value(j);
			if (resource->provider[j].task != waker || !swap_entry_valid(&resource->provider[j]))
				continue;
			swap_credit(&resource->provider[j], waker);
			break;
		}
		unlock(lock);
	}
	return 0;
}

#endif
