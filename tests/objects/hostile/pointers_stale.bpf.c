/* SPDX-License-Identifier: GPL-2.0-only */
/* pointers_stale.bpf.c - keeps pointers to tasks and uses them when the tasks are gone, with offsets. */
#include "hostile.h"

static struct task_struct *kept[64];
static u32 next;

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
	kept[next++ % 64] = p;
	for (u32 at = 0; at < 64; at++) {
		struct task_struct *old = kept[at];

		if (old) {
			scx_bpf_kick_cpu(scx_bpf_task_cpu(old), 0);
			scx_bpf_dsq_insert(old, 0, 1, 0);
			scx_bpf_task_cpu((void *)((char *)old + 8));
		}
	}
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
