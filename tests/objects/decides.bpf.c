/* SPDX-License-Identifier: GPL-2.0-only */
/* decides.bpf.c - a hook that is not modelled and writes what the scheduler reads. */
#include "compat.h"

u64 slice_now = 20 * MS;

static __attribute__((noinline)) void halve(void)
{
	slice_now /= 2;
}

SEC("fentry/do_nanosleep")
int on_sleep(u64 *ctx)
{
	halve();
	return 0;
}

SEC("struct_ops/enqueue")
void decides_enqueue(u64 *ctx)
{
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, slice_now, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops decides_ops = {
	.enqueue = (void *)decides_enqueue,
	.name = "decides",
};

char _license[] SEC("license") = "GPL";
