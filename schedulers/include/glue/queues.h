/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/queues.h - the run queues, the CPUs, the descriptors of tasks, and their locks.
 */
#ifndef SCHEDLAB_GLUE_QUEUES_H
#define SCHEDLAB_GLUE_QUEUES_H

#include "invariants.h"
#include "verbs.h"

u64 nr_moves COUNTS("tasks moved to another queue");
u64 nr_ticks COUNTS("ticks of the policy charged to tasks");

/* Off: a policy may starve kernel threads, on which the whole machine depends. */
const volatile bool kernel_threads
	SETS("the policy schedules kernel threads too, as in the kernels of the day, instead of letting them run "
		"at once") = false;

u32 nr_cpus = 1;	/* CPU numbers are below this */
static struct rq __arena *rqs;
static struct cpu __arena *cpus;

struct task_slot {
	struct task __arena *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_slot);
} task_slots SEC(".maps");

/* Number of the queue that tasks of @cpu are linked on. */
static __always_inline u32 rq_of(u32 cpu)
{
	return POLICY_GLOBAL_RQ ? 0 : cpu;
}

static __always_inline rq_t *rq_nr(u32 nr)
{
	debug_expect(nr < nr_cpus, BAD_CPU);
	return &rqs[nr];
}

static __always_inline cpu_t *cpu_nr(u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	return &cpus[cpu];
}

/* Descriptor of @p, or NULL. */
static __always_inline task_t *task_of(struct task_struct *p)
{
	struct task_slot *slot;

	use_arena();
	slot = bpf_task_storage_get(&task_slots, p, NULL, 0);
	return slot ? slot->task : NULL;
}

/*
 * Kernel threads are not the policies' business as a rule: behind a strict
 * priority they would starve, and the machine with them.
 */
static __always_inline bool is_ours(struct task_struct *p)
{
	return kernel_threads || !(p->flags & PF_KTHREAD);
}

/* @p is to run on the CPU. A task without an address space borrows what is there. */
static __always_inline void load_mm(cpu_t *c, task_t *p)
{
	if (p->base.mm)
		c->mm = p->base.mm;
}

static __always_inline bool cpu_allowed(task_t *p, u32 cpu)
{
	debug_expect(cpu < MAX_CPUS, BAD_CPU);
	return test_bit(cpu, p->base.allowed);
}

/*
 * The parent of @p, if it is linked on @rq, where @p is about to be, and has an
 * address space of its own; else NULL.
 */
static __always_inline task_t *linked_parent(rq_t *rq, task_t *p)
{
	task_t *parent = p->base.parent;

	if (!parent || parent->base.id != p->base.parent_id || parent->base.mm == p->base.mm)
		return NULL;
	return parent->base.rq == (s32)rq->base.nr ? parent : NULL;
}

/* Locks queue @nr and sets its clock. NULL: no such queue. */
static __always_inline struct lock *lock_rq(u32 nr, u64 now)
{
	struct lock *lock = lock_nr(LOCK_OF_RQ(nr));

	if (lock)
		rq_nr(nr)->base.clock = now;
	return lock;
}

/* Locks the queue that @p is linked on, whose number goes to *@nr. NULL: none. */
static __always_inline struct lock *lock_task_rq(task_t *p, u64 now, u32 *nr)
{
	struct lock *lock;
	s32 rq;

	while (can_loop) {
		rq = READ_ONCE(p->base.rq);
		if (rq == RQ_NONE)
			return NULL;
		if (rq == RQ_MOVING)
			continue;
		lock = lock_rq(rq, now);
		if (!lock)
			return NULL;
		if (READ_ONCE(p->base.rq) == rq) {
			*nr = rq;
			return lock;
		}
		unlock(lock);
	}
	return NULL;
}

#endif
