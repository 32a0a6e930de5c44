// SPDX-License-Identifier: GPL-2.0-only
/*
 * bsd4 - FreeBSD's 4BSD scheduler: one queue of 64 lists, estimated CPU use that decays by load.
 *
 * All CPUs share one queue and one lock. A task's priority is its nice value
 * plus an estimate of the CPU time it has used lately (estcpu). The estimate
 * grows by one with every tick of the statistics clock that the task runs, and
 * once per second a walk over all tasks takes a share of it away, a smaller one
 * the higher the load is: nine tenths are forgotten in five seconds times the
 * load average. The first task of the best list runs, until it blocks or a
 * better one comes; every 100 ms, all CPUs at the same time, it goes to the tail
 * of its list. A task that wakes up in the kernel beats all that compute.
 *
 * The profiles differ in what several CPUs are used for (README.md).
 *
 * README.md has a worked example, sources, tunables and limits.
 */
#define POLICY_GLOBAL_RQ
#define POLICY_ONE_LOCK
#define POLICY_READS_TASK
#define POLICY_HAS_TIMER
#define POLICY_SELECTS_CPU
#define POLICY_SELECTS_FORK
#include "../include/freebsd.h"

enum profile {
	PROFILE_5_X,	/* FreeBSD 5.1 to 5.x, 2003 and 2004 */
	PROFILE_6_X,	/* FreeBSD 6.x, 2005 */
};

const volatile enum profile profile SETS("generation of the scheduler") = PROFILE_6_X;
const volatile u64 tick_ns
	TUNABLE("length of a tick of the statistics clock, which estcpu is counted in; 128 ticks per second by "
		"default", "ns", 100000, 100000000) = STAT_TICK_NS;
const volatile u64 quantum_ns
	TUNABLE("how often all CPUs take the next task of equal priority (kern.sched.quantum)", "ns", 1000000,
		1000000000) = 100000000;
const volatile u32 nice_starve_window
	TUNABLE("a task does not run if its nice value is by more than this above the least one of all runnable "
		"tasks; 0: off, as in FreeBSD 5.x and 6.x", "nice values", 0, 39) = 20;
const volatile bool wake_boost SETS("a woken task has the priority of the kernel's sleep (88) until it runs") = true;
const volatile bool wake_one_cpu
	SETS("6.x: a wakeup sends one idle CPU to look for work instead of all (kern.sched.ipiwakeup.onecpu)") = false;
const volatile u32 runq_fuzz
	TUNABLE("6.x: how many tasks of the best list a CPU looks at for one that it ran last; 1: takes the first "
		"(kern.sched.runq_fuzz)", "tasks", 1, 1000) = 1;
const volatile bool idle_halts
	SETS("5.x: an idle CPU halts and looks for work at its next clock tick, as wakeups do not interrupt it; "
		"off: it polls") = true;
const volatile bool realtime_fifo
	SETS("real-time tasks keep their place when the quantum ends, as SCHED_FIFO; off: SCHED_RR") = false;
const volatile u32 fixed_load
	TUNABLE("load average to decay by; 0: the measured one, which takes minutes to rise", "tasks", 0, 10000) = 0;
/* 5 s is chosen. A task that was preempted in an RCU read-side section has some turns to leave it before the
 * kernel complains (21 s), which also unloads the scheduler. */
const volatile u64 starvation_max_ns
	TUNABLE("a task that has waited longer runs next, for one tick of the statistics clock", "ns", 1000000,
		1000000000000) = 5000000000;

u64 nr_roundrobins COUNTS("quanta that ended");
u64 nr_rotations COUNTS("CPUs told to take the next task at the end of a quantum");
u64 nr_schedcpus COUNTS("walks over all tasks, one per second");
u64 nr_walked COUNTS("tasks that such walks looked at");
u64 nr_frozen COUNTS("tasks that they passed by because they have slept for long");
u64 nr_load_samples COUNTS("looks at the number of runnable tasks for the load average");
u64 nr_list_changes COUNTS("queued tasks that went to another list");
u64 nr_updatepris COUNTS("wakeups after a long sleep, whose decay was made up for");
u64 nr_boosts COUNTS("wakeups with the priority of a sleep in the kernel");
u64 nr_clock_looks COUNTS("5.x: halted CPUs that a clock tick made look for a waiting task");
u64 nr_idle_here COUNTS("ready tasks whose waker's CPU was idle");
u64 nr_idle_elsewhere COUNTS("ready tasks that idle CPUs were told to look for");
u64 nr_preemptions COUNTS("ready tasks with a better priority than the running one");
u64 nr_no_preemptions COUNTS("ready tasks that have to wait");
u64 nr_kept_first COUNTS("preempted tasks that stay the first of their list");
u64 nr_bound_picks COUNTS("picks from the queue of those that only one CPU may run");
u64 nr_fuzzy_picks COUNTS("picks of a task behind the first because it ran here last");
u64 nr_barred COUNTS("tasks that a pick passed by because much less nice ones are runnable");
u64 nr_barred_picks COUNTS("picks of such tasks, for want of others");
u64 nr_starving COUNTS("tasks that had waited for too long and went first");

