/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * staircase/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#include "types.h"

#define task_fork task_fork
#define set_next_task set_next_task
#define put_prev_task put_prev_task
#define prio_changed prio_changed
#define select_task_rq select_task_rq
#define balance_newidle balance_newidle
#define balance_tick balance_tick
#define pick_movable pick_movable

#define NR_PRIO 140
#include "domain.h"
#include "prio_queue.h"

enum burst_rule {
	BURST_RULE_V10,	/* version 10: sleep is weighed against run time */
	BURST_RULE_V7,	/* version 7: every sleep but the shortest is rewarded */
};

volatile bool interactive SETS("bursts count; off: the stairs go down at once, for servers") = true;
volatile bool compute SETS("steps are ten times as long, bursts do not count, woken tasks preempt late") = false;
const volatile enum burst_rule burst_rule SETS("how sleep earns bursts") = BURST_RULE_V10;
const volatile bool equal_prio_preempt
	SETS("a woken task with a whole slice preempts one of its own priority; off as in version 10, on as in 7") = false;
const volatile u64 tick_ns TUNABLE("length of a clock tick; 1 ms as with HZ=1000", "ns", 100000, 100000000) = 1000000;
const volatile u64 rr_interval_ns TUNABLE("length of a step without compute", "ns", 100000, 1000000000) = 10000000;
const volatile u64 cache_delay_ns
	TUNABLE("with compute, how long after a switch the next preemption is", "ns", 0, 1000000000) = 10000000;
const volatile u64 cache_hot_ns
	TUNABLE("a busy CPU does not pull a task that ran less than this long ago", "ns", 0, 1000000000) = 2500000;
u64 nr_steps COUNTS("steps down the stairs");
u64 nr_lifts COUNTS("slices walked through: back to the top");
u64 nr_bursts_earned COUNTS("wakeups after enough sleep, which raised the burst unless it was full");
u64 nr_bursts_lost COUNTS("slices walked through that lowered a burst");
u64 nr_fresh_slices COUNTS("wakeups to the top of the stairs");
u64 nr_continued COUNTS("wakeups somewhere on the stairs, after too little sleep");
u64 nr_overdrawn COUNTS("of those, tasks that had run for more than a slice: lifted, burst lowered");
u64 nr_forkers COUNTS("of all these, tasks that had forked: no credit for sleep");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_delayed COUNTS("preemptions put off because of compute");
u64 nr_delayed_ends COUNTS("ticks at which one of those took place");
u64 nr_yields_over COUNTS("tasks that had yielded and are back on their stairs");
u64 nr_child_first COUNTS("children queued before their parent");

struct task {
	struct task_base base;
	s32 prio;		/* MAX_RT_PRIO..139, index of its list */
	s32 static_prio;	/* 120 + nice: the top of its stairs */
	s32 burst;		/* steps more at the top; 0..best_burst() */
	s32 slice;		/* ticks left on the stairs */
	s32 time_slice;		/* ticks left on this step */
	bool forked;		/* has forked since it last woke up */
	bool yielded;		/* has yielded since it was last picked */
	bool child_first;	/* has just been queued before its parent */
	u64 runtime;		/* ns run since it woke up */
	s64 totalrun;		/* ns run that sleep has not made up for, or a lift ended */
	u64 timestamp;		/* ns, when it was put or became ready */
	u64 last_ran;		/* ns, when it was put */
};

struct rq {
	struct rq_base base;
	u32 nr_running;		/* queued tasks, the running one included */
	bool preempted;		/* a preemption was put off */
	u64 switched;		/* ns of the last switch */
	struct domain domain;
	struct prio_queue queue;
};

#endif
