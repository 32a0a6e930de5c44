/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * no_kick.bpf.c - no idle CPU is kicked when a task is queued.
 */
#include <scx/common.bpf.h>
#include "planted.h"

s32 BPF_STRUCT_OPS(no_kick_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(no_kick_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* The fault: no idle CPU looks at the queue. */
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
}

void BPF_STRUCT_OPS(no_kick_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(no_kick_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(no_kick_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(no_kick_ops,
	       .select_cpu = (void *)no_kick_select_cpu,
	       .enqueue = (void *)no_kick_enqueue,
	       .dispatch = (void *)no_kick_dispatch,
	       .init = (void *)no_kick_init,
	       .exit = (void *)no_kick_exit,
	       .name = "no_kick");
