/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swap/virtual.h - blocked tasks that stay queued.
 *
 * A requester with a provider that could run stays linked when it blocks, as virtual
 * runnable. It keeps its place and its priority, and when the policy picks it, the
 * provider runs. When no provider can run any more, it is parked: unlinked, as blocked
 * tasks are. When one of its providers becomes ready again, it is revived: linked
 * where that provider can run. The policy sees a task that blocks late or wakes up
 * early, and nothing else.
 *
 * Linking a blocked task from another task's callback races with its own wakeup.
 * Both claim it by taking base.rq from RQ_NONE to RQ_MOVING; the wakeup says
 * first that it does not wait any more, the other one looks at that afterwards.
 */
#ifndef SCHEDLAB_SWAP_VIRTUAL_H
#define SCHEDLAB_SWAP_VIRTUAL_H

#include "glue/pick.h"
#include "swap/realtime.h"

u64 nr_swap_virtual COUNTS("blocked tasks that stayed queued, as a provider could run");
u64 nr_swap_blocked COUNTS("blocked tasks with known providers of which none could run");
u64 nr_swap_parked COUNTS("virtual runnable tasks unlinked, as no provider could run any more");
u64 nr_swap_revived COUNTS("parked tasks linked again, as a provider became ready");
u64 nr_swap_woken COUNTS("virtual runnable tasks that got what they waited for");
u64 nr_swap_stand_ins COUNTS("picks of a blocked task in whose place a provider ran");
u64 nr_swap_pulls COUNTS("of these, providers that came from another CPU's queue");
u64 nr_swap_lost_pulls COUNTS("providers on another CPU's queue that were gone when it was locked");

/* ---- picking ---- */

/* No provider can run in place of @p on @cpu: it is to be parked. */
static __always_inline void swap_note_stale(task_t *p, u32 cpu)
{
	cpu_t *c = cpu_nr(cpu);
	u32 n = c->nr_stale;

	debug_expect(n <= SWAP_STALE, TABLE_OVERRUN);
	if (n >= SWAP_STALE)
		return;
	hide_value(n);
	c->stale[n % SWAP_STALE] = p;
	c->nr_stale = n + 1;
}

/* May @cpu pick the virtual runnable @p? If not, it is noted to be parked. */
static __always_inline bool swap_can_run(task_t *p, u32 cpu, task_t *prev)
{
	struct swap_search __arena *search = &cpu_nr(cpu)->search;

	if (p->base.state != TASK_VIRTUAL)
		return false;
	if (swap_enabled && !p->base.swap.barren) {
		if (!search->left)
			return false;
		if (swap_search(p, cpu, prev, true))
			return true;
		/* another CPU of the same queue may be able to */
		if (POLICY_GLOBAL_RQ && search->elsewhere)
			return false;
	}
	swap_note_stale(p, cpu);
	return false;
}

/*
 * Unlinks the tasks of this queue that the last pick could do nothing for. Another
 * CPU of the queue may still run a provider in place of one, or have just begun to.
 * That provider keeps the rank: without it, it would be preempted for a task that
 * finds the provider ready, and revives the one that was unlinked.
 */
static __always_inline void swap_park_stale(u32 cpu, rq_t *rq)
{
	cpu_t *c = cpu_nr(cpu);
	task_t *p;
	u32 i;

	for (i = zero; i < c->nr_stale && i < SWAP_STALE && can_loop; i++) {
		hide_value(i);
		p = c->stale[i];
		if (p->base.state != TASK_VIRTUAL || p->base.rq != (s32)rq->base.nr)
			continue;
		unlink_from(rq, p, DEQ_SLEEP, RQ_NONE);
		p->base.state = TASK_NONE;
		count(nr_swap_parked);
	}
}

/* Was the time that @p had as a provider for nothing? */
static __always_inline void swap_settle(task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;
	provider_t *entry = s->entry;

	if (!entry)
		return;
	WRITE_ONCE(s->entry, NULL);
	if (entry->task != p || entry->id != p->base.id)
		return;
	entry->used += s->used;
	entry->spent += s->used;
	if (entry->used >= swap_quantum(entry))
		swap_blame(entry);
}

/*
 * The running @p calls sched_yield(). If the place of a requester was lent to it, it
 * has no use for that, which is as good as a quantum in vain. Until it has run by its
 * own rank or has blocked it is no candidate, or it would be chosen again at once.
 */
