/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * o1/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#include "types.h"

#define task_fork task_fork
#define task_exit task_exit
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

enum profile {
	PROFILE_D1,	/* patch D1 and 2.5.2-pre10, January 2002 */
	PROFILE_RH8,	/* 2.4.18-14 of Red Hat 8.0, autumn 2002 */
	PROFILE_2_6_10,	/* Linux 2.6.10, December 2004 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_2_6_10;
const volatile u64 tick_ns
	TUNABLE_OR_0("length of a clock tick", "ns", 100000, 100000000, "1 ms in 2.6.10, 10 ms before") = 0;
/* Not below DEF_TIMESLICE, which recalc_sleep() subtracts. */
const volatile u64 max_sleep_ns
	TUNABLE_OR_0("sleep that earns the full bonus", "ns", 100000000, 100000000000, "1 s in 2.6.10, 2 s in rh8") = 0;
const volatile u64 starvation_limit_ns
	TUNABLE_OR_0("per runnable task, how long the expired array may wait for tasks that stay active because "
		"they are interactive", "ns", 1000000, 100000000000, "1 s in 2.6.10, 2 s in rh8") = 0;
/* As since Linux 2.6.17; 5 s is chosen. */
const volatile u64 epoch_max_ns
	TUNABLE("the most that starvation_limit_ns comes to for all tasks; after it woken tasks expire, too", "ns", 1000000,
		1000000000000) = 5000000000;
const volatile u32 child_penalty
	TUNABLE("share of its parent's bonus that a child starts with", "percent", 0, 100) = 95;
const volatile u32 parent_penalty
	TUNABLE("share of its bonus that a parent keeps when it forks", "percent", 0, 100) = 100;
const volatile u32 on_runqueue_weight
	TUNABLE("2.6.10: share of the time spent waiting in the queue that counts as sleep", "percent", 0, 100) = 30;
const volatile u32 exit_weight
	TUNABLE("weight of a parent's own average against that of an exiting child", "", 1, 100) = 3;
const volatile u32 interactive_delta
	TUNABLE("priorities that a task must have earned to be interactive, at nice 0", "priorities", 0, 5) = 2;
const volatile bool interactive_credit
	SETS("2.6.10: tasks build up credit for sleeping, and lose bonuses fast only when it is low; off as in "
		"2.6.11") = true;
const volatile u64 granularity_ns
	TUNABLE("2.6.10: at full bonus, how often interactive tasks of one priority take turns", "ns", 0,
		1000000000) = 5000000;
const volatile bool ncpus_in_gran SETS("2.6.10: granularity_ns is multiplied by the number of CPUs") = true;
const volatile u64 cache_hot_ns
	TUNABLE_OR_0("a busy CPU does not pull a task that ran less than this long ago", "ns", 1, 1000000000,
		"2.5 ms in 2.6.10, 10 ms before") = 0;

u64 nr_array_switches COUNTS("times the active array was empty and the two swapped");
u64 nr_expired COUNTS("slices that ended in the expired array");
u64 nr_stayed_active COUNTS("slices that ended in the active array: interactive tasks");
u64 nr_starving COUNTS("slices of interactive tasks that expired, or others would starve");
u64 nr_round_robins COUNTS("interactive tasks that gave way to their equals within a slice");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_child_first COUNTS("children queued before their parent");

/* A verb of the generation that is in force: d1.h, rh8.h or v2_6_10.h. */
#define GENERATION(verb, ...)                                                    \
	({                                                                       \
		enum profile generation = profile;                               \
		generation == PROFILE_2_6_10 ? v2_6_10_##verb(__VA_ARGS__)       \
		: generation == PROFILE_RH8  ? rh8_##verb(__VA_ARGS__)           \
					     : d1_##verb(__VA_ARGS__);           \
	})

struct task {
	struct task_base base;
	prio_queue_t *array;	/* that it is queued in, NULL: none */
	s32 prio;		/* MAX_RT_PRIO..139, index of its list */
	s32 static_prio;	/* 120 + nice */
	s32 time_slice;		/* ticks left */
	s32 credit;		/* 2.6.10: -101..101 */
	s32 activated;		/* 2.6.10: -1 uninterruptible sleep, 1 woken, 0 otherwise */
	bool first_time_slice;	/* its slice came from its parent */
	bool expired;		/* was queued in the expired array when it was unlinked */
	bool child_first;	/* has just been queued before its parent */
	u64 sleep_avg;		/* ns; 2.6.10 and rh8 */
	u64 timestamp;		/* ns, when it was put, queued or switched to */
	u64 last_ran;		/* ns, when it was put */
	u64 hist_slot;		/* d1: second that sleep_hist was brought up to */
	u64 hist_tick;		/* d1: tick of that */
	u32 sleep_hist[4];	/* d1: ticks slept in this second and the three before it */
};

struct rq {
	struct rq_base base;
	prio_queue_t *active, *expired;
	u32 nr_running;			/* queued tasks, the running one included */
	s32 best_expired_prio;		/* best static_prio in expired, 140: none */
	u64 expired_since;		/* tick of the first expiry since the swap, 0: none */
	struct domain domain;		/* d1, rh8: next_balance and pull alone */
	u16 prev_running[MAX_CPUS];	/* d1, rh8: queue lengths at the last look */
	struct prio_queue arrays[2];
};

#endif
