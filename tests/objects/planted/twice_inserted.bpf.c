/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * twice_inserted.bpf.c - a task of a low nice value is inserted twice.
 */
#include <scx/common.bpf.h>
#include "planted.h"

s32 BPF_STRUCT_OPS(twice_inserted_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(twice_inserted_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	/* The fault: an important task is inserted once more, before the others. */
	if (p->static_prio < 110 && !is_kthread(p))
		scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags | SCX_ENQ_HEAD);
	wake_idle(p);
}

void BPF_STRUCT_OPS(twice_inserted_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(twice_inserted_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(twice_inserted_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(twice_inserted_ops,
	       .select_cpu = (void *)twice_inserted_select_cpu,
	       .enqueue = (void *)twice_inserted_enqueue,
	       .dispatch = (void *)twice_inserted_dispatch,
	       .init = (void *)twice_inserted_init,
	       .exit = (void *)twice_inserted_exit,
	       .name = "twice_inserted");
