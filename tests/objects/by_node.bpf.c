/* SPDX-License-Identifier: GPL-2.0-only */
/* by_node.bpf.c - asks for idle CPUs by node, or without one, as idle CPUs are tracked or not. */
#include <scx/common.bpf.h>

/* The node asked for; -2 asks without one. */
const volatile s32 node = -2;

s64 nr_answer;

void BPF_STRUCT_OPS(by_node_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (node == -2)
		nr_answer = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	else
		nr_answer = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, 0);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(by_node_ops,
	       .enqueue = (void *)by_node_enqueue,
	       .flags = SCX_OPS_ENQ_EXITING,
	       .name = "by_node");

char _license[] SEC("license") = "GPL";
