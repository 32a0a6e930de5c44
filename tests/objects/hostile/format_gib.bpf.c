/* SPDX-License-Identifier: GPL-2.0-only */
/* format_gib.bpf.c - prints with a format of 1 GiB that never ends. */
#include "block.h"

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	char *bytes = filled_block();

	if (bytes) {
		for (u32 times = 0; times < 100; times++)
			bpf_trace_printk(bytes, GIB);
	}
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
