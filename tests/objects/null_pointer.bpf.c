/* SPDX-License-Identifier: GPL-2.0-only */
/* null_pointer.bpf.c - reads through a pointer to no task after a few enqueues. */
#include "compat.h"

static u64 nr_seen;

SEC("struct_ops/enqueue")
void null_pointer_enqueue(u64 *ctx)
{
	struct task_struct *none = NULL;

	if (nr_seen++ > 10)
		nr_seen += (*(struct task_struct *volatile *)&none)->pid;
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops null_pointer_ops = {
	.enqueue = (void *)null_pointer_enqueue,
	.name = "null_pointer",
};

char _license[] SEC("license") = "GPL";
