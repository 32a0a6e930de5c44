/* Keeps what a scheduler learns of groups, in order, and what it finds when it asks about them. */
#define DISPATCH groups_dispatch((void *)ctx[1])
#define MORE_OPS                                                           \
	.init_task = (void *)groups_init_task,                             \
	.exit_task = (void *)groups_exit_task,                             \
	.cgroup_init = (void *)groups_init,                                \
	.cgroup_exit = (void *)groups_exit,                                \
	.cgroup_prep_move = (void *)groups_prep_move,                      \
	.cgroup_move = (void *)groups_move,                                \
	.cgroup_set_weight = (void *)groups_set_weight,                    \
	.cgroup_set_bandwidth = (void *)groups_set_bandwidth,              \
	.cgroup_set_idle = (void *)groups_set_idle,
#include "lab.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	u64 id;
	const char *name;
	struct kernfs_node *__parent;
};
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};
struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	int max_depth;
	int nr_descendants;
	struct kernfs_node *kn;
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *ancestors[1];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
	bool sched_idle;
};
struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};
struct task_struct___groups {
	struct css_set *cgroups;
};
#pragma clang attribute pop

struct bpf_iter_css {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym;
struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
long bpf_task_under_cgroup(struct task_struct *task, struct cgroup *ancestor) __ksym;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, u32 flags) __ksym;
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;

static u64 (*const current_cgroup_id)(void) = (void *)80;
static u64 (*const current_ancestor_cgroup_id)(int level) = (void *)123;
static void *(*const cgroup_storage)(void *map, struct cgroup *cgrp, void *value, u64 flags) = (void *)210;

struct {
	__uint(type, 32);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} values SEC(".maps");

/* The number of the group whose ops.cgroup_init() fails, and with what; the same of moves into it. */
const volatile u64 bad_init;
const volatile s32 bad_error = -12;
const volatile u64 bad_move;
/* Callbacks that ask for the cgroup of a task that they are not about. */
const volatile u32 asks;
#define ASKS_INIT_TASK 1
#define ASKS_PREP_MOVE 2
#define ASKS_DISPATCH 4
/* A walk of this order over all groups when one of this number appears; after that, by kind of css. */
const volatile u32 order = 2;
const volatile u64 walk_at;
const volatile bool by_controller;
const volatile bool keeps;

u64 nr_wrong;
struct cgroup *kept;

#define tell(format, ...)                                                  \
	({                                                                 \
		static const char text[] = format;                         \
		trace_printk(text, sizeof(text), __VA_ARGS__);             \
	})

static long (*const trace_printk)(const char *fmt, u32 size, ...) = (void *)6;

static u64 number(struct cgroup *cgrp)
{
	return cgrp->kn->id;
}

static void expect(bool right)
{
	if (!right)
		nr_wrong++;
}

/* No callback is about this task: the answer is the root. */
static void ask(struct task_struct *p)
{
	struct cgroup *own = scx_bpf_task_cgroup(p);

	expect(own->level == 0);
	bpf_cgroup_release(own);
}

static void groups_dispatch(struct task_struct *prev)
{
	if (prev && asks & ASKS_DISPATCH)
		ask(prev);
	scx_bpf_dsq_move_to_local(SHARED);
}

static void walk(void)
{
	struct cgroup *root = bpf_cgroup_from_id(1);
	struct cgroup_subsys_state *css;
	struct bpf_iter_css it;

	if (!root)
		return;
	expect(bpf_iter_css_new(&it, &root->self, 9) == -22 && !bpf_iter_css_next(&it));
	bpf_iter_css_destroy(&it);
	bpf_iter_css_new(&it, by_controller ? root->subsys[1] : &root->self, order);
	while ((css = bpf_iter_css_next(&it)))
		tell("walk %d", number(css->cgroup));
	bpf_iter_css_destroy(&it);
	bpf_cgroup_release(root);
}

SEC("struct_ops.s/groups_init")
s32 groups_init(u64 *ctx)
{
	struct cgroup *cgrp = (void *)ctx[0];
	struct scx_cgroup_init_args *args = (void *)ctx[1];
	struct cgroup *above, *same;
	u64 id = number(cgrp);
	u64 *value;

	tell("init %d weight %d idle %d", id, args->weight, args->sched_idle);
	tell("init %d max %lld burst %d", id, args->bw_quota_us, args->bw_burst_us);
	expect(args->bw_period_us >= 1000 && (cgrp->level > 0 || !cgrp->self.parent));
	tell("init %d name %s", id, cgrp->kn->name);
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	expect(!above == !cgrp->level);
	if (above) {
		expect(cgrp->self.parent->cgroup == above && cgrp->kn->__parent == above->kn);
		expect(bpf_cgroup_ancestor(cgrp, cgrp->level) == cgrp && !bpf_cgroup_ancestor(cgrp, 9));
		bpf_cgroup_release(cgrp);
		bpf_cgroup_release(above);
	}
	/* The directory of a group that is being made, "late" here, is not there yet. */
	same = bpf_cgroup_from_id(id);
	expect(same == (cgrp->kn->name[0] == 'l' ? NULL : cgrp));
	if (same)
		bpf_cgroup_release(same);
	value = cgroup_storage(&values, cgrp, NULL, 1);
	expect(value && *value == 0);
	if (value)
		*value = id;
	/* The deepest one, with a reference or without, which no verified program keeps. */
	if (cgrp->level == 3)
		kept = keeps ? bpf_cgroup_acquire(cgrp) : cgrp;
	if (id == walk_at)
		walk();
	return id == bad_init ? bad_error : 0;
}

