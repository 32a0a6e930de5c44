/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/task.h - descriptors of tasks: birth, death, and changes of nice, CPU mask and class.
 */
#ifndef SCHEDLAB_GLUE_TASK_H
#define SCHEDLAB_GLUE_TASK_H

#include "glue/custody.h"

static u64 last_id;	/* last task_base::id given out */
static struct task __arena *free_tasks;

/* Copies the words that this kernel's masks have. */
static __always_inline void copy_mask(task_t *t, const struct cpumask *mask)
{
#define COPY_WORD(n)                                                          \
	do {                                                                  \
		if (bpf_core_type_size(struct cpumask) > (n) * sizeof(u64))   \
			WRITE_ONCE(t->base.allowed[n], mask->bits[n]);        \
		else                                                          \
			WRITE_ONCE(t->base.allowed[n], 0);                    \
	} while (0)
	COPY_WORD(0);
	COPY_WORD(1);
	COPY_WORD(2);
	COPY_WORD(3);
	COPY_WORD(4);
	COPY_WORD(5);
	COPY_WORD(6);
	COPY_WORD(7);
#undef COPY_WORD
}

#define TASKS_PER_PAGE (PAGE_SIZE / sizeof(struct task))

/* Takes one more page for descriptors. */
static __noinline int grow_slab(void)
{
	task_t *page = (task_t *)bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	struct lock *lock;
	task_t *t;
	u32 i;

	if (!page)
		return -ENOMEM;
	lock = lock_nr(LOCK_SLAB);
	if (!lock)
		return -ENOMEM;
	for (i = zero; i < TASKS_PER_PAGE && can_loop; i++) {
		t = element(page, i);
		t->base.all.next = (list_t *)free_tasks;
		free_tasks = t;
	}
	unlock(lock);
	return 0;
}

/* A descriptor with undefined content, or NULL if the free list is empty. */
static __always_inline task_t *take_task(void)
{
	struct lock *lock = lock_nr(LOCK_SLAB);
	task_t *t;

	if (!lock)
		return NULL;
	t = free_tasks;
	if (t)
		free_tasks = (task_t *)t->base.all.next;
	unlock(lock);
	return t;
}

static __always_inline void free_task(task_t *t)
{
	struct lock *lock = lock_nr(LOCK_SLAB);

	debug_expect(!t->base.id && t->base.rq == RQ_NONE, LINKED_TWICE);
	if (!lock)
		return;
	t->base.all.next = (list_t *)free_tasks;
	free_tasks = t;
	unlock(lock);
}

/* Puts @t on the list of all tasks, or takes it off. */
static __always_inline void list_task(task_t *t, bool exists)
{
	struct lock *lock = lock_nr(LOCK_TASKS);

	if (!lock)
		return;
	if (exists)
		list_add_tail(&t->base.all, all_tasks);
	else
		list_del(&t->base.all);
	unlock(lock);
}

static __always_inline void init_base(task_t *t, struct task_struct *p, bool fork)
{
	t->base.id = __sync_fetch_and_add(&last_id, 1) + 1;
	t->base.pid = p->pid;
	t->base.mm = (u64)p->mm;
	t->base.nice = p->static_prio - NICE_TO_STATIC_PRIO(0);
	t->base.rq = RQ_NONE;
	t->base.waker_cpu = -1;
	t->base.fresh = fork;
	t->base.charged = p->se.sum_exec_runtime;
	WRITE_ONCE(t->base.parent, NULL);
	WRITE_ONCE(t->base.parent_id, 0);
	WRITE_ONCE(t->base.ran, 0);
	WRITE_ONCE(t->base.partial, 0);
	WRITE_ONCE(t->base.state, TASK_NONE);
	WRITE_ONCE(t->base.over, false);
	WRITE_ONCE(t->base.uninterruptible, false);
	init_home(t);
	rescue_init_task(t);
	copy_mask(t, p->cpus_ptr);
	swap_init_task(t);
	debug_expect(t->base.nice >= -20 && t->base.nice <= 19, BAD_NICE);
}

