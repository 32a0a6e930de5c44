/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * glue.h - makes a struct sched_ext_ops of a policy's verbs (see types.h).
 *
 * No dispatch queue of the kernel ever holds a waiting task of ours: waiting
 * tasks are in our custody, linked on run queues in the arena, and ops.dispatch
 * hands over one at a time.
 *
 * Who may change what. The kernel's run queue lock of a task is held in every
 * callback about it, so these callbacks alone change its state and the queue it
 * is linked on, with two exceptions that any CPU may do under the lock of the
 * task's queue: pick it (READY to PICKED), and move it (queue number RQ_MOVING
 * in between; callbacks wait for the end of that). A pick that was overtaken by
 * such a callback is harmless: the kernel drops the hand-over, because the
 * task's queue sequence has changed.
 */
#ifndef SCHEDLAB_GLUE_H
#define SCHEDLAB_GLUE_H

#include "types.h"

char _license[] SEC("license") = "GPL";

/* Off: tests want exact accounts. */
const volatile bool tick_sampling
	SETS("a task that runs at a tick is charged a whole tick, as in the kernels of the day, instead of its run "
		"time") = false;
/* Off: a policy may starve what the machine lives by. */
const volatile bool kernel_threads
	SETS("the policy schedules kernel threads too, as in the kernels of the day, instead of letting them run "
		"at once") = false;

u64 nr_wakeups COUNTS("tasks that became ready after blocking");
u64 nr_forks COUNTS("tasks that became ready for the first time");
u64 nr_requeues COUNTS("tasks that became ready after being preempted");
u64 nr_bypasses COUNTS("kernel threads handed straight to their CPU");
u64 nr_picks COUNTS("picks that chose another task than the running one");
u64 nr_keeps COUNTS("picks that chose the running task again");
u64 nr_resumes COUNTS("tasks that went on after a kernel thread, without a pick");
u64 nr_idles COUNTS("picks that found nothing and left the CPU idle");
u64 nr_walks COUNTS("walks over all tasks that a pick asked for");
u64 nr_lost_picks COUNTS("picked tasks that no longer exist");
u64 nr_cancels COUNTS("picked tasks that may not run here, or that another CPU has not left yet");
u64 nr_idle_kicks COUNTS("idle CPUs told to look for work");
u64 nr_preempt_kicks COUNTS("CPUs told to preempt their task");
u64 nr_follows COUNTS("running tasks found linked on another CPU's queue");
u64 nr_moves COUNTS("tasks moved to another queue");
u64 nr_ticks COUNTS("ticks of the policy charged to tasks");
u64 nr_yields COUNTS("calls of sched_yield()");

u32 nr_cpus = 1;	/* CPU numbers are below this */
static u64 last_id;	/* last task_base::id given out */
static u64 idle_mask[MASK_WORDS];
static struct rq __arena *rqs;
static struct cpu __arena *cpus;
static struct task __arena *free_tasks;
static struct list_head __arena *all_tasks;

struct task_slot {
	struct task __arena *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_slot);
} task_slots SEC(".maps");

/* Why the scheduler was unloaded; loaders know this record by its name. */
struct user_exit_info {
	int kind;
	s64 exit_code;
	char reason[128];
	char msg[1024];
};
struct user_exit_info uei SEC(".data");

#ifdef POLICY_GLOBAL_RQ
#define rq_of(cpu) ((u32)0 * (cpu))
#else
#define rq_of(cpu) ((u32)(cpu))
#endif

#ifdef POLICY_PUSHES
#define PUSHES true
#else
#define PUSHES false
#endif

#ifdef POLICY_SELECTS_FORK
#define SELECTS_FORK true
#else
#define SELECTS_FORK false
#endif

static __always_inline rq_t *rq_nr(u32 nr)
{
	return &rqs[nr];
}

static __always_inline cpu_t *cpu_nr(u32 cpu)
{
	return &cpus[cpu];
}

