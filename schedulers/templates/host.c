/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAME.bpf.c - a host of sub-schedulers: CPU time by the weights of their groups, first come, first served for all other tasks.
 *
 *   tasks of no sub-scheduler -> SHARED --+
 *   sub-scheduler of group a  ------------+--> the one that has had the least time by its weight is asked first
 *   sub-scheduler of group b  ------------+
 *
 * It takes Linux 7.1, as struct sched_ext_ops_cid and sub-schedulers do. It can be attached to a group itself, below another host: give
 * all of them one slice_ns then.
 */
#include <scx/common.bpf.h>
#include <scx/bpf_arena_common.bpf.h>

/* What reports and loaders of schedlab read; another tree's headers do not have it. */
#ifndef TUNABLE
#define TUNABLE(...)
#define COUNTS(meaning)
#endif

/* The queue of the tasks that no sub-scheduler has. */
#define SHARED 0
/* Sub-schedulers, and CPUs. */
#define MOST_GUESTS 8
#define MOST_CIDS 512
#define WORDS (MOST_CIDS / 64)

const volatile u64 slice_ns TUNABLE("longest turn of a task", "ns", 100000, 1000000000) = 5000000;
const volatile u32 own_weight TUNABLE("weight of the tasks that no sub-scheduler has", "1", 1, 10000) = 100;

/* Set by the loader of a host that is a sub-scheduler: the number of its group. */
const volatile u64 sub_cgroup_id;

u64 nr_own COUNTS("turns of tasks that no sub-scheduler has");
u64 nr_guests COUNTS("turns of sub-schedulers");

/* The arena has what the kernel reads and writes: sets of CPUs. */
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

struct cids {
	u32 base;
	u32 nr_cids;
	u32 alloc_words;
	u64 bits[WORDS + 1];
};

struct cids __arena_global all_cids;

/* A party to the CPUs: the own tasks, which are number 0, or a sub-scheduler. */
struct party {
	/* 0 for none. */
	u64 group;
	u64 weight;
	/* CPU time divided by weight, in ns at weight 100. */
	u64 vtime;
};

static struct party parties[MOST_GUESTS + 1];

/* The turn that a CPU is in. */
struct turn {
	/* Number of the party and one; 0 for none. */
	u32 party;
	u64 since;
};

static struct turn turns[MOST_CIDS];

/* The CPUs that idle. */
static u64 idle[WORDS];

UEI_DEFINE(uei);

static void begin_turn(s32 cid, u32 party)
{
	struct turn *turn = MEMBER_VPTR(turns, [cid]);

	if (!turn)
		return;
	turn->party = party + 1;
	turn->since = scx_bpf_now();
	__sync_fetch_and_add(party ? &nr_guests : &nr_own, 1);
}

/* The turn of @cid ends: its party has used this time. Says which it was, -1 for none. */
static s32 end_turn(s32 cid)
{
	struct turn *turn = MEMBER_VPTR(turns, [cid]);
	struct party *party;
	u32 number;
	u64 used;

	if (!turn || !turn->party)
		return -1;
	used = scx_bpf_now() - turn->since;
	/* The host above does not say when it has given the CPU to others. No turn is longer than this where all slices are. */
	if (sub_cgroup_id && used > slice_ns)
		used = slice_ns;
	number = turn->party - 1;
	turn->party = 0;
	party = MEMBER_VPTR(parties, [number]);
	if (party && party->weight)
		__sync_fetch_and_add(&party->vtime, used * 100 / party->weight);
	return number;
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
	scx_bpf_dsq_insert(p, SHARED, slice_ns, enq_flags);
	wake_idle_cid(p);
}

/* The party that has had the least of those that are not in @asked; -1 if there is none. */
static s32 next_party(u32 asked)
{
	s32 best = -1;
	u64 least = 0;
	u32 number;

	bpf_for(number, 0, MOST_GUESTS + 1) {
		struct party *party = MEMBER_VPTR(parties, [number]);

		if (!party || asked & 1u << number || (number && !party->group))
			continue;
		if (best < 0 || time_before(party->vtime, least)) {
			best = number;
			least = party->vtime;
		}
	}
	return best;
}

/* Has the own queue, or a sub-scheduler, a task for this CPU? @prev: an own task that has run until now and could continue. */
static bool ask(u32 number, u64 group, struct task_struct *prev)
{
	if (number)
		return scx_bpf_sub_dispatch(group);
	/* Below another host it has CPUs for one task at a time. */
	if (scx_bpf_dsq_move_to_local(SHARED, sub_cgroup_id ? SCX_ENQ_IMMED : 0))
		return true;
	if (prev)
		scx_bpf_task_set_slice(prev, slice_ns);
	return prev;
}

