/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stale_mask.bpf.c - a CPU looks at the affinity of a task, and takes it later.
 */
#include <scx/common.bpf.h>
#include "planted.h"

/* The tasks that wait, by pid. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__type(value, s32);
} waiting SEC(".maps");

/* What a CPU does before it decides, as statistics would. */
static u64 nr_examined;

s32 BPF_STRUCT_OPS(stale_mask_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_idle(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(stale_mask_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (bpf_map_push_elem(&waiting, &pid, 0))
		scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);
	wake_idle(p);
}

void BPF_STRUCT_OPS(stale_mask_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	bool may_run;
	s32 pid, i;

	bpf_for(i, 0, 64) {
		if (bpf_map_pop_elem(&waiting, &pid))
			break;
		p = bpf_task_from_pid(pid);
		if (!p)
			continue;
		may_run = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
		__sync_fetch_and_add(&nr_examined, 1);
		/* The fault: @p may have lost @cpu since the look. */
		scx_bpf_dsq_insert(p, may_run ? SCX_DSQ_LOCAL_ON | cpu : SHARED, SLICE, 0);
		if (!may_run)
			wake_idle(p);
		bpf_task_release(p);
		if (may_run)
			return;
	}
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(stale_mask_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(stale_mask_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(stale_mask_ops,
	       .select_cpu = (void *)stale_mask_select_cpu,
	       .enqueue = (void *)stale_mask_enqueue,
	       .dispatch = (void *)stale_mask_dispatch,
	       .init = (void *)stale_mask_init,
	       .exit = (void *)stale_mask_exit,
	       .name = "stale_mask");
