/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wrong_queue.bpf.c - a task with one CPU waits in the queue of another CPU.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* The queue of a CPU. */
static u64 queue_of(s32 cpu)
{
	return 100 + cpu;
}

s32 BPF_STRUCT_OPS(wrong_queue_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(wrong_queue_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	/* The fault: a task that may use one CPU alone waits in the queue of the next one. */
	if (p->nr_cpus_allowed == 1 && !is_kthread(p))
		scx_bpf_dsq_insert(p, queue_of((cpu + 1) % scx_bpf_nr_cpu_ids()), SLICE, enq_flags);
	else
		scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(wrong_queue_dispatch, s32 cpu, struct task_struct *prev)
{
	if (!scx_bpf_dsq_move_to_local(queue_of(cpu), 0))
		scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(wrong_queue_init)
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

void BPF_STRUCT_OPS(wrong_queue_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(wrong_queue_ops,
	       .select_cpu = (void *)wrong_queue_select_cpu,
	       .enqueue = (void *)wrong_queue_enqueue,
	       .dispatch = (void *)wrong_queue_dispatch,
	       .init = (void *)wrong_queue_init,
	       .exit = (void *)wrong_queue_exit,
	       .name = "wrong_queue");
