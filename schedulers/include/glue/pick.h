/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/pick.h - a CPU gets its next task.
 *
 * No dispatch queue of the kernel ever holds a waiting task of ours. Waiting tasks
 * are linked on run queues in the arena, and ops.dispatch hands over one at a time:
 *
 *   ops.dispatch - choose() - the interrupted task, or
 *        |             |      SWAP's provider for a real-time task, or
 *        |             |      the task that waited too long (rescue.h), or
 *        |             |      the policy's pick_next_task()
 *        |             +----> a provider in its place, if it is blocked
 *        +---- hand_over() -> the kernel's local queue
 */
#ifndef SCHEDLAB_GLUE_PICK_H
#define SCHEDLAB_GLUE_PICK_H

#include "glue/move.h"

u64 nr_picks COUNTS("picks that chose another task than the running one");
u64 nr_keeps COUNTS("picks that chose the running task again");
u64 nr_resumes COUNTS("tasks that went on after a kernel thread, without a pick");
u64 nr_idles COUNTS("picks that found nothing and left the CPU idle");
u64 nr_lost_picks COUNTS("picked tasks that no longer exist");
u64 nr_cancels COUNTS("picked tasks that may not run here, or that another CPU has not left yet");

/* One pass through the scheduler on a CPU. */
struct pass {
	u64 now;	/* in: ns */
	u64 sum;	/* in: run time of the task that is put, ns */
	u64 slice;	/* out: ns that the chosen task may run */
	s32 pid;	/* out: the chosen task */
	bool idle;	/* in: the CPU will be idle if nothing is found */
	task_t *moved;	/* out: picked, but has to move */
	s32 to;		/* out: the CPU that it moves to */
};

enum outcome {
	CHOSE_NONE,
	CHOSE_PREV,
	CHOSE_OTHER,
	CHOSE_REMOTE,	/* SWAP: a task on another CPU's queue */
	CHOSE_WALK,	/* recalculate_task() all tasks first */
	CHOSE_MOVED,	/* move that task first */
	CHOSE_AGAIN,	/* SWAP: the provider that was to run is gone */
};

/*
 * A task that lost the CPU to a kernel thread continues as after an interrupt, unless
 * there was reason to pick meanwhile.
 */
static __always_inline task_t *interrupted_task(cpu_t *c, u32 cpu, task_t *prev)
{
	task_t *p = c->interrupted;

	debug_expect(cpu < nr_cpus, BAD_CPU);
	if (!p)
		return NULL;
	WRITE_ONCE(c->interrupted, NULL);
	if (prev || c->resched || p->base.over || p->base.rq != (s32)rq_of(cpu))
		return NULL;
	if (!can_move(p, cpu))
		return NULL;
	count(nr_resumes);
	return p;
}

/* Does @p, picked by @cpu, have to run elsewhere? Then it is taken off its queue. */
static __always_inline bool take_elsewhere(rq_t *rq, task_t *p, s32 cpu, struct pass *pass)
{
	if (!MOVES_PICKED)
		return false;
	pass->to = picked_cpu(p, cpu);
	if (pass->to == cpu)
		return false;
	unlink_from(rq, p, DEQ_MOVED, RQ_MOVING);
	pass->moved = p;
	return true;
}

/* The scheduler is entered: @prev, which is linked on @rq, leaves the CPU or is picked again. */
static __always_inline void put_waiting(rq_t *rq, task_t *prev, u64 sum)
{
	debug_expect(prev->base.rq == (s32)rq->base.nr, PICKED_UNLINKED);
	put_prev(rq, prev, sum);
	rescue_wait_anew(rq, prev);
}

/* @exec runs next on the CPU of queue @nr, which @prev leaves. */
static __always_inline u32 settle_on(task_t *exec, task_t *prev, u32 nr, struct pass *pass)
{
	debug_expect(exec->base.id, BAD_STATE);
	debug_expect(exec == prev || WITH_SWAP || exec->base.state == TASK_READY, BAD_STATE);
	pass->slice = slice_ns(exec);
	debug_expect(pass->slice, SLICE_BELOW_ZERO);
	pass->pid = exec->base.pid;
	expect(WITH_SWAP || exec->base.rq == (s32)nr, PICKED_UNLINKED);
	if (exec->base.rq != (s32)nr)
		return CHOSE_REMOTE;
	if (exec == prev)
		return CHOSE_PREV;
	exec->base.state = TASK_PICKED;
	return CHOSE_OTHER;
}

/*
 * schedule() of the old days: puts the task at @address (0: it blocked, or is none
 * of ours) and picks. That the CPU is going to be idle is noted under the lock: a
 * task that becomes ready from then on kicks this CPU.
 *
 * Global, so that the verifier walks it once and not for each way to its call. With
 * SWAP these are ten times as many instructions, too many for those before 7.3.
 */
