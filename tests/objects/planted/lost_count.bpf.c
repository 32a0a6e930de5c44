/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost_count.bpf.c - counts the tasks in its queue, and dispatches only where the count is above 0. Two CPUs that count at the
 * same time lose a step: the count is 0 beside a task that waits. One callback at a time never does.
 */
#include <scx/common.bpf.h>
#include "planted.h"

static volatile s64 nr_waiting;

s32 BPF_STRUCT_OPS(lost_count_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(lost_count_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	nr_waiting += 1;
	wake_idle(p);
}

void BPF_STRUCT_OPS(lost_count_dispatch, s32 cpu, struct task_struct *prev)
{
	if (nr_waiting <= 0)
		return;
	nr_waiting -= 1;
	if (!scx_bpf_dsq_move_to_local(SHARED, 0))
		nr_waiting += 1;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(lost_count_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

SCX_OPS_DEFINE(lost_count_ops,
	       .select_cpu = (void *)lost_count_select_cpu,
	       .enqueue = (void *)lost_count_enqueue,
	       .dispatch = (void *)lost_count_dispatch,
	       .init = (void *)lost_count_init,
	       .timeout_ms = 2000,
	       .name = "lost_count");
