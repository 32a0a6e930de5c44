/* SPDX-License-Identifier: GPL-2.0-only */
/* iterator_forged.bpf.c - passes an iterator over a dispatch queue that no kernel has made. */
#include "hostile.h"

SEC("struct_ops/dispatch")
void hostile_dispatch(u64 *ctx)
{
	struct bpf_iter_scx_dsq it = { .words = { 0x12345678 } };
	struct task_struct *p = (void *)ctx[1];

	scx_bpf_dsq_move_set_slice(&it, 1);
	if (p)
		scx_bpf_dsq_move(&it, p, 0, 0);
	bpf_iter_scx_dsq_next(&it);
	bpf_iter_scx_dsq_destroy(&it);
}

SCHEDULER(.dispatch = (void *)hostile_dispatch);
