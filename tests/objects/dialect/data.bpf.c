/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * data.bpf.c - every way in which examples of the kernel keep data: resized arrays, members by a checked index, trees and lists of
 * objects, storage of a task, a timer. `nr_wrong` counts answers that cannot be.
 */
#include <scx/common.bpf.h>

enum {
	OWN = 3,
	TIMER_NS = 10000000,
};

u64 nr_checks, nr_wrong, nr_timers, nr_started;
const volatile u32 nr_cpu_ids = 1;

u64 RESIZABLE_ARRAY(data, started_at);
u32 table[4][8];

UEI_DEFINE(uei);

struct own_task {
	u64 runs;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct own_task);
} own_tasks SEC(".maps");

struct own_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct own_timer);
} timers SEC(".maps");

struct own_node {
	struct bpf_rb_node link;
	u64 key;
};

private(TREE) struct bpf_spin_lock tree_lock;
private(TREE) struct bpf_rb_root tree __contains(own_node, link);

static void expect(bool is_right)
{
	nr_checks++;
	if (unlikely(!is_right))
		nr_wrong++;
}

static bool is_less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return container_of(a, struct own_node, link)->key < container_of(b, struct own_node, link)->key;
}

/* Two objects go into the tree, and the one with the lower key is the first. */
static void use_tree(void)
{
	struct bpf_rb_node *first;
	struct own_node *node;
	u64 i, key;

	bpf_for(i, 0, 2) {
		node = bpf_obj_new(struct own_node);
		if (!node)
			return;
		node->key = 9 - i;
		bpf_spin_lock(&tree_lock);
		bpf_rbtree_add(&tree, &node->link, is_less);
		bpf_spin_unlock(&tree_lock);
	}
	bpf_repeat(2) {
		bpf_spin_lock(&tree_lock);
		first = bpf_rbtree_first(&tree);
		if (!first) {
			bpf_spin_unlock(&tree_lock);
			break;
		}
		first = bpf_rbtree_remove(&tree, first);
		bpf_spin_unlock(&tree_lock);
		if (!first)
			break;
		node = container_of(first, struct own_node, link);
		key = node->key;
		bpf_obj_drop(node);
		expect(key == 8 || key == 9);
	}
}

/* Indices that the verifier knows nothing of: inside, and outside. */
static void use_members(void)
{
	u64 inside = bpf_get_prandom_u32() % 4, outside = 4 + inside;
	u32 *member = MEMBER_VPTR(table, [inside][inside]);

	expect(member != NULL);
	if (member)
		WRITE_ONCE(*member, 7);
	member = MEMBER_VPTR(table, [outside][0]);
	expect(member == NULL);
	expect(ARRAY_ELEM_PTR(started_at, nr_cpu_ids, nr_cpu_ids) == NULL);
}

static void use_numbers(void)
{
	expect(log2_u32(1) == 0 && log2_u32(1 << 31) == 31 && log2_u64(1ull << 40) == 41);
	expect(__sqrt_u64(1000000) == 1000 && __sqrt_u64(99) == 9 && ctzll(40) == 3);
	expect(__calc_avg(800u, 400u, 2) == 700 && __calc_avg(1u, 0u, 2) == 0);
	expect(__COMPAT_ENUM_OR_ZERO(enum scx_ops_flags, SCX_OPS_ENQ_LAST) == 2);
}

static int timer_fired(void *map, int *key, struct bpf_timer *timer)
{
	nr_timers++;
	bpf_timer_start(timer, TIMER_NS, 0);
	return 0;
}

void BPF_STRUCT_OPS(data_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, OWN, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(data_dispatch, s32 cpu, struct task_struct *prev)
{
	use_tree();
	use_members();
	scx_bpf_dsq_move_to_local(OWN, 0);
}

void BPF_STRUCT_OPS(data_running, struct task_struct *p)
{
	struct own_task *own = bpf_task_storage_get(&own_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 *started = ARRAY_ELEM_PTR(started_at, scx_bpf_task_cpu(p), nr_cpu_ids);

	if (own)
		own->runs++;
	expect(started != NULL);
	if (started) {
		*started = scx_bpf_now();
		nr_started++;
		expect(READ_ONCE(*started) != 0);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(data_init)
{
	u32 key = 0;
	struct bpf_timer *timer = bpf_map_lookup_elem(&timers, &key);

	use_numbers();
	if (!timer)
		return -ESRCH;
	bpf_timer_init(timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(timer, timer_fired);
	bpf_timer_start(timer, TIMER_NS, 0);
	return scx_bpf_create_dsq(OWN, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(data_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(data_ops,
	       .enqueue = (void *)data_enqueue,
	       .dispatch = (void *)data_dispatch,
	       .running = (void *)data_running,
	       .init = (void *)data_init,
	       .exit = (void *)data_exit,
	       .name = "data");

char _license[] SEC("license") = "GPL";
