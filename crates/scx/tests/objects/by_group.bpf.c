/* CPU time by weight of the group: one queue in order of the groups' virtual time. */
#define ENQUEUE insert(p, enq_flags)
#define DISPATCH dispatch((void *)ctx[1])
#define MORE_OPS                                                           \
	.running = (void *)group_running,                                  \
	.stopping = (void *)group_stopping,                                \
	.cgroup_init = (void *)group_init,                                 \
	.cgroup_set_weight = (void *)group_set_weight,
#include "lab.h"

#define SLICE 5000000ull
#define QUEUED 1

struct kernfs_node {
	u64 id;
} __attribute__((preserve_access_index));
struct cgroup {
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));
struct scx_cgroup_init_args {
	u32 weight;
} __attribute__((preserve_access_index));
struct group {
	u64 vtime;
	u64 weight;
};

struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
static void *(*const cgroup_storage)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;

struct {
	__uint(type, 32);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, struct group);
} groups SEC(".maps");

/* The group of the task that a CPU runs, which ops.dispatch() may not ask for. */
struct {
	__uint(type, 6);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} running SEC(".maps");

/* The greatest virtual time at which a task has begun to run: where a new group begins. */
u64 vtime_now;

static struct group *group_of(struct task_struct *p)
{
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	struct group *group = cgroup_storage(&groups, cgrp, NULL, 1);

	bpf_cgroup_release(cgrp);
	return group;
}

static struct group *group_here(void)
{
	u32 zero = 0;
	u64 *id = map_lookup(&running, &zero);
	struct cgroup *cgrp = id ? bpf_cgroup_from_id(*id) : NULL;
	struct group *group;

	if (!cgrp)
		return NULL;
	group = cgroup_storage(&groups, cgrp, NULL, 1);
	bpf_cgroup_release(cgrp);
	return group;
}

/* Charges what is gone of a slice. The kernel gives its own, longer slice to a task that continues because nothing else is queued. */
static void charge(struct group *group, u64 slice_left)
{
	if (group && group->weight && slice_left < SLICE)
		group->vtime += (SLICE - slice_left) * 100 / group->weight;
}

static void insert(struct task_struct *p, u64 enq_flags)
{
	struct group *group = group_of(p);

	if (!group)
		return;
	/* A group that had nothing to run does not catch up. */
	if ((s64)(group->vtime - (vtime_now - SLICE)) < 0)
		group->vtime = vtime_now - SLICE;
	scx_bpf_dsq_insert_vtime(p, SHARED, SLICE, group->vtime, enq_flags);
}

/* The queue does not have @prev yet: it continues if its group has had less than that of the first there. */
static void dispatch(struct task_struct *prev)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first;
	struct group *group;
	bool stays = false;

	if (prev && prev->scx.flags & QUEUED && (group = group_here())) {
		u64 used = group->weight ? SLICE * 100 / group->weight : SLICE;

		bpf_iter_scx_dsq_new(&it, SHARED, 0);
		first = bpf_iter_scx_dsq_next(&it);
		stays = !first || (s64)(group->vtime + used - first->scx.dsq_vtime) < 0;
		bpf_iter_scx_dsq_destroy(&it);
		if (stays) {
			charge(group, prev->scx.slice);
			prev->scx.slice = SLICE;
			return;
		}
	}
	scx_bpf_dsq_move_to_local(SHARED);
}

SEC("struct_ops/group_running")
void group_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cgroup *cgrp = scx_bpf_task_cgroup(p);
	u32 zero = 0;
	u64 *id = map_lookup(&running, &zero);

	if (id)
		*id = cgrp->kn->id;
	if ((s64)(vtime_now - p->scx.dsq_vtime) < 0)
		vtime_now = p->scx.dsq_vtime;
	bpf_cgroup_release(cgrp);
}

SEC("struct_ops/group_stopping")
void group_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	charge(group_of(p), p->scx.slice);
}

SEC("struct_ops.s/group_init")
s32 group_init(u64 *ctx)
{
	struct scx_cgroup_init_args *args = (void *)ctx[1];
	struct group *group = cgroup_storage(&groups, (void *)ctx[0], NULL, 1);

	if (group) {
		group->weight = args->weight;
		group->vtime = vtime_now;
	}
	return group ? 0 : -12;
}

SEC("struct_ops/group_set_weight")
void group_set_weight(u64 *ctx)
{
	struct group *group = cgroup_storage(&groups, (void *)ctx[0], NULL, 1);

	if (group)
		group->weight = ctx[1];
}

SCHEDULER
