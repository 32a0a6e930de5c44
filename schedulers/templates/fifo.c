/* SPDX-License-Identifier: GPL-2.0-only */
/* NAME.bpf.c - first come, first served: one queue for all CPUs. */
#include "dsq.h"

/* The queue that all CPUs take their tasks from. */
#define SHARED 0

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5 * MS;

u64 nr_queued COUNTS("tasks that were put on the queue");

SEC("struct_ops/enqueue")
void NAME_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 enq_flags = ctx[1];

	__sync_fetch_and_add(&nr_queued, 1);
	dsq_insert(p, SHARED, slice_ns, enq_flags);
}

SEC("struct_ops/dispatch")
void NAME_dispatch(u64 *ctx)
{
	dsq_move_to_local(SHARED);
}

SEC("struct_ops.s/init")
s32 NAME_init(u64 *ctx)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops NAME_ops = {
	.enqueue = (void *)NAME_enqueue,
	.dispatch = (void *)NAME_dispatch,
	.init = (void *)NAME_init,
	.name = "NAME",
};

char _license[] SEC("license") = "GPL";
