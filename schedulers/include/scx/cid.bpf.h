/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cid.bpf.h - sets of CPUs by cid (struct scx_cmask), in an arena.
 *
 * A mask covers @nr_cids cids from @base on. Word @w of all cids is bits[w - base / 64]. Bits of its first and last word outside
 * of that range are always 0, so most functions work on whole words. Functions without __ in front change bits atomically.
 */
#ifndef __SCX_CID_BPF_H
#define __SCX_CID_BPF_H

#include "bpf_arena_common.bpf.h"
#include "kfuncs.bpf.h"
#include "ops.bpf.h"

#ifndef BIT_U64
#define BIT_U64(nr) (1ull << (nr))
#endif
#ifndef GENMASK_U64
#define GENMASK_U64(high, low) (~0ull << (low) & ~0ull >> (63 - (high)))
#endif

/* Words of @nr_cids cids, wherever they begin. */
#define CMASK_NR_WORDS(nr_cids) ((u32)(((u64)(nr_cids) + 63) / 64 + 1))
/* Bounds the loops over words: 8192 CPUs. */
#ifndef CMASK_MAX_WORDS
#define CMASK_MAX_WORDS CMASK_NR_WORDS(8192)
#endif
/* Attempts to change one word. To use them up takes seconds, which no contention explains. */
#define CMASK_CAS_TRIES (1u << 23)

static __always_inline u32 __cmask_end(const struct scx_cmask __arena *m)
{
	return m->base + m->nr_cids;
}

static __always_inline bool __cmask_contains(u32 cid, const struct scx_cmask __arena *m)
{
	return cid >= m->base && cid < __cmask_end(m);
}

/* The word in which @cid is, which the mask covers. */
static __always_inline u64 __arena *__cmask_word(u32 cid, const struct scx_cmask __arena *m)
{
	return (u64 __arena *)&m->bits[cid / 64 - m->base / 64];
}

/* The number of words in use. */
static __always_inline u32 __cmask_words(const struct scx_cmask __arena *m)
{
	return m->nr_cids ? (__cmask_end(m) - 1) / 64 - m->base / 64 + 1 : 0;
}

/* Word @w of all cids; 0 outside of the mask. */
static __always_inline u64 __cmask_bits(const struct scx_cmask __arena *m, u32 w)
{
	u32 at = w - m->base / 64;

	return at < __cmask_words(m) ? m->bits[at] : 0;
}

/* The bits of word @w from cid @low up to, not with, @high. */
static __always_inline u64 __cmask_window(u32 w, u32 low, u32 high)
{
	u64 window = ~0ull;

	if (w == low / 64)
		window &= GENMASK_U64(63, low % 64);
	if (w == (high - 1) / 64)
		window &= GENMASK_U64((high - 1) % 64, 0);
	return window;
}

/* An empty mask, with room for @alloc_cids cids. */
static __always_inline void __cmask_init(struct scx_cmask __arena *m, u32 base, u32 nr_cids, u32 alloc_cids)
{
	u32 words = CMASK_NR_WORDS(alloc_cids), i;

	if (nr_cids > alloc_cids) {
		scx_bpf_error("a cmask of %u cids has room for %u", nr_cids, alloc_cids);
		return;
	}
	m->base = base;
	m->nr_cids = nr_cids;
	m->alloc_words = words;
	bpf_for(i, 0, CMASK_MAX_WORDS) {
		if (i >= words)
			break;
		m->bits[i] = 0;
	}
}

static __always_inline void cmask_init(struct scx_cmask __arena *m, u32 base, u32 nr_cids)
{
	__cmask_init(m, base, nr_cids, nr_cids);
}

/* Moves the mask to another range, within its room. Bits other than those outside of the range are undefined after it. */
static __always_inline void cmask_reframe(struct scx_cmask __arena *m, u32 base, u32 nr_cids)
{
	if (CMASK_NR_WORDS(nr_cids) > m->alloc_words) {
		scx_bpf_error("a cmask of %u cids has %u words", nr_cids, m->alloc_words);
		return;
	}
	m->base = base;
	m->nr_cids = nr_cids;
	if (nr_cids) {
		m->bits[0] = 0;
		m->bits[__cmask_words(m) - 1] = 0;
	}
}

static __always_inline void cmask_zero(struct scx_cmask __arena *m)
{
	u32 words = CMASK_NR_WORDS(m->nr_cids), i;

	bpf_for(i, 0, CMASK_MAX_WORDS) {
		if (i >= words)
			break;
		m->bits[i] = 0;
	}
}

