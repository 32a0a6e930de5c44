/* Everything about groups at once: all callbacks, storage, references and walks at every move and at every choice of a task. */
#define ENQUEUE storm_enqueue(p, enq_flags)
#define MORE_OPS                                                           \
	.cgroup_init = (void *)storm_init,                                 \
	.cgroup_exit = (void *)storm_exit,                                 \
	.cgroup_prep_move = (void *)storm_prep_move,                       \
	.cgroup_move = (void *)storm_move,                                 \
	.cgroup_set_weight = (void *)storm_set_weight,                     \
	.cgroup_set_bandwidth = (void *)storm_set_bandwidth,               \
	.cgroup_set_idle = (void *)storm_set_idle,
#include "lab.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	u64 id;
};
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
};
#pragma clang attribute pop

struct bpf_iter_css {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, u32 flags) __ksym;
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;
static void *(*const cgroup_storage)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;

struct {
	__uint(type, 32);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} changes SEC(".maps");

/* Groups that a walk visits before it is left; orders of walks: all below, each before those in it, then upward, then children. */
const volatile u32 most = 128;

u64 nr_wrong, nr_visited, nr_init, nr_exit, nr_moves, nr_changes;

static u32 visit(struct cgroup *from, u32 order)
{
	struct cgroup_subsys_state *css;
	struct bpf_iter_css it;
	u32 visited = 0;

	if (bpf_iter_css_new(&it, &from->self, order))
		nr_wrong++;
	while (visited < most && (css = bpf_iter_css_next(&it)))
		visited++;
	bpf_iter_css_destroy(&it);
	__sync_fetch_and_add(&nr_visited, visited);
	return visited;
}

static void look_around(struct cgroup *cgrp)
{
	struct cgroup *root = bpf_cgroup_from_id(1);
	struct cgroup *above = bpf_cgroup_ancestor(cgrp, (u32)cgrp->level / 2);
	u32 level = cgrp->level;

	if (!root || !above) {
		nr_wrong++;
	} else {
		visit(root, 2);
		visit(root, 3);
		visit(root, 5);
		visit(above, 5);
		if (visit(cgrp, 4) != (level < most ? level + 1 : most))
			nr_wrong++;
	}
	if (above)
		bpf_cgroup_release(above);
	if (root)
		bpf_cgroup_release(root);
}

static void storm_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	u64 *seen = cgroup_storage(&changes, cgrp, NULL, 1);

	if (seen)
		__sync_fetch_and_add(seen, 1);
	bpf_cgroup_release(cgrp);
	scx_bpf_dsq_insert(p, SHARED, 1000000, enq_flags);
}

static void changed(struct cgroup *cgrp)
{
	u64 *seen = cgroup_storage(&changes, cgrp, NULL, 1);

	if (seen)
		__sync_fetch_and_add(seen, 1);
	__sync_fetch_and_add(&nr_changes, 1);
}

SEC("struct_ops.s/storm_init")
s32 storm_init(u64 *ctx)
{
	__sync_fetch_and_add(&nr_init, 1);
	return 0;
}

SEC("struct_ops.s/storm_exit")
void storm_exit(u64 *ctx)
{
	__sync_fetch_and_add(&nr_exit, 1);
}

SEC("struct_ops.s/storm_prep_move")
s32 storm_prep_move(u64 *ctx)
{
	return 0;
}

SEC("struct_ops/storm_move")
void storm_move(u64 *ctx)
{
	__sync_fetch_and_add(&nr_moves, 1);
	look_around((void *)ctx[2]);
}

SEC("struct_ops/storm_set_weight")
void storm_set_weight(u64 *ctx)
{
	changed((void *)ctx[0]);
}

SEC("struct_ops.s/storm_set_bandwidth")
void storm_set_bandwidth(u64 *ctx)
{
	changed((void *)ctx[0]);
}

SEC("struct_ops/storm_set_idle")
void storm_set_idle(u64 *ctx)
{
	changed((void *)ctx[0]);
}

SCHEDULER
