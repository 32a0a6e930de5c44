/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * base.h - arena memory, intrusive lists, bitmaps and locks.
 *
 * Run queues and task descriptors live in one arena. Its pointers carry an
 * address space, hidden in the typedefs below, so that policy code looks like
 * the kernel's.
 */
#ifndef SCHEDLAB_BASE_H
#define SCHEDLAB_BASE_H

#include "invariants.h"

/* CPUs that the masks and locks are made for; a power of two. */
#define MAX_CPUS 512
#define MASK_WORDS (MAX_CPUS / 64)

/* 1 GiB of address space; pages are only taken as tasks appear. */
#define ARENA_PAGES (1u << 18)
#define PAGES(bytes) (((bytes) + PAGE_SIZE - 1) / PAGE_SIZE)

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ARENA_PAGES);
	__ulong(map_extra, 1ull << 44);
} arena SEC(".maps");

/* A program that only follows arena pointers has to name the map once. */
#define use_arena() asm volatile("" ::"r"(&arena))

/*
 * Where loop counters start that can_loop bounds: the verifier follows a
 * constant start exactly, iteration by iteration.
 */
static volatile int zero;

/*
 * Hides from the compiler what it knows of @x, an index: where it would step a
 * pointer instead, the verifier would follow every value of that.
 */
#define hide_value(x) asm volatile("" : "+r"(x))

/*
 * The address of an arena array's element, made a pointer last. The compiler may make
 * a pointer of the array before a loop, and add that to the offset. Verifiers before
 * 7.0 know no number plus an arena pointer, only the reverse.
 */
#define element(array, i)                       \
	({                                      \
		typeof(&(array)[0]) at = &(array)[i]; \
		hide_value(at);                 \
		at;                             \
	})

/* Adds one to a counter. */
#define count(counter) __sync_fetch_and_add(&(counter), 1)

#define min(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })

/* Doubly linked lists with the head as a member. */
typedef struct list_head __arena list_t;
struct list_head {
	list_t *next, *prev;
};

#define list_entry(ptr, type, member) \
	((type __arena *)((char __arena *)(ptr) - offsetof(type, member)))
#define list_for_each(pos, head) \
	for (pos = (head)->next; pos != (head) && can_loop; pos = pos->next)

static __always_inline void list_init(list_t *head)
{
	head->next = head;
	head->prev = head;
}

static __always_inline bool list_empty(list_t *head)
{
	return head->next == head;
}

/* Links @entry between two neighbours. */
static __always_inline void list_insert(list_t *entry, list_t *prev, list_t *next)
{
	debug_expect(prev->next == next && next->prev == prev, BAD_LINK);
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	prev->next = entry;
}

static __always_inline void list_add(list_t *entry, list_t *head)
{
	list_insert(entry, head, head->next);
}

static __always_inline void list_add_tail(list_t *entry, list_t *head)
{
	list_insert(entry, head->prev, head);
}

static __always_inline void list_del(list_t *entry)
{
	list_t *next = entry->next, *prev = entry->prev;

	debug_expect(next->prev == entry && prev->next == entry, BAD_LINK);
	next->prev = prev;
	prev->next = next;
}

/* Bitmaps of 64 bit words. */
#define BITMAP_WORDS(bits) (((bits) + 63) / 64)

typedef u64 __arena bitmap_t;

static __always_inline void set_bit(u32 bit, bitmap_t *map)
{
	map[bit / 64] |= 1ull << (bit % 64);
}

static __always_inline void clear_bit(u32 bit, bitmap_t *map)
{
	map[bit / 64] &= ~(1ull << (bit % 64));
}

static __always_inline bool test_bit(u32 bit, bitmap_t *map)
{
	return map[bit / 64] >> (bit % 64) & 1;
}

/* First set bit at or after @from, or @bits if there is none. */
static __always_inline u32 find_next_bit(bitmap_t *map, u32 bits, u32 from)
{
	u32 word = from / 64;
	u64 value;

	if (from >= bits)
		return bits;
	value = *element(map, word) & (~0ull << (from % 64));
	while (!value && can_loop) {
		if (++word >= BITMAP_WORDS(bits))
			return bits;
		value = *element(map, word);
	}
	return value ? word * 64 + __builtin_ctzll(value) : bits;
}

/*
 * One spin lock per run queue, two for the tables of tasks, some for SWAP, each in a
 * cache line of its own. They are leaves: no code holds two at a time, nor calls a
 * helper with one held (the verifier sees to both). Interrupts are off under them.
 */
#define LOCK_SLAB MAX_CPUS
#define LOCK_TASKS (MAX_CPUS + 1)
#define LOCK_SWAP (MAX_CPUS + 2)	/* first of SWAP_LOCKS for buckets of resources */
#define SWAP_LOCKS 32

struct lock {
	struct bpf_spin_lock spin;
	u8 pad[60];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOCK_SWAP + SWAP_LOCKS);
	__type(key, u32);
	__type(value, struct lock);
} locks SEC(".maps");

/* Takes lock @nr. NULL only for a number that does not exist. */
static __always_inline struct lock *lock_nr(u32 nr)
{
	struct lock *lock = bpf_map_lookup_elem(&locks, &nr);

	if (lock)
		bpf_spin_lock(&lock->spin);
	return lock;
}

static __always_inline void unlock(struct lock *lock)
{
	bpf_spin_unlock(&lock->spin);
}

#endif
