// SPDX-License-Identifier: GPL-2.0-only
/*
 * o1 - Ingo Molnar's O(1) scheduler, as it was in early 2002, in Red Hat 8.0
 * and in Linux 2.6.10.
 *
 * Each CPU has two arrays of 140 lists, one list per priority, with a bitmap of
 * those that are not empty. The first task of the first list of the active
 * array runs. A task whose slice is used up gets a new one at once and goes to
 * the expired array; when the active array is empty the two swap. So neither a
 * pick nor an expiry looks at more than one task, however many there are.
 *
 * A task's priority is its nice value, moved by how much it sleeps; how that is
 * estimated, and whether a task that sleeps much may stay in the active array
 * when its slice ends, is what the three profiles differ in most (estimator.h).
 * Tasks change their queue when they wake up, and when a CPU with less to do
 * pulls them (balance.h in ../include, and pull.h for the older profiles).
 *
 * README.md has a worked example, sources, tunables and limits.
 */
#define POLICY_SELECTS_CPU
#define POLICY_BALANCES
#define NR_PRIO 140
#include "../include/prio_queue.h"
#include "../include/domain.h"

enum profile {
	PROFILE_D1,	/* patch D1 and 2.5.2-pre10, January 2002 */
	PROFILE_RH8,	/* 2.4.18-14 of Red Hat 8.0, autumn 2002 */
	PROFILE_2_6_10,	/* Linux 2.6.10, December 2004 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_2_6_10;
const volatile u64 tick_ns
	TUNABLE_OR_0("length of a clock tick", "ns", 100000, 100000000, "1 ms in 2.6.10, 10 ms before") = 0;
/* Not below DEF_TIMESLICE, which recalc_sleep() subtracts. */
const volatile u64 max_sleep_ns
	TUNABLE_OR_0("sleep that earns the full bonus", "ns", 100000000, 100000000000, "1 s in 2.6.10, 2 s in rh8") = 0;
const volatile u64 starvation_limit_ns
	TUNABLE_OR_0("per runnable task, how long the expired array may wait for tasks that stay active because "
		"they are interactive", "ns", 1000000, 100000000000, "1 s in 2.6.10, 2 s in rh8") = 0;
/* 5 s is chosen. A task that was preempted in an RCU read-side section has some turns to leave it before the
 * kernel complains (21 s), which also unloads the scheduler. */
const volatile u64 starvation_max_ns
	TUNABLE("the most that starvation_limit_ns comes to for all tasks; after it woken tasks are queued in the "
		"expired array too, and in 2.6.10 the waiting tasks go first", "ns", 1000000, 1000000000000) = 5000000000;
const volatile u32 child_penalty
	TUNABLE("share of its parent's bonus that a child starts with", "percent", 0, 100) = 95;
const volatile u32 parent_penalty
	TUNABLE("share of its bonus that a parent keeps when it forks", "percent", 0, 100) = 100;
const volatile u32 on_runqueue_weight
	TUNABLE("2.6.10: share of the time spent waiting in the queue that counts as sleep", "percent", 0, 100) = 30;
const volatile u32 exit_weight
	TUNABLE("weight of a parent's own average against that of an exiting child", "", 1, 100) = 3;
const volatile u32 interactive_delta
	TUNABLE("priorities that a task must have earned to be interactive, at nice 0", "priorities", 0, 5) = 2;
const volatile bool interactive_credit
	SETS("2.6.10: tasks build up credit for sleeping, and lose bonuses fast only when it is low; off as in "
		"2.6.11") = true;
const volatile u64 granularity_ns
	TUNABLE("2.6.10: at full bonus, how often interactive tasks of one priority take turns", "ns", 0,
		1000000000) = 5000000;
const volatile bool ncpus_in_gran SETS("2.6.10: granularity_ns is multiplied by the number of CPUs") = true;
const volatile u64 cache_hot_ns
	TUNABLE_OR_0("a busy CPU does not pull a task that ran less than this long ago", "ns", 1, 1000000000,
		"2.5 ms in 2.6.10, 10 ms before") = 0;

u64 nr_array_switches COUNTS("times the active array was empty and the two swapped");
u64 nr_expired COUNTS("slices that ended in the expired array");
u64 nr_stayed_active COUNTS("slices that ended in the active array: interactive tasks");
u64 nr_starving COUNTS("slices of interactive tasks that expired, or others would starve");
u64 nr_expired_wakeups COUNTS("woken tasks queued in the expired array, which had waited too long");
u64 nr_relieved COUNTS("tasks that had waited for too long all the same and went first");
u64 nr_round_robins COUNTS("interactive tasks that gave way to their equals within a slice");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_sync_wakeups COUNTS("woken tasks that wait because their waker is about to sleep");
u64 nr_child_first COUNTS("children queued before their parent");

struct task {
	struct task_base base;
	prio_queue_t *array;	/* that it is queued in, NULL: none */
	s32 prio;		/* MAX_RT_PRIO..139, index of its list */
	s32 static_prio;	/* 120 + nice */
	s32 time_slice;		/* ticks left */
	s32 credit;		/* 2.6.10: -101..101 */
	s32 activated;		/* 2.6.10: -1 uninterruptible sleep, 1 woken, 0 otherwise */
	bool first_time_slice;	/* its slice came from its parent */
	bool expired;		/* was queued in the expired array when it was unlinked */
	bool child_first;	/* has just been queued before its parent */
	bool relieved;		/* had waited for too long: first until it has run for a tick, or yields */
	u64 sleep_avg;		/* ns; 2.6.10 and rh8 */
	u64 timestamp;		/* ns, when it was put, queued or switched to */
	u64 last_ran;		/* ns, when it was put */
	u64 waiting_since;	/* ns, when it was put or became ready, wherever it was */
	u64 hist_slot;		/* d1: second that sleep_hist was brought up to */
	u64 hist_tick;		/* d1: tick of that */
	u32 sleep_hist[4];	/* d1: ticks slept in this second and the three before it */
};

struct rq {
	struct rq_base base;
	prio_queue_t *active, *expired;
	u32 nr_running;			/* queued tasks, the running one included */
	s32 best_expired_prio;		/* best static_prio in expired, 140: none */
	u64 expired_since;		/* tick of the first expiry since the swap, 0: none */
	u64 next_look;			/* ns, for tasks that have waited for too long */
	struct domain domain;		/* d1, rh8: next_balance and pull alone */
	u16 prev_running[MAX_CPUS];	/* d1, rh8: queue lengths at the last look */
	struct prio_queue arrays[2];
};

#include "../include/glue.h"
#include "../include/balance.h"

static u64 tick_length(void)
{
	if (tick_ns)
		return tick_ns;
	return profile == PROFILE_2_6_10 ? MS : 10 * MS;
}

/* The clock of @rq in ticks, as jiffies were. */
static __always_inline u64 jiffies(rq_t *rq)
{
	return rq->base.clock / tick_length();
}

static u32 ticks_left(task_t *p)
{
	return p->time_slice;
}

/* ---- the arrays ---- */

static __always_inline void array_add(task_t *p, prio_queue_t *array)
{
	prio_queue_add_tail(array, p, p->prio);
	p->array = array;
}

static __always_inline void array_del(task_t *p)
{
	prio_queue_del(p->array, p, p->prio);
	WRITE_ONCE(p->array, NULL);
}

/* To the tail of its list, which may be another one by now. */
static __always_inline void requeue(task_t *p, prio_queue_t *array, s32 prio)
{
	array_del(p);
	p->prio = prio;
	array_add(p, array);
}

#include "estimator.h"

static void init_rq(rq_t *rq, u32 cpu)
{
	rq->active = &rq->arrays[0];
	rq->expired = &rq->arrays[1];
	rq->best_expired_prio = NR_PRIO;
	rq->domain.balance_interval = MIN_INTERVAL;
	prio_queue_init(&rq->arrays[0]);
	prio_queue_init(&rq->arrays[1]);
}

static void init_task(task_t *p)
{
	u32 i;

	p->static_prio = NICE_TO_STATIC_PRIO(p->base.nice);
	WRITE_ONCE(p->array, NULL);
	WRITE_ONCE(p->credit, 0);
	WRITE_ONCE(p->activated, 0);
	WRITE_ONCE(p->first_time_slice, false);
	WRITE_ONCE(p->expired, false);
	WRITE_ONCE(p->child_first, false);
	WRITE_ONCE(p->relieved, false);
	WRITE_ONCE(p->sleep_avg, 0);
	WRITE_ONCE(p->timestamp, 0);
	WRITE_ONCE(p->last_ran, 0);
	WRITE_ONCE(p->waiting_since, 0);
	WRITE_ONCE(p->hist_slot, 0);
	WRITE_ONCE(p->hist_tick, 0);
	for (i = zero; i < ARRAY_SIZE(p->sleep_hist) && can_loop; i++)
		*element(p->sleep_hist, i) = 0;
	p->prio = effective_prio(p, 0);
	p->time_slice = task_timeslice(p);
}

/* ---- birth and death ---- */

/* Parent and child share what is left, so that nobody gains by forking. */
static bool task_fork(task_t *parent, task_t *child)
{
	child->time_slice = (parent->time_slice + 1) >> 1;
	child->first_time_slice = true;
	inherit_average(parent, child);
	parent->time_slice >>= 1;
	if (parent->time_slice)
		return false;
	parent->time_slice = 1;
	return task_tick(rq_nr(parent->base.rq), parent);
}

static void task_exit(task_t *parent, task_t *child)
{
	s32 cap = task_timeslice(child);

	if (child->first_time_slice)
		parent->time_slice = min(parent->time_slice + child->time_slice, cap);
	if (profile != PROFILE_D1 && child->sleep_avg < parent->sleep_avg)
		parent->sleep_avg = (exit_weight * parent->sleep_avg + child->sleep_avg) /
				    (exit_weight + 1);
}

/*
 * 2.6: a child with an address space of its own runs before its parent, which
 * would otherwise copy pages that the child is about to throw away.
 */
static __always_inline bool queue_before_parent(rq_t *rq, task_t *p)
{
	task_t *parent = linked_parent(rq, p);

	if (profile != PROFILE_2_6_10 || !parent || !parent->array)
		return false;
	p->prio = parent->prio;
	p->relieved = parent->relieved;
	prio_queue_add_before(parent->array, p, parent);
	p->array = parent->array;
	p->child_first = true;
	count(nr_child_first);
	return true;
}

/* ---- queueing ---- */

/*
 * Two tasks that wake each other up all the time keep the active array from ever
 * being empty. When the others have waited for too long, they have to as well
 * (as since Linux 2.6.17).
 */
static __always_inline bool joins_expired(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	if (reason == ENQ_MOVED && p->expired) {
		if (!rq->expired_since)
			rq->expired_since = jiffies(rq);
		return true;
	}
	if (reason != ENQ_WAKE || !rq->expired_since)
		return false;
	if (jiffies(rq) - rq->expired_since < starvation_max_ns / tick_length())
		return false;
	count(nr_expired_wakeups);
	return true;
}

static void enqueue_task(rq_t *rq, task_t *p, enum enqueue_reason reason)
{
	rq->nr_running++;
	if (reason != ENQ_MOVED) {
		p->waiting_since = rq->base.clock;
		WRITE_ONCE(p->relieved, false);
	}
	if (reason == ENQ_NEW && queue_before_parent(rq, p))
		return;
	if (reason == ENQ_WAKE)
		credit_sleep(rq, p);
	if (reason != ENQ_MOVED)
		p->prio = effective_prio(p, jiffies(rq));
	array_add(p, joins_expired(rq, p, reason) ? rq->expired : rq->active);
}

static void dequeue_task(rq_t *rq, task_t *p, enum dequeue_reason reason)
{
	rq->nr_running--;
	p->expired = p->array == rq->expired;
	array_del(p);
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	prio_queue_t *array = rq->active;
	task_t *next, *stays;

	if (!array->nr_queued) {
		rq->active = rq->expired;
		rq->expired = array;
		WRITE_ONCE(rq->expired_since, 0);
		rq->best_expired_prio = NR_PRIO;
		if (rq->active->nr_queued)
			count(nr_array_switches);
	}
	stays = unless_pushed(rq, prev);
	next = prio_queue_first(rq->active, cpu, stays) ?: prio_queue_first(rq->expired, cpu, stays);
	return next ?: prev;
}

static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	if (profile == PROFILE_2_6_10)
		credit_wait(rq, p);
	p->timestamp = rq->base.clock;
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	if (profile == PROFILE_2_6_10)
		charge_run(p, ran);
	p->timestamp = rq->base.clock;
	p->last_ran = rq->base.clock;
	p->waiting_since = rq->base.clock;
}

