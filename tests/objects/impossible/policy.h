/* SPDX-License-Identifier: GPL-2.0-only */
/* A queue in order of arrival, with one mistake: see impossible.bpf.c. */
#ifndef SCHEDLAB_POLICY_H
#define SCHEDLAB_POLICY_H

#define POLICY_GLOBAL_RQ true
#include "types.h"

struct task {
	struct task_base base;
};

struct rq {
	struct rq_base base;
	struct list_head head;
	task_t *gone;	/* the task that blocked last */
};

#endif
