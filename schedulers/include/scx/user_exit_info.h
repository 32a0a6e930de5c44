/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * user_exit_info.h - why a scheduler left. A BPF source gets UEI_DEFINE() and UEI_RECORD(); a loader in C gets what reads them
 * from its skeleton.
 */
#ifndef __USER_EXIT_INFO_H
#define __USER_EXIT_INFO_H

#ifdef __bpf__
#include "user_exit_info.bpf.h"
#else
#include <stdio.h>
#include "user_exit_info_common.h"

/* Has the scheduler left? The atomic step orders the reads that follow. */
#define UEI_EXITED(skel, name) __sync_val_compare_and_swap(&(skel)->data->name.kind, -1, -1)

/* Prints why it left, and gives its exit code. */
#define UEI_REPORT(skel, name)                                                                \
	({                                                                                    \
		struct user_exit_info *__info = &(skel)->data->name;                          \
		const char *__dump = (skel)->data_##name##_dump->name##_dump;                 \
		if (__dump[0])                                                                \
			fprintf(stderr, "\nDEBUG DUMP\n%s\n", __dump);                        \
		fprintf(stderr, "EXIT: %s%s%s%s\n", __info->reason, __info->msg[0] ? " (" : "", \
			__info->msg, __info->msg[0] ? ")" : "");                              \
		__info->exit_code;                                                            \
	})
#endif

/* Parts of an exit code: the scheduler's own, and the kernel's reason and wish. */
#define UEI_ECODE_USER_MASK 0xffffffffull
#define UEI_ECODE_SYS_RSN_MASK (0xffffull << 32)
#define UEI_ECODE_SYS_ACT_MASK (0xffffull << 48)
#define UEI_ECODE_USER(code) ((code) & UEI_ECODE_USER_MASK)
#define UEI_ECODE_SYS_RSN(code) ((code) & UEI_ECODE_SYS_RSN_MASK)
#define UEI_ECODE_SYS_ACT(code) ((code) & UEI_ECODE_SYS_ACT_MASK)
#define UEI_ECODE_RESTART(code) (UEI_ECODE_SYS_ACT(code) == 1ull << 48)

#endif
