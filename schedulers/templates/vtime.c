/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAME.bpf.c - one queue for all CPUs, in the order of virtual times.
 *
 * A task's virtual time is its CPU time divided by its weight: of those that wait, the one that has had the least runs next.
 */
#include <scx/common.bpf.h>

/* What reports and loaders of schedlab read; another tree's headers do not have it. */
#ifndef TUNABLE
#define TUNABLE(...)
#define COUNTS(meaning)
#endif

/* The queue that all CPUs take their tasks from. */
#define SHARED 0

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5000000;

/* The highest virtual time at which a turn has begun. */
static u64 vtime_now;

u64 nr_direct COUNTS("tasks that went straight to an idle CPU");
u64 nr_queued COUNTS("tasks that had to wait on the shared queue");

UEI_DEFINE(uei);

/* The virtual time of @p with what it has used of its turn. The kernel's own turns, as of a task that exits, are longer. */
static u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + scale_by_task_weight_inverse(p, used);
}

/* @p begins a turn: tasks that wake from now on are placed by its virtual time. */
static void begin_turn(struct task_struct *p)
{
	/* CPUs race here; the next turn puts it right. */
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

s32 BPF_STRUCT_OPS(NAME_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		__sync_fetch_and_add(&nr_direct, 1);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

/*
 * @p comes to the queue from a CPU on which its turn is over, or on which a higher class runs. No CPU was looked for, and one that
 * idles does not see the queue unless it is woken.
 */
static void wake_idle_cpu(struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (__COMPAT_is_enq_cpu_selected(enq_flags))
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* A task that has slept gets one turn in advance, not all that it could have had. */
	if (time_before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	__sync_fetch_and_add(&nr_queued, 1);
	scx_bpf_dsq_insert_vtime(p, SHARED, slice_ns, vtime, enq_flags);
	wake_idle_cpu(p, enq_flags);
}

/* Has @p, which has used up its turn, had less than the first task that waits? */
static bool is_behind(struct task_struct *p)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(SHARED);

	return first && time_before(vtime_of(p), first->scx.dsq_vtime);
}

void BPF_STRUCT_OPS(NAME_dispatch, s32 cpu, struct task_struct *prev)
{
	bool can_go_on = prev && prev->scx.flags & SCX_TASK_QUEUED;

	/* The task that has run until now is not on the queue yet. It gets another turn if it is behind, or no task waits. */
	if ((!can_go_on || !is_behind(prev)) && scx_bpf_dsq_move_to_local(SHARED, 0))
		return;
	if (can_go_on) {
		scx_bpf_task_set_dsq_vtime(prev, vtime_of(prev));
		begin_turn(prev);
		scx_bpf_task_set_slice(prev, slice_ns);
	}
}

void BPF_STRUCT_OPS(NAME_running, struct task_struct *p)
{
	begin_turn(p);
}

void BPF_STRUCT_OPS(NAME_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_of(p));
}

void BPF_STRUCT_OPS(NAME_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(NAME_init)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(NAME_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(NAME_ops,
	       .select_cpu = (void *)NAME_select_cpu,
	       .enqueue = (void *)NAME_enqueue,
	       .dispatch = (void *)NAME_dispatch,
	       .running = (void *)NAME_running,
	       .stopping = (void *)NAME_stopping,
	       .enable = (void *)NAME_enable,
	       .init = (void *)NAME_init,
	       .exit = (void *)NAME_exit,
	       .name = "NAME");

char _license[] SEC("license") = "GPL";
