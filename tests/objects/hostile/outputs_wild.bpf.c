/* SPDX-License-Identifier: GPL-2.0-only */
/* outputs_wild.bpf.c - names kernel objects and no memory at all as places for results. */
#include "hostile.h"

static u32 turn;

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	static char changed[] = "a task was written over";
	u64 none = 0;
	int pid = p->pid;

	switch (turn++) {
	case 0:
		scx_bpf_events((void *)((char *)p + 64), 1 << 20);
		break;
	case 1:
		scx_bpf_cid_topo(0, (void *)p, ~0ull);
		break;
	case 2:
		bpf_cpumask_populate((void *)p, p, 64);
		break;
	case 3:
		scx_bpf_events((void *)0xdeadbeef000, ~0ull);
		break;
	default:
		scx_bpf_cid_topo(0, (void *)8, 32);
	}
	if (p->pid != pid)
		scx_bpf_error_bstr(changed, &none, 0);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
