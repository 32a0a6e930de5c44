/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * driver.bpf.c - a scheduler that does what a script in its memory says.
 *
 * The fuzz target `boundary` writes the script: steps that call any kernel
 * function or helper (calls.h) with arguments of the right or of a wrong type,
 * or load and store. No verifier would take this object. Compiled with CID, it
 * is a scheduler in cid form.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef int s32;
typedef long long s64;
typedef unsigned long size_t;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __arena __attribute__((address_space(1)))
#define __noinline __attribute__((noinline))
#define NULL ((void *)0)

#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]

#include "calls.h"

struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

/* A value with parts that are the kernel's. */
struct part {
	struct bpf_spin_lock lock;
	u32 number;
	struct bpf_timer timer;
	struct task_struct __kptr *task;
	struct bpf_cpumask __kptr *mask;
	u64 numbers[4];
};

struct {
	__uint(type, 2); /* ARRAY */
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct part);
} parts SEC(".maps");

struct {
	__uint(type, 6); /* PERCPU_ARRAY */
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} percpu SEC(".maps");

struct {
	__uint(type, 1); /* HASH */
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct part);
} hash SEC(".maps");

struct {
	__uint(type, 9); /* LRU_HASH */
	__uint(max_entries, 4);
	__type(key, u64);
	__type(value, u64);
} lru SEC(".maps");

struct {
	__uint(type, 5); /* PERCPU_HASH */
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} percpu_hash SEC(".maps");

struct {
	__uint(type, 22); /* QUEUE */
	__uint(max_entries, 4);
	__type(value, u64);
} queue SEC(".maps");

struct {
	__uint(type, 23); /* STACK */
	__uint(max_entries, 4);
	__type(value, u64);
} pile SEC(".maps");

struct {
	__uint(type, 27); /* RINGBUF */
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, 29); /* TASK_STORAGE */
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, struct part);
} storage SEC(".maps");

struct {
	__uint(type, 32); /* CGRP_STORAGE */
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} cgroups SEC(".maps");

struct inner {
	__uint(type, 2);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} inner SEC(".maps");

