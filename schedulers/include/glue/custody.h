/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/custody.h - tasks come into our custody, are linked and become ready.
 *
 * Which code may change what. The kernel's run queue lock of a task is held in every
 * callback about it. So these callbacks alone change its state and the queue that it
 * is linked on, with two exceptions. Under the lock of the task's queue any CPU may
 * pick it (READY to PICKED), or move it. While it moves its queue is RQ_MOVING, and
 * callbacks wait for the end of that. A callback that overtakes a pick does no harm:
 * the task's queue sequence has changed, and the kernel drops the hand-over.
 */
#ifndef SCHEDLAB_GLUE_CUSTODY_H
#define SCHEDLAB_GLUE_CUSTODY_H

#include "glue/homes.h"
#include "glue/tick.h"

u64 nr_wakeups COUNTS("tasks that became ready after blocking");
u64 nr_forks COUNTS("tasks that became ready for the first time");
u64 nr_requeues COUNTS("tasks that became ready after being preempted");
u64 nr_bypasses COUNTS("kernel threads handed straight to their CPU");

/* May @cpu, which @prev is about to leave, run @p now, or a provider in its place? */
static __always_inline bool can_run(task_t *p, u32 cpu, task_t *prev)
{
	return p == prev || (p->base.state == TASK_READY && cpu_allowed(p, cpu)) ||
	       swap_can_run(p, cpu, prev);
}

/* Waiting tasks move; a blocked one with a provider counts where that can run. */
static __always_inline bool can_move(task_t *p, u32 cpu)
{
	return p->base.state == TASK_READY && cpu_allowed(p, cpu);
}

/* ---- linking ---- */

/* Links @p on @rq, whose lock is held. */
static __always_inline void link_on(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	debug_expect(p->base.id, BAD_STATE);
	expect(p->base.rq < 0, LINKED_TWICE);
	rescue_link(rq, p, reason);
	enqueue_task(rq, p, reason);
	p->base.rq = rq->base.nr;
	debug_expect(p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
}

/* Takes @p off @rq, whose lock is held; @then is RQ_NONE or RQ_MOVING. */
static __always_inline void unlink_from(rq_t *rq, task_t *p, enum dequeue_reason reason, s32 then)
{
	debug_expect(then < 0, BAD_STATE);
	expect(p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
	dequeue_task(rq, p, reason);
	rescue_unlink(p);
	p->base.rq = then;
}

/* The CPU that has to reschedule because @p became ready on @rq, or NO_CPU. */
static __always_inline s32 preempts(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	debug_expect(p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
	return rescue_shield(wakeup_preempt(rq, p, cpu, reason));
}

/* Takes @p off its queue, if it is linked. */
static __noinline int unlink_task(task_t *p, u64 now, u32 reason)
{
	struct lock *lock;
	u32 nr = 0;

	use_arena();
	lock = lock_task_rq(p, now, &nr);
	if (!lock)
		return 0;
	unlink_from(rq_nr(nr), p, reason, RQ_NONE);
	unlock(lock);
	return 0;
}

/*
 * Links @p on the queue of @cpu if it is not linked, sets its state, and asks
 * the policy which CPU has to reschedule: it is returned, or NO_CPU.
 */
static __noinline s32 link_task(task_t *p, s32 cpu, u64 now, u32 reason, u32 state)
{
	u32 nr = rq_of(cpu);
	struct lock *lock;
	s32 target = NO_CPU;
	rq_t *rq;

	use_arena();
	debug_expect((u32)cpu < nr_cpus, BAD_CPU);
	debug_expect(state == TASK_READY || state == TASK_RUNNING || (WITH_SWAP && state == TASK_VIRTUAL), BAD_STATE);
	set_home(p, nr);
	lock = lock_rq(nr, now);
	if (!lock)
		return NO_CPU;
	rq = rq_nr(nr);
	if (reason != ENQ_PREEMPTED && swap_claim(p))
		link_on(rq, p, reason);
	p->base.state = state;
	if (state != TASK_RUNNING)
		target = preempts(rq, p, cpu, reason);
	unlock(lock);
	return target;
}

/* Is @p, which is linked, on a queue that a task of @cpu may be on? */
static __always_inline bool linked_well(task_t *p, s32 cpu)
{
	debug_expect(p->base.rq != RQ_NONE, LINKED_ELSEWHERE);
	return POLICY_GLOBAL_RQ || p->base.rq == cpu || cpu_allowed(p, p->base.rq);
}

/* ---- callbacks ---- */

SEC("struct_ops/select_cpu")
s32 glue_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 prev_cpu = ctx[1], this_cpu;
	bool sync = ctx[2] & WAKE_FLAG_SYNC;
	task_t *t = task_of(p);

	if (!t)
		return prev_cpu;
	this_cpu = bpf_get_smp_processor_id();
	t->base.waker_cpu = sync ? this_cpu : -1;
	if (!SELECTS_CPU || !is_ours(p) || (t->base.fresh && !POLICY_SELECTS_FORK))
		return prev_cpu;
	return select_task_rq(t, prev_cpu, this_cpu, sync, bpf_ktime_get_ns());
}

/* Why ops.enqueue is called for @p, which is not linked. */
static __always_inline u32 enqueue_reason(task_t *p, u64 enq_flags)
{
	debug_expect(p->base.rq == RQ_NONE, LINKED_TWICE);
	if (p->base.fresh) {
		p->base.fresh = false;
		count(nr_forks);
		return ENQ_NEW;
	}
	if (enq_flags & ENQ_FLAG_WAKEUP) {
		count(nr_wakeups);
		return ENQ_WAKE;
	}
	return ENQ_JOINED;
}

/* A task that is none of ours goes straight to its CPU; a waking one preempts there. */
static __always_inline void bypass(struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & ENQ_FLAG_WAKEUP)
		enq_flags |= ENQ_FLAG_PREEMPT;
	count(nr_bypasses);
	scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, enq_flags);
}

/*
 * @p comes into our custody: after a wakeup, a fork, losing its CPU, or a
 * change of nice, CPU mask or class. After a change of nice or CPU mask it is still
 * linked, and stays where it is unless its new mask forbids that.
 */
SEC("struct_ops/enqueue")
void glue_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 enq_flags = ctx[1];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	bool relink;
	u32 reason;

	if (!t || !is_ours(p)) {
		bypass(p, enq_flags);
		return;
	}
	t->base.pid = p->pid;
	t->base.mm = (u64)p->mm;
	relink = read_task(t, p);
	if (enq_flags & ENQ_FLAG_WAKEUP && swap_wakes(t, cpu)) {
		count(nr_wakeups);
		goto ready;
	}
	if (t->base.rq == RQ_NONE) {
		/* what it ran in another class is not ours to charge */
		t->base.charged = p->se.sum_exec_runtime;
		reason = enqueue_reason(t, enq_flags);
	} else if (relink || !linked_well(t, cpu)) {
		unlink_task(t, bpf_ktime_get_ns(), DEQ_MOVED);
		reason = ENQ_MOVED;
	} else {
		bool preempted = t->base.state == TASK_STOPPED;

		count(nr_requeues);
		if (!POLICY_PUSHES || !preempted) {
			t->base.state = TASK_READY;
			if (!preempted && cpu_idle(cpu))
				kick_idle(cpu);
			goto ready;
		}
		reason = ENQ_PREEMPTED;
	}
	kick(link_task(t, cpu, bpf_ktime_get_ns(), reason, TASK_READY), cpu, reason);
ready:
	t->base.waker_cpu = -1;
	swap_ready(t, cpu);
}

#endif
