/* SPDX-License-Identifier: GPL-2.0-only */
/* counts.bpf.c - counts in variables of any name and width. */
#include "compat.h"

u64 nr_calls;
u32 count;
s16 below = -3;
u64 still = 5;

SEC("struct_ops/enqueue")
void counts_enqueue(u64 *ctx)
{
	__sync_fetch_and_add(&nr_calls, 1);
	__sync_fetch_and_add(&count, 1);
	below = -4;
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 20 * MS + still, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops counts_ops = {
	.enqueue = (void *)counts_enqueue,
	.name = "counts",
};

char _license[] SEC("license") = "GPL";
