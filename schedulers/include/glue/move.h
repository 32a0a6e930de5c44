/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/move.h - waiting tasks change the queue that they are linked on.
 */
#ifndef SCHEDLAB_GLUE_MOVE_H
#define SCHEDLAB_GLUE_MOVE_H

#include "glue/custody.h"

/*
 * Links @p, which was taken off another queue, on that of CPU @dst. Returns the CPU
 * that has to reschedule, or NO_CPU.
 */
static __always_inline s32 attach_task(task_t *p, u32 dst, u64 now)
{
	struct lock *lock;
	s32 target;

	debug_expect(dst < nr_cpus, BAD_CPU);
	expect(p->base.rq == RQ_MOVING, LINKED_TWICE);
	set_home(p, dst);
	lock = lock_rq(dst, now);
	if (!lock)
		return NO_CPU;
	link_on(rq_nr(dst), p, ENQ_MOVED);
	target = preempts(rq_nr(dst), p, dst, ENQ_MOVED);
	unlock(lock);
	return target;
}

/* Moves one task of @src to the queue of CPU @dst; false if there is none. */
static __always_inline bool move_task(u32 src, u32 dst, u64 now, bool any)
{
	struct lock *lock = lock_rq(src, now);
	task_t *p;

	debug_expect(src != dst, BAD_SEARCH);
	if (!lock)
		return false;
	p = pick_movable(rq_nr(src), dst, any);
	if (p)
		unlink_from(rq_nr(src), p, DEQ_MOVED, RQ_MOVING);
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
static __noinline __unused u32 move_tasks(u32 src, u32 dst, u64 now, u32 nr, bool any)
{
	u32 moved;

	use_arena();
	debug_expect(src < nr_cpus && dst < nr_cpus, BAD_CPU);
	for (moved = zero; moved < nr && can_loop; moved++) {
		if (!move_task(src, dst, now, any))
			break;
		count(nr_moves);
	}
	debug_expect(moved <= nr, BAD_SEARCH);
	return moved;
}

#endif
