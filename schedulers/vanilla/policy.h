/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vanilla/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_GLOBAL_RQ true
#define POLICY_PUSHES true
#include "types.h"

#define task_fork task_fork
#define task_exit task_exit
#define set_next_task set_next_task
#define recalculate_task recalculate_task

#define PREV_FIRST prev_wins_ties

enum profile {
	PROFILE_2_4,	/* Linux 2.4.18: ticks of all tasks recalculated */
	PROFILE_TSSS,	/* Linux 2.5.2-pre9: slice and bonus, runnable tasks only */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_2_4;
const volatile u32 proc_change_penalty
	TUNABLE("bonus for the CPU that a task ran on last; 15 on i386", "goodness points", 0, 1000) = 15;
const volatile bool prev_wins_ties
	SETS("on a tie the running task stays instead of the first in the list; off as in 2.4.18, on as in 2.4.13, "
		"which Libenzi measured") = false;

u64 nr_idle_last COUNTS("ready tasks whose last CPU was idle");
u64 nr_idle_longest COUNTS("ready tasks sent to the CPU that was idle longest");
u64 nr_preemptions COUNTS("ready tasks better than what some CPU runs");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");

struct task {
	struct task_base base;
	s32 counter;		/* ticks left in this epoch */
	s32 processor;		/* CPU it ran on last */
	u32 dyn_prio;		/* TSSS: bonus, goodness points */
	u32 epoch;		/* TSSS: epoch that dyn_prio was brought up to */
	bool yielded;		/* has yielded since it was last put */
};

struct rq {
	struct rq_base base;
	struct list_head head;	/* every runnable task, running ones too */
	u32 nr_running;
	u32 epoch;		/* TSSS: number of the epoch */
};

#endif
