//! The types and kernel functions of the simulated kernel as a C header, for sources that include `vmlinux.h`.

use super::{enums, types};

/// What comes before the declarations: places of members are the kernel's that the object is loaded into.
const BEGIN: &str = "\
/* vmlinux.h - types and kernel functions of schedlab's simulated Linux. Objects that are compiled with it load on a real
 * kernel too: places of members come from that kernel (CO-RE). */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif
";

/// Names that libbpf's headers and most sources expect of `vmlinux.h`; values are those of `include/uapi/linux/bpf.h`.
const OF_BPF: &str = "
#if __STDC_VERSION__ < 202311L
enum { false = 0, true = 1 };
#endif
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PROG_ARRAY = 3, BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
    BPF_MAP_TYPE_PERCPU_HASH = 5, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_STACK_TRACE = 7,
    BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_LRU_PERCPU_HASH = 10, BPF_MAP_TYPE_LPM_TRIE = 11,
    BPF_MAP_TYPE_ARRAY_OF_MAPS = 12, BPF_MAP_TYPE_HASH_OF_MAPS = 13, BPF_MAP_TYPE_QUEUE = 22, BPF_MAP_TYPE_STACK = 23,
    BPF_MAP_TYPE_RINGBUF = 27, BPF_MAP_TYPE_TASK_STORAGE = 29, BPF_MAP_TYPE_BLOOM_FILTER = 30,
    BPF_MAP_TYPE_USER_RINGBUF = 31, BPF_MAP_TYPE_CGRP_STORAGE = 32, BPF_MAP_TYPE_ARENA = 33,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2, BPF_F_LOCK = 4 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_NUMA_NODE = 4, BPF_F_RDONLY = 8, BPF_F_WRONLY = 16, BPF_F_RDONLY_PROG = 128,
    BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_F_INDEX_MASK = 0xffffffff, BPF_F_CURRENT_CPU = 0xffffffff };
enum { BPF_F_TIMER_ABS = 1, BPF_F_TIMER_CPU_PIN = 2 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_MAX_LOOPS = 0x800000 };
enum page_size_enum { __PAGE_SIZE = 4096 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1, BPF_RB_CONS_POS = 2, BPF_RB_PROD_POS = 3 };
";

/// Between the types and the kernel functions.
const FUNCTIONS: &str = "
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#ifndef BPF_NO_KFUNC_PROTOTYPES
#ifndef __ksym
#define __ksym __attribute__((section(\".ksyms\")))
#endif
#ifndef __weak
#define __weak __attribute__((weak))
#endif
";

/// Families of functions besides those of sched_ext; headers of others declare the rest, each in its own way.
const FAMILIES: [&str; 4] = ["bpf_rcu_read_", "bpf_preempt_", "bpf_local_irq_", "bpf_res_spin_"];

/// The header with these prototypes.
pub(crate) fn header<'a>(prototypes: impl Iterator<Item = &'a str>) -> String {
    let family = |line: &&str| FAMILIES.iter().any(|family| line.contains(family));
    let types = [enums::ENUMS, types::TYPES].concat() + &types::SCX_TYPES.concat();
    let mut text = [BEGIN, &types, OF_BPF, FUNCTIONS].concat();
    for prototype in prototypes.chain(types::GENERIC_FUNCTIONS.lines().filter(family)) {
        text += &format!("extern {} __weak __ksym;\n", prototype.trim_end_matches(';'));
    }
    text + "#endif\n\n#endif\n"
}
