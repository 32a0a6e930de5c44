/* SPDX-License-Identifier: GPL-2.0-only */
/* queue_flood.bpf.c - pushes into a queue of 1 GiB, replacing what is in there. */
#include "hostile.h"

#define BPF_EXIST 2

struct value {
	char bytes[MIB];
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, struct value);
} queue SEC(".maps");

static struct value value;

static long push(u64 pass, void *context)
{
	bpf_map_push_elem(&queue, &value, BPF_EXIST);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, push, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
