/* SPDX-License-Identifier: GPL-2.0-only */
/* cpumasks_kept.bpf.c - makes cpumasks without end and releases none. */
#include "hostile.h"

static long make(u64 pass, void *context)
{
	bpf_cpumask_create();
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, make, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
