/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/paper.h - the paper's detection: from the arguments of system calls.
 *
 * A task that makes a call that can provide a resource is its provider from then on,
 * until it closes, unlocks or destroys it or exits. A task that blocks in a call is a
 * requester of what the call needs. The known provider that wakes up the requester was
 * the right one.
 */
#ifndef SCHEDLAB_SWAP_PAPER_H
#define SCHEDLAB_SWAP_PAPER_H

#include "swap/poll.h"
#include "swap/scope.h"

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

/*
 * The current task returns from a system call: if it waited for a futex, it probably
 * holds it now.
 */
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
