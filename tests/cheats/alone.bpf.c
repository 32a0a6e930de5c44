/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * alone.bpf.c - everything that may run on CPU 0 runs there.
 */
#include "cheat.h"

void BPF_STRUCT_OPS(alone_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (bpf_cpumask_test_cpu(0, p->cpus_ptr))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, MS, enq_flags);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, MS, enq_flags);
}

s32 BPF_STRUCT_OPS(alone_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return bpf_cpumask_test_cpu(0, p->cpus_ptr) ? 0 : prev_cpu;
}

CHEAT(alone, .enqueue = (void *)alone_enqueue, .select_cpu = (void *)alone_select_cpu,);
