/* SPDX-License-Identifier: GPL-2.0-only */
/* lab.h - what the test schedulers see of the kernel; places come from CO-RE. */
#ifndef LAB_H
#define LAB_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

#define DSQ_LOCAL 0x8000000000000002ull
#define DSQ_GLOBAL 0x8000000000000001ull
#define SLICE_DFL 20000000ull

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct cpumask {
	unsigned long bits[8];
};
struct thread_info {
	u32 cpu;
};
struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
};
struct sched_ext_entity {
	u64 slice;
	u64 dsq_vtime;
	u32 weight;
	u32 flags;
	s32 runnable_cpu;
	unsigned long runnable_at;
	struct {
		s64 counter;
	} ops_state;
	bool disallow;
};
struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	int pid;
	int tgid;
	u8 on_cpu;
	u8 on_rq;
	int prio;
	int static_prio;
	unsigned int flags;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct task_struct *real_parent;
	struct sched_entity se;
	struct sched_ext_entity scx;
	char comm[16];
};
enum scx_exit_kind {
	SCX_EXIT_NONE,
};
struct pt_regs {
	unsigned long orig_ax;
	unsigned long di;
};
struct scx_exit_info {
	enum scx_exit_kind kind;
	s32 exit_cpu;
	s64 exit_code;
	u64 flags;
	const char *reason;
	char *msg;
};
#pragma clang attribute pop

struct bpf_spin_lock {
	u32 val;
};
struct bpf_timer {
	u64 opaque[2];
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*update_idle)(s32 cpu, bool idle);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*enable)(struct task_struct *p);
	s32 (*init_task)(struct task_struct *p, void *args);
	void (*exit_task)(struct task_struct *p, void *args);
	s32 (*cgroup_init)(void *cgrp, void *args);
	void (*cgroup_exit)(void *cgrp);
	s32 (*cgroup_prep_move)(struct task_struct *p, void *from, void *to);
	void (*cgroup_move)(struct task_struct *p, void *from, void *to);
	void (*cgroup_set_weight)(void *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(void *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cgroup_set_idle)(void *cgrp, bool idle);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const jiffies64)(void) = (void *)118;
static u32 (*const prandom)(void) = (void *)7;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const probe_read_str)(void *dst, u32 size, const void *src) = (void *)115;
static void *(*const task_storage)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const task_pt_regs)(struct task_struct *task) = (void *)175;
static long (*const timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const timer_start)(struct bpf_timer *timer, u64 ns, u64 flags) = (void *)171;

struct bpf_cpumask {
	struct cpumask cpumask;
};
struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym;
bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 size) __ksym;
void scx_bpf_exit_bstr(s64 code, char *fmt, unsigned long long *data, u32 size) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
u32 bpf_cpumask_weight(const struct cpumask *mask) __ksym;
u32 bpf_cpumask_first(const struct cpumask *mask) __ksym;

#ifndef LICENSE
#define LICENSE "GPL"
#endif
char _license[] SEC("license") = LICENSE;

/* A scheduler of one queue; tests replace what they are about. */
#define SHARED 1
#ifndef INIT
#define INIT
#endif
#ifndef ENQUEUE
#define ENQUEUE scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#endif
#ifndef DISPATCH
#define DISPATCH scx_bpf_dsq_move_to_local(SHARED)
#endif
#ifndef EXIT
#define EXIT
#endif
#ifndef MORE_OPS
#define MORE_OPS
#endif
#ifndef TIMEOUT_MS
#define TIMEOUT_MS 1000
#endif

u64 nr_enqueued;
u64 nr_dispatched;
int exit_kind;
char exit_msg[256];

#define SCHEDULER                                                          \
	SEC("struct_ops/lab_enqueue") void lab_enqueue(u64 *ctx)           \
	{                                                                  \
		struct task_struct *p = (void *)ctx[0];                    \
		u64 enq_flags __attribute__((unused)) = ctx[1];            \
		nr_enqueued++;                                             \
		ENQUEUE;                                                   \
	}                                                                  \
	SEC("struct_ops/lab_dispatch") void lab_dispatch(u64 *ctx)         \
	{                                                                  \
		(void)ctx;                                                 \
		nr_dispatched++;                                           \
		DISPATCH;                                                  \
	}                                                                  \
	SEC("struct_ops.s/lab_init") s32 lab_init(u64 *ctx)                \
	{                                                                  \
		INIT;                                                      \
		return scx_bpf_create_dsq(SHARED, -1);                     \
	}                                                                  \
	SEC("struct_ops/lab_exit") void lab_exit(u64 *ctx)                 \
	{                                                                  \
		struct scx_exit_info *info = (void *)ctx[0];               \
		exit_kind = info->kind;                                    \
		EXIT;                                                      \
		probe_read_str(exit_msg, sizeof(exit_msg), info->msg);     \
	}                                                                  \
	SEC(".struct_ops.link") struct sched_ext_ops lab = {               \
		.enqueue = (void *)lab_enqueue,                            \
		.dispatch = (void *)lab_dispatch,                          \
		.init = (void *)lab_init,                                  \
		.exit = (void *)lab_exit,                                  \
		.timeout_ms = TIMEOUT_MS,                                  \
		.name = "lab",                                             \
		MORE_OPS                                                   \
	};

#endif
