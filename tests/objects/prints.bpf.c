/* SPDX-License-Identifier: GPL-2.0-only */
/* prints.bpf.c - first come, first served; prints a line as it begins and one for each task that is queued, and keeps maps. */
#include "dsq.h"

#define OWN 7
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

struct seen {
	u32 times;
	s32 last_cpu;
};

struct {
	__uint(type, 1);	/* BPF_MAP_TYPE_HASH */
	__uint(max_entries, 100);
	__type(key, s32);
	__type(value, struct seen);
} tasks SEC(".maps");

struct {
	__uint(type, 2);	/* BPF_MAP_TYPE_ARRAY */
	__uint(max_entries, 200);
	__type(key, u32);
	__type(value, u64);
} slots SEC(".maps");

s64 balance;
u32 queued_on[4];
u32 never;

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;

SEC("struct_ops/enqueue")
void prints_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 pid = p->pid, cpu = scx_bpf_task_cpu(p);
	struct seen *seen = map_lookup(&tasks, &pid), first = { .times = 1, .last_cpu = cpu };
	u32 slot = 2 * ((u32)queued_on[0] % 100);
	u64 *value = map_lookup(&slots, &slot);

	if (seen)
		seen->times++;
	else
		map_update(&tasks, &pid, &first, 0);
	if (value)
		*value = slot + 1;
	balance--;
	if (cpu >= 0)
		queued_on[cpu & 3]++;
	bpf_printk("queues %d on CPU %d", pid, cpu);
	dsq_insert(p, OWN, SLICE_DFL, ctx[1]);
}

SEC("struct_ops/dispatch")
void prints_dispatch(u64 *ctx)
{
	dsq_move_to_local(OWN);
}

SEC("struct_ops.s/init")
s32 prints_init(u64 *ctx)
{
	bpf_printk("begins");
	return scx_bpf_create_dsq(OWN, NUMA_NO_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops prints_ops = {
	.enqueue = (void *)prints_enqueue,
	.dispatch = (void *)prints_dispatch,
	.init = (void *)prints_init,
	.name = "prints",
};

char _license[] SEC("license") = "GPL";
