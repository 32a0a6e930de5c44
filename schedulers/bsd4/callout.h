/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bsd4/callout.h - what happens by the clock: the round robin every 100 ms, the walk
 * over all tasks every second, and the load average about every five seconds.
 */
#ifndef SCHEDLAB_BSD4_CALLOUT_H
#define SCHEDLAB_BSD4_CALLOUT_H

#include "priority.h"

/* The load is sampled every 4 to 6 s, lest it beats with something periodic. */
#define SAMPLE_MIN (4 * SEC_NS)
#define SAMPLE_JITTER_MS 2000
/* The clock of FreeBSD 5.x, HZ 100. */
#define HARDCLOCK_NS (10 * MS)

/* ---- once per second ---- */

/*
 * A task that sleeps is passed by from the second walk on. That is made up for when it
 * wakes up.
 */
static __noinline int schedcpu_task(rq_t *rq, task_t *p)
{
	bool linked = p->base.rq != RQ_NONE;

	use_arena();
	if (linked || p->did_run) {
		WRITE_ONCE(p->slptime, 0);
		if (p->base.state != TASK_RUNNING)
			WRITE_ONCE(p->did_run, false);
	} else if (++p->slptime > 1) {
		count(nr_frozen);
		return 0;
	}
	p->estcpu = decay(rq, p->estcpu);
	debug_expect(p->estcpu <= limit_estcpu(~0u), BAD_ESTIMATE);
	set_user_pri(p);
	if (!linked)
		return 0;
	if (p->prio >= PRI_MIN_TIMESHARE)
		set_prio(rq, p, p->user_pri);
	return 0;
}

static __always_inline void schedcpu(rq_t *rq)
{
	list_t *pos;

	count(nr_schedcpus);
	list_for_each(pos, all_tasks) {
		count(nr_walked);
		schedcpu_task(rq, list_entry(pos, struct task, base.all));
	}
}

/* ---- the load average ---- */

static __always_inline void sample_load(rq_t *rq)
{
	u64 sum = (u64)LOAD_DECAY * rq->ldavg + (u64)rq->nr_load * FSCALE * (FSCALE - LOAD_DECAY);

	rq->ldavg = sum >> FSHIFT;
	count(nr_load_samples);
}

/* ---- every quantum ---- */

/* All CPUs at once, however long ago their tasks began to run. */
static __noinline int roundrobin(void)
{
	cpu_t *c;
	u32 cpu;

	use_arena();
	count(nr_roundrobins);
	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++) {
		c = cpu_nr(cpu);
		if (c->exec) {
			preempt_cpu(cpu);
			count(nr_rotations);
		} else if (c->curr) {
			/* as soon as the kernel thread leaves it */
			c->resched = true;
		}
	}
	return 0;
}

/* Is it time for what is due at *@next? Then that is put off by whole periods. */
static __always_inline bool due(u64 __arena *next, u64 now, u64 period)
{
	debug_expect(period, BAD_STATE);
	if (!*next)
		*next = now + period;
	if (now < *next)
		return false;
	*next += ((now - *next) / period + 1) * period;
	debug_expect(*next > now, RAN_BACKWARDS);
	return true;
}

/* 5.x: the clocks, 100 and 128 times a second, end the halt of idle CPUs, which look at the queue. */
static __noinline u64 clock_ticks(rq_t *rq, u64 now)
{
	s32 cpu, last;
	bool hard, stat;

	use_arena();
	hard = due(&rq->next_hardclock, now, HARDCLOCK_NS);
	stat = due(&rq->next_statclock, now, tick_ns);
	if ((hard || stat) && rq->queue.nr_queued)
		for (last = NO_CPU, cpu = next_idle_cpu(nr_cpus - 1); cpu > last && can_loop;
		     last = cpu, cpu = next_idle_cpu(cpu)) {
			kick_idle(cpu);
			count(nr_clock_looks);
		}
	return min(rq->next_hardclock, rq->next_statclock);
}

static u64 timer_expired(u64 now)
{
	u64 jitter = bpf_get_prandom_u32() % (SAMPLE_JITTER_MS + 1) * MS;
	bool rotate = due(&rq_nr(0)->next_roundrobin, now, quantum_ns), walk, sample;
	rq_t *rq = rq_nr(0);
	struct lock *lock;
	u64 next;

	walk = due(&rq->next_schedcpu, now, SEC_NS);
	sample = due(&rq->next_sample, now, SAMPLE_MIN + jitter);
	lock = walk || sample ? lock_rq(0, now) : NULL;
	if (lock) {
		if (sample)
			sample_load(rq);
		if (walk)
			schedcpu(rq);
		unlock(lock);
	}
	if (rotate)
		roundrobin();
	next = min(rq->next_roundrobin, min(rq->next_schedcpu, rq->next_sample));
	return GENERATION(halts) && nr_cpus > 1 ? min(next, clock_ticks(rq, now)) : next;
}

#endif
