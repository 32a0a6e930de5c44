/* SPDX-License-Identifier: GPL-2.0-only */
/* callbacks_nested.bpf.c - calls back from callbacks, to the greatest depth there is. */
#include "hostile.h"

static long again(u64 pass, void *context)
{
	u64 room[32] = { pass };

	bpf_loop(16, again, room, 0);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(16, again, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
