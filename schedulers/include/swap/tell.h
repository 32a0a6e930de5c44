/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/tell.h - at the end: which task is trusted to provide what.
 */
#ifndef SCHEDLAB_SWAP_TELL_H
#define SCHEDLAB_SWAP_TELL_H

#include "swap/table.h"

/* Rows of the table; what is more is left out. Chosen. */
#define TRUST_ROWS 512

/* A provider that is, or up to its exit was, remembered. */
struct swap_trust {
	s32 pid;
	u32 confidence;
	enum swap_type type;	/* SWAP_OTHER: named by the call that waits, with its first argument as number */
	u32 side;		/* SIDE_* */
	u32 call;
	u32 where;		/* process, device or ports, by type */
	u64 number;
};

struct swap_trust swap_trusted[TRUST_ROWS] TABLE("who is trusted to provide which resource");

static __always_inline void swap_tell_entry(struct swap_trust *row, provider_t *entry)
{
	resource_t *resource = entry->resource;
	u32 kind = resource->kind >> 32;

	row->pid = entry->pid;
	row->confidence = entry->confidence;
	row->type = swap_type_of(resource->kind);
	row->side = kind & SWAP_NAMED ? kind & 0xf : 0;
	row->call = kind & SWAP_NAMED ? 0 : kind - 1;
	row->where = resource->kind;
	row->number = resource->what;
}

/* Fills the table. The scheduler has left. */
static __noinline int swap_tell(void)
{
	u32 i, j, row = zero;
	resource_t *resource;

	use_arena();
	for (i = zero; i < SWAP_BUCKETS * SWAP_WAYS && can_loop; i++) {
		resource = &swap_table->bucket[i / SWAP_WAYS].way[i % SWAP_WAYS];
		if (!resource->kind)
			continue;
		for (j = zero; j < resource->nr_providers && j < SWAP_PROVIDERS && can_loop; j++) {
			hide_value(row);
			if (!resource->provider[j].task || row >= TRUST_ROWS)
				continue;
			swap_tell_entry(&swap_trusted[row], &resource->provider[j]);
			row++;
		}
	}
	return 0;
}

#endif
