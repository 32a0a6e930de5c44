/* A scheduler of the cid form: the arguments it gets, and what it may not do. */
#include "lab.h"

#define __arena __attribute__((address_space(1)))
#define LOCAL_ON 0xc000000000000000ull

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct scx_enable_args {
	u64 cmask_arena_addr;
};
struct scx_cmask {
	u32 base;
	u32 nr_cids;
};
#pragma clang attribute pop

struct sched_ext_ops_cid {
	s32 (*select_cid)(struct task_struct *p, s32 prev_cid, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*enable)(struct task_struct *p, struct scx_enable_args *args);
	s32 (*init)(void);
	u64 flags;
	u32 dispatch_max_batch;
	u32 timeout_ms;
	u32 rescue_bandwidth_ppt;
	u32 rescue_quantum_us;
	u64 sub_cgroup_id;
	char name[128];
};

struct {
	__uint(type, 33);
	__uint(map_flags, 1024);
	__uint(max_entries, 10);
} arena SEC(".maps");

struct wide_topo {
	s32 numbers[10];
};

s32 scx_bpf_this_cid(void) __ksym;
s32 scx_bpf_cid_to_cpu(s32 cid) __ksym;
void scx_bpf_cid_topo(s32 cid, struct wide_topo *out, u64 size) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;

enum question {
	ASK_NOTHING,
	ASK_CPU,
	ASK_STORE,
	ASK_TOPO,
};
const volatile enum question ask = ASK_NOTHING;

u32 nr_cids;
s32 first_cpu;
u64 nr_elsewhere;
struct wide_topo topo;

/* Leaves the choice to the queue, so that each wakeup comes to enqueue(). */
SEC("struct_ops/cids_select_cid")
s32 cids_select_cid(u64 *ctx)
{
	return ctx[1];
}

SEC("struct_ops/cids_enqueue")
void cids_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (ask == ASK_CPU)
		scx_bpf_kick_cpu(0, 0);
	if (ask == ASK_STORE)
		p->scx.slice = 1;
	if (ask == ASK_TOPO)
		scx_bpf_cid_topo(99, &topo, sizeof(topo));
	scx_bpf_dsq_insert(p, LOCAL_ON | 1, SLICE_DFL, 0);
}

SEC("struct_ops/cids_running")
void cids_running(u64 *ctx)
{
	(void)ctx;
	nr_elsewhere += scx_bpf_this_cid() != 1;
}

SEC("struct_ops/cids_enable")
void cids_enable(u64 *ctx)
{
	struct scx_enable_args *args = (void *)ctx[1];
	struct scx_cmask __arena *mask = (void __arena *)args->cmask_arena_addr;

	/* A program that looks into the arena has to name it. */
	asm volatile("" ::"r"(&arena));
	nr_cids = mask->nr_cids;
}

SEC("struct_ops.s/cids_init")
s32 cids_init(u64 *ctx)
{
	(void)ctx;
	first_cpu = scx_bpf_cid_to_cpu(0);
	scx_bpf_cid_topo(1, &topo, sizeof(topo));
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops_cid cids = {
	.select_cid = (void *)cids_select_cid,
	.enqueue = (void *)cids_enqueue,
	.running = (void *)cids_running,
	.enable = (void *)cids_enable,
	.init = (void *)cids_init,
	.timeout_ms = 1000,
	.name = "cids",
};
