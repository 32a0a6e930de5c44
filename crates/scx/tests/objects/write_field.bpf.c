/* Stores to a member that belongs to the kernel. */
#define ENQUEUE                                                            \
	p->static_prio = 100;                                              \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
