/* SPDX-License-Identifier: GPL-2.0-only */
/* refused.bpf.c - uses a pointer that may be NULL: the verifier has to say so. */
#include "compat.h"

SEC("struct_ops/enqueue")
void refused_enqueue(u64 *ctx)
{
	struct task_struct *p = bpf_task_from_pid(1);

	if (p->pid == 1)
		scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
	bpf_task_release(p);
}

SEC(".struct_ops.link")
struct sched_ext_ops refused_ops = {
	.enqueue = (void *)refused_enqueue,
	.name = "refused",
};

char _license[] SEC("license") = "GPL";
