// SPDX-License-Identifier: GPL-2.0-only
/*
 * bsd4 - FreeBSD's 4BSD scheduler: one queue of 64 lists, estimated CPU use that decays by load.
 *
 * All CPUs share one queue and one lock. A list is for four priorities:
 *
 *     list   22      45        52        55      56
 *            |       |         |         |       |
 *            W       T         A         Y       Z        W woken, until it runs
 *         88..91  180..183  208..211  220..223  idle      Y has yielded
 *
 * A task's priority is 180 + nice plus an estimate of the CPU time it has used lately
 * (estcpu / 8). The estimate grows by one with every tick of the statistics clock, 128
 * per second, that the task runs. Once per second a walk over all tasks takes a share
 * of it away, a smaller one the higher the load is. Nine tenths are forgotten in five
 * seconds times the load average. The first task of the best list runs, until it
 * blocks or a better one comes. Every 100 ms, all CPUs at the same time, it goes to the
 * tail of its list. A task that wakes up in the kernel beats all that compute.
 *
 * Worked decision: A and B of nice 0 compute, so the load is 2. Each gains 64 points
 * per second, of which the walk leaves 2 * 2 / (2 * 2 + 1) = 4/5: 51, 92, ... up to 236:
 * priority 180 + 236 / 8 = 209. T types and has slept through walks: estcpu 0. It wakes
 * up at 88, and 88 < 209: T preempts the task of its waker's CPU.
 *
 * Gain: fair and robust, with one queue that needs no balance. Failure: a walk over all
 * tasks under the lock, and tasks much nicer than others that never run.
 *
 * What the generations differ in is in v5_x.h and v6_x.h. README.md has sources,
 * numbered behaviours, tunables and limits.
 */
#include "callout.h"

static u64 tick_length(void)
{
	return tick_ns;
}

/* The timer, not the slice, ends a quantum. */
static u32 ticks_left(task_t *p)
{
	return STATHZ;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	u32 i;

	prio_queue_init(&rq->queue);
	for (i = zero; i < nr_cpus && i < MAX_CPUS && can_loop; i++)
		prio_queue_init(&rq->own[i]);
}

static void init_task(task_t *p)
{
	WRITE_ONCE(p->class, CLASS_TIMESHARE);
	WRITE_ONCE(p->next_class, CLASS_TIMESHARE);
	WRITE_ONCE(p->bound, NO_CPU);
	WRITE_ONCE(p->next_bound, NO_CPU);
	WRITE_ONCE(p->ready_cpu, NO_CPU);
	WRITE_ONCE(p->last_cpu, NO_CPU);
	WRITE_ONCE(p->estcpu, 0);
	WRITE_ONCE(p->slptime, 0);
	WRITE_ONCE(p->batch, false);
	WRITE_ONCE(p->did_run, false);
	WRITE_ONCE(p->keeps_first, false);
	WRITE_ONCE(p->yielded, false);
	set_user_pri(p);
	p->prio = p->user_pri;
}

static bool read_task(task_t *p, struct task_struct *k)
{
	p->next_class = class_of(k);
	p->next_bound = GENERATION(bound_to, k);
	p->ready_cpu = bpf_get_smp_processor_id();
	p->batch = k->policy == SCHED_BATCH;
	return p->next_class != p->class || p->next_bound != p->bound;
}

/* ---- birth and death ---- */

/* A task that computes and forks has children that have computed. */
static bool task_fork(task_t *parent, task_t *child)
{
	debug_expect(parent->estcpu <= limit_estcpu(~0u), BAD_ESTIMATE);
	child->estcpu = parent->estcpu;
	return false;
}

static void task_exit(task_t *parent, task_t *child)
{
	parent->estcpu = limit_estcpu(parent->estcpu + child->estcpu);
}

