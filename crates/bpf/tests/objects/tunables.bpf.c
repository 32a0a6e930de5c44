// SPDX-License-Identifier: MIT OR Apache-2.0
/* Variables that say what they mean and take, and one that does not. */
#include "mini.h"

#define TAG(text) __attribute__((btf_decl_tag("tunable:" text)))

enum mode { SLOW = 1, FAST = 7 };

const volatile u32 plain = 3;
const volatile u32 weight TAG("percent|1|100||weight of the own average") = 50;
const volatile u64 tick_ns TAG("ns|100|900|1 ms|length of a tick") = 0;
const volatile s64 offset TAG("|-5|5||how far it is off") = 0;
const volatile u32 of_type[3] TAG("|1|9|weight|weight by type") = {};
const volatile enum mode mode TAG("||||how it works") = SLOW;
const volatile bool boost TAG("||||a woken task goes first") = 1;
const volatile char label[8] TAG("||||what it is called") = "";
volatile u64 nr_most TAG("tasks|1|8||how many are allowed") = 4;
u64 nr_seen __attribute__((btf_decl_tag("tasks that were seen")));

SEC("syscall")
int main_program(void *ctx)
{
	nr_seen += plain + weight + tick_ns + offset + of_type[0] + mode + boost + label[0] + nr_most;
	return 0;
}
