/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * starving.h - whoever has waited for too long goes first.
 *
 * Tasks that wake each other up all the time may keep their priorities for good,
 * and the others from ever running. A policy looks for these once in a while, as
 * the kernel unloads a scheduler under which a task waits for too long.
 *
 * Included by policies with priority queues, after starvation_max_ns. Used of the
 * policy:
 *
 *   struct rq        next_look, ns
 *   waiting_since()  since when a ready task waits, ns
 *   put_first()      gives a queued task a rank before all others, for a short turn
 */
#ifndef SCHEDLAB_STARVING_H
#define SCHEDLAB_STARVING_H

/* Looks in starvation_max_ns; chosen. */
#define STARVATION_LOOKS 8

/* Is it time for the next look? */
static __always_inline bool look_is_due(rq_t *rq)
{
	if (rq->base.clock < rq->next_look)
		return false;
	rq->next_look = rq->base.clock + starvation_max_ns / STARVATION_LOOKS;
	return true;
}

/* True: there are some in @queue, in lists from @prio on, and they are first now. */
static __noinline bool relieve_starving(rq_t *rq, prio_queue_t *queue, u32 prio)
{
	u64 now = rq->base.clock;
	list_t *pos, *next, *head;
	bool found = false;
	task_t *p;
	s64 waited;

	use_arena();
	for (prio = prio_queue_next(queue, prio); prio < NR_PRIO && can_loop;
	     prio = prio_queue_next(queue, prio + 1)) {
		head = &queue->list[prio];
		for (pos = head->next; pos != head && can_loop; pos = next) {
			next = pos->next;
			p = linked_task(pos);
			/* which may be by another queue's clock */
			waited = now - waiting_since(p);
			if (p->base.state != TASK_READY || waited < (s64)starvation_max_ns)
				continue;
			put_first(rq, p);
			found = true;
		}
	}
	return found;
}

#endif
