/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ops.bpf.h - callbacks, the table that names them, messages, and pointers into arrays that the verifier accepts.
 *
 *   void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags) { ... }
 *   s32 BPF_STRUCT_OPS_SLEEPABLE(mine_init) { ... }
 *   SCX_OPS_DEFINE(mine_ops, .enqueue = (void *)mine_enqueue, .init = (void *)mine_init, .name = "mine");
 */
#ifndef SCHEDLAB_OPS_BPF_H
#define SCHEDLAB_OPS_BPF_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kfuncs.bpf.h"

/* A callback. It takes its arguments by type and name; the kernel hands over an array of numbers. */
#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
/* One that may sleep: ops.init, ops.exit, ops.init_task and those of cgroups. */
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

/* The scheduler: its callbacks and numbers, as members of struct sched_ext_ops. */
#define SCX_OPS_DEFINE(variable, ...) \
	SEC(".struct_ops.link") struct sched_ext_ops variable = { __VA_ARGS__ };
/* One whose callbacks take cids in place of CPU numbers. */
#define SCX_OPS_CID_DEFINE(variable, ...) \
	SEC(".struct_ops.link") struct sched_ext_ops_cid variable = { __VA_ARGS__ };

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif
#ifndef NR_CPUS
#define NR_CPUS 1024
#endif
#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif

/* task_struct::flags */
#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_KCOMPACTD 0x00010000
#define PF_KSWAPD 0x00020000
#define PF_KTHREAD 0x00200000

/* In bpf_for_each(scx_dsq, ...): what scx_bpf_dsq_move() and its kin take as their iterator. */
#define BPF_FOR_EACH_ITER (&___it)

/* A counter of scx_bpf_events(); 0 where the kernel does not have it. */
#define scx_read_event(events, name) (bpf_core_field_exists((events)->name) ? (events)->name : 0)

/* Lets the compiler hold a format against its arguments. */
static inline __attribute__((format(printf, 1, 2))) void __scx_check_format(const char *fmt, ...)
{
}

/* The format and the arguments as the kernel takes them. One argument stands there at least: the verifier wants an address. */
#define scx_bpf_bstr_preamble(fmt, args...)                              \
	static char ___fmt[] = fmt;                                      \
	unsigned long long ___param[___bpf_narg(args) ?: 1] = {};        \
	_Pragma("clang diagnostic push");                                \
	_Pragma("clang diagnostic ignored \"-Wint-conversion\"");        \
	___bpf_fill(___param, args);                                     \
	_Pragma("clang diagnostic pop");

#define SCX_STRINGIFY(x) #x
#define SCX_TOSTRING(x) SCX_STRINGIFY(x)
#define __scx_located(fmt) __FILE__ ":" SCX_TOSTRING(__LINE__) ": " fmt

/* Ends the scheduler with an error: scx_bpf_error("no queue for CPU %d", cpu). File and line stand before the message. */
#define scx_bpf_error(fmt, args...)                                          \
	({                                                                   \
		scx_bpf_bstr_preamble(__scx_located(fmt), ##args);           \
		__scx_check_format(fmt, ##args);                             \
		scx_bpf_error_bstr(___fmt, ___param, sizeof(___param));      \
	})

/* Ends the scheduler in good order, with a code for its loader. */
#define scx_bpf_exit(code, fmt, args...)                                     \
	({                                                                   \
		scx_bpf_bstr_preamble(fmt, ##args);                          \
		__scx_check_format(fmt, ##args);                             \
		scx_bpf_exit_bstr(code, ___fmt, ___param, sizeof(___param)); \
	})

/* In ops.dump() and its kin: adds to the dump. */
#define scx_bpf_dump(fmt, args...)                                           \
	({                                                                   \
		scx_bpf_bstr_preamble(fmt, ##args);                          \
		__scx_check_format(fmt, ##args);                             \
		scx_bpf_dump_bstr(___fmt, ___param, sizeof(___param));       \
	})

/* The same, with the kernel's version and compiler. */
#define scx_bpf_dump_header()                                                                \
	scx_bpf_dump("kernel: %d.%d.%d %s\ncc: %s\n", LINUX_KERNEL_VERSION >> 16,            \
		     LINUX_KERNEL_VERSION >> 8 & 0xff, LINUX_KERNEL_VERSION & 0xff,          \
		     CONFIG_LOCALVERSION, CONFIG_CC_VERSION_TEXT)

/* Ends the child scheduler of the cgroup @cgid; an error where the kernel has none. */
#define scx_bpf_sub_kill(cgid, fmt, args...)                                              \
	({                                                                                \
		s32 __killed = -EOPNOTSUPP;                                               \
		scx_bpf_bstr_preamble(fmt, ##args);                                       \
		__scx_check_format(fmt, ##args);                                          \
		if (bpf_ksym_exists(scx_bpf_sub_kill_bstr))                               \
			__killed = scx_bpf_sub_kill_bstr(cgid, ___fmt, ___param,          \
							 sizeof(___param));               \
		__killed;                                                                 \
	})

/* An array in a section of its own, whose loader gives it as many elements as there are CPUs: u64 RESIZABLE_ARRAY(data, name); */
#define RESIZABLE_ARRAY(section, name) name[1] SEC("." #section "." #name)

/*
 * @base + @offset, or NULL where @offset is above @last. The comparison and the addition stand together in assembly, or the
 * compiler may add first and compare later, which the verifier refuses.
 */
static __always_inline u64 __checked_address(u64 base, u64 offset, u64 last)
{
	asm volatile("if %[offset] > %[last] goto +2\n"
		     "%[offset] += %[base]\n"
		     "goto +1\n"
		     "%[offset] = 0\n"
		     : [offset] "+r"(offset)
		     : [base] "r"(base), [last] "r"(last));
	return offset;
}

/* The address of a member or element, NULL where it is outside of @base: MEMBER_VPTR(table, [i][j]), MEMBER_VPTR(*p, .m[i]). */
#ifndef MEMBER_VPTR
#define MEMBER_VPTR(base, member)                                                       \
	((typeof((base) member) *)({                                                    \
		_Static_assert(sizeof(base) >= sizeof((base) member),                   \
			       "MEMBER_VPTR: the base is smaller than its member; dereference a pointer"); \
		__checked_address((u64)&(base), (u64)&((base) member) - (u64)&(base),   \
				  sizeof(base) - sizeof((base) member));                \
	}))
#endif

/* The address of element @i of an array of @n elements, NULL beyond them; for arrays that a loader resizes. */
#ifndef ARRAY_ELEM_PTR
#define ARRAY_ELEM_PTR(arr, i, n)                                           \
	((typeof((arr)[i]) *)__checked_address((u64)(arr), (u64)&(arr)[i] - (u64)(arr), \
					       sizeof((arr)[0]) * ((n) - 1)))
#endif

#endif