static __always_inline void swap_yields(task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;
	provider_t *entry = s->entry;

	if (!entry || !swap_heed_yield)
		return;
	WRITE_ONCE(s->yielded, true);
	WRITE_ONCE(s->entry, NULL);
	if (entry->task != p || entry->id != p->base.id)
		return;
	entry->spent += s->used;
	swap_blame(entry);
}

/* The task that runs on @cpu when @p was picked: itself, or its provider. */
static __always_inline task_t *swap_stand_in(task_t *p, u32 cpu, task_t *prev)
{
	struct swap_search __arena *search = &cpu_nr(cpu)->search;
	task_t *exec;

	if (!p)
		return NULL;
	if (p->base.state != TASK_VIRTUAL) {
		WRITE_ONCE(p->base.swap.yielded, false);
		return p;
	}
	/* the pick has searched for it, unless another CPU has done so since */
	if (p->base.swap.found_pick != search->pick && !swap_search(p, cpu, prev, true)) {
		swap_note_stale(p, cpu);
		return NULL;
	}
	exec = p->base.swap.found;
	swap_settle(exec);
	exec->base.swap.entry = p->base.swap.found_entry;
	WRITE_ONCE(exec->base.swap.used, 0);
	p->base.swap.cpu = cpu;
	count(nr_swap_stand_ins);
	return exec;
}

static __always_inline void swap_charge(task_t *p, s64 ran)
{
	debug_expect(ran >= 0, RAN_BACKWARDS);
	if (p->base.swap.entry)
		p->base.swap.used += ran;
}

static __always_inline s64 swap_left(task_t *p)
{
	struct swap_task __arena *s = &p->base.swap;

	if (!s->entry)
		return (u64)~0ull >> 1;
	return (s64)swap_quantum(s->entry) - (s64)(s->entry->used + s->used);
}

/* ---- blocking and waking up ---- */

static __always_inline void swap_runs(task_t *p, s32 cpu)
{
	debug_expect((u32)cpu < nr_cpus, BAD_CPU);
	p->base.swap.ran_on = cpu;
}

/* CPU whose queue @p is on, or where it ran last if they share one. */
static __always_inline s32 swap_cpu_of(task_t *p)
{
	s32 rq = p->base.rq;

	if (POLICY_GLOBAL_RQ)
		return p->base.swap.ran_on;
	return rq >= 0 ? rq : NO_CPU;
}

/*
 * Where a provider can run for @p, which blocks on @cpu: there, else on the CPU of the
 * provider; NO_CPU: nowhere.
 */
static __always_inline s32 swap_place(task_t *p, u32 cpu)
{
	swap_begin_pick(cpu);
	WRITE_ONCE(p->base.swap.barren, false);
	if (swap_search(p, cpu, NULL, false))
		return cpu;
	if (cpu_nr(cpu)->search.elsewhere)
		return swap_cpu_of(cpu_nr(cpu)->search.elsewhere);
	return NO_CPU;
}

/* Where @p, which blocks on @cpu, stays queued; NO_CPU: nowhere. */
static __always_inline s32 swap_where(task_t *p, u32 cpu)
{
	s32 where;

	if (!p->base.swap.nr_requests || !swap_enabled)
		return NO_CPU;
	where = swap_place(p, cpu);
	if (where == NO_CPU)
		count(nr_swap_blocked);
	else
		count(nr_swap_virtual);
	return where;
}

static __always_inline bool swap_claim(task_t *p)
{
	s32 rq;

	while (can_loop) {
		rq = __sync_val_compare_and_swap(&p->base.rq, RQ_NONE, RQ_MOVING);
		if (rq != RQ_MOVING)
			return rq == RQ_NONE;
	}
	return false;
}

/* Links the parked @p on the queue of @cpu, and tells the CPU that has to reschedule. */
static __always_inline void swap_revive(task_t *p, u32 cpu, u64 now)
{
	u32 nr = rq_of(cpu);
	struct lock *lock;
	s32 target;

	if (!swap_claim(p))
		return;
	if (!p->base.swap.waits) {
		p->base.rq = RQ_NONE;
		return;
	}
	lock = lock_rq(nr, now);
	if (!lock)
		return;
	link_on(rq_nr(nr), p, ENQ_WAKE);
	p->base.state = TASK_VIRTUAL;
	target = preempts(rq_nr(nr), p, cpu, ENQ_WAKE);
	unlock(lock);
	count(nr_swap_revived);
	kick(target, NO_CPU, ENQ_WAKE);
}

/* @p was unlinked while a provider became ready: that has not seen it among the parked. */
static __always_inline void swap_revive_late(task_t *p, u32 cpu, u64 now)
{
	s32 where;

	if (p->base.rq != RQ_NONE || !p->base.swap.waits)
		return;
	where = swap_place(p, cpu);
	if (where != NO_CPU)
		swap_revive(p, where, now);
}

