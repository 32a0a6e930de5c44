/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * offline_queue.bpf.c - the queue of a CPU that leaves is not emptied.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* The queue of a CPU. */
static u64 queue_of(s32 cpu)
{
	return 100 + cpu;
}

s32 BPF_STRUCT_OPS(offline_queue_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(offline_queue_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, queue_of(scx_bpf_task_cpu(p)), SLICE, enq_flags);
}

void BPF_STRUCT_OPS(offline_queue_dispatch, s32 cpu, struct task_struct *prev)
{
	if (!scx_bpf_dsq_move_to_local(queue_of(cpu), 0))
		scx_bpf_dsq_move_to_local(SHARED, 0);
}

void BPF_STRUCT_OPS(offline_queue_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(offline_queue_cpu_offline, s32 cpu)
{
	/* The fault: what waits in the queue of @cpu stays there. */
}

s32 BPF_STRUCT_OPS_SLEEPABLE(offline_queue_init)
{
	s32 error = scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
	s32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (error)
			return error;
		error = scx_bpf_create_dsq(queue_of(cpu), NUMA_NO_NODE);
	}
	return error;
}

void BPF_STRUCT_OPS(offline_queue_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(offline_queue_ops,
	       .select_cpu = (void *)offline_queue_select_cpu,
	       .enqueue = (void *)offline_queue_enqueue,
	       .dispatch = (void *)offline_queue_dispatch,
	       .cpu_online = (void *)offline_queue_cpu_online,
	       .cpu_offline = (void *)offline_queue_cpu_offline,
	       .init = (void *)offline_queue_init,
	       .exit = (void *)offline_queue_exit,
	       .name = "offline_queue");