/* Descriptor of @p, or NULL. */
static __always_inline task_t *task_of(struct task_struct *p)
{
	struct task_slot *slot;

	use_arena();
	slot = bpf_task_storage_get(&task_slots, p, NULL, 0);
	return slot ? slot->task : NULL;
}

/*
 * Kernel threads are not the policies' business as a rule: behind a strict
 * priority they would starve, and the machine with them.
 */
static __always_inline bool is_ours(struct task_struct *p)
{
	return kernel_threads || !(p->flags & PF_KTHREAD);
}

/* @p is to run on the CPU. A task without an address space borrows what is there. */
static __always_inline void load_mm(cpu_t *c, task_t *p)
{
	if (p->base.mm)
		c->mm = p->base.mm;
}

static __always_inline bool cpu_allowed(task_t *p, u32 cpu)
{
	return test_bit(cpu, p->base.allowed);
}

/*
 * The parent of @p, if it is linked on @rq, where @p is about to be, and has an
 * address space of its own; else NULL.
 */
static __always_inline task_t *linked_parent(rq_t *rq, task_t *p)
{
	task_t *parent = p->base.parent;

	if (!parent || parent->base.id != p->base.parent_id || parent->base.mm == p->base.mm)
		return NULL;
	return parent->base.rq == (s32)rq->base.nr ? parent : NULL;
}

/* ---- idle CPUs ---- */

static __always_inline bool cpu_idle(u32 cpu)
{
	return cpu_nr(cpu)->idle_since;
}

static __always_inline void set_idle(u32 cpu, u64 now)
{
	cpu_nr(cpu)->idle_since = now ?: 1;
	__sync_fetch_and_or(&idle_mask[cpu / 64 % MASK_WORDS], 1ull << (cpu % 64));
}

static __always_inline void clear_idle(u32 cpu)
{
	if (!cpu_idle(cpu))
		return;
	WRITE_ONCE(cpu_nr(cpu)->idle_since, 0);
	__sync_fetch_and_and(&idle_mask[cpu / 64 % MASK_WORDS], ~(1ull << (cpu % 64)));
}

/* Tells @cpu to pick again, although what it runs has time left. */
static __always_inline void preempt_cpu(u32 cpu)
{
	count(nr_preempt_kicks);
	cpu_nr(cpu)->resched = true;
	scx_bpf_kick_cpu(cpu, KICK_PREEMPT);
}

/* Tells @cpu to look for work, if it is idle. */
static __always_inline void kick_idle(u32 cpu)
{
	count(nr_idle_kicks);
	scx_bpf_kick_cpu(cpu, KICK_IDLE);
}

/* The first idle CPU after @cpu, coming round to it, or NO_CPU. */
static __always_inline s32 next_idle_cpu(u32 cpu)
{
	u32 i, word = cpu / 64 % MASK_WORDS;
	u64 mask = idle_mask[word] & ~((2ull << (cpu % 64)) - 1);

	for (i = zero; !mask && i < MASK_WORDS && can_loop; i++) {
		word = (word + 1) % MASK_WORDS;
		mask = idle_mask[word];
	}
	return mask ? (s32)(word * 64 + __builtin_ctzll(mask)) : NO_CPU;
}

/* ---- locking ---- */

#ifdef POLICY_ONE_LOCK
#define LOCK_OF_RQ(nr) LOCK_TASKS
#else
#define LOCK_OF_RQ(nr) (nr)
#endif

/* Locks queue @nr and sets its clock. NULL: no such queue. */
static __always_inline struct lock *lock_rq(u32 nr, u64 now)
{
	struct lock *lock = lock_nr(LOCK_OF_RQ(nr));

	if (lock)
		rq_nr(nr)->base.clock = now;
	return lock;
}

