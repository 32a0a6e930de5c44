/* SPDX-License-Identifier: GPL-2.0-only */
/* constants_destroyed.bpf.c - destroys a number iterator that lies in its constants. */
#include "hostile.h"

static const volatile struct bpf_iter_num constants = { 0x1111111122222222 };

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	static char changed[] = "a constant has changed";
	u64 none = 0;

	bpf_iter_num_destroy((void *)&constants);
	if (constants.word != 0x1111111122222222)
		scx_bpf_error_bstr(changed, &none, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
