/* SPDX-License-Identifier: GPL-2.0-only */
/* probe_gib.bpf.c - copies 1 GiB of kernel memory, again and again. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, GIB);
} block SEC(".maps");

static long read(u64 pass, void *bytes)
{
	bpf_probe_read_kernel(*(void **)bytes, GIB / 2, *(char **)bytes + GIB / 2);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	u32 key = 0;
	void *bytes = bpf_map_lookup_elem(&block, &key);

	if (bytes)
		bpf_loop(1000, read, &bytes, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