/* The same for all that the last pick of @cpu has parked. */
static __noinline int swap_look_again(u32 cpu, u64 now)
{
	cpu_t *c = cpu_nr(cpu);
	u32 i, n = c->nr_stale;

	use_arena();
	WRITE_ONCE(c->nr_stale, 0);
	if (!n || !swap_overtaken(&c->search))
		return 0;
	for (i = zero; i < n && i < SWAP_STALE && can_loop; i++) {
		hide_value(i);
		swap_revive_late(c->stale[i], cpu, now);
	}
	return 0;
}

/* @waiter is a task in whose place a provider may be able to run now. */
static __always_inline void swap_note(cpu_t *c, task_t *waiter)
{
	u32 n = c->nr_served;

	debug_expect(n <= SWAP_SERVED, TABLE_OVERRUN);
	if (n >= SWAP_SERVED || waiter->base.swap.noted == c->search.serial)
		return;
	waiter->base.swap.noted = c->search.serial;
	WRITE_ONCE(waiter->base.swap.barren, false);
	hide_value(n);
	c->served[n % SWAP_SERVED] = waiter;
	c->nr_served = n + 1;
}

/*
 * True if no requester of @resource must be notified that a provider became ready:
 * none waits, or the only one is queued and still has a runnable provider. Read
 * without the lock: a requester that arrives meanwhile searches for itself.
 */
static __always_inline bool swap_needs_nothing(resource_t *resource)
{
	task_t *p;

	if (resource->nr_requesters != 1)
		return !resource->nr_requesters;
	p = list_entry(resource->requesters.next, struct swap_request, link)->task;
	return p->base.state == TASK_VIRTUAL && p->base.rq != RQ_NONE && !p->base.swap.barren &&
	       cpu_nr(p->base.swap.cpu)->curr != p;
}

/*
 * The provider of @entry has become ready. Puts the first requesters of its resource
 * that are parked, or have no runnable provider, on the CPU's list. Notes the CPU on
 * which another provider runs in place of one. Requesters that are queued have a
 * runnable provider, and so do those that wait for them.
 */
static __always_inline void swap_collect(provider_t *entry, cpu_t *c)
{
	resource_t *resource = entry->resource;
	u32 told = zero;
	struct lock *lock;
	list_t *pos;
	task_t *p;

	lock = swap_lock(swap_bucket(resource->kind, resource->what));
	if (!lock)
		return;
	list_for_each(pos, &resource->requesters) {
		p = list_entry(pos, struct swap_request, link)->task;
		if (p->base.state == TASK_VIRTUAL && cpu_nr(p->base.swap.cpu)->curr == p)
			c->choose_again = p->base.swap.cpu;
		if (p->base.rq != RQ_NONE && !p->base.swap.barren)
			continue;
		swap_note(c, p);
		if (++told >= SWAP_REVIVALS)
			break;
	}
	unlock(lock);
}

/*
 * The task at @address, in whose place a provider can run on @cpu, is queued there if
 * it is parked. Global: whatever way is taken in it, its caller's scratch registers
 * are gone after it. If not, verifiers of 6.18 to 7.0 stumble over one that a pruned
 * path had used ("verifier bug: backtracking exit unexpected regs").
 */
__noinline int swap_serve(u64 address, s32 cpu, u64 now)
{
	task_t *waiter = (task_t *)address;

	use_arena();
	if (waiter->base.swap.slot < SWAP_REALTIME)
		kick(cpu, NO_CPU, ENQ_WAKE);
	else if (waiter->base.rq == RQ_NONE)
		swap_revive(waiter, cpu, now);
	return 0;
}

/*
 * The task at @address has become ready on @cpu, or is blocked and a provider can run
 * in its place. So have the blocked tasks that it may provide for, and those that
 * these may provide for. Where another provider runs for one of them, there may be a
 * better choice now. Global, so that the verifier walks it once a program and not once
 * a path.
 */
