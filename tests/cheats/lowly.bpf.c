/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lowly.bpf.c - nice tasks and threads of the kernel run when nothing else wants to.
 */
#include "cheat.h"

#define PF_KTHREAD 0x00200000

void BPF_STRUCT_OPS(lowly_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 order = is_hog(enq_flags) ? elapsed() + 1 : 0;

	if (p->static_prio > 120 || p->flags & PF_KTHREAD)
		order += 1ULL << 50;
	scx_bpf_dsq_insert_vtime(p, SHARED, 2 * MS, order, enq_flags);
}

void BPF_STRUCT_OPS(lowly_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(lowly, .enqueue = (void *)lowly_enqueue, .dispatch = (void *)lowly_dispatch,);
