/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/block.h - a task starts to run, leaves its CPU, and blocks.
 */
#ifndef SCHEDLAB_GLUE_BLOCK_H
#define SCHEDLAB_GLUE_BLOCK_H

#include "glue/custody.h"

u64 nr_follows COUNTS("running tasks found linked on another CPU's queue");

/* @cpu, which was idle, runs a task. */
static __always_inline void leave_idle(u32 cpu)
{
	if (!cpu_idle(cpu))
		return;
	if (tick_sampling)
		cpu_nr(cpu)->sampled = bpf_ktime_get_ns();
	clear_idle(cpu);
}

SEC("struct_ops/running")
void glue_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	cpu_t *c = cpu_nr(cpu);
	u64 now;

	if (!t)
		return;
	leave_idle(cpu);
	if (!is_ours(p)) {
		if (!c->interrupted)
			WRITE_ONCE(c->curr, NULL);
		WRITE_ONCE(c->exec, NULL);
		return;
	}
	swap_runs(t, cpu);
	if (t->base.rq == (s32)rq_of(cpu)) {
		t->base.state = TASK_RUNNING;
	} else {
		/* it did not come through our dispatch, or not on this CPU */
		count(nr_follows);
		now = bpf_ktime_get_ns();
		if (t->base.rq == RQ_NONE)
			t->base.charged = p->se.sum_exec_runtime;
		unlink_task(t, now, DEQ_MOVED);
		link_task(t, cpu, now, ENQ_MOVED, TASK_RUNNING);
	}
	if (c->exec != t) {
		c->curr = t;
		c->exec = t;
		load_mm(c, t);
	}
}

/* ops.dispatch may have chosen the next task already, or is yet to come. */
SEC("struct_ops/stopping")
void glue_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool runnable = ctx[1];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	cpu_t *c = cpu_nr(cpu);

	if (!t || !is_ours(p))
		return;
	if (c->exec == t) {
		WRITE_ONCE(c->exec, NULL);
		if (!runnable)
			WRITE_ONCE(c->curr, NULL);
		else if (c->curr == t)
			c->interrupted = t;
	}
	t->base.state = runnable ? TASK_STOPPED : TASK_NONE;
}

/*
 * Without SLEEP in the flags @p is only off for a moment, while something about
 * it is changed: it stays linked.
 */
SEC("struct_ops/quiescent")
void glue_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 deq_flags = ctx[1], sum = p->se.sum_exec_runtime;
	s32 cpu = scx_bpf_task_cpu(p), where;
	task_t *t = task_of(p);
	struct lock *lock;
	u32 nr = 0;
	rq_t *rq;
	u64 now;

	if (!t || !is_ours(p))
		return;
	t->base.state = TASK_NONE;
	if (!(deq_flags & DEQ_FLAG_SLEEP))
		return;
	t->base.uninterruptible = sleeps_uninterruptibly(p);
	now = bpf_ktime_get_ns();
	swap_blocks(t, p, now);
	lock = lock_task_rq(t, now, &nr);
	if (!lock)
		return;
	rq = rq_nr(nr);
	put_prev(rq, t, sum);
	where = swap_where(t, cpu);
	if (where == NO_CPU)
		unlink_from(rq, t, DEQ_SLEEP, RQ_NONE);
	else
		t->base.state = TASK_VIRTUAL;
	unlock(lock);
	swap_move(t, cpu, where, now);
}

#endif
