/* SPDX-License-Identifier: GPL-2.0-only */
/* two.bpf.c - two schedulers in one object, told apart by what they count. */
#include "compat.h"

s64 nr_short, nr_long;

SEC("struct_ops/enqueue")
void short_enqueue(u64 *ctx)
{
	__sync_fetch_and_add(&nr_short, 1);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, MS, 0);
}

SEC("struct_ops/enqueue")
void long_enqueue(u64 *ctx)
{
	__sync_fetch_and_add(&nr_long, 1);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 50 * MS, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops short_ops = {
	.enqueue = (void *)short_enqueue,
	.name = "brief",
};

SEC(".struct_ops.link")
struct sched_ext_ops long_ops = {
	.enqueue = (void *)long_enqueue,
	.name = "lengthy",
};

char _license[] SEC("license") = "GPL";
