/* Has arrays that wait for their length: one of numbers, and the buffer of an exit dump. */
#define ENQUEUE                                                            \
	starts[this_cpu() & 3] = nr_enqueued;                              \
	uei_dump[0] = uei_dump_len;                                        \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"

u64 starts[1] SEC(".data.starts");
char uei_dump[1] SEC(".data.uei_dump");
const volatile u32 uei_dump_len;
u64 pair[2] SEC(".data.pair") = { 1, 2 };

SCHEDULER
