/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/table.h - the table of resources: finding them, making room, and their
 * lists of providers and requesters. All of it under the lock of the bucket.
 */
#ifndef SCHEDLAB_SWAP_TABLE_H
#define SCHEDLAB_SWAP_TABLE_H

#include "swap/resource.h"

const volatile u32 swap_confidence
	TUNABLE("confidence in a provider that is new; the paper's C", "points", 1, 1000) = 20;
const volatile u32 swap_providers
	TUNABLE("providers remembered per resource; the paper's K", "providers", 1, SWAP_PROVIDERS) = SWAP_PROVIDERS;

enum detect {
	DETECT_WAKER,	/* providers are the tasks that were seen to wake up a requester */
	DETECT_PAPER,	/* those whose system calls make it possible, as in the paper */
};

const volatile enum detect detect
	SETS("how dependencies are found: by who woke whom (DETECT_WAKER), or by the arguments of system calls "
		"(DETECT_PAPER)") = DETECT_WAKER;
const volatile u64 swap_quantum_ns
	TUNABLE("time that a provider gets for a requester until it is trusted less; the paper's Q", "ns", 100000,
		100000000000) = 20000000;
/* Exceptions for types of resources; the index is an enum swap_type. */
const volatile u64 swap_quantum_of_type[16]
	TUNABLE_OR_0("Q for one type of resource (index: enum swap_type)", "ns", 100000, 100000000000,
		"swap_quantum_ns") = {};
const volatile u32 swap_confidence_of_type[16]
	TUNABLE_OR_0("C for one type of resource (index: enum swap_type)", "points", 1, 1000, "swap_confidence") = {};
const volatile u32 swap_providers_of_type[16]
	TUNABLE_OR_0("K for one type of resource (index: enum swap_type)", "providers", 1, SWAP_PROVIDERS,
		"swap_providers") = {};
/* Off, programs that wait in sched_yield() are brought forward too, and those that yield for nothing keep others from
 * running. */
const volatile bool swap_heed_yield SETS("a provider that yields gives the place that was lent to it back") = true;
volatile bool swap_enabled SETS("SWAP is at work") = true;

u64 nr_swap_resources COUNTS("resources that somebody was seen to provide");
u64 nr_swap_evicted COUNTS("resources forgotten to make room for others");
u64 nr_swap_refused COUNTS("resources not remembered, as all in the bucket are waited for");
u64 nr_swap_learnt COUNTS("tasks seen to provide a resource for the first time");
u64 nr_swap_displaced COUNTS("providers forgotten to make room for others");
u64 nr_swap_provided COUNTS("times that a requester got what it waited for from a known provider");
u64 nr_swap_blamed COUNTS("providers that had their quantum for a requester in vain");

static u32 swap_order;	/* last swap_provider::order given out */

struct swap_bucket {
	struct swap_resource way[SWAP_WAYS];
};

/* User space reads the table, and takes its size from this type. */
struct swap_table {
	struct swap_bucket bucket[SWAP_BUCKETS];
};

static struct swap_table __arena *swap_table;
static struct swap_realtime __arena *swap_realtime;

/* Bucket of a resource: multiplicative hashing by the golden ratio (Knuth). */
static __always_inline u32 swap_bucket(u64 kind, u64 what)
{
	return (kind * 31 + what) * 0x9e3779b97f4a7c15ull >> 56;
}

static __always_inline struct lock *swap_lock(u32 bucket)
{
	debug_expect(bucket < 256, TABLE_OVERRUN);
	return lock_nr(LOCK_SWAP + bucket % SWAP_LOCKS);
}

/* The resource, or NULL if it is not known. */
static __noinline resource_t *swap_find(u64 kind, u64 what)
{
	struct swap_bucket __arena *bucket = &swap_table->bucket[swap_bucket(kind, what)];
	resource_t *resource;
	u32 i;

	use_arena();
	for (i = zero; i < SWAP_WAYS && can_loop; i++) {
		resource = element(bucket->way, i);
		if (resource->kind == kind && resource->what == what)
			return resource;
	}
	return NULL;
}

