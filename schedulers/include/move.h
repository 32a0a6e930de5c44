/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * move.h - tasks change the queue that they belong to or are linked on.
 * Included by glue.h.
 */
#ifndef SCHEDLAB_MOVE_H
#define SCHEDLAB_MOVE_H

#ifdef POLICY_HOMES
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
		list_del(&p->base.siblings);
		rq_nr(p->base.home)->base.nr_tasks--;
	}
	if (nr != RQ_NONE) {
		list_add_tail(&p->base.siblings, &rq_nr(nr)->base.tasks);
		rq_nr(nr)->base.nr_tasks++;
	}
	p->base.home = nr;
	unlock(lock);
	return 0;
}
#else
static __always_inline void set_home(task_t *p, s32 nr)
{
}
#endif

/*
 * Links @p, which was taken off another queue, on that of CPU @dst. Returns who
 * has to reschedule: that CPU or NO_CPU.
 */
static __always_inline s32 attach_task(task_t *p, u32 dst, u64 now)
{
	struct lock *lock;
	s32 target;

	set_home(p, dst);
	lock = lock_rq(dst, now);
	if (!lock)
		return NO_CPU;
	enqueue_task(rq_nr(dst), p, ENQ_MOVED);
	p->base.rq = dst;
	target = wakeup_preempt(rq_nr(dst), p, dst, ENQ_MOVED);
	unlock(lock);
	return target;
}

#ifdef POLICY_BALANCES
/* Moves one task of @src to the queue of CPU @dst; false if there is none. */
static __always_inline bool move_task(u32 src, u32 dst, u64 now, bool any)
{
	struct lock *lock = lock_rq(src, now);
	task_t *p;

	if (!lock)
		return false;
	p = pick_movable(rq_nr(src), dst, any);
	if (p) {
		dequeue_task(rq_nr(src), p, DEQ_MOVED);
		p->base.rq = RQ_MOVING;
	}
	unlock(lock);
	if (!p)
		return false;
	if (attach_task(p, dst, now) != NO_CPU && !cpu_idle(dst))
		preempt_cpu(dst);
	return true;
}

/*
 * Moves up to @nr waiting tasks from queue @src to that of CPU @dst. @any: those
 * too that the policy thinks are better left where they are. Returns how many. If
 * @dst is not the calling CPU, and idle, the caller has to kick it.
 */
static __noinline u32 move_tasks(u32 src, u32 dst, u64 now, u32 nr, bool any)
{
	u32 moved;

	use_arena();
	for (moved = zero; moved < nr && can_loop; moved++) {
		if (!move_task(src, dst, now, any))
			break;
		count(nr_moves);
	}
	return moved;
}
#endif

#endif