/* Locks the queue that @p is linked on, whose number goes to *@nr. NULL: none. */
static __always_inline struct lock *lock_task_rq(task_t *p, u64 now, u32 *nr)
{
	struct lock *lock;
	s32 rq;

	while (can_loop) {
		rq = READ_ONCE(p->base.rq);
		if (rq == RQ_NONE)
			return NULL;
		if (rq == RQ_MOVING)
			continue;
		lock = lock_rq(rq, now);
		if (!lock)
			return NULL;
		if (READ_ONCE(p->base.rq) == rq) {
			*nr = rq;
			return lock;
		}
		unlock(lock);
	}
	return NULL;
}

#include "charge.h"

/* ---- linking ---- */

/* Takes @p off its queue, if it is linked. */
static __noinline int unlink_task(task_t *p, u64 now, u32 reason)
{
	struct lock *lock;
	u32 nr = 0;

	use_arena();
	lock = lock_task_rq(p, now, &nr);
	if (!lock)
		return 0;
	dequeue_task(rq_nr(nr), p, reason);
	p->base.rq = RQ_NONE;
	unlock(lock);
	return 0;
}

/*
 * Links @p on the queue of @cpu if it is not linked, sets its state, and asks
 * the policy who has to reschedule: that CPU or NO_CPU is returned.
 */
static __noinline s32 link_task(task_t *p, s32 cpu, u64 now, u32 reason, u32 state)
{
	u32 nr = rq_of(cpu);
	struct lock *lock;
	s32 target = NO_CPU;
	rq_t *rq;

	use_arena();
	set_home(p, nr);
	lock = lock_rq(nr, now);
	if (!lock)
		return NO_CPU;
	rq = rq_nr(nr);
	if (reason != ENQ_PREEMPTED && swap_claim(p)) {
		enqueue_task(rq, p, reason);
		p->base.rq = nr;
	}
	p->base.state = state;
	if (state != TASK_RUNNING)
		target = wakeup_preempt(rq, p, cpu, reason);
	unlock(lock);
	return target;
}

/* Is @p, which is linked, on a queue that a task of @cpu may be on? */
static __always_inline bool linked_well(task_t *p, s32 cpu)
{
#ifdef POLICY_GLOBAL_RQ
	return true;
#else
	return p->base.rq == cpu || cpu_allowed(p, p->base.rq);
#endif
}

static __noinline int kick_idle_cpus(void)
{
	u32 cpu;

	use_arena();
	for (cpu = zero; cpu < nr_cpus && can_loop; cpu++)
		if (cpu_idle(cpu))
			kick_idle(cpu);
	return 0;
}

/* Wakes @target for a task of @cpu. The kernel itself wakes @cpu for a waking task. */
static __always_inline void kick(s32 target, s32 cpu, u32 reason)
{
	if (target == IDLE_CPUS)
		kick_idle_cpus();
	if (target < 0)
		return;
	if (!cpu_idle(target))
		preempt_cpu(target);
	else if (target != cpu || reason > ENQ_NEW)
		kick_idle(target);
}

/* One pass through the scheduler on a CPU. */
struct pass {
	u64 now;	/* in: ns */
	u64 sum;	/* in: run time of the task that is put, ns */
	u64 slice;	/* out: ns that the chosen task may run */
	s32 pid;	/* out: the chosen task */
	bool idle;	/* in: the CPU will be idle if nothing is found */
	task_t *moved;	/* out: picked, but has to move */
	s32 to;		/* out: the CPU that it moves to */
};

#include "swap/swap.h"

/* May @cpu, which @prev is about to leave, run @p now, or somebody in its place? */
static __always_inline bool can_run(task_t *p, u32 cpu, task_t *prev)
{
	return p == prev || (p->base.state == TASK_READY && cpu_allowed(p, cpu)) ||
	       swap_can_run(p, cpu, prev);
}

/* Waiting tasks move; a blocked one with a provider counts where somebody can run in its place. */
static __always_inline bool can_move(task_t *p, u32 cpu)
{
	return p->base.state == TASK_READY && cpu_allowed(p, cpu);
}

/* ---- becoming ready ---- */