/* A place for a new resource: a free one, or that of the one unused for longest. */
static __always_inline resource_t *swap_room(u64 kind, u64 what)
{
	resource_t *way = swap_table->bucket[swap_bucket(kind, what)].way;
	u32 i, oldest = SWAP_WAYS;
	u64 last_use = ~0ull;

	for (i = zero; i < SWAP_WAYS && can_loop; i++) {
		hide_value(i);
		if (!way[i].kind)
			return &way[i];
		if (way[i].nr_requesters || way[i].last_use >= last_use)
			continue;
		last_use = way[i].last_use;
		oldest = i;
	}
	if (oldest == SWAP_WAYS) {
		count(nr_swap_refused);
		return NULL;
	}
	count(nr_swap_evicted);
	return &way[oldest];
}

/* Each @entry of the providers of @resource, counted in @i. */
#define for_each_provider(entry, i, resource)                                              \
	for (i = zero; i < (resource)->nr_providers && i < SWAP_PROVIDERS && can_loop && ({ \
		     hide_value(i);                                                         \
		     entry = &(resource)->provider[i];                                      \
		     true;                                                                  \
	     }); i++)

/* No task provides @resource: no entry of it is taken for a provider. */
static __always_inline void swap_clear_providers(resource_t *resource)
{
	provider_t *entry;
	u32 i;

	debug_expect(resource->nr_providers <= SWAP_PROVIDERS, TABLE_OVERRUN);
	for_each_provider(entry, i, resource)
		WRITE_ONCE(entry->task, NULL);
	WRITE_ONCE(resource->nr_providers, 0);
}

/* What holds for all resources of a type. */
static __always_inline void swap_set_limits(resource_t *resource, u32 type)
{
	resource->type = type;
	resource->quantum = swap_quantum_of_type[type % 16] ?: swap_quantum_ns;
	resource->confidence = swap_confidence_of_type[type % 16] ?: swap_confidence;
	resource->limit = swap_providers_of_type[type % 16] ?: swap_providers;
}

/* The resource, which is remembered from now on; NULL: there is no room. */
static __noinline resource_t *swap_get(u64 kind, u64 what, u64 now)
{
	resource_t *resource = swap_find(kind, what);

	use_arena();
	if (!resource) {
		resource = swap_room(kind, what);
		if (!resource)
			return NULL;
		count(nr_swap_resources);
		swap_clear_providers(resource);
		list_init(&resource->requesters);
		WRITE_ONCE(resource->nr_requesters, 0);
		swap_set_limits(resource, swap_type_of(kind));
		resource->what = what;
		resource->kind = kind;
	}
	resource->last_use = now;
	return resource;
}

/* ---- providers ---- */

enum swap_class {
	SWAP_LOW,
	SWAP_DEFAULT,
	SWAP_HIGH,
};

static __always_inline enum swap_class swap_class_of(provider_t *entry, s32 confidence)
{
	s32 usual = entry->resource->confidence;

	if (confidence > usual)
		return SWAP_HIGH;
	return confidence == usual ? SWAP_DEFAULT : SWAP_LOW;
}

/* A provider that changes its class goes to the end of it. */
static __always_inline void swap_set_confidence(provider_t *entry, s32 confidence)
{
	confidence = max(min(confidence, (s32)(2 * entry->resource->confidence)), 0);
	if (swap_class_of(entry, confidence) != swap_class_of(entry, entry->confidence))
		entry->order = __sync_fetch_and_add(&swap_order, 1) + 1;
	entry->confidence = confidence;
	debug_expect(entry->confidence >= 0 && entry->confidence <= 2 * (s32)entry->resource->confidence, BAD_CONFIDENCE);
}

/* Is the task of @entry still the same? */
static __always_inline bool swap_entry_valid(provider_t *entry)
{
	task_t *p = entry->task;

	return p && p->base.id == entry->id;
}

