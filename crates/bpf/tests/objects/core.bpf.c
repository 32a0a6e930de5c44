// SPDX-License-Identifier: MIT OR Apache-2.0
/* Questions that CO-RE answers. The kernel side is made in tests/objects.rs, with everything in other places. */
#include "mini.h"

struct place {
	int cpu;
	struct {
		u64 nested;
	};
} __core;

struct task {
	int pid;
	u32 flags : 5;
	u32 state : 3;
	struct place where;
	struct task *parent;
	char comm[16];
	u64 gone;
	u32 grown;
} __core;

struct task___newer {
	u64 only_new;
} __core;

struct absent {
	int x;
} __core;

enum colour { RED = 1, GREEN = 2, BLUE = 3 };
enum colour___v2 { VIOLET___v2 = 9 };

u64 out[32];

SEC("struct_ops/pid")
int read_pid(u64 *ctx)
{
	struct task *t = (void *)ctx[0];

	return t->pid;
}

SEC("struct_ops/walk")
int walk(u64 *ctx)
{
	struct task *t = (void *)ctx[0];

	return t->parent->parent->where.cpu;
}

SEC("struct_ops/answers")
int answers(u64 *ctx)
{
	struct task *t = (void *)ctx[0];
	struct task___newer *n = (void *)t;
	u64 word;

	out[0] = field_exists(t->gone);
	out[1] = field_exists(t->comm);
	out[2] = field_size(t->comm);
	out[3] = field_offset(t->where.nested);
	out[4] = field_exists(n->only_new);
	out[5] = type_exists(struct task);
	out[6] = type_exists(struct absent);
	out[7] = type_size(struct task);
	out[8] = enum_exists(enum colour, RED);
	out[9] = enum_value(enum colour, GREEN);
	out[10] = enum_exists(enum colour, BLUE);
	out[11] = field_signed(t->pid);
	out[12] = field_signed(t->flags);
	out[13] = t->grown;
	out[14] = enum_exists(enum colour___v2, VIOLET___v2);
	out[15] = n->only_new;
	out[16] = t->comm[2];
	word = *(u64 *)((char *)t + field_offset(t->state));
	word <<= field_lshift(t->state);
	word >>= field_rshift(t->state);
	out[17] = word;
	out[18] = type_matches(struct place);
	if (field_exists(t->gone))
		out[19] = t->gone;
	return 0;
}

/* Not guarded: ends when reached, and says why. */
SEC("struct_ops/reach_gone")
int reach_gone(u64 *ctx)
{
	struct task *t = (void *)ctx[0];

	return t->gone;
}

struct test_ops {
	int (*read_pid)(u64 *);
	int (*walk)(u64 *);
	int (*answers)(u64 *);
	int (*reach_gone)(u64 *);
	int (*unset)(u64 *);
	u32 timeout;
	u64 flags;
	char name[16];
};

SEC(".struct_ops.link")
struct test_ops core_ops = {
	.read_pid = (void *)read_pid,
	.walk = (void *)walk,
	.answers = (void *)answers,
	.reach_gone = (void *)reach_gone,
	.timeout = 5,
	.flags = 0x100000001,
	.name = "core",
};
