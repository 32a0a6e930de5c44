/* SPDX-License-Identifier: GPL-2.0-only */
/* block.h - a block of 1 GiB, and text without an end to fill it. */
#ifndef BLOCK_H
#define BLOCK_H

#include "hostile.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, GIB);
} block SEC(".maps");

/* The block full of 'x', doubled until it is; NULL where there is none. */
static inline __attribute__((always_inline)) char *filled_block(void)
{
	u32 key = 0, length = 64;
	char *bytes = bpf_map_lookup_elem(&block, &key);

	if (!bytes)
		return NULL;
	for (u32 at = 0; at < 64; at++)
		bytes[at] = 'x';
	for (; length < GIB; length *= 2)
		bpf_probe_read_kernel(bytes + length, length, bytes);
	return bytes;
}

#endif
