/* SPDX-License-Identifier: GPL-2.0-only */
/* compiler.bpf.h - what a source says to the compiler and, through it, to the verifier. */
#ifndef SCHEDLAB_COMPILER_BPF_H
#define SCHEDLAB_COMPILER_BPF_H

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
#ifndef __maybe_unused
#define __maybe_unused __attribute__((unused))
#endif

/* Memory of an arena, which programs and user space share. */
#ifndef __arena
#define __arena __attribute__((address_space(1)))
#endif

/*
 * One access, neither cached nor merged with others. clang 19 merges neighbouring stores of zero into a memset and loses the
 * arena's address space on the way, which WRITE_ONCE() prevents.
 */
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

/*
 * Hides the value of @expr from the compiler, and its range from the verifier. A counter in a loop has a new range in every
 * iteration. The verifier walks them all, unless the counter went through here before the loop.
 */
#define __sink(expr) asm volatile("" : "+g"(expr))

/* False once the verifier's budget of iterations (8 million) is used up. */
#define can_loop                                                          \
	({                                                                \
		__label__ out, go;                                        \
		bool more = true;                                         \
		asm volatile goto("may_goto %l[out]" : : : : out);        \
		goto go;                                                  \
out:                                                                      \
		more = false;                                             \
go:;                                                                      \
		more;                                                     \
	})

/* The same inside a loop: leaves it, or goes to @label, once the budget is used up. */
#define cond_break         \
	if (!can_loop)     \
	break
#define cond_break_label(label) \
	if (!can_loop)          \
	goto label

#endif
