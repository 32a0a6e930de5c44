/* SPDX-License-Identifier: GPL-2.0-only */
/* not_allowed.bpf.c - sends every task to CPU 0, whether it may run there or not. */
#include "compat.h"

/* The kernel's SCX_DSQ_LOCAL_ON: the local queue of the CPU in the low bits. */
#define DSQ_LOCAL_ON 0xc000000000000000ull

SEC("struct_ops/enqueue")
void not_allowed_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	scx_bpf_dsq_insert(p, DSQ_LOCAL_ON | 0, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops not_allowed_ops = {
	.enqueue = (void *)not_allowed_enqueue,
	.name = "not_allowed",
};

char _license[] SEC("license") = "GPL";
