/* SPDX-License-Identifier: GPL-2.0-only */
/* life.bpf.c - counts what tasks live through, and CPUs that come and go; one queue, first in, first out. */
#include "compat.h"

u64 nr_forked, nr_there, nr_left, nr_enabled, nr_disabled, nr_masks;
u64 nr_runnable, nr_quiescent;
u64 nr_online, nr_offline;
u64 nr_told;
u64 nr_told_context;

SEC("struct_ops.s/init_task")
s32 life_init_task(u64 *ctx)
{
	struct scx_init_task_args *args = (void *)ctx[1];

	if (args->fork)
		__sync_fetch_and_add(&nr_forked, 1);
	else
		__sync_fetch_and_add(&nr_there, 1);
	return 0;
}

SEC("struct_ops/exit_task")
void life_exit_task(u64 *ctx)
{
	__sync_fetch_and_add(&nr_left, 1);
}

SEC("struct_ops/enable")
void life_enable(u64 *ctx)
{
	__sync_fetch_and_add(&nr_enabled, 1);
}

SEC("struct_ops/disable")
void life_disable(u64 *ctx)
{
	__sync_fetch_and_add(&nr_disabled, 1);
}

SEC("struct_ops/set_cpumask")
void life_set_cpumask(u64 *ctx)
{
	__sync_fetch_and_add(&nr_masks, 1);
}

SEC("struct_ops/runnable")
void life_runnable(u64 *ctx)
{
	__sync_fetch_and_add(&nr_runnable, 1);
}

SEC("struct_ops/quiescent")
void life_quiescent(u64 *ctx)
{
	__sync_fetch_and_add(&nr_quiescent, 1);
}

SEC("struct_ops.s/cpu_online")
void life_cpu_online(u64 *ctx)
{
	__sync_fetch_and_add(&nr_online, 1);
}

SEC("struct_ops.s/cpu_offline")
void life_cpu_offline(u64 *ctx)
{
	__sync_fetch_and_add(&nr_offline, 1);
}

/* What a loader asks for while the scheduler is attached; its result is the context's first byte. */
SEC("syscall")
int tell(u8 *context)
{
	__sync_fetch_and_add(&nr_told, 1);
	nr_told_context = *context;
	return *context;
}

SEC(".struct_ops.link")
struct sched_ext_ops life_ops = {
	.init_task = (void *)life_init_task,
	.exit_task = (void *)life_exit_task,
	.enable = (void *)life_enable,
	.disable = (void *)life_disable,
	.set_cpumask = (void *)life_set_cpumask,
	.runnable = (void *)life_runnable,
	.quiescent = (void *)life_quiescent,
	.cpu_online = (void *)life_cpu_online,
	.cpu_offline = (void *)life_cpu_offline,
	.name = "life",
};

char _license[] SEC("license") = "GPL";
