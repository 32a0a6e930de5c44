/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue.h - makes a struct sched_ext_ops of a policy's verbs (verbs.h). Its parts
 * follow the life of a task:
 *
 *   glue/queues.h      the run queues, the descriptors, and their locks
 *   glue/cpus.h        idle CPUs, and CPUs that are kicked to look for a task
 *   glue/homes.h       the queue that a sleeping task belongs to
 *   glue/tick.h        run time becomes ticks: charging, ops.tick, ops.yield
 *   glue/custody.h     tasks become ready: ops.select_cpu, ops.enqueue
 *   glue/move.h        waiting tasks change their queue
 *   glue/pick.h        a CPU gets its next task: ops.dispatch
 *   glue/block.h       a task runs, stops and blocks
 *   glue/task.h        birth and death of tasks; changes of nice, mask and class
 *   glue/timer.h       periodic work of a policy
 *   glue/operations.h  birth and death of the scheduler; SCHED_OPS()
 *
 * Two layers hook into it: rescue.h, and with -DSWAP swap/ (swap/hooks.h).
 */
#ifndef SCHEDLAB_GLUE_H
#define SCHEDLAB_GLUE_H

#include "glue/operations.h"

#ifdef SWAP
#include "swap/swap.h"
#endif

#endif
