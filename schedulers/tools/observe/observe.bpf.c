/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * observe.bpf.c - what the kernel's scheduling looks like from outside, for
 * any scheduler.
 *
 * Follows the tasks of one workload: every task that the leader process (or one of its
 * descendants) creates. Counts switches and migrations per task and keeps two
 * histograms, of all tasks and of each. One has every wait of a runnable task for a
 * CPU (run delay), the other one the waits that began with a wakeup. Of the longest
 * waits of a task it keeps when, where and behind which task. Nothing is sent while
 * the workload runs; user space reads the sections and the maps at the end.
 */

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

#define BPF_MAP_TYPE_HASH 1
#define BPF_ANY 0
#define BPF_F_NO_PREALLOC 1

/* Histogram: below 64 ns exact, above 64 steps per power of two. */
#define SUB_BITS 6
#define SUB (1u << SUB_BITS)
#define NR_BUCKETS ((64 - SUB_BITS + 1) * SUB)

#define MAX_CPUS 1024
#define MAX_TASKS 65536
#define MAX_WAITS (1u << 20)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
	int tgid;
};
#pragma clang attribute pop

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;

/* The longest wait of a task. */
struct longest {
	u64 length;		/* ns; 0: none */
	u64 since;		/* when it began */
	u64 behind_ns;		/* how long the last one before ran meanwhile */
	u32 behind;		/* that one's pid; 0: the CPU was idle */
	u32 cpu;		/* where the wait ended */
};

struct seen {
	u64 wait_since;		/* runnable since then without running; 0: is not */
	u64 switches;		/* times it was switched to */
	u64 migrations;		/* times it ran on another CPU than before */
	u64 run_delay;		/* ns runnable without running, in total */
	u64 wakeup_latency;	/* of these, after a wakeup */
	u32 last_cpu;		/* CPU it ran on last, plus 1; 0: has not run yet */
	u32 woken;		/* waits because of a wakeup, not of a preemption */
	struct longest delay;	/* of all waits */
	struct longest latency;	/* of the waits after a wakeup */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TASKS);
	__type(key, u32);
	__type(value, struct seen);
} tasks SEC(".maps");

struct waits {
	u64 all;
	u64 woken;		/* of these, after a wakeup */
};

/* By pid, in the upper half of the key, and bucket. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_WAITS);
	__type(key, u64);
	__type(value, struct waits);
} task_waits SEC(".maps");

struct cpu {
	u64 since;		/* of the last switch, or the beginning */
	u64 busy;		/* ns with a task on it, between begin and end */
	u64 running;		/* 1: a task is on it */
	u64 last;		/* pid of the workload's task on it last since begin, 0: idle or none; others are passed over */
};

/* Set by user space. */
u32 leader;			/* process whose descendants are followed */
u32 active;			/* 1: between begin and end */
u32 closed;			/* 1: after the end; nothing changes any more */
u64 begin;			/* ns, on the clock of bpf_ktime_get_ns(); 0: not yet */
u64 end = ~0ULL;		/* the same */

/* Read by user space. */
u64 nr_switches;
u64 nr_wakeups;
u64 nr_untracked;		/* tasks without room in the map */
u64 run_delay_max;
u64 wakeup_max;
u64 run_delay[NR_BUCKETS];
u64 wakeup_latency[NR_BUCKETS];
struct cpu cpus[MAX_CPUS];

static u32 bucket(u64 value)
{
	u64 high = value;
	u32 log = 0, shift;

	if (value < SUB)
		return value;
	if (high >> 32) {
		log += 32;
		high >>= 32;
	}
	if (high >> 16) {
		log += 16;
		high >>= 16;
	}
	if (high >> 8) {
		log += 8;
		high >>= 8;
	}
	if (high >> 4) {
		log += 4;
		high >>= 4;
	}
	if (high >> 2) {
		log += 2;
		high >>= 2;
	}
	log += high >> 1;
	shift = log - SUB_BITS;
	return (shift + 1) * SUB + (u32)(value >> shift) - SUB;
}

static void record(u64 *histogram, u64 *max, u64 value)
{
	u32 at = bucket(value);

	if (at < NR_BUCKETS)
		__sync_fetch_and_add(&histogram[at], 1);
	/* Two CPUs may race here; the loser's value is in the histogram. */
	if (value > *max)
		*max = value;
}

static struct seen *find(const struct task_struct *task)
{
	u32 pid = task->pid;

	return pid ? bpf_map_lookup_elem(&tasks, &pid) : 0;
}

SEC("tp_btf/sched_process_fork")
int observe_fork(u64 *ctx)
{
	const struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct seen fresh = {};
	u32 pid;

	if (!leader || ((u32)parent->tgid != leader && !find(parent)))
		return 0;
	pid = child->pid;
	if (bpf_map_update_elem(&tasks, &pid, &fresh, BPF_ANY))
		__sync_fetch_and_add(&nr_untracked, 1);
	return 0;
}

