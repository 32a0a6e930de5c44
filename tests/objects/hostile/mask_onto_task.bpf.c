/* SPDX-License-Identifier: GPL-2.0-only */
/* mask_onto_task.bpf.c - has the cpumask functions write onto a task and a run queue. */
#include "hostile.h"

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct rq *rq = scx_bpf_locked_rq();
	static char changed[] = "a task was written over";
	u64 none = 0;
	int pid = p->pid;

	for (u32 at = 0; at < 256; at += 64)
		bpf_cpumask_setall((void *)((char *)p + at));
	bpf_cpumask_copy((void *)p, (void *)rq);
	if (rq)
		bpf_cpumask_setall((void *)rq);
	if (p->pid != pid)
		scx_bpf_error_bstr(changed, &none, 0);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
