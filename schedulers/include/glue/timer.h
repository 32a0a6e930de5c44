/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/timer.h - calls timer_expired() at load, and then whenever it asks for it.
 */
#ifndef SCHEDLAB_GLUE_TIMER_H
#define SCHEDLAB_GLUE_TIMER_H

#include "verbs.h"

#ifdef timer_expired

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timers SEC(".maps");

static int run_timer(void *map, u32 *key, struct timer_slot *slot)
{
	use_arena();
	bpf_timer_start(&slot->timer, timer_expired(bpf_ktime_get_ns()), BPF_F_TIMER_ABS);
	return 0;
}

/* Negative errno if the kernel has no timer for us. */
static __always_inline s32 start_timer(void)
{
	struct timer_slot *slot;
	u32 key = 0;

	slot = bpf_map_lookup_elem(&timers, &key);
	if (!slot || bpf_timer_init(&slot->timer, &timers, CLOCK_MONOTONIC))
		return -ENOMEM;
	if (bpf_timer_set_callback(&slot->timer, run_timer))
		return -EINVAL;
	return bpf_timer_start(&slot->timer, timer_expired(bpf_ktime_get_ns()), BPF_F_TIMER_ABS);
}

#else
#define start_timer() 0
#endif

#endif
