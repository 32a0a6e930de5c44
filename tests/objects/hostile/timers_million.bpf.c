/* SPDX-License-Identifier: GPL-2.0-only */
/* timers_million.bpf.c - arms a million timers, all due at once and again each time. */
#include "hostile.h"

struct slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MIB);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

static int expired(void *map, u32 *key, struct slot *slot)
{
	bpf_timer_start(&slot->timer, 1000, 0);
	return 0;
}

static long arm(u64 pass, void *context)
{
	u32 key = pass;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (slot) {
		bpf_timer_init(&slot->timer, &slots, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&slot->timer, expired);
		bpf_timer_start(&slot->timer, 1000, 0);
	}
	return 0;
}

SEC("struct_ops.s/init")
s32 hostile_init(u64 *ctx)
{
	bpf_loop(MIB, arm, NULL, 0);
	return 0;
}

SCHEDULER(.init = (void *)hostile_init);
