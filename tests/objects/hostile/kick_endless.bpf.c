/* SPDX-License-Identifier: GPL-2.0-only */
/* kick_endless.bpf.c - has every CPU kick the others whenever it looks for a task or idles. */
#include "hostile.h"

static void kick_all(void)
{
	u32 count = scx_bpf_nr_cpu_ids();

	for (u32 cpu = 0; cpu < count; cpu++)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

SEC("struct_ops/dispatch")
void hostile_dispatch(u64 *ctx)
{
	kick_all();
}

SEC("struct_ops/update_idle")
void hostile_update_idle(u64 *ctx)
{
	kick_all();
}

SCHEDULER(.dispatch = (void *)hostile_dispatch, .update_idle = (void *)hostile_update_idle);
