/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * endless.bpf.c - a task that computes is never interrupted.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(endless_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, SCX_SLICE_INF, enq_flags);
}

void BPF_STRUCT_OPS(endless_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(endless, .enqueue = (void *)endless_enqueue, .dispatch = (void *)endless_dispatch,);
