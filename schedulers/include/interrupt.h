/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * interrupt.h - what causes a wakeup: the current task, or an interrupt that came
 * while some task happened to run.
 */
#ifndef SCHEDLAB_INTERRUPT_H
#define SCHEDLAB_INTERRUPT_H

#include "calls.h"
#include "compat.h"

/* Where x86 kernels before 6.15 keep the preemption count. */
struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

/* The preemption count of each CPU; one of the two exists. */
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;
/*
 * Bits that say that an interrupt handler runs: hardirq and NMI at 16..23 up to
 * 6.18 or so and at 24..27 since, where 16..23 count sections with interrupts off.
 */
#define HARDIRQ_MASK 0x0fff0000
/* A softirq is being served: after an interrupt, or at the end of a system call that caused it. */
#define SOFTIRQ_SERVED 0x00000100

enum waking_context {
	BY_TASK,	/* the current task, in a system call or on its way out */
	BY_DELIVERY,	/* a softirq delivers what it has just sent to a socket of this machine */
	BY_INTERRUPT,	/* it only happened to run */
};

/*
 * Is the current task in a call that sends to a socket? A softirq on top of that delivers to
 * a socket of this machine; one that follows an interrupt finds some task by chance, which
 * rarely is in such a call.
 */
static __always_inline bool sends(struct task_struct *current)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(current);

	switch ((s64)regs->orig_ax) {
	case SYS_WRITE:
	case SYS_WRITEV:
	case SYS_SENDFILE:
	case SYS_CONNECT:
	case SYS_SENDTO:
	case SYS_SENDMSG:
	case SYS_SHUTDOWN:
	case SYS_SENDMMSG:
		return true;
	default:
		return false;
	}
}

/* What causes the wakeup that is under way? */
static __always_inline enum waking_context waking_context(struct task_struct *current)
{
	u32 *count = NULL;

	if (bpf_ksym_exists(&__preempt_count))
		count = bpf_this_cpu_ptr(&__preempt_count);
	else if (bpf_ksym_exists(&pcpu_hot))
		count = (u32 *)&((struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	if (!count)
		return BY_TASK;
	if (*count & HARDIRQ_MASK)
		return BY_INTERRUPT;
	if (*count & SOFTIRQ_SERVED)
		return sends(current) ? BY_DELIVERY : BY_INTERRUPT;
	return BY_TASK;
}

#endif
