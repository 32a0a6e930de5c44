//! Questions for helpers and kernel functions with ordinary and edge arguments. Each sets up what it needs, so that an answer
//! depends on no other question.

use super::Question;

/// Asked at every site: `name | expression`. `p` is the site's task; a name that ends in `text` has eight characters.
const EVERYWHERE: &str = r#"
nr_cpu_ids | scx_bpf_nr_cpu_ids()
nr_node_ids | scx_bpf_nr_node_ids()
cpuperf_cap 0 | scx_bpf_cpuperf_cap(0)
cpuperf_cur 0 | scx_bpf_cpuperf_cur(0)
cpu_node 0 | scx_bpf_cpu_node(0)
cpu_node 1 | scx_bpf_cpu_node(1)
nr_queued missing | scx_bpf_dsq_nr_queued(99)
nr_queued global | scx_bpf_dsq_nr_queued(0x8000000000000001ull)
nr_queued invalid | scx_bpf_dsq_nr_queued(0x8000000000000000ull)
nr_queued bypass | scx_bpf_dsq_nr_queued(0x8000000000000003ull)
nr_queued own | scx_bpf_dsq_nr_queued(7)
nr_queued own high bits | scx_bpf_dsq_nr_queued(0x4000000000000007ull)
nr_queued local_on 1 | scx_bpf_dsq_nr_queued(0xc000000000000001ull) >= 0
dsq_peek own | scx_bpf_dsq_peek(7) != 0
task_running p | scx_bpf_task_running(p)
task_cpu p | scx_bpf_task_cpu(p)
task_set_slice p | scx_bpf_task_set_slice(p, 7000000) + 2 * (p->scx.slice == 7000000)
task_set_slice p 0 then back | scx_bpf_task_set_slice(p, 20000000)
task_set_dsq_vtime p | scx_bpf_task_set_dsq_vtime(p, 77) + 2 * (p->scx.dsq_vtime == 77)
cpu_curr is p | scx_bpf_cpu_curr(scx_bpf_task_cpu(p)) == p
cpu_curr is current | scx_bpf_cpu_curr(bpf_get_smp_processor_id()) == bpf_get_current_task_btf()
now twice | scx_bpf_now() == scx_bpf_now()
now is no later than ktime | scx_bpf_now() <= bpf_ktime_get_ns() + 1000000
possible weight | MASK(scx_bpf_get_possible_cpumask(), scx_bpf_put_cpumask, bpf_cpumask_weight)
possible first | MASK(scx_bpf_get_possible_cpumask(), scx_bpf_put_cpumask, bpf_cpumask_first)
online weight | MASK(scx_bpf_get_online_cpumask(), scx_bpf_put_cpumask, bpf_cpumask_weight)
online first_zero | MASK(scx_bpf_get_online_cpumask(), scx_bpf_put_cpumask, bpf_cpumask_first_zero)
idle smtmask weight equals idle cpumask weight | MASK(scx_bpf_get_idle_cpumask(), scx_bpf_put_idle_cpumask, bpf_cpumask_weight) == MASK(scx_bpf_get_idle_smtmask(), scx_bpf_put_idle_cpumask, bpf_cpumask_weight)
idle holds this cpu | ({ const struct cpumask *m = scx_bpf_get_idle_cpumask(); s64 v = bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), m); scx_bpf_put_idle_cpumask(m); v; })
test_and_clear_cpu_idle this | scx_bpf_test_and_clear_cpu_idle(bpf_get_smp_processor_id())
pick_any cpus_ptr | scx_bpf_pick_any_cpu(p->cpus_ptr, 0) >= 0
cgroup_from_id 1 | ({ struct cgroup *c = bpf_cgroup_from_id(1); s64 v = c ? c->level : -1; if (c) bpf_cgroup_release(c); v; })
cgroup_from_id 0 | ({ struct cgroup *c = bpf_cgroup_from_id(0); s64 v = c ? c->level : -1; if (c) bpf_cgroup_release(c); v; })
cgroup_from_id far | ({ struct cgroup *c = bpf_cgroup_from_id(1ull << 40); s64 v = c ? c->level : -1; if (c) bpf_cgroup_release(c); v; })
task_from_pid own | ({ struct task_struct *t = bpf_task_from_pid(p->pid); s64 v = t == p; if (t) bpf_task_release(t); v; })
task_from_pid 0 | ({ struct task_struct *t = bpf_task_from_pid(0); s64 v = t != 0; if (t) bpf_task_release(t); v; })
task_from_pid -1 | ({ struct task_struct *t = bpf_task_from_pid(-1); s64 v = t != 0; if (t) bpf_task_release(t); v; })
task_from_pid far | ({ struct task_struct *t = bpf_task_from_pid(4000000); s64 v = t != 0; if (t) bpf_task_release(t); v; })
task_acquire | ({ struct task_struct *t = bpf_task_acquire(p); s64 v = t == p; if (t) bpf_task_release(t); v; })
cpumask new weight | BITS2(0, bpf_cpumask_weight(C))
cpumask new first | BITS2(0, bpf_cpumask_first(C))
cpumask new first_zero | BITS2(0, bpf_cpumask_first_zero(C))
cpumask new empty | BITS2(0, bpf_cpumask_empty(C))
cpumask new any_distribute | BITS2(0, bpf_cpumask_any_distribute(C))
cpumask set 1 weight | BITS2(2, bpf_cpumask_weight(C))
cpumask set 1 first | BITS2(2, bpf_cpumask_first(C))
cpumask set 1 first_zero | BITS2(2, bpf_cpumask_first_zero(C))
cpumask both first_zero | BITS2(3, bpf_cpumask_first_zero(C))
cpumask both full | BITS2(3, bpf_cpumask_full(C))
cpumask both any_distribute small | BITS2(3, bpf_cpumask_any_distribute(C) < 2)
cpumask one full | BITS2(1, bpf_cpumask_full(C))
cpumask test 0 | BITS2(1, bpf_cpumask_test_cpu(0, C))
cpumask test 1 | BITS2(1, bpf_cpumask_test_cpu(1, C))
cpumask test nr_cpu_ids | BITS2(3, bpf_cpumask_test_cpu(2, C))
cpumask test far | BITS2(3, bpf_cpumask_test_cpu(100000, C))
cpumask set far | BITS2(0, (bpf_cpumask_set_cpu(100000, B), bpf_cpumask_weight(C)))
cpumask set nr_cpu_ids | BITS2(0, (bpf_cpumask_set_cpu(2, B), bpf_cpumask_weight(C)))
cpumask clear far | BITS2(3, (bpf_cpumask_clear_cpu(100000, B), bpf_cpumask_weight(C)))
cpumask test_and_set set | BITS2(2, bpf_cpumask_test_and_set_cpu(1, B))
cpumask test_and_set unset | BITS2(2, bpf_cpumask_test_and_set_cpu(0, B) * 10 + bpf_cpumask_weight(C))
cpumask test_and_set far | BITS2(2, bpf_cpumask_test_and_set_cpu(70000, B) * 10 + bpf_cpumask_weight(C))
cpumask test_and_clear set | BITS2(2, bpf_cpumask_test_and_clear_cpu(1, B) * 10 + bpf_cpumask_weight(C))
cpumask test_and_clear unset | BITS2(2, bpf_cpumask_test_and_clear_cpu(0, B))
cpumask setall weight | BITS2(0, (bpf_cpumask_setall(B), bpf_cpumask_weight(C)))
cpumask setall bits | BITS2(0, (bpf_cpumask_setall(B), C->bits[0]))
cpumask setall first_zero | BITS2(0, (bpf_cpumask_setall(B), bpf_cpumask_first_zero(C)))
cpumask setall bits beyond | BITS2(0, (bpf_cpumask_setall(B), C->bits[1]))
cpumask clear | BITS2(3, (bpf_cpumask_clear(B), bpf_cpumask_empty(C)))
cpumask copy | BITS2(0, (bpf_cpumask_copy(B, p->cpus_ptr), C->bits[0]))
cpumask and | BITS2(3, bpf_cpumask_and(B, C, p->cpus_ptr) * 10 + bpf_cpumask_weight(C))
cpumask and empty | BITS2(0, bpf_cpumask_and(B, C, p->cpus_ptr) * 10 + bpf_cpumask_weight(C))
cpumask or | BITS2(0, (bpf_cpumask_or(B, C, p->cpus_ptr), bpf_cpumask_weight(C)))
cpumask xor | BITS2(3, (bpf_cpumask_xor(B, C, p->cpus_ptr), bpf_cpumask_weight(C)))
cpumask equal | BITS2(3, bpf_cpumask_equal(C, p->cpus_ptr))
cpumask intersects | BITS2(2, bpf_cpumask_intersects(C, p->cpus_ptr))
cpumask intersects empty | BITS2(0, bpf_cpumask_intersects(C, p->cpus_ptr))
cpumask subset | BITS2(1, bpf_cpumask_subset(C, p->cpus_ptr))
cpumask subset of empty | BITS2(0, bpf_cpumask_subset(p->cpus_ptr, C))
cpumask first_and | BITS2(2, bpf_cpumask_first_and(C, p->cpus_ptr))
cpumask first_and empty | BITS2(0, bpf_cpumask_first_and(C, p->cpus_ptr))
cpumask any_and_distribute empty | BITS2(0, bpf_cpumask_any_and_distribute(C, p->cpus_ptr))
cpumask any_and_distribute one | BITS2(1, bpf_cpumask_any_and_distribute(C, C))
cpumask populate 8 | BITS2(0, ({ words[0] = 5; bpf_cpumask_populate(B, words, 8) * 10 + bpf_cpumask_weight(C); }))
cpumask populate 8 bits | BITS2(0, ({ words[0] = 5; bpf_cpumask_populate(B, words, 8); C->bits[0]; }))
cpumask populate 4 | BITS2(0, ({ words[0] = 5; bpf_cpumask_populate(B, words, 4); }))
cpumask populate 1 | BITS2(0, ({ words[0] = 3; bpf_cpumask_populate(B, words, 1); }))
cpumask populate 64 | BITS2(0, ({ words[0] = 3; bpf_cpumask_populate(B, words, 64) * 10 + bpf_cpumask_weight(C); }))
cpumask acquire | BITS2(1, ({ struct bpf_cpumask *o = bpf_cpumask_acquire(B); s64 v = o == B; bpf_cpumask_release(o); v; }))
pick_any empty | BITS2(0, scx_bpf_pick_any_cpu(C, 0))
pick_idle empty | BITS2(0, scx_bpf_pick_idle_cpu(C, 0))
pick_any empty core | BITS2(0, scx_bpf_pick_any_cpu(C, 1))
pick_idle empty core | BITS2(0, scx_bpf_pick_idle_cpu(C, 1))
pick_any 1 | BITS2(2, scx_bpf_pick_any_cpu(C, 0))
dsq iterate empty | ({ struct bpf_iter_scx_dsq it; s64 n; n = bpf_iter_scx_dsq_new(&it, 7, 0) * 100; n += bpf_iter_scx_dsq_next(&it) != 0; bpf_iter_scx_dsq_destroy(&it); n; })
dsq iterate missing | ({ struct bpf_iter_scx_dsq it; s64 n; n = bpf_iter_scx_dsq_new(&it, 99, 0) * 100; n += bpf_iter_scx_dsq_next(&it) != 0; bpf_iter_scx_dsq_destroy(&it); n; })
dsq iterate reverse | ({ struct bpf_iter_scx_dsq it; s64 n; n = bpf_iter_scx_dsq_new(&it, 7, 1ull << 16) * 100; n += bpf_iter_scx_dsq_next(&it) != 0; bpf_iter_scx_dsq_destroy(&it); n; })
dsq iterate bad flags | ({ struct bpf_iter_scx_dsq it; s64 n; n = bpf_iter_scx_dsq_new(&it, 7, 1) * 100; n += bpf_iter_scx_dsq_next(&it) != 0; bpf_iter_scx_dsq_destroy(&it); n; })
num iterate | ({ struct bpf_iter_num it; int *at, n = 0; bpf_iter_num_new(&it, 3, 7); while ((at = bpf_iter_num_next(&it))) n += *at; bpf_iter_num_destroy(&it); n; })
num iterate reversed bounds | ({ struct bpf_iter_num it; s64 r = bpf_iter_num_new(&it, 7, 3); bpf_iter_num_destroy(&it); r; })
num iterate too many | ({ struct bpf_iter_num it; s64 r = bpf_iter_num_new(&it, 0, 10000000); bpf_iter_num_destroy(&it); r; })
smp_processor_id small | bpf_get_smp_processor_id() < 2
numa_node_id | bpf_get_numa_node_id()
current is p | bpf_get_current_task_btf() == p
current tgid | (bpf_get_current_pid_tgid() >> 32) == bpf_get_current_task_btf()->tgid
current uid | bpf_get_current_uid_gid() == ((u64)bpf_get_current_task_btf()->cred->gid.val << 32 | bpf_get_current_task_btf()->cred->uid.val)
ktime is monotonic | bpf_ktime_get_ns() <= bpf_ktime_get_ns()
ktime boot against ktime | bpf_ktime_get_boot_ns() + 1000000 >= bpf_ktime_get_ns()
comm of 4 | ({ CLEAR; bpf_get_current_comm(buffer, 4) * 1000 + buffer[3]; })
comm of 16 | ({ CLEAR; bpf_get_current_comm(buffer, 16); })
array lookup | ({ u32 k = 1; bpf_map_lookup_elem(&arr, &k) != 0; })
array lookup beyond | ({ u32 k = 2; bpf_map_lookup_elem(&arr, &k) != 0; })
array update | ({ u32 k = 0; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 0); })
array update exist | ({ u32 k = 0; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 2); })
array update noexist | ({ u32 k = 0; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 1); })
array update beyond | ({ u32 k = 5; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 0); })
array update beyond noexist | ({ u32 k = 5; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 1); })
array update flags 4 | ({ u32 k = 0; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 4); })
array update flags 7 | ({ u32 k = 0; u64 v = 3; bpf_map_update_elem(&arr, &k, &v, 7); })
array delete | ({ u32 k = 0; bpf_map_delete_elem(&arr, &k); })
array delete beyond | ({ u32 k = 9; bpf_map_delete_elem(&arr, &k); })
hash update | ({ u32 k = 1; u64 v = 3; s64 r = bpf_map_update_elem(&h, &k, &v, 0); bpf_map_delete_elem(&h, &k); r; })
hash update exist miss | ({ u32 k = 1; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 2); })
hash update noexist hit | ({ u32 k = 1; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 0); s64 r = bpf_map_update_elem(&h, &k, &v, 1); bpf_map_delete_elem(&h, &k); r; })
hash update full | ({ u32 k = 1, l = 2, m = 3; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 0); bpf_map_update_elem(&h, &l, &v, 0); s64 r = bpf_map_update_elem(&h, &m, &v, 0); bpf_map_delete_elem(&h, &k); bpf_map_delete_elem(&h, &l); bpf_map_delete_elem(&h, &m); r; })
hash update full but there | ({ u32 k = 1, l = 2; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 0); bpf_map_update_elem(&h, &l, &v, 0); s64 r = bpf_map_update_elem(&h, &l, &v, 0); bpf_map_delete_elem(&h, &k); bpf_map_delete_elem(&h, &l); r; })
hash update flags 4 | ({ u32 k = 1; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 4); })
hash update flags 8 | ({ u32 k = 1; u64 v = 3; bpf_map_update_elem(&h, &k, &v, 8); })
hash update flags 3 | ({ u32 k = 1; u64 v = 3; s64 r = bpf_map_update_elem(&h, &k, &v, 3); bpf_map_delete_elem(&h, &k); r; })
hash delete miss | ({ u32 k = 9; bpf_map_delete_elem(&h, &k); })
hash lookup miss | ({ u32 k = 9; bpf_map_lookup_elem(&h, &k) != 0; })
lru update full | ({ u32 k = 1, l = 2, m = 3; u64 v = 3; bpf_map_update_elem(&lru, &k, &v, 0); bpf_map_update_elem(&lru, &l, &v, 0); bpf_map_update_elem(&lru, &m, &v, 0); })
percpu array lookup | ({ u32 k = 1; bpf_map_lookup_elem(&pa, &k) != 0; })
percpu array lookup_percpu beyond | ({ u32 k = 0; bpf_map_lookup_percpu_elem(&pa, &k, 2) != 0; })
percpu array lookup_percpu other | ({ u32 k = 0; bpf_map_lookup_percpu_elem(&pa, &k, 1) != 0; })
percpu array update | ({ u32 k = 0; u64 v = 4; bpf_map_update_elem(&pa, &k, &v, 0); })
percpu array update noexist | ({ u32 k = 0; u64 v = 4; bpf_map_update_elem(&pa, &k, &v, 1); })
percpu array update beyond | ({ u32 k = 7; u64 v = 4; bpf_map_update_elem(&pa, &k, &v, 0); })
percpu array delete | ({ u32 k = 0; bpf_map_delete_elem(&pa, &k); })
queue full | ({ u64 v = 1; bpf_map_push_elem(&q, &v, 0); bpf_map_push_elem(&q, &v, 0); s64 r = bpf_map_push_elem(&q, &v, 0); bpf_map_pop_elem(&q, &v); bpf_map_pop_elem(&q, &v); r; })
queue full exist | ({ u64 v = 1, w = 2, x = 3; bpf_map_push_elem(&q, &v, 0); bpf_map_push_elem(&q, &w, 0); s64 r = bpf_map_push_elem(&q, &x, 2); bpf_map_pop_elem(&q, &v); r = r * 100 + v; bpf_map_pop_elem(&q, &v); r * 100 + v; })
queue push noexist | ({ u64 v = 1; bpf_map_push_elem(&q, &v, 1); })
queue push flags 4 | ({ u64 v = 1; bpf_map_push_elem(&q, &v, 4); })
queue pop empty | ({ u64 v = 55; s64 r = bpf_map_pop_elem(&q, &v); r * 100 + v; })
queue peek empty | ({ u64 v = 55; s64 r = bpf_map_peek_elem(&q, &v); r * 100 + v; })
stack full exist | ({ u64 v = 1, w = 2, x = 3; bpf_map_push_elem(&st, &v, 0); bpf_map_push_elem(&st, &w, 0); s64 r = bpf_map_push_elem(&st, &x, 2); bpf_map_pop_elem(&st, &v); r = r * 100 + v; bpf_map_pop_elem(&st, &v); r * 100 + v; })
stack pop empty | ({ u64 v = 55; s64 r = bpf_map_pop_elem(&st, &v); r * 100 + v; })
ringbuf reserve all | ({ void *x = bpf_ringbuf_reserve(&rb, 4096, 0); s64 r = x != 0; if (x) bpf_ringbuf_discard(x, 0); r; })
ringbuf reserve all less a header | ({ void *x = bpf_ringbuf_reserve(&rb, 4088, 0); s64 r = x != 0; if (x) bpf_ringbuf_discard(x, 0); r; })
ringbuf reserve flags | ({ void *x = bpf_ringbuf_reserve(&rb, 8, 1); s64 r = x != 0; if (x) bpf_ringbuf_discard(x, 0); r; })
ringbuf reserve too much | ({ void *x = bpf_ringbuf_reserve(&rb, 1 << 30, 0); s64 r = x != 0; if (x) bpf_ringbuf_discard(x, 0); r; })
ringbuf output flags 8 | bpf_ringbuf_output(&rb, buffer, 16, 8)
ringbuf output too long | bpf_ringbuf_output(&small, big, 4096, 0)
ringbuf output too long flags 8 | bpf_ringbuf_output(&small, big, 4096, 8)
ringbuf output too long for ever | bpf_ringbuf_output(&small, big, 8192, 0)
ringbuf query size | bpf_ringbuf_query(&rb, 1)
ringbuf query bad | bpf_ringbuf_query(&rb, 9)
storage miss | bpf_task_storage_get(&ts, p, 0, 0) != 0
storage create | ({ u64 v = 9, *s = bpf_task_storage_get(&ts, p, &v, 1); s64 r = s ? *s : -1; bpf_task_storage_delete(&ts, p); r; })
storage flags 2 | ({ u64 v = 9; bpf_task_storage_get(&ts, p, &v, 2) != 0; })
storage flags 3 | ({ u64 v = 9; s64 r = bpf_task_storage_get(&ts, p, &v, 3) != 0; bpf_task_storage_delete(&ts, p); r; })
storage delete miss | ({ bpf_task_storage_delete(&ts, p); bpf_task_storage_delete(&ts, p); })
probe_read NULL | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, 0) * 100 + v; })
probe_read low | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0x10) * 100 + v; })
probe_read user half | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0x7f0000000000ull) * 100 + v; })
probe_read last page of user | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0x7ffffffff000ull) * 100 + v; })
probe_read not canonical | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0x8000000000000000ull) * 100 + v; })
probe_read not canonical low | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0x0100000000000000ull) * 100 + v; })
probe_read unmapped high | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0xffffffffff000000ull) * 100 + v; })
probe_read last bytes | ({ u64 v = 5; bpf_probe_read_kernel(&v, 8, (void *)0xfffffffffffffff0ull) * 100 + v; })
probe_read 4 of a map | ({ u32 v = 5; words[0] = 77; bpf_probe_read_kernel(&v, 4, words) * 100 + v; })
probe_read_str NULL | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 8, 0); })
probe_read_str low | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 8, (void *)0x10); })
probe_read_str high | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 8, (void *)0xffffffffff000000ull); })
probe_read_str not canonical | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 8, (void *)0x8000000000000000ull); })
probe_read_str cut | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 3, abc) * 1000 + buffer[1]; })
probe_read_str whole | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 16, abc); })
probe_read_str of 1 | ({ CLEAR; bpf_probe_read_kernel_str(buffer, 1, abc) * 1000 + buffer[0]; })
probe_read_user low | ({ u64 v = 5; bpf_probe_read_user(&v, 8, (void *)0x10) * 100 + v; })
probe_read_user kernel half | ({ u64 v = 5; bpf_probe_read_user(&v, 8, (void *)0xffff888000000000ull) * 100 + v; })
probe_read_user_str low | ({ CLEAR; bpf_probe_read_user_str(buffer, 8, (void *)0x10); })
strncmp less | ({ CLEAR; buffer[0] = 'a'; bpf_strncmp(buffer, 4, abc); })
strncmp more | ({ CLEAR; buffer[0] = 'z'; bpf_strncmp(buffer, 4, abc); })
strncmp same | ({ CLEAR; buffer[0] = 'a'; buffer[1] = 'b'; buffer[2] = 'c'; bpf_strncmp(buffer, 3, abc); })
strncmp of 1 | ({ CLEAR; buffer[0] = 'a'; bpf_strncmp(buffer, 1, abc); })
loop 0 | bpf_loop(0, turn, 0, 0)
loop 10 | ({ sink = 0; bpf_loop(10, turn, 0, 0) * 100 + sink; })
loop flags | bpf_loop(3, turn, 0, 1)
loop flags and none | bpf_loop(0, turn, 0, 1)
for_each array | bpf_for_each_map_elem(&arr, each, 0, 0)
for_each array flags | bpf_for_each_map_elem(&arr, each, 0, 1)
for_each hash empty | bpf_for_each_map_elem(&h, each, 0, 0)
for_each array stop | bpf_for_each_map_elem(&arr, stop, 0, 0)
jiffies moves on | bpf_jiffies64() > 0
"#;

