/* SPDX-License-Identifier: GPL-2.0-only */
/* arena_storm.bpf.c - takes and frees large parts of an arena of 4 GiB, and touches all pages. */
#include "hostile.h"

#define __arena __attribute__((address_space(1)))
#define PAGES (1 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PAGES);
} arena SEC(".maps");

static long storm(u64 pass, void *context)
{
	void __arena *all = bpf_arena_alloc_pages(&arena, NULL, PAGES / 2, NUMA_NO_NODE, 0);

	if (all)
		bpf_arena_free_pages(&arena, all, PAGES / 2);
	all = bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	if (all)
		*(u64 __arena *)all = pass;
	/* Every other page is free. */
	if (pass % 2)
		bpf_arena_free_pages(&arena, all, 1);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, storm, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