/* Points of estcpu per priority, on one CPU. */
#define ESTCPU_WEIGHT 8
/* Most priorities that estcpu is worth, and a rest: 295 points on one CPU. */
#define ESTCPU_LEVELS (PRIO_MAX - PRIO_MIN - PRIO_PER_LIST)
/* Load averages in fixed point: bits behind the point, and one. */
#define FSHIFT 11
#define FSCALE (1u << FSHIFT)
/* exp(-5 s / 60 s): what a sample leaves of the average over a minute. */
#define LOAD_DECAY 1884
/* No nice value is that high. */
#define ANY_NICE 100

struct task {
	struct task_base base;
	enum pri_class class;
	enum pri_class next_class;	/* K: what class is to be */
	s32 bound;			/* CPU whose own queue it is on, NO_CPU: that of all */
	s32 next_bound;			/* K: what bound is to be */
	s32 ready_cpu;			/* K: CPU that made it ready */
	s32 last_cpu;			/* that it ran on last */
	s32 prio;			/* 0..255, rank now; a quarter of it is its list */
	s32 user_pri;			/* 0..255, rank when it runs in user mode */
	u32 estcpu;			/* ticks of the statistics clock, decayed */
	u32 slptime;			/* walks of schedcpu() that it has slept through */
	u64 waiting_since;		/* ns, when it was queued or put */
	bool batch;			/* K: SCHED_BATCH */
	bool did_run;			/* has run since the last walk */
	bool keeps_first;		/* was preempted at once: to the head of its list */
	bool yielded;			/* to the tail of its list, whatever else */
	bool starving;			/* has waited for too long */
};

struct rq {
	struct rq_base base;
	u32 nr_load;			/* runnable tasks that count for the load */
	u32 ldavg;			/* load average over a minute, fixed point */
	u64 next_roundrobin;		/* ns; these three by the timer alone */
	u64 next_schedcpu;
	u64 next_sample;
	u64 next_hardclock;
	u64 next_statclock;
	struct nice_counts timeshare;	/* queued tasks of the time-share class */
	struct prio_queue queue;
	struct prio_queue own[MAX_CPUS];	/* 6.x: of tasks that one CPU alone may run */
};

#include "../include/glue.h"

static u64 tick_length(void)
{
	return tick_ns;
}

/* The timer, not the slice, ends a quantum. */
static u32 ticks_left(task_t *p)
{
	return STATHZ;
}

/* ---- priorities ---- */

static __always_inline u32 estcpu_weight(void)
{
	return profile == PROFILE_6_X ? ESTCPU_WEIGHT * nr_cpus : ESTCPU_WEIGHT;
}

static __always_inline u32 limit_estcpu(u32 estcpu)
{
	u32 weight = estcpu_weight();

	return min(estcpu, weight * ESTCPU_LEVELS + weight - 1);
}

static __always_inline void set_user_pri(task_t *p)
{
	s32 pri = PRI_MIN_TIMESHARE + p->estcpu / estcpu_weight() + p->base.nice - PRIO_MIN;

	if (p->class == CLASS_TIMESHARE)
		p->user_pri = min(max(pri, PRI_MIN_TIMESHARE), PRI_MAX_TIMESHARE);
	else
		p->user_pri = class_priority(p->class, p->base.nice);
}

static __always_inline prio_queue_t *queue_of(rq_t *rq, task_t *p)
{
	return p->bound == NO_CPU ? &rq->queue : &rq->own[(u32)p->bound % MAX_CPUS];
}

/* Gives @p, which is linked, a rank; only on another list its place changes. */
static __always_inline void set_prio(rq_t *rq, task_t *p, s32 prio)
{
	prio_queue_t *queue = queue_of(rq, p);
	u32 list = list_nr(p);

	p->prio = prio;
	if (list_nr(p) == list)
		return;
	prio_queue_del(queue, p, list);
	prio_queue_add_tail(queue, p, list_nr(p));
	count(nr_list_changes);
}

