/* Forgets every task after the twentieth. */
#define ENQUEUE                                                            \
	if (nr_enqueued < 20)                                              \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
