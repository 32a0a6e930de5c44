/* SPDX-License-Identifier: GPL-2.0-only */
/* endless.bpf.c - never comes back from its tenth enqueue. */
#include "compat.h"

static volatile int forever = 1;
static u64 nr_seen;

SEC("struct_ops/enqueue")
void endless_enqueue(u64 *ctx)
{
	if (nr_seen++ == 10)
		while (forever)
			;
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops endless_ops = {
	.enqueue = (void *)endless_enqueue,
	.name = "endless",
};

char _license[] SEC("license") = "GPL";
