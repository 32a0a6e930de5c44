/* SPDX-License-Identifier: GPL-2.0-only */
/* error_flood.bpf.c - reports eight million errors with the longest text there is, and more in its dump. */
#include "hostile.h"

static char form[] = "%s%s%s%s%s%s%s%s%s%s%s%s";
static volatile char text[1024];

static long report(u64 pass, void *context)
{
	u64 args[12];

	for (u32 at = 0; at < 12; at++)
		args[at] = (u64)text;
	scx_bpf_error_bstr(form, args, sizeof(args));
	return 0;
}

SEC("struct_ops/dump")
void hostile_dump(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, report, NULL, 0);
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	for (u32 at = 0; at < sizeof(text) - 1; at++)
		text[at] = 'x';
	bpf_loop(MOST_LOOPS, report, NULL, 0);
}

SCHEDULER(.dump = (void *)hostile_dump, .enqueue = (void *)hostile_enqueue);
