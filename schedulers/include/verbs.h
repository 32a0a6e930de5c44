/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verbs.h - the verbs of a policy: what it has to define, what it may define, and
 * what holds by default.
 *
 * A policy announces an optional verb in its policy.h, by a macro of the verb's own
 * name, as the kernel's architectures announce theirs:
 *
 *   #define select_task_rq select_task_rq
 *
 * Verbs marked [L] run with the lock of @rq held: no helper, no kernel function, and
 * loops by can_loop alone.
 */
#ifndef SCHEDLAB_VERBS_H
#define SCHEDLAB_VERBS_H

#include "policy.h"

/* ---- every policy has these ---- */

/* Sets up queue @rq; @cpu is the CPU it belongs to (0 for the global one). */
static void init_rq(rq_t *rq, u32 cpu);
/* Sets up a task that exists already or is about to be forked; base is valid. */
static void init_task(task_t *p);
/* [L] Links @p. */
static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason);
/* [L] Unlinks @p. */
static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason);
/* [L] Chooses among the tasks with can_run(p, cpu, prev); NULL: none. Stays linked. */
static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev);
/* [L] @p has run for one more tick of the policy. True: reschedule. */
static bool task_tick(rq_t *rq, task_t *p);
/* [L] @p gives the CPU up. True: reschedule. */
static bool yield_task(rq_t *rq, task_t *p);
/* [L] CPU that has to reschedule because @p became ready, NO_CPU or IDLE_CPUS. */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason);
/* [L] Ticks of the policy until @p's slice ends. */
static u32 ticks_left(task_t *p);
/* Length of a tick of the policy, in ns. */
static u64 tick_length(void);

/* ---- optional verbs, and their defaults ---- */

/* [L] Shares the slice of @parent with its new @child. True: reschedule the parent. */
#ifdef task_fork
static bool task_fork(task_t *parent, task_t *child);
#else
static __always_inline bool task_fork(task_t *parent, task_t *child)
{
	return false;
}
#endif

/* [L] @child exits: gives back to @parent what it has left. */
#ifdef task_exit
static void task_exit(task_t *parent, task_t *child);
#else
static __always_inline void task_exit(task_t *parent, task_t *child)
{
}
#endif

/* [L] @p was picked by @cpu and is going to run there (on). */
#ifdef set_next_task
static void set_next_task(rq_t *rq, task_t *p, u32 cpu);
#else
static __always_inline void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
}
#endif

/* [L] The scheduler is entered on @p's CPU, after @p ran for @ran ns. */
#ifdef put_prev_task
static void put_prev_task(rq_t *rq, task_t *p, u64 ran);
#else
static __always_inline void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
}
#endif

/* [L] base.nice changed; @rq is NULL if @p is not linked. True: reschedule its CPU. */
#ifdef prio_changed
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice);
#else
static __always_inline bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	return false;
}
#endif

/* Once per task (POLICY_HOMES: of the queue), under LOCK_TASKS alone. */
#ifdef recalculate_task
static void recalculate_task(task_t *p);
#define WALKS_TASKS true
#else
static __always_inline void recalculate_task(task_t *p)
{
}
#define WALKS_TASKS false
#endif

/* CPU whose queue the waking @p goes to; @this_cpu runs the waker. */
#ifdef select_task_rq
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now);
#define SELECTS_CPU true
#else
static __always_inline s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return prev_cpu;
}
#define SELECTS_CPU false
#endif

/* [L] CPU that @p, which waits and was picked by @cpu, goes to: @cpu, or else it is moved. */
#ifdef picked_cpu
static s32 picked_cpu(task_t *p, u32 cpu);
#define MOVES_PICKED true
#else
static __always_inline s32 picked_cpu(task_t *p, u32 cpu)
{
	return cpu;
}
#define MOVES_PICKED false
#endif

/*
 * @p comes into custody; before any lock is taken. Notes what the policy must
 * know of the kernel's task @k. True: if @p is linked, it must be linked again.
 */
#ifdef read_task
static bool read_task(task_t *p, struct task_struct *k);
#else
static __always_inline bool read_task(task_t *p, struct task_struct *k)
{
	return false;
}
#endif

/* @cpu has nothing to run. True: move_tasks() brought something. */
#ifdef balance_newidle
static bool balance_newidle(u32 cpu, u64 now);
#define BALANCES_IDLE true
#else
static __always_inline bool balance_newidle(u32 cpu, u64 now)
{
	return false;
}
#define BALANCES_IDLE false
#endif

/* Tick on @cpu. May call move_tasks() and kick_idle(). */
#ifdef balance_tick
static void balance_tick(u32 cpu, u64 now);
#else
static __always_inline void balance_tick(u32 cpu, u64 now)
{
}
#endif

/* [L] A task of @src that may move to @cpu, or NULL; @any: however unwise. */
#ifdef pick_movable
static task_t *pick_movable(rq_t *src, u32 cpu, bool any);
#else
static __always_inline task_t *pick_movable(rq_t *src, u32 cpu, bool any)
{
	return NULL;
}
#endif

/* timer.h: at load and whenever it is time; no lock is held. Returns when it is time again, ns. */
#ifdef timer_expired
static u64 timer_expired(u64 now);
#endif

#endif
