/* SPDX-License-Identifier: GPL-2.0-only */
/* arith.bpf.h - times that wrap around, weights, logarithms and averages. */
#ifndef SCHEDLAB_ARITH_BPF_H
#define SCHEDLAB_ARITH_BPF_H

/* Is @a after @b? Times and virtual times may have wrapped around, so the sign of the difference decides. */
static inline bool time_after(u64 a, u64 b)
{
	return (s64)(a - b) > 0;
}

static inline bool time_before(u64 a, u64 b)
{
	return time_after(b, a);
}

static inline bool time_after_eq(u64 a, u64 b)
{
	return !time_before(a, b);
}

static inline bool time_before_eq(u64 a, u64 b)
{
	return !time_after(a, b);
}

/* From @begin to @end, which counts. */
static inline bool time_in_range(u64 a, u64 begin, u64 end)
{
	return time_after_eq(a, begin) && time_before_eq(a, end);
}

/* From @begin to @end, which does not count. */
static inline bool time_in_range_open(u64 a, u64 begin, u64 end)
{
	return time_after_eq(a, begin) && time_before(a, end);
}

/* The time from @before to @after; 0 where they are the other way round. */
static inline s64 time_delta(u64 after, u64 before)
{
	return time_after(after, before) ? (s64)(after - before) : 0;
}

/* @value by the task's weight, which is 100 at nice 0. */
static inline u64 scale_by_task_weight(const struct task_struct *p, u64 value)
{
	return value * p->scx.weight / 100;
}

/* Run time as virtual time: a task of twice the weight ages half as fast. */
static inline u64 scale_by_task_weight_inverse(const struct task_struct *p, u64 value)
{
	return value * 100 / p->scx.weight;
}

/* The place of the highest bit; 0 for 0. */
static inline u32 log2_u32(u32 v)
{
	u32 place = 0, step;

	for (step = 16; step; step /= 2) {
		if (v >> step) {
			v >>= step;
			place += step;
		}
	}
	return place;
}

/* The number of bits that @v needs: one more than the place of the highest bit. */
static inline u32 log2_u64(u64 v)
{
	u32 high = v >> 32;

	return high ? log2_u32(high) + 33 : log2_u32(v) + 1;
}

/* The root, rounded down. Newton's method from a power of two that is at most twice the root: six steps are exact. */
static inline u64 __sqrt_u64(u64 x)
{
	u64 root = 1ull << (log2_u64(x) + 1) / 2;
	int step;

	if (x < 2)
		return x;
	for (step = 0; step < 6; step++) {
		u64 other = x / root;

		if (root <= other)
			break;
		root = (root + other) / 2;
	}
	return root;
}

/* The number of zeros below the lowest bit; @v is not 0. */
static inline int ctzll(u64 v)
{
	return __builtin_ctzll(v);
}

static inline u64 get_prandom_u64(void)
{
	return (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

/*
 * The average of @old and @new, where @new has a part of 1 / 2^@decay. Small values, of which that part would be 0, meet
 * halfway.
 */
#define __calc_avg(old, new, decay)                                                           \
	({                                                                                    \
		typeof(old) __least = 1 << (decay);                                           \
		typeof(old) __average;                                                        \
		if ((old) >= __least && (new) >= __least)                                     \
			__average = (old) - ((old) >> (decay)) + ((new) >> (decay));          \
		else if ((old) == 1 && (new) == 0)                                            \
			__average = 0;                                                        \
		else                                                                          \
			__average = (old) - ((old) >> 1) + ((new) >> 1);                      \
		__average;                                                                    \
	})

/* Sizes of structures that end in an array of @count elements. */
#define flex_array_size(p, member, count) ((count) * sizeof(*(p)->member))
#define struct_size(p, member, count) (offsetof(typeof(*(p)), member) + flex_array_size(p, member, count))
#define struct_size_t(type, member, count) struct_size((type *)NULL, member, count)

#endif
