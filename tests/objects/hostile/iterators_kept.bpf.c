/* SPDX-License-Identifier: GPL-2.0-only */
/* iterators_kept.bpf.c - opens iterators over a dispatch queue without end and closes none. */
#include "hostile.h"

static long open(u64 pass, void *context)
{
	struct bpf_iter_scx_dsq it;

	bpf_iter_scx_dsq_new(&it, 7, 0);
	bpf_iter_scx_dsq_next(&it);
	return 0;
}

SEC("struct_ops.s/init")
s32 hostile_init(u64 *ctx)
{
	scx_bpf_create_dsq(7, -1);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, open, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.init = (void *)hostile_init, .enqueue = (void *)hostile_enqueue);
