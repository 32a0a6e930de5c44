/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hotplug_affinity.bpf.c - a CPU that comes online gets a task whatever its affinity.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* The CPU that has come online last takes the load. */
static s32 fresh = -1;

s32 BPF_STRUCT_OPS(hotplug_affinity_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(hotplug_affinity_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* The fault: a task goes there whether it may or not. */
	if (fresh >= 0 && !is_kthread(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | fresh, SLICE, enq_flags);
		fresh = -1;
		return;
	}
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(hotplug_affinity_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

void BPF_STRUCT_OPS(hotplug_affinity_cpu_online, s32 cpu)
{
	fresh = cpu;
}

void BPF_STRUCT_OPS(hotplug_affinity_cpu_offline, s32 cpu)
{
	fresh = -1;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(hotplug_affinity_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(hotplug_affinity_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(hotplug_affinity_ops,
	       .select_cpu = (void *)hotplug_affinity_select_cpu,
	       .enqueue = (void *)hotplug_affinity_enqueue,
	       .dispatch = (void *)hotplug_affinity_dispatch,
	       .cpu_online = (void *)hotplug_affinity_cpu_online,
	       .cpu_offline = (void *)hotplug_affinity_cpu_offline,
	       .init = (void *)hotplug_affinity_init,
	       .exit = (void *)hotplug_affinity_exit,
	       .name = "hotplug_affinity");
