/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * user_exit_info.bpf.h - keeps for the loader why the scheduler left: UEI_DEFINE(uei) among the variables, UEI_RECORD(uei, ei)
 * in ops.exit().
 */
#ifndef __USER_EXIT_INFO_BPF_H
#define __USER_EXIT_INFO_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "user_exit_info_common.h"

/* The dump is an array of one byte that the loader makes longer; NAME_dump_len says by how much. */
#define UEI_DEFINE(name)                                   \
	char name##_dump[1] SEC(".data." #name "_dump"); \
	const volatile u32 name##_dump_len;                \
	struct user_exit_info name SEC(".data")

/* The kind is written last, in one atomic step: a loader that sees it sees the rest. */
#define UEI_RECORD(name, ei)                                                             \
	({                                                                               \
		bpf_probe_read_kernel_str(name##_dump, name##_dump_len, (ei)->dump);     \
		bpf_probe_read_kernel_str(name.msg, sizeof(name.msg), (ei)->msg);        \
		bpf_probe_read_kernel_str(name.reason, sizeof(name.reason), (ei)->reason); \
		name.exit_cpu = bpf_core_field_exists((ei)->exit_cpu) ? (ei)->exit_cpu : -1; \
		if (bpf_core_field_exists((ei)->exit_code))                              \
			name.exit_code = (ei)->exit_code;                                \
		__sync_val_compare_and_swap(&name.kind, name.kind, (ei)->kind);          \
	})

#endif
