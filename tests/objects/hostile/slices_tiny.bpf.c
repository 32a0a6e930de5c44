/* SPDX-License-Identifier: GPL-2.0-only */
/* slices_tiny.bpf.c - gives every task a slice of one nanosecond. */
#include "hostile.h"

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 1, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
