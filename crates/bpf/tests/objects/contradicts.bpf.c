// SPDX-License-Identifier: MIT OR Apache-2.0
/* A map whose key has two sizes. */
#include "mini.h"

struct {
	__uint(type, 1);
	__uint(max_entries, 4);
	__uint(key_size, 8);
	__type(key, u32);
	__type(value, u64);
} pairs SEC(".maps");

SEC("syscall")
int run(u64 *ctx)
{
	return !map_lookup(&pairs, ctx);
}
