/* ops.running() is a sleepable program, which the kernel does not take. */
#define MORE_OPS .running = (void *)lab_running,
#include "lab.h"
SEC("struct_ops.s/lab_running") void lab_running(u64 *ctx)
{
}
SCHEDULER