struct {
	__uint(type, 12); /* ARRAY_OF_MAPS */
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = { .values = { &inner } };

struct {
	__uint(type, 33); /* ARENA */
	__uint(map_flags, 1 << 10);
	__uint(max_entries, 16);
} arena SEC(".maps");

/* One step; src/boundary/script.rs says what the numbers mean. */
struct step {
	u8 what;
	u8 to;
	u8 args[5];
	u8 then;
};

#define STEPS 128
#define KINDS 40
#define FUEL 48
/* Where the script lies in the object file: nothing else looks like this. */
#define SCRIPT_MARK 0x7363686564666c62ull

/* Written by the host before a run. */
struct {
	u64 constants[16];
	u8 starts[KINDS];
	/* Callbacks that insert their task into its CPU's own queue at the end. */
	u8 inserts;
	u8 padding[7];
	struct step steps[STEPS];
} script = { .constants = { SCRIPT_MARK } };

/* What a run leaves behind. */
u64 values[16];
void *kept[1];
u64 iterator[6];
u64 mask[16];
u8 scratch[4096];
u32 depth;
static const volatile u8 fixed[64] = "%d %s %llx %p and text that nobody changes";

static long looped(u64 pass, void *context);
static long visited(void *map, void *key, void *value, void *context);
static int expired(void *map, void *key, void *value);

static __noinline u64 pointer(u32 which, u64 *context, u64 *local)
{
	switch (which & 63) {
	case 0: return context[0];
	case 1: return context[1];
	case 2: return context[2];
	case 3: return (u64)local;
	case 4: return (u64)scratch;
	case 5: return (u64)(scratch + sizeof(scratch) - 4);
	case 6: return (u64)fixed;
	case 7: return (u64)values;
	case 8: return (u64)&parts;
	case 9: return (u64)&percpu;
	case 10: return (u64)&hash;
	case 11: return (u64)&lru;
	case 12: return (u64)&percpu_hash;
	case 13: return (u64)&queue;
	case 14: return (u64)&pile;
	case 15: return (u64)&ring;
	case 16: return (u64)&storage;
	case 17: return (u64)&cgroups;
	case 18: return (u64)&outer;
	case 19: return (u64)&arena;
	case 20: return (u64)&script;
	/* Iterators and saved flags are on the stack. */
	case 21: return (u64)local;
	case 22: return (u64)&local[6];
	case 23: return (u64)mask;
	case 24: return (u64)looped;
	case 25: return (u64)visited;
	case 26: return (u64)expired;
	case 27: return (u64)kept[0];
	case 28: return (u64)iterator;
	case 29: return (u64)&local[7];
	/* The mask in the value that was found last. */
	case 30: return values[12] + __builtin_offsetof(struct part, mask);
	case 31: return (u64)context;
	default: return (u64)&parts + which;
	}
}

/* An argument: an earlier result, a constant, a pointer, or one of these with an offset. */
static __noinline u64 argument(u8 code, u64 *context, u64 *local)
{
	if (code < 16)
		return values[code & 15];
	if (code < 32)
		return script.constants[code & 15];
	if (code < 64)
		return pointer(code & 31, context, local);
	if (code < 80)
		return values[code & 15] + __builtin_offsetof(struct part, timer);
	if (code < 96)
		return values[code & 15] + __builtin_offsetof(struct part, task);
	if (code < 112)
		return values[code & 15] + script.constants[1];
	if (code < 128)
		return pointer(code & 15, context, local) + script.constants[0];
	return (s64)code - 192;
}

/* Loads, stores and atomics of the program's own. */
static __noinline u64 access(u8 what, u64 where, u64 value)
{
	switch (what & 15) {
	case 0: return *(volatile u8 *)where;
	case 1: return *(volatile u16 *)where;
	case 2: return *(volatile u32 *)where;
	case 3: return *(volatile u64 *)where;
	case 4: *(volatile u8 *)where = value; return 0;
	case 5: *(volatile u16 *)where = value; return 0;
	case 6: *(volatile u32 *)where = value; return 0;
	case 7: *(volatile u64 *)where = value; return 0;
	case 8: return __sync_fetch_and_add((u64 *)where, value);
	case 9: return __sync_fetch_and_or((u32 *)where, value);
	case 10: return __sync_lock_test_and_set((u64 *)where, value);
	case 11: return __sync_val_compare_and_swap((u32 *)where, 0, value);
	case 12: return *(volatile u64 __arena *)where;
	case 13: *(volatile u64 __arena *)where = value; return 0;
	case 14: kept[0] = (void *)where; return where;
	default: return where + value;
	}
}

/* Codes of `what` beyond the calls. */
#define WHAT_ACCESS 239
#define WHAT_GOTO 254
#define WHAT_END 255

static __noinline u64 run(u32 kind, u64 *context)
{
	u64 local[8] = { kind };
	u64 result = 0;
	u32 at;

	if (kind >= KINDS || depth >= 6)
		return 0;
	depth++;
	at = script.starts[kind];
	for (u32 fuel = FUEL; fuel && at < STEPS; fuel--) {
		struct step *step = &script.steps[at++];
		u64 a = argument(step->args[0], context, local);
		u64 b = argument(step->args[1], context, local);
		u64 c = argument(step->args[2], context, local);
		u64 d = argument(step->args[3], context, local);
		u64 e = argument(step->args[4], context, local);

		if (step->what == WHAT_END)
			break;
		if (step->what == WHAT_GOTO)
			at = step->to;
		else if (step->what >= WHAT_ACCESS)
			result = access(step->what, a, b);
		else
			result = call(step->what, a, b, c, d, e);
		/* The upper places keep what they have: an object of one type, or what a script made of it. */
		if (step->what != WHAT_GOTO && ((step->to & 15) < 6 || result))
			values[step->to & 15] = result;
		if ((step->then & 1 && !result) || (step->then & 2 && result))
			at++;
	}
	depth--;
	return result;
}

static long looped(u64 pass, void *context)
{
	u64 words[4] = { pass, (u64)context };

	return run(32, words) & 1;
}

static long visited(void *map, void *key, void *value, void *context)
{
	u64 words[4] = { (u64)value, (u64)key, (u64)map };

	return run(33, words) & 1;
}

static int expired(void *map, void *key, void *value)
{
	u64 words[4] = { (u64)value, (u64)key, (u64)map };

	run(34, words);
	return 0;
}

static __noinline void insert(u64 *context)
{
	scx_bpf_dsq_insert___v2___x((void *)context[0], 0x8000000000000002ull, 50000, 0);
}

#define CALLBACK(kind, name, run)                        \
	SEC("struct_ops/" #name) u64 on_##name(u64 *ctx) \
	{                                                \
		return run(kind, ctx);                   \
	}

SEC("struct_ops/dispatch") void on_dispatch(u64 *ctx)
{
	run(3, ctx);
	if (script.inserts) {
		scx_bpf_dsq_move_to_local(7);
		scx_bpf_dsq_move_to_local(8);
	}
}

/* A callback that is about a task. */
static __noinline u64 run_task(u32 kind, u64 *ctx)
{
	values[9] = ctx[0];
	return run(kind, ctx);
}

SEC("struct_ops/enqueue") void on_enqueue(u64 *ctx)
{
	run_task(1, ctx);
	if (script.inserts)
		insert(ctx);
}

SEC("struct_ops.s/init") s32 on_init(u64 *ctx)
{
	u64 words[4] = {};
	u32 key = 0;

	/* An object of each type, for calls that want one. */
	scx_bpf_create_dsq(7, -1);
	scx_bpf_create_dsq(8, -1);
	values[6] = (u64)scx_bpf_cpu_curr(0);
	values[7] = (u64)scx_bpf_get_online_cpumask();
	values[8] = values[9] = (u64)scx_bpf_cpu_curr(1);
	values[11] = (u64)bpf_cpumask_create();
	values[12] = ((u64 (*)(void *, void *))1)(&parts, &key);
	key = 1;
	values[13] = ((u64 (*)(void *, void *))1)(&parts, &key);
	values[14] = (u64)bpf_cgroup_from_id(1);
	values[15] = bpf_arena_alloc_pages((u64)&arena, 0, 2, -1, 0);
	run(25, words);
	return 0;
}

SEC("struct_ops.s/init_task") s32 on_init_task(u64 *ctx)
{
	run_task(16, ctx);
	return 0;
}

SEC("struct_ops/select_cpu") s32 on_select_cpu(u64 *ctx)
{
	s32 chosen = run_task(0, ctx);

	return script.inserts ? (s32)ctx[1] : chosen;
}

SEC("struct_ops.s/cgroup_init") s32 on_cgroup_init(u64 *ctx)
{
	run(27, ctx);
	return 0;
}

CALLBACK(2, dequeue, run_task)
CALLBACK(4, tick, run_task)
CALLBACK(5, runnable, run_task)
CALLBACK(6, running, run_task)
CALLBACK(7, stopping, run_task)
CALLBACK(8, quiescent, run_task)
CALLBACK(9, yield, run_task)
CALLBACK(11, set_weight, run_task)
CALLBACK(12, set_cpumask, run_task)
CALLBACK(13, update_idle, run)
CALLBACK(14, cpu_acquire, run)
CALLBACK(15, cpu_release, run)
CALLBACK(17, exit_task, run_task)
CALLBACK(18, enable, run_task)
CALLBACK(19, disable, run_task)
CALLBACK(20, dump, run)
CALLBACK(21, dump_cpu, run)
CALLBACK(22, dump_task, run)
CALLBACK(26, exit, run)

SEC("tp_btf/sched_switch") u64 on_switch(u64 *ctx)
{
	return run(28, ctx + 1);
}

SEC("tp_btf/sched_wakeup") u64 on_wakeup(u64 *ctx)
{
	return run(29, ctx);
}

SEC("tp_btf/sys_enter") u64 on_sys_enter(u64 *ctx)
{
	return run(30, ctx);
}

#ifdef CID
#define CPU_OR_CID(cpu, cid) cid
struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*set_cmask)(struct task_struct *p, const struct scx_cmask *cmask);
	void (*dump_cid)(void *ctx, s32 cpu, bool idle);
	s32 (*cpuctl_init)(struct cgroup *cgrp, void *args);
	void (*enable)(struct task_struct *p, void *args);
#else
#define CPU_OR_CID(cpu, cid) cpu
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*dump_cpu)(void *ctx, s32 cpu, bool idle);
	s32 (*cgroup_init)(struct cgroup *cgrp, void *args);
	void (*cpu_acquire)(s32 cpu, void *args);
	void (*cpu_release)(s32 cpu, void *args);
	void (*enable)(struct task_struct *p);