__weak u32 choose(s32 cpu, u64 address, struct pass *pass __arg_nonnull)
{
	task_t *prev = (task_t *)address;
	u32 nr = rq_of(cpu), outcome = CHOSE_NONE;
	cpu_t *c = cpu_nr(cpu);
	rq_t *rq = rq_nr(nr);
	task_t *next, *exec;
	struct lock *lock;

	use_arena();
	lock = lock_rq(nr, pass->now);
	if (!lock)
		return CHOSE_NONE;
	if (prev)
		put_waiting(rq, prev, pass->sum);
	swap_begin_pick(cpu);
	next = interrupted_task(c, cpu, prev);
	exec = next;
	if (!next) {
		next = swap_pick_realtime(cpu, prev);
		if (!next && unlikely(rescue_oldest(rq)))
			next = rescue_pick(rq, cpu);
		if (!next)
			next = pick_next_task(rq, cpu, prev);
		exec = swap_stand_in(next, cpu, prev);
		if (exec && exec == next && next != prev && take_elsewhere(rq, next, cpu, pass)) {
			unlock(lock);
			return CHOSE_MOVED;
		}
		if (exec && exec->base.rq == (s32)nr)
			set_next_task(rq, exec, cpu);
	}
	swap_park_stale(cpu, rq);
	WRITE_ONCE(c->resched, false);
	if (rq->base.walk_tasks) {
		rq->base.walk_tasks = false;
		outcome = CHOSE_WALK;
	} else if (exec) {
		c->curr = next;
		c->exec = exec;
		load_mm(c, exec);
		outcome = settle_on(exec, prev, nr, pass);
	} else if (next) {
		outcome = CHOSE_AGAIN;
	} else {
		WRITE_ONCE(c->curr, NULL);
		WRITE_ONCE(c->exec, NULL);
		if (pass->idle)
			set_idle(cpu, pass->now);
	}
	unlock(lock);
	return outcome;
}

/*
 * Is another CPU than @cpu still switching away from @p, which is in custody
 * already? Kernels up to 7.0 at least pin a task while a BPF program runs as it.
 * Some programs run until the switch is done: ops.running of the next task, those on
 * sched_switch. The kernel ejects a scheduler that hands over a pinned task. To look
 * for the pin would not do, as the kernel looks later, without a lock; after the
 * switch nothing runs as @p any more.
 */
static __always_inline bool is_leaving_elsewhere(struct task_struct *p, s32 cpu)
{
	return is_on_cpu(p) && scx_bpf_task_cpu(p) != cpu;
}

/*
 * Hands the chosen task to the kernel. The insert comes first, as it records the
 * task's queue sequence. A change of the CPU mask before the test fails the test. One
 * after it changes the sequence, and the kernel drops the task. The end of a switch
 * may narrow the mask as well, so whether that has come is asked first.
 */
static __always_inline bool hand_over(s32 cpu, struct pass *pass)
{
	struct task_struct *p = bpf_task_from_pid(pass->pid);
	bool allowed;
	task_t *t;

	if (!p) {
		count(nr_lost_picks);
		return false;
	}
	scx_bpf_dsq_insert(p, DSQ_LOCAL, pass->slice, 0);
	allowed = !is_leaving_elsewhere(p, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	if (!allowed) {
		scx_bpf_dispatch_cancel();
		count(nr_cancels);
		t = task_of(p);
		if (t && t->base.state == TASK_PICKED)
			t->base.state = TASK_READY;
	}
	bpf_task_release(p);
	return allowed;
}

/* The descriptor of @prev, if it is ours and this pass puts it; fills in @pass. */
static __always_inline task_t *task_to_put(s32 cpu, struct task_struct *prev, struct pass *pass)
{
	task_t *t = NULL;

	if (!prev || !(prev->scx.flags & TASK_FLAG_QUEUED))
		return NULL;
	pass->idle = false;
	pass->sum = prev->se.sum_exec_runtime;
	if (is_ours(prev))
		t = task_of(prev);
	return t && t->base.rq == (s32)rq_of(cpu) ? t : NULL;
}

/* How often ops.dispatch tries in all, when picks come to nothing. */
#define MAX_TRIES 8

SEC("struct_ops/dispatch")
void glue_dispatch(u64 *ctx)
{
	s32 cpu = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	struct pass pass = { .now = bpf_ktime_get_ns(), .idle = true };
	bool balanced = !BALANCES_IDLE;
	u32 i, outcome;
	task_t *t;

	report_impossible();
	t = task_to_put(cpu, prev, &pass);
	for (i = zero; i < MAX_TRIES && can_loop; i++) {
		outcome = choose(cpu, (u64)t, &pass);
		swap_look_again(cpu, pass.now);
		switch (outcome) {
		case CHOSE_PREV:
			if (prev)
				scx_bpf_task_set_slice(prev, pass.slice);
			count(nr_keeps);
			return;
		case CHOSE_REMOTE:
			if (!swap_pull(cpu, &pass))
				break;
			/* fall through */
		case CHOSE_OTHER:
			if (!hand_over(cpu, &pass))
				break;
			count(nr_picks);
			return;
		case CHOSE_AGAIN:
			break;
		case CHOSE_WALK:
			recalculate_all(rq_of(cpu));
			break;
		case CHOSE_MOVED:
			if (!MOVES_PICKED)
				break;
			count(nr_moves);
			kick(attach_task(pass.moved, pass.to, pass.now), cpu, ENQ_MOVED);
			break;
		default:
			if (pass.idle && !balanced) {
				balanced = true;
				if (balance_newidle(cpu, pass.now))
					break;
			}
			count(nr_idles);
			return;
		}
	}
	/* what was picked is still on another CPU, or cannot come: again, at once if there is nothing to run, else at the next tick */
	if (pass.idle)
		kick_idle(cpu);
	else
		WRITE_ONCE(cpu_nr(cpu)->resched, true);
}

#endif
