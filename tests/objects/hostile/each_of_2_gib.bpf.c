/* SPDX-License-Identifier: GPL-2.0-only */
/* each_of_2_gib.bpf.c - visits every element of an array of 2 GiB, at every enqueue. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256 * MIB);
	__type(key, u32);
	__type(value, u64);
} large SEC(".maps");

static long visit(void *map, u32 *key, u64 *value, void *context)
{
	*value = 1;
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_for_each_map_elem(&large, visit, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
