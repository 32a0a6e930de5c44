/* Follows a pointer that no task has after 100 enqueues. */
#define ENQUEUE                                                            \
	struct task_struct *none = NULL;                                   \
	if (nr_enqueued > 100)                                             \
		p = *(struct task_struct *volatile *)&none;                \
	nr_enqueued += p->pid == 0;                                        \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
