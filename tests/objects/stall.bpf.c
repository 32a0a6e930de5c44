/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stall.bpf.c - takes every task into custody and never gives one back, except
 * kernel threads, without which the stall would not be noticed.
 */
#include "compat.h"

SEC("struct_ops/enqueue")
void stall_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (p->flags & PF_KTHREAD)
		scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

/* Never called for a task, but the kernel wants one of enqueue's partners. */
SEC("struct_ops/dispatch")
void stall_dispatch(u64 *ctx)
{
}

SEC(".struct_ops.link")
struct sched_ext_ops stall_ops = {
	.enqueue = (void *)stall_enqueue,
	.dispatch = (void *)stall_dispatch,
	.timeout_ms = 2000,
	.name = "stall",
};

char _license[] SEC("license") = "GPL";
