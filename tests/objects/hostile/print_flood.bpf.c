/* SPDX-License-Identifier: GPL-2.0-only */
/* print_flood.bpf.c - prints the longest lines there are, without end. */
#include "hostile.h"

static volatile char text[1024];
static const char form[] = "%1000d %s %s %s";

static long print(u64 pass, void *context)
{
	bpf_trace_printk(form, sizeof(form), pass, text, text);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	for (u32 at = 0; at < sizeof(text) - 1; at++)
		text[at] = 'x';
	bpf_loop(MOST_LOOPS, print, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
