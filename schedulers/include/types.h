/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * types.h - what the glue and a policy share: descriptors, flags, verbs.
 *
 * A policy file includes this header, defines `struct task` and `struct rq`
 * (first members `struct task_base base` and `struct rq_base base`), includes
 * glue.h, defines the verbs declared at the end of this file and closes with
 * SCHED_OPS(name). Switches, defined before glue.h is included:
 *
 *   POLICY_GLOBAL_RQ    one run queue for all CPUs instead of one per CPU
 *   POLICY_PUSHES       wakeup_preempt() is also asked for a preempted task
 *   POLICY_WALKS_TASKS  recalculate_task() exists
 *   POLICY_SELECTS_CPU  select_task_rq() exists
 *   POLICY_SELECTS_FORK it is also asked for a new task
 *   POLICY_BALANCES     balance_tick(), balance_newidle(), pick_movable() exist
 *   POLICY_BALANCES_IDLE   of these balance_newidle() alone exists
 *   POLICY_HOMES        each task belongs to a queue, asleep too; a pick that wants
 *                       recalculate_task() called wants it for those of its queue
 *   POLICY_MOVES_PICKED picked_cpu() exists
 *   POLICY_READS_TASK   read_task() exists
 *   POLICY_HAS_TIMER    timer_expired() exists
 *   POLICY_ONE_LOCK     one lock for all queues and the list of all tasks
 */
#ifndef SCHEDLAB_TYPES_H
#define SCHEDLAB_TYPES_H

#include "base.h"

#ifdef POLICY_BALANCES
#define POLICY_BALANCES_IDLE
#endif

#ifdef POLICY_ONE_LOCK
#undef LOCK_TASKS
#define LOCK_TASKS 0
#endif

typedef struct task __arena task_t;
typedef struct rq __arena rq_t;
typedef struct cpu __arena cpu_t;

#ifdef SWAP
#include "swap/types.h"
#endif

/* task_base::rq when it is no queue's number */
#define RQ_NONE (-1)	/* not linked */
#define RQ_MOVING (-2)	/* between two queues: wait */

/*
 * A task is linked on a run queue from its wakeup until it blocks, also while
 * it runs, as in the kernels that the policies come from. Apart from that:
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
 * The glue's part of a task's descriptor. Who may write, besides ops.init_task:
 *   K  callbacks that hold the kernel's run queue lock of this task
 *   Q  whoever holds the lock of the queue it is linked on
 *   T  holders of LOCK_TASKS
 *   S  holders of LOCK_SLAB
 */
struct task_base {
	u64 allowed[MASK_WORDS];	/* K: copy of its CPU mask */
	struct list_head all;		/* T: list of all tasks; S: free list (next) */
	struct list_head run_list;	/* Q: the policy's link on its queue */
	task_t *parent;			/* who forked it; valid while parent_id matches */
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
	bool over;			/* Q: told to reschedule, not put since */
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
	u64 clock;			/* ns, set by whoever took the lock */
	u32 nr;				/* number of this queue */
	bool walk_tasks;		/* pick_next_task() wants recalculate_task() called */
#ifdef POLICY_HOMES
	u32 nr_tasks;			/* T: tasks whose home it is */
	struct list_head tasks;		/* T: these */
#endif
};

/*
 * What the policies see of a CPU. curr and exec change under the lock of the
 * CPU's queue in ops.dispatch, and in that CPU's running and stopping.
 * The rank of the CPU is that of curr, the time goes to exec. They are one
 * task unless a task that is none of ours has interrupted curr (exec is NULL
 * then), or a blocked task has somebody else run on its behalf.
 */
struct cpu {
	task_t *curr;			/* whose priority counts; NULL: no task of ours */
	task_t *exec;			/* who runs */
	u64 idle_since;			/* ns, 0 if it is not idle */
	u64 mm;				/* address space of the last task of ours */
	u64 sampled;			/* ns, when tick sampling last looked */
	task_t *interrupted;		/* lost the CPU to a task that is none of ours */
	bool resched;			/* was told to preempt, has not picked since */
	u64 pad;
#ifdef SWAP
	task_t *stale[SWAP_STALE];	/* virtual runnable, but the pick found nobody for them */
	u32 nr_stale;
	task_t *served[SWAP_SERVED];	/* blocked tasks for whom a task that became ready can run */
	u32 nr_served;
	s32 choose_again;		/* CPU that runs somebody in place of one that is not parked */
	struct swap_search search;
#endif
};

/* The link of @p, and the task of a link: struct task begins with its base. */
#define run_list(p) (&((struct task_base __arena *)(p))->run_list)
#define linked_task(link) ((task_t *)list_entry(link, struct task_base, run_list))

