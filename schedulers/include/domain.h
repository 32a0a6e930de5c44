/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * domain.h - the state, the tunables and the counters of Linux 2.6's balancing
 * between CPUs. A policy.h that uses balance.h includes this header, has a `struct domain
 * domain` and `nr_running` in its struct rq, and `last_ran` in its struct task.
 */
#ifndef SCHEDLAB_DOMAIN_H
#define SCHEDLAB_DOMAIN_H

#include "types.h"

const volatile u32 imbalance_pct
	TUNABLE("load of another CPU against this one's that makes it busier", "percent", 100, 1000) = 125;
const volatile u32 smt_siblings
	TUNABLE("CPUs with consecutive numbers that share a core; a woken task whose CPU is busy takes an idle one "
		"among them", "CPUs", 1, 64) = 1;

u64 nr_wake_prev COUNTS("woken tasks queued where they ran last");
u64 nr_wake_affine COUNTS("woken tasks queued on their waker's CPU");
u64 nr_wake_sibling COUNTS("woken tasks queued on an idle CPU of the same core");
u64 nr_scanned COUNTS("tasks that balancing looked at");
u64 nr_too_warm COUNTS("tasks not pulled because they ran a moment ago");
u64 nr_newidle_pulls COUNTS("pulls by a CPU with nothing to run");
u64 nr_periodic_pulls COUNTS("pulls by a busy CPU");
u64 nr_balanced COUNTS("looks at the other CPUs that found no reason to pull");
u64 nr_failed_pulls COUNTS("busier CPUs of which no task could be pulled");
u64 nr_active_pushes COUNTS("running tasks that made way, or no task could ever be pulled");
u64 nr_idle_nudges COUNTS("idle CPUs told by a busy one that there is work");

/*
 * A CPU's search for another one to pull from. In the arena, not on the stack:
 * the verifier would follow every path that leads to a maximum.
 */
struct pull {
	u64 most;	/* load or length found so far */
	u64 total;	/* load of all CPUs */
	s32 from;	/* the CPU with that, NO_CPU: none */
	u32 amount;	/* tasks to pull */
};

/* Balancing of one CPU with all others. Written by its own CPU, but for push. */
struct domain {
	u64 load;		/* tasks * 128, averaged */
	u64 load_updated;	/* ns */
	u64 next_balance;	/* ns */
	u64 balance_interval;	/* ns */
	u32 balance_failed;	/* pulls in a row that brought nothing */
	bool push;		/* another CPU wants what runs here */
	struct pull pull;
};

#endif
