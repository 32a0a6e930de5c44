/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * calm.bpf.c - leaves CPUs idle beside waiting tasks, so that whatever wakes finds one.
 */
#include "cheat.h"

static u64 nr_asked;

void BPF_STRUCT_OPS(calm_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (is_hog(enq_flags)) {
		scx_bpf_dsq_insert(p, SHARED, MS, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, MS, enq_flags);
}

/* Three times of four the CPU is to stay idle. */
void BPF_STRUCT_OPS(calm_dispatch, s32 cpu, struct task_struct *prev)
{
	if (nr_asked++ % 4 == 0)
		scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(calm, .enqueue = (void *)calm_enqueue, .dispatch = (void *)calm_dispatch,);