SEC("struct_ops.s/groups_exit")
void groups_exit(u64 *ctx)
{
	struct cgroup *cgrp = (void *)ctx[0];
	u64 *value = cgroup_storage(&values, cgrp, NULL, 0);

	expect(value && *value == number(cgrp));
	tell("exit %d", number(cgrp));
}

SEC("struct_ops.s/groups_prep_move")
s32 groups_prep_move(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cgroup *from = (void *)ctx[1], *to = (void *)ctx[2];

	expect(bpf_task_under_cgroup(p, from) == 1);
	if (asks & ASKS_PREP_MOVE)
		ask(p);
	tell("prepare %d from %d to %d", p->pid, number(from), number(to));
	return number(to) == bad_move ? -16 : 0;
}

SEC("struct_ops/groups_move")
void groups_move(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cgroup *from = (void *)ctx[1], *to = (void *)ctx[2];
	struct cgroup *own = scx_bpf_task_cgroup(p);
	struct task_struct___groups *more = (void *)p;

	expect(own == to && more->cgroups->dfl_cgrp == to && bpf_task_under_cgroup(p, to) == 1);
	expect(bpf_task_under_cgroup(p, NULL) == -22);
	bpf_cgroup_release(own);
	tell("move %d from %d to %d", p->pid, number(from), number(to));
}

SEC("struct_ops/groups_set_weight")
void groups_set_weight(u64 *ctx)
{
	tell("weight %d is %d", number((void *)ctx[0]), ctx[1]);
}

SEC("struct_ops.s/groups_set_bandwidth")
void groups_set_bandwidth(u64 *ctx)
{
	tell("max %d is %lld of %d", number((void *)ctx[0]), ctx[2], ctx[1]);
	tell("burst %d is %d", number((void *)ctx[0]), ctx[3]);
}

SEC("struct_ops/groups_set_idle")
void groups_set_idle(u64 *ctx)
{
	tell("idle %d is %d", number((void *)ctx[0]), ctx[1]);
}

SEC("struct_ops.s/groups_init_task")
s32 groups_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct scx_init_task_args *args = (void *)ctx[1];

	if (asks & ASKS_INIT_TASK)
		ask(p);
	tell("init task %d in %d", p->pid, number(args->cgroup));
	return 0;
}

SEC("struct_ops/groups_exit_task")
void groups_exit_task(u64 *ctx)
{
	tell("exit task %d", ((struct task_struct *)ctx[0])->pid);
}

SEC("tp_btf/cgroup_mkdir")
int groups_mkdir(u64 *ctx)
{
	struct cgroup *cgrp = (void *)ctx[0];

	tell("mkdir %d %s by %d", number(cgrp), ctx[1], current_cgroup_id());
	tell("below %d of %d", cgrp->ancestors[0]->nr_descendants, cgrp->ancestors[0]->max_depth);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int groups_rmdir(u64 *ctx)
{
	tell("rmdir %d %s below %d", number((void *)ctx[0]), ctx[1], current_ancestor_cgroup_id(0));
	expect(current_ancestor_cgroup_id(9) == 0);
	tell("below %d", ((struct cgroup *)ctx[0])->ancestors[0]->nr_descendants);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int groups_attach(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[2];

	expect(!ctx[3]);
	tell("attach %d to %d at %s", p->pid, number((void *)ctx[0]), ctx[1]);
	if (kept) {
		struct cgroup *again = bpf_cgroup_acquire(kept);

		tell("kept %d", again == kept);
		if (again)
			bpf_cgroup_release(again);
		expect(!again || cgroup_storage(&values, kept, NULL, 0) || !cgroup_storage(&values, kept, NULL, 1));
	}
	return 0;
}

SEC("fentry/cpuset_write_resmask")
int groups_cpuset(u64 *ctx)
{
	tell("cpus %s", ctx[1]);
	expect(ctx[2] && !ctx[3]);
	return 0;
}

SCHEDULER
