/* SPDX-License-Identifier: GPL-2.0-only */
/* ends.bpf.c - prints, and ends itself with the 20th task: with an error, or in good order with a code. */
#include <scx/common.bpf.h>

const volatile bool in_order;

u64 nr_queued;

UEI_DEFINE(uei);

void BPF_STRUCT_OPS(ends_enqueue, struct task_struct *p, u64 enq_flags)
{
	nr_queued++;
	if (nr_queued == 1)
		bpf_printk("begins");
	if (nr_queued == 2)
		bpf_printk("task %d of CPU %d, %d waiting", p->pid, scx_bpf_task_cpu(p),
			   scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL));
	if (nr_queued == 20 && in_order)
		scx_bpf_exit(7, "done with %s", p->comm);
	else if (nr_queued == 20)
		scx_bpf_error("enough after %llu tasks, %d of them here", nr_queued, 1);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(ends_dump, struct scx_dump_ctx *dctx)
{
	scx_bpf_dump_header();
	scx_bpf_dump("queued %llu", nr_queued);
}

void BPF_STRUCT_OPS(ends_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(ends_ops,
	       .enqueue = (void *)ends_enqueue,
	       .dump = (void *)ends_dump,
	       .exit = (void *)ends_exit,
	       .name = "ends");

char _license[] SEC("license") = "GPL";
