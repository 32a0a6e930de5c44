// SPDX-License-Identifier: GPL-2.0-only
/*
 * vanilla - the scheduler of Linux 2.4: one list of all runnable tasks under
 * one lock, and goodness() asked about each of them at every decision.
 *
 *     list   [C 11]  -  [A 6]  -  [B 0]  -  ...     ticks left, the last woken first
 *               \         |         |
 *     goodness   46       42         0               asked by the CPU that picks
 *
 * Every task owns a number of clock ticks. Goodness is the ticks left, and bonuses for
 * low nice, for the CPU that it ran on last and for the address space that is loaded.
 * The task with the greatest goodness runs until its ticks are used up. When no runnable task has
 * any ticks left, an epoch ends: all tasks, sleeping ones too, get new ticks on top of
 * half of those they kept. So a task that sleeps comes to own up to nearly twice its
 * share, and beats the others when it wakes up. There is no other notion of
 * interactivity.
 *
 * Worked decision: A of nice 0 computes, with 6 ticks left: 6 + 20 - 0, + 15 for its
 * CPU, + 1 for its address space: 42. C has slept through some epochs and wakes up
 * with 11 ticks: 11 + 20 + 15 = 46. 46 > 42: C preempts A. B has no ticks: 0.
 *
 * Gain: few tasks on one CPU are served well. Failure: a decision costs a look at every
 * task, and all CPUs wait for one lock.
 *
 * Profile TSSS is what became of it in 2.5.2. The ticks are split into a slice and a
 * bonus that grows with every epoch slept through. So an epoch's end no longer visits
 * tasks that sleep (epoch_tsss.h).
 *
 * README.md has sources, numbered behaviours, tunables and limits.
 */
#include "goodness.h"

/* Example of goodness(): nice 0, 6 ticks, 41 on its own CPU. */
static __always_inline s32 add_cpu_bonus(s32 weight, task_t *p, u32 cpu, u64 clock)
{
	if (p->processor == (s32)cpu)
		weight += proc_change_penalty;
	return weight;
}

static void init_task(task_t *p)
{
	init_ticks(p);
	WRITE_ONCE(p->dyn_prio, 0);
	WRITE_ONCE(p->epoch, 0);
	p->processor = -1;
}

static bool task_fork(task_t *parent, task_t *child)
{
	child->processor = parent->processor;
	return split_ticks(parent, child);
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	if (TSSS)
		tsss_catch_up(rq, rq, p);
	add_to_list(rq, p);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	take_off_list(rq, p);
}

static void recalculate_task(task_t *p)
{
	v2_4_recalculate(p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	return pick_best(rq, cpu, prev);
}

/* A task that yielded is picked again: its yield is over. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	p->processor = cpu;
	WRITE_ONCE(p->yielded, false);
}

/* Only with more runnable tasks than busy CPUs is there a task to yield to. */
static bool yield_task(rq_t *rq, task_t *p)
{
	s32 pending = rq->nr_running;
	u32 cpu;

	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++)
		if (!cpu_idle(cpu))
			pending--;
	if (pending <= 0) {
		count(nr_yields_ignored);
		return false;
	}
	give_way(rq, p);
	return true;
}

/*
 * reschedule_idle(): finds a CPU for @p. Its last one if that is idle, else the
 * one that has been idle longest, else the one whose task is worst against it.
 */
static __always_inline s32 reschedule_idle(task_t *p)
{
	s32 target = NO_CPU, most = 0, gain;
	u64 oldest = ~0ull;
	u32 cpu = p->processor;
	cpu_t *c;

	debug_expect(p->processor < (s32)nr_cpus, BAD_CPU);
	if (p->processor >= 0 && cpu_allowed(p, cpu) && cpu_idle(cpu)) {
		nr_idle_last++;
		return cpu;
	}
	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++) {
		if (!cpu_allowed(p, cpu))
			continue;
		c = cpu_nr(cpu);
		if (c->idle_since) {
			if (c->idle_since < oldest) {
				oldest = c->idle_since;
				target = cpu;
			}
		} else if (oldest == ~0ull && c->curr) {
			gain = goodness(p, cpu, c->mm, 0) - goodness(c->curr, cpu, c->mm, 0);
			if (gain > most) {
				most = gain;
				target = cpu;
			}
		}
	}
	if (target == NO_CPU)
		nr_no_preemptions++;
	else if (oldest != ~0ull)
		nr_idle_longest++;
	else
		nr_preemptions++;
	debug_expect(target < (s32)nr_cpus, BAD_CPU);
	return target;
}

/*
 * A synchronous waker is about to sleep and leaves its CPU to @p. A preempted
 * task is pushed to another CPU, if one is idle or worse off; not if it yielded.
 */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	if (reason == ENQ_PREEMPTED && p->yielded) {
		p->yielded = false;
		return NO_CPU;
	}
	if (waits_for_waker(p, reason))
		return NO_CPU;
	return reschedule_idle(p);
}

SCHED_OPS(vanilla);
