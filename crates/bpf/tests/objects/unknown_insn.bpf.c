// SPDX-License-Identifier: MIT OR Apache-2.0
/* An instruction that no machine knows, behind two that all do. */
#include "mini.h"

SEC("syscall")
int odd(void *ctx)
{
	asm volatile("r1 = 1; r2 = 2;" ::: "r1", "r2");
	asm volatile(".byte 0xff, 0, 0, 0, 0, 0, 0, 0");
	return 0;
}
