// SPDX-License-Identifier: GPL-2.0-only
/*
 * vanilla - the scheduler of Linux 2.4: one list of all runnable tasks under
 * one lock, and goodness() asked about each of them at every decision.
 *
 * Every task owns a number of clock ticks. The task with most ticks left (plus
 * bonuses for low nice, the CPU it ran on last, and the address space that is
 * loaded) runs until its ticks are used up. When no runnable task has any left,
 * an epoch ends: all tasks, sleeping ones too, get new ticks on top of half of
 * those they kept. So a task that sleeps comes to own up to nearly twice its
 * share, and beats the others when it wakes up. There is no other notion of
 * interactivity.
 *
 * Profile TSSS is what became of it in 2.5.2: the ticks are split into a slice
 * and a bonus that grows with every epoch slept through, so that an epoch's end
 * no longer visits tasks that sleep.
 *
 * README.md has a worked example, sources, tunables and limits.
 */
#define POLICY_GLOBAL_RQ
#define POLICY_PUSHES
#define POLICY_WALKS_TASKS
#define HAS_TSSS
#define TSSS (profile == PROFILE_TSSS)
#define PREV_FIRST prev_wins_ties
#include "../include/types.h"

enum profile {
	PROFILE_2_4,	/* Linux 2.4.18: ticks of all tasks recalculated */
	PROFILE_TSSS,	/* Linux 2.5.2-pre9: slice and bonus, runnable tasks only */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_2_4;
const volatile u32 proc_change_penalty
	TUNABLE("bonus for the CPU that a task ran on last; 15 on i386", "goodness points", 0, 1000) = 15;
const volatile bool prev_wins_ties
	SETS("on a tie the running task stays instead of the first in the list; off as in 2.4.18, on as in 2.4.13, "
		"which Libenzi measured") = false;

u64 nr_idle_last COUNTS("ready tasks whose last CPU was idle");
u64 nr_idle_longest COUNTS("ready tasks sent to the CPU that was idle longest");
u64 nr_preemptions COUNTS("ready tasks better than what some CPU runs");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");

struct task {
	struct task_base base;
	s32 counter;		/* ticks left in this epoch */
	s32 processor;		/* CPU it ran on last */
	u32 dyn_prio;		/* TSSS: bonus, goodness points */
	u32 epoch;		/* TSSS: epoch that dyn_prio was brought up to */
	bool yielded;		/* has yielded since it was last put */
};

struct rq {
	struct rq_base base;
	struct list_head head;	/* every runnable task, running ones too */
	u32 nr_running;
	u32 epoch;		/* TSSS: number of the epoch */
};

#include "../include/glue.h"
#include "../include/goodness.h"

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
		catch_up(rq, rq, p);
	add_to_list(rq, p);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	take_off_list(rq, p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	return pick_best(rq, cpu, prev);
}

/* Who had yielded may go on in another's place (SWAP), and then is not put. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	p->processor = cpu;
	WRITE_ONCE(p->yielded, false);
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
}

/* Only if there are more runnable tasks than busy CPUs is there somebody to yield to. */
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
