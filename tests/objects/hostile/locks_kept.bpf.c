/* SPDX-License-Identifier: GPL-2.0-only */
/* locks_kept.bpf.c - takes spin locks at ever new addresses and gives none back. */
#include "hostile.h"

#define LOCKS (4 * MIB)

struct slot {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOCKS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

static long take(u64 pass, void *context)
{
	u32 key = pass;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (slot)
		bpf_spin_lock(&slot->lock);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(LOCKS, take, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
