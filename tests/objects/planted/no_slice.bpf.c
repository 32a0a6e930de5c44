/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * no_slice.bpf.c - the turn of a wakee never ends.
 */
#include <scx/common.bpf.h>
#include "planted.h"

s32 BPF_STRUCT_OPS(no_slice_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(no_slice_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* The fault: a wakee keeps the CPU for as long as it computes. */
	u64 slice = enq_flags & SCX_ENQ_WAKEUP ? SCX_SLICE_INF : SLICE;

	scx_bpf_dsq_insert(p, SHARED, slice, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(no_slice_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(no_slice_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(no_slice_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(no_slice_ops,
	       .select_cpu = (void *)no_slice_select_cpu,
	       .enqueue = (void *)no_slice_enqueue,
	       .dispatch = (void *)no_slice_dispatch,
	       .init = (void *)no_slice_init,
	       .exit = (void *)no_slice_exit,
	       .name = "no_slice");
