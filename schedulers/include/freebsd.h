/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * freebsd.h - what the schedulers of FreeBSD have in common: the statistics
 * clock, the ranges of priorities, and which of Linux's tasks are in which range.
 *
 * A lower number is better. Linux has no interface for FreeBSD's classes, and its
 * own real-time tasks do not come to us. So tasks get into a class by their name,
 * or are SCHED_IDLE.
 */
#ifndef SCHEDLAB_FREEBSD_H
#define SCHEDLAB_FREEBSD_H

/* A queue has a list for every four priorities. */
#define NR_PRIO 64
#define PRIO_PER_LIST 4
#include "prio_queue.h"

/* Number of the list for the rank of @p, a member of both policies' tasks. */
#define list_nr(p) ((u32)(p)->prio / PRIO_PER_LIST)

/* The statistics clock: 128 ticks per second, whatever HZ is. */
#define STATHZ 128
#define STAT_TICK_NS (SEC_NS / STATHZ)

/* Ranges of priorities as in FreeBSD 5.x to 8.x. */
#define PRI_MIN_INTERRUPT 0
#define PRI_MAX_INTERRUPT 63
#define PRI_MIN_KERNEL 64
#define PRI_MIN_REALTIME 128
#define PRI_MAX_REALTIME 159
#define PRI_MIN_TIMESHARE 160
#define PRI_MAX_TIMESHARE 223
#define PRI_MIN_IDLE 224
#define PRI_MAX_IDLE 255
/* What a task has after waiting for a socket or pipe, until it leaves the kernel. */
#define PSOCK (PRI_MIN_KERNEL + 24)

#define PRIO_MIN (-20)
#define PRIO_MAX 20

enum pri_class {
	CLASS_INTERRUPT,	/* as FreeBSD's interrupt threads */
	CLASS_REALTIME,		/* as by rtprio(1) */
	CLASS_TIMESHARE,	/* all other tasks */
	CLASS_IDLE,		/* as by idprio(1): run when no other task wants to */
};

/* How many tasks there are of each nice value. */
struct nice_counts {
	u64 used;			/* bit 20 + nice: there are some */
	u32 nr[PRIO_MAX - PRIO_MIN];
};

typedef struct nice_counts __arena nice_counts_t;

static __always_inline void nice_add(nice_counts_t *counts, s32 nice)
{
	u32 at = nice - PRIO_MIN;

	debug_expect(at < PRIO_MAX - PRIO_MIN, BAD_NICE);
	if (!counts->nr[at]++)
		counts->used |= 1ull << at;
}

static __always_inline void nice_del(nice_counts_t *counts, s32 nice)
{
	u32 at = nice - PRIO_MIN;

	debug_expect(counts->used >> at & 1, LOAD_BELOW_ZERO);
	expect(counts->nr[at], LOAD_BELOW_ZERO);
	if (!--counts->nr[at])
		counts->used &= ~(1ull << at);
}

/* The least nice value in use, 44 if there is none. */
static __always_inline s32 least_nice(nice_counts_t *counts)
{
	return counts->used ? (s32)__builtin_ctzll(counts->used) + PRIO_MIN : 64 + PRIO_MIN;
}

#define NAME_LEN 16

const volatile char interrupt_names[NAME_LEN]
	SETS("tasks whose names begin so are in the interrupt class, priorities 0..63 by nice") = "";
const volatile char realtime_names[NAME_LEN]
	SETS("tasks whose names begin so are in the real-time class, priorities 128..159 by nice") = "";
const volatile char idle_names[NAME_LEN]
	SETS("tasks whose names begin so are in the idle class, priorities 224..255 by nice, as SCHED_IDLE tasks are") = "";

static __always_inline bool begins_with(const char *name, const volatile char *prefix)
{
	u32 i;

	if (!prefix[0])
		return false;
#pragma unroll
	for (i = 0; i < NAME_LEN; i++) {
		if (!prefix[i])
			return true;
		if (prefix[i] != name[i])
			return false;
	}
	return true;
}

/* The class of the kernel's task @k. Not under a lock. */
static __noinline enum pri_class class_of(struct task_struct *k)
{
	char name[NAME_LEN];

	if (k->policy == SCHED_IDLE)
		return CLASS_IDLE;
	if (!interrupt_names[0] && !realtime_names[0] && !idle_names[0])
		return CLASS_TIMESHARE;
	if (bpf_probe_read_kernel_str(name, sizeof(name), k->comm) < 0)
		return CLASS_TIMESHARE;
	if (begins_with(name, interrupt_names))
		return CLASS_INTERRUPT;
	if (begins_with(name, realtime_names))
		return CLASS_REALTIME;
	if (begins_with(name, idle_names))
		return CLASS_IDLE;
	return CLASS_TIMESHARE;
}

/* The priority that a task of another class than time-share has whatever it does. */
static __always_inline s32 class_priority(enum pri_class class, s32 nice)
{
	u32 level = nice - PRIO_MIN;

	debug_expect(level < PRIO_MAX - PRIO_MIN, BAD_NICE);
	switch (class) {
	case CLASS_INTERRUPT:
		return PRI_MIN_INTERRUPT + level * (PRI_MAX_INTERRUPT - PRI_MIN_INTERRUPT) / 39;
	case CLASS_REALTIME:
		return PRI_MIN_REALTIME + level * (PRI_MAX_REALTIME - PRI_MIN_REALTIME) / 39;
	default:
		return PRI_MIN_IDLE + level * (PRI_MAX_IDLE - PRI_MIN_IDLE) / 39;
	}
}

#endif
