/* Calls something between taking a lock and giving it back; `what` says which. */
#define ENQUEUE                                                            \
	under_lock(p);                                                     \
	scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#include "lab.h"

/* In the order of the tests' table. */
enum what { NOTHING, EXCHANGE, NUMBERS, RESILIENT, LOOKUP, CPU, CLOCK, RCU, KFUNC, NESTED, ORDER, OTHER_KIND };

const volatile enum what what = NOTHING;

struct bpf_res_spin_lock {
	u32 val;
};
struct bpf_iter_num {
	u64 opaque;
} __attribute__((aligned(8)));

int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
static void *(*const kptr_xchg)(void *place, void *pointer) = (void *)194;

#define __kptr __attribute__((btf_type_tag("kptr")))

struct entry {
	struct bpf_spin_lock lock;
	struct bpf_cpumask __kptr *mask;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct nested {
	struct bpf_res_spin_lock lock;
};
struct {
	__uint(type, 2);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct nested);
} resilient SEC(".maps");

u64 nr_done;

static void count_to_three(void)
{
	struct bpf_iter_num it;

	if (!bpf_iter_num_new(&it, 0, 3))
		while (bpf_iter_num_next(&it))
			nr_done++;
	bpf_iter_num_destroy(&it);
}

static void call(struct task_struct *p, struct entry *e, struct nested *first, struct nested *second)
{
	u32 key = 0;

	switch (what) {
	case NOTHING:
		break;
	case EXCHANGE:
		kptr_xchg(&e->mask, NULL);
		break;
	case NUMBERS:
		count_to_three();
		break;
	case RESILIENT:
		bpf_res_spin_lock(&first->lock);
		bpf_res_spin_lock(&second->lock);
		bpf_res_spin_unlock(&second->lock);
		bpf_res_spin_unlock(&first->lock);
		break;
	case LOOKUP:
		nr_done += map_lookup(&entries, &key) != NULL;
		break;
	case CPU:
		nr_done += this_cpu() + 1;
		break;
	case CLOCK:
		nr_done += ktime_get_ns();
		break;
	case RCU:
		bpf_rcu_read_lock();
		bpf_rcu_read_unlock();
		break;
	case KFUNC:
		nr_done += scx_bpf_task_cpu(p) + 1;
		break;
	case NESTED:
		bpf_res_spin_lock(&first->lock);
		nr_done += map_lookup(&entries, &key) != NULL;
		bpf_res_spin_unlock(&first->lock);
		break;
	case ORDER:
		bpf_res_spin_lock(&first->lock);
		bpf_res_spin_lock(&second->lock);
		bpf_res_spin_unlock(&first->lock);
		bpf_res_spin_unlock(&second->lock);
		break;
	case OTHER_KIND:
		bpf_res_spin_unlock((void *)&e->lock);
		break;
	}
}

static void under_lock(struct task_struct *p)
{
	u32 zero = 0, one = 1;
	struct entry *e = map_lookup(&entries, &zero);
	struct nested *first = map_lookup(&resilient, &zero), *second = map_lookup(&resilient, &one);

	if (!e || !first || !second)
		return;
	/* Only resilient locks nest: of those the second may be taken under the first alone. */
	if (what != NESTED && what != ORDER)
		spin_lock(&e->lock);
	call(p, e, first, second);
	if (what != NESTED && what != ORDER)
		spin_unlock(&e->lock);
	nr_done++;
}
SCHEDULER