/* The running task forks @t, as a @thread of its process or another process. */
static __noinline int fork_task(task_t *t, bool thread)
{
	struct task_struct *p = bpf_get_current_task_btf();
	task_t *parent = task_of(p);
	struct lock *lock;
	bool resched;
	u32 nr = 0;

	if (!parent)
		return 0;
	if (!thread)
		swap_forks(t, p->tgid);
	t->base.parent = parent;
	debug_expect(parent != t, BAD_STATE);
	t->base.parent_id = parent->base.id;
	lock = lock_task_rq(parent, bpf_ktime_get_ns(), &nr);
	if (!lock)
		return 0;
	resched = task_fork(parent, t);
	unlock(lock);
	if (resched)
		preempt_cpu(scx_bpf_task_cpu(p));
	return 0;
}

SEC("struct_ops.s/init_task")
s32 glue_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct scx_init_task_args *args = (void *)ctx[1];
	struct task_slot *slot;
	bool fork = args->fork;
	task_t *t;

	use_arena();
	slot = bpf_task_storage_get(&task_slots, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!slot)
		return -ENOMEM;
	t = take_task();
	if (!t) {
		if (grow_slab())
			return -ENOMEM;
		t = take_task();
		if (!t)
			return -ENOMEM;
	}
	init_base(t, p, fork);
	init_task(t);
	if (fork)
		fork_task(t, p->tgid != p->pid);
	list_task(t, true);
	if (is_ours(p))
		set_home(t, rq_of(scx_bpf_task_cpu(p)));
	slot->task = t;
	return 0;
}

/* @t exits; its parent is rewarded if it still exists. */
static __noinline int reward_parent(task_t *t)
{
	task_t *parent = t->base.parent;
	struct lock *lock;
	u32 nr = 0;

	use_arena();
	if (!parent || parent->base.id != t->base.parent_id)
		return 0;
	lock = lock_task_rq(parent, bpf_ktime_get_ns(), &nr);
	task_exit(parent, t);
	if (lock)
		unlock(lock);
	return 0;
}

SEC("struct_ops/exit_task")
void glue_exit_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct task_slot *slot;
	task_t *t;

	use_arena();
	slot = bpf_task_storage_get(&task_slots, p, NULL, 0);
	if (!slot)
		return;
	t = slot->task;
	if (!t)
		return;
	slot->task = NULL;
	swap_forget(t, true);
	unlink_task(t, bpf_ktime_get_ns(), DEQ_EXIT);
	reward_parent(t);
	set_home(t, RQ_NONE);
	list_task(t, false);
	WRITE_ONCE(t->base.id, 0);
	free_task(t);
}

/* ---- changes of nice, CPU mask, class ---- */

SEC("struct_ops/set_weight")
void glue_set_weight(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 nice = p->static_prio - NICE_TO_STATIC_PRIO(0), old;
	task_t *t = task_of(p);
	struct lock *lock;
	bool resched;
	u32 nr = 0;

	if (!t || t->base.nice == nice)
		return;
	lock = lock_task_rq(t, bpf_ktime_get_ns(), &nr);
	old = t->base.nice;
	debug_expect(nice >= -20 && nice <= 19, BAD_NICE);
	t->base.nice = nice;
	if (!lock) {
		prio_changed(NULL, t, old);
		return;
	}
	resched = prio_changed(rq_nr(nr), t, old);
	unlock(lock);
	if (resched)
		preempt_cpu(scx_bpf_task_cpu(p));
}

SEC("struct_ops/set_cpumask")
void glue_set_cpumask(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	const struct cpumask *mask = (void *)ctx[1];
	task_t *t = task_of(p);

	if (t)
		copy_mask(t, mask);
}

/* @p leaves for another class. */
SEC("struct_ops/disable")
void glue_disable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	task_t *t = task_of(p);

	if (!t)
		return;
	swap_forget(t, true);
	unlink_task(t, bpf_ktime_get_ns(), DEQ_EXIT);
	t->base.state = TASK_NONE;
}

#endif