/* @number has a task. Parties before it had none: what they did not use is gone. */
static void catch_up(u32 asked, u32 number)
{
	struct party *chosen = MEMBER_VPTR(parties, [number]);
	u32 other;

	if (!chosen)
		return;
	bpf_for(other, 0, MOST_GUESTS + 1) {
		struct party *party = MEMBER_VPTR(parties, [other]);

		if (party && asked & 1u << other && time_before(party->vtime, chosen->vtime))
			party->vtime = chosen->vtime;
	}
}

void BPF_STRUCT_OPS(NAME_dispatch, s32 cid, struct task_struct *prev)
{
	s32 last = end_turn(cid);
	struct task_struct *own = last == 0 && prev && prev->scx.flags & SCX_TASK_QUEUED ? prev : NULL;
	u32 i, asked = 0;

	bpf_for(i, 0, MOST_GUESTS + 1) {
		s32 number = next_party(asked);
		struct party *party;

		if (number < 0)
			return;
		party = MEMBER_VPTR(parties, [number]);
		if (party && ask(number, party->group, own)) {
			catch_up(asked, number);
			begin_turn(cid, number);
			return;
		}
		asked |= 1u << number;
	}
}

void BPF_STRUCT_OPS(NAME_update_idle, s32 cid, bool is_idle)
{
	u64 *word = MEMBER_VPTR(idle, [(u32)cid / 64]);

	if (!word)
		return;
	if (is_idle) {
		end_turn(cid);
		__sync_fetch_and_or(word, 1ull << (cid & 63));
	} else {
		__sync_fetch_and_and(word, ~(1ull << (cid & 63)));
	}
}

/* The weight that a group has now: the kernel says later changes alone. */
static u64 weight_of(u64 group)
{
	struct cgroup_subsys_state *css;
	struct cgroup *cgrp = bpf_cgroup_from_id(group);
	u64 weight = 0;

	if (!cgrp)
		return 100;
	css = BPF_CORE_READ(cgrp, subsys[cpu_cgrp_id]);
	if (css)
		weight = BPF_CORE_READ(container_of(css, struct task_group, css), scx.weight);
	bpf_cgroup_release(cgrp);
	return weight ?: 100;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(NAME_sub_attach, struct scx_sub_attach_args *args)
{
	u64 group = args->ops->sub_cgroup_id;
	u32 number;

	bpf_for(number, 1, MOST_GUESTS + 1) {
		struct party *party = MEMBER_VPTR(parties, [number]);

		if (!party || party->group)
			continue;
		party->weight = weight_of(group);
		/* It begins where the own tasks are, not at all the time that was before it. */
		party->vtime = parties[0].vtime;
		party->group = group;
		/* Its tasks come to a CPU when it has the turn, one at a time; the right to fill a CPU's queue is not given. */
		return scx_bpf_sub_grant(group, SCX_CAP_ENQ_IMMED, (struct scx_cmask __arena *)&all_cids, NULL);
	}
	return -ENOSPC;
}

void BPF_STRUCT_OPS_SLEEPABLE(NAME_sub_detach, struct scx_sub_detach_args *args)
{
	u64 group = args->ops->sub_cgroup_id;
	u32 number;

	bpf_for(number, 1, MOST_GUESTS + 1) {
		struct party *party = MEMBER_VPTR(parties, [number]);

		if (party && party->group == group)
			party->group = 0;
	}
}

void BPF_STRUCT_OPS(NAME_cpuctl_set_weight, struct cgroup *cgrp, u32 weight)
{
	u64 group = cgrp->kn->id;
	u32 number;

	bpf_for(number, 1, MOST_GUESTS + 1) {
		struct party *party = MEMBER_VPTR(parties, [number]);

		if (party && party->group == group)
			party->weight = weight;
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(NAME_init)
{
	u32 cid, nr_cids = scx_bpf_nr_cids();

	if (nr_cids > MOST_CIDS) {
		scx_bpf_error("%u CPUs are more than %u", nr_cids, MOST_CIDS);
		return -E2BIG;
	}
	parties[0].weight = own_weight;
	all_cids.nr_cids = nr_cids;
	all_cids.alloc_words = WORDS + 1;
	bpf_for(cid, 0, nr_cids)
		all_cids.bits[cid / 64] |= 1ull << (cid & 63);
	return scx_bpf_create_dsq(SHARED, NUMA_NO_NODE);
}

void BPF_STRUCT_OPS(NAME_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_CID_DEFINE(NAME_ops,
		   .enqueue = (void *)NAME_enqueue,
		   .dispatch = (void *)NAME_dispatch,
		   .update_idle = (void *)NAME_update_idle,
		   .sub_attach = (void *)NAME_sub_attach,
		   .sub_detach = (void *)NAME_sub_detach,
		   .cpuctl_set_weight = (void *)NAME_cpuctl_set_weight,
		   .init = (void *)NAME_init,
		   .exit = (void *)NAME_exit,
		   .name = "NAME");

char _license[] SEC("license") = "GPL";
