/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * late_timer.bpf.c - a timer releases wakees a thousand times too seldom.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* Tasks that have woken wait here until the timer moves them. */
#define HELD 1

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

/* The fault: the period should be 1 ms. */
#define PERIOD 900000000ULL

s32 BPF_STRUCT_OPS(late_timer_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(late_timer_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool held = enq_flags & SCX_ENQ_WAKEUP && !is_kthread(p);

	scx_bpf_dsq_insert(p, held ? HELD : SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(late_timer_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

static int release(void *map, int *key, struct timer *timer)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, HELD, 0) {
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SHARED, 0);
		wake_idle(p);
	}
	bpf_timer_start(&timer->timer, PERIOD, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(late_timer_init)
{
	struct timer *timer;
	u32 key = 0;
	s32 error = scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);

	error = error ?: scx_bpf_create_dsq(HELD, NUMA_NO_NODE);
	timer = bpf_map_lookup_elem(&timers, &key);
	if (error || !timer)
		return error ?: -ESRCH;
	bpf_timer_init(&timer->timer, &timers, 1);
	bpf_timer_set_callback(&timer->timer, release);
	return bpf_timer_start(&timer->timer, PERIOD, 0);
}

void BPF_STRUCT_OPS(late_timer_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(late_timer_ops,
	       .select_cpu = (void *)late_timer_select_cpu,
	       .enqueue = (void *)late_timer_enqueue,
	       .dispatch = (void *)late_timer_dispatch,
	       .init = (void *)late_timer_init,
	       .exit = (void *)late_timer_exit,
	       .name = "late_timer");
