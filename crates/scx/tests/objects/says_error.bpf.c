/* Gives up with a message of its own. */
static char text[] = "enough of %s[%d], %llu times %x%%";
#define ENQUEUE                                                            \
	u64 data[4] = { (u64)p->comm, p->pid, nr_enqueued, 0xbeef };       \
	if (nr_enqueued == 5)                                              \
		scx_bpf_error_bstr(text, data, sizeof(data));              \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
