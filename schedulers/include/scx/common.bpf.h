/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * common.bpf.h - what a sched_ext scheduler includes: `#include <scx/common.bpf.h>` and nothing else.
 *
 * Names, macros and what they take are those of tools/sched_ext/include in Linux 7.3, so a source that compiles here compiles
 * there unchanged, and in sched-ext/scx. The text is our own. Objects need no loader to fill in the kernel's enumerators:
 * CO-RE does that (enums.bpf.h).
 *
 * `schedlab check --vmlinux-h vmlinux.h` writes vmlinux.h and, beside it, the folders bpf and scx.
 */
#ifndef __SCX_COMMON_BPF_H
#define __SCX_COMMON_BPF_H

/* Functions that the kernel has had in several forms are declared below, not in vmlinux.h. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "compiler.bpf.h"
#include "tags.h"
#include "errno.bpf.h"
#include "enum_defs.autogen.h"
#include "enums.bpf.h"
#include "bpf_arena_common.bpf.h"
#include "kfuncs.bpf.h"
#include "ops.bpf.h"
#include "arith.bpf.h"
#include "user_exit_info.bpf.h"
#include "compat.bpf.h"
#include "task.bpf.h"
#include "cid.bpf.h"

#endif
