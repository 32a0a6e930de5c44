/* SPDX-License-Identifier: GPL-2.0-only */
/* kick_flood.bpf.c - kicks a CPU eight million times from one callback. */
#include "hostile.h"

static long kick(u64 pass, void *context)
{
	scx_bpf_kick_cpu(pass % 2, SCX_KICK_PREEMPT);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, kick, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
