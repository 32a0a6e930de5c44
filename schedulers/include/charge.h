/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * charge.h - run time becomes ticks of the policy. Included by glue.h.
 */
#ifndef SCHEDLAB_CHARGE_H
#define SCHEDLAB_CHARGE_H

/*
 * How much early a tick of ours is counted at a tick of the kernel, as a share
 * of the time since the kernel's last one. A task starts to run a little after
 * a tick of the kernel, so at the tick where its slice should end it is short of
 * it by the time that the switch took; without this it would run until the next.
 */
#define EARLY_SHIFT 3

/*
 * Charges @p for what it ran until its run time was @sum, and counts whole
 * ticks; the rest is kept with the task. @at_tick: this is a tick of the kernel,
 * and a little that is missing to a tick of ours is forgiven. Once the policy
 * wants to reschedule (then true is returned) no more ticks are counted until @p
 * is put: if the kernel's ticks are coarse, what it ran too long comes off its
 * next slice.
 */
static __noinline bool charge(rq_t *rq, task_t *p, u64 sum, bool at_tick)
{
	s64 ran = sum - p->base.charged, tick = tick_length(), early = 0;

	use_arena();
	swap_charge(p, ran);
	if (at_tick)
		early = min(ran, tick) >> EARLY_SHIFT;
	p->base.charged = sum;
	p->base.ran += ran;
	if (tick_sampling)
		return false;
	p->base.partial += ran;
	while (!p->base.over && p->base.partial + early >= tick && can_loop) {
		p->base.partial -= min(p->base.partial, tick);
		count(nr_ticks);
		p->base.over = task_tick(rq, p);
	}
	return p->base.over;
}

/* The scheduler is entered while @p runs, or @p blocks. */
static __always_inline void put_prev(rq_t *rq, task_t *p, u64 sum)
{
	charge(rq, p, sum, false);
	put_prev_task(rq, p, p->base.ran);
	WRITE_ONCE(p->base.ran, 0);
	WRITE_ONCE(p->base.over, false);
	swap_settle(p);
}

/* tick_sampling: one tick for each multiple of its length since the last look. */
static __always_inline bool sample(rq_t *rq, task_t *p, cpu_t *cpu, u64 now)
{
	u64 tick = tick_length(), n = now / tick - cpu->sampled / tick;
	bool resched = false;

	cpu->sampled = now;
	while (n && can_loop) {
		n--;
		count(nr_ticks);
		if (task_tick(rq, p))
			resched = true;
	}
	return resched;
}

/* ns that @p may run until its slice ends. */
static __always_inline u64 slice_ns(task_t *p)
{
	s64 left = (s64)ticks_left(p) * (s64)tick_length() - p->base.partial;

	if (tick_sampling)
		left += tick_length();
	left = min(left, swap_left(p));
	return left > 0 ? left : 1;
}

#include "move.h"

#endif
