/* One queue, of which dispatch picks by iterators, and all callbacks that a switch may make. The tasks that `walk` and what the callbacks
 * count lead to are moved, inserted by dispatch, or found by their number. */
#define ENQUEUE keep(p, enq_flags)
#define DISPATCH walk((s32)ctx[0])
#define MORE_OPS                                                           \
	.tick = (void *)walk_tick,                                         \
	.runnable = (void *)walk_runnable,                                 \
	.quiescent = (void *)walk_quiescent,                               \
	.update_idle = (void *)walk_update_idle,
#include "lab.h"

#define DSQ_LOCAL_ON 0xc000000000000000ull
#define ITER_REV (1ull << 16)
#define KICK_IDLE 1
#define KICK_PREEMPT 2
#define KEPT 4

const volatile u64 slice = SLICE_DFL;
const volatile u32 nr_cpus = 2;

u64 nr_runnable, nr_quiescent, nr_ticks, nr_idle, nr_moved, nr_found, sum;
static s32 kept[KEPT];

SEC("struct_ops/walk_tick") void walk_tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	sum += scx_bpf_task_running(p) + p->scx.slice + ktime_get_ns();
	if (nr_ticks++ % 3 == 0)
		p->scx.slice = 0;
}

SEC("struct_ops/walk_runnable") void walk_runnable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	nr_runnable++;
	sum += scx_bpf_task_cpu(p) + ctx[1];
}

SEC("struct_ops/walk_quiescent") void walk_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	sum += scx_bpf_task_cpu(p) + ctx[1] + p->se.sum_exec_runtime;
	if (nr_quiescent++ % 5 == 0)
		scx_bpf_kick_cpu(nr_quiescent % nr_cpus, KICK_PREEMPT);
}

SEC("struct_ops/walk_update_idle") void walk_update_idle(u64 *ctx)
{
	nr_idle += ctx[1];
	sum += ctx[0];
}

/* Some tasks wait in the program, by their number. */
static void keep(struct task_struct *p, u64 enq_flags)
{
	u32 at = nr_enqueued % KEPT;

	if (nr_enqueued % 7 == 0)
		return scx_bpf_dsq_insert(p, DSQ_LOCAL_ON | nr_enqueued % nr_cpus, slice, enq_flags);
	if (nr_enqueued % 3 == 0 && !kept[at]) {
		kept[at] = p->pid;
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), KICK_IDLE);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, SHARED, slice, p->scx.dsq_vtime, enq_flags);
}

/* Inserts a task that waits in the program. */
static bool hand_over(u32 at, u64 dsq)
{
	struct task_struct *p;

	if (!kept[at])
		return false;
	p = bpf_task_from_pid(kept[at]);
	kept[at] = 0;
	if (!p)
		return false;
	nr_found++;
	scx_bpf_dsq_insert(p, dsq, slice, 0);
	bpf_task_release(p);
	return true;
}

static void walk(s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 at;

	for (at = 0; at < KEPT; at++)
		if (hand_over(at, at % 2 ? DSQ_LOCAL : DSQ_LOCAL_ON | (cpu + at) % nr_cpus))
			return;
	if (!bpf_iter_scx_dsq_new(&it, SHARED, nr_dispatched % 2 ? ITER_REV : 0)) {
		for (at = 0; at < 4; at++) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			sum += p->pid;
			if (at == nr_dispatched % 3 && scx_bpf_dsq_move(&it, p, DSQ_LOCAL, 0))
				nr_moved++;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (scx_bpf_dsq_nr_queued(SHARED) > 3)
		scx_bpf_dsq_move_to_local(SHARED);
}

SCHEDULER
