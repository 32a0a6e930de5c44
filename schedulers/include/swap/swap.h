/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap.h - SWAP (Zheng and Nieh, NSDI 2004), a layer that any policy can carry:
 * an object built with -DSWAP has it. Blocked tasks whose provider can run stay
 * queued, and the provider runs in their place.
 *
 * Included by glue.h. Without SWAP its hooks are empty.
 */
#ifndef SCHEDLAB_SWAP_H
#define SCHEDLAB_SWAP_H

#ifdef SWAP

#include "args.h"
#include "files.h"
#include "resource.h"
#include "table.h"
#include "search.h"
#include "realtime.h"
#include "virtual.h"
#include "scope.h"
#include "paper.h"
#include "detect.h"
#include "tell.h"

#else

static __always_inline bool swap_can_run(task_t *p, u32 cpu, task_t *prev)
{
	return false;
}

static __always_inline task_t *swap_stand_in(task_t *p, u32 cpu, task_t *prev)
{
	return p;
}

static __always_inline bool swap_claim(task_t *p)
{
	return true;
}

static __always_inline s64 swap_left(task_t *p)
{
	return (u64)~0ull >> 1;
}

static __always_inline void swap_charge(task_t *p, s64 ran)
{
}

static __always_inline void swap_settle(task_t *p)
{
}

static __always_inline bool swap_pull(s32 cpu, struct pass *pass)
{
	return false;
}

static __always_inline bool swap_wakes(task_t *p, s32 cpu)
{
	return false;
}

static __always_inline s32 swap_where(task_t *p, u32 cpu)
{
	return NO_CPU;
}

static __always_inline task_t *swap_pick_realtime(u32 cpu, task_t *prev)
{
	return NULL;
}

#define swap_begin_pick(cpu)
#define swap_yields(p)
#define swap_park_stale(cpu, rq)
#define swap_ready(p, cpu)
#define swap_blocks(t, p, now)
#define swap_move(p, cpu, where, now)
#define swap_runs(p, cpu)
#define swap_init_task(p)
#define swap_forget(p, leaves)
#define swap_init() 0
#define swap_tell()
#define swap_forks(child, tgid)

#endif
#endif
