/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * enums.bpf.h - the running kernel's values of enumerators, under their own names.
 *
 * An enumerator's value may change between kernels. So each name below is a macro that CO-RE replaces by the value of the kernel
 * that loads the object; no loader has to fill it in. Enumerators that came after 6.12 are 0 where the kernel lacks them.
 *
 * A macro is not a constant of the language. Static arrays and enumerators need other ones.
 */
#ifndef __SCX_ENUMS_BPF_H
#define __SCX_ENUMS_BPF_H

#include <bpf/bpf_core_read.h>

#define __scx_enum(type, name) ((u64)bpf_core_enum_value(enum type, name))
#define __scx_enum_or_0(type, name) \
	(bpf_core_enum_value_exists(enum type, name) ? (u64)bpf_core_enum_value(enum type, name) : 0)

#define SCX_SLICE_DFL __scx_enum(scx_public_consts, SCX_SLICE_DFL)
#define SCX_SLICE_INF __scx_enum(scx_public_consts, SCX_SLICE_INF)

#define SCX_DSQ_FLAG_BUILTIN __scx_enum(scx_dsq_id_flags, SCX_DSQ_FLAG_BUILTIN)
#define SCX_DSQ_FLAG_LOCAL_ON __scx_enum(scx_dsq_id_flags, SCX_DSQ_FLAG_LOCAL_ON)
#define SCX_DSQ_INVALID __scx_enum(scx_dsq_id_flags, SCX_DSQ_INVALID)
#define SCX_DSQ_GLOBAL __scx_enum(scx_dsq_id_flags, SCX_DSQ_GLOBAL)
#define SCX_DSQ_LOCAL __scx_enum(scx_dsq_id_flags, SCX_DSQ_LOCAL)
#define SCX_DSQ_LOCAL_ON __scx_enum(scx_dsq_id_flags, SCX_DSQ_LOCAL_ON)
#define SCX_DSQ_LOCAL_CPU_MASK __scx_enum(scx_dsq_id_flags, SCX_DSQ_LOCAL_CPU_MASK)

#define SCX_TASK_QUEUED __scx_enum(scx_ent_flags, SCX_TASK_QUEUED)
#define SCX_TASK_RESET_RUNNABLE_AT __scx_enum(scx_ent_flags, SCX_TASK_RESET_RUNNABLE_AT)
#define SCX_TASK_DEQD_FOR_SLEEP __scx_enum(scx_ent_flags, SCX_TASK_DEQD_FOR_SLEEP)
#define SCX_TASK_DSQ_ON_PRIQ __scx_enum(scx_ent_dsq_flags, SCX_TASK_DSQ_ON_PRIQ)

#define SCX_KICK_IDLE __scx_enum(scx_kick_flags, SCX_KICK_IDLE)
#define SCX_KICK_PREEMPT __scx_enum(scx_kick_flags, SCX_KICK_PREEMPT)
#define SCX_KICK_WAIT __scx_enum(scx_kick_flags, SCX_KICK_WAIT)

#define SCX_ENQ_WAKEUP __scx_enum(scx_enq_flags, SCX_ENQ_WAKEUP)
#define SCX_ENQ_HEAD __scx_enum(scx_enq_flags, SCX_ENQ_HEAD)
#define SCX_ENQ_PREEMPT __scx_enum(scx_enq_flags, SCX_ENQ_PREEMPT)
#define SCX_ENQ_REENQ __scx_enum(scx_enq_flags, SCX_ENQ_REENQ)
#define SCX_ENQ_LAST __scx_enum(scx_enq_flags, SCX_ENQ_LAST)
#define SCX_ENQ_IMMED __scx_enum_or_0(scx_enq_flags, SCX_ENQ_IMMED)
#define SCX_ENQ_RESCUE __scx_enum_or_0(scx_enq_flags, SCX_ENQ_RESCUE)

#define SCX_DEQ_SCHED_CHANGE __scx_enum_or_0(scx_deq_flags, SCX_DEQ_SCHED_CHANGE)

/* The value of an enumerator that is no macro above, 0 where the kernel lacks it. */
#define __COMPAT_ENUM_OR_ZERO(type, name) \
	((type)(bpf_core_enum_value_exists(type, name) ? bpf_core_enum_value(type, name) : 0))

#endif
