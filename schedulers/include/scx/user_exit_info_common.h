/* SPDX-License-Identifier: GPL-2.0-only */
/* user_exit_info_common.h - why a scheduler left, as its BPF part tells its loader. Types are those of the language: both include this. */
#ifndef __USER_EXIT_INFO_COMMON_H
#define __USER_EXIT_INFO_COMMON_H

enum uei_sizes {
	UEI_REASON_LEN = 128,
	UEI_MSG_LEN = 1024,
	UEI_DUMP_DFL_LEN = 32768,
};

struct user_exit_info {
	int kind;
	/* The CPU that ended it, -1 where the kernel does not say. */
	int exit_cpu;
	long long exit_code;
	char reason[UEI_REASON_LEN];
	char msg[UEI_MSG_LEN];
};

#endif
