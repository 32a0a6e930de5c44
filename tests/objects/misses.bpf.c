/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * misses.bpf.c - complains that its loader has not set quantum_us. Once that is set it stalls, with a message that has
 * the name of another variable ("failed to run").
 */
#include "compat.h"

const volatile u32 quantum_us;
const volatile u32 run;

SEC("struct_ops/enqueue")
void misses_enqueue(u64 *ctx)
{
	static char text[] = "quantum_us is 0";
	struct task_struct *p = (void *)ctx[0];
	u64 none = 0;

	if (!quantum_us)
		scx_bpf_error_bstr(text, &none, 0);
	if (p->flags & PF_KTHREAD || run)
		scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops misses_ops = {
	.enqueue = (void *)misses_enqueue,
	.timeout_ms = 2000,
	.name = "misses",
};

char _license[] SEC("license") = "GPL";
