/* SPDX-License-Identifier: GPL-2.0-only */
/* compare_gib.bpf.c - compares half a gibibyte of equal text, again and again. */
#include "block.h"

static long compare(u64 pass, void *bytes)
{
	char *first = *(char **)bytes;

	return bpf_strncmp(first, GIB / 2, first + GIB / 2);
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	char *bytes = filled_block();

	if (bytes) {
		bpf_loop(1000, compare, &bytes, 0);
	}
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
