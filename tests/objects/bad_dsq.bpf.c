/* SPDX-License-Identifier: GPL-2.0-only */
/* bad_dsq.bpf.c - puts tasks into a dispatch queue that does not exist. */
#include "compat.h"

SEC("struct_ops/enqueue")
void bad_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	scx_bpf_dsq_insert(p, 0xdead, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops bad_dsq_ops = {
	.enqueue = (void *)bad_enqueue,
	.name = "bad_dsq",
};

char _license[] SEC("license") = "GPL";
