// SPDX-License-Identifier: MIT OR Apache-2.0
/* Every kind of map, driven from a program. Results go to `out`, one per question. */
#include "mini.h"

struct value {
	u64 a;
	struct bpf_spin_lock lock;
	u32 b;
};

struct timed {
	u64 fired;
	struct bpf_timer timer;
};

struct object;
struct holder {
	struct object __kptr *ptr;
};

#define MAP(name_, type_, key_, value_, max_)                                                                  \
	struct {                                                                                               \
		__uint(type, type_);                                                                           \
		__uint(max_entries, max_);                                                                     \
		__type(key, key_);                                                                             \
		__type(value, value_);                                                                         \
	} name_ SEC(".maps")

MAP(array, BPF_ARRAY, u32, struct value, 4);
MAP(hash, BPF_HASH, u32, struct value, 3);
MAP(lru, BPF_LRU_HASH, u64, u64, 2);
MAP(percpu, BPF_PERCPU_ARRAY, u32, u64, 2);
MAP(percpu_hash, BPF_PERCPU_HASH, u32, u64, 2);
MAP(timers, BPF_ARRAY, u32, struct timed, 2);
MAP(holders, BPF_ARRAY, u32, struct holder, 1);

struct {
	__uint(type, BPF_QUEUE);
	__uint(max_entries, 2);
	__type(value, u32);
} queue SEC(".maps");

struct {
	__uint(type, BPF_STACK);
	__uint(max_entries, 2);
	__type(value, u32);
} stack SEC(".maps");

struct {
	__uint(type, BPF_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, BPF_TASK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u64);
} tasks SEC(".maps");

