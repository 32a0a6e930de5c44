/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hostile.h - what the hostile objects share: more of the kernel's functions
 * than the policies use, with arguments that a verifier would not let pass.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "compat.h"

/* BPF_MAX_LOOPS: passes that one bpf_loop() may make. */
#define MOST_LOOPS (8u << 20)
#define MIB (1u << 20)
#define GIB (1u << 30)

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_QUEUE 22
#define BPF_MAP_TYPE_RINGBUF 27

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *context, u64 flags) = (void *)164;
static long (*const bpf_snprintf)(char *str, u32 size, const char *fmt, u64 *data, u32 len) = (void *)165;
static long (*const bpf_loop)(u32 count, void *callback, void *context, u64 flags) = (void *)181;
static long (*const bpf_strncmp)(const char *first, u32 size, const char *second) = (void *)182;
static void *(*const bpf_kptr_xchg)(void *place, void *pointer) = (void *)194;

struct bpf_iter_scx_dsq {
	u64 words[6];
};

struct bpf_iter_num {
	u64 word;
};

/* Kernel objects that are pointed at only; a prototype has to name a whole type. */
struct rq {};
struct bpf_cpumask {};
struct scx_event_stats {};
struct scx_cid_topo {};

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym;
void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_reenqueue_local___v2___new(void) __ksym;
void scx_bpf_dump_bstr(char *fmt, u64 *data, u32 data__sz) __ksym;
void scx_bpf_events(struct scx_event_stats *events, u64 events__sz) __ksym;
void scx_bpf_cid_topo(s32 cid, struct scx_cid_topo *out, u64 out__sz) __ksym;
s32 scx_bpf_task_cid(const struct task_struct *p) __ksym;
struct rq *scx_bpf_locked_rq(void) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_setall(struct bpf_cpumask *cpumask) __ksym;
void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src) __ksym;
int bpf_cpumask_populate(struct bpf_cpumask *cpumask, void *src, u64 src__sz) __ksym;
void bpf_arena_free_pages(void *map, void __attribute__((address_space(1))) *page, u32 count) __ksym;

/* The callbacks that these objects set; loaders match members by name. */
struct sched_ext_ops___hostile {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*update_idle)(s32 cpu, bool idle);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*dump)(void *ctx);
	void (*dump_task)(void *ctx, struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	char name[SCX_OPS_NAME_LEN];
};

/* The table, with callbacks as `.init = (void *)f`. */
#define SCHEDULER(...)                                        \
	SEC(".struct_ops.link")                               \
	struct sched_ext_ops___hostile hostile_ops = {        \
		__VA_ARGS__, .name = "hostile",               \
	};                                                    \
	char _license[] SEC("license") = "GPL"

#endif
