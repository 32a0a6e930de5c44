/* SPDX-License-Identifier: GPL-2.0-only */
/* auxiliary.bpf.c - programs beside the callbacks: a loader runs two of them, others only report; and an array of events. */
#include "compat.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct cgroup {
	struct cgroup_subsys_state self;
};
#pragma clang attribute pop

struct bpf_iter_css {
	u64 __opaque[3];
};

struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;
void bpf_cgroup_release(struct cgroup *cgroup) __ksym;
int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, unsigned int flags) __ksym;
struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it) __ksym;
void bpf_iter_css_destroy(struct bpf_iter_css *it) __ksym;

struct set_up_args {
	u64 slice_ns;
	u32 times;
};

struct {
	__uint(type, 4);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

static long (*perf_event_read)(void *map, u64 flags) = (void *)22;
static long (*perf_event_read_value)(void *map, u64 flags, void *value, u32 size) = (void *)55;
static long (*read_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*seq_write)(struct seq_file *seq, const void *data, u32 len) = (void *)127;

s64 nr_slice, nr_times, nr_read, nr_value, nr_large, nr_samples, nr_sleeps, nr_softirqs, nr_below, nr_above, nr_no_order, nr_renames, nr_unnamed, nr_execs;

SEC("syscall")
int set_up(struct set_up_args *args)
{
	nr_slice = args->slice_ns;
	nr_times += args->times;
	return 0;
}

SEC("syscall")
int fails(void *args)
{
	return -22;
}

SEC("iter/task")
int report_tasks(u64 *ctx)
{
	struct bpf_iter_meta *meta = (void *)ctx[0];
	s64 slice = nr_slice;

	return seq_write(meta->seq, &slice, sizeof(slice)) ? 1 : 0;
}

SEC("perf_event")
int on_sample(void *ctx)
{
	nr_samples++;
	return 0;
}

SEC("fentry/do_nanosleep")
int on_sleep(u64 *ctx)
{
	nr_sleeps++;
	return 0;
}

/* The test makes and changes no cgroup, so that these decide nothing. */
SEC("tp_btf/cgroup_mkdir")
int on_cgroup(u64 *ctx)
{
	nr_slice = 1;
	return 0;
}

SEC("fentry/cpuset_write_resmask")
int on_cpuset(u64 *ctx)
{
	nr_slice = 2;
	return 0;
}

/* Interrupts are not shown in the simulator. */
SEC("tp_btf/softirq_entry")
int on_softirq(u64 *ctx)
{
	nr_softirqs++;
	return 0;
}

/* exec() names the task, then tells of the new program. */
SEC("tp_btf/task_rename")
int on_rename(u64 *ctx)
{
	char name[16];

	nr_renames++;
	nr_unnamed += read_str(name, sizeof(name), (void *)ctx[1]) < 2;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	nr_execs++;
	return 0;
}

/* Cgroups on a walk from the root, in an order of enum bpf_cgroup_iter_order; -1 for no order. */
static __always_inline s64 walk(unsigned int order)
{
	struct cgroup *root = bpf_cgroup_from_id(1);
	struct cgroup_subsys_state *css;
	struct bpf_iter_css it;
	s64 steps = 0;

	if (!root)
		return -2;
	if (bpf_iter_css_new(&it, &root->self, order))
		steps = -1;
	else
		while ((css = bpf_iter_css_next(&it)))
			steps += css->cgroup != NULL;
	bpf_iter_css_destroy(&it);
	bpf_cgroup_release(root);
	return steps;
}

SEC("struct_ops/enqueue")
void auxiliary_enqueue(u64 *ctx)
{
	u64 value[3] = { 1, 2, 3 };

	nr_below = walk(2);
	nr_above = walk(4);
	nr_no_order = walk(1);

	nr_read = perf_event_read(&events, 0xffffffff);
	nr_value = 1000 * perf_event_read_value(&events, 0, value, sizeof(value)) + value[0];
	nr_large = perf_event_read(&events, 4096);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, nr_slice ?: 20 * MS, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops auxiliary_ops = {
	.enqueue = (void *)auxiliary_enqueue,
	.flags = SCX_OPS_ENQ_LAST,
	.name = "auxiliary",
};

char _license[] SEC("license") = "GPL";
