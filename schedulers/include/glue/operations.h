/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/operations.h - birth and death of the scheduler, and its table of callbacks.
 */
#ifndef SCHEDLAB_GLUE_OPERATIONS_H
#define SCHEDLAB_GLUE_OPERATIONS_H

#include "glue/block.h"
#include "glue/pick.h"
#include "glue/task.h"
#include "glue/timer.h"

char _license[] SEC("license") = "GPL";

/* Why the scheduler was unloaded; loaders know this record by its name. */
struct user_exit_info {
	int kind;
	s64 exit_code;
	char reason[128];
	char msg[1024];
};
struct user_exit_info uei SEC(".data");

/* Read by the simulator, which refuses a larger machine before the run. */
const u32 max_cpus = MAX_CPUS;

SEC("struct_ops.s/init")
s32 glue_init(u64 *ctx)
{
	u32 cpu, nr_rqs;

	use_arena();
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		static char fmt[] = "made for at most 512 CPUs, this machine has %u";
		u64 args[] = { nr_cpus };

		scx_bpf_error_bstr(fmt, args, sizeof(args));
		return -E2BIG;
	}
	nr_rqs = rq_of(nr_cpus - 1) + 1;
	cpus = (cpu_t *)bpf_arena_alloc_pages(&arena, NULL, PAGES(nr_cpus * sizeof(struct cpu)),
					      NUMA_NO_NODE, 0);
	rqs = (rq_t *)bpf_arena_alloc_pages(&arena, NULL, PAGES(nr_rqs * sizeof(struct rq)),
					    NUMA_NO_NODE, 0);
	all_tasks = (list_t *)bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0);
	if (!cpus || !rqs || !all_tasks || swap_init())
		return -ENOMEM;
	list_init(all_tasks);
	for (cpu = zero; cpu < nr_rqs && can_loop; cpu++) {
		rq_nr(cpu)->base.nr = cpu;
		rescue_init_rq(rq_nr(cpu));
		init_homes(rq_nr(cpu));
		init_rq(rq_nr(cpu), cpu);
	}
	return start_timer();
}

SEC("struct_ops/exit")
void glue_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];

	bpf_probe_read_kernel_str(uei.reason, sizeof(uei.reason), info->reason);
	bpf_probe_read_kernel_str(uei.msg, sizeof(uei.msg), info->msg);
	uei.exit_code = info->exit_code;
	swap_tell();
	/* the kind says that the record is complete: last */
	__sync_val_compare_and_swap(&uei.kind, uei.kind, info->kind);
}

#define SCHED_OPS(policy)                                \
	SEC(".struct_ops.link")                          \
	struct sched_ext_ops policy##_ops = {            \
		.select_cpu = (void *)glue_select_cpu,   \
		.enqueue = (void *)glue_enqueue,         \
		.dispatch = (void *)glue_dispatch,       \
		.tick = (void *)glue_tick,               \
		.running = (void *)glue_running,         \
		.stopping = (void *)glue_stopping,       \
		.quiescent = (void *)glue_quiescent,     \
		.yield = (void *)glue_yield,             \
		.set_weight = (void *)glue_set_weight,   \
		.set_cpumask = (void *)glue_set_cpumask, \
		.update_idle = (void *)glue_update_idle, \
		.init_task = (void *)glue_init_task,     \
		.exit_task = (void *)glue_exit_task,     \
		.disable = (void *)glue_disable,         \
		.init = (void *)glue_init,               \
		.exit = (void *)glue_exit,               \
		.timeout_ms = 30000,                     \
		.name = #policy,                         \
	}

#endif
