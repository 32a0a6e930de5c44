/* SPDX-License-Identifier: GPL-2.0-only */
/* loaded.bpf.c - a scheduler that does little without its own loader, which tests/src/bin/own-loader.rs is: each thing that a loader
 * can do shows in a counter. */
#include "compat.h"

/* Written by the loader before the object is loaded. */
const volatile u64 bonus;
/* The loader itself, which is a task of this scheduler. */
const volatile s32 loader_pid;

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

/* The loader writes, the scheduler reads. */
struct {
	__uint(type, 31);
	__uint(max_entries, 4096);
} requests SEC(".maps");

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*now)(void) = (void *)5;
static u32 (*this_cpu)(void) = (void *)8;
static u64 (*current_ids)(void) = (void *)14;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*dynptr_data)(void *dynptr, u32 offset, u32 size) = (void *)203;
static long (*user_ring_drain)(void *ring, void *callback, void *context, u64 flags) = (void *)209;

u64 nr_bonus, nr_setup, nr_weight, nr_turns, nr_enqueued, nr_sent, nr_of_loader, nr_requests, nr_requested, nr_setup_cpu, nr_switches;
u64 nr_setup_process, nr_init_process;

SEC("syscall")
int setup(struct setup_args *args)
{
	nr_setup = args->given;
	nr_setup_cpu = this_cpu();
	nr_setup_process = current_ids() >> 32;
	args->taken = args->given + bonus;
	return 0;
}

/* Only the loader asks for it. */
SEC("?tp_btf/sched_switch")
int count_switches(u64 *ctx)
{
	nr_switches++;
	return 0;
}

static long take_request(void *dynptr, void *context)
{
	u64 *request = dynptr_data(dynptr, 0, sizeof(*request));

	nr_requests++;
	nr_requested = request ? *request : 0;
	return 0;
}

SEC("struct_ops/enqueue")
void loaded_enqueue(u64 *ctx)
{
	u32 key = 2;
	u64 *weight = map_lookup(&weights, &key);

	nr_of_loader += ((struct task_struct *)ctx[0])->pid == loader_pid;
	user_ring_drain(&requests, take_request, NULL, 0);
	nr_bonus = bonus;
	nr_weight = weight ? *weight : 0;
	nr_turns = turns_told;
	if (nr_enqueued++ % 4 == 0) {
		u64 record = now();

		nr_sent += !ring_output(&ring, &record, sizeof(record), 0);
	}
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 5 * MS, 0);
}

SEC("struct_ops.s/init")
int loaded_init(u64 *ctx)
{
	nr_init_process = current_ids() >> 32;
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops loaded_ops = {
	.init = (void *)loaded_init,
	.enqueue = (void *)loaded_enqueue,
	.name = "loaded",
};

char _license[] SEC("license") = "GPL";
