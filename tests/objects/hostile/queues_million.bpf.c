/* SPDX-License-Identifier: GPL-2.0-only */
/* queues_million.bpf.c - makes dispatch queues without end. */
#include "hostile.h"

static u64 next = 1;

static long make(u64 pass, void *context)
{
	scx_bpf_create_dsq(next++, -1);
	return 0;
}

SEC("struct_ops.s/init")
s32 hostile_init(u64 *ctx)
{
	for (u32 times = 0; times < 4; times++)
		bpf_loop(MOST_LOOPS, make, NULL, 0);
	return 0;
}

SCHEDULER(.init = (void *)hostile_init);
