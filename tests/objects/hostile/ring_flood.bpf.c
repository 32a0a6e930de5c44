/* SPDX-License-Identifier: GPL-2.0-only */
/* ring_flood.bpf.c - floods a ring buffer with large records, and reserves some that it never submits. */
#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * MIB);
} ring SEC(".maps");

static char record[1 << 20];

static long send(u64 pass, void *context)
{
	bpf_ringbuf_output(&ring, record, sizeof(record), 0);
	if (pass % 64 == 0)
		bpf_ringbuf_reserve(&ring, 8, 0);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, send, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