__weak int swap_make_ready(u64 address, s32 cpu)
{
	cpu_t *c = cpu_nr(bpf_get_smp_processor_id());
	u64 now = bpf_ktime_get_ns();
	task_t *p = (task_t *)address;
	provider_t *entry;
	u32 i, j, done;

	use_arena();
	WRITE_ONCE(c->nr_served, 0);
	__sync_fetch_and_add(&swap_readied, 1);
	c->search.serial = swap_next_number(c->search.serial, bpf_get_smp_processor_id());
	p->base.swap.noted = c->search.serial;
	for (j = zero; j < SWAP_SERVED && can_loop; j++) {
		for (i = zero; i < SWAP_OWNED && can_loop; i++) {
			entry = p->base.swap.owned[i];
			if (!entry)
				break;
			if (entry->task != p || entry->id != p->base.id)
				continue;
			if (entry->confidence <= 0 || swap_needs_nothing(entry->resource))
				continue;
			c->choose_again = NO_CPU;
			swap_collect(entry, c);
			if (c->choose_again >= 0 && cpu_nr(c->choose_again)->exec != p)
				preempt_cpu(c->choose_again);
		}
		done = j;
		hide_value(done);
		if (done >= c->nr_served)
			break;
		p = c->served[done % SWAP_SERVED];
		swap_serve((u64)p, cpu, now);
	}
	return 0;
}

static __always_inline void swap_ready(task_t *p, s32 cpu)
{
	swap_make_ready((u64)p, cpu);
}

/* What runs in place of @p does so no longer: it has its own rank. */
static __always_inline void swap_end_loan(task_t *p)
{
	cpu_t *c = cpu_nr(p->base.swap.cpu);

	if (c->curr == p)
		c->curr = c->exec;
}

/* The same for a @p that is on no queue. The CPU's own lock keeps its picks away. */
static __always_inline void swap_end_loan_of_parked(task_t *p)
{
	struct lock *lock;
	u32 cpu = p->base.swap.cpu;

	if (cpu_nr(cpu)->curr != p)
		return;
	lock = lock_rq(rq_of(cpu), bpf_ktime_get_ns());
	if (!lock)
		return;
	swap_end_loan(p);
	unlock(lock);
}

/*
 * @p wakes up. If it is linked, as virtual runnable, it is ready where it stands.
 * Linked or parked, its provider no longer has its rank. False: it is to be linked.
 */
static __noinline bool swap_wakes(task_t *p, s32 cpu)
{
	struct lock *lock;
	u32 nr = 0;
	s32 target;

	use_arena();
	WRITE_ONCE(p->base.swap.kind, 0);
	if (!p->base.swap.waits)
		return false;
	__sync_fetch_and_and(&p->base.swap.waits, 0);
	swap_withdraw(p, false);
	lock = lock_task_rq(p, bpf_ktime_get_ns(), &nr);
	if (!lock) {
		swap_end_loan_of_parked(p);
		return false;
	}
	if (p->base.state != TASK_VIRTUAL) {
		unlock(lock);
		return false;
	}
	swap_end_loan(p);
	p->base.state = TASK_READY;
	if (!POLICY_GLOBAL_RQ)
		cpu = nr;
	target = preempts(rq_nr(nr), p, cpu, ENQ_WAKE);
	unlock(lock);
	kick(target, NO_CPU, ENQ_WAKE);
	count(nr_swap_woken);
	return true;
}

/* @p, which has just blocked on @cpu, counts on CPU @where. */
static __always_inline void swap_move(task_t *p, s32 cpu, s32 where, u64 now)
{
	debug_expect(where < (s32)nr_cpus, BAD_CPU);
	if (where == NO_CPU) {
		if (p->base.swap.waits && swap_overtaken(&cpu_nr(cpu)->search))
			swap_revive_late(p, cpu, now);
		return;
	}
	swap_ready(p, where);
	if (where == cpu || p->base.rq == RQ_NONE)
		return;
	if (!POLICY_GLOBAL_RQ) {
		unlink_task(p, now, DEQ_MOVED);
		where = link_task(p, where, now, ENQ_MOVED, TASK_VIRTUAL);
	}
	kick(where, NO_CPU, ENQ_MOVED);
}

/*
 * The task chosen to stand in is on another CPU's queue: picks it from there. It
 * moves when it runs. False: it is gone.
 */
static __noinline bool swap_pull(s32 cpu, struct pass *pass)
{
	task_t *p = cpu_nr(cpu)->exec;
	struct lock *lock;
	u32 nr = 0;
	bool gone;

	use_arena();
	lock = lock_task_rq(p, pass->now, &nr);
	if (!lock)
		return false;
	gone = p->base.state != TASK_READY || !cpu_allowed(p, cpu);
	if (!gone) {
		set_next_task(rq_nr(nr), p, cpu);
		p->base.state = TASK_PICKED;
		pass->slice = slice_ns(p);
	}
	unlock(lock);
	if (gone)
		count(nr_swap_lost_pulls);
	else
		count(nr_swap_pulls);
	return !gone;
}

#endif
