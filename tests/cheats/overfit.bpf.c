/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overfit.bpf.c - made for one load: a task that slept for more than 5 ms goes first, all others take turns of 50 ms.
 */
#include "cheat.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10000);
	__type(key, s32);
	__type(value, u64);
} stopped SEC(".maps");

void BPF_STRUCT_OPS(overfit_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 now = elapsed() + 1;
	s32 pid = p->pid;
	u64 *last = bpf_map_lookup_elem(&stopped, &pid);
	bool is_long = last && !is_hog(enq_flags) && now - *last > 5 * MS;

	scx_bpf_dsq_insert_vtime(p, SHARED, 50 * MS, is_long ? 0 : now, enq_flags);
}

void BPF_STRUCT_OPS(overfit_stopping, struct task_struct *p, bool runnable)
{
	u64 now = elapsed() + 1;
	s32 pid = p->pid;

	bpf_map_update_elem(&stopped, &pid, &now, BPF_ANY);
}

void BPF_STRUCT_OPS(overfit_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

CHEAT(overfit, .enqueue = (void *)overfit_enqueue, .dispatch = (void *)overfit_dispatch, .stopping = (void *)overfit_stopping,);
