/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - names that differ between kernel versions.
 *
 * Everything is decided when the object is loaded. A function that the kernel lacks is
 * a weak symbol with address 0, a missing member answers false to
 * bpf_core_field_exists(). The verifier drops the branch. So one object serves 6.12
 * and everything after it.
 *
 * Tasks are found by pid, not by scx_bpf_tid_to_task(): the latter needs the
 * ops flag SCX_OPS_TID_TO_TASK, which is part of the object's data and makes
 * older kernels refuse the whole object.
 */
#ifndef SCHEDLAB_COMPAT_H
#define SCHEDLAB_COMPAT_H

#include "kernel.h"
#include "scx/insert.bpf.h"

/* relocation kinds of the compiler's __builtin_preserve_*() */
enum {
	BPF_FIELD_BYTE_OFFSET = 0,
	BPF_FIELD_EXISTS = 2,
	BPF_TYPE_ID_TARGET = 1,
	BPF_TYPE_SIZE = 1,
	BPF_ENUMVAL_VALUE = 1,
};

#define bpf_core_field_exists(field) __builtin_preserve_field_info(field, BPF_FIELD_EXISTS)
#define bpf_core_field_offset(type, field) \
	__builtin_preserve_field_info(((type *)0)->field, BPF_FIELD_BYTE_OFFSET)
#define bpf_core_type_size(type) __builtin_preserve_type_info(*(typeof(type) *)0, BPF_TYPE_SIZE)

/* The running kernel's value of an enumerator. */
#define scx_enum(type, name) \
	((u64)__builtin_preserve_enum_value(*(typeof(enum type) *)name, BPF_ENUMVAL_VALUE))

#define ENQ_FLAG_WAKEUP scx_enum(scx_enq_flags, SCX_ENQ_WAKEUP)
#define ENQ_FLAG_PREEMPT scx_enum(scx_enq_flags, SCX_ENQ_PREEMPT)
#define DEQ_FLAG_SLEEP scx_enum(scx_deq_flags, SCX_DEQ_SLEEP)
#define WAKE_FLAG_SYNC scx_enum(scx_wake_flags, SCX_WAKE_SYNC)
#define KICK_IDLE scx_enum(scx_kick_flags, SCX_KICK_IDLE)
#define KICK_PREEMPT scx_enum(scx_kick_flags, SCX_KICK_PREEMPT)
#define DSQ_LOCAL scx_enum(scx_dsq_id_flags, SCX_DSQ_LOCAL)
#define SLICE_DFL scx_enum(scx_public_consts, SCX_SLICE_DFL)
#define TASK_FLAG_QUEUED scx_enum(scx_ent_flags, SCX_TASK_QUEUED)

/*
 * Is @p on a CPU, be it one that is just switching away from it? The member is an int
 * in older kernels and a byte in newer ones. A load by CO-RE would not fit both. So
 * the byte that both have is read, its place hidden from the compiler.
 */
static __always_inline bool is_on_cpu(struct task_struct *p)
{
	u64 offset;

	if (!bpf_core_field_exists(p->on_cpu))
		return false;
	offset = bpf_core_field_offset(struct task_struct, on_cpu);
	asm volatile("" : "+r"(offset));
	return *((u8 *)p + offset);
}

/* Is the blocking task @p in uninterruptible sleep (waiting for a disk, say)? */
static __always_inline bool sleeps_uninterruptibly(struct task_struct *p)
{
	if (!bpf_core_field_exists(p->__state))
		return false;
	return p->__state & TASK_UNINTERRUPTIBLE;
}

#endif
