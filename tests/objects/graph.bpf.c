/* SPDX-License-Identifier: GPL-2.0-only */
/* graph.bpf.c - a scheduler that puts numbers into a red-black tree and a linked list as it begins. It shows the order in
 * which they come out: digits of nr_tree and nr_list. */
#include "compat.h"

struct bpf_rb_root {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_node {
	u64 opaque[4];
} __attribute__((aligned(8)));
struct bpf_list_head {
	u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
	u64 opaque[3];
} __attribute__((aligned(8)));

struct leaf {
	struct bpf_rb_node node;
	u64 key;
};

struct item {
	struct bpf_list_node node;
	u64 key;
};

#define local_type(type) __builtin_btf_type_id(*(type *)0, 0)
#define contains(name) __attribute__((btf_decl_tag("contains:" name)))
#define around(ptr, type) ((type *)(ptr)) /* the node is the first member */

extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool (*less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta, u64 off)
	__attribute__((section(".ksyms")));
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __attribute__((section(".ksyms")));
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
	__attribute__((section(".ksyms")));
extern int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off)
	__attribute__((section(".ksyms")));
extern int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off)
	__attribute__((section(".ksyms")));
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __attribute__((section(".ksyms")));
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __attribute__((section(".ksyms")));

static long (*lock_it)(struct bpf_spin_lock *lock) = (void *)93;
static long (*unlock_it)(struct bpf_spin_lock *lock) = (void *)94;

/* Hidden, so that the section is not mapped into user space, which the kernel refuses with a lock in it. */
#define PRIVATE SEC(".data.graph") __attribute__((visibility("hidden"), aligned(8)))

PRIVATE struct bpf_spin_lock lock;
PRIVATE struct bpf_rb_root tree contains("leaf:node");
PRIVATE struct bpf_list_head list contains("item:node");

u64 nr_tree, nr_list, nr_made, nr_enqueued, nr_owned;

/* A list in each value. It stays where the value was, and the next value there has it. */
struct owner {
	struct bpf_spin_lock lock;
	struct bpf_list_head items contains("item:node");
};

struct {
	__uint(type, 1); /* BPF_MAP_TYPE_HASH */
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct owner);
} owners SEC(".maps");

static void *(*look_up)(void *map, const void *key) = (void *)1;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*remove)(void *map, const void *key) = (void *)3;

static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return around(a, struct leaf)->key < around(b, struct leaf)->key;
}

static void grow(u64 key)
{
	struct leaf *leaf = bpf_obj_new_impl(local_type(struct leaf), NULL);

	if (!leaf)
		return;
	nr_made++;
	leaf->key = key;
	lock_it(&lock);
	bpf_rbtree_add_impl(&tree, &leaf->node, less, NULL, 0);
	unlock_it(&lock);
}

static void pick(void)
{
	struct bpf_rb_node *node;

	lock_it(&lock);
	node = bpf_rbtree_first(&tree);
	if (node)
		node = bpf_rbtree_remove(&tree, node);
	unlock_it(&lock);
	if (!node)
		return;
	nr_tree = nr_tree * 10 + around(node, struct leaf)->key;
	bpf_obj_drop_impl(around(node, struct leaf), NULL);
}

static void append(u64 key, bool front)
{
	struct item *item = bpf_obj_new_impl(local_type(struct item), NULL);

	if (!item)
		return;
	nr_made++;
	item->key = key;
	lock_it(&lock);
	if (front)
		bpf_list_push_front_impl(&list, &item->node, NULL, 0);
	else
		bpf_list_push_back_impl(&list, &item->node, NULL, 0);
	unlock_it(&lock);
}

static void take(bool front)
{
	struct bpf_list_node *node;

	lock_it(&lock);
	node = front ? bpf_list_pop_front(&list) : bpf_list_pop_back(&list);
	unlock_it(&lock);
	if (!node)
		return;
	nr_list = nr_list * 10 + around(node, struct item)->key;
	bpf_obj_drop_impl(around(node, struct item), NULL);
}

/* Gives @key to the owner, if it is not 0; takes what the owner has from before into the digits of nr_owned. */
static void own(u64 key)
{
	struct bpf_list_node *node;
	struct item *item = NULL;
	struct owner *owner;
	u32 zero = 0;

	owner = look_up(&owners, &zero);
	if (!owner)
		return;
	lock_it(&owner->lock);
	node = bpf_list_pop_front(&owner->items);
	unlock_it(&owner->lock);
	nr_owned *= 10;
	if (node) {
		nr_owned += around(node, struct item)->key;
		bpf_obj_drop_impl(around(node, struct item), NULL);
	}
	if (key)
		item = bpf_obj_new_impl(local_type(struct item), NULL);
	if (!item)
		return;
	nr_made++;
	item->key = key;
	lock_it(&owner->lock);
	bpf_list_push_back_impl(&owner->items, &item->node, NULL, 0);
	unlock_it(&owner->lock);
}

static void start_anew(void)
{
	struct owner empty = {};
	u32 zero = 0;

	remove(&owners, &zero);
	update(&owners, &zero, &empty, 0);
}

SEC("struct_ops.s/init")
int graph_init(u64 *ctx)
{
	grow(5);
	grow(2);
	grow(8);
	grow(2);
	grow(1);
	pick();
	grow(9);
	pick();
	pick();
	pick();
	pick();
	pick();
	pick();
	append(1, false);
	append(2, false);
	append(3, true);
	append(4, false);
	take(true);
	take(false);
	take(true);
	start_anew();
	own(6);
	own(7);
	start_anew();
	own(0);
	return 0;
}

SEC("struct_ops/enqueue")
void graph_enqueue(u64 *ctx)
{
	nr_enqueued++;
	scx_bpf_dsq_insert((void *)ctx[0], DSQ_LOCAL, 5 * MS, 0);
}

SEC(".struct_ops.link")
struct sched_ext_ops graph_ops = {
	.init = (void *)graph_init,
	.enqueue = (void *)graph_enqueue,
	.name = "graph",
};

char _license[] SEC("license") = "GPL";
