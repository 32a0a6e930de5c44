/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * begins.bpf.c - serves all evenly for two seconds, longer than it expects a test to last; then one task alone.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(begins_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 now = elapsed(), order = is_hog(enq_flags) ? now + 1 : 0;

	if (now > 2000 * MS)
		order = p->pid;
	scx_bpf_dsq_insert_vtime(p, SHARED, 2 * MS, order, enq_flags);
}

void BPF_STRUCT_OPS(begins_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(begins, .enqueue = (void *)begins_enqueue, .dispatch = (void *)begins_dispatch,);