SEC("struct_ops/select_cpu")
s32 glue_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 prev_cpu = ctx[1], this_cpu;
	bool sync = ctx[2] & WAKE_FLAG_SYNC;
	task_t *t = task_of(p);

	if (!t)
		return prev_cpu;
	this_cpu = bpf_get_smp_processor_id();
	t->base.waker_cpu = sync ? this_cpu : -1;
#ifdef POLICY_SELECTS_CPU
	if (!is_ours(p) || (t->base.fresh && !SELECTS_FORK))
		return prev_cpu;
	return select_task_rq(t, prev_cpu, this_cpu, sync, bpf_ktime_get_ns());
#else
	return prev_cpu;
#endif
}

/* Why ops.enqueue is called for @p, which is not linked. */
static __always_inline u32 enqueue_reason(task_t *p, u64 enq_flags)
{
	if (p->base.fresh) {
		p->base.fresh = false;
		count(nr_forks);
		return ENQ_NEW;
	}
	if (enq_flags & ENQ_FLAG_WAKEUP) {
		count(nr_wakeups);
		return ENQ_WAKE;
	}
	return ENQ_JOINED;
}

/*
 * @p comes into our custody: after a wakeup, a fork, losing its CPU, or a
 * change of nice, CPU mask or class. After the latter but the last it is still
 * linked, and stays where it is unless its new mask forbids that.
 */
SEC("struct_ops/enqueue")
void glue_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 enq_flags = ctx[1];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	bool relink = false;
	u32 reason;

	if (!t || !is_ours(p)) {
		if (enq_flags & ENQ_FLAG_WAKEUP)
			enq_flags |= ENQ_FLAG_PREEMPT;
		count(nr_bypasses);
		dsq_insert(p, DSQ_LOCAL, SLICE_DFL, enq_flags);
		return;
	}
	t->base.pid = p->pid;
	t->base.mm = (u64)p->mm;
#ifdef POLICY_READS_TASK
	relink = read_task(t, p);
#endif
	if (enq_flags & ENQ_FLAG_WAKEUP && swap_wakes(t, cpu)) {
		count(nr_wakeups);
		goto ready;
	}
	if (t->base.rq == RQ_NONE) {
		/* what it ran in another class is not ours to charge */
		t->base.charged = p->se.sum_exec_runtime;
		reason = enqueue_reason(t, enq_flags);
	} else if (relink || !linked_well(t, cpu)) {
		unlink_task(t, bpf_ktime_get_ns(), DEQ_MOVED);
		reason = ENQ_MOVED;
	} else {
		bool preempted = t->base.state == TASK_STOPPED;

		count(nr_requeues);
		if (!PUSHES || !preempted) {
			t->base.state = TASK_READY;
			if (!preempted && cpu_idle(cpu))
				kick_idle(cpu);
			goto ready;
		}
		reason = ENQ_PREEMPTED;
	}
	kick(link_task(t, cpu, bpf_ktime_get_ns(), reason, TASK_READY), cpu, reason);
ready:
	t->base.waker_cpu = -1;
	swap_ready(t, cpu);
}

/* ---- giving a CPU something to run ---- */

enum outcome {
	CHOSE_NONE,
	CHOSE_PREV,
	CHOSE_OTHER,
	CHOSE_REMOTE,	/* SWAP: a task on another CPU's queue */
	CHOSE_WALK,	/* recalculate_task() all tasks first */
	CHOSE_MOVED,	/* move that task first */
	CHOSE_AGAIN,	/* SWAP: who was to run in another's place is gone */
};

/*
 * Whoever lost the CPU to a kernel thread goes on as after an interrupt, unless
 * there was reason to pick meanwhile.
 */
static __always_inline task_t *interrupted_task(cpu_t *c, u32 cpu, task_t *prev)
{
	task_t *p = c->interrupted;

	if (!p)
		return NULL;
	WRITE_ONCE(c->interrupted, NULL);
	if (prev || c->resched || p->base.over || p->base.rq != (s32)rq_of(cpu))
		return NULL;
	if (!can_move(p, cpu))
		return NULL;
	count(nr_resumes);
	return p;
}

