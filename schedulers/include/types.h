/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * types.h - what the glue and a policy share: descriptors of tasks, queues and CPUs.
 *
 * Each policy has a file policy.h in its folder. It includes this header, defines
 * `struct task` and `struct rq` (first members `struct task_base base` and
 * `struct rq_base base`) and announces its optional verbs (verbs.h). Every layer
 * includes policy.h by itself, so a policy includes layers in any order.
 *
 * Switches that policy.h defines before it includes this header:
 *
 *   POLICY_GLOBAL_RQ true     one run queue for all CPUs, instead of one per CPU
 *   POLICY_PUSHES true        wakeup_preempt() is also asked for a preempted task
 *   POLICY_SELECTS_FORK true  select_task_rq() is also asked for a new task
 *   POLICY_HOMES              each task belongs to a queue, also while it sleeps
 *   POLICY_ONE_LOCK           one lock for all queues and for the list of all tasks
 */
#ifndef SCHEDLAB_TYPES_H
#define SCHEDLAB_TYPES_H

#include "base.h"

#ifdef SWAP
#include "swap/types.h"
#endif

#ifndef POLICY_GLOBAL_RQ
#define POLICY_GLOBAL_RQ false
#endif

#ifndef POLICY_PUSHES
#define POLICY_PUSHES false
#endif

#ifndef POLICY_SELECTS_FORK
#define POLICY_SELECTS_FORK false
#endif

#ifdef POLICY_ONE_LOCK
#undef LOCK_TASKS
#define LOCK_TASKS 0
#define LOCK_OF_RQ(nr) LOCK_TASKS
#else
#define LOCK_OF_RQ(nr) (nr)
#endif

typedef struct task __arena task_t;
typedef struct rq __arena rq_t;
typedef struct cpu __arena cpu_t;

/* task_base::rq when it is no queue's number */
#define RQ_NONE (-1)	/* not linked */
#define RQ_MOVING (-2)	/* between two queues: wait */

/*
 * A task is linked on a run queue from its wakeup until it blocks, also while
 * it runs, as in the kernels that the policies come from. Its state says more:
 */
enum task_state {
	TASK_NONE,	/* not ours to dispatch: blocked, or with the kernel */
	TASK_READY,	/* in our custody, may be picked */
	TASK_PICKED,	/* picked, on its way to the kernel */
	TASK_RUNNING,	/* on a CPU */
	TASK_STOPPED,	/* taken off its CPU while runnable; ops.enqueue follows */
	TASK_VIRTUAL,	/* SWAP: blocked but linked; a provider may run in its place */
};

/*
 * The glue's part of a task's descriptor. ops.init_task writes all of it; else the
 * letter of a member says which code may write it:
 *   K  callbacks that hold the kernel's run queue lock of this task
 *   Q  code that holds the lock of the queue that the task is linked on
 *   T  holders of LOCK_TASKS
 *   S  holders of LOCK_SLAB
 */
struct task_base {
	u64 allowed[MASK_WORDS];	/* K: copy of its CPU mask */
	struct list_head all;		/* T: list of all tasks; S: free list (next) */
	struct list_head run_list;	/* Q: the policy's link on its queue */
	struct list_head waiting;	/* Q: link of rq_base::waiting */
	u64 waiting_since;		/* Q: ns, when it was queued or put */
	task_t *parent;			/* the task that forked it; valid while parent_id matches */
	u64 parent_id;
	u64 id;				/* unique over all tasks, 0: descriptor is free */
	u64 mm;				/* K: address space, compared and nothing else */
	u64 charged;			/* K: sum_exec_runtime up to which it is charged */
	u64 ran;			/* Q: ns since it was last put by put_prev_task() */
	s64 partial;			/* Q: ns of the policy's tick not yet counted */
	s32 rq;				/* K or Q: queue it is linked on, RQ_NONE, RQ_MOVING */
	s32 pid;			/* K */
	s32 nice;			/* K: -20..19 */
	s32 waker_cpu;			/* K: CPU of a synchronous waker, else -1 */
	u32 state;			/* K, and READY to PICKED by Q */
	bool over;			/* Q: kicked to reschedule, not put since */
	bool rescued;			/* Q: was picked because it had waited too long, not put since */
	bool fresh;			/* K: has never been enqueued */
	bool uninterruptible;		/* K: how it sleeps or slept last */
#ifdef POLICY_HOMES
	s32 home;			/* T: queue that it belongs to, RQ_NONE: none */
	struct list_head siblings;	/* T: tasks of the same home */
#endif
#ifdef SWAP
	struct swap_task swap;
#endif
};

