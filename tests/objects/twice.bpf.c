/* SPDX-License-Identifier: GPL-2.0-only */
/* twice.bpf.c - dispatches every task twice. */
#include "compat.h"

SEC("struct_ops/enqueue")
void twice_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0); /* once too often */
}

SEC(".struct_ops.link")
struct sched_ext_ops twice_ops = {
	.enqueue = (void *)twice_enqueue,
	.name = "twice",
};

char _license[] SEC("license") = "GPL";