/// Asked where the lock of a run queue is held.
const LOCKED: &str = r#"
locked_rq | scx_bpf_locked_rq() != 0
locked_rq is the task's | ({ struct rq *r = scx_bpf_locked_rq(); r ? r->cpu == scx_bpf_task_cpu(p) : -1; })
locked_rq is this CPU's | ({ struct rq *r = scx_bpf_locked_rq(); r ? r->cpu == bpf_get_smp_processor_id() : -1; })
"#;

/// Formats for `bpf_snprintf()`: the format, its arguments, and how many.
const FORMATS: &str = r#"
%d | -3 | 1
%5d | 42 | 1
%-5d| | 42 | 1
%05d | 42 | 1
%x | 255 | 1
%08llx | 0xabc | 1
%llu | -1ull | 1
%lld | -5ll | 1
%c | 65 | 1
%3c | 65 | 1
%-3c| | 65 | 1
%s | (u64)abc | 1
%5s | (u64)abc | 1
%-5s| | (u64)abc | 1
%i | -1 | 1
%u | -1 | 1
%% | 0 | 0
%X | 0xab | 1
%lu | 5 | 1
%ld | -6 | 1
%+d | 4 | 1
% d | 4 | 1
%6llx | 0xfff | 1
%d %s | 7, (u64)abc | 2
no arguments | 0 | 0
%pI4 | (u64)&words[8] | 1
%pi4 | (u64)&words[8] | 1
%pI6 | (u64)&words[8] | 1
%p | 0 | 1
%px | 0x1234 | 1
%pK | 0 | 1
%ps | 0 | 1
%pS | 0 | 1
%pB | 0 | 1
%pks | (u64)abc | 1
%s | 0 | 1
%20llu | 7 | 1
%0d | 7 | 1
%-05d| | 7 | 1
%  d | 7 | 1
%llX | 0xabc | 1
%100d | 7 | 1
"#;

