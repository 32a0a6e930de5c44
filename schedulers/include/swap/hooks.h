/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/hooks.h - what the glue calls of SWAP, and what holds in an object without
 * it. [L]: the queue's lock is held; else none is.
 */
#ifndef SCHEDLAB_SWAP_HOOKS_H
#define SCHEDLAB_SWAP_HOOKS_H

#include "../types.h"

struct pass;

#ifdef SWAP
#define WITH_SWAP true

/* [L] Is @p virtual runnable, and can a provider run on @cpu in its place? */
static __always_inline bool swap_can_run(task_t *p, u32 cpu, task_t *prev);
/* [L] The task that runs on @cpu when @p was picked: @p, or its provider; NULL: that is gone. */
static __always_inline task_t *swap_stand_in(task_t *p, u32 cpu, task_t *prev);
/* [L] A blocked real-time task for which @cpu can run a provider, or NULL. */
static __noinline task_t *swap_pick_realtime(u32 cpu, task_t *prev);
/* [L] A pick begins on @cpu. */
static __always_inline void swap_begin_pick(u32 cpu);
/* [L] The pick has ended: unlinks the tasks for which it found no provider. */
static __always_inline void swap_park_stale(u32 cpu, rq_t *rq);
/* The lock of the pick is given back: links tasks again for which a provider has become ready meanwhile. */
static __noinline int swap_look_again(u32 cpu, u64 now);
/* [L] @p has run for @ran ns. */
static __always_inline void swap_charge(task_t *p, s64 ran);
/* [L] @p does not run any more, as a provider or at all. */
static __always_inline void swap_settle(task_t *p);
/* [L] @p yields. */
static __always_inline void swap_yields(task_t *p);
/* ns that @p may run as a provider; very long if it runs for itself. */
static __always_inline s64 swap_left(task_t *p);
/* [L] Takes @p, whose rq is RQ_NONE, to link it; false: another CPU has. */
static __always_inline bool swap_claim(task_t *p);
/* The chosen provider is on another CPU's queue: picks it there. False: it is gone. */
static __noinline bool swap_pull(s32 cpu, struct pass *pass);
/* @p runs on @cpu. */
static __always_inline void swap_runs(task_t *p, s32 cpu);
/* @p wakes up. True: it was linked as virtual runnable, and is ready now. */
static __noinline bool swap_wakes(task_t *p, s32 cpu);
/* @p became ready on @cpu. */
static __always_inline void swap_ready(task_t *p, s32 cpu);
/* @t, the kernel's @p, blocks. */
static __always_inline void swap_blocks(task_t *t, struct task_struct *p, u64 now);
/* [L] The CPU where @p, which blocks on @cpu, stays linked; NO_CPU: nowhere. */
static __always_inline s32 swap_where(task_t *p, u32 cpu);
/* @p, which has blocked on @cpu, counts on CPU @where. */
static __always_inline void swap_move(task_t *p, s32 cpu, s32 where, u64 now);
/* A descriptor is made; the task waits for nothing any more, or @leaves us. */
static __always_inline void swap_init_task(task_t *p);
static __always_inline void swap_forget(task_t *p, bool leaves);
/* The current task forks @child, a process of its own; it belongs to @tgid. */
static __noinline int swap_forks(task_t *child, s32 tgid);
/* The scheduler is loaded (not 0: no memory) and leaves. */
static __always_inline int swap_init(void);
static __noinline int swap_tell(void);

#else
#define WITH_SWAP false

static __always_inline bool swap_can_run(task_t *p, u32 cpu, task_t *prev)
{
	return false;
}

static __always_inline task_t *swap_stand_in(task_t *p, u32 cpu, task_t *prev)
{
	return p;
}

static __always_inline task_t *swap_pick_realtime(u32 cpu, task_t *prev)
{
	return NULL;
}

static __always_inline s64 swap_left(task_t *p)
{
	return (u64)~0ull >> 1;
}

static __always_inline bool swap_claim(task_t *p)
{
	return true;
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

#define swap_begin_pick(cpu)
#define swap_park_stale(cpu, rq)
#define swap_look_again(cpu, now)
#define swap_charge(p, ran)
#define swap_settle(p)
#define swap_yields(p)
#define swap_runs(p, cpu)
#define swap_ready(p, cpu)
#define swap_blocks(t, p, now)
#define swap_move(p, cpu, where, now)
#define swap_init_task(p)
#define swap_forget(p, leaves)
#define swap_forks(child, tgid)
#define swap_init() 0
#define swap_tell()

#endif
#endif
