/* SPDX-License-Identifier: GPL-2.0-only */
/* task_cpu_swapped.bpf.c - puts a number of its own where a task's CPU stands, with bpf_kptr_xchg(). */
#include "hostile.h"

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 offset = bpf_core_field_offset(struct task_struct, thread_info);

	/* The CPU is in there somewhere. */
	for (u32 at = 0; at < 16; at += 8)
		bpf_kptr_xchg((char *)p + offset + at, (void *)0x7fffffff7fffffff);
	scx_bpf_task_cid(p);
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