/* What a walk leaves of @estcpu: two parts in three at load 1, four in five at load 2. */
static __always_inline u32 decay(rq_t *rq, u32 estcpu)
{
	u64 twice = 2 * (fixed_load ? fixed_load * FSCALE : rq->ldavg);

	return twice * estcpu / (twice + FSCALE);
}

/* @p wakes up after a long sleep: the walks that passed it by. */
static __noinline int update_priority(rq_t *rq, task_t *p)
{
	u32 i;

	for (i = zero + 2; i < p->slptime && p->estcpu && can_loop; i++)
		p->estcpu = decay(rq, p->estcpu);
	count(nr_updatepris);
	return 0;
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
	WRITE_ONCE(p->waiting_since, 0);
	WRITE_ONCE(p->batch, false);
	WRITE_ONCE(p->did_run, false);
	WRITE_ONCE(p->keeps_first, false);
	WRITE_ONCE(p->yielded, false);
	WRITE_ONCE(p->starving, false);
	set_user_pri(p);
	p->prio = p->user_pri;
}

static bool read_task(task_t *p, struct task_struct *k)
{
	bool bound = profile == PROFILE_6_X && nr_cpus > 1 && k->nr_cpus_allowed == 1;

	p->next_class = class_of(k);
	p->next_bound = bound ? scx_bpf_task_cpu(k) : NO_CPU;
	p->ready_cpu = bpf_get_smp_processor_id();
	p->batch = k->policy == SCHED_BATCH;
	return p->next_class != p->class || p->next_bound != p->bound;
}

/* ---- birth and death ---- */

/* Whoever computes and forks has children that have computed. */
static bool task_fork(task_t *parent, task_t *child)
{
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
	if (reason != ENQ_MOVED) {
		/* whoever is moved has waited elsewhere */
		p->waiting_since = rq->base.clock;
		p->starving = false;
	}
	p->prio = p->starving ? PRI_MIN_KERNEL : p->user_pri;
	if (wake_boost && reason == ENQ_WAKE && p->class == CLASS_TIMESHARE && !p->batch) {
		p->prio = PSOCK;
		count(nr_boosts);
	}
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
	if (p->class != CLASS_INTERRUPT)
		rq->nr_load--;
}

/* ---- picking ---- */

/* The highest nice value that may run now. */
static __always_inline s32 highest_nice(rq_t *rq)
{
	return nice_starve_window ? least_nice(&rq->timeshare) + (s32)nice_starve_window : ANY_NICE;
}

static __always_inline bool barred(task_t *p, s32 nice)
{
	return p->base.nice > nice && p->class == CLASS_TIMESHARE && !p->starving;
}

/* 6.x: a task among the next ones of the list of @p that @cpu ran last, or @p. */
static __noinline task_t *warm_task(prio_queue_t *queue, task_t *p, u32 cpu, task_t *prev, s32 nice)
{
	list_t *pos = run_list(p);
	task_t *other;
	u32 i;

	use_arena();
	if (p->last_cpu == (s32)cpu)
		return p;
	for (i = zero + 1; i < runq_fuzz && can_loop; i++) {
		pos = pos->next;
		if (pos == &queue->list[list_nr(p) % NR_PRIO])
			break;
		other = linked_task(pos);
		if (other->last_cpu == (s32)cpu && can_run(other, cpu, prev) && !barred(other, nice)) {
			count(nr_fuzzy_picks);
			return other;
		}
	}
	return p;
}

/* First task of @queue, in order of priority, that @cpu may run, of at most @nice. */
static __noinline task_t *first_task(prio_queue_t *queue, u32 cpu, task_t *prev, s32 nice)
{
	list_t *pos;
	task_t *p;
	u32 prio;

	use_arena();
	prio_queue_for_each(prio, queue) {
		list_for_each(pos, &queue->list[prio]) {
			p = linked_task(pos);
			if (!can_run(p, cpu, prev))
				continue;
			if (!barred(p, nice))
				return runq_fuzz > 1 ? warm_task(queue, p, cpu, prev, nice) : p;
			count(nr_barred);
		}
	}
	return NULL;
}

