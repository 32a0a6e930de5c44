/* As scx_simple: one queue, by vtime or first in, first out; a task that finds an idle CPU runs there at once.
 * Every `odd`-th insertion is one that scx_simple does not make.
 */
#define ENQUEUE insert(p, enq_flags)
#define MORE_OPS                                                           \
	.select_cpu = (void *)simple_select_cpu,                           \
	.running = (void *)simple_running,                                 \
	.stopping = (void *)simple_stopping,                               \
	.enable = (void *)simple_enable,
#include "lab.h"

#define DSQ_LOCAL_ON 0xc000000000000000ull
#define ENQ_PREEMPT (1ull << 32)

const volatile bool fifo;
const volatile u64 slice = SLICE_DFL;
const volatile u64 odd;

static u64 vtime_now;

struct bpf_map_def {
	__uint(type, 6);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} stats SEC(".maps");

static void count(u32 at)
{
	u64 *counter = map_lookup(&stats, &at);

	if (counter)
		(*counter)++;
}

static void insert_oddly(struct task_struct *p, u64 enq_flags)
{
	switch (nr_enqueued / odd % 4) {
	case 0:
		return scx_bpf_dsq_insert(p, DSQ_LOCAL_ON, slice, enq_flags);
	case 1:
		return scx_bpf_dsq_insert(p, DSQ_GLOBAL, slice, enq_flags);
	case 2:
		return scx_bpf_dsq_insert(p, DSQ_LOCAL, slice, enq_flags | ENQ_PREEMPT);
	default:
		p->scx.slice = slice + scx_bpf_dsq_nr_queued(SHARED);
		scx_bpf_dsq_insert(p, DSQ_LOCAL, 0, enq_flags);
	}
}

static void insert(struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	count(1);
	if (odd && nr_enqueued % odd == 0)
		return insert_oddly(p, enq_flags);
	if (fifo)
		return scx_bpf_dsq_insert(p, SHARED, slice, enq_flags);
	if ((s64)(vtime - (vtime_now - slice)) < 0)
		vtime = vtime_now - slice;
	scx_bpf_dsq_insert_vtime(p, SHARED, slice, vtime, enq_flags);
}

SEC("struct_ops/simple_select_cpu")
s32 simple_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, ctx[1], ctx[2], &is_idle);

	if (is_idle) {
		count(0);
		scx_bpf_dsq_insert(p, DSQ_LOCAL, slice, 0);
	}
	return cpu;
}

SEC("struct_ops/simple_running")
void simple_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (!fifo && (s64)(vtime_now - p->scx.dsq_vtime) < 0)
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/simple_stopping")
void simple_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (!fifo)
		p->scx.dsq_vtime += (slice - p->scx.slice) * 100 / p->scx.weight;
}

SEC("struct_ops/simple_enable")
void simple_enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	p->scx.dsq_vtime = vtime_now;
}

SCHEDULER
