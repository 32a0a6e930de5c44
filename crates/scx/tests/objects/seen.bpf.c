/* Members of tasks against what the kernel's own functions and the callbacks before say, looked at early or not. */
#define ENQUEUE                                                            \
	u64 state = p->scx.ops_state.counter;                              \
	nr_bad_state += (state & 3) != QUEUEING || !(state >> 2);          \
	look_at(p, enq_flags & ENQ_WAKEUP ? 0 : -1);                       \
	p->scx.dsq_vtime = nr_enqueued;                                    \
	nr_bad_vtime += p->scx.dsq_vtime != nr_enqueued;                   \
	scx_bpf_dsq_insert(p, SHARED, SLICE, enq_flags);                   \
	nr_bad_state += p->scx.ops_state.counter != state
#define MORE_OPS                                                           \
	.select_cpu = (void *)seen_select_cpu,                             \
	.running = (void *)seen_running,                                   \
	.stopping = (void *)seen_stopping,                                 \
	.quiescent = (void *)seen_quiescent,
#include "lab.h"

#define QUEUEING 1
#define ENQ_WAKEUP 1
#define TASK_QUEUED 1
/* Longer than any task runs: none is refilled while it does. */
#define SLICE SLICE_DFL

struct bpf_map_def {
	__uint(type, 1);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64[3]);
} at_start SEC(".maps");

/* Set by the test: whether callbacks read a member before the kernel changes it again. */
const volatile u32 early;

u64 nr_bad_state, nr_bad_vtime, nr_bad_place, nr_bad_flags, nr_bad_time, nr_bad_slice, nr_bad_sleep;
u64 nr_stopped;
static u64 sink;

static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;

static void look_early(struct task_struct *p)
{
	if (early)
		sink += p->scx.slice + p->flags;
}

/* on_cpu: what it must be, -1 where it may be either. */
static void look_at(struct task_struct *p, int on_cpu)
{
	nr_bad_place += p->thread_info.cpu != scx_bpf_task_cpu(p) || p->nr_cpus_allowed != 2 ||
			(on_cpu >= 0 && p->on_cpu != on_cpu) || (on_cpu > 0 && !p->on_rq);
	nr_bad_flags += !(p->scx.flags & TASK_QUEUED);
}

SEC("struct_ops/seen_select_cpu")
s32 seen_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	look_early(p);
	nr_bad_flags += p->scx.flags & TASK_QUEUED;
	nr_bad_sleep += p->on_rq || p->on_cpu || p->scx.runnable_cpu != -1;
	return ctx[1];
}

SEC("struct_ops/seen_running")
void seen_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 now[3] = { p->se.sum_exec_runtime, p->scx.slice, p->se.exec_start };
	u32 pid = p->pid;

	look_early(p);
	look_at(p, -1);
	nr_bad_state += p->scx.ops_state.counter != 0;
	nr_bad_slice += p->scx.slice > SLICE || !p->scx.slice;
	map_update(&at_start, &pid, now, 0);
}

SEC("struct_ops/seen_stopping")
void seen_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u32 pid = p->pid;
	u64 *before = map_lookup(&at_start, &pid);

	look_at(p, 1);
	if (before) {
		u64 ran = p->se.sum_exec_runtime - before[0];
		u64 left = before[1] > ran ? before[1] - ran : 0;

		nr_bad_time += p->se.exec_start - before[2] != ran || !ran;
		nr_bad_slice += p->scx.slice != left;
		nr_stopped++;
	}
	look_early(p);
}

SEC("struct_ops/seen_quiescent")
void seen_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	nr_bad_sleep += !p->__state || p->scx.runnable_cpu != -1;
	look_early(p);
}

SCHEDULER
