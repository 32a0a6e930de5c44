/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/detect.h - what does a blocked task wait for, and which task provides it?
 *
 * A task that blocks in a system call waits for a resource. The resource is named by
 * the process, the call and the call's first argument: a descriptor, an identifier, an
 * address. The task that wakes it up has provided the resource. An interrupt that came
 * while some task happened to run provides nothing.
 */
#ifndef SCHEDLAB_SWAP_DETECT_H
#define SCHEDLAB_SWAP_DETECT_H

#include "interrupt.h"
#include "swap/paper.h"

u64 nr_swap_interrupts COUNTS("wakeups by interrupts, which tell nothing about tasks");

/* The resources that calls of process @tgid wait for. Type 0 would be no resource. */
#define SWAP_CALL(call, tgid) SWAP_KIND((call) + 1, tgid)

/*
 * The resource that @p, which blocks in a system call, waits for. A task that waits
 * for children waits for any of them.
 */
static __always_inline void swap_blocking_call(task_t *t, struct task_struct *p, s64 call,
					       struct pt_regs *regs)
{
	struct swap_task __arena *s = &t->base.swap;
	struct swap_key key;

	if (swap_types != ~0u && !swap_call_counts(p, call, regs))
		return;
	if (call == SYS_WAIT4 || call == SYS_WAITID) {
		swap_name(&key, SWAP_CHILD, 0, p->tgid, 0);
		s->what = key.what;
		s->kind = key.kind;
		return;
	}
	s->what = regs->di;
	s->kind = SWAP_CALL(call, p->tgid);
}

/* The current task has forked the process @child: it may come to wait for it. */
static __noinline int swap_forks(task_t *child, s32 tgid)
{
	u64 now = bpf_ktime_get_ns();
	resource_t *resource;
	struct swap_key key;
	struct lock *lock;

	use_arena();
	swap_name(&key, SWAP_CHILD, 0, tgid, 0);
	if (!key.kind)
		return 0;
	lock = swap_lock(swap_bucket(key.kind, key.what));
	if (!lock)
		return 0;
	resource = swap_get(key.kind, key.what, now);
	if (resource)
		swap_list_provider(resource, child);
	unlock(lock);
	return 0;
}

/* @t blocks: if its resource has known providers, it is their requester. */
static __noinline int swap_start_waiting(task_t *t, u64 now)
{
	struct swap_task __arena *s = &t->base.swap;
	resource_t *resource;
	struct lock *lock;

	use_arena();
	lock = swap_lock(swap_bucket(s->kind, s->what));
	if (!lock)
		return 0;
	resource = swap_find(s->kind, s->what);
	if (resource) {
		resource->last_use = now;
		swap_add_request(resource, t);
		WRITE_ONCE(s->waits, 1);
	}
	unlock(lock);
	return 0;
}

/* @t, the current task @p, blocks. */
static __always_inline void swap_blocks(task_t *t, struct task_struct *p, u64 now)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(p);
	s64 call = regs->orig_ax;

	WRITE_ONCE(t->base.swap.kind, 0);
	WRITE_ONCE(t->base.swap.yielded, false);
	if (call < 0 || !swap_enabled || swap_leaves_alone(p))
		return;
	if (call == SYS_IO_URING_ENTER) {
		count(nr_swap_uncovered);
		return;
	}
	if (detect == DETECT_PAPER) {
		swap_wants(t, p, call, regs, now);
		return;
	}
	swap_blocking_call(t, p, call, regs);
	if (t->base.swap.kind)
		swap_start_waiting(t, now);
}

/*
 * A task blocks. Those of real-time classes do not come to ops.quiescent, nor was
 * the task that runs next chosen with them in mind: the CPU picks again.
 */
SEC("tp_btf/sched_switch")
s32 swap_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	bool preempted = ctx[0], blocks = ctx[3];
	s32 cpu = bpf_get_smp_processor_id();
	task_t *t;

	if (preempted || !blocks || prev->prio >= MAX_RT_PRIO)
		return 0;
	t = task_of(prev);
	if (!t)
		return 0;
	swap_blocks(t, prev, bpf_ktime_get_ns());
	if (!t->base.swap.waits || !swap_track_realtime(t))
		return 0;
	t->base.state = TASK_VIRTUAL;
	kick(swap_place(t, cpu), NO_CPU, ENQ_WAKE);
	swap_ready(t, cpu);
	return 0;
}

/* @t wakes up; if it is of a real-time class, no provider stands in for it any more. */
static __always_inline void swap_realtime_wakes(task_t *t)
{
	if (t->base.swap.slot >= SWAP_REALTIME)
		return;
	t->base.state = TASK_NONE;
	swap_forget(t, false);
}

/* The current task wakes up @t, which waits for a resource: so it provides that. */
static __noinline int swap_learn(task_t *t)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct swap_task __arena *s = &t->base.swap;
	resource_t *resource;
	provider_t *entry;
	struct lock *lock;
	task_t *waker;
	u64 now;

	use_arena();
	if (!is_ours(current)) {
		count(nr_swap_outsiders);
		return 0;
	}
	waker = swap_provider_of(current);
	if (!waker || waker == t)
		return 0;
	if (detect == DETECT_PAPER)
		return swap_confirm(t, waker);
	now = bpf_ktime_get_ns();
	lock = swap_lock(swap_bucket(s->kind, s->what));
	if (!lock)
		return 0;
	resource = swap_get(s->kind, s->what, now);
	entry = resource ? swap_list_provider(resource, waker) : NULL;
	if (entry)
		swap_credit(entry, waker);
	unlock(lock);
	return 0;
}

SEC("tp_btf/sched_waking")
s32 swap_waking(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	task_t *t = task_of(p);

	if (!t || !t->base.swap.kind)
		return 0;
	if (waking_context(bpf_get_current_task_btf()) == BY_INTERRUPT)
		count(nr_swap_interrupts);
	else
		swap_learn(t);
	swap_realtime_wakes(t);
	return 0;
}

#endif
