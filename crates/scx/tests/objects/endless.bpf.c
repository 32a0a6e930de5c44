/* Never comes back from its tenth enqueue. */
static volatile int forever = 1;
#define ENQUEUE                                                            \
	if (nr_enqueued == 10)                                             \
		while (forever)                                            \
			;                                                  \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
