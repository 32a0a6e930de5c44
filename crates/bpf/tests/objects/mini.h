/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the test objects need of BPF, and no more: sections, map declarations, helpers by number, CO-RE. */
#ifndef MINI_H
#define MINI_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define __weak __attribute__((weak))
#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __kptr __attribute__((btf_type_tag("kptr")))
#define __noinline __attribute__((noinline))
#define __arena __attribute__((address_space(1)))
#define __core __attribute__((preserve_access_index))

#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name
#define __array(name, type) typeof(type) *name[]

#define field_exists(field) __builtin_preserve_field_info(field, 2)
#define field_size(field) __builtin_preserve_field_info(field, 1)
#define field_offset(field) __builtin_preserve_field_info(field, 0)
#define field_signed(field) __builtin_preserve_field_info(field, 3)
#define field_lshift(field) __builtin_preserve_field_info(field, 4)
#define field_rshift(field) __builtin_preserve_field_info(field, 5)
#define type_exists(type) __builtin_preserve_type_info(*(typeof(type) *)0, 0)
#define type_size(type) __builtin_preserve_type_info(*(typeof(type) *)0, 1)
#define type_matches(type) __builtin_preserve_type_info(*(typeof(type) *)0, 2)
#define enum_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
#define enum_value(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

enum { BPF_HASH = 1, BPF_ARRAY = 2, BPF_PERCPU_HASH = 5, BPF_PERCPU_ARRAY = 6, BPF_LRU_HASH = 9,
       BPF_ARRAY_OF_MAPS = 12, BPF_HASH_OF_MAPS = 13, BPF_QUEUE = 22, BPF_STACK = 23, BPF_RINGBUF = 27,
       BPF_TASK_STORAGE = 29, BPF_BLOOM = 30, BPF_ARENA = 33 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static long (*trace_printk)(const char *fmt, u32 size, ...) = (void *)6;
static u32 (*get_prandom_u32)(void) = (void *)7;
static u32 (*get_smp_processor_id)(void) = (void *)8;
static long (*map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*map_pop)(void *map, void *value) = (void *)88;
static long (*map_peek)(void *map, void *value) = (void *)89;
static long (*spin_lock)(void *lock) = (void *)93;
static long (*spin_unlock)(void *lock) = (void *)94;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*ringbuf_output)(void *map, void *data, u64 size, u64 flags) = (void *)130;
static void *(*ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*ringbuf_discard)(void *record, u64 flags) = (void *)133;
static void *(*task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static long (*task_storage_delete)(void *map, void *task) = (void *)157;
static void *(*get_current_task_btf)(void) = (void *)158;
static long (*for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*snprintf_)(char *to, u32 size, const char *fmt, u64 *data, u32 bytes) = (void *)165;
static long (*timer_init)(void *timer, void *map, u64 clock) = (void *)169;
static long (*timer_set_callback)(void *timer, void *callback) = (void *)170;
static long (*timer_start)(void *timer, u64 ns, u64 flags) = (void *)171;
static long (*timer_cancel)(void *timer) = (void *)172;
static long (*loop)(u32 count, void *callback, void *ctx, u64 flags) = (void *)181;
static long (*strncmp_)(const char *a, u32 size, const char *b) = (void *)182;
static void *(*kptr_xchg)(void *place, void *new) = (void *)194;
static void *(*map_lookup_percpu)(void *map, const void *key, u32 cpu) = (void *)195;

struct bpf_spin_lock {
	u32 val;
};

struct bpf_timer {
	u64 opaque[2];
};

static const char license_[] SEC("license") = "Dual MIT/GPL";

#endif
