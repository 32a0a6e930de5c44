/* A scheduler of the cid form with one queue that takes sub-schedulers, and can be one: tells what it learns, in order. */
#include "lab.h"

#define __arena __attribute__((address_space(1)))
#define MOST_CHILDREN 4

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct scx_cmask {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u64 bits[1];
};
struct scx_sched_ops_seen {
	u64 sub_cgroup_id;
};
struct scx_sub_attach_args {
	struct sched_ext_ops *ops;
	char *cgroup_path;
};
struct sched_ext_ops___seen {
	u64 sub_cgroup_id;
	char name[128];
};
struct kernfs_node {
	u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
#pragma clang attribute pop

struct sched_ext_ops_cid {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cid, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*update_idle)(s32 cid, bool idle);
	s32 (*init_task)(struct task_struct *p, void *args);
	void (*exit_task)(struct task_struct *p, void *args);
	void (*enable)(struct task_struct *p, void *args);
	void (*disable)(struct task_struct *p);
	s32 (*cpuctl_init)(void *cgrp, void *args);
	void (*cpuctl_exit)(void *cgrp);
	void (*cpuctl_set_weight)(void *cgrp, u32 weight);
	s32 (*sub_attach)(struct scx_sub_attach_args *args);
	void (*sub_detach)(struct scx_sub_attach_args *args);
	void (*sub_caps_updated)(const struct scx_cmask *cmask, u64 caps);
	void (*sub_ecaps_updated)(s32 cid, u64 before, u64 after);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

struct {
	__uint(type, 33);
	__uint(map_flags, 1024);
	__uint(max_entries, 10);
} arena SEC(".maps");

struct mask {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u32 pad;
	u64 bits[2];
};

struct mask __arena cids;
struct mask __arena answer;

u32 scx_bpf_nr_cids(void) __ksym;
bool scx_bpf_sub_dispatch(u64 cgroup_id) __ksym;
s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask, struct scx_cmask *denied) __ksym;
void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask) __ksym;
s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask *out) __ksym;
s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 size) __ksym;

/* Which of several it is, in what it tells. */
const volatile u32 who;
/* What a child is granted, and on which cids. */
const volatile u64 grant = 3;
const volatile u64 grant_cids = ~0ull;
/* The answer to a child, and to tasks of it. */
const volatile s32 attach_error;
const volatile s32 init_error;
const volatile s32 task_error;
/* The call of ops.dispatch() at which a child is killed, its rights are taken, and at which it fails itself. */
const volatile u64 kill_at;
const volatile u64 revoke_at;
const volatile u64 fail_at;
/* Flags of each insert; into the local queue at once. */
const volatile u64 insert_flags;
const volatile bool direct;
const volatile bool quiet;
/* Set by the loader of a sub-scheduler. */
const volatile u64 sub_cgroup_id;

u64 children[MOST_CHILDREN];
u64 nr_enqueued;
u64 nr_run;
u64 nr_passes;
u64 nr_found;
u64 nr_idle;
u64 nr_reenqueued;

static long (*const trace_printk)(const char *fmt, u32 size, ...) = (void *)6;

#define tell(format, ...)                                                  \
	({                                                                 \
		static const char text[] = "%d " format;                   \
		if (!quiet)                                                \
			trace_printk(text, sizeof(text), who, __VA_ARGS__); \
	})

static void all_cids(struct mask __arena *mask, u64 bits)
{
	mask->base = 0;
	mask->nr_cids = scx_bpf_nr_cids();
	mask->alloc_words = 2;
	mask->bits[0] = bits & ((1ull << mask->nr_cids) - 1);
}

SEC("struct_ops/subs_enqueue")
void subs_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];

	nr_enqueued++;
	nr_reenqueued += (p->scx.flags >> 12 & 7) == 4;
	if (direct && (p->scx.flags >> 12 & 7) != 4)
		scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL / 20, insert_flags);
	else
		scx_bpf_dsq_insert(p, SHARED, SLICE_DFL / 20, flags & 0);
}

static void fail(void)
{
	static char text[] = "it fails";

	scx_bpf_error_bstr(text, NULL, 0);
}

SEC("struct_ops/subs_dispatch")
void subs_dispatch(u64 *ctx)
{
	static char text[] = "not wanted";
	u32 first;

	(void)ctx;
	asm volatile("" ::"r"(&arena));
	nr_passes++;
	if (nr_passes == fail_at)
		fail();
	if (nr_passes == kill_at)
		scx_bpf_sub_kill_bstr(children[0], text, NULL, 0);
	if (nr_passes == revoke_at) {
		all_cids(&cids, ~0ull);
		scx_bpf_sub_revoke(children[0], 15, (struct scx_cmask *)&cids);
	}
	first = nr_passes % MOST_CHILDREN;
	for (u32 i = 0; i < MOST_CHILDREN; i++) {
		u64 child = children[(first + i) % MOST_CHILDREN];

		if (i == 2 && scx_bpf_dsq_move_to_local(SHARED))
			return;
		if (child && scx_bpf_sub_dispatch(child)) {
			nr_found++;
			return;
		}
	}
	scx_bpf_dsq_move_to_local(SHARED);
}

