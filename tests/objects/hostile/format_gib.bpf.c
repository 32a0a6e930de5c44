/* SPDX-License-Identifier: GPL-2.0-only */
/* format_gib.bpf.c - prints with a format of 1 GiB that never ends. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, GIB);
} block SEC(".maps");

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	u32 key = 0, length = 64;
	char *bytes = bpf_map_lookup_elem(&block, &key);

	if (bytes) {
		for (u32 at = 0; at < 64; at++)
			bytes[at] = 'x';
		/* Doubled until the block is full. */
		for (; length < GIB; length *= 2)
			bpf_probe_read_kernel(bytes + length, length, bytes);
		for (u32 times = 0; times < 100; times++)
			bpf_trace_printk(bytes, GIB);
	}
	dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
