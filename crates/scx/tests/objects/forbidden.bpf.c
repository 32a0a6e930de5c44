/* Calls kernel functions where the kernel does not allow it; `what` says which, and the others are dead code. */
#define MORE_OPS .set_weight = (void *)lab_set_weight, .running = (void *)lab_running,
#define INIT set_timer()
#define ENQUEUE                                                            \
	enqueue_wrongly();                                                 \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"

enum what { NOTHING, ENQUEUE_CREATES, ENQUEUE_MOVES, RUNNING_INSERTS, WEIGHT_SELECTS, TIMER_CREATES, TIMER_MOVES, TIMER_COUNTS };

const volatile enum what what = NOTHING;

struct clock {
	struct bpf_timer timer;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock);
} clocks SEC(".maps");

/* A function of its own: the verifier follows calls. */
static __attribute__((noinline)) void enqueue_wrongly(void)
{
	if (what == ENQUEUE_CREATES)
		scx_bpf_create_dsq(5, -1);
	else if (what == ENQUEUE_MOVES)
		scx_bpf_dsq_move_to_local(SHARED);
}

static int timer_creates(void *map, u32 *key, struct clock *clock)
{
	return scx_bpf_create_dsq(6, -1);
}

static int timer_moves(void *map, u32 *key, struct clock *clock)
{
	return scx_bpf_dsq_move_to_local(SHARED);
}

static int timer_counts(void *map, u32 *key, struct clock *clock)
{
	return scx_bpf_dsq_nr_queued(SHARED);
}

static void set_timer(void)
{
	u32 key = 0;
	struct clock *clock = map_lookup(&clocks, &key);

	if (!clock)
		return;
	timer_init(&clock->timer, &clocks, 1);
	if (what == TIMER_CREATES)
		timer_set_callback(&clock->timer, timer_creates);
	else if (what == TIMER_MOVES)
		timer_set_callback(&clock->timer, timer_moves);
	else if (what == TIMER_COUNTS)
		timer_set_callback(&clock->timer, timer_counts);
}

SEC("struct_ops/lab_running") void lab_running(u64 *ctx)
{
	if (what == RUNNING_INSERTS)
		scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SEC("struct_ops/lab_set_weight") void lab_set_weight(u64 *ctx)
{
	bool idle;

	if (what == WEIGHT_SELECTS)
		scx_bpf_select_cpu_dfl((void *)ctx[0], 0, 0, &idle);
}
SCHEDULER
