/* SPDX-License-Identifier: GPL-2.0-only */
/* locks_new.bpf.c - takes spin locks at ever new addresses, one at a time: every word of an array of 1 GiB. */
#include "hostile.h"

#define SLOTS (128 * MIB)

struct slot {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

static u32 next;

static long take(u64 pass, void *context)
{
	u32 key = next++ % SLOTS;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (slot) {
		bpf_spin_lock(&slot->lock);
		bpf_spin_unlock(&slot->lock);
	}
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(2 * MIB, take, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
