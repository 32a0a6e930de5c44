/* Inserts into a queue that was never made. */
#define ENQUEUE scx_bpf_dsq_insert(p, 77, SLICE_DFL, enq_flags)
#include "lab.h"
SCHEDULER