/* Does @p, picked by @cpu, have to run elsewhere? Then it is taken off its queue. */
static __always_inline bool take_elsewhere(rq_t *rq, task_t *p, s32 cpu, struct pass *pass)
{
#ifdef POLICY_MOVES_PICKED
	pass->to = picked_cpu(p, cpu);
	if (pass->to == cpu)
		return false;
	dequeue_task(rq, p, DEQ_MOVED);
	p->base.rq = RQ_MOVING;
	pass->moved = p;
	return true;
#else
	return false;
#endif
}

/* @exec runs next on the CPU of queue @nr, which @prev leaves. */
static __always_inline u32 settle_on(task_t *exec, task_t *prev, u32 nr, struct pass *pass)
{
	pass->slice = slice_ns(exec);
	pass->pid = exec->base.pid;
	if (exec->base.rq != (s32)nr)
		return CHOSE_REMOTE;
	if (exec == prev)
		return CHOSE_PREV;
	exec->base.state = TASK_PICKED;
	return CHOSE_OTHER;
}

/*
 * schedule() of the old days: puts the task at @address (0: it blocked, or is none
 * of ours) and picks. That the CPU is going to be idle is noted under the lock, so
 * that a task which becomes ready from then on kicks this CPU. Global, so that the
 * verifier walks it once and not for each way to its call: with SWAP these are ten
 * times as many instructions, more than those before 7.3 walk.
 */
__weak u32 choose(s32 cpu, u64 address, struct pass *pass __arg_nonnull)
{
	task_t *prev = (task_t *)address;
	u32 nr = rq_of(cpu), outcome = CHOSE_NONE;
	cpu_t *c = cpu_nr(cpu);
	rq_t *rq = rq_nr(nr);
	task_t *next, *exec;
	struct lock *lock;

	use_arena();
	lock = lock_rq(nr, pass->now);
	if (!lock)
		return CHOSE_NONE;
	if (prev)
		put_prev(rq, prev, pass->sum);
	swap_begin_pick(cpu);
	next = interrupted_task(c, cpu, prev);
	exec = next;
	if (!next) {
		next = swap_pick_realtime(cpu, prev);
		if (!next)
			next = pick_next_task(rq, cpu, prev);
		exec = swap_stand_in(next, cpu, prev);
		if (exec && exec == next && next != prev && take_elsewhere(rq, next, cpu, pass)) {
			unlock(lock);
			return CHOSE_MOVED;
		}
		if (exec && exec->base.rq == (s32)nr)
			set_next_task(rq, exec, cpu);
	}
	swap_park_stale(cpu, rq);
	WRITE_ONCE(c->resched, false);
	if (rq->base.walk_tasks) {
		rq->base.walk_tasks = false;
		outcome = CHOSE_WALK;
	} else if (exec) {
		c->curr = next;
		c->exec = exec;
		load_mm(c, exec);
		outcome = settle_on(exec, prev, nr, pass);
	} else if (next) {
		outcome = CHOSE_AGAIN;
	} else {
		WRITE_ONCE(c->curr, NULL);
		WRITE_ONCE(c->exec, NULL);
		if (pass->idle)
			set_idle(cpu, pass->now);
	}
	unlock(lock);
	return outcome;
}

#ifdef POLICY_WALKS_TASKS
static __noinline int recalculate_all(u32 nr)
{
	struct lock *lock;
	list_t *pos;

	use_arena();
	count(nr_walks);
	lock = lock_nr(LOCK_TASKS);
	if (!lock)
		return 0;
#ifdef POLICY_HOMES
	list_for_each(pos, &rq_nr(nr)->base.tasks)
		recalculate_task(list_entry(pos, struct task, base.siblings));
#else
	list_for_each(pos, all_tasks)
		recalculate_task(list_entry(pos, struct task, base.all));
#endif
	unlock(lock);
	return 0;
}
#endif

