/* SPDX-License-Identifier: GPL-2.0-only */
/* cids.bpf.c - sets of cids in the memory of an arena. `nr_wrong` counts answers that cannot be. */
#include <scx/common.bpf.h>

#define CIDS 130

u64 nr_checks, nr_wrong;

UEI_DEFINE(uei);

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
	__ulong(map_extra, 0x1ull << 44);
} arena SEC(".maps");

static void expect(bool is_right)
{
	nr_checks++;
	if (unlikely(!is_right))
		nr_wrong++;
}

/* Sets of cids in the arena: @a has every third cid, @b every second one. */
static void use_cids(void)
{
	struct scx_cmask __arena *a = bpf_arena_alloc_pages(&arena, NULL, 1, NUMA_NO_NODE, 0), *b;
	u32 cid, seen = 0;

	if (!a)
		return;
	b = (void __arena *)a + struct_size_t(struct scx_cmask, bits, CMASK_NR_WORDS(CIDS));
	cmask_init(a, 0, CIDS);
	cmask_init(b, 0, CIDS);
	bpf_for(cid, 0, CIDS) {
		if (cid % 3 == 0)
			cmask_set(cid, a);
		if (cid % 2 == 0)
			__cmask_set(cid, b);
	}
	expect(cmask_weight(a) == 44 && cmask_weight(b) == 65);
	expect(cmask_test(129, a) && !cmask_test(130, a) && !cmask_test(1, a));
	expect(cmask_next_set(a, 1) == 3 && cmask_next_set(a, 127) == 129 && cmask_next_set(a, 130) == CIDS);
	expect(cmask_next_and_set(a, b, 61) == 66 && cmask_next_and_set_wrap(a, b, 127) == 0);
	expect(cmask_intersects(a, b) && !cmask_subset(a, b) && !cmask_equal(a, b));
	expect(cmask_test_and_clear(126, a) && !cmask_test_and_clear(126, a));
	expect(!cmask_test_and_set(126, a) && cmask_test_and_set(126, a));
	cmask_and(a, b);
	expect(cmask_weight(a) == 22 && cmask_subset(a, b));
	cmask_andnot(b, a);
	expect(cmask_weight(b) == 43 && !cmask_intersects(a, b));
	cmask_or(b, a);
	cmask_copy(a, b);
	expect(cmask_equal(a, b));
	cmask_clear(0, a);
	cmask_for_each(cid, a) {
		seen++;
		if (seen > CIDS)
			break;
	}
	expect(seen == 64);
	cmask_zero(a);
	expect(cmask_first_set(a) == CIDS && cmask_next_set_wrap(a, 5) == CIDS);
	bpf_arena_free_pages(&arena, a, 1);
}

void BPF_STRUCT_OPS(cids_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(cids_init)
{
	use_cids();
	return 0;
}

void BPF_STRUCT_OPS(cids_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(cids_ops,
	       .enqueue = (void *)cids_enqueue,
	       .init = (void *)cids_init,
	       .exit = (void *)cids_exit,
	       .name = "cids");

char _license[] SEC("license") = "GPL";
