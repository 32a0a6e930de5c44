/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * waits.bpf.c - which task waits for which, through what, for how long.
 *
 * For any kernel with BTF from 5.19 on, whatever its scheduler. Two trace points, no
 * work in system calls that do not block. When a task blocks in a system call, its
 * registers tell through what it waits. The task that wakes it up has ended the wait,
 * unless that was an interrupt or a kernel thread. Waits are added up per pair of
 * tasks and resource; user space reads the table.
 *
 * Priority inversion is a part of a wait. In it the provider was runnable without
 * running, while the CPU that it waited for ran a task with a lower priority than the
 * requester's. The provider of a wait is known at its end only, so the recent past is
 * kept. That is, per task, when it was runnable without running, and, per CPU, which
 * priorities ran when.
 */

#include "../../include/compat.h"
#include "../../include/interrupt.h"
#include "../../include/mechanism.h"

#define COUNTS(meaning) __attribute__((btf_decl_tag(meaning)))
#define count(counter) __sync_fetch_and_add(&(counter), 1)

/* More map types and helpers than schedulers use. */
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_ANY 0
#define BPF_NOEXIST 1
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 u64 flags) = (void *)2;
static long (*const bpf_loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;
static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;

/* task_struct::flags: on its way out. */
#define PF_EXITING 0x00000004
/* The softirq that delivers packets. */
#define NET_RX_SOFTIRQ 3
/* Size of a task's stack in the kernel, x86-64. */
#define THREAD_SIZE 16384
/* task_struct::__state */
#define TASK_INTERRUPTIBLE 0x00000001
/* thread_info::flags: a signal has been sent to the task. */
#define TIF_SIGPENDING (1 << 2)

/* Pairs of tasks with a resource; the one unused for longest makes room. Chosen. */
#define MAX_PAIRS 16384
/* Delays kept per task and changes of priority kept per CPU, powers of two. Chosen: those of a second with slices of
 * 10 ms and more of both. */
#define DELAYS 32
#define RUNS 256

/* A span in which a task was runnable without running. */
struct delay {
	u64 begin, end;		/* ns */
	u64 cpu;		/* where it ran then */
};

enum state {
	RUNS_OR_READY,
	BLOCKED,
};

/* What is kept per task. */
struct seen {
	u64 blocked_since;	/* ns; 0: in no wait that counts */
	u64 resource;		/* first argument of the call */
	u64 ready_since;	/* runnable since then without running; 0: is not */
	u32 mechanism;
	u32 state;
	u32 followed;		/* descends from the leader */
	u32 nr_delays;
	struct delay delay[DELAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct seen);
} tasks SEC(".maps");

/* From @since on tasks of this priority run, 0: none. */
struct run {
	u64 since;
	u64 prio;
};

struct runs {
	u64 nr;
	struct run run[RUNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct runs);
} cpus SEC(".maps");

/* The rest of this file's structures is an interface with user space. */
struct pair_key {
	u64 resource;
	u32 requester, provider;	/* thread ids */
	enum mechanism mechanism;
	enum mechanism object;		/* of a wait for several: the mechanism that ended it */
};

struct pair {
	u64 waits;
	u64 time, longest, inversion;	/* ns */
	u32 requester_tgid, provider_tgid;
	u32 requester_prio, provider_prio;
	char requester_comm[16], provider_comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_PAIRS);
	__type(key, struct pair_key);
	__type(value, struct pair);
} pairs SEC(".maps");

/* Set by user space. */
u32 leader;			/* process whose descendants' waits count; 0: those of all tasks do */
u32 active;			/* 1: between begin and end */

/* Read by user space. */
u64 nr_pairs COUNTS("entries made in the table of pairs; those not in it any more were evicted");
u64 nr_waits COUNTS("waits that a task ended");
u64 nr_interrupts COUNTS("waits that an interrupt of some task ended: a timer, a device, another machine");
u64 nr_kernel COUNTS("waits that a kernel thread ended, or an interrupt of one or of an idle CPU");
u64 nr_io_uring COUNTS("waits in io_uring_enter(), which are not covered");
u64 nr_cut_short COUNTS("waits whose inversion is a lower bound: the past that is kept was too short");
u64 nr_lost COUNTS("waits not recorded: no memory for the task or the pair");

static __always_inline struct seen *find(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

/* What is kept of @p, from now on if it is new; NULL: there is no memory. */
static __always_inline struct seen *get(struct task_struct *p)
{
	struct seen *seen = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!seen)
		count(nr_lost);
	return seen;
}

static __always_inline bool is_user(struct task_struct *p)
{
	return p->pid && !(p->flags & PF_KTHREAD);
}

/* ---- interrupts ---- */

