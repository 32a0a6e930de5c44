// SPDX-License-Identifier: GPL-2.0-only
/*
 * ule - FreeBSD's ULE scheduler, as it was in 5.2 and in 6.x.
 *
 * Each CPU has three queues of 64 lists, four priorities each:
 *
 *     current   40: I <- wakes up      55: A <- runs
 *     next                             55: B <- slice used up
 *     idle      56: Z                  (runs when both are empty)
 *
 * The best task of the current queue runs; when that queue is empty it swaps with the
 * next one. A task whose slice is used up goes to the next queue, so each of them
 * runs at least once per two swaps whatever its priority. Interactive tasks, those
 * which by a score of 0 to 100 sleep much more than they run, go to the current queue
 * instead. The score makes the priority as well (interact.h); nice, relative to the
 * least nice task of the CPU, makes the slice.
 *
 * Worked decision (6.x): A and B of nice 0 only compute: score 100, priority 160 + 64,
 * which is cut to 223. A runs for 18 ticks (140.6 ms), goes to the next queue, then B;
 * after 281 ms the queues swap. I runs 1 ms and sleeps 9: score 50 * 1 / 9 = 5 < 30,
 * priority 163: it goes to the current queue whenever it wakes up, and preempts.
 *
 * Gain: constant time, latency under load, CPUs that keep their tasks. Failure:
 * interactive tasks that together want more than the CPU never leave the current queue
 * empty, and the next queue starves.
 *
 * CPUs get tasks in two ways: one with nothing to do pulls, and every second or
 * so the one with most tasks pushes some to the one with fewest (balance.h). What the
 * generations differ in is in v5_2.h and v6_x.h. README.md has sources, numbered
 * behaviours, tunables and limits.
 */
#include "balance.h"

static u64 tick_length(void)
{
	return tick_ns;
}

static u32 ticks_left(task_t *p)
{
	return p->slice > 0 ? p->slice : 1;
}

static void init_rq(rq_t *rq, u32 cpu)
{
	rq->curr = &rq->queues[0];
	rq->next = &rq->queues[1];
	prio_queue_init(&rq->queues[0]);
	prio_queue_init(&rq->queues[1]);
	prio_queue_init(&rq->idle);
}

static void init_task(task_t *p)
{
	p->class = CLASS_TIMESHARE;
	p->slice = 1;
	WRITE_ONCE(p->queue, NULL);
	WRITE_ONCE(p->run_time, 0);
	WRITE_ONCE(p->sleep_time, 0);
	WRITE_ONCE(p->slept_at, 0);
	WRITE_ONCE(p->cpu_ticks, 0);
	WRITE_ONCE(p->window_start, 0);
	WRITE_ONCE(p->window_end, 0);
	WRITE_ONCE(p->batch, false);
	WRITE_ONCE(p->movable, true);
	WRITE_ONCE(p->gave_way, false);
	WRITE_ONCE(p->in_movable, false);
	set_user_pri(p);
}

/* Class and priority may have changed: then @p goes to another queue. */
static bool read_task(task_t *p, struct task_struct *k)
{
	u32 class = class_of(k);

	p->batch = k->policy == SCHED_BATCH;
	p->movable = k->nr_cpus_allowed > 1;
	if (class == p->class)
		return false;
	p->class = class;
	set_user_pri(p);
	return true;
}

/* ---- birth and death ---- */

/* The child inherits half a second of history, and a slice of a tick to prove itself. */
static bool task_fork(task_t *parent, task_t *child)
{
	u64 half_seconds = (parent->run_time + parent->sleep_time) / (SEC_NS / 2);

	child->run_time = parent->run_time;
	child->sleep_time = parent->sleep_time;
	if (half_seconds > 1) {
		child->run_time /= half_seconds;
		child->sleep_time /= half_seconds;
	}
	child->user_pri = parent->user_pri;
	child->cpu_ticks = parent->cpu_ticks;
	child->window_start = parent->window_start;
	child->window_end = parent->window_end;
	add_run_time(parent, tick_ns);
	return false;
}

static void task_exit(task_t *parent, task_t *child)
{
	add_run_time(parent, child->run_time);
}

/* ---- queueing ---- */

static __always_inline void load_add(rq_t *rq, task_t *p)
{
	rq->load++;
	count_movable(rq, p, p->movable);
	p->in_timeshare = p->class == CLASS_TIMESHARE;
	if (p->in_timeshare)
		nice_add(&rq->timeshare, p->base.nice);
}

static __always_inline void load_del(rq_t *rq, task_t *p)
{
	expect(rq->load, LOAD_BELOW_ZERO);
	rq->load--;
	count_movable(rq, p, false);
	if (p->in_timeshare)
		nice_del(&rq->timeshare, p->base.nice);
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	bool was_boosted = reason == ENQ_MOVED && boosted(p);

	if (reason == ENQ_WAKE)
		credit_sleep(rq, p);
	if (reason == ENQ_WAKE || reason == ENQ_JOINED) {
		set_user_pri(p);
		p->slice = new_slice(rq, p);
	}
	if (!was_boosted)
		p->prio = p->user_pri;
	if (reason == ENQ_WAKE && GENERATION(wakes_boosted, p))
		p->prio = PSOCK;
	load_add(rq, p);
	queue_add_tail(p, home_queue(rq, p));
	if (p->queue == rq->curr)
		count(nr_to_current);
	else if (p->queue == rq->next)
		count(nr_to_next);
	else
		count(nr_to_idle);
	debug_expect((u32)p->prio <= PRI_MAX_IDLE, BAD_PRIORITY);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	if (reason == DEQ_SLEEP)
		p->slept_at = rq->base.clock;
	queue_del(p);
	load_del(rq, p);
}

