/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ends.bpf.c - for half a second tasks that compute wait behind the first of them; then all are served evenly.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(ends_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 now = elapsed(), order = now + 1;

	if (is_hog(enq_flags) && now < 500 * MS)
		order = p->pid;
	scx_bpf_dsq_insert_vtime(p, SHARED, 2 * MS, is_hog(enq_flags) ? order : 0, enq_flags);
}

void BPF_STRUCT_OPS(ends_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(ends, .enqueue = (void *)ends_enqueue, .dispatch = (void *)ends_dispatch,);
