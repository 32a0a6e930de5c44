/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pattern.bpf.c - serves even and odd tasks in turn, 150 ms each.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(pattern_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED + (p->pid & 1), 2 * MS, enq_flags);
}

void BPF_STRUCT_OPS(pattern_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 turn = elapsed() / (150 * MS) & 1;

	if (!scx_bpf_dsq_move_to_local(SHARED + turn, 0))
		scx_bpf_dsq_move_to_local(SHARED + !turn, 0);
}

CHEAT(pattern, .enqueue = (void *)pattern_enqueue, .dispatch = (void *)pattern_dispatch,);
