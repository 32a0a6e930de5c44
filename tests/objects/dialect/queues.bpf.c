/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queues.bpf.c - two queues, and every call about queues, CPUs and times that examples of the kernel make.
 *
 * Tasks wait on ARRIVED in the order of their arrival. A dispatch walks that queue, moves the tasks it sees to SORTED by their
 * virtual time, and takes the first of SORTED. `nr_wrong` counts answers that cannot be.
 */
#include <scx/common.bpf.h>

#define ARRIVED 1
#define SORTED 2

const volatile u64 slice_ns = 3000000;
/* Idle CPUs are tracked by node: .flags is SCX_OPS_BUILTIN_IDLE_PER_NODE too. */
const volatile bool by_node;

u64 nr_checks, nr_wrong, nr_moved, nr_first;
static u64 vtime_now;

UEI_DEFINE(uei);

/* Counts an expectation, and whether it was wrong. */
static void expect(bool is_right)
{
	nr_checks++;
	if (unlikely(!is_right))
		nr_wrong++;
}

s32 BPF_STRUCT_OPS(queues_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu;

	if (__COMPAT_HAS_scx_bpf_select_cpu_and) {
		cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);
		is_idle = cpu >= 0;
	} else {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	}
	if (!is_idle)
		return prev_cpu;
	expect(bpf_cpumask_test_cpu(cpu, p->cpus_ptr));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

void BPF_STRUCT_OPS(queues_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (!__COMPAT_is_enq_cpu_selected(enq_flags) && !is_migration_disabled(p)) {
		cpu = by_node ? __COMPAT_scx_bpf_pick_idle_cpu_node(p->cpus_ptr, 0, 0) :
				scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu >= 0) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			return;
		}
	}
	expect(scx_bpf_dsq_insert(p, ARRIVED, slice_ns, enq_flags));
	expect(scx_bpf_dsq_nr_queued(ARRIVED) >= 0);
}

void BPF_STRUCT_OPS(queues_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	u64 vtime;

	bpf_for_each(scx_dsq, p, ARRIVED, 0) {
		vtime = p->scx.dsq_vtime;
		if (time_before(vtime, vtime_now - slice_ns))
			vtime = vtime_now - slice_ns;
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, slice_ns / 2);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, vtime);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, SORTED, 0))
			nr_moved++;
	}
	bpf_rcu_read_lock();
	p = __COMPAT_scx_bpf_dsq_peek(SORTED);
	if (p) {
		nr_first++;
		expect(p->pid > 0);
	}
	bpf_rcu_read_unlock();
	if (!scx_bpf_dsq_move_to_local(SORTED, 0) && prev && prev->scx.flags & SCX_TASK_QUEUED)
		scx_bpf_task_set_slice(prev, slice_ns);
}

void BPF_STRUCT_OPS(queues_running, struct task_struct *p)
{
	u64 now = scx_bpf_now();

	if (time_after(p->scx.dsq_vtime, vtime_now))
		vtime_now = p->scx.dsq_vtime;
	expect(time_in_range(now, now, now) && !time_in_range_open(now, now, now));
	expect(time_delta(now, now + 5) == 0 && time_delta(now + 5, now) == 5);
	expect(time_after_eq(now, now) && time_before_eq(now, now + 1) && time_before(~0ull, 0));
}

void BPF_STRUCT_OPS(queues_stopping, struct task_struct *p, bool runnable)
{
	u64 used = slice_ns > p->scx.slice ? slice_ns - p->scx.slice : 0;

	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + scale_by_task_weight_inverse(p, used));
	expect(scx_bpf_task_running(p));
	expect(scale_by_task_weight(p, 100) == p->scx.weight);
}

void BPF_STRUCT_OPS(queues_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/* Masks of CPUs, and walks over them. */
static void look_at_cpus(void)
{
	const struct cpumask *mask = by_node ? __COMPAT_scx_bpf_get_idle_cpumask_node(0) :
					       scx_bpf_get_idle_cpumask();
	struct bpf_cpumask *own = bpf_cpumask_create();
	s32 cpu, online = 0;

	if (own) {
		bpf_cpumask_or(own, cast_mask(own), mask);
		expect(bpf_cpumask_equal(cast_mask(own), mask));
		bpf_cpumask_release(own);
	}
	scx_bpf_put_idle_cpumask(mask);
	mask = scx_bpf_get_online_cpumask();
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (bpf_cpumask_test_cpu(cpu, mask))
			online++;
	}
	expect(online && online == bpf_cpumask_weight(mask));
	scx_bpf_put_cpumask(mask);
	expect(__COMPAT_scx_bpf_nr_node_ids() >= 1 && __COMPAT_scx_bpf_cpu_node(0) == 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(queues_init)
{
	s32 err = scx_bpf_create_dsq(ARRIVED, NUMA_NO_NODE);

	look_at_cpus();
	return err ?: scx_bpf_create_dsq(SORTED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(queues_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(queues_ops,
	       .select_cpu = (void *)queues_select_cpu,
	       .enqueue = (void *)queues_enqueue,
	       .dispatch = (void *)queues_dispatch,
	       .running = (void *)queues_running,
	       .stopping = (void *)queues_stopping,
	       .enable = (void *)queues_enable,
	       .init = (void *)queues_init,
	       .exit = (void *)queues_exit,
	       .timeout_ms = 5000,
	       .name = "queues");

char _license[] SEC("license") = "GPL";
