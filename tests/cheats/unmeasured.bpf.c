/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unmeasured.bpf.c - what sleeps runs first; of those that compute, the one that came last runs alone.
 */
#include "cheat.h"

/* Later tasks have lower times. */
void BPF_STRUCT_OPS(unmeasured_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 order = is_hog(enq_flags) ? 10000000 - p->pid : 0;

	scx_bpf_dsq_insert_vtime(p, SHARED, 2 * MS, order, enq_flags);
}

void BPF_STRUCT_OPS(unmeasured_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(unmeasured, .enqueue = (void *)unmeasured_enqueue, .dispatch = (void *)unmeasured_dispatch,);
