/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * printed.bpf.c - the lines that BPF programs print with bpf_printk().
 *
 * The kernel's trace point has the text alone; time, CPU and current task are
 * those of the call. While user space has it active, each line goes into a ring
 * buffer, which user space empties once a second at least. A line that finds
 * the ring full is counted and left out. The kernel does not say which program
 * printed a line.
 */

typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int (*name)[val]

#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_RB_NO_WAKEUP 1

/* Chosen: more lines than are kept of a whole run. */
#define RING_BYTES (1 << 20)

#define COMM_LEN 16
/* The kernel's limit of a line. */
#define TEXT_LEN 1024

static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

struct line {
	u64 time;		/* ns, on the clock of bpf_ktime_get_ns() */
	u32 cpu;
	u32 pid;		/* of the current task, 0: idle */
	char comm[COMM_LEN];
	char text[TEXT_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

/* Set by user space. */
u32 active;			/* 1: lines are handed over */

/* Read by user space. */
u64 nr_lost;			/* lines that found no room */

SEC("tp_btf/bpf_trace_printk")
int printed_line(u64 *ctx)
{
	struct line *line;

	if (!active)
		return 0;
	line = bpf_ringbuf_reserve(&ring, sizeof(*line), 0);
	if (!line) {
		__sync_fetch_and_add(&nr_lost, 1);
		return 0;
	}
	line->time = bpf_ktime_get_ns();
	line->cpu = bpf_get_smp_processor_id();
	line->pid = (u32)bpf_get_current_pid_tgid();
	bpf_get_current_comm(line->comm, COMM_LEN);
	if (bpf_probe_read_kernel_str(line->text, TEXT_LEN, (void *)ctx[0]) < 0)
		line->text[0] = 0;
	bpf_ringbuf_submit(line, BPF_RB_NO_WAKEUP);
	return 0;
}

char _license[] SEC("license") = "GPL";
