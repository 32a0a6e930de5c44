/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * events.bpf.c - every switch and wakeup of the machine, one by one.
 *
 * For any scheduler. While user space has it active, each event goes into a
 * ring buffer, which user space empties some ten times a second. An event that
 * finds the ring full is counted and left out. The reader is not woken up: a
 * wakeup for each switch would show up among the switches.
 */

typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int (*name)[val]

#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_RB_NO_WAKEUP 1

/* Chosen: a quarter of a million events, more than two CPUs make between two looks. */
#define RING_BYTES (1 << 24)

#define COMM_LEN 16

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
	char comm[COMM_LEN];
};
#pragma clang attribute pop

static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

enum kind {
	SWITCH = 1,
	WAKEUP = 2,
};

struct event {
	u64 time;		/* ns, on the clock of bpf_ktime_get_ns() */
	u32 kind;
	u32 cpu;		/* where it happens */
	u32 pid;		/* SWITCH: the task that stops; WAKEUP: the one that is woken up; 0: idle */
	u32 other;		/* SWITCH: the task that runs; WAKEUP: the current task */
	u32 state;		/* SWITCH: of the task that stops, 0: runnable */
	u32 unused;
	char comm[COMM_LEN];
	char other_comm[COMM_LEN];	/* SWITCH only */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

/* Set by user space. */
u32 active;			/* 1: events are reported */

/* Read by user space. */
u64 nr_lost;			/* events that found no room */

static inline __attribute__((always_inline)) void tell(struct event *event)
{
	if (bpf_ringbuf_output(&ring, event, sizeof(*event), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&nr_lost, 1);
}

SEC("tp_btf/sched_switch")
int events_switch(u64 *ctx)
{
	const struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct event event = { .kind = SWITCH };

	if (!active)
		return 0;
	event.time = bpf_ktime_get_ns();
	event.cpu = bpf_get_smp_processor_id();
	event.pid = prev->pid;
	event.other = next->pid;
	/* A preempted task stays runnable, whatever it was about to do. */
	event.state = ctx[0] ? 0 : ctx[3];
	bpf_probe_read_kernel(event.comm, COMM_LEN, &prev->comm);
	bpf_probe_read_kernel(event.other_comm, COMM_LEN, &next->comm);
	tell(&event);
	return 0;
}

static inline __attribute__((always_inline)) int woken(const struct task_struct *task)
{
	struct event event = { .kind = WAKEUP };

	if (!active)
		return 0;
	event.time = bpf_ktime_get_ns();
	event.cpu = bpf_get_smp_processor_id();
	event.pid = task->pid;
	event.other = (u32)bpf_get_current_pid_tgid();
	bpf_probe_read_kernel(event.comm, COMM_LEN, &task->comm);
	tell(&event);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int events_wakeup(u64 *ctx)
{
	return woken((void *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int events_wakeup_new(u64 *ctx)
{
	return woken((void *)ctx[0]);
}

char _license[] SEC("license") = "GPL";
