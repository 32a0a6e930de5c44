/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.h - the part of the kernel that the policies see: types, enums,
 * helpers and kfuncs.
 *
 * There is no vmlinux.h: every structure names just the members that we read,
 * and CO-RE finds their place in the running kernel (preserve_access_index).
 * Enumerators are written with today's values and read through CO-RE as well
 * (see scx_enum() in compat.h), so that no loader has to fill anything in.
 */
#ifndef SCHEDLAB_KERNEL_H
#define SCHEDLAB_KERNEL_H

#if !defined(__bpf__) || !defined(__BPF_FEATURE_ADDR_SPACE_CAST)
#error "clang 19 or newer with -target bpf is needed (arena pointers)"
#endif

#include "scx/compiler.bpf.h"
#include "scx/errno.bpf.h"
#include "scx/tags.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __unused __attribute__((unused))
#define __ksym __attribute__((section(".ksyms")))
/* Of a global function: the verifier checks at each call that this pointer is not NULL, and need not ask in the function. */
#define __arg_nonnull __attribute__((btf_decl_tag("arg:nonnull")))
#define barrier() asm volatile("" ::: "memory")
#define offsetof(type, member) __builtin_offsetof(type, member)
#define bpf_ksym_exists(sym) (!!(sym))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Nanoseconds in a millisecond and in a second. */
#define MS 1000000ull
#define SEC_NS (1000 * MS)

/* Map definition attributes, as libbpf reads them from BTF. */
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __ulong(name, val) enum { __unique_##name = (val) } name

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_ARENA = 33,
};

#define BPF_F_NO_PREALLOC (1u << 0)
#define BPF_F_MMAPABLE (1u << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_F_TIMER_ABS 1
#define CLOCK_MONOTONIC 1

#define NUMA_NO_NODE (-1)
#define PAGE_SIZE 4096

/* task_struct::flags */
#define PF_KTHREAD 0x00200000
/* task_struct::__state */
#define TASK_UNINTERRUPTIBLE 0x00000002

/* task_struct::policy */
#define SCHED_BATCH 3
#define SCHED_IDLE 5

/* task_struct::prio below it: real time */
#define MAX_RT_PRIO 100
#define NICE_TO_STATIC_PRIO(nice) ((nice) + 120)

/* Kernel objects: members that we read, nothing else. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[8];
};

struct mm_struct;
struct files_struct;

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct thread_info {
	unsigned long flags;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int prio;
	int static_prio;
	struct sched_entity se;
	struct sched_ext_entity scx;
	unsigned int policy;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct mm_struct *mm;
	struct files_struct *files;
	int pid;
	int tgid;
	char comm[16];
	u8 on_cpu;
};

/* Registers of a task in a system call, x86-64. */
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long orig_ax;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cpu_acquire_args;
struct scx_cgroup_init_args;
struct scx_dump_ctx;
struct cgroup;

struct scx_cpu_release_args {
	struct task_struct *task;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1,
};

enum scx_dsq_id_flags {
	SCX_DSQ_GLOBAL = 0x8000000000000001ull,
	SCX_DSQ_LOCAL = 0x8000000000000002ull,
	SCX_DSQ_LOCAL_ON = 0xc000000000000000ull,
};

enum scx_public_consts {
	SCX_SLICE_DFL = 20000000ull,
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ull,
	SCX_ENQ_PREEMPT = 1ull << 32,
};

enum scx_deq_flags {
	SCX_DEQ_SLEEP = 1ull,
};

enum scx_wake_flags {
	SCX_WAKE_SYNC = 16,
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};

/* Members of the operations' .flags, by Linux 7.3; they stand in the object as they are. */
enum scx_ops_flags {
	SCX_OPS_KEEP_BUILTIN_IDLE = 1,
	SCX_OPS_ENQ_LAST = 1 << 1,
	SCX_OPS_ENQ_EXITING = 1 << 2,
	SCX_OPS_SWITCH_PARTIAL = 1 << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1 << 5,
	SCX_OPS_BUILTIN_IDLE_PER_NODE = 1 << 6,
};

/*
 * The scheduler's operations: its callbacks, and a few numbers. Loaders match members by name and leave out those that are
 * not set, so this need not be the running kernel's structure nor its order. Callbacks of cgroups and sub-schedulers
 * are not here.
 */
#define SCX_OPS_NAME_LEN 128

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	char name[SCX_OPS_NAME_LEN];
};

/* Lock word; the verifier knows it by this name. */
struct bpf_spin_lock {
	u32 val;
};

/* A timer in a map's value; the verifier knows it by this name. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

/* Helpers, by their number in the kernel's list. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_trace_printk)(const char *fmt, u32 size, ...) = (void *)6;
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_probe_read_user)(void *dst, u32 size, const void *src) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *dst, u32 size, const void *src) = (void *)115;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value,
					   u64 flags) = (void *)156;
static void *(*const bpf_this_cpu_ptr)(const void *percpu) = (void *)154;
static long (*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 clock) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 ns, u64 flags) = (void *)171;

/* Functions that the kernel exports to BPF and that every kernel we load on has. */
void __attribute__((address_space(1))) *bpf_arena_alloc_pages(
	void *map, void __attribute__((address_space(1))) *addr, u32 page_cnt, int node_id,
	u64 flags) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void *bpf_rdonly_cast(const void *object, u32 type) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
void scx_bpf_dispatch_cancel(void) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;
void scx_bpf_error_bstr(char *fmt, u64 *data, u32 data__sz) __ksym;

#endif