/*
 * Is another CPU than @cpu still switching away from @p, which is in custody
 * already? Kernels up to 7.0 at least pin a task while a BPF program runs as it,
 * and some run until the switch is done: ops.running of the next task, programs on
 * sched_switch. Who hands over a pinned task is ejected. To look for the pin would
 * not do, as the kernel looks later, without a lock; after the switch nothing runs
 * as @p any more.
 */
static __always_inline bool is_leaving_elsewhere(struct task_struct *p, s32 cpu)
{
	return is_on_cpu(p) && scx_bpf_task_cpu(p) != cpu;
}

/*
 * Hands the chosen task to the kernel. The insert comes first, as it records
 * the task's queue sequence: a change of the CPU mask before the test fails the
 * test, one after it changes the sequence and the kernel drops the task. The end of
 * a switch may narrow the mask as well, so whether that has come is asked first.
 */
static __always_inline bool hand_over(s32 cpu, struct pass *pass)
{
	struct task_struct *p = bpf_task_from_pid(pass->pid);
	bool allowed;
	task_t *t;

	if (!p) {
		count(nr_lost_picks);
		return false;
	}
	dsq_insert(p, DSQ_LOCAL, pass->slice, 0);
	allowed = !is_leaving_elsewhere(p, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	if (!allowed) {
		scx_bpf_dispatch_cancel();
		count(nr_cancels);
		t = task_of(p);
		if (t && t->base.state == TASK_PICKED)
			t->base.state = TASK_READY;
	}
	bpf_task_release(p);
	return allowed;
}

/* How often ops.dispatch tries in all, when picks come to nothing. */
#define MAX_TRIES 8

SEC("struct_ops/dispatch")
void glue_dispatch(u64 *ctx)
{
	s32 cpu = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	struct pass pass = { .now = bpf_ktime_get_ns(), .idle = true };
	bool balanced __unused = false;
	task_t *t = NULL;
	u32 i;

	if (prev && prev->scx.flags & TASK_FLAG_QUEUED) {
		pass.idle = false;
		pass.sum = prev->se.sum_exec_runtime;
		if (is_ours(prev))
			t = task_of(prev);
		if (t && t->base.rq != (s32)rq_of(cpu))
			t = NULL;
	}
	for (i = zero; i < MAX_TRIES && can_loop; i++) {
		switch (choose(cpu, (u64)t, &pass)) {
		case CHOSE_PREV:
			if (prev)
				set_slice(prev, pass.slice);
			count(nr_keeps);
			return;
		case CHOSE_REMOTE:
			if (!swap_pull(cpu, &pass))
				break;
			/* fall through */
		case CHOSE_OTHER:
			if (!hand_over(cpu, &pass))
				break;
			count(nr_picks);
			return;
		case CHOSE_AGAIN:
			break;
#ifdef POLICY_WALKS_TASKS
		case CHOSE_WALK:
			recalculate_all(rq_of(cpu));
			break;
#endif
#ifdef POLICY_MOVES_PICKED
		case CHOSE_MOVED:
			count(nr_moves);
			kick(attach_task(pass.moved, pass.to, pass.now), cpu, ENQ_MOVED);
			break;
#endif
		default:
#ifdef POLICY_BALANCES_IDLE
			if (pass.idle && !balanced) {
				balanced = true;
				if (balance_newidle(cpu, pass.now))
					break;
			}
#endif
			count(nr_idles);
			return;
		}
	}
	/* there may be more to pick from: soon again, if there is nothing to run until then */
	if (pass.idle)
		kick_idle(cpu);
}

/*
 * @cpu went idle or is not any more. The former is known from ops.dispatch,
 * but for CPUs that were idle before we were loaded: they have a look once.
 */
SEC("struct_ops/update_idle")
void glue_update_idle(u64 *ctx)
{
	s32 cpu = ctx[0];
	bool idle = ctx[1];

	use_arena();
	if (!idle) {
		clear_idle(cpu);
	} else if (!cpu_idle(cpu)) {
		set_idle(cpu, bpf_ktime_get_ns());
		kick_idle(cpu);
	}
}

/* ---- running ---- */

SEC("struct_ops/running")
void glue_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	cpu_t *c = cpu_nr(cpu);
	u64 now;

	if (!t)
		return;
	if (cpu_idle(cpu)) {
		if (tick_sampling)
			c->sampled = bpf_ktime_get_ns();
		clear_idle(cpu);
	}
	if (!is_ours(p)) {
		if (!c->interrupted)
			WRITE_ONCE(c->curr, NULL);
		WRITE_ONCE(c->exec, NULL);
		return;
	}
	swap_runs(t, cpu);
	if (t->base.rq == (s32)rq_of(cpu)) {
		t->base.state = TASK_RUNNING;
	} else {
		/* it did not come through our dispatch, or not on this CPU */
		count(nr_follows);
		now = bpf_ktime_get_ns();
		if (t->base.rq == RQ_NONE)
			t->base.charged = p->se.sum_exec_runtime;
		unlink_task(t, now, DEQ_MOVED);
		link_task(t, cpu, now, ENQ_MOVED, TASK_RUNNING);
	}
	if (c->exec != t) {
		c->curr = t;
		c->exec = t;
		load_mm(c, t);
	}
}

