/* Makes a queue where the kernel does not allow it. */
#define ENQUEUE                                                            \
	scx_bpf_create_dsq(5, -1);                                         \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
