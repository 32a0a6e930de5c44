// SPDX-License-Identifier: GPL-2.0-only
/*
 * ule - FreeBSD's ULE scheduler, as it was in 5.2 and in 6.x.
 *
 * Each CPU has three queues: current, next and idle. The best task of the
 * current queue runs; when that queue is empty it swaps with the next one; the
 * idle queue has its turn when both are empty. A task whose slice is used up
 * goes to the next queue, so each of them runs at least once per two swaps
 * whatever its priority. Interactive tasks, those which by a score of 0 to 100
 * sleep much more than they run, go to the current queue instead. The score
 * makes the priority as well (interact.h); nice, relative to the least nice task
 * of the CPU, makes the slice.
 *
 * CPUs get tasks in two ways: one with nothing to do pulls, and every second or
 * so the one with most tasks pushes some to the one with fewest (balance.h).
 *
 * README.md has a worked example, sources, tunables and limits.
 */
#define POLICY_ONE_LOCK
#define POLICY_SELECTS_CPU
#define POLICY_SELECTS_FORK
#define POLICY_READS_TASK
#define POLICY_BALANCES
#include "../include/freebsd.h"

enum profile {
	PROFILE_5_2,	/* FreeBSD 5.2, end of 2003 */
	PROFILE_6_X,	/* FreeBSD 6.x, revision 1.161, December 2005 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_6_X;
const volatile u64 tick_ns
	TUNABLE("length of a tick of the statistics clock, which slices and run time are counted in; 128 ticks per "
		"second by default", "ns", 100000, 100000000) = STAT_TICK_NS;
const volatile u64 clock_ns
	TUNABLE_OR_0("length of a tick of the clock that sleep is measured with", "ns", 100000, 100000000,
		"1 ms in 6.x, 10 ms in 5.2") = 0;
const volatile u32 slice_min TUNABLE("the shortest slice, not more than slice_max", "ticks", 1, 1000) = 1;
const volatile u32 slice_max
	TUNABLE_OR_0("the longest slice", "ticks", 1, 1000, "a seventh of a second's ticks: 18 in 6.x, 14 in 5.2, "
		"which took them from the other clock") = 0;
const volatile u32 interact_thresh
	TUNABLE("score below which a task is interactive; 30 is a share of the CPU below 37.5 %", "points", 0, 101) = 30;
const volatile u64 slp_run_max_ns
	TUNABLE("run and sleep time together that are remembered", "ns", 1000000, 1000000000000) = 5000000000;
const volatile bool nice_window
	SETS("5.2: a task 19 or more nicer than the least nice one of its CPU does not run while that one is "
		"there; off: it gets the shortest slice, as in 6.x") = true;
const volatile bool wake_boost
	SETS("5.2: until it runs, a woken task ranks as one that is still in the kernel (priority 88, a socket's), "
		"and so goes to the current queue") = true;
const volatile u64 push_period_ns
	TUNABLE_OR_0("time between two pushes", "ns", 1000000, 1000000000000, "random up to 2 s in 6.x, 1 s in 5.2") = 0;
const volatile u32 core_cpus
	TUNABLE("6.x: CPUs with consecutive numbers that share a core: they pull from each other and have their "
		"own pushes", "CPUs", 1, 64) = 1;
/* 5 s is chosen. A task that was preempted in an RCU read-side section has some turns to leave it before the
 * kernel complains (21 s), which also unloads the scheduler. */
const volatile u64 starvation_max_ns
	TUNABLE("how long a task may wait; after it, the task runs for a tick whatever its priority and queue",
		"ns", 1000000, 1000000000000) = 5000000000;

u64 nr_queue_swaps COUNTS("times the current queue was used up and swapped with the next");
u64 nr_expired COUNTS("slices that ended in the next queue");
u64 nr_stayed_current COUNTS("slices that ended in the current queue: interactive tasks");
u64 nr_changed COUNTS("5.2: slices that ended in the current queue because the priority had changed");
u64 nr_idle_turns COUNTS("slices of tasks of the idle class that ended");
u64 nr_gave_way COUNTS("6.x: tasks that lost the current queue because they woke a better one");
u64 nr_to_current COUNTS("tasks that became ready in the current queue");
u64 nr_to_next COUNTS("tasks that became ready in the next queue");
u64 nr_to_idle COUNTS("tasks that became ready in the idle queue");
u64 nr_window COUNTS("5.2: picks of a task without a slice, sent to the next queue instead");
u64 nr_starving COUNTS("tasks that had waited for too long and went first");
u64 nr_history_cuts COUNTS("times run and sleep time were reduced");
u64 nr_full_sleeps COUNTS("sleeps so long that all before them is forgotten");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_wake_here COUNTS("woken and new tasks queued on the CPU that woke them");
u64 nr_wake_prev COUNTS("woken and new tasks queued where they ran last");
u64 nr_wake_idle COUNTS("woken and new tasks queued on an idle CPU, because this one has more to do");
u64 nr_wake_sibling COUNTS("woken and new tasks queued on an idle CPU of the same core");
u64 nr_pulls COUNTS("tasks pulled by a CPU with nothing to run");
u64 nr_pushes COUNTS("balances by time that moved tasks");
u64 nr_core_pushes COUNTS("balances by time within a core that moved tasks");
u64 nr_balanced COUNTS("balances by time that found nothing to move");
u64 nr_failed_moves COUNTS("busier CPUs of which no task could be moved");

struct task {
	struct task_base base;
	struct list_head wait_list;	/* link of rq::waiting */
	u64 waiting_since;	/* ns, when it was queued or put */
	prio_queue_t *queue;	/* that it is on, NULL: none */
	s32 prio;		/* 0..255, rank now; a quarter of it is its list */
	s32 user_pri;		/* 0..255, rank when it runs in user mode */
	s32 slice;		/* ticks left */
	u32 class;		/* enum pri_class */
	u64 run_time;		/* ns of history, whole ticks */
	u64 sleep_time;		/* ns of history, whole ticks of the clock */
	u64 slept_at;		/* ns, when it went to sleep, 0: it did not */
	u64 cpu_ticks;		/* ticks it ran within its window (pctcpu) */
	u64 window_start;	/* ns, 0: never ran */
	u64 window_end;		/* ns, when it ran last */
	bool batch;		/* SCHED_BATCH: never interactive */
	bool movable;		/* may use several CPUs */
	bool gave_way;		/* is preempted by a task that it woke itself */
	bool starving;		/* was picked because it had waited too long */
	bool in_timeshare;	/* counted in rq::timeshare */
	bool in_movable;	/* counted in rq::nr_movable */
};

/*
 * A search for CPUs, or cores, to move tasks between. In the arena, not on the stack: the
 * verifier would follow every path that leads to a maximum.
 */
struct search {
	u32 most;	/* load of the busiest with tasks to give away, 0: none */
	u32 least;	/* load of the least busy */
	u32 from, to;	/* the first CPUs of these */
	u32 nr_movable;	/* tasks that from can give away */
};

struct rq {
	struct rq_base base;
	prio_queue_t *curr, *next;
	u32 load;			/* queued tasks, the running one included */
	u32 nr_movable;			/* queued tasks that may use several CPUs */
	struct nice_counts timeshare;	/* queued tasks of the time-share class */
	struct list_head waiting;	/* all queued tasks, by waiting_since */
	struct search search;		/* by this CPU only */
	struct prio_queue queues[2];
	struct prio_queue idle;
};

#include "../include/glue.h"

static u64 tick_length(void)
{
	return tick_ns;
}

static u32 ticks_left(task_t *p)
{
	return p->slice > 0 && !p->starving ? p->slice : 1;
}

/* ---- the queues ---- */

static __always_inline void queue_add_tail(task_t *p, prio_queue_t *queue)
{
	prio_queue_add_tail(queue, p, list_nr(p));
	p->queue = queue;
}

static __always_inline void queue_del(task_t *p)
{
	prio_queue_del(p->queue, p, list_nr(p));
	WRITE_ONCE(p->queue, NULL);
}

/* To the tail of its list, which may be another one by now. */
static __noinline int requeue(task_t *p, prio_queue_t *queue, s32 prio)
{
	use_arena();
	queue_del(p);
	p->prio = prio;
	queue_add_tail(p, queue);
	return 0;
}

/*
 * @p waits on @rq, since now if @anew, else since it waited elsewhere: whoever is
 * moved often must not be last each time.
 */
static __always_inline void wait_here(rq_t *rq, task_t *p, bool anew)
{
	task_t *first = list_entry(rq->waiting.next, struct task, wait_list);

	if (anew)
		p->waiting_since = rq->base.clock;
	if (list_empty(&rq->waiting) || p->waiting_since >= first->waiting_since)
		list_add_tail(&p->wait_list, &rq->waiting);
	else
		list_add(&p->wait_list, &rq->waiting);
}

/* From now on @p waits. */
static __always_inline void wait_begin(rq_t *rq, task_t *p)
{
	list_del(&p->wait_list);
	wait_here(rq, p, true);
}

#include "interact.h"

static void init_rq(rq_t *rq, u32 cpu)
{
	rq->curr = &rq->queues[0];
	rq->next = &rq->queues[1];
	list_init(&rq->waiting);
	prio_queue_init(&rq->queues[0]);
	prio_queue_init(&rq->queues[1]);
	prio_queue_init(&rq->idle);
}

static void init_task(task_t *p)
{
	p->class = CLASS_TIMESHARE;
	p->slice = 1;
	WRITE_ONCE(p->waiting_since, 0);
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
	WRITE_ONCE(p->starving, false);
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

/* The CPU mask of @p may have changed since @rq looked. */
static __always_inline void count_movable(rq_t *rq, task_t *p, bool movable)
{
	rq->nr_movable += movable - p->in_movable;
	p->in_movable = movable;
}

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
	rq->load--;
	count_movable(rq, p, false);
	if (p->in_timeshare)
		nice_del(&rq->timeshare, p->base.nice);
}

/* Woken in the kernel, and has not run since. */
static __always_inline bool boosted(task_t *p)
{
	return p->class == CLASS_TIMESHARE && p->prio < PRI_MIN_TIMESHARE;
}

/* 5.2: does @p wake up before all that run in user mode? */
static __always_inline bool wakes_boosted(task_t *p)
{
	return profile == PROFILE_5_2 && wake_boost && p->class == CLASS_TIMESHARE && !p->batch;
}

/* The queue that @p goes to when it becomes ready or its slice ends. */
static __always_inline prio_queue_t *home_queue(rq_t *rq, task_t *p)
{
	if (p->class == CLASS_IDLE)
		return &rq->idle;
	if (p->class != CLASS_TIMESHARE || interactive(p) || boosted(p))
		return rq->curr;
	return rq->next;
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
	if (reason == ENQ_WAKE && wakes_boosted(p))
		p->prio = PSOCK;
	wait_here(rq, p, reason != ENQ_MOVED);
	load_add(rq, p);
	queue_add_tail(p, home_queue(rq, p));
	if (p->queue == rq->curr)
		count(nr_to_current);
	else if (p->queue == rq->next)
		count(nr_to_next);
	else
		count(nr_to_idle);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	if (reason == DEQ_SLEEP)
		p->slept_at = rq->base.clock;
	queue_del(p);
	load_del(rq, p);
	list_del(&p->wait_list);
}

/* ---- picking ---- */

/* The best task of @queue that @cpu can run. */
static __noinline task_t *first_task(prio_queue_t *queue, u32 cpu, task_t *prev)
{
	use_arena();
	return prio_queue_first(queue, cpu, prev);
}

/* Has anybody waited for longer than anybody may? */
static __always_inline bool starves(rq_t *rq)
{
	task_t *p = list_entry(rq->waiting.next, struct task, wait_list);

	if (list_empty(&rq->waiting))
		return false;
	return (s64)(rq->base.clock - p->waiting_since) >= (s64)starvation_max_ns;
}

/*
 * Who has waited for too long. Better tasks can keep all others from running for
 * good: interactive ones never leave the current queue empty, and real-time ones
 * never sleep if they do not want to.
 */
static __noinline task_t *starving_task(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *p;

	use_arena();
	while (starves(rq) && can_loop) {
		p = list_entry(rq->waiting.next, struct task, wait_list);
		wait_begin(rq, p);
		if (can_run(p, cpu, prev)) {
			p->starving = true;
			count(nr_starving);
			return p;
		}
	}
	return NULL;
}

/*
 * The best task of the current queue. 5.2: whoever has no slice, because much
 * less nice ones are there, goes to the next queue instead of running.
 */
static __noinline task_t *first_current(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *p;

	use_arena();
	while (can_loop) {
		p = first_task(rq->curr, cpu, prev);
		if (!p || p->slice || profile != PROFILE_5_2 || !nice_window)
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

	rq->curr = rq->next;
	rq->next = queue;
	if (rq->curr->nr_queued)
		count(nr_queue_swaps);
}

/* Those without a slice are better than nobody. */
static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	task_t *next = starving_task(rq, cpu, prev);

	if (next)
		return next;
	next = first_current(rq, cpu, prev);
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

/*
 * Before its slice's end: 5.2 puts @p at the tail of its list. In 6.x an interrupt
 * that preempts lets it keep its place, at the head. But if it woke somebody better
 * by itself it comes like one that becomes ready: a task that is not interactive goes
 * to the next queue.
 */
static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	bool gave_way = p->gave_way;

	wait_begin(rq, p);
	count_movable(rq, p, p->movable);
	p->starving = false;
	p->gave_way = false;
	if (p->class != CLASS_TIMESHARE || p->prio != p->user_pri)
		return;
	if (p->base.state != TASK_RUNNING || p->base.over)
		return;
	if (profile == PROFILE_5_2) {
		requeue(p, p->queue, p->prio);
	} else if (gave_way && p->queue != home_queue(rq, p)) {
		requeue(p, home_queue(rq, p), p->prio);
		count(nr_gave_way);
	}
}

/* ---- the tick ---- */

/*
 * The slice is used up: a new one by the tasks that are there besides @p, a new priority. 5.2 takes a
 * task whose priority is another one now for one that has just woken up: it stays current.
 */
static __always_inline void expire(rq_t *rq, task_t *p)
{
	prio_queue_t *queue;

	nice_del(&rq->timeshare, p->base.nice);
	set_user_pri(p);
	p->slice = new_slice(rq, p);
	nice_add(&rq->timeshare, p->base.nice);
	queue = home_queue(rq, p);
	if (queue == rq->curr) {
		count(nr_stayed_current);
	} else if (profile == PROFILE_5_2 && p->prio != p->user_pri && !p->batch) {
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
		return p->starving || starves(rq);
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

/* Behind everybody else, for once. */
static bool yield_task(rq_t *rq, task_t *p)
{
	if (p->class == CLASS_TIMESHARE)
		requeue(p, profile == PROFILE_5_2 ? p->queue : home_queue(rq, p), PRI_MAX_TIMESHARE);
	else
		requeue(p, p->queue, p->prio);
	return true;
}

/* ---- preemption ---- */

/*
 * Only those in the current queue preempt, but everybody those of the idle class. A
 * wakeup that is not synchronous looks like an interrupt's.
 */
static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	task_t *curr = cpu_nr(cpu)->curr;

	if (cpu_idle(cpu))
		return cpu;
	if (!curr || curr->starving || p->prio >= curr->prio ||
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

#include "balance.h"

SCHED_OPS(ule);