/* Would @a leave the list before @b, if one has to? */
static __always_inline bool swap_leaves_first(provider_t *a, provider_t *b)
{
	enum swap_class of_a = swap_class_of(a, a->confidence);
	enum swap_class of_b = swap_class_of(b, b->confidence);

	return of_a < of_b || (of_a == of_b && (s32)(a->order - b->order) < 0);
}

/* The entry of @p, or NULL. */
static __always_inline provider_t *swap_entry_of(resource_t *resource, task_t *p)
{
	provider_t *entry = resource->provider;
	u32 left;

	for (left = min(resource->nr_providers, SWAP_PROVIDERS); left && can_loop; left--) {
		if (entry->task == p && entry->id == p->base.id)
			return entry;
		entry++;
	}
	return NULL;
}

/* An entry for a new provider: a free one, or that of the provider that leaves the list. */
static __always_inline provider_t *swap_entry_for(resource_t *resource)
{
	provider_t *entry, *room = NULL;
	u32 i;

	for_each_provider(entry, i, resource) {
		if (!swap_entry_valid(entry)) {
			WRITE_ONCE(entry->task, NULL);
			room = entry;
		} else if (!room || (room->task && swap_leaves_first(entry, room))) {
			room = entry;
		}
	}
	if ((!room || room->task) && i < resource->limit && i < SWAP_PROVIDERS) {
		room = &resource->provider[i];
		WRITE_ONCE(room->task, NULL);
		resource->nr_providers = i + 1;
	}
	debug_expect(resource->nr_providers <= SWAP_PROVIDERS, TABLE_OVERRUN);
	return room;
}

/* @p, most often the calling task, remembers that it provides by @entry. */
static __always_inline void swap_remember(task_t *p, provider_t *entry)
{
	struct swap_task __arena *s = &p->base.swap;
	u32 i;

	for (i = zero; i < SWAP_OWNED && can_loop; i++) {
		if (*element(s->owned, i) == entry)
			return;
	}
	s->owned[s->next_owned++ % SWAP_OWNED] = entry;
}

/* Lists @p as provider of @resource, if it is not. Its entry. */
static __noinline provider_t *swap_list_provider(resource_t *resource, task_t *p)
{
	provider_t *entry = swap_entry_of(resource, p);

	use_arena();
	if (entry) {
		/* the wakeup continues without an arena; detection by calls looks there first */
		if (detect == DETECT_PAPER)
			swap_remember(p, entry);
		return entry;
	}
	entry = swap_entry_for(resource);
	if (!entry)
		return NULL;
	swap_remember(p, entry);
	if (entry->task)
		count(nr_swap_displaced);
	count(nr_swap_learnt);
	entry->resource = resource;
	entry->task = p;
	entry->id = p->base.id;
	entry->pid = p->base.pid;
	entry->confidence = resource->confidence;
	entry->order = __sync_fetch_and_add(&swap_order, 1) + 1;
	WRITE_ONCE(entry->used, 0);
	WRITE_ONCE(entry->spent, 0);
	WRITE_ONCE(entry->needed, 0);
	WRITE_ONCE(entry->last_use, 0);
	return entry;
}

/* @p, the calling task, has provided the resource of @entry for a task that waited for it. */
static __noinline int swap_credit(provider_t *entry, task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;
	u64 needed;

	use_arena();
	debug_expect(entry->resource, BAD_STATE);
	count(nr_swap_provided);
	swap_set_confidence(entry, entry->confidence + 1);
	needed = entry->spent;
	if (s->entry == entry)
		needed += s->used;
	if (needed)
		entry->needed = max(needed, (7 * entry->needed + needed) / 8);
	WRITE_ONCE(entry->used, 0);
	WRITE_ONCE(entry->spent, 0);
	WRITE_ONCE(s->used, 0);
	return 0;
}