/* ---- queueing ---- */

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	p->class = p->next_class;
	p->bound = p->next_bound;
	if (p->slptime > 1)
		update_priority(rq, p);
	WRITE_ONCE(p->slptime, 0);
	set_user_pri(p);
	p->prio = p->user_pri;
	if (wake_boost && reason == ENQ_WAKE && p->class == CLASS_TIMESHARE && !p->batch) {
		p->prio = PSOCK;
		count(nr_boosts);
	}
	expect((u32)p->prio <= PRI_MAX_IDLE, BAD_PRIORITY);
	prio_queue_add_tail(queue_of(rq, p), p, list_nr(p));
	if (p->class == CLASS_TIMESHARE)
		nice_add(&rq->timeshare, p->base.nice);
	if (p->class != CLASS_INTERRUPT)
		rq->nr_load++;
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	prio_queue_del(queue_of(rq, p), p, list_nr(p));
	if (p->class == CLASS_TIMESHARE)
		nice_del(&rq->timeshare, p->base.nice);
	if (p->class != CLASS_INTERRUPT) {
		expect(rq->nr_load, LOAD_BELOW_ZERO);
		rq->nr_load--;
	}
}

/* ---- picking ---- */

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	s32 nice = highest_nice(rq);
	task_t *next = GENERATION(best_task, rq, cpu, prev, nice);

	if (!next && nice < PRIO_MAX - 1) {
		next = GENERATION(best_task, rq, cpu, prev, ANY_NICE);
		if (next)
			count(nr_barred_picks);
	}
	return next;
}

/* What it had from its sleep or its yield ends as it returns to user mode. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	debug_expect(cpu < nr_cpus, BAD_CPU);
	p->did_run = true;
	p->last_cpu = cpu;
	set_prio(rq, p, p->user_pri);
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	prio_queue_t *queue = queue_of(rq, p);
	bool fifo = realtime_fifo && p->class == CLASS_REALTIME;

	debug_expect(queue->nr_queued, LOAD_BELOW_ZERO);
	prio_queue_del(queue, p, list_nr(p));
	if ((p->keeps_first || fifo) && !p->yielded) {
		prio_queue_add_head(queue, p, list_nr(p));
		count(nr_kept_first);
	} else {
		prio_queue_add_tail(queue, p, list_nr(p));
	}
	WRITE_ONCE(p->keeps_first, false);
	WRITE_ONCE(p->yielded, false);
}

/* ---- the tick ---- */

/* Never a reason to reschedule: the timer ends quanta. */
static bool task_tick(rq_t *rq, task_t *p)
{
	p->estcpu = limit_estcpu(p->estcpu + 1);
	if (p->estcpu % estcpu_weight() == 0) {
		set_user_pri(p);
		if (p->prio >= PRI_MIN_TIMESHARE)
			set_prio(rq, p, p->user_pri);
	}
	return false;
}

/* ---- yield ---- */

/* Behind all tasks of the time-share class, until it runs again. */
static bool yield_task(rq_t *rq, task_t *p)
{
	p->yielded = true;
	if (p->class == CLASS_TIMESHARE)
		set_prio(rq, p, PRI_MAX_TIMESHARE);
	return true;
}

/* ---- preemption ---- */

/* 5.x: a task becomes ready where it is woken; the CPU that looks first takes it. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return GENERATION(halts) && cpu_allowed(p, this_cpu) ? this_cpu : prev_cpu;
}

/*
 * An idle CPU comes to get @p: in 5.x idle CPUs watch the queue, so one is
 * enough; in 6.x the waker sends all of them. Otherwise @p may preempt what the
 * waker's CPU runs and nothing else, for that is the only task it is compared with.
 */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	s32 here = p->ready_cpu, idle;
	task_t *curr;

	debug_expect(here < (s32)nr_cpus, BAD_CPU);
	if (p->bound != NO_CPU || !cpu_allowed(p, here))
		here = cpu;
	if (cpu_idle(here)) {
		count(nr_idle_here);
		return here;
	}
	idle = GENERATION(halts) ? NO_CPU : idle_cpu_for(p);
	if (idle != NO_CPU) {
		count(nr_idle_elsewhere);
		return GENERATION(told, idle);
	}
	curr = cpu_nr(here)->curr;
	if (!curr || p->prio >= curr->prio || barred(p, highest_nice(rq))) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	count(nr_preemptions);
	if (GENERATION(keeps_first, p, curr))
		curr->keeps_first = true;
	return here;
}

/* A queued task changes its list when it runs or at the next walk. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	if (rq && p->class == CLASS_TIMESHARE) {
		nice_del(&rq->timeshare, old_nice);
		nice_add(&rq->timeshare, p->base.nice);
	}
	set_user_pri(p);
	return false;
}

SCHED_OPS(bsd4);
