/* SPDX-License-Identifier: GPL-2.0-only */
/* storage_huge.bpf.c - asks for 31 MiB for every task, twice; the kernel has 64 KiB at most. */
#include "hostile.h"

#define SIZE (31 * MIB)

struct huge {
	char bytes[SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct huge);
} storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct huge);
} second SEC(".maps");

static void touch(char *value)
{
	if (value)
		for (u64 at = 0; at < SIZE; at += PAGE_SIZE)
			value[at] = 1;
}

SEC("struct_ops/init_task")
s32 hostile_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	touch(bpf_task_storage_get(&storage, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE));
	touch(bpf_task_storage_get(&second, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE));
	return 0;
}

SCHEDULER(.init_task = (void *)hostile_init_task);
