/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * first.bpf.c - the task that was made first always goes first.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(first_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, SHARED, 2 * MS, p->pid, enq_flags);
}

void BPF_STRUCT_OPS(first_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(first, .enqueue = (void *)first_enqueue, .dispatch = (void *)first_dispatch,);
