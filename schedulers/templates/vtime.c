/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAME.bpf.c - one queue for all CPUs, in the order of virtual times.
 *
 * A task's virtual time is its CPU time divided by its weight: of those that wait, the one that has had the least runs next.
 */
#include "dsq.h"

/* The queue that all CPUs take their tasks from. */
#define SHARED 0

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5 * MS;

/* The highest virtual time at which a turn has begun. */
static u64 vtime_now;

u64 nr_direct COUNTS("tasks that went straight to an idle CPU");
u64 nr_queued COUNTS("tasks that had to wait on the shared queue");

/* The virtual time of @p with what it has used of its turn. The kernel's own turns, as of a task that exits, are longer. */
static __always_inline u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + used * WEIGHT_DFL / p->scx.weight;
}

static __always_inline void charge(struct task_struct *p)
{
	set_dsq_vtime(p, vtime_of(p));
}

/* @p begins a turn: tasks that wake from now on are placed by its virtual time. */
static __always_inline void begin_turn(struct task_struct *p)
{
	/* CPUs race here; the next turn puts it right. */
	if (is_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/select_cpu")
s32 NAME_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 prev_cpu = ctx[1];
	u64 wake_flags = ctx[2];
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		__sync_fetch_and_add(&nr_direct, 1);
		dsq_insert(p, DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

SEC("struct_ops/enqueue")
void NAME_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 enq_flags = ctx[1];
	u64 vtime = p->scx.dsq_vtime;

	/* A task that has slept gets one turn in advance, not all that it could have had. */
	if (is_before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	__sync_fetch_and_add(&nr_queued, 1);
	dsq_insert_vtime(p, SHARED, slice_ns, vtime, enq_flags);
}

/* Has @p, which has used up its turn, had less than the first task that waits? */
static __always_inline bool is_behind(struct task_struct *p)
{
	struct task_struct *first = dsq_first(SHARED);

	return first && is_before(vtime_of(p), first->scx.dsq_vtime);
}

SEC("struct_ops/dispatch")
void NAME_dispatch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	bool can_go_on = prev && prev->scx.flags & TASK_FLAG_QUEUED;

	/* The task that has run until now is not on the queue yet. It gets another turn if it is behind, or no task waits. */
	if ((!can_go_on || !is_behind(prev)) && dsq_move_to_local(SHARED))
		return;
	if (can_go_on) {
		charge(prev);
		begin_turn(prev);
		set_slice(prev, slice_ns);
	}
}

SEC("struct_ops/running")
void NAME_running(u64 *ctx)
{
	begin_turn((void *)ctx[0]);
}

SEC("struct_ops/stopping")
void NAME_stopping(u64 *ctx)
{
	charge((void *)ctx[0]);
}

SEC("struct_ops/enable")
void NAME_enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	set_dsq_vtime(p, vtime_now);
}

SEC("struct_ops.s/init")
s32 NAME_init(u64 *ctx)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops NAME_ops = {
	.select_cpu = (void *)NAME_select_cpu,
	.enqueue = (void *)NAME_enqueue,
	.dispatch = (void *)NAME_dispatch,
	.running = (void *)NAME_running,
	.stopping = (void *)NAME_stopping,
	.enable = (void *)NAME_enable,
	.init = (void *)NAME_init,
	.name = "NAME",
};

char _license[] SEC("license") = "GPL";
