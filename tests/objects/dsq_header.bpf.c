/* SPDX-License-Identifier: GPL-2.0-only */
/* dsq_header.bpf.c - uses what dsq.h has and the templates do not; ends itself with the 20th task. */
#include "dsq.h"

#define OWN 7

u64 nr_queued COUNTS("tasks on the queue of its own");

SEC("struct_ops/enqueue")
void header_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	nr_queued++;
	if (nr_queued == 1)
		bpf_printk("begins");
	if (nr_queued == 2)
		bpf_printk("task %d of CPU %d, %d waiting", p->pid, scx_bpf_task_cpu(p),
			   scx_bpf_dsq_nr_queued(OWN));
	if (nr_queued == 20)
		scx_error("enough after %d tasks, %d of them here", nr_queued, now_ns() > 0);
	if (cpu >= 0)
		dsq_insert(p, DSQ_LOCAL_ON | cpu, SLICE_DFL, ctx[1]);
	else if (scx_bpf_task_running(p))
		dsq_insert(p, DSQ_GLOBAL, SLICE_DFL, ctx[1]);
	else
		dsq_insert_vtime(p, OWN, SLICE_DFL, p->scx.dsq_vtime, ctx[1]);
}

SEC("struct_ops/dispatch")
void header_dispatch(u64 *ctx)
{
	dsq_move_to_local(OWN);
}

SEC("struct_ops.s/init")
s32 header_init(u64 *ctx)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool first = bpf_cpumask_test_cpu(0, idle);

	scx_bpf_put_idle_cpumask(idle);
	if (!first && scx_bpf_nr_cpu_ids() == 0)
		scx_error("no CPU");
	return scx_bpf_create_dsq(OWN, NUMA_NO_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops header_ops = {
	.enqueue = (void *)header_enqueue,
	.dispatch = (void *)header_dispatch,
	.init = (void *)header_init,
	.name = "header",
};

char _license[] SEC("license") = "GPL";
