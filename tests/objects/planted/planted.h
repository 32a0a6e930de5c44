/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * planted.h - what the schedulers with a planted fault share: one queue for all CPUs, first come, first served.
 */
#pragma once

/* The queue that all CPUs take their tasks from. */
#define SHARED 0

/* The longest turn of a task. */
#define SLICE 5000000ULL

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

static inline bool is_kthread(struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

/* The wakee goes to an idle CPU at once. */
static inline s32 select_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE, 0);
	return cpu;
}

/* An idle CPU that @p may use looks at the queues. */
static inline void wake_idle(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}
