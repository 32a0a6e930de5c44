/* SPDX-License-Identifier: GPL-2.0-only */
/* order_searched.bpf.c - makes a long list, and asks again and again for the place of its last node. */
#include "hostile.h"

struct bpf_list_head {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_root;
struct bpf_rb_node {};
struct bpf_list_node {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct item {
	struct bpf_list_node node;
};

void *bpf_obj_new_impl(u64 type, void *meta) __ksym;
int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __ksym;
struct bpf_rb_node *bpf_rbtree_left(struct bpf_list_head *root, struct bpf_list_node *node) __ksym;

#define PRIVATE SEC(".data.order") __attribute__((visibility("hidden"), aligned(8)))

PRIVATE struct bpf_spin_lock lock;
PRIVATE struct bpf_list_head list __attribute__((btf_decl_tag("contains:item:node")));

static struct item *last;

static long append(u64 pass, void *context)
{
	struct item *item = bpf_obj_new_impl(__builtin_btf_type_id(*(struct item *)0, 0), NULL);

	if (!item)
		return 1;
	bpf_spin_lock(&lock);
	bpf_list_push_back_impl(&list, &item->node, NULL, 0);
	bpf_spin_unlock(&lock);
	last = item;
	return 0;
}

static long search(u64 pass, void *context)
{
	bpf_spin_lock(&lock);
	bpf_rbtree_left(&list, &last->node);
	bpf_spin_unlock(&lock);
	return 0;
}

SEC("struct_ops/enqueue")
void hostile_enqueue(u64 *ctx)
{
	if (!last)
		bpf_loop(MIB, append, NULL, 0);
	if (last)
		bpf_loop(MOST_LOOPS, search, NULL, 0);
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, SLICE_DFL, 0);
}

SCHEDULER(.enqueue = (void *)hostile_enqueue);
