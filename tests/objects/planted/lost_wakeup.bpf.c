/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost_wakeup.bpf.c - a flag that a CPU was kicked outlives the kick.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* A CPU was kicked and has not looked yet. */
static bool is_kicked;

s32 BPF_STRUCT_OPS(lost_wakeup_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(lost_wakeup_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, 20 * SLICE, enq_flags);
	if (!is_kicked) {
		is_kicked = true;
		wake_idle(p);
	}
}

void BPF_STRUCT_OPS(lost_wakeup_dispatch, s32 cpu, struct task_struct *prev)
{
	/* The fault: the flag stays while tasks are found, so a further task wakes no CPU. */
	if (!scx_bpf_dsq_move_to_local(SHARED, 0))
		is_kicked = false;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(lost_wakeup_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(lost_wakeup_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(lost_wakeup_ops,
	       .select_cpu = (void *)lost_wakeup_select_cpu,
	       .enqueue = (void *)lost_wakeup_enqueue,
	       .dispatch = (void *)lost_wakeup_dispatch,
	       .init = (void *)lost_wakeup_init,
	       .exit = (void *)lost_wakeup_exit,
	       .name = "lost_wakeup");
