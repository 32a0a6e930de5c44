/* SPDX-License-Identifier: GPL-2.0-only */
/* dump_endless.bpf.c - fills the dump without end, lines and pieces of lines, once it has failed. */
#include "hostile.h"

static char piece[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static char line[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n";
static char why[] = "to see the dump";
static u64 none;

static long write_piece(u64 pass, void *context)
{
	scx_bpf_dump_bstr(piece, &none, 0);
	return 0;
}

static long write_line(u64 pass, void *context)
{
	scx_bpf_dump_bstr(line, &none, 0);
	return 0;
}

SEC("struct_ops/dump")
void hostile_dump(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, write_line, NULL, 0);
}

SEC("struct_ops/dump_task")
void hostile_dump_task(u64 *ctx)
{
	bpf_loop(MOST_LOOPS, write_piece, NULL, 0);
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	scx_bpf_error_bstr(why, &none, 0);
}

SCHEDULER(.dump = (void *)hostile_dump, .dump_task = (void *)hostile_dump_task,
	  .enqueue = (void *)hostile_enqueue);
