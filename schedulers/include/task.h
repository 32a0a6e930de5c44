/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * task.h - birth and death: of the scheduler, and of task descriptors.
 * Included by glue.h.
 */
#ifndef SCHEDLAB_TASK_H
#define SCHEDLAB_TASK_H

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
#ifdef POLICY_HOMES
	t->base.home = RQ_NONE;
#endif
	copy_mask(t, p->cpus_ptr);
	swap_init_task(t);
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
#ifdef POLICY_HOMES
	if (is_ours(p))
		set_home(t, rq_of(scx_bpf_task_cpu(p)));
#endif
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

SEC("struct_ops.s/init")
s32 glue_init(u64 *ctx)
{
	u32 cpu, nr_rqs;

	use_arena();
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		static char fmt[] = "made for at most 512 CPUs, this machine has %u";
		u64 args[] = { nr_cpus };

		scx_bpf_error_bstr(fmt, args, sizeof(args));
		return -E2BIG;
	}
	nr_rqs = rq_of(nr_cpus - 1) + 1;
	cpus = (cpu_t *)bpf_arena_alloc_pages(&arena, NULL, PAGES(nr_cpus * sizeof(struct cpu)),
					      NUMA_NO_NODE, 0);
	rqs = (rq_t *)bpf_arena_alloc_pages(&arena, NULL, PAGES(nr_rqs * sizeof(struct rq)),
					    NUMA_NO_NODE, 0);
	all_tasks = (list_t *)bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	if (!cpus || !rqs || !all_tasks || swap_init())
		return -ENOMEM;
	list_init(all_tasks);
	for (cpu = zero; cpu < nr_rqs && can_loop; cpu++) {
		rq_nr(cpu)->base.nr = cpu;
#ifdef POLICY_HOMES
		list_init(&rq_nr(cpu)->base.tasks);
#endif
		init_rq(rq_nr(cpu), cpu);
	}
#ifdef POLICY_HAS_TIMER
	return start_timer();
#else
	return 0;
#endif
}

SEC("struct_ops/exit")
void glue_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];

	bpf_probe_read_kernel_str(uei.reason, sizeof(uei.reason), info->reason);
	bpf_probe_read_kernel_str(uei.msg, sizeof(uei.msg), info->msg);
	uei.exit_code = info->exit_code;
	swap_tell();
	/* the kind says that the record is complete: last */
	__sync_val_compare_and_swap(&uei.kind, uei.kind, info->kind);
}

#endif
