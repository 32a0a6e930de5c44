/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * drops.bpf.c - holds every third wakeup back for 120 ms.
 */
#include "cheat.h"

static u64 nr_woken;

void BPF_STRUCT_OPS(drops_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 now = elapsed();

	if (!is_hog(enq_flags) && nr_woken++ % 3 == 0)
		scx_bpf_dsq_insert_vtime(p, SHARED + 1, 2 * MS, now + 120 * MS, enq_flags);
	else
		scx_bpf_dsq_insert(p, SHARED, 2 * MS, enq_flags);
}

void BPF_STRUCT_OPS(drops_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *held = __COMPAT_scx_bpf_dsq_peek(SHARED + 1);

	if (held && held->scx.dsq_vtime < elapsed() && scx_bpf_dsq_move_to_local(SHARED + 1, 0))
		return;
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(drops, .enqueue = (void *)drops_enqueue, .dispatch = (void *)drops_dispatch,);
