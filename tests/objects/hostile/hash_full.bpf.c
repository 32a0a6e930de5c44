/* SPDX-License-Identifier: GPL-2.0-only */
/* hash_full.bpf.c - fills hash maps until guest memory has no room. */
#include "hostile.h"

struct value {
	char bytes[4096];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 400000);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct value);
} wide SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128 * MIB);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u64);
} many SEC(".maps");

static struct value value;
static u64 next;

static long fill(u64 pass, void *context)
{
	u64 key = next++;

	bpf_map_update_elem(&wide, &key, &value, 0);
	bpf_map_update_elem(&many, &key, &key, 0);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MIB, fill, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
