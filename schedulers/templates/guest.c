/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAME.bpf.c - one queue in the order of virtual times, for the tasks of a group: a sub-scheduler below a host.
 *
 * A task's virtual time is its CPU time divided by its weight: of those that wait, the one that has had the least runs next. Below a
 * host it puts a task on a CPU when it is asked, one at a time. It runs a whole machine too. It takes Linux 7.1.
 */
#include <scx/common.bpf.h>
#include <scx/bpf_arena_common.bpf.h>

/* What reports and loaders of schedlab read; another tree's headers do not have it. */
#ifndef TUNABLE
#define TUNABLE(...)
#define COUNTS(meaning)
#endif

/* The queue that all CPUs take their tasks from. */
#define SHARED 0
#define MOST_CIDS 512

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5000000;

/* Set by the loader of a sub-scheduler: the number of its group. */
const volatile u64 sub_cgroup_id;

/* The kernel hands over sets of CPUs in an arena, which a scheduler of this form must have. */
struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
#if defined(__TARGET_ARCH_arm64)
	__ulong(map_extra, 0x1ull << 32);
#else
	__ulong(map_extra, 0x1ull << 44);
#endif
} arena SEC(".maps");

/* The highest virtual time at which a turn has begun. */
static u64 vtime_now;

/* The CPUs that idle. */
static u64 idle[MOST_CIDS / 64];

u64 nr_queued COUNTS("tasks that were put on the queue");

UEI_DEFINE(uei);

/* The virtual time of @p with what it has used of its turn. The kernel's own turns, as of a task that exits, are longer. */
static u64 vtime_of(struct task_struct *p)
{
	u64 used = p->scx.slice < slice_ns ? slice_ns - p->scx.slice : 0;

	return p->scx.dsq_vtime + scale_by_task_weight_inverse(p, used);
}

/* An idle CPU that @p may use looks for a task. */
static void wake_idle_cid(struct task_struct *p)
{
	u32 cid, nr_cids = scx_bpf_nr_cids();

	bpf_for(cid, 0, nr_cids) {
		u64 *word = MEMBER_VPTR(idle, [(u32)cid / 64]);
		s32 cpu = scx_bpf_cid_to_cpu(cid);

		if (!word || cpu < 0 || !(*word & 1ull << (cid & 63)) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (__sync_fetch_and_and(word, ~(1ull << (cid & 63))) & 1ull << (cid & 63)) {
			scx_bpf_kick_cid(cid, SCX_KICK_IDLE);
			return;
		}
	}
}

void BPF_STRUCT_OPS(NAME_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* A task that has slept gets one turn in advance, not all that it could have had. */
	if (time_before(vtime, vtime_now - slice_ns))
		vtime = vtime_now - slice_ns;
	__sync_fetch_and_add(&nr_queued, 1);
	scx_bpf_dsq_insert_vtime(p, SHARED, slice_ns, vtime, enq_flags);
	wake_idle_cid(p);
}

/* @p begins a turn: tasks that wake from now on are placed by its virtual time. */
static void begin_turn(struct task_struct *p)
{
	/* CPUs race here; the next turn puts it right. */
	if (time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

/* Has @p, which has used up its turn, had less than the first task that waits? */
static bool is_behind(struct task_struct *p)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(SHARED);

	return first && time_before(vtime_of(p), first->scx.dsq_vtime);
}

void BPF_STRUCT_OPS(NAME_dispatch, s32 cid, struct task_struct *prev)
{
	bool can_go_on = prev && prev->scx.flags & SCX_TASK_QUEUED;

	/* A task of this scheduler that has run until now gets another turn if it is behind, or no other waits: the host has asked. */
	if ((!can_go_on || !is_behind(prev)) && scx_bpf_dsq_move_to_local(SHARED, sub_cgroup_id ? SCX_ENQ_IMMED : 0))
		return;
	if (can_go_on) {
		scx_bpf_task_set_dsq_vtime(prev, vtime_of(prev));
		begin_turn(prev);
		scx_bpf_task_set_slice(prev, slice_ns);
	}
}

void BPF_STRUCT_OPS(NAME_running, struct task_struct *p)
{
	begin_turn(p);
}

void BPF_STRUCT_OPS(NAME_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_of(p));
}

void BPF_STRUCT_OPS(NAME_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

void BPF_STRUCT_OPS(NAME_update_idle, s32 cid, bool is_idle)
{
	u64 *word = MEMBER_VPTR(idle, [(u32)cid / 64]);

	if (!word)
		return;
	if (is_idle)
		__sync_fetch_and_or(word, 1ull << (cid & 63));
	else
		__sync_fetch_and_and(word, ~(1ull << (cid & 63)));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(NAME_init)
{
	/* What has the arena belong to this object. */
	asm volatile("" ::"r"(&arena));
	if (scx_bpf_nr_cids() > MOST_CIDS) {
		scx_bpf_error("%u CPUs are more than %u", scx_bpf_nr_cids(), MOST_CIDS);
		return -E2BIG;
	}
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(NAME_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_CID_DEFINE(NAME_ops,
		   .enqueue = (void *)NAME_enqueue,
		   .dispatch = (void *)NAME_dispatch,
		   .running = (void *)NAME_running,
		   .stopping = (void *)NAME_stopping,
		   .enable = (void *)NAME_enable,
		   .update_idle = (void *)NAME_update_idle,
		   .init = (void *)NAME_init,
		   .exit = (void *)NAME_exit,
		   .name = "NAME");

char _license[] SEC("license") = "GPL";