/* ops.dispatch may have chosen the next task already, or is yet to come. */
SEC("struct_ops/stopping")
void glue_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool runnable = ctx[1];
	s32 cpu = scx_bpf_task_cpu(p);
	task_t *t = task_of(p);
	cpu_t *c = cpu_nr(cpu);

	if (!t || !is_ours(p))
		return;
	if (c->exec == t) {
		WRITE_ONCE(c->exec, NULL);
		if (!runnable)
			WRITE_ONCE(c->curr, NULL);
		else if (c->curr == t)
			c->interrupted = t;
	}
	t->base.state = runnable ? TASK_STOPPED : TASK_NONE;
}

/* Tick of the kernel while @p runs. */
SEC("struct_ops/tick")
void glue_tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 cpu = scx_bpf_task_cpu(p);
	u64 now = bpf_ktime_get_ns(), sum = p->se.sum_exec_runtime, slice;
	u32 nr = rq_of(cpu);
	task_t *t = task_of(p);
	struct lock *lock;
	bool resched;
	rq_t *rq;

	if (!t || !is_ours(p) || t->base.rq != (s32)nr)
		return;
	lock = lock_rq(nr, now);
	if (!lock)
		return;
	rq = rq_nr(nr);
	resched = charge(rq, t, sum, true) || swap_left(t) <= 0;
	if (tick_sampling)
		resched = sample(rq, t, cpu_nr(cpu), now);
	slice = slice_ns(t);
	unlock(lock);
	set_slice(p, resched ? 0 : slice);
#ifdef POLICY_BALANCES
	balance_tick(cpu, now);
#endif
}

SEC("struct_ops/yield")
bool glue_yield(u64 *ctx)
{
	struct task_struct *from = (void *)ctx[0];
	task_t *t = task_of(from);
	struct lock *lock;
	bool resched;
	u32 nr = 0;

	if (!t || !is_ours(from))
		goto reschedule;
	count(nr_yields);
	lock = lock_task_rq(t, bpf_ktime_get_ns(), &nr);
	if (!lock)
		goto reschedule;
	resched = yield_task(rq_nr(nr), t);
	swap_yields(t);
	unlock(lock);
	if (!resched)
		return false;
reschedule:
	set_slice(from, 0);
	return false;
}

/* ---- blocking ---- */

/*
 * Without SLEEP in the flags @p is only off for a moment, while something about
 * it is changed: it stays linked.
 */
