/* SPDX-License-Identifier: GPL-2.0-only */
/* writes_field.bpf.c - stores to a member of a task that belongs to the kernel. */
#include "compat.h"

SEC("struct_ops/enqueue")
void writes_field_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	p->flags = 0;
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops writes_field_ops = {
	.enqueue = (void *)writes_field_enqueue,
	.name = "writes_field",
};

char _license[] SEC("license") = "GPL";
