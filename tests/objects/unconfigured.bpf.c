/* SPDX-License-Identifier: GPL-2.0-only */
/* unconfigured.bpf.c - has constants that its own loader would set, and a program that it would run. */
#include "compat.h"

const volatile u32 quantum_us;
const volatile u64 weights[4];
const volatile bool verbose;
const volatile u64 limit = 7;

u64 nr_enqueues;

SEC("struct_ops/enqueue")
void unconfigured_enqueue(u64 *ctx)
{
	u64 slice = quantum_us ? quantum_us * 1000ull : limit * MS + weights[1];

	if (!verbose)
		__sync_fetch_and_add(&nr_enqueues, 1);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, slice, 0);
}

SEC("syscall")
int set_up(void *args)
{
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops unconfigured_ops = {
	.enqueue = (void *)unconfigured_enqueue,
	.name = "unconfigured",
};

char _license[] SEC("license") = "GPL";
