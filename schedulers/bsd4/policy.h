/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/policy.h - the state, the tunables and the counters of the policy.
 */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_GLOBAL_RQ true
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
#define timer_expired timer_expired

#include "freebsd.h"

enum profile {
	PROFILE_5_X,	/* FreeBSD 5.1 to 5.x, 2003 and 2004 */
	PROFILE_6_X,	/* FreeBSD 6.x, 2005 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_6_X;
const volatile u64 tick_ns
	TUNABLE("length of a tick of the statistics clock, which estcpu is counted in; 128 ticks per second by "
		"default", "ns", 100000, 100000000) = STAT_TICK_NS;
const volatile u64 quantum_ns
	TUNABLE("how often all CPUs take the next task of equal priority (kern.sched.quantum)", "ns", 1000000,
		1000000000) = 100000000;
const volatile u32 nice_starve_window
	TUNABLE("a task does not run if its nice value is by more than this above the least one of all runnable "
		"tasks; 0: off, as in FreeBSD 5.x and 6.x", "nice values", 0, 39) = 20;
const volatile bool wake_boost SETS("a woken task has the priority of the kernel's sleep (88) until it runs") = true;
const volatile bool wake_one_cpu
	SETS("6.x: a wakeup sends one idle CPU to look for work instead of all (kern.sched.ipiwakeup.onecpu)") = false;
const volatile u32 runq_fuzz
	TUNABLE("6.x: how many tasks of the best list a CPU looks at for one that it ran last; 1: takes the first "
		"(kern.sched.runq_fuzz)", "tasks", 1, 1000) = 1;
const volatile bool idle_halts
	SETS("5.x: an idle CPU halts and looks for work at its next clock tick, as wakeups do not interrupt it; "
		"off: it polls") = true;
const volatile bool realtime_fifo
	SETS("real-time tasks keep their place when the quantum ends, as SCHED_FIFO; off: SCHED_RR") = false;
const volatile u32 fixed_load
	TUNABLE("load average to decay by; 0: the measured one, which takes minutes to rise", "tasks", 0, 10000) = 0;
u64 nr_roundrobins COUNTS("quanta that ended");
u64 nr_rotations COUNTS("CPUs told to take the next task at the end of a quantum");
u64 nr_schedcpus COUNTS("walks over all tasks, one per second");
u64 nr_walked COUNTS("tasks that such walks looked at");
u64 nr_frozen COUNTS("tasks that they passed by because they have slept for long");
u64 nr_load_samples COUNTS("looks at the number of runnable tasks for the load average");
u64 nr_list_changes COUNTS("queued tasks that went to another list");
u64 nr_updatepris COUNTS("wakeups after a long sleep, whose decay was made up for");
u64 nr_boosts COUNTS("wakeups with the priority of a sleep in the kernel");
u64 nr_clock_looks COUNTS("5.x: halted CPUs that a clock tick made look for a waiting task");
u64 nr_idle_here COUNTS("ready tasks whose waker's CPU was idle");
u64 nr_idle_elsewhere COUNTS("ready tasks that idle CPUs were told to look for");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_kept_first COUNTS("preempted tasks that stay the first of their list");
u64 nr_bound_picks COUNTS("picks from the queue of those that only one CPU may run");
u64 nr_fuzzy_picks COUNTS("picks of a task behind the first because it ran here last");
u64 nr_barred COUNTS("tasks that a pick passed by because much less nice ones are runnable");
u64 nr_barred_picks COUNTS("picks of such tasks, for want of others");

/* A verb of the generation that is in force: v5_x.h or v6_x.h. */
#define GENERATION(verb, ...) \
	(profile == PROFILE_6_X ? v6_x_##verb(__VA_ARGS__) : v5_x_##verb(__VA_ARGS__))

struct task {
	struct task_base base;
	enum pri_class class;
	enum pri_class next_class;	/* K: what class is to be */
	s32 bound;			/* CPU whose own queue it is on, NO_CPU: that of all */
	s32 next_bound;			/* K: what bound is to be */
	s32 ready_cpu;			/* K: CPU that made it ready */
	s32 last_cpu;			/* that it ran on last */
	s32 prio;			/* 0..255, rank now; a quarter of it is its list */
	s32 user_pri;			/* 0..255, rank when it runs in user mode */
	u32 estcpu;			/* ticks of the statistics clock, decayed */
	u32 slptime;			/* walks of schedcpu() that it has slept through */
	bool batch;			/* K: SCHED_BATCH */
	bool did_run;			/* has run since the last walk */
	bool keeps_first;		/* was preempted at once: to the head of its list */
	bool yielded;			/* to the tail of its list, whatever else */
};

struct rq {
	struct rq_base base;
	u32 nr_load;			/* runnable tasks that count for the load */
	u32 ldavg;			/* load average over a minute, fixed point */
	u64 next_roundrobin;		/* ns; these three by the timer alone */
	u64 next_schedcpu;
	u64 next_sample;
	u64 next_hardclock;
	u64 next_statclock;
	struct nice_counts timeshare;	/* queued tasks of the time-share class */
	struct prio_queue queue;
	struct prio_queue own[MAX_CPUS];	/* 6.x: of tasks that one CPU alone may run */
};

#endif