struct inner {
	__uint(type, BPF_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} first SEC(".maps"), second SEC(".maps");

struct {
	__uint(type, BPF_ARRAY_OF_MAPS);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = {
	.values = { [0] = &first, [2] = &second },
};

struct {
	__uint(type, BPF_ARENA);
	__uint(map_flags, 1024);
	__uint(max_entries, 64);
} arena SEC(".maps");

extern void __arena *bpf_arena_alloc_pages(void *map, void __arena *at, u32 pages, int node, u64 flags) __ksym __weak;
extern void bpf_arena_free_pages(void *map, void __arena *at, u32 pages) __ksym __weak;

int __arena in_arena = 41;
s64 out[64];

static long sum(void *map, u32 *key, struct value *value, u64 *total)
{
	*total += *key * 100 + value->a;
	return 0;
}

SEC("syscall")
int hashes(void *ctx)
{
	struct value v = { .a = 1, .b = 2 };
	struct value *p;
	u32 key = 10;
	u64 total = 0, wide = 1, one = 1;

	out[0] = (s64)map_lookup(&hash, &key);
	out[1] = map_update(&hash, &key, &v, 2);
	out[2] = map_update(&hash, &key, &v, 1);
	out[3] = map_update(&hash, &key, &v, 1);
	p = map_lookup(&hash, &key);
	if (!p)
		return 1;
	p->lock.val = 99;
	v.a = 5;
	map_update(&hash, &key, &v, 0);
	out[4] = p->a * 1000 + p->lock.val;
	key = 20;
	map_update(&hash, &key, &v, 0);
	key = 30;
	map_update(&hash, &key, &v, 0);
	key = 40;
	out[5] = map_update(&hash, &key, &v, 0);
	key = 20;
	out[6] = map_delete(&hash, &key);
	out[7] = map_delete(&hash, &key);
	out[8] = for_each_map_elem(&hash, sum, &total, 0);
	out[9] = total;
	map_update(&lru, &wide, &one, 0);
	wide = 2;
	map_update(&lru, &wide, &one, 0);
	wide = 1;
	map_lookup(&lru, &wide);
	wide = 3;
	out[10] = map_update(&lru, &wide, &one, 0);
	wide = 2;
	out[11] = (s64)map_lookup(&lru, &wide);
	return 0;
}

SEC("syscall")
int arrays(void *ctx)
{
	struct value v = { .a = 7 };
	struct value *p;
	u64 one = 11, *n;
	u32 key = 3, other = 4;
	void *m;

	out[0] = map_update(&array, &key, &v, 0);
	out[1] = map_update(&array, &other, &v, 0);
	out[2] = map_update(&array, &key, &v, 1);
	out[3] = map_delete(&array, &key);
	p = map_lookup(&array, &key);
	out[4] = p ? p->a : -1;
	out[5] = (s64)map_lookup(&array, &other);
	key = 1;
	map_update(&percpu, &key, &one, 0);
	n = map_lookup_percpu(&percpu, &key, 0);
	out[6] = n ? *n : -1;
	n = map_lookup_percpu(&percpu, &key, 1);
	out[7] = n ? *n : -1;
	out[8] = (s64)map_lookup_percpu(&percpu, &key, 99);
	map_update(&percpu_hash, &key, &one, 0);
	n = map_lookup_percpu(&percpu_hash, &key, 1);
	out[9] = n ? *n : -1;
	key = 2;
	m = map_lookup(&outer, &key);
	if (m) {
		key = 1;
		map_update(m, &key, &one, 0);
	}
	n = map_lookup(&second, &key);
	out[10] = n ? *n : -1;
	key = 1;
	out[11] = (s64)map_lookup(&outer, &key);
	return 0;
}

SEC("syscall")
int queues(void *ctx)
{
	u32 v = 1, got = 0;
	u64 *record;

	out[0] = map_pop(&queue, &got);
	map_push(&queue, &v, 0);
	map_push(&stack, &v, 0);
	v = 2;
	map_push(&queue, &v, 0);
	map_push(&stack, &v, 0);
	v = 3;
	out[1] = map_push(&queue, &v, 0);
	out[2] = map_push(&queue, &v, 2);
	map_pop(&queue, &got);
	out[3] = got;
	map_pop(&stack, &got);
	out[4] = got;
	map_peek(&stack, &got);
	out[5] = got;
	record = ringbuf_reserve(&ring, 16, 0);
	if (record) {
		record[0] = 123;
		ringbuf_submit(record, 0);
	}
	record = ringbuf_reserve(&ring, 16, 0);
	if (record)
		ringbuf_discard(record, 0);
	v = 9;
	out[6] = ringbuf_output(&ring, &v, sizeof(v), 0);
	out[7] = (s64)ringbuf_reserve(&ring, 8192, 0);
	return 0;
}

SEC("syscall")
int storage(void *ctx)
{
	void *me = get_current_task_btf();
	u64 start = 50, *n;

	out[0] = (s64)task_storage_get(&tasks, me, NULL, 0);
	n = task_storage_get(&tasks, me, &start, 1);
	if (n)
		*n += 1;
	n = task_storage_get(&tasks, me, NULL, 0);
	out[1] = n ? *n : -1;
	out[2] = task_storage_delete(&tasks, me);
	out[3] = task_storage_delete(&tasks, me);
	out[4] = (s64)task_storage_get(&tasks, NULL, NULL, 1);
	return 0;
}

SEC("syscall")
int pages(void *ctx)
{
	u64 __arena *page = bpf_arena_alloc_pages(&arena, NULL, 2, -1, 0);
	u64 __arena *next;

	out[0] = in_arena++;
	if (!page)
		return 1;
	page[3] = 17;
	out[1] = page[3];
	next = bpf_arena_alloc_pages(&arena, NULL, 1, -1, 0);
	out[2] = (u64)next - (u64)page;
	bpf_arena_free_pages(&arena, page, 2);
	out[3] = (s64)bpf_arena_alloc_pages(&arena, NULL, 64, -1, 0);
	out[4] = in_arena;
	return 0;
}

static int fired(void *map, u32 *key, struct timed *t)
{
	t->fired += *key + 1;
	return 0;
}

SEC("syscall")
int timing(void *ctx)
{
	u32 key = 1;
	struct timed *t = map_lookup(&timers, &key);
	struct holder *h;

	if (!t)
		return 1;
	out[0] = timer_start(&t->timer, 1000, 0);
	out[1] = timer_init(&t->timer, &timers, 1);
	out[2] = timer_init(&t->timer, &timers, 1);
	out[3] = timer_start(&t->timer, 1000, 0);
	out[4] = timer_set_callback(&t->timer, fired);
	out[5] = timer_start(&t->timer, 1000, 0);
	key = 0;
	h = map_lookup(&holders, &key);
	if (!h)
		return 1;
	out[6] = (s64)kptr_xchg(&h->ptr, (void *)get_current_task_btf());
	out[7] = (s64)kptr_xchg(&h->ptr, NULL) == (s64)get_current_task_btf();
	return 0;
}

SEC("syscall")
int texts(void *ctx)
{
	static const char form[] = "%s=%d|%04x", name[] = "prio";
	char to[32] = {};
	u64 data[3];

	/* Not an initialiser: that would be a pointer in .rodata, which loaders leave 0. */
	data[0] = (u64)name;
	data[1] = -3;
	data[2] = 0xab;

	out[0] = snprintf_(to, sizeof(to), form, data, sizeof(data));
	out[1] = strncmp_(to, sizeof(to), "prio=-3|00ab");
	out[2] = probe_read_kernel(to, 8, (void *)0x10);
	out[3] = to[0];
	out[4] = probe_read_kernel_str(to, 3, "abcdef");
	out[5] = to[1] * 256 + to[2];
	return 0;
}
