/* Calls a function that no kernel has. */
#define ENQUEUE scx_bpf_read_minds(p)
#include "lab.h"
void scx_bpf_read_minds(struct task_struct *p) __ksym;
SCHEDULER
