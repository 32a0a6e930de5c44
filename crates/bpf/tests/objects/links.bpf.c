// SPDX-License-Identifier: MIT OR Apache-2.0
/* Everything that a linker joins: data sections, subprograms, callbacks, kernel functions, configuration. */
#include "mini.h"

extern int known_add(int a, int b) __ksym;
extern int known_flavour___v2(int a) __ksym __weak;
extern int absent_weak(int a) __ksym __weak;
extern int absent_strong(int a) __ksym __weak;
extern const u32 CONFIG_HZ __kconfig;
extern const bool CONFIG_SMP __kconfig __weak;
extern const bool CONFIG_ABSENT __kconfig __weak;
extern u32 LINUX_KERNEL_VERSION __kconfig;
extern const int kernel_counter __ksym;
extern const void absent_symbol __ksym __weak;

enum mode { SLOW = 1, FAST = 7 };

const volatile u32 slice_us = 20000;
const volatile bool use_absent = 0;
const volatile bool ask = 1;
const volatile s64 offset = -5;
const volatile enum mode mode = SLOW;
const volatile char label[8] = "none";
const volatile struct {
	u32 low;
	u32 weights[4];
} limits = { 3, { 1, 2, 3, 4 } };
const volatile u64 __SCX_SLICE_DFL;

u64 counters[4];
u32 initial = 77;
static u32 hidden = 5;
u64 out[32];

static __noinline u64 deeper(u64 a, u64 b)
{
	return a * 3 + b + hidden;
}

__noinline u64 global_sum(u64 a, u64 b)
{
	return deeper(a, b) + deeper(b, a);
}

static long count_up(u32 index, void *ctx)
{
	counters[1] += index;
	return index == 5;
}

SEC("syscall")
int run(u64 *ctx)
{
	out[0] = slice_us;
	out[1] = offset;
	out[2] = initial;
	out[3] = global_sum(ctx[0], ctx[1]);
	out[4] = loop(10, count_up, NULL, 0);
	out[5] = counters[1];
	out[6] = known_add(30, 12);
	out[7] = CONFIG_HZ;
	out[8] = CONFIG_SMP;
	out[9] = CONFIG_ABSENT;
	out[10] = LINUX_KERNEL_VERSION;
	out[11] = kernel_counter;
	out[12] = (u64)&absent_symbol;
	out[13] = mode;
	out[14] = limits.weights[2];
	out[15] = __SCX_SLICE_DFL;
	if (known_flavour___v2)
		out[16] = known_flavour___v2(4);
	if (absent_weak)
		out[17] = absent_weak(1);
	if (use_absent)
		out[18] = absent_strong(2);
	out[19] = label[0];
	counters[0]++;
	hidden++;
	return 0;
}

/* A weak function that is not there; with `ask` 0 it is called all the same. */
SEC("syscall")
int careless(u64 *ctx)
{
	if (ask && !absent_weak)
		return 0;
	return absent_weak(1);
}

/* Not loaded unless asked for. */
SEC("?tp_btf/sched_switch")
int optional(u64 *ctx)
{
	return absent_strong(3);
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	counters[2]++;
	return 0;
}
