/* SPDX-License-Identifier: GPL-2.0-only */
/* compare_gib.bpf.c - compares half a gibibyte of equal text, again and again. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, GIB);
} block SEC(".maps");

static long compare(u64 pass, void *bytes)
{
	char *first = *(char **)bytes;

	return bpf_strncmp(first, GIB / 2, first + GIB / 2);
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	u32 key = 0, length = 64;
	char *bytes = bpf_map_lookup_elem(&block, &key);

	if (bytes) {
		for (u32 at = 0; at < 64; at++)
			bytes[at] = 'x';
		for (; length < GIB; length *= 2)
			bpf_probe_read_kernel(bytes + length, length, bytes);
		bpf_loop(1000, compare, &bytes, 0);
	}
	dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
