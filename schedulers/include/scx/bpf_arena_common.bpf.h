/* SPDX-License-Identifier: GPL-2.0-only */
/* bpf_arena_common.bpf.h - memory that programs and user space share. clang 19 casts between the address spaces by itself. */
#ifndef SCHEDLAB_BPF_ARENA_COMMON_BPF_H
#define SCHEDLAB_BPF_ARENA_COMMON_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "compiler.bpf.h"

#ifndef __BPF_FEATURE_ADDR_SPACE_CAST
#error "clang 19 or newer with -target bpf is needed (arena pointers)"
#endif

#ifndef PAGE_SIZE
#define PAGE_SIZE __PAGE_SIZE
#endif

/* A global variable in the arena. */
#define __arena_global __attribute__((address_space(1)))
/* Casts that older compilers needed by name. */
#define cast_kern(ptr)
#define cast_user(ptr)

void __arena *bpf_arena_alloc_pages(void *map, void __arena *addr, __u32 page_cnt, int node_id,
				    __u64 flags) __ksym __weak;
void bpf_arena_free_pages(void *map, void __arena *ptr, __u32 page_cnt) __ksym __weak;
int bpf_arena_reserve_pages(void *map, void __arena *ptr, __u32 page_cnt) __ksym __weak;
ssize_t bpf_arena_mapping_nr_pages(void *p__map) __ksym __weak;

#endif
