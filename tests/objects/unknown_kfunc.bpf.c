/* SPDX-License-Identifier: GPL-2.0-only */
/* unknown_kfunc.bpf.c - calls a function that no kernel has. */
#include "compat.h"

void scx_bpf_read_minds(struct task_struct *p) __ksym;

SEC("struct_ops/enqueue")
void unknown_kfunc_enqueue(u64 *ctx)
{
	scx_bpf_read_minds((void *)ctx[0]);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops unknown_kfunc_ops = {
	.enqueue = (void *)unknown_kfunc_enqueue,
	.name = "unknown_kfunc",
};

char _license[] SEC("license") = "GPL";