static __always_inline bool cmask_test(u32 cid, const struct scx_cmask __arena *m)
{
	return __cmask_contains(cid, m) && *__cmask_word(cid, m) & BIT_U64(cid % 64);
}

/*
 * Makes the bit of @cid @on and says what it was. The JIT of x86 has no atomic AND and OR with a result in arenas, so the word
 * is exchanged until no other CPU came in between. A bit that is right already is not written.
 */
static __always_inline bool __cmask_exchange(u32 cid, struct scx_cmask __arena *m, bool on)
{
	u64 bit = BIT_U64(cid % 64), old;
	u64 __arena *word;
	u32 i;

	if (!__cmask_contains(cid, m))
		return false;
	word = __cmask_word(cid, m);
	bpf_for(i, 0, CMASK_CAS_TRIES) {
		old = *word;
		if (!(old & bit) == !on)
			return on;
		if (__sync_val_compare_and_swap(word, old, old ^ bit) == old)
			return !on;
	}
	scx_bpf_error("cid %u of a cmask cannot be changed", cid);
	return false;
}

static __always_inline void cmask_set(u32 cid, struct scx_cmask __arena *m)
{
	__cmask_exchange(cid, m, true);
}

static __always_inline void cmask_clear(u32 cid, struct scx_cmask __arena *m)
{
	__cmask_exchange(cid, m, false);
}

static __always_inline bool cmask_test_and_set(u32 cid, struct scx_cmask __arena *m)
{
	return __cmask_exchange(cid, m, true);
}

static __always_inline bool cmask_test_and_clear(u32 cid, struct scx_cmask __arena *m)
{
	return __cmask_exchange(cid, m, false);
}

/* The same where no other CPU changes the mask. */
static __always_inline void __cmask_set(u32 cid, struct scx_cmask __arena *m)
{
	if (__cmask_contains(cid, m))
		*__cmask_word(cid, m) |= BIT_U64(cid % 64);
}

static __always_inline void __cmask_clear(u32 cid, struct scx_cmask __arena *m)
{
	if (__cmask_contains(cid, m))
		*__cmask_word(cid, m) &= ~BIT_U64(cid % 64);
}

static __always_inline bool __cmask_test_and_set(u32 cid, struct scx_cmask __arena *m)
{
	bool was = cmask_test(cid, m);

	__cmask_set(cid, m);
	return was;
}

static __always_inline bool __cmask_test_and_clear(u32 cid, struct scx_cmask __arena *m)
{
	bool was = cmask_test(cid, m);

	__cmask_clear(cid, m);
	return was;
}

enum {
	BPF_CMASK_OP_AND,
	BPF_CMASK_OP_OR,
	BPF_CMASK_OP_COPY,
	BPF_CMASK_OP_ANDNOT,
};

static __always_inline u64 __cmask_combined(u64 dst, u64 src, int op)
{
	switch (op) {
	case BPF_CMASK_OP_AND:
		return dst & src;
	case BPF_CMASK_OP_OR:
		return dst | src;
	case BPF_CMASK_OP_ANDNOT:
		return dst & ~src;
	default:
		return src;
	}
}

/* Changes the bits of @dst that @src covers too, and no others. */
static __always_inline void cmask_op(struct scx_cmask __arena *dst, const struct scx_cmask __arena *src,
				     int op)
{
	u32 low = dst->base > src->base ? dst->base : src->base;
	u32 high = __cmask_end(dst) < __cmask_end(src) ? __cmask_end(dst) : __cmask_end(src);
	u32 i;

	if (low >= high)
		return;
	bpf_for(i, 0, CMASK_MAX_WORDS) {
		u32 w = low / 64 + i;
		u64 window, old;

		if (w > (high - 1) / 64)
			break;
		window = __cmask_window(w, low, high);
		old = __cmask_bits(dst, w);
		dst->bits[w - dst->base / 64] =
			(old & ~window) | (__cmask_combined(old, __cmask_bits(src, w), op) & window);
	}
}

static __always_inline void cmask_and(struct scx_cmask __arena *dst, const struct scx_cmask __arena *src)
{
	cmask_op(dst, src, BPF_CMASK_OP_AND);
}

static __always_inline void cmask_or(struct scx_cmask __arena *dst, const struct scx_cmask __arena *src)
{
	cmask_op(dst, src, BPF_CMASK_OP_OR);
}

static __always_inline void cmask_copy(struct scx_cmask __arena *dst, const struct scx_cmask __arena *src)
{
	cmask_op(dst, src, BPF_CMASK_OP_COPY);
}

