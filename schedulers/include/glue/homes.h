/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/homes.h - the queue that a task belongs to, also while it sleeps (POLICY_HOMES), and
 * walks over all tasks of a queue or of the machine.
 */
#ifndef SCHEDLAB_GLUE_HOMES_H
#define SCHEDLAB_GLUE_HOMES_H

#include "glue/queues.h"

u64 nr_walks COUNTS("walks over all tasks that a pick asked for");

static struct list_head __arena *all_tasks;

#ifdef POLICY_HOMES

static __always_inline void init_homes(rq_t *rq)
{
	list_init(&rq->base.tasks);
}

/* Makes queue @nr the one that @p belongs to, while it is linked on none; RQ_NONE: it exits. */
static __noinline int set_home(task_t *p, s32 nr)
{
	struct lock *lock;

	use_arena();
	if (p->base.home == nr)
		return 0;
	lock = lock_nr(LOCK_TASKS);
	if (!lock)
		return 0;
	if (p->base.home != RQ_NONE) {
		expect(rq_nr(p->base.home)->base.nr_tasks, NO_HOME);
		list_del(&p->base.siblings);
		rq_nr(p->base.home)->base.nr_tasks--;
	}
	if (nr != RQ_NONE) {
		debug_expect((u32)nr < nr_cpus, BAD_CPU);
		list_add_tail(&p->base.siblings, &rq_nr(nr)->base.tasks);
		rq_nr(nr)->base.nr_tasks++;
	}
	p->base.home = nr;
	unlock(lock);
	return 0;
}

/* @t is new: it belongs to no queue, until it is enqueued or @cpu is given. */
static __always_inline void init_home(task_t *t)
{
	t->base.home = RQ_NONE;
}

#define for_each_home_task(p, pos, nr)                       \
	for (pos = rq_nr(nr)->base.tasks.next;               \
	     pos != &rq_nr(nr)->base.tasks && can_loop &&    \
	     (p = list_entry(pos, struct task, base.siblings), true); pos = pos->next)

#else

#define init_homes(rq)
#define set_home(p, nr)
#define init_home(t)

#define for_each_home_task(p, pos, nr)                       \
	for (pos = all_tasks->next;                          \
	     pos != all_tasks && can_loop &&                 \
	     (p = list_entry(pos, struct task, base.all), true); pos = pos->next)

#endif

/* A pick of queue @nr asked for it: recalculate_task() for all tasks that it concerns. */
static __noinline int recalculate_all(u32 nr)
{
	struct lock *lock;
	list_t *pos;
	task_t *p;

	use_arena();
	if (!WALKS_TASKS)
		return 0;
	count(nr_walks);
	lock = lock_nr(LOCK_TASKS);
	if (!lock)
		return 0;
	for_each_home_task(p, pos, nr)
		recalculate_task(p);
	unlock(lock);
	return 0;
}

#endif
