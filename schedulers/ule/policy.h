/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ule/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_ONE_LOCK
#define POLICY_SELECTS_FORK true
#include "types.h"

#define task_fork task_fork
#define task_exit task_exit
#define set_next_task set_next_task
#define put_prev_task put_prev_task
#define prio_changed prio_changed
#define read_task read_task
#define select_task_rq select_task_rq
#define balance_newidle balance_newidle
#define balance_tick balance_tick
#define pick_movable pick_movable

#include "freebsd.h"

enum profile {
	PROFILE_5_2,	/* FreeBSD 5.2, end of 2003 */
	PROFILE_6_X,	/* FreeBSD 6.x, revision 1.161, December 2005 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_6_X;
const volatile u64 tick_ns
	TUNABLE("length of a tick of the statistics clock, which slices and run time are counted in; 128 ticks per "
		"second by default", "ns", 100000, 100000000) = STAT_TICK_NS;
const volatile u64 clock_ns
	TUNABLE_OR_0("length of a tick of the clock that sleep is measured with", "ns", 100000, 100000000,
		"1 ms in 6.x, 10 ms in 5.2") = 0;
const volatile u32 slice_min TUNABLE("the shortest slice, not more than slice_max", "ticks", 1, 1000) = 1;
const volatile u32 slice_max
	TUNABLE_OR_0("the longest slice", "ticks", 1, 1000, "a seventh of a second's ticks: 18 in 6.x, 14 in 5.2, "
		"which took them from the other clock") = 0;
const volatile u32 interact_thresh
	TUNABLE("score below which a task is interactive; 30 is a share of the CPU below 37.5 %", "points", 0, 101) = 30;
const volatile u64 slp_run_max_ns
	TUNABLE("run and sleep time together that are remembered", "ns", 1000000, 1000000000000) = 5000000000;
const volatile bool nice_window
	SETS("5.2: a task 19 or more nicer than the least nice one of its CPU does not run while that one is "
		"there; off: it gets the shortest slice, as in 6.x") = true;
const volatile bool wake_boost
	SETS("5.2: until it runs, a woken task ranks as one that is still in the kernel (priority 88, a socket's), "
		"and so goes to the current queue") = true;
const volatile u64 push_period_ns
	TUNABLE_OR_0("time between two pushes", "ns", 1000000, 1000000000000, "random up to 2 s in 6.x, 1 s in 5.2") = 0;
const volatile u32 core_cpus
	TUNABLE("6.x: CPUs with consecutive numbers that share a core: they pull from each other and have their "
		"own pushes", "CPUs", 1, 64) = 1;
u64 nr_queue_swaps COUNTS("times the current queue was used up and swapped with the next");
u64 nr_expired COUNTS("slices that ended in the next queue");
u64 nr_stayed_current COUNTS("slices that ended in the current queue: interactive tasks");
u64 nr_changed COUNTS("5.2: slices that ended in the current queue because the priority had changed");
u64 nr_idle_turns COUNTS("slices of tasks of the idle class that ended");
u64 nr_gave_way COUNTS("6.x: tasks that lost the current queue because they woke a better one");
u64 nr_to_current COUNTS("tasks that became ready in the current queue");
u64 nr_to_next COUNTS("tasks that became ready in the next queue");
u64 nr_to_idle COUNTS("tasks that became ready in the idle queue");
u64 nr_window COUNTS("5.2: picks of a task without a slice, sent to the next queue instead");
u64 nr_history_cuts COUNTS("times run and sleep time were reduced");
u64 nr_full_sleeps COUNTS("sleeps so long that all before them is forgotten");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_wake_here COUNTS("woken and new tasks queued on the CPU that woke them");
u64 nr_wake_prev COUNTS("woken and new tasks queued where they ran last");
u64 nr_wake_idle COUNTS("woken and new tasks queued on an idle CPU, because this one has more to do");
u64 nr_wake_sibling COUNTS("woken and new tasks queued on an idle CPU of the same core");
u64 nr_pulls COUNTS("tasks pulled by a CPU with nothing to run");
u64 nr_pushes COUNTS("balances by time that moved tasks");
u64 nr_core_pushes COUNTS("balances by time within a core that moved tasks");
u64 nr_balanced COUNTS("balances by time that found nothing to move");
u64 nr_failed_moves COUNTS("busier CPUs of which no task could be moved");

/* A verb of the generation that is in force: v5_2.h or v6_x.h. */
#define GENERATION(verb, ...) \
	(profile == PROFILE_6_X ? v6_x_##verb(__VA_ARGS__) : v5_2_##verb(__VA_ARGS__))

struct task {
	struct task_base base;
	prio_queue_t *queue;	/* that it is on, NULL: none */
	s32 prio;		/* 0..255, rank now; a quarter of it is its list */
	s32 user_pri;		/* 0..255, rank when it runs in user mode */
	s32 slice;		/* ticks left */
	u32 class;		/* enum pri_class */
	u64 run_time;		/* ns of history, whole ticks */
	u64 sleep_time;		/* ns of history, whole ticks of the clock */
	u64 slept_at;		/* ns, when it went to sleep, 0: it did not */
	u64 cpu_ticks;		/* ticks it ran within its window (pctcpu) */
	u64 window_start;	/* ns, 0: never ran */
	u64 window_end;		/* ns, when it ran last */
	bool batch;		/* SCHED_BATCH: never interactive */
	bool movable;		/* may use several CPUs */
	bool gave_way;		/* is preempted by a task that it woke itself */
	bool in_timeshare;	/* counted in rq::timeshare */
	bool in_movable;	/* counted in rq::nr_movable */
};

/*
 * A search for CPUs, or cores, to move tasks between. In the arena, not on the stack: the
 * verifier would follow every path that leads to a maximum.
 */
struct search {
	u32 most;	/* load of the busiest with tasks to give away, 0: none */
	u32 least;	/* load of the least busy */
	u32 from, to;	/* the first CPUs of these */
	u32 nr_movable;	/* tasks that from can give away */
};

struct rq {
	struct rq_base base;
	prio_queue_t *curr, *next;
	u32 load;			/* queued tasks, the running one included */
	u32 nr_movable;			/* queued tasks that may use several CPUs */
	struct nice_counts timeshare;	/* queued tasks of the time-share class */
	struct search search;		/* by this CPU only */
	struct prio_queue queues[2];
	struct prio_queue idle;
};

#endif
