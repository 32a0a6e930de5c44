/* SPDX-License-Identifier: GPL-2.0-only */
/* reenqueue_storm.bpf.c - has its tasks come back to it instead of running. */
#include "hostile.h"

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
	scx_bpf_reenqueue_local___v2___new();
}

SEC("struct_ops/dispatch")
void hostile_dispatch(u64 *ctx)
{
	scx_bpf_reenqueue_local___v2___new();
}

SEC("struct_ops/running")
void hostile_running(u64 *ctx)
{
	scx_bpf_reenqueue_local___v2___new();
}

SCHEDULER(.enqueue = (void *)hostile_enqueue, .dispatch = (void *)hostile_dispatch,
	  .running = (void *)hostile_running);