/*
 * What @entry may use up until it is blamed. A server that takes longer for a
 * request than Q would soon be trusted no more; the paper does not say how it
 * avoids that. So Q comes on top of what it needed lately.
 */
static __always_inline u64 swap_quantum(provider_t *entry)
{
	u64 quantum = entry->resource->quantum;

	if (detect == DETECT_PAPER)
		return quantum;
	return quantum + entry->needed + entry->needed / 4;
}

/* Does @p wait for @resource? */
static __always_inline bool swap_waits_for(task_t *p, resource_t *resource)
{
	u32 i;

	for (i = zero; i < p->base.swap.nr_requests && i < SWAP_REQUESTS && can_loop; i++) {
		hide_value(i);
		if (p->base.swap.request[i].resource == resource)
			return true;
	}
	return false;
}

/* Is there no other task that could provide the resource of @entry? */
static __always_inline bool swap_is_sole(provider_t *entry)
{
	resource_t *resource = entry->resource;
	provider_t *other;
	u32 i;

	for_each_provider(other, i, resource) {
		if (other != entry && other->confidence > 0 && swap_entry_valid(other) &&
		    !swap_waits_for(other->task, resource))
			return false;
	}
	return true;
}

/*
 * The time of @entry was for nothing. The paper takes one step back at a time, and
 * none if there is no choice. That is for providers that are guessed. One that was
 * seen to provide once, and not since, is given up sooner. A child is not: its parent
 * gets nothing before its end.
 */
static __always_inline void swap_blame(provider_t *entry)
{
	s32 confidence = entry->confidence;

	entry->used = 0;
	if (detect != DETECT_PAPER && entry->resource->type == SWAP_CHILD)
		confidence = max(confidence >> 1, 1);
	else if (detect != DETECT_PAPER)
		confidence >>= 1;
	else if (!swap_is_sole(entry))
		confidence--;
	else
		return;
	count(nr_swap_blamed);
	swap_set_confidence(entry, confidence);
}

/* ---- requesters ---- */

/* @p waits for @resource too. */
static __always_inline void swap_add_request(resource_t *resource, task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;
	request_t *request;

	if (s->nr_requests >= SWAP_REQUESTS)
		return;
	request = &s->request[s->nr_requests % SWAP_REQUESTS];
	request->task = p;
	request->resource = resource;
	list_add_tail(&request->link, &resource->requesters);
	resource->nr_requesters++;
	s->nr_requests++;
	debug_expect(s->nr_requests <= SWAP_REQUESTS, TABLE_OVERRUN);
}

/* A resource that no task waits for nor provides is forgotten. */
static __always_inline void swap_drop_unused(resource_t *resource)
{
	provider_t *entry;
	u32 i;

	if (resource->nr_requesters)
		return;
	for_each_provider(entry, i, resource)
		if (swap_entry_valid(entry))
			return;
	swap_clear_providers(resource);
	WRITE_ONCE(resource->kind, 0);
}

/*
 * @p does not wait any more, as it has got what it waited for or @leaves. Takes the
 * locks itself. What a task that leaves has taught is kept until its place is needed.
 */
static __noinline int swap_withdraw(task_t *p, bool leaves)
{
	struct swap_task __arena *s = &p->base.swap;
	resource_t *resource;
	struct lock *lock;

	use_arena();
	while (s->nr_requests && can_loop) {
		resource = s->request[(s->nr_requests - 1) % SWAP_REQUESTS].resource;
		lock = swap_lock(swap_bucket(resource->kind, resource->what));
		if (!lock)
			return 0;
		s->nr_requests--;
		list_del(&s->request[s->nr_requests % SWAP_REQUESTS].link);
		debug_expect(resource->nr_requesters, REQUESTS_BELOW_ZERO);
		resource->nr_requesters--;
		if (detect == DETECT_PAPER && !leaves)
			swap_drop_unused(resource);
		unlock(lock);
	}
	return 0;
}

#endif
