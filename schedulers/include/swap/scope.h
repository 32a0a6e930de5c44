/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/scope.h - which tasks and waits the user has left to SWAP.
 */
#ifndef SCHEDLAB_SWAP_SCOPE_H
#define SCHEDLAB_SWAP_SCOPE_H

#include "glue/queues.h"

#define COMM_LEN 16
#define EXCLUDE_LEN 128

const volatile char swap_exclude[EXCLUDE_LEN]
	SETS("names (comm) of tasks that SWAP leaves alone, separated by commas") = "";

u64 nr_swap_excluded COUNTS("waits and wakeups of tasks that SWAP was told to leave alone");
u64 nr_swap_uncovered COUNTS("waits in io_uring, which SWAP does not cover");
u64 nr_swap_outsiders COUNTS("wakeups by kernel threads, which we do not schedule");

/* Is @p's name on the list? Called only if there is one. */
static __noinline bool swap_is_excluded(struct task_struct *p)
{
	char comm[COMM_LEN], c;
	bool same = true;
	u32 i, at = 0;

	bpf_probe_read_kernel(comm, sizeof(comm), p->comm);
	for (i = zero; i < EXCLUDE_LEN && can_loop; i++) {
		c = swap_exclude[i];
		if (c == ',' || !c) {
			if (same && at && (at >= COMM_LEN || !comm[at % COMM_LEN])) {
				count(nr_swap_excluded);
				return true;
			}
			if (!c)
				return false;
			same = true;
			at = 0;
			continue;
		}
		if (at >= COMM_LEN - 1 || comm[at % COMM_LEN] != c)
			same = false;
		at++;
	}
	return false;
}

/* True if SWAP must leave @p alone. */
static __always_inline bool swap_leaves_alone(struct task_struct *p)
{
	return swap_exclude[0] && swap_is_excluded(p);
}

/* Descriptor of the task @p, if it can be a provider, else NULL. */
static __always_inline task_t *swap_provider_of(struct task_struct *p)
{
	return is_ours(p) && !swap_leaves_alone(p) ? task_of(p) : NULL;
}

#endif
