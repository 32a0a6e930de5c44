/* Has switches that may be changed while it runs. */
#define ENQUEUE                                                            \
	if (mode == MODE_FAST)                                             \
		nr_fast += weights[1];                                     \
	else                                                               \
		nr_slow++;                                                 \
	scx_bpf_dsq_insert(p, SHARED, slice, enq_flags)
#include "lab.h"

enum mode { MODE_SLOW, MODE_FAST };

volatile enum mode mode = MODE_SLOW;
volatile u32 weights[2] = { 1, 1 };
const volatile u64 slice = 5000000;

u64 nr_fast;
u64 nr_slow;
SCHEDULER