/* ---- the tick ---- */

/* Have tasks waited in the expired array for too long, or a better one than @p? */
static __always_inline bool expired_starving(rq_t *rq, task_t *p)
{
	u64 limit = min(starvation_limit() * rq->nr_running, starvation_max_ns) / tick_length();

	if (rq->expired_since && jiffies(rq) - rq->expired_since >= limit + 1)
		return true;
	return profile == PROFILE_2_6_10 && p->static_prio > rq->best_expired_prio;
}

/* The slice is used up: a new one, and to the array where @p belongs. */
static __always_inline void expire(rq_t *rq, task_t *p)
{
	prio_queue_t *array = rq->expired;

	array_del(p);
	WRITE_ONCE(p->relieved, false);
	p->prio = effective_prio(p, jiffies(rq));
	p->time_slice = task_timeslice(p);
	p->first_time_slice = false;
	if (!rq->expired_since)
		rq->expired_since = jiffies(rq);
	if (!task_interactive(p)) {
		count(nr_expired);
	} else if (profile != PROFILE_D1 && expired_starving(rq, p)) {
		count(nr_starving);
	} else {
		count(nr_stayed_active);
		array = rq->active;
	}
	if (array == rq->expired)
		rq->best_expired_prio = min(rq->best_expired_prio, p->static_prio);
	array_add(p, array);
}