/* 6.x: those that only this CPU may run come first when they are better. */
static __always_inline task_t *best_task(rq_t *rq, u32 cpu, task_t *prev, s32 nice)
{
	task_t *p = first_task(&rq->queue, cpu, prev, nice), *own;
	prio_queue_t *queue = &rq->own[cpu % MAX_CPUS];

	if (!queue->nr_queued)
		return p;
	own = first_task(queue, cpu, prev, nice);
	if (!own || (p && own->prio >= p->prio))
		return p;
	count(nr_bound_picks);
	return own;
}

static task_t *pick_next_task(rq_t *rq, u32 cpu, task_t *prev)
{
	s32 nice = highest_nice(rq);
	task_t *next = best_task(rq, cpu, prev, nice);

	if (!next && nice < PRIO_MAX - 1) {
		next = best_task(rq, cpu, prev, ANY_NICE);
		if (next)
			count(nr_barred_picks);
	}
	return next;
}

/* What it had from its sleep or its yield ends as it returns to user mode. */
static void set_next_task(rq_t *rq, task_t *p, u32 cpu)
{
	p->did_run = true;
	p->last_cpu = cpu;
	if (!p->starving)
		set_prio(rq, p, p->user_pri);
}

static void put_prev_task(rq_t *rq, task_t *p, u64 ran)
{
	prio_queue_t *queue = queue_of(rq, p);
	bool fifo = realtime_fifo && p->class == CLASS_REALTIME;

	p->waiting_since = rq->base.clock;
	prio_queue_del(queue, p, list_nr(p));
	if (p->starving)
		p->prio = p->user_pri;
	if ((p->keeps_first || fifo) && !p->yielded) {
		prio_queue_add_head(queue, p, list_nr(p));
		count(nr_kept_first);
	} else {
		prio_queue_add_tail(queue, p, list_nr(p));
	}
	WRITE_ONCE(p->starving, false);
	WRITE_ONCE(p->keeps_first, false);
	WRITE_ONCE(p->yielded, false);
}

/* ---- the tick ---- */

/* Never a reason to reschedule, unless @p runs only because it had waited for too long. */
static bool task_tick(rq_t *rq, task_t *p)
{
	p->estcpu = limit_estcpu(p->estcpu + 1);
	if (p->estcpu % estcpu_weight() == 0) {
		set_user_pri(p);
		if (p->prio >= PRI_MIN_TIMESHARE)
			set_prio(rq, p, p->user_pri);
	}
	return p->starving;
}

/* ---- yield ---- */

/* Behind everybody of the time-share class, until it runs again. */
static bool yield_task(rq_t *rq, task_t *p)
{
	p->yielded = true;
	if (p->class == CLASS_TIMESHARE)
		set_prio(rq, p, PRI_MAX_TIMESHARE);
	return true;
}

/* ---- preemption ---- */

static __always_inline s32 idle_cpu_for(task_t *p)
{
	u32 word;
	u64 mask;

	for (word = zero; word * 64 < nr_cpus && can_loop; word++) {
		mask = idle_mask[word % MASK_WORDS] & p->base.allowed[word % MASK_WORDS];
		if (mask)
			return word * 64 + __builtin_ctzll(mask);
	}
	return NO_CPU;
}

/* Does an idle CPU hear of a wakeup only when its clock ticks? */
static __always_inline bool halts(void)
{
	return profile == PROFILE_5_X && idle_halts;
}

/* 5.x: a task becomes ready where it is woken; whoever looks first takes it. */
static s32 select_task_rq(task_t *p, s32 prev_cpu, s32 this_cpu, bool sync, u64 now)
{
	return halts() && cpu_allowed(p, this_cpu) ? this_cpu : prev_cpu;
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

	if (p->bound != NO_CPU || !cpu_allowed(p, here))
		here = cpu;
	if (cpu_idle(here)) {
		count(nr_idle_here);
		return here;
	}
	idle = halts() ? NO_CPU : idle_cpu_for(p);
	if (idle != NO_CPU) {
		count(nr_idle_elsewhere);
		return profile == PROFILE_5_X || wake_one_cpu ? idle : IDLE_CPUS;
	}
	curr = cpu_nr(here)->curr;
	if (!curr || p->prio >= curr->prio || barred(p, highest_nice(rq))) {
		count(nr_no_preemptions);
		return NO_CPU;
	}
	count(nr_preemptions);
	if (profile == PROFILE_6_X &&
	    (p->prio <= PRI_MAX_INTERRUPT || curr->class == CLASS_IDLE))
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

#include "callout.h"

SCHED_OPS(bsd4);
