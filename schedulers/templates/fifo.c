/* SPDX-License-Identifier: GPL-2.0-only */
/* NAME.bpf.c - first come, first served: one queue for all CPUs. */
#include <scx/common.bpf.h>

/* What reports and loaders of schedlab read; another tree's headers do not have it. */
#ifndef TUNABLE
#define TUNABLE(...)
#define COUNTS(meaning)
#endif

/* The queue that all CPUs take their tasks from. */
#define SHARED 0

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5000000;

u64 nr_queued COUNTS("tasks that were put on the queue");

UEI_DEFINE(uei);

/*
 * @p comes to the queue from a CPU on which its turn is over, or on which a higher class runs. No CPU was looked for, and one that
 * idles does not see the queue unless it is woken.
 */
static void wake_idle_cpu(struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (__COMPAT_is_enq_cpu_selected(enq_flags))
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	__sync_fetch_and_add(&nr_queued, 1);
	scx_bpf_dsq_insert(p, SHARED, slice_ns, enq_flags);
	wake_idle_cpu(p, enq_flags);
}

void BPF_STRUCT_OPS(NAME_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(NAME_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(NAME_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(NAME_ops,
	       .enqueue = (void *)NAME_enqueue,
	       .dispatch = (void *)NAME_dispatch,
	       .init = (void *)NAME_init,
	       .exit = (void *)NAME_exit,
	       .name = "NAME");

char _license[] SEC("license") = "GPL";
