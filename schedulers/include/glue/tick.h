/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue/tick.h - run time becomes ticks of the policy: while a task runs, when it is put, and
 * when it yields.
 */
#ifndef SCHEDLAB_GLUE_TICK_H
#define SCHEDLAB_GLUE_TICK_H

#include "glue/cpus.h"
#include "rescue.h"
#include "swap/hooks.h"

/* Off: tests want exact accounts. */
const volatile bool tick_sampling
	SETS("a task that runs at a tick is charged a whole tick, as in the kernels of the day, instead of its run "
		"time") = false;

u64 nr_yields COUNTS("calls of sched_yield()");

/*
 * How much early a tick of ours is counted at a tick of the kernel, as a share of the
 * time since the kernel's last one. A task starts to run a little after a tick of the
 * kernel. So at the tick where its slice should end, it is short of it by the time
 * that the switch took. Without this it would run until the next tick.
 */
#define EARLY_SHIFT 3

/*
 * Charges @p for what it ran until its run time was @sum, and counts whole ticks; the
 * rest is kept with the task. @at_tick: this is a tick of the kernel, and a little
 * that is missing to a tick of ours is forgiven. Once the policy wants to reschedule
 * (then true is returned) no more ticks are counted until @p is put. If the kernel's
 * ticks are coarse, what it ran too long comes off its next slice.
 */
static __noinline bool charge(rq_t *rq, task_t *p, u64 sum, bool at_tick)
{
	s64 ran = sum - p->base.charged, tick = tick_length(), early = 0;

	use_arena();
	debug_expect(tick > 0, RAN_BACKWARDS);
	debug_expect(p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
	expect(ran >= 0, RAN_BACKWARDS);
	swap_charge(p, ran);
	if (at_tick)
		early = min(ran, tick) >> EARLY_SHIFT;
	p->base.charged = sum;
	p->base.ran += ran;
	if (tick_sampling)
		return false;
	p->base.partial += ran;
	if (p->base.over || p->base.partial + early < tick)
		return p->base.over;
	do {
		p->base.partial -= min(p->base.partial, tick);
		count(nr_ticks);
		p->base.over = task_tick(rq, p);
	} while (!p->base.over && p->base.partial + early >= tick && can_loop);
	if (rescue_tick(rq, p))
		p->base.over = true;
	return p->base.over;
}

/* The scheduler is entered while @p runs, or @p blocks. */
static __always_inline void put_prev(rq_t *rq, task_t *p, u64 sum)
{
	charge(rq, p, sum, false);
	put_prev_task(rq, p, p->base.ran);
	debug_expect(p->base.partial >= 0, RAN_BACKWARDS);
	WRITE_ONCE(p->base.ran, 0);
	WRITE_ONCE(p->base.over, false);
	rescue_put(p);
	swap_settle(p);
}

/* tick_sampling: one tick for each multiple of its length since the last look. */
static __always_inline bool sample(rq_t *rq, task_t *p, cpu_t *cpu, u64 now)
{
	u64 tick = tick_length(), n = now / tick - cpu->sampled / tick;
	bool resched = false;

	debug_expect(now >= cpu->sampled, RAN_BACKWARDS);
	cpu->sampled = now;
	while (n && can_loop) {
		n--;
		count(nr_ticks);
		if (task_tick(rq, p))
			resched = true;
	}
	return resched || rescue_tick(rq, p);
}

/* ns that @p may run until its slice ends. */
static __always_inline u64 slice_ns(task_t *p)
{
	s32 ticks = rescue_ticks(p);
	s64 left = (s64)ticks * (s64)tick_length() - p->base.partial;

	expect(ticks >= 0, SLICE_BELOW_ZERO);
	if (tick_sampling)
		left += tick_length();
	left = min(left, swap_left(p));
	return left > 0 ? left : 1;
}

/*
 * Tick of the kernel while @p runs. Right behind a kick, which has taken the slice of @p, the CPU has not picked
 * yet. Then the slice stays taken, or the kernel would keep running @p.
 */
SEC("struct_ops/tick")
void glue_tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now = bpf_ktime_get_ns(), sum = p->se.sum_exec_runtime, slice;
	u32 nr = rq_of(cpu);
	task_t *t = task_of(p);
	struct lock *lock;
	bool resched;
	rq_t *rq;

	if (!t || !is_ours(p) || t->base.rq != (s32)nr)
		return;
	lock = lock_rq(nr, now);
	if (!lock)
		return;
	rq = rq_nr(nr);
	resched = charge(rq, t, sum, true) || swap_left(t) <= 0;
	if (tick_sampling)
		resched = sample(rq, t, cpu_nr(cpu), now);
	slice = slice_ns(t);
	unlock(lock);
	scx_bpf_task_set_slice(p, resched || cpu_nr(cpu)->resched ? 0 : slice);
	balance_tick(cpu, now);
}

SEC("struct_ops/yield")
bool glue_yield(u64 *ctx)
{
	struct task_struct *from = (void *)ctx[0];
	task_t *t = task_of(from);
	struct lock *lock;
	bool resched;
	u32 nr = 0;

	if (!t || !is_ours(from))
		goto reschedule;
	count(nr_yields);
	lock = lock_task_rq(t, bpf_ktime_get_ns(), &nr);
	if (!lock)
		goto reschedule;
	resched = yield_task(rq_nr(nr), t);
	swap_yields(t);
	unlock(lock);
	if (!resched)
		return false;
reschedule:
	scx_bpf_task_set_slice(from, 0);
	return false;
}

#endif