SEC("struct_ops/quiescent")
void glue_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 deq_flags = ctx[1], sum = p->se.sum_exec_runtime;
	s32 cpu = scx_bpf_task_cpu(p), where;
	task_t *t = task_of(p);
	struct lock *lock;
	u32 nr = 0;
	rq_t *rq;
	u64 now;

	if (!t || !is_ours(p))
		return;
	t->base.state = TASK_NONE;
	if (!(deq_flags & DEQ_FLAG_SLEEP))
		return;
	t->base.uninterruptible = sleeps_uninterruptibly(p);
	now = bpf_ktime_get_ns();
	swap_blocks(t, p, now);
	lock = lock_task_rq(t, now, &nr);
	if (!lock)
		return;
	rq = rq_nr(nr);
	put_prev(rq, t, sum);
	where = swap_where(t, cpu);
	if (where == NO_CPU) {
		dequeue_task(rq, t, DEQ_SLEEP);
		t->base.rq = RQ_NONE;
	} else {
		t->base.state = TASK_VIRTUAL;
	}
	unlock(lock);
	swap_move(t, cpu, where, now);
}

/* ---- changes of nice, CPU mask, class ---- */

SEC("struct_ops/set_weight")
void glue_set_weight(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 nice = p->static_prio - NICE_TO_STATIC_PRIO(0), old;
	task_t *t = task_of(p);
	struct lock *lock;
	bool resched;
	u32 nr = 0;

	if (!t || t->base.nice == nice)
		return;
	lock = lock_task_rq(t, bpf_ktime_get_ns(), &nr);
	old = t->base.nice;
	t->base.nice = nice;
	if (!lock) {
		prio_changed(NULL, t, old);
		return;
	}
	resched = prio_changed(rq_nr(nr), t, old);
	unlock(lock);
	if (resched)
		preempt_cpu(scx_bpf_task_cpu(p));
}

/* Copies the words that this kernel's masks have. */
static __always_inline void copy_mask(task_t *t, const struct cpumask *mask)
{
#define COPY_WORD(n)                                                          \
	do {                                                                  \
		if (bpf_core_type_size(struct cpumask) > (n) * sizeof(u64))   \
			WRITE_ONCE(t->base.allowed[n], mask->bits[n]);        \
		else                                                          \
			WRITE_ONCE(t->base.allowed[n], 0);                    \
	} while (0)
	COPY_WORD(0);
	COPY_WORD(1);
	COPY_WORD(2);
	COPY_WORD(3);
	COPY_WORD(4);
	COPY_WORD(5);
	COPY_WORD(6);
	COPY_WORD(7);
#undef COPY_WORD
}

SEC("struct_ops/set_cpumask")
void glue_set_cpumask(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	const struct cpumask *mask = (void *)ctx[1];
	task_t *t = task_of(p);

	if (t)
		copy_mask(t, mask);
}

/* @p leaves for another class. */
SEC("struct_ops/disable")
void glue_disable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	task_t *t = task_of(p);

	if (!t)
		return;
	swap_forget(t, true);
	unlink_task(t, bpf_ktime_get_ns(), DEQ_EXIT);
	t->base.state = TASK_NONE;
}

#ifdef POLICY_HAS_TIMER
#include "timer.h"
#endif
#include "task.h"

#define SCHED_OPS(policy)                                \
	SEC(".struct_ops.link")                          \
	struct sched_ext_ops policy##_ops = {            \
		.select_cpu = (void *)glue_select_cpu,   \
		.enqueue = (void *)glue_enqueue,         \
		.dispatch = (void *)glue_dispatch,       \
		.tick = (void *)glue_tick,               \
		.running = (void *)glue_running,         \
		.stopping = (void *)glue_stopping,       \
		.quiescent = (void *)glue_quiescent,     \
		.yield = (void *)glue_yield,             \
		.set_weight = (void *)glue_set_weight,   \
		.set_cpumask = (void *)glue_set_cpumask, \
		.update_idle = (void *)glue_update_idle, \
		.init_task = (void *)glue_init_task,     \
		.exit_task = (void *)glue_exit_task,     \
		.disable = (void *)glue_disable,         \
		.init = (void *)glue_init,               \
		.exit = (void *)glue_exit,               \
		.timeout_ms = 30000,                     \
		.name = #policy,                         \
	}

#endif
