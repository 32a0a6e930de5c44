/* SPDX-License-Identifier: GPL-2.0-only */
/* release_anything.bpf.c - releases a cpumask that is none: a task, its own data. */
#include "hostile.h"

static u64 data[64] = { [0 ... 63] = 0x0000000100000001 };

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	static char taken[] = "its own data came back as a new cpumask";
	u64 none = 0;

	bpf_cpumask_release((void *)data);
	if (bpf_cpumask_create() == (void *)data)
		scx_bpf_error_bstr(taken, &none, 0);
	bpf_cpumask_release((void *)p);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
