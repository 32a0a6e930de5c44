/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/types.h - what SWAP remembers: resources, the tasks that wait for them, and
 * those that have provided them.
 *
 * A resource is whatever a task can wait for: the data in a pipe, a semaphore,
 * a lock. A blocked task is a requester of one resource or several. A task that
 * has provided a resource is listed there as a provider, with a confidence that
 * rises when it provides and falls when it was given time in vain.
 *
 * Resources live in a table of buckets. What is about one resource changes under
 * the lock of its bucket; the scheduler reads without it. A pointer to a task
 * goes with the id that the task had: a descriptor that was used again differs.
 */
#ifndef SCHEDLAB_SWAP_TYPES_H
#define SCHEDLAB_SWAP_TYPES_H

/* Providers that are remembered per resource, at most: K of the paper. */
#define SWAP_PROVIDERS 20
/* Resources that one task can wait for at once (poll), and links of tasks that provide for
 * each other which are followed; both chosen. */
#define SWAP_REQUESTS 8
#define SWAP_DEPTH 8
/*
 * Entries that all searches of one pick look at together, at most; chosen: a full list of providers and its end. In a crowd
 * whose members all may provide for each other (VolanoMark without hogs) most picks run into the limit.
 */
#define SWAP_SEARCH_LIMIT 21
/*
 * Resources of which a task is remembered as provider, when the tasks are sought that
 * wait for it.
 */
#define SWAP_OWNED 8
/*
 * Blocked tasks that one becoming ready queues, per resource, and those that it looks at in all; chosen. VolanoMark without hogs
 * loses 1 to 5 % less if it looks at 8, and keeps an eighth less with 20 hogs (profile rh8).
 */
#define SWAP_REVIVALS 4
#define SWAP_SERVED 16
/* Tasks that one pick unlinks, as no provider can run in their place, at most; chosen. */
#define SWAP_STALE 8
/* Real-time tasks that are blocked at the same time and have providers, at most; chosen. */
#define SWAP_REALTIME 16
/* The table: buckets, and resources in each. 2048 together. */
#define SWAP_BUCKETS 256
#define SWAP_WAYS 8

typedef struct swap_resource __arena resource_t;
typedef struct swap_provider __arena provider_t;
typedef struct swap_request __arena request_t;

struct swap_provider {
	struct task __arena *task;	/* NULL: free entry */
	resource_t *resource;		/* whose entry this is */
	u64 id;				/* of that task */
	s32 confidence;			/* 0..2 * C */
	u32 order;			/* grows: older entries of a class come first */
	u64 used;			/* ns run for requesters since it last provided or was blamed, */
	u64 spent;			/* and since it last provided */
	u64 needed;			/* ns that it needed to provide, lately */
	u64 last_use;			/* ns, when it was seen to touch a futex */
	u64 pid;			/* of that task */
};

struct swap_resource {
	u64 kind;			/* identity: SWAP_KIND() of it, 0: free, */
	u64 what;			/* and its number among those */
	u64 last_use;			/* ns */
	u64 quantum;			/* Q, C and K of its type, and the type */
	u32 confidence;
	u32 limit;
	u32 type;
	struct list_head requesters;	/* swap_request::link */
	u32 nr_requesters;
	u32 nr_providers;		/* entries in use, and perhaps invalid, are the first ones */
	struct swap_provider provider[SWAP_PROVIDERS];
};

/* Part of a task: one resource that it waits for. */
struct swap_request {
	struct list_head link;
	resource_t *resource;
	struct task __arena *task;
};

/* Part of a task's descriptor. */
struct swap_task {
	u64 kind, what;			/* K: resource that it blocks on, or the last of them; kind 0: none */
	struct swap_request request[SWAP_REQUESTS];
	u32 nr_requests;		/* K: of these are linked */
	u32 next_owned;
	provider_t *owned[SWAP_OWNED];	/* by itself: its entries; valid while they name it */
	provider_t *entry;		/* Q: it runs as provider by this entry, NULL: for itself */
	u64 used;			/* Q: ns that it ran by that entry */
	s32 ran_on;			/* K: CPU that it ran on last */
	s32 cpu;			/* Q: CPU that picked it last while it was blocked */
	u32 waits;			/* K: is a blocked requester */
	u32 slot;			/* K: real time: where it is in the table, SWAP_REALTIME: nowhere */
	u32 yielded;			/* Q: gave up the place of another task, and has not run by its own rank since */
	u64 seen, value;		/* last search that came to it while it was blocked, and by way of what value */
	u64 on_way;			/* search in which it is on the way to the step at work */
	u64 noted;			/* last time a possible provider of it had become ready */
	u32 barren;			/* no task behind it can run, as far as is known, until one becomes ready */
	struct task __arena *found;	/* the task that runs in its place, */
	provider_t *found_entry;	/* by which entry, */
	u64 found_pick;			/* and the pick that found that */
};

/* One step on the way from a requester to the task that runs in its place. */
struct swap_step {
	struct task __arena *task;	/* a requester */
	u64 product;			/* of the confidences on the way to it */
	u64 scale;			/* C to the power of the links on that way, */
	u64 scale_behind;		/* and on the way to the providers of the resource at work */
	provider_t *entry;		/* next to look at, */
	u32 entries;			/* of so many that are left of that resource */
	u32 request;			/* next to look at */
	u32 order;			/* of the first provider on the way */
	u32 depth;			/* number of this step */
};

/* A CPU's search, and what it found. */
struct swap_search {
	struct swap_step step[SWAP_DEPTH];
	u32 left;			/* entries that may be looked at until this pick ends */
	bool partial;			/* there may be a task where it has not looked: it came in a circle, or too deep */
	u64 pick, serial;		/* numbers of the pick and of the search, which no other CPU has */
	u64 readied;			/* swap_readied when the pick began */
	struct task __arena *task;	/* the task that runs in place of the requester, or NULL */
	struct task __arena *elsewhere;	/* if none can here: one that can on another CPU, or NULL */
	provider_t *entry;		/* the last one on the way to it */
	u64 value;			/* confidence in it */
	u32 first_order, order;		/* of the first and last entry, which decide ties */
};

/* Blocked real-time tasks that have providers. */
struct swap_realtime {
	u32 nr;
	u64 task[SWAP_REALTIME];	/* task_t *, 0: free */
};

/* A type of resource and the process it belongs to, 0: all of them. */
#define SWAP_KIND(type, tgid) ((u64)(type) << 32 | (u32)(tgid))

#endif
