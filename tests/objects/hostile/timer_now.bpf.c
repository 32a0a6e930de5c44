/* SPDX-License-Identifier: GPL-2.0-only */
/* timer_now.bpf.c - has a timer that is due again at once, without end. */
#include "hostile.h"

struct slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

static int expired(void *map, u32 *key, struct slot *slot)
{
	bpf_timer_start(&slot->timer, 0, BPF_F_TIMER_ABS);
	return 0;
}

SEC("struct_ops.s/init")
s32 hostile_init(u64 *ctx)
{
	u32 key = 0;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (!slot)
		return -EINVAL;
	bpf_timer_init(&slot->timer, &slots, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&slot->timer, expired);
	return bpf_timer_start(&slot->timer, 0, 0);
}

SCHEDULER(.init = (void *)hostile_init);
