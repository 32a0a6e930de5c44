/* SPDX-License-Identifier: GPL-2.0-only */
/* prints.bpf.c - first come, first served; prints a line as it begins and one for each task that is queued, and keeps maps. */
#include <scx/common.bpf.h>

#define OWN 7

struct seen {
	u32 times;
	s32 last_cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 100);
	__type(key, s32);
	__type(value, struct seen);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 200);
	__type(key, u32);
	__type(value, u64);
} slots SEC(".maps");

s64 balance;
u32 queued_on[4];
u32 never;

void BPF_STRUCT_OPS(prints_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid, cpu = scx_bpf_task_cpu(p);
	struct seen *seen = bpf_map_lookup_elem(&tasks, &pid), first = { .times = 1, .last_cpu = cpu };
	u32 slot = 2 * ((u32)queued_on[0] % 100);
	u64 *value = bpf_map_lookup_elem(&slots, &slot);

	if (seen)
		seen->times++;
	else
		bpf_map_update_elem(&tasks, &pid, &first, 0);
	if (value)
		*value = slot + 1;
	balance--;
	if (cpu >= 0)
		queued_on[cpu & 3]++;
	bpf_printk("queues %d on CPU %d", pid, cpu);
	scx_bpf_dsq_insert(p, OWN, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(prints_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(OWN, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prints_init)
{
	bpf_printk("begins");
	return scx_bpf_create_dsq(OWN, NUMA_NO_NODE);
}

SCX_OPS_DEFINE(prints_ops,
	       .enqueue = (void *)prints_enqueue,
	       .dispatch = (void *)prints_dispatch,
	       .init = (void *)prints_init,
	       .name = "prints");

char _license[] SEC("license") = "GPL";
