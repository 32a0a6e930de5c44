/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * class_never.bpf.c - tasks of high nice values wait in a queue of which no CPU takes any.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* Tasks of high nice values wait here. */
#define LOW 1

s32 BPF_STRUCT_OPS(class_never_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(class_never_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* The fault: no CPU takes anything from LOW. */
	scx_bpf_dsq_insert(p, p->static_prio > 130 ? LOW : SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(class_never_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(class_never_init)
{
	s32 error = scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);

	return error ?: scx_bpf_create_dsq(LOW, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(class_never_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(class_never_ops,
	       .select_cpu = (void *)class_never_select_cpu,
	       .enqueue = (void *)class_never_enqueue,
	       .dispatch = (void *)class_never_dispatch,
	       .init = (void *)class_never_init,
	       .exit = (void *)class_never_exit,
	       .name = "class_never");
