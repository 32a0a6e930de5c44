/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prio_queue.h - tasks in one list per priority, with a bitmap of the lists in
 * use. Adding, removing and finding the best look at one task and at most
 * NR_PRIO / 64 words, however many tasks there are.
 *
 * A policy.h defines NR_PRIO, the number of lists (0 is the best), and then includes
 * this header. The policy remembers for each task which queue and list it is on.
 */
#ifndef SCHEDLAB_PRIO_QUEUE_H
#define SCHEDLAB_PRIO_QUEUE_H

#include "invariants.h"
#include "types.h"

#ifndef NR_PRIO
#error "prio_queue.h: define NR_PRIO, the number of lists, before including it"
#endif

struct prio_queue {
	u32 nr_queued;			/* tasks on all lists */
	u64 bitmap[BITMAP_WORDS(NR_PRIO)];
	struct list_head list[NR_PRIO];
};

typedef struct prio_queue __arena prio_queue_t;

static __always_inline void prio_queue_init(prio_queue_t *queue)
{
	u32 i;

	for (i = zero; i < NR_PRIO && can_loop; i++)
		list_init(element(queue->list, i));
}

/* To the tail of list @prio. */
static __always_inline void prio_queue_add_tail(prio_queue_t *queue, task_t *p, u32 prio)
{
	debug_expect(prio < NR_PRIO, BAD_PRIORITY);
	list_add_tail(run_list(p), &queue->list[prio]);
	set_bit(prio, queue->bitmap);
	queue->nr_queued++;
}

/* To the head of list @prio. */
static __always_inline void prio_queue_add_head(prio_queue_t *queue, task_t *p, u32 prio)
{
	debug_expect(prio < NR_PRIO, BAD_PRIORITY);
	list_add(run_list(p), &queue->list[prio]);
	set_bit(prio, queue->bitmap);
	queue->nr_queued++;
}

/* Before @next, on its list. */
static __always_inline void prio_queue_add_before(prio_queue_t *queue, task_t *p, task_t *next)
{
	debug_expect(queue->nr_queued, LOAD_BELOW_ZERO);
	list_add_tail(run_list(p), run_list(next));
	queue->nr_queued++;
}

/* Removes @p from list @prio, where it must be. */
static __always_inline void prio_queue_del(prio_queue_t *queue, task_t *p, u32 prio)
{
	debug_expect(queue->nr_queued, LOAD_BELOW_ZERO);
	debug_expect(prio < NR_PRIO && test_bit(prio, queue->bitmap), NOT_ON_ARRAY);
	queue->nr_queued--;
	list_del(run_list(p));
	if (list_empty(&queue->list[prio]))
		clear_bit(prio, queue->bitmap);
}

/* The best list in use at or after @prio, NR_PRIO: there is none. */
static __always_inline u32 prio_queue_next(prio_queue_t *queue, u32 prio)
{
	return find_next_bit(queue->bitmap, NR_PRIO, prio);
}

/* Each list in use, the best first. */
#define prio_queue_for_each(prio, queue)                                         \
	for (prio = prio_queue_next(queue, 0); prio < NR_PRIO && can_loop;       \
	     prio = prio_queue_next(queue, prio + 1))

/*
 * The best task that @cpu, which @prev is about to leave, can run; NULL: none.
 * All but a few queued tasks can be: the exceptions are those that run, those
 * that the kernel holds for a moment, and those bound to other CPUs.
 */
static __always_inline task_t *prio_queue_first(prio_queue_t *queue, u32 cpu, task_t *prev)
{
	list_t *head, *pos;
	task_t *p;
	u32 prio;

	prio_queue_for_each(prio, queue) {
		head = element(queue->list, prio);
		debug_expect(!list_empty(head), NOT_ON_ARRAY);
		list_for_each(pos, head) {
			p = linked_task(pos);
			if (can_run(p, cpu, prev))
				return p;
		}
	}
	return NULL;
}

#endif
