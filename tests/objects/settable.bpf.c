/* SPDX-License-Identifier: GPL-2.0-only */
/* settable.bpf.c - variables of every kind that a loader can write, each shown by a counter. */
#include "compat.h"

enum pace { PACE_SLOW = 1, PACE_FAST = 9 };
enum wide_pace { WIDE_LOW, WIDE_HIGH = 0x123456789abull };

struct limits {
	s32 low;
	u64 high[3];
	struct {
		u8 deep;
		enum pace pace;
	} inner;
};

const volatile u8 byte = 1;
const volatile s16 half = -2;
const volatile bool flag;
const volatile enum pace pace = PACE_SLOW;
const volatile enum wide_pace wide_pace;
const volatile struct limits limits;
const volatile u32 grid[2][3];
const volatile bool flags[3];
const volatile u8 bytes[4];
const volatile u32 last_cpu = 1;
const volatile s16 tilt TUNABLE("how far it leans", "degrees", -5, 5) = 1;
const volatile u32 doses[2] TUNABLE_OR_0("what each one gets", "mg", 10, 20, "nothing") = {};
const volatile enum pace gait SETS("how it walks") = PACE_SLOW;
volatile u32 pulse TUNABLE("how often it beats", "", 40, 200) = 60;
const u64 folded = 5;
s64 in_data = -7;
u32 in_bss;
static volatile u32 hidden = 3;
u64 __underscored = 4;
u64 SEC(".data.per_cpu") per_cpu[1];

struct pair {
	u32 first;
	s16 second[2];
};

struct {
	__uint(type, 1);
	__uint(max_entries, 4);
	__type(key, enum pace);
	__type(value, struct pair);
} pairs SEC(".maps");

struct {
	__uint(type, 6);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} per_cpus SEC(".maps");

static void *(*map_lookup)(void *map, const void *key) = (void *)1;

s64 nr_first, nr_second, nr_per_cpu, nr_byte, nr_half, nr_flag, nr_pace, nr_wide_pace, nr_low, nr_high, nr_deep, nr_inner_pace, nr_grid, nr_flags, nr_bytes,
	nr_folded, nr_in_data, nr_in_bss, nr_hidden, nr_underscored, nr_last_cpu, nr_tilt, nr_doses, nr_gait, nr_pulse;

SEC("struct_ops/enqueue")
void settable_enqueue(u64 *ctx)
{
	enum pace fast = PACE_FAST;
	u32 one = 1;
	struct pair *pair = map_lookup(&pairs, &fast);
	u64 *own = map_lookup(&per_cpus, &one);

	if (pair) {
		nr_first = pair->first;
		nr_second = pair->second[1];
	}
	if (own)
		nr_per_cpu = *own;
	nr_byte = byte;
	nr_half = half;
	nr_flag = flag;
	nr_pace = pace;
	nr_wide_pace = wide_pace;
	nr_low = limits.low;
	nr_high = limits.high[2];
	nr_deep = limits.inner.deep;
	nr_inner_pace = limits.inner.pace;
	nr_grid = grid[0][0] + 10 * grid[1][1] + 100 * grid[1][2];
	nr_flags = flags[0] + 2 * flags[1] + 4 * flags[2];
	nr_bytes = bytes[0] + 1000 * bytes[3];
	nr_folded = folded;
	nr_in_data = in_data;
	nr_in_bss = in_bss;
	nr_hidden = hidden;
	nr_underscored = __underscored;
	nr_tilt = tilt;
	nr_doses = doses[0] + 100 * doses[1];
	nr_gait = gait;
	nr_pulse = pulse;
	nr_last_cpu = per_cpu[last_cpu];
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 20 * MS, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops settable_ops = {
	.enqueue = (void *)settable_enqueue,
	.name = "settable",
};

char _license[] SEC("license") = "GPL";
