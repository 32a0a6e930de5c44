/* Counts in one place that all CPUs share, or in a line of its own for each CPU. */
#define ENQUEUE                                                            \
	if (padded)                                                        \
		counters[this_cpu() & 7].count++;                          \
	else                                                               \
		shared.sum++;                                              \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"

const volatile bool padded;

struct totals {
	u64 before;
	u64 sum;
} __attribute__((aligned(64)));
struct totals shared;

struct counter {
	u64 count;
} __attribute__((aligned(64)));
struct counter counters[8];
SCHEDULER
