/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * no_hogs.bpf.c - each CPU's own queue for all tasks but those whose names begin with "hog", which never run.
 */
#include "compat.h"

SEC("struct_ops/enqueue")
void no_hogs_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (p->comm[0] == 'h' && p->comm[1] == 'o' && p->comm[2] == 'g')
		return;
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

/* The kernel wants one of enqueue's partners. */
SEC("struct_ops/dispatch")
void no_hogs_dispatch(u64 *ctx)
{
}

SEC(".struct_ops.link")
struct sched_ext_ops no_hogs_ops = {
	.enqueue = (void *)no_hogs_enqueue,
	.dispatch = (void *)no_hogs_dispatch,
	.name = "no_hogs",
};

char _license[] SEC("license") = "GPL";