/// Formats that kernels may refuse: `bpf_trace_vprintk()` tells by its result, where `bpf_snprintf()` is refused at load.
const REFUSED_FORMATS: &str = r#"
%#x | 255 | 1
%hd | 70000 | 1
%hhx | 0x1ff | 1
%.2s | (u64)abc | 1
%d %d | 7 | 1
%d | 7, 8 | 2
%pus | 0 | 1
%o | 8 | 1
%e | 1 | 1
%z | 1 | 1
%b | 5 | 1
%lc | 65 | 1
% | 0 | 0
%*d | 5, 7 | 2
%lls | (u64)abc | 1
%zu | 7 | 1
%jd | 7 | 1
%Lu | 7 | 1
%ls | (u64)abc | 1
%hs | (u64)abc | 1
%n | (u64)buffer | 1
%d% | 7 | 1
"#;

/// Questions of timers: for an element of the site's own.
const TIMERS: &str = r#"
timer start without init | TIMER(0, bpf_timer_start(t, 5000000000ull, 0))
timer cancel without init | TIMER(0, bpf_timer_cancel(t))
timer set_callback without init | TIMER(0, bpf_timer_set_callback(t, rings))
timer init clock 4 | TIMER(0, bpf_timer_init(t, &timers, 4))
timer init flags | TIMER(0, bpf_timer_init(t, &timers, 0x101))
timer init | TIMER(1, bpf_timer_init(t, &timers, 1))
timer init again | TIMER(1, bpf_timer_init(t, &timers, 1))
timer start without callback | TIMER(1, bpf_timer_start(t, 5000000000ull, 0))
timer set_callback | TIMER(1, bpf_timer_set_callback(t, rings))
timer start flags 64 | TIMER(1, bpf_timer_start(t, 5000000000ull, 64))
timer start | TIMER(1, bpf_timer_start(t, 5000000000ull, 0))
timer start absolute | TIMER(1, bpf_timer_start(t, bpf_ktime_get_ns() + 5000000000ull, 1))
timer start pinned | TIMER(1, bpf_timer_start(t, 5000000000ull, 2))
timer start again | TIMER(1, bpf_timer_start(t, 5000000000ull, 0))
timer cancel | TIMER(1, bpf_timer_cancel(t))
timer cancel again | TIMER(1, bpf_timer_cancel(t))
"#;

