/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sound.bpf.c - the scheduler in which the others have a fault, without one.
 */
#include <scx/common.bpf.h>
#include "planted.h"

s32 BPF_STRUCT_OPS(sound_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(sound_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(sound_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

void BPF_STRUCT_OPS(sound_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(sound_cpu_offline, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sound_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(sound_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(sound_ops,
	       .select_cpu = (void *)sound_select_cpu,
	       .enqueue = (void *)sound_enqueue,
	       .dispatch = (void *)sound_dispatch,
	       .cpu_online = (void *)sound_cpu_online,
	       .cpu_offline = (void *)sound_cpu_offline,
	       .init = (void *)sound_init,
	       .exit = (void *)sound_exit,
	       .name = "sound");
