/* SPDX-License-Identifier: GPL-2.0-only */
/* by_node.bpf.c - asks for idle CPUs by node, or without one, as idle CPUs are tracked or not. */
#include "dsq.h"

s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *cpus_allowed, int node, u64 flags) __ksym;

/* The node asked for; -2 asks without one. */
const volatile s32 node = -2;

s64 nr_answer;

SEC("struct_ops/enqueue")
void by_node_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (node == -2)
		nr_answer = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	else
		nr_answer = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, 0);
	dsq_insert(p, DSQ_GLOBAL, SLICE_DFL, ctx[1]);
}

SEC(".struct_ops.link")
struct sched_ext_ops by_node_ops = {
	.enqueue = (void *)by_node_enqueue,
	.flags = SCX_OPS_ENQ_EXITING,
	.name = "by_node",
};

char _license[] SEC("license") = "GPL";