/// The questions for a site's helpers and kernel functions.
pub(super) fn everywhere() -> Vec<Question> {
    let mut found: Vec<Question> = rows(EVERYWHERE).chain(rows(TIMERS)).map(call).collect();
    for row in rows(REFUSED_FORMATS).chain(rows(FORMATS)) {
        let [format, arguments, count] = row[..] else { continue };
        let run = format!("TRACE({}, {count}, {arguments})", c_string(format));
        found.push(question(&format!("trace_vprintk '{format}' of {count}: {arguments}"), run));
    }
    for row in rows(FORMATS) {
        let [format, arguments, count] = row[..] else { continue };
        let run = format!("FORMAT({}, {count}, {arguments})", c_string(format));
        found.push(question(&format!("snprintf '{format}' of {count}: {arguments}"), run.clone()));
        for word in 0..2 {
            let name = format!("snprintf '{format}' of {count}: {arguments}, {word} text");
            found.push(question(&name, format!("({run}, ((u64 *)buffer)[{word}])")));
        }
    }
    found
}

/// The questions where the lock of a run queue is held.
pub(super) fn locked() -> Vec<Question> {
    rows(LOCKED).map(call).collect()
}

/// Whether a question is about the site's task, or the CPU that it has.
pub(super) fn is_about_task(question: &Question) -> bool {
    let parts = [
        "(p)",
        "(p,",
        "p->",
        ", p)",
        ", p,",
        "== p",
        "bpf_get_smp_processor_id())",
        "bpf_get_smp_processor_id(),",
    ];
    parts.iter().any(|part| question.expression.contains(part)) || question.name.starts_with("rq->")
}

/// The rows of a table, split at the bars.
pub(super) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| line.contains(" | ")).map(|line| line.split(" | ").collect())
}

fn call(row: Vec<&'static str>) -> Question {
    question(row[0], row[1..].join(" | "))
}

/// A question that needs the kernel functions whose names its expression has.
pub(super) fn question(name: &str, expression: String) -> Question {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let known = |name: &&str| schedlab_scx::prototypes().any(|one| prototype_name(one) == *name);
    let mut needed: Vec<&str> = expression.split(word).filter(known).collect();
    needed.sort_unstable();
    needed.dedup();
    let exists: Vec<String> = needed.iter().map(|name| format!("EXISTS({name})")).collect();
    let exists = if exists.is_empty() { "1".to_string() } else { exists.join(" && ") };
    Question { name: name.to_string(), expression, exists }
}

/// The name of the function that a prototype declares.
fn prototype_name(prototype: &str) -> &str {
    let head = prototype.split_once('(').map_or(prototype, |(head, _)| head);
    head.rsplit([' ', '*']).next().unwrap_or(head)
}

fn c_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
