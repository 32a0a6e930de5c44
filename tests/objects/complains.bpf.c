/* SPDX-License-Identifier: GPL-2.0-only */
/* complains.bpf.c - reports an error of its own at the first task it sees. */
#include "compat.h"

SEC("struct_ops/enqueue")
void complains_enqueue(u64 *ctx)
{
	static char text[] = "this is enough";
	u64 none = 0;

	scx_bpf_error_bstr(text, &none, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops complains_ops = {
	.enqueue = (void *)complains_enqueue,
	.name = "complains",
};

char _license[] SEC("license") = "GPL";
