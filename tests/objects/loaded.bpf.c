/* SPDX-License-Identifier: GPL-2.0-only */
/* loaded.bpf.c - a scheduler that does little without its own loader, which tests/src/bin/own-loader.rs is: each thing that a loader
 * can do shows in a counter. */
#include "compat.h"

/* Written by the loader before the object is loaded. */
const volatile u64 bonus;

/* Written while it runs; the only one of its section. */
volatile u64 turns_told = 1;

struct setup_args {
	u64 given;
	u64 taken;
};

struct {
	__uint(type, 1);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} weights SEC(".maps");

struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} ring SEC(".maps");

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*now)(void) = (void *)5;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

u64 nr_bonus, nr_setup, nr_weight, nr_turns, nr_enqueued, nr_sent;

SEC("syscall")
int setup(struct setup_args *args)
{
	nr_setup = args->given;
	args->taken = args->given + bonus;
	return 0;
}

SEC("struct_ops/enqueue")
void loaded_enqueue(u64 *ctx)
{
	u32 key = 2;
	u64 *weight = map_lookup(&weights, &key);

	nr_bonus = bonus;
	nr_weight = weight ? *weight : 0;
	nr_turns = turns_told;
	if (nr_enqueued++ % 4 == 0) {
		u64 record = now();

		nr_sent += !ring_output(&ring, &record, sizeof(record), 0);
	}
	dsq_insert((void *)ctx[0], DSQ_LOCAL, 5 * MS, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops loaded_ops = {
	.enqueue = (void *)loaded_enqueue,
	.name = "loaded",
};

char _license[] SEC("license") = "GPL";
