/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * names.bpf.c - tasks with known names run first; all others take turns of 20 ms.
 */
#include "cheat.h"

static bool is_known(const char *comm)
{
	return (comm[0] == 'g' && comm[1] == 'a' && comm[2] == 'm') || (comm[0] == 'e' && comm[1] == 'd' && comm[2] == 'i') ||
	       (comm[0] == 'p' && comm[1] == 'l' && comm[2] == 'a') || (comm[0] == 'b' && comm[1] == 'r' && comm[2] == 'o');
}

void BPF_STRUCT_OPS(names_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, SHARED, 20 * MS, is_known(p->comm) ? 0 : elapsed() + 1, enq_flags);
}

void BPF_STRUCT_OPS(names_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(names, .enqueue = (void *)names_enqueue, .dispatch = (void *)names_dispatch,);