static __always_inline void cmask_andnot(struct scx_cmask __arena *dst, const struct scx_cmask __arena *src)
{
	cmask_op(dst, src, BPF_CMASK_OP_ANDNOT);
}

/* Is each cid of @a in @b too? */
static __always_inline bool cmask_subset(const struct scx_cmask __arena *a, const struct scx_cmask __arena *b)
{
	u32 i;

	bpf_for(i, 0, CMASK_MAX_WORDS) {
		if (i >= __cmask_words(a))
			break;
		if (a->bits[i] & ~__cmask_bits(b, a->base / 64 + i))
			return false;
	}
	return true;
}

/* Do both cover the same range, with the same cids in it? */
static __always_inline bool cmask_equal(const struct scx_cmask __arena *a, const struct scx_cmask __arena *b)
{
	return a->base == b->base && a->nr_cids == b->nr_cids && cmask_subset(a, b) && cmask_subset(b, a);
}

static __always_inline bool cmask_intersects(const struct scx_cmask __arena *a,
					     const struct scx_cmask __arena *b)
{
	u32 i;

	bpf_for(i, 0, CMASK_MAX_WORDS) {
		if (i >= __cmask_words(a))
			break;
		if (a->bits[i] & __cmask_bits(b, a->base / 64 + i))
			return true;
	}
	return false;
}

/* How many cids are in the mask. */
static __always_inline u32 cmask_weight(const struct scx_cmask __arena *m)
{
	u32 i, sum = 0;

	bpf_for(i, 0, CMASK_MAX_WORDS) {
		if (i >= __cmask_words(m))
			break;
		sum += __builtin_popcountll(m->bits[i]);
	}
	return sum;
}

/* The first cid from @start on that is in @a, @b and @c; the end of @a where there is none. */
static __always_inline u32 cmask_next_and2_set(const struct scx_cmask __arena *a,
					       const struct scx_cmask __arena *b,
					       const struct scx_cmask __arena *c, u32 start)
{
	u32 end = __cmask_end(a), first = start > a->base ? start : a->base;
	u32 i;

	if (first >= end)
		return end;
	bpf_for(i, 0, CMASK_MAX_WORDS) {
		u32 w = first / 64 + i;
		u64 bits;

		if (w > (end - 1) / 64)
			break;
		bits = __cmask_bits(a, w) & __cmask_bits(b, w) & __cmask_bits(c, w) &
		       __cmask_window(w, first, end);
		if (bits)
			return w * 64 + __builtin_ctzll(bits);
	}
	return end;
}

static __always_inline u32 cmask_next_and_set(const struct scx_cmask __arena *a,
					      const struct scx_cmask __arena *b, u32 start)
{
	return cmask_next_and2_set(a, b, b, start);
}

static __always_inline u32 cmask_next_set(const struct scx_cmask __arena *m, u32 start)
{
	return cmask_next_and2_set(m, m, m, start);
}

static __always_inline u32 cmask_first_set(const struct scx_cmask __arena *m)
{
	return cmask_next_set(m, m->base);
}

#define cmask_for_each(cid, m)                                               \
	for ((cid) = cmask_first_set(m); (cid) < (m)->base + (m)->nr_cids;   \
	     (cid) = cmask_next_set(m, (cid) + 1))

/* The same, from the beginning again where none follows @start: callers that begin after the last answer go round robin. */
static __always_inline u32 cmask_next_and2_set_wrap(const struct scx_cmask __arena *a,
						    const struct scx_cmask __arena *b,
						    const struct scx_cmask __arena *c, u32 start)
{
	u32 end = __cmask_end(a), found = cmask_next_and2_set(a, b, c, start);

	if (found < end || start <= a->base)
		return found;
	found = cmask_next_and2_set(a, b, c, a->base);
	return found < start ? found : end;
}

static __always_inline u32 cmask_next_and_set_wrap(const struct scx_cmask __arena *a,
						   const struct scx_cmask __arena *b, u32 start)
{
	return cmask_next_and2_set_wrap(a, b, b, start);
}

static __always_inline u32 cmask_next_set_wrap(const struct scx_cmask __arena *m, u32 start)
{
	return cmask_next_and2_set_wrap(m, m, m, start);
}

/* The cids of the CPUs in @cpumask that @m covers. */
static __always_inline void cmask_from_cpumask(struct scx_cmask __arena *m, const struct cpumask *cpumask)
{
	s32 cpu, cid;

	cmask_zero(m);
	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		if (!bpf_cpumask_test_cpu(cpu, cpumask))
			continue;
		cid = scx_bpf_cpu_to_cid(cpu);
		if (cid >= 0)
			__cmask_set(cid, m);
	}
}

#endif
