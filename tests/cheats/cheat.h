/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cheat.h - what the cheating schedulers have in common: one shared queue, from which every CPU takes.
 */
#ifndef CHEAT_H
#define CHEAT_H

#include <scx/common.bpf.h>

#define SHARED 0
#define MS 1000000ULL

UEI_DEFINE(uei);

char _license[] SEC("license") = "GPL";

static u64 began;

/* Time since the first call. */
static u64 elapsed(void)
{
	u64 now = bpf_ktime_get_ns();

	if (!began)
		began = now;
	return now - began;
}

/* True for a task that computes without sleeping: it is queued although it was not woken. */
static bool is_hog(u64 enq_flags)
{
	return !(enq_flags & SCX_ENQ_WAKEUP);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cheat_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE) ?: scx_bpf_create_dsq(SHARED + 1, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(cheat_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

#define CHEAT(label, ...)                          \
	SCX_OPS_DEFINE(label##_ops,                \
		       __VA_ARGS__                 \
		       .init = (void *)cheat_init, \
		       .exit = (void *)cheat_exit, \
		       .name = #label)

#endif