/* 2.6: an interactive task gives way to its equals every granularity. */
static __always_inline bool round_robin(rq_t *rq, task_t *p)
{
	u32 gran;

	if (!task_interactive(p))
		return false;
	gran = granularity_ticks(p);
	if ((u32)(task_timeslice(p) - p->time_slice) % gran || (u32)p->time_slice < gran)
		return false;
	requeue(p, rq->active, effective_prio(p, jiffies(rq)));
	count(nr_round_robins);
	return true;
}

/*
 * The arrays' own rule does not help a task that is moved before each swap, nor one
 * that waits in the active array while nobody's slice ends. The older profiles are
 * left as they were measured in their time.
 */
static __always_inline void put_first(rq_t *rq, task_t *p)
{
	p->relieved = true;
	requeue(p, rq->active, MAX_RT_PRIO);
	count(nr_relieved);
}

static __always_inline u64 waiting_since(task_t *p)
{
	return p->waiting_since;
}

#include "../include/starving.h"

/* In the active array the best list is first anyway. */
static __always_inline bool relieve_all(rq_t *rq)
{
	bool active = relieve_starving(rq, rq->active, MAX_RT_PRIO + 1);

	return relieve_starving(rq, rq->expired, MAX_RT_PRIO) || active;
}

/* @p has had its turn, if it got one for having waited too long: the priority that it goes on with. */
static __always_inline s32 end_relief(rq_t *rq, task_t *p)
{
	if (!p->relieved)
		return p->prio;
	WRITE_ONCE(p->relieved, false);
	return effective_prio(p, jiffies(rq));
}

