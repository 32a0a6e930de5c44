/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtime_wrap.bpf.c - virtual times are compared in 32 bits and overflow.
 */
#include <scx/common.bpf.h>
#include "planted.h"

s32 BPF_STRUCT_OPS(vtime_wrap_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(vtime_wrap_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* The fault: the order is that of 32 bits, which overflow. */
	scx_bpf_dsq_insert_vtime(p, SHARED, SLICE, (u32)p->scx.dsq_vtime, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(vtime_wrap_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

void BPF_STRUCT_OPS(vtime_wrap_stopping, struct task_struct *p, bool runnable)
{
	u64 used = p->scx.slice < SLICE ? SLICE - p->scx.slice : 0;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + used * 4);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(vtime_wrap_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(vtime_wrap_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(vtime_wrap_ops,
	       .select_cpu = (void *)vtime_wrap_select_cpu,
	       .enqueue = (void *)vtime_wrap_enqueue,
	       .dispatch = (void *)vtime_wrap_dispatch,
	       .stopping = (void *)vtime_wrap_stopping,
	       .init = (void *)vtime_wrap_init,
	       .exit = (void *)vtime_wrap_exit,
	       .name = "vtime_wrap");