/* ---- picking ---- */

/* The best task of the current queue; those that do not run now go to the next one. */
static __noinline task_t *first_current(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *p;

	use_arena();
	while (can_loop) {
		p = first_task(rq->curr, cpu, prev);
		if (!p || !GENERATION(passes_by, rq, p))
			return p;
		p->slice = new_slice(rq, p);
		requeue(p, rq->next, p->prio);
		count(nr_window);
	}
	return NULL;
}

static __always_inline void swap_queues(rq_t *rq)
{
	prio_queue_t *queue = rq->curr;

	debug_expect(rq->curr != rq->next, NOT_ON_ARRAY);
	rq->curr = rq->next;
	rq->next = queue;
	if (rq->curr->nr_queued)
		count(nr_queue_swaps);
}

/* A task without a slice is better than none. */
static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *next = first_current(rq, cpu, prev);

	debug_expect(rq->curr->nr_queued + rq->next->nr_queued + rq->idle.nr_queued == rq->load, LOAD_BELOW_ZERO);
	if (!next) {
		swap_queues(rq);
		next = first_current(rq, cpu, prev);
	}
	if (!next)
		next = first_task(&rq->idle, cpu, prev);
	return next ?: first_task(rq->next, cpu, prev);
}

/* It leaves the kernel or its yield behind. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	if (p->prio == p->user_pri)
		return;
	prio_queue_del(p->queue, p, list_nr(p));
	p->prio = p->user_pri;
	prio_queue_add_head(p->queue, p, list_nr(p));
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	bool gave_way = p->gave_way;

	debug_expect(!p->queue || p->base.rq == (s32)rq->base.nr, LINKED_ELSEWHERE);
	count_movable(rq, p, p->movable);
	p->gave_way = false;
	if (p->class != CLASS_TIMESHARE || p->prio != p->user_pri)
		return;
	if (p->base.state != TASK_RUNNING || p->base.over)
		return;
	GENERATION(preempted, rq, p, gave_way);
}

/* ---- the tick ---- */

/* The slice is used up: a new one by the tasks that are there besides @p, and a new priority. */
static __always_inline void expire(rq_t *rq, task_t *p)
{
	prio_queue_t *queue;

	debug_expect(p->slice <= 0, SLICE_BELOW_ZERO);
	nice_del(&rq->timeshare, p->base.nice);
	set_user_pri(p);
	p->slice = new_slice(rq, p);
	nice_add(&rq->timeshare, p->base.nice);
	queue = home_queue(rq, p);
	if (queue == rq->curr) {
		count(nr_stayed_current);
	} else if (GENERATION(stays_current, p)) {
		queue = rq->curr;
		count(nr_changed);
	} else {
		count(nr_expired);
	}
	requeue(p, queue, p->user_pri);
}

static bool task_tick(rq_t *rq, task_t *p)
{
	if (!p->queue)
		return false;
	count_cpu_tick(rq, p);
	if (p->class == CLASS_TIMESHARE)
		add_run_time(p, tick_ns);
	if (p->class == CLASS_INTERRUPT || p->class == CLASS_REALTIME || --p->slice > 0)
		return false;
	if (p->class == CLASS_IDLE) {
		p->slice = slice_min;
		requeue(p, p->queue, p->prio);
		count(nr_idle_turns);
		return true;
	}
	expire(rq, p);
	return true;
}

/* ---- yield ---- */

/* Behind all other tasks, for once. */
static bool yield_task(rq_t *rq, task_t *p)
{
	if (p->class == CLASS_TIMESHARE)
		requeue(p, GENERATION(yield_queue, rq, p), PRI_MAX_TIMESHARE);
	else
		requeue(p, p->queue, p->prio);
	return true;
}

/* ---- preemption ---- */

/*
 * Only a task in the current queue preempts; one of the idle class is preempted by any.
 * A wakeup that is not synchronous looks like an interrupt's.
 */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	task_t *curr = cpu_nr(cpu)->curr;

	if (cpu_idle(cpu))
		return cpu;
	if (!curr || p->prio >= curr->prio ||
	    (p->queue != rq->curr && curr->class != CLASS_IDLE)) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	curr->gave_way = reason == ENQ_WAKE && p->base.waker_cpu == cpu;
	count(nr_preemptions);
	return cpu;
}

static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	bool was_boosted = boosted(p);

	set_user_pri(p);
	if (!rq || !p->queue)
		return false;
	if (p->in_timeshare) {
		nice_del(&rq->timeshare, old_nice);
		nice_add(&rq->timeshare, p->base.nice);
	}
	if (!was_boosted)
		requeue(p, p->queue, p->user_pri);
	return cpu_nr(rq->base.nr)->curr == p;
}

SCHED_OPS(ule);