/* One more wait of a task. No other CPU has the task, so there is no race for its entry. */
static void count_wait(u32 pid, u64 length, u32 was_woken)
{
	u64 key = (u64)pid << 32 | bucket(length);
	struct waits first = { 1, was_woken }, *found;

	found = bpf_map_lookup_elem(&task_waits, &key);
	if (found) {
		found->all++;
		found->woken += was_woken;
	} else if (bpf_map_update_elem(&task_waits, &key, &first, BPF_ANY)) {
		__sync_fetch_and_add(&nr_untracked, 1);
	}
}

static int woken(u64 *ctx)
{
	struct seen *seen = find((void *)ctx[0]);

	if (!seen || closed)
		return 0;
	seen->wait_since = bpf_ktime_get_ns();
	seen->woken = 1;
	if (active)
		__sync_fetch_and_add(&nr_wakeups, 1);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int observe_wakeup(u64 *ctx)
{
	return woken(ctx);
}

SEC("tp_btf/sched_wakeup_new")
int observe_wakeup_new(u64 *ctx)
{
	return woken(ctx);
}

/* The task that ran before on the CPU, and for how long. */
struct before {
	u32 pid;
	u64 ns;
};

static inline __attribute__((always_inline)) void
keep_longest(struct longest *longest, u64 since, u64 now, u32 cpu, const struct before *before)
{
	u64 length = now - since;

	/* A wait of 0 ns is reported as well: the count is then above 0. */
	if (length < longest->length)
		return;
	longest->length = length;
	longest->since = since;
	longest->cpu = cpu;
	longest->behind = before->pid;
	longest->behind_ns = before->ns < length ? before->ns : length;
}

static inline __attribute__((always_inline)) void
starts(struct seen *seen, u32 pid, u32 cpu, u64 now, const struct before *before)
{
	u64 since = seen->wait_since;
	u32 was_woken = seen->woken;

	if (active) {
		seen->switches++;
		if (seen->last_cpu && seen->last_cpu != cpu + 1)
			seen->migrations++;
		if (since && since < begin)
			since = begin;
		if (since && now >= since) {
			seen->run_delay += now - since;
			record(run_delay, &run_delay_max, now - since);
			keep_longest(&seen->delay, since, now, cpu, before);
			if (was_woken) {
				seen->wakeup_latency += now - since;
				record(wakeup_latency, &wakeup_max, now - since);
				keep_longest(&seen->latency, since, now, cpu, before);
			}
			count_wait(pid, now - since, was_woken);
		}
	}
	seen->last_cpu = cpu + 1;
	seen->wait_since = 0;
	seen->woken = 0;
}

/*
 * Accounts for the CPU's time up to now; how long it had a task since its last switch.
 * begin and end decide what counts, not active. That one may change between the switch
 * and this line, and a stretch which ends then belongs to the run up to its end.
 */
static u64 account_cpu(u32 cpu, u64 now, u32 was_busy, u32 is_busy)
{
	u64 since, until = now < end ? now : end;

	if (cpu >= MAX_CPUS)
		return 0;
	since = cpus[cpu].since;
	if (since < begin)
		since = begin;
	if (begin && was_busy && until > since)
		cpus[cpu].busy += until - since;
	cpus[cpu].since = now;
	cpus[cpu].running = is_busy;
	return was_busy && now > since ? now - since : 0;
}

/*
 * A switch counts when what the CPU runs of the workload changes: a task, another one,
 * none (idle). A task that interrupts another one, which continues afterwards, is passed
 * over: in the simulator there may be no such task. What ran before the beginning
 * counts for no task: the last one to reach the gate is switched to like the others.
 */
static void count_switch(u32 cpu, u32 pid)
{
	if (cpu >= MAX_CPUS || !active || cpus[cpu].last == pid)
		return;
	cpus[cpu].last = pid;
	__sync_fetch_and_add(&nr_switches, 1);
}

SEC("tp_btf/sched_switch")
int observe_switch(u64 *ctx)
{
	const struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 prev_state = ctx[3], cpu = bpf_get_smp_processor_id();
	struct seen *from = find(prev), *to = find(next);
	u64 now = bpf_ktime_get_ns();
	struct before before;

	if (closed)
		return 0;
	before.pid = prev->pid;
	before.ns = account_cpu(cpu, now, prev->pid != 0, next->pid != 0);
	if (from) {
		/* A preempted task stays runnable, whatever it was about to do. */
		from->wait_since = ctx[0] || !prev_state ? now : 0;
		from->woken = 0;
	}
	if (to)
		starts(to, next->pid, cpu, now, &before);
	if (to || !next->pid)
		count_switch(cpu, next->pid);
	return 0;
}

char _license[] SEC("license") = "GPL";