static __always_inline bool slice_tick(rq_t *rq, task_t *p)
{
	if (!p->array)
		return false;
	if (p->array != rq->active)
		return true;
	if (profile == PROFILE_RH8)
		p->sleep_avg -= min(p->sleep_avg, tick_length());
	if (--p->time_slice <= 0) {
		expire(rq, p);
		return true;
	}
	if (p->relieved) {
		requeue(p, rq->active, end_relief(rq, p));
		return true;
	}
	if (profile == PROFILE_D1) {
		/* in again, so that the estimator sees that it runs */
		requeue(p, rq->active, effective_prio(p, jiffies(rq)));
		return false;
	}
	return profile == PROFILE_2_6_10 && round_robin(rq, p);
}

static bool task_tick(rq_t *rq, task_t *p)
{
	bool relieved = profile == PROFILE_2_6_10 && look_is_due(rq) && relieve_all(rq);

	return slice_tick(rq, p) || relieved;
}

/* ---- yield ---- */

/* rh8: behind the next task of its list, or down to the next list in use. */
static __always_inline void step_back(rq_t *rq, task_t *p)
{
	prio_queue_t *array = p->array;
	list_t *next = run_list(p)->next, *head = &array->list[p->prio];
	u32 prio;

	if (head->next != run_list(p) || head->prev != run_list(p)) {
		list_del(run_list(p));
		if (next == head)
			next = head->prev;
		list_add(run_list(p), next);
		return;
	}
	prio = prio_queue_next(array, p->prio + 1);
	if (prio < NR_PRIO)
		requeue(p, array, prio);
}

static bool yield_task(rq_t *rq, task_t *p)
{
	switch (profile) {
	case PROFILE_D1:
		requeue(p, p->array, p->prio);
		break;
	case PROFILE_RH8:
		step_back(rq, p);
		break;
	default:
		requeue(p, rq->expired, end_relief(rq, p));
	}
	return true;
}

/* ---- preemption ---- */

static s32 wakeup_preempt(rq_t *rq, task_t *p, s32 cpu, enum enqueue_reason reason)
{
	task_t *curr = cpu_nr(cpu)->curr;

	if (cpu_idle(cpu))
		return cpu;
	if (p->child_first) {
		p->child_first = false;
		return cpu;
	}
	if (!curr || p->prio >= curr->prio || p->array == rq->expired) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	if (reason == ENQ_WAKE && profile != PROFILE_D1 && p->base.waker_cpu == cpu) {
		count(nr_sync_wakeups);
		return NO_CPU;
	}
	count(nr_preemptions);
	return cpu;
}

/* Stays in its array; the bonus moves along with the nice value. */
static bool prio_changed(rq_t *rq, task_t *p, s32 old_nice)
{
	s32 delta = p->base.nice - old_nice, prio;

	p->static_prio += delta;
	prio = min(max(p->prio + delta, MAX_RT_PRIO), NR_PRIO - 1);
	if (!rq || !p->array) {
		p->prio = prio;
		return false;
	}
	requeue(p, p->array, prio);
	/* a running task is off its CPU while it is changed */
	return delta < 0 || !cpu_nr(rq->base.nr)->curr;
}

#include "pull.h"

SCHED_OPS(o1);