/* True while the CPU delivers what was received or sent over the network. By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} delivering SEC(".maps");

static __always_inline void set_delivering(u64 vector, u64 value)
{
	u64 *flag;
	u32 zero = 0;

	if (vector != NET_RX_SOFTIRQ)
		return;
	flag = bpf_map_lookup_elem(&delivering, &zero);
	if (flag)
		*flag = value;
}

SEC("tp_btf/softirq_entry")
s32 waits_softirq_entry(u64 *ctx)
{
	set_delivering((u32)ctx[0], 1);
	return 0;
}

SEC("tp_btf/softirq_exit")
s32 waits_softirq_exit(u64 *ctx)
{
	set_delivering((u32)ctx[0], 0);
	return 0;
}

/*
 * What causes the wakeup that is under way, if @current is a user's task? Not every
 * kernel lets programs see the preemption count. But interrupts are served on a stack
 * of their own, except those that come in user mode, when the task is in no system
 * call. The arguments of a trace point, @ctx, lie on the stack that is in use.
 */
static __always_inline enum waking_context context_of(u64 *ctx, struct task_struct *current)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(current);
	u64 below = (char *)regs - (char *)ctx, *flag;
	u32 zero = 0;

	if (below < THREAD_SIZE) {
		if ((s64)regs->orig_ax < 0 && !(current->flags & PF_EXITING))
			return BY_INTERRUPT;
		return BY_TASK;
	}
	flag = bpf_map_lookup_elem(&delivering, &zero);
	return flag && *flag && sends(current) ? BY_DELIVERY : BY_INTERRUPT;
}

/* ---- the past ---- */

/* From now on this CPU runs tasks of the priority of @next. */
static __always_inline void note_run(struct task_struct *next, u64 now)
{
	u64 prio = next->pid ? next->prio : 0;
	struct runs *runs;
	struct run *last;
	u32 zero = 0;

	runs = bpf_map_lookup_elem(&cpus, &zero);
	if (!runs)
		return;
	last = &runs->run[(runs->nr - 1) % RUNS];
	if (last->prio == prio && runs->nr)
		return;
	last = &runs->run[runs->nr % RUNS];
	last->since = now;
	last->prio = prio;
	runs->nr++;
}

/* @seen gets to run at last. */
static __always_inline void note_delay(struct seen *seen, u64 now)
{
	struct delay *delay = &seen->delay[seen->nr_delays % DELAYS];

	if (seen->ready_since) {
		delay->begin = seen->ready_since;
		delay->end = now;
		delay->cpu = bpf_get_smp_processor_id();
		seen->nr_delays++;
	}
	seen->ready_since = 0;
	seen->state = RUNS_OR_READY;
}

/* Adding up an inversion: of the wait, of the delay at hand. */
struct search {
	struct seen *provider;
	struct runs *runs;
	u64 wait_begin, prio;
	u64 begin, end;		/* what is left of the delay, from its end backwards */
	u64 sum;
	u32 last;		/* number of the delay or run to look at first */
	u64 last_run;
	bool cut_short;
};

/* One priority that the CPU ran, the latest first. */
static long add_run(u32 nr, struct search *search)
{
	struct run *run;
	u64 from;

	if (nr >= search->last_run || nr >= RUNS) {
		search->cut_short = true;
		return 1;
	}
	run = &search->runs->run[(search->last_run - 1 - nr) % RUNS];
	if (run->since >= search->end)
		return 0;
	from = run->since > search->begin ? run->since : search->begin;
	if (run->prio > search->prio)
		search->sum += search->end - from;
	search->end = from;
	return from == search->begin;
}

/* One delay of the provider, the latest first. */
static long add_delay(u32 nr, struct search *search)
{
	struct delay *delay;
	u32 zero = 0;

	if (nr >= search->last)
		return 1;
	delay = &search->provider->delay[(search->last - 1 - nr) % DELAYS];
	if (delay->end <= search->wait_begin)
		return 1;
	if (nr == DELAYS - 1)
		search->cut_short = true;
	search->begin = delay->begin > search->wait_begin ? delay->begin : search->wait_begin;
	search->end = delay->end;
	search->runs = bpf_map_lookup_percpu_elem(&cpus, &zero, delay->cpu);
	if (!search->runs)
		return 1;
	search->last_run = search->runs->nr;
	bpf_loop(RUNS + 1, add_run, search, 0);
	return 0;
}

/* How much of the wait of a task of priority @prio since @begin was an inversion. */
static __always_inline u64 inversion(struct task_struct *provider, u64 begin, u64 prio)
{
	struct search search = {.wait_begin = begin, .prio = prio};

	search.provider = find(provider);
	if (!search.provider)
		return 0;
	search.last = search.provider->nr_delays;
	bpf_loop(DELAYS, add_delay, &search, 0);
	if (search.cut_short)
		count(nr_cut_short);
	return search.sum;
}

/* ---- waits ---- */