#endif
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*update_idle)(s32 cpu, bool idle);
	s32 (*init_task)(struct task_struct *p, void *args);
	void (*exit_task)(struct task_struct *p, void *args);
	void (*disable)(struct task_struct *p);
	void (*dump)(void *ctx);
	void (*dump_task)(void *ctx, struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(void *info);
	u32 dispatch_max_batch;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 flags;
	char name[128];
};

#define MEMBER(name) .name = (void *)on_##name

SEC(".struct_ops.link")
struct CPU_OR_CID(sched_ext_ops, sched_ext_ops_cid) driver = {
	.CPU_OR_CID(select_cpu, select_cid) = (void *)on_select_cpu,
	.CPU_OR_CID(set_cpumask, set_cmask) = (void *)on_set_cpumask,
	.CPU_OR_CID(dump_cpu, dump_cid) = (void *)on_dump_cpu,
	.CPU_OR_CID(cgroup_init, cpuctl_init) = (void *)on_cgroup_init,
#ifndef CID
	MEMBER(cpu_acquire), MEMBER(cpu_release),
#endif
	MEMBER(enable), MEMBER(enqueue), MEMBER(dequeue), MEMBER(dispatch), MEMBER(tick),
	MEMBER(runnable), MEMBER(running), MEMBER(stopping), MEMBER(quiescent), MEMBER(yield),
	MEMBER(set_weight), MEMBER(update_idle), MEMBER(init_task), MEMBER(exit_task),
	MEMBER(disable), MEMBER(dump), MEMBER(dump_task), MEMBER(init), MEMBER(exit),
	.exit_dump_len = 1024,
	.timeout_ms = 1,
	/* SCX_OPS_ENQ_LAST, SCX_OPS_TID_TO_TASK */
	.flags = FLAGS,
	.name = "driver",
};

char _license[] SEC("license") = "GPL";