/* The glue's part of a run queue. Under the queue's lock but T. */
struct rq_base {
	u64 clock;			/* ns, set when the lock is taken */
	u32 nr;				/* number of this queue */
	bool walk_tasks;		/* pick_next_task() wants recalculate_task() called */
	struct list_head waiting;	/* all linked tasks, by waiting_since (rescue.h) */
#ifdef POLICY_HOMES
	u32 nr_tasks;			/* T: tasks whose home it is */
	struct list_head tasks;		/* T: these */
#endif
};

/*
 * What the policies see of a CPU. curr and exec change under the lock of the
 * CPU's queue in ops.dispatch, and in that CPU's running and stopping.
 *
 * The rank of the CPU is that of curr, the run time is exec's. The two are one task
 * but in two cases. A task that is none of ours has interrupted curr (then exec is
 * NULL), or SWAP runs a provider in place of the blocked curr.
 */
struct cpu {
	task_t *curr;			/* whose priority counts; NULL: no task of ours */
	task_t *exec;			/* the task that runs */
	u64 idle_since;			/* ns, 0 if it is not idle */
	u64 mm;				/* address space of the last task of ours */
	u64 sampled;			/* ns, when tick sampling last looked */
	task_t *interrupted;		/* lost the CPU to a task that is none of ours */
	bool resched;			/* kicked to preempt, has not picked since */
	u64 pad;
#ifdef SWAP
	task_t *stale[SWAP_STALE];	/* virtual runnable tasks for which the pick found no provider */
	u32 nr_stale;
	task_t *served[SWAP_SERVED];	/* blocked tasks in whose place a task that became ready can run */
	u32 nr_served;
	s32 choose_again;		/* CPU that runs a provider in place of a task that is not parked */
	struct swap_search search;
#endif
};

/* The link of @p, and the task of a link: struct task begins with its base. */
#define run_list(p) (&((struct task_base __arena *)(p))->run_list)
#define linked_task(link) ((task_t *)list_entry(link, struct task_base, run_list))

/* Why enqueue_task() or wakeup_preempt() is called; one of these. */
enum enqueue_reason {
	ENQ_WAKE,	/* woke up */
	ENQ_NEW,	/* was forked and runs for the first time */
	ENQ_PREEMPTED,	/* was running; is linked already (POLICY_PUSHES) */
	ENQ_MOVED,	/* comes from another queue */
	ENQ_JOINED,	/* comes from another scheduling class */
};

/*
 * Why dequeue_task() is called. A task whose nice or CPU mask is changed stays
 * linked, so it is "saved" and goes back where it was without any call.
 */
enum dequeue_reason {
	DEQ_SLEEP,	/* blocks */
	DEQ_MOVED,	/* goes to another queue */
	DEQ_EXIT,	/* exits or leaves for another scheduling class */
};

/* wakeup_preempt(): no CPU has to reschedule; every idle CPU is to look for work */
#define NO_CPU (-1)
#define IDLE_CPUS (-2)

/* May @cpu, which @prev is about to leave, run @p now? */
static __always_inline bool can_run(task_t *p, u32 cpu, task_t *prev);

/* May the waiting task @p move to @cpu? */
static __always_inline bool can_move(task_t *p, u32 cpu);

#endif
