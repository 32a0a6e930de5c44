/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prices.bpf.c - a queue of one task or more, handed over in one of several ways.
 *
 * For `schedlab calibrate`, which holds a pipe under one way against a pipe under another:
 * the difference is what the kernel does for the one and not for the other.
 */
#include "../../include/compat.h"

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;

#define SHARED 0

enum way {
	ON_QUEUE = 0,		/* tasks wait on a dispatch queue */
	IN_HAND = 1,		/* the scheduler keeps their numbers, and inserts them in ops.dispatch() */
	TWICE = 2,		/* the same, with each task looked up once more */
	KICKED = 3,		/* on a dispatch queue; a woken task preempts */
};

const volatile u32 way TUNABLE("how tasks get to their CPU", "kind", 0, 3) = ON_QUEUE;
const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 20 * MS;

/* Numbers of the tasks that wait for CPU 0, where the loops are. */
#define ROOM 64
static s32 waiting[ROOM];
static u32 first, last;

SEC("struct_ops/enqueue")
void prices_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (way == KICKED) {
		scx_bpf_dsq_insert(p, SHARED, slice_ns, ctx[1]);
		if (ctx[1] & ENQ_FLAG_WAKEUP)
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), KICK_PREEMPT);
	} else if (way == ON_QUEUE || scx_bpf_task_cpu(p) || last - first >= ROOM)
		scx_bpf_dsq_insert(p, SHARED, slice_ns, ctx[1]);
	else
		waiting[last++ % ROOM] = p->pid;
}

static __always_inline void hand_over(s32 pid)
{
	struct task_struct *p;

	if (way == TWICE) {
		p = bpf_task_from_pid(pid);
		if (p)
			bpf_task_release(p);
	}
	p = bpf_task_from_pid(pid);
	if (!p)
		return;
	scx_bpf_dsq_insert(p, DSQ_LOCAL, slice_ns, 0);
	bpf_task_release(p);
}

SEC("struct_ops/dispatch")
void prices_dispatch(u64 *ctx)
{
	if (first != last && !(s32)ctx[0])
		hand_over(waiting[first++ % ROOM]);
	else
		scx_bpf_dsq_move_to_local(SHARED, 0);
}

SEC("struct_ops.s/init")
s32 prices_init(u64 *ctx)
{
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

SEC(".struct_ops.link")
struct sched_ext_ops prices_ops = {
	.enqueue = (void *)prices_enqueue,
	.dispatch = (void *)prices_dispatch,
	.init = (void *)prices_init,
	.name = "prices",
};

char _license[] SEC("license") = "GPL";
