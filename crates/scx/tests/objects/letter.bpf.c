/* What programs see of tasks, CPUs and constants, and questions that end the scheduler. */
#define EXIT                                                               \
	exit_code = info->exit_code;                                       \
	exit_cpu = info->exit_cpu;                                         \
	exit_flags = info->flags
#define INIT                                                               \
	constants[0] = __SCX_SLICE_DFL;                                    \
	constants[1] = __COMPAT_SCX_PICK_IDLE_IN_NODE;                     \
	constants[2] = __SCX_NO_SUCH_THING
#define ENQUEUE                                                            \
	u64 state = p->scx.ops_state.counter;                              \
	nr_bad_enqueue += (state & 3) != QUEUEING || !(state >> 2) ||      \
			  p->scx.runnable_cpu != scx_bpf_task_cpu(p) ||    \
			  jiffies64() - p->scx.runnable_at > 100;          \
	look_at_idle(0);                                                   \
	look_at_idle(1);                                                   \
	question(p);                                                       \
	if (ask == ASK_IMMED) {                                            \
		scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_DFL, ENQ_IMMED);    \
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);                  \
	} else                                                             \
		scx_bpf_dsq_insert(p, SHARED, SLICE_DFL, enq_flags)
#define MORE_OPS                                                           \
	.select_cpu = (void *)letter_select_cpu,                           \
	.running = (void *)letter_running,                                 \
	.stopping = (void *)letter_stopping,                               \
	.init_task = (void *)letter_init_task,
#include "lab.h"

s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *allowed, int node, u64 flags) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask_node(int node) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
struct task_struct *scx_bpf_cpu_curr(s32 cpu) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 size) __ksym;

#define LOCAL_ON 0xc000000000000000ull
#define ENQ_IMMED (1ull << 33)
#define STATE_MASK 0x700
#define INIT_BEGIN 0x100
#define QUEUEING 1
/* PF_IDLE, PF_KTHREAD, PF_NO_SETAFFINITY, and where it was forked PF_FORKNOEXEC */
#define IDLE_FLAGS(cpu) ((cpu) ? 0x04200042 : 0x04200002)

/* What a loader fills in; the last one is no constant of the kernel. */
const volatile u64 __SCX_SLICE_DFL = 0;
const volatile u64 __COMPAT_SCX_PICK_IDLE_IN_NODE = 0;
const volatile u64 __SCX_NO_SUCH_THING = 0;

enum question {
	ASK_NOTHING,
	ASK_NR_QUEUED,
	ASK_CPUPERF,
	ASK_SELECT,
	ASK_STRANGER,
	ASK_SUB,
	ASK_EXIT,
	ASK_DISALLOW,
	ASK_IMMED,
	ASK_NODES,
};
const volatile enum question ask = ASK_NOTHING;

static char first[] = "first";
static char second[] = "second";
unsigned long long nothing;
u64 constants[3];
struct task_struct *before;
/* How often something was as it is not in the kernel, by what. */
u64 nr_bad_enqueue;
u64 nr_bad_running;
u64 nr_bad_stopping;
u64 nr_bad_init;
u64 nr_bad_idle;
u64 nr_idle;
s32 picked[3];
bool masks_apart;
s64 exit_code;
s32 exit_cpu;
u64 exit_flags;

static void look_at_idle(s32 cpu)
{
	struct task_struct *p = scx_bpf_cpu_curr(cpu);

	if (!p || p->pid)
		return;
	nr_idle++;
	nr_bad_idle += p->flags != IDLE_FLAGS(cpu) || !p->on_rq || !p->on_cpu || p->prio != 120 ||
		       p->scx.runnable_cpu != -1 || !p->scx.slice || !scx_bpf_task_running(p) ||
		       scx_bpf_task_set_slice(p, 1);
	p->scx.slice = SLICE_DFL;
}

static void question(struct task_struct *p)
{
	const struct cpumask *zero, *one;
	bool idle;

	switch (ask) {
	case ASK_NR_QUEUED:
		scx_bpf_dsq_nr_queued(LOCAL_ON | 99);
		break;
	case ASK_CPUPERF:
		scx_bpf_cpuperf_set(scx_bpf_task_cpu(p), 512);
		scx_bpf_cpuperf_set(!scx_bpf_task_cpu(p), 512);
		break;
	case ASK_SELECT:
		scx_bpf_select_cpu_dfl(p, 99, 0, &idle);
		break;
	case ASK_STRANGER:
		/* Tasks of one CPU are no strangers to each other there. */
		if (before && scx_bpf_task_cpu(before) != scx_bpf_task_cpu(p))
			scx_bpf_select_cpu_dfl(before, 0, 0, &idle);
		before = p;
		break;
	case ASK_SUB:
		scx_bpf_sub_kill_bstr(7, first, &nothing, 0);
		break;
	case ASK_EXIT:
		scx_bpf_exit_bstr(7, first, &nothing, 0);
		scx_bpf_exit_bstr(8, second, &nothing, 0);
		break;
	case ASK_NODES:
		/* What is picked stays taken. */
		if (masks_apart)
			break;
		zero = scx_bpf_get_idle_cpumask_node(0);
		one = scx_bpf_get_idle_cpumask_node(1);
		masks_apart = zero != one;
		scx_bpf_put_idle_cpumask(zero);
		scx_bpf_put_idle_cpumask(one);
		for (int at = 0; at < 3; at++)
			picked[at] = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, 1, 0);
		break;
	default:
		break;
	}
}

/* Leaves the choice to the queue, so that each wakeup comes to enqueue(). */
SEC("struct_ops/letter_select_cpu")
s32 letter_select_cpu(u64 *ctx)
{
	return ctx[1];
}

SEC("struct_ops/letter_running")
void letter_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	nr_bad_running += p->scx.ops_state.counter != 0;
}

SEC("struct_ops/letter_stopping")
void letter_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	nr_bad_stopping += p->scx.ops_state.counter != 0 || p->scx.runnable_cpu != -1;
}

SEC("struct_ops/letter_init_task")
s32 letter_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	nr_bad_init += (p->scx.flags & STATE_MASK) != INIT_BEGIN || scx_bpf_task_set_slice(p, 1);
	if (ask == ASK_DISALLOW)
		p->scx.disallow = true;
	return 0;
}

SCHEDULER
