/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libenzi/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_HOMES
#define POLICY_SELECTS_FORK true
#include "types.h"

#define task_fork task_fork
#define task_exit task_exit
#define set_next_task set_next_task
#define put_prev_task put_prev_task
#define recalculate_task recalculate_task
#define select_task_rq select_task_rq
#define balance_newidle balance_newidle
#define picked_cpu picked_cpu

#define PREV_FIRST true

const volatile u32 history_carry
	TUNABLE("share of the history left at a task's switch that is added to what it earns by that turn; 50 in "
		"the patch, 0 in the proposal's text", "percent", 0, 100) = 50;
const volatile u32 steal_threshold
	TUNABLE("runnable tasks that another CPU must have more than an idle one to lose one; 0 counts as 1, or "
		"two idle CPUs would send their only task to and fro", "tasks", 0, 1000) = 1;
const volatile bool fork_balance
	SETS("new tasks go to the CPU with the fewest tasks, instead of their parent's") = true;
const volatile bool idle_balance SETS("idle CPUs mark tasks to be sent to them") = true;

u64 nr_fork_here COUNTS("new tasks queued where their parent runs");
u64 nr_fork_away COUNTS("new tasks queued on another CPU, which had fewer tasks");
u64 nr_wake_idle COUNTS("ready tasks whose CPU was idle");
u64 nr_preemptions COUNTS("ready tasks better than what their CPU runs");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_marks COUNTS("waiting tasks marked to be sent to an idle CPU");
u64 nr_balanced COUNTS("idle CPUs that found no list long enough to mark a task");
u64 nr_unmarkable COUNTS("idle CPUs that found no task to mark on the longest list");
u64 nr_sent COUNTS("marked tasks that were picked and sent over");
u64 nr_lapsed COUNTS("marks that came to nothing, as the CPU mask had changed or the task ran");

struct task {
	struct task_base base;
	s32 counter;		/* ticks left in this epoch */
	u32 move_to;		/* CPU + 1 that it is to be sent to, 0: none */
	u64 cpu_jtime;		/* ticks: when nothing will be left of its history */
	u64 sched_jtime;	/* ticks: when it was switched to */
	bool yielded;		/* has yielded since it was last put */
};

/* An idle CPU's search for the longest list; in the arena for the verifier's sake. */
struct search {
	u32 longest;	/* tasks */
	s32 cpu;	/* the CPU with that list, NO_CPU: none */
};

struct rq {
	struct rq_base base;
	struct list_head head;	/* every runnable task, the running one too */
	u32 nr_running;
	struct search search;	/* by its CPU only */
};

#endif