/* @p, the current task, blocks. */
static __always_inline void blocks(struct task_struct *p, u32 state, u64 now)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(p);
	struct seen *seen = get(p);
	enum mechanism through;

	if (!seen)
		return;
	seen->state = BLOCKED;
	seen->ready_since = 0;
	seen->blocked_since = 0;
	if (!(state & TASK_INTERRUPTIBLE))
		return;
	through = mechanism_of(p, regs);
	if (through == THROUGH_IO_URING && active)
		count(nr_io_uring);
	if (through == THROUGH_NOTHING || through == THROUGH_IO_URING)
		return;
	seen->mechanism = through;
	seen->resource = regs->di;
	seen->blocked_since = now;
}

SEC("tp_btf/sched_switch")
s32 waits_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	bool preempted = ctx[0];
	u32 state = ctx[3];
	u64 now = bpf_ktime_get_ns();
	struct seen *seen;

	note_run(next, now);
	if (is_user(prev)) {
		if (!preempted && state) {
			blocks(prev, state, now);
		} else {
			seen = get(prev);
			if (seen)
				seen->ready_since = now;
		}
	}
	if (is_user(next)) {
		seen = find(next);
		if (seen) {
			note_delay(seen, now);
			seen->blocked_since = 0;
		}
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
s32 waits_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct seen *seen = NULL;

	if (!leader)
		return 0;
	if ((u32)parent->tgid != leader)
		seen = find(parent);
	if ((u32)parent->tgid != leader && (!seen || !seen->followed))
		return 0;
	seen = get(child);
	if (seen)
		seen->followed = 1;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
s32 waits_wakeup_new(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct seen *seen = is_user(p) ? get(p) : NULL;

	if (seen)
		seen->ready_since = bpf_ktime_get_ns();
	return 0;
}

/* The entry of a pair, which is made if need be. */
static __always_inline struct pair *pair_of(struct pair_key *key)
{
	static const struct pair fresh;
	struct pair *pair = bpf_map_lookup_elem(&pairs, key);

	if (pair)
		return pair;
	if (!bpf_map_update_elem(&pairs, key, &fresh, BPF_NOEXIST))
		count(nr_pairs);
	return bpf_map_lookup_elem(&pairs, key);
}

static __always_inline void copy_comm(char *to, const char *from)
{
	u64 *words = (u64 *)to;
	const u64 *source = (const u64 *)from;

	words[0] = source[0];
	words[1] = source[1];
}

/* The current task @provider ends the wait of @p. */
static __noinline int ended(struct task_struct *p, struct task_struct *provider, struct seen *seen,
			    u64 now)
{
	u64 since = seen->blocked_since, time = now - since;
	struct pair_key key = {
		.resource = seen->resource,
		.requester = p->pid,
		.provider = provider->pid,
		.mechanism = seen->mechanism,
	};
	struct pair *pair;

	if (key.mechanism != THROUGH_CHILD && p->thread_info.flags & TIF_SIGPENDING)
		key.mechanism = THROUGH_SIGNAL;
	/* The end of a child is a resource of its own. */
	if (key.mechanism == THROUGH_CHILD)
		key.resource = provider->pid;
	if (key.mechanism >= THROUGH_POLL && key.mechanism <= THROUGH_EPOLL)
		key.object = mechanism_of(provider, (void *)bpf_task_pt_regs(provider));
	pair = pair_of(&key);
	if (!pair) {
		count(nr_lost);
		return 0;
	}
	count(nr_waits);
	__sync_fetch_and_add(&pair->waits, 1);
	__sync_fetch_and_add(&pair->time, time);
	__sync_fetch_and_add(&pair->inversion, inversion(provider, since, p->prio));
	if (time > pair->longest)
		pair->longest = time;
	pair->requester_tgid = p->tgid;
	pair->provider_tgid = provider->tgid;
	pair->requester_prio = p->prio;
	pair->provider_prio = provider->prio;
	copy_comm(pair->requester_comm, p->comm);
	copy_comm(pair->provider_comm, provider->comm);
	return 0;
}

SEC("tp_btf/sched_waking")
s32 waits_waking(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0], *current;
	struct seen *seen = find(p);
	enum waking_context context;
	u64 now;

	if (!seen || seen->state != BLOCKED)
		return 0;
	now = bpf_ktime_get_ns();
	seen->state = RUNS_OR_READY;
	seen->ready_since = now;
	if (!seen->blocked_since || !active || (leader && !seen->followed))
		goto out;
	current = bpf_get_current_task_btf();
	if (!is_user(current)) {
		count(nr_kernel);
		goto out;
	}
	context = context_of(ctx, current);
	if (context == BY_INTERRUPT || (context == BY_DELIVERY && !reached_by_network(seen->mechanism)))
		count(nr_interrupts);
	else if (current->pid != p->pid)
		ended(p, current, seen, now);
out:
	seen->blocked_since = 0;
	return 0;
}

char _license[] SEC("license") = "GPL";