SEC("struct_ops/subs_running")
void subs_running(u64 *ctx)
{
	(void)ctx;
	nr_run++;
}

SEC("struct_ops/subs_update_idle")
void subs_update_idle(u64 *ctx)
{
	(void)ctx;
	nr_idle++;
}

SEC("struct_ops.s/subs_init_task")
s32 subs_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	tell("init_task %d", p->pid);
	return task_error;
}

SEC("struct_ops/subs_exit_task")
void subs_exit_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	tell("exit_task %d", p->pid);
}

SEC("struct_ops/subs_enable")
void subs_enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	tell("enable %d", p->pid);
}

SEC("struct_ops/subs_disable")
void subs_disable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	tell("disable %d", p->pid);
}

static u64 number(u64 cgrp)
{
	return ((struct cgroup *)cgrp)->kn->id;
}

SEC("struct_ops.s/subs_group_init")
s32 subs_group_init(u64 *ctx)
{
	tell("group %d", number(ctx[0]));
	return 0;
}

SEC("struct_ops.s/subs_group_exit")
void subs_group_exit(u64 *ctx)
{
	tell("group_exit %d", number(ctx[0]));
}

SEC("struct_ops/subs_group_weight")
void subs_group_weight(u64 *ctx)
{
	tell("weight %d %d", number(ctx[0]), ctx[1]);
}

SEC("struct_ops.s/subs_attach")
s32 subs_attach(u64 *ctx)
{
	struct scx_sub_attach_args *args = (void *)ctx[0];
	u64 id = ((struct sched_ext_ops___seen *)args->ops)->sub_cgroup_id;
	char path[16] = {};

	asm volatile("" ::"r"(&arena));
	probe_read_str(path, sizeof(path), args->cgroup_path);
	tell("attach %d %s", id, path);
	for (u32 i = 0; i < MOST_CHILDREN; i++) {
		if (!children[i]) {
			children[i] = id;
			break;
		}
	}
	all_cids(&cids, grant_cids);
	if (grant)
		tell("granted %d", scx_bpf_sub_grant(id, grant, (struct scx_cmask *)&cids, NULL));
	return attach_error;
}

SEC("struct_ops.s/subs_detach")
void subs_detach(u64 *ctx)
{
	struct scx_sub_attach_args *args = (void *)ctx[0];
	u64 id = ((struct sched_ext_ops___seen *)args->ops)->sub_cgroup_id;

	tell("detach %d", id);
	for (u32 i = 0; i < MOST_CHILDREN; i++)
		if (children[i] == id)
			children[i] = 0;
}

SEC("struct_ops/subs_caps_updated")
void subs_caps_updated(u64 *ctx)
{
	asm volatile("" ::"r"(&arena));
	all_cids(&answer, 0);
	scx_bpf_sub_caps(0, 15, (struct scx_cmask *)&answer);
	tell("caps %d now %d", ctx[1], answer.bits[0]);
}

SEC("struct_ops/subs_ecaps_updated")
void subs_ecaps_updated(u64 *ctx)
{
	tell("ecaps %d %d", ctx[0], ctx[1] << 4 | ctx[2]);
}

SEC("struct_ops.s/subs_init")
s32 subs_init(u64 *ctx)
{
	(void)ctx;
	tell("init %d", sub_cgroup_id);
	return init_error ?: scx_bpf_create_dsq(SHARED, -1);
}

SEC("struct_ops/subs_exit")
void subs_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];

	tell("exit %d", info->kind);
}

SEC(".struct_ops.link")
struct sched_ext_ops_cid subs = {
	.enqueue = (void *)subs_enqueue,
	.dispatch = (void *)subs_dispatch,
	.running = (void *)subs_running,
	.update_idle = (void *)subs_update_idle,
	.init_task = (void *)subs_init_task,
	.exit_task = (void *)subs_exit_task,
	.enable = (void *)subs_enable,
	.disable = (void *)subs_disable,
	.cpuctl_init = (void *)subs_group_init,
	.cpuctl_exit = (void *)subs_group_exit,
	.cpuctl_set_weight = (void *)subs_group_weight,
	.sub_attach = (void *)subs_attach,
	.sub_detach = (void *)subs_detach,
	.sub_caps_updated = (void *)subs_caps_updated,
	.sub_ecaps_updated = (void *)subs_ecaps_updated,
	.init = (void *)subs_init,
	.exit = (void *)subs_exit,
	.flags = 16,
	.timeout_ms = 1000,
	.name = "subs",
};