/* May @cpu, which @prev is about to leave, run @p now? */
static __always_inline bool can_run(task_t *p, u32 cpu, task_t *prev);

/* May the waiting task @p move to @cpu? */
static __always_inline bool can_move(task_t *p, u32 cpu);

/*
 * What the glue calls of SWAP (swap/swap.h). Queue locks as said, none otherwise.
 */
/* Is @p virtual runnable, and is there who could run on @cpu in its place? Queue locked. */
static __always_inline bool swap_can_run(task_t *p, u32 cpu, task_t *prev);
/* @p has run for @ran ns. Queue locked. */
static __always_inline void swap_charge(task_t *p, s64 ran);
/* @p does not run any more, as a provider or at all. Queue locked. */
static __always_inline void swap_settle(task_t *p);
/* ns that @p may run as a provider; very long if it runs for itself. */
static __always_inline s64 swap_left(task_t *p);
/* Takes @p, whose rq is RQ_NONE, to link it; false: somebody else has. */
static __always_inline bool swap_claim(task_t *p);

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

/* wakeup_preempt(): nobody has to reschedule; every idle CPU is to look for work */
#define NO_CPU (-1)
#define IDLE_CPUS (-2)

/*
 * The verbs. All but init_rq, init_task, select_task_rq, read_task, timer_expired and
 * the balance_ pair run with the lock of @rq held: no helper, no kfunc, loops by can_loop only.
 */

/* Sets up queue @rq; @cpu is the CPU it belongs to (0 for the global one). */
static void init_rq(rq_t *rq, u32 cpu);
/* Sets up a task that exists already or is about to be forked; base is valid. */
static void init_task(task_t *p);
/* Shares the slice of @parent with its new @child. True: reschedule the parent. */
static bool task_fork(task_t *parent, task_t *child);
/* @child exits: gives back to @parent what it has left. */
static void task_exit(task_t *parent, task_t *child);
/* Links @p. */
static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason);
/* Unlinks @p. */
static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason);
/* Chooses among the tasks with can_run(p, cpu, prev); NULL: none. Stays linked. */
static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev);
/* @p was picked by @cpu and is going to run there (on). */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu);
/* The scheduler is entered on @p's CPU, after @p ran for @ran ns. */
static void put_prev_task(rq_t *rq, task_t *p, u64 ran);
/* @p has run for one more tick of the policy. True: reschedule. */
static bool task_tick(rq_t *rq, task_t *p);
/* @p gives the CPU up. True: reschedule. */
static bool yield_task(rq_t *rq, task_t *p);
/* CPU that has to reschedule because @p became ready, NO_CPU or IDLE_CPUS. */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason);
/* base.nice changed; @rq is NULL if @p is not linked. True: reschedule its CPU. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice);
/* Ticks of the policy until @p's slice ends. */
static u32 ticks_left(task_t *p);
/* Length of a tick of the policy, in ns. */
static u64 tick_length(void);
#ifdef POLICY_WALKS_TASKS
/* Once per task (POLICY_HOMES: of the queue), under LOCK_TASKS alone. */
static void recalculate_task(task_t *p);
#endif
#ifdef POLICY_SELECTS_CPU
/* CPU whose queue the waking @p goes to; @waker is -1 unless the wakeup is synchronous. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now);
#endif
#ifdef POLICY_MOVES_PICKED
/* CPU that @p, which waits and was picked by @cpu, goes to: @cpu, or else it is moved. */
static s32 picked_cpu(task_t *p, u32 cpu);
#endif
#ifdef POLICY_READS_TASK
/*
 * @p comes into custody; before any lock is taken. Notes what the policy has to
 * know of the kernel's task @k. True: if @p is linked, it has to be linked anew.
 */
static bool read_task(task_t *p, struct task_struct *k);
#endif
#ifdef POLICY_HAS_TIMER
/* At load and whenever it is time; no lock is held. Returns when it is time again, ns. */
static u64 timer_expired(u64 now);
#endif
#ifdef POLICY_BALANCES_IDLE
/* @cpu has nothing to run. True: move_tasks() brought something. */
static bool balance_newidle(u32 cpu, u64 now);
#endif
#ifdef POLICY_BALANCES
/* Tick on @cpu. May call move_tasks() and kick_idle(). */
static void balance_tick(u32 cpu, u64 now);
/* A task of @src that may move to @cpu, or NULL; @any: however unwise. */
static task_t *pick_movable(rq_t *src, u32 cpu, bool any);
#endif

#endif
