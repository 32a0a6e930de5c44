/* Uses a bit of everything: storage, locks, timers, masks, iterators, tunables. */
#define INIT                                                               \
	u32 key = 0;                                                       \
	struct tick *t = map_lookup(&ticks, &key);                         \
	if (!t || timer_init(&t->timer, &ticks, 1) ||                      \
	    timer_set_callback(&t->timer, fire) || timer_start(&t->timer, period_ns, 0)) \
		return -22;                                                \
	check_masks()
#define ENQUEUE                                                            \
	note(p);                                                           \
	scx_bpf_dsq_insert_vtime(p, SHARED, slice, p->scx.dsq_vtime, enq_flags)
#define DISPATCH pull()
#include "lab.h"

enum profile { PROFILE_SLOW, PROFILE_FAST_2_6_10 };

const volatile enum profile profile = PROFILE_SLOW;
const volatile u64 slice = 5000000;
const volatile u64 period_ns = 1000000;
const volatile bool loud = false;
const volatile u32 weights[4] = { 1, 2, 3, 4 };
const volatile u32 nr_cpu_ids = 1;

u64 nr_fired;
u64 nr_noted;
u64 nr_pulled;
u64 nr_weight;
u64 nr_seen_cpus;
u64 nr_random;

struct tick {
	struct bpf_timer timer;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tick);
} ticks SEC(".maps");

struct entry {
	struct bpf_spin_lock lock;
	u32 count;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} entries SEC(".maps");
struct {
	__uint(type, 29);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

static int fire(void *map, int *key, struct tick *t)
{
	nr_fired++;
	nr_random ^= prandom();
	timer_start(&t->timer, period_ns, 0);
	return 0;
}

static void check_masks(void)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return;
	bpf_cpumask_set_cpu(1, mask);
	bpf_cpumask_set_cpu(0, mask);
	nr_weight = bpf_cpumask_weight((void *)mask) * 10 + bpf_cpumask_first((void *)mask);
	nr_seen_cpus = nr_cpu_ids;
	bpf_cpumask_release(mask);
}

static void note(struct task_struct *p)
{
	u64 *times = task_storage(&storage, p, NULL, 1);
	u32 key = 0;
	struct entry *e = map_lookup(&entries, &key);

	if (times)
		++*times;
	if (!e)
		return;
	spin_lock(&e->lock);
	e->count++;
	nr_noted = e->count;
	spin_unlock(&e->lock);
}

static void pull(void)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;

	if (!bpf_iter_scx_dsq_new(&it, SHARED, 0) && (p = bpf_iter_scx_dsq_next(&it)) &&
	    scx_bpf_dsq_move(&it, p, DSQ_LOCAL, 0))
		nr_pulled += weights[0];
	bpf_iter_scx_dsq_destroy(&it);
}
SCHEDULER
