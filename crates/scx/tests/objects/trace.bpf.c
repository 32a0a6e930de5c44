/* Watches trace points, and looks into the registers of a task that blocks. */
#define MORE_OPS .quiescent = (void *)lab_quiescent,
#include "lab.h"

u64 nr_switches;
u64 nr_wakings;
u64 nr_woken_by_tasks;
u64 nr_calls;
u64 nr_odd_calls;
u64 nr_returns;
u64 nr_blocked;
u64 last_call;

SEC("tp_btf/sched_switch") int watch_switch(u64 *ctx)
{
	nr_switches++;
	return 0;
}

SEC("tp_btf/sched_waking") int watch_waking(u64 *ctx)
{
	struct task_struct *current = current_task(), *p = (void *)ctx[0];

	nr_wakings++;
	if (current->pid && current->pid != p->pid)
		nr_woken_by_tasks++;
	return 0;
}

SEC("tp_btf/sys_enter") int watch_enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];

	nr_calls++;
	if (regs->orig_ax != ctx[1])
		nr_odd_calls++;
	return 0;
}

SEC("tp_btf/sys_exit") int watch_exit(u64 *ctx)
{
	nr_returns++;
	return 0;
}

SEC("struct_ops/lab_quiescent") void lab_quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct pt_regs *regs = (void *)task_pt_regs(p);

	if (!(ctx[1] & 1))
		return;
	nr_blocked++;
	last_call = regs->orig_ax;
}
SCHEDULER
