/* SPDX-License-Identifier: GPL-2.0-only */
/* each_nested.bpf.c - visits a large hash from within visits to it, and changes it under way. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MIB);
	__type(key, u32);
	__type(value, u64);
} large SEC(".maps");

static u32 depth;

static long visit(void *map, u32 *key, u64 *value, void *context)
{
	u32 other = *key + 7;
	u64 zero = 0;

	bpf_map_delete_elem(map, key);
	bpf_map_update_elem(map, &other, &zero, 0);
	if (depth < 6) {
		depth++;
		bpf_for_each_map_elem(map, visit, NULL, 0);
		depth--;
	}
	return 0;
}

static long fill(u64 pass, void *context)
{
	u32 key = pass;

	bpf_map_update_elem(&large, &key, &pass, 0);
	return 0;
}

SEC("struct_ops.s/init")
s32 hostile_init(u64 *ctx)
{
	bpf_loop(MIB / 2, fill, NULL, 0);
	bpf_for_each_map_elem(&large, visit, NULL, 0);
	return 0;
}

SCHEDULER(.init = (void *)hostile_init);
