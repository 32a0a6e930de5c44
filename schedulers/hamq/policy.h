/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hamq/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_SELECTS_FORK true
#include "types.h"

#define task_fork task_fork
#define task_exit task_exit
#define set_next_task set_next_task
#define select_task_rq select_task_rq
#define balance_newidle balance_newidle
#define balance_tick balance_tick
#define pick_movable pick_movable

#define PREV_FIRST true

enum steal_pick {
	STEAL_BEST,	/* the task with the greatest goodness */
	STEAL_HEAD,	/* the one that became ready last */
};

const volatile enum steal_pick steal_pick SETS("which waiting task of the longest list an idle CPU takes") = STEAL_BEST;
const volatile u32 steal_min TUNABLE("waiting tasks that a CPU must have to lose one", "tasks", 1, 1000) = 1;
const volatile u64 poll_idle_ns
	TUNABLE("how often an idle CPU looks for work while another one has tasks to spare; 10 ms is a tick",
		"ns", 0, 1000000000000) = 10000000;
const volatile bool wake_idle_search SETS("a task that becomes ready goes to an idle CPU, instead of its own") = true;
const volatile u32 remote_bonus
	TUNABLE("STEAL_BEST: what a task that ran elsewhere last lacks against one that ran on the idle CPU",
		"goodness points", 0, 1000) = 0;

u64 nr_wake_prev COUNTS("ready tasks queued on their own CPU, which was idle");
u64 nr_wake_idle COUNTS("ready tasks queued on the CPU that was idle longest");
u64 nr_wake_busy COUNTS("ready tasks queued on their own CPU, with none idle");
u64 nr_lost_claims COUNTS("idle CPUs that another waker chose first");
u64 nr_preemptions COUNTS("ready tasks better than what their CPU runs");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_steals COUNTS("tasks that a CPU with nothing to run took");
u64 nr_no_steals COUNTS("CPUs with nothing to run that found nobody waiting");
u64 nr_missed_steals COUNTS("CPUs with nothing to run that found no task they may run where most are waiting");
u64 nr_idle_polls COUNTS("idle CPUs told by a busy one that there is work");

struct task {
	struct task_base base;
	s32 counter;		/* ticks left in this epoch */
	s32 processor;		/* queue that epoch is of, RQ_NONE: it has been on none */
	s32 last_cpu;		/* CPU it ran on last, NO_CPU: none */
	u32 dyn_prio;		/* bonus, goodness points */
	u32 epoch;		/* epoch that dyn_prio was brought up to */
	bool yielded;		/* has yielded since it was last put */
};

/* A search for a CPU; in the arena for the verifier's sake. */
struct search {
	u64 best;	/* waiting tasks, or since when it is idle */
	s32 cpu;	/* the CPU with that, NO_CPU: none */
};

struct rq {
	struct rq_base base;
	struct list_head head;	/* every runnable task, the running one too */
	u32 nr_running;
	u32 epoch;		/* number of the epoch */
	bool woken;		/* the CPU was idle, and is on its way to run a task */
	u64 next_poll;		/* ns, when an idle CPU is kicked for the tasks here */
	struct search victim;	/* by its CPU only */
	struct search target;	/* by its CPU only */
};

#endif
