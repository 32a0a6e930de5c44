/* SPDX-License-Identifier: GPL-2.0-only */
/* hash_keys.bpf.c - fills a hash map whose keys are large and whose values are small. */
#include "hostile.h"

struct key {
	u64 number;
	char bytes[496];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 3 * MIB);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct key);
	__type(value, u64);
} wide SEC(".maps");

static struct key key;

static long fill(u64 pass, void *context)
{
	key.number++;
	bpf_map_update_elem(&wide, &key, &pass, 0);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MIB, fill, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
