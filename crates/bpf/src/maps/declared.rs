//! What the kernel refuses of a map's declaration: sizes, flags and the word beside them, kind by kind.
//!
//! The rules are those of the `map_alloc_check` of each kind (`kernel/bpf`, Linux 7.3). There they are `EINVAL` without a word;
//! here the sentence says what is wrong and how to put it right.

use crate::object::{MapDef, MapType};

/// Flags of `enum` at `BPF_F_NO_PREALLOC` (`include/uapi/linux/bpf.h`), by bit.
const FLAGS: [(u32, &str); 15] = [
    (NO_PREALLOC, "BPF_F_NO_PREALLOC"),
    (NO_COMMON_LRU, "BPF_F_NO_COMMON_LRU"),
    (NUMA_NODE, "BPF_F_NUMA_NODE"),
    (1 << 3, "BPF_F_RDONLY"),
    (1 << 4, "BPF_F_WRONLY"),
    (ZERO_SEED, "BPF_F_ZERO_SEED"),
    (RDONLY_PROG, "BPF_F_RDONLY_PROG"),
    (WRONLY_PROG, "BPF_F_WRONLY_PROG"),
    (CLONE, "BPF_F_CLONE"),
    (MMAPABLE, "BPF_F_MMAPABLE"),
    (PRESERVE_ELEMS, "BPF_F_PRESERVE_ELEMS"),
    (INNER_MAP, "BPF_F_INNER_MAP"),
    (SEGV_ON_FAULT, "BPF_F_SEGV_ON_FAULT"),
    (NO_USER_CONV, "BPF_F_NO_USER_CONV"),
    (RB_OVERWRITE, "BPF_F_RB_OVERWRITE"),
];

const NO_PREALLOC: u32 = 1;
const NO_COMMON_LRU: u32 = 1 << 1;
const NUMA_NODE: u32 = 1 << 2;
const ZERO_SEED: u32 = 1 << 6;
const RDONLY_PROG: u32 = 1 << 7;
const WRONLY_PROG: u32 = 1 << 8;
const CLONE: u32 = 1 << 9;
const MMAPABLE: u32 = 1 << 10;
const PRESERVE_ELEMS: u32 = 1 << 11;
pub(super) const INNER_MAP: u32 = 1 << 12;
const SEGV_ON_FAULT: u32 = 1 << 17;
const NO_USER_CONV: u32 = 1 << 18;
const RB_OVERWRITE: u32 = 1 << 19;

/// Who may not read or write: user space.
const USER_ACCESS: u32 = 3 << 3;
/// `BPF_F_ACCESS_MASK`.
const ACCESS: u32 = USER_ACCESS | RDONLY_PROG | WRONLY_PROG;

/// `PCPU_MIN_UNIT_SIZE`: the largest value that each CPU has of its own.
const PER_CPU_BYTES: u32 = 32 << 10;
/// Values of storages are smaller than this (`BPF_LOCAL_STORAGE_MAX_VALUE_SIZE` and the element's head).
const STORAGE_BYTES: u32 = u16::MAX as u32;
/// `MAX_BPF_STACK`, the longest key that a program could build.
const KEY_BYTES: u32 = 512;
const PAGE_BYTES: u64 = 4096;

/// What a size must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    None,
    Some,
    Four,
}

/// What the kernel wants of a kind of map.
struct Rule {
    key: Size,
    value: Size,
    /// The number of entries must be 0.
    no_entries: bool,
    /// Flags that it knows.
    flags: u32,
    /// Flags that it needs.
    needed: u32,
}

impl Rule {
    const fn new(key: Size, value: Size, flags: u32) -> Rule {
        Rule { key, value, no_entries: false, flags, needed: 0 }
    }

    /// The rule of a kind that is modelled.
    fn of(kind: MapType) -> Option<Rule> {
        let hash = NO_PREALLOC | ACCESS | ZERO_SEED;
        let storage = Rule {
            no_entries: true,
            needed: NO_PREALLOC,
            ..Rule::new(Size::Four, Size::Some, NO_PREALLOC | CLONE)
        };
        let arena = MMAPABLE | SEGV_ON_FAULT | NO_USER_CONV;
        Some(match kind {
            MapType::ARRAY => Rule::new(Size::Four, Size::Some, NUMA_NODE | MMAPABLE | ACCESS | INNER_MAP),
            MapType::PERCPU_ARRAY => Rule::new(Size::Four, Size::Some, ACCESS),
            MapType::PROG_ARRAY | MapType::ARRAY_OF_MAPS => {
                Rule::new(Size::Four, Size::Four, NUMA_NODE | USER_ACCESS)
            }
            MapType::PERF_EVENT_ARRAY => {
                Rule::new(Size::Four, Size::Four, NUMA_NODE | USER_ACCESS | PRESERVE_ELEMS)
            }
            MapType::HASH => Rule::new(Size::Some, Size::Some, hash | NUMA_NODE),
            MapType::PERCPU_HASH => Rule::new(Size::Some, Size::Some, hash),
            MapType::HASH_OF_MAPS => Rule::new(Size::Some, Size::Four, hash | NUMA_NODE),
            MapType::LRU_HASH => {
                Rule::new(Size::Some, Size::Some, hash & !NO_PREALLOC | NUMA_NODE | NO_COMMON_LRU)
            }
            MapType::LRU_PERCPU_HASH => {
                Rule::new(Size::Some, Size::Some, hash & !NO_PREALLOC | NO_COMMON_LRU)
            }
            MapType::QUEUE | MapType::STACK => Rule::new(Size::None, Size::Some, NUMA_NODE | ACCESS),
            MapType::RINGBUF => Rule::new(Size::None, Size::None, NUMA_NODE | RB_OVERWRITE),
            MapType::USER_RINGBUF => Rule::new(Size::None, Size::None, NUMA_NODE),
            MapType::TASK_STORAGE | MapType::CGRP_STORAGE => storage,
            MapType::ARENA => Rule { needed: MMAPABLE, ..Rule::new(Size::None, Size::None, arena) },
            _ => return None,
        })
    }
}

/// A sentence that says what the kernel, or the simulator, refuses of a declaration.
pub(super) fn check(def: &MapDef) -> Result<(), String> {
    let Some(rule) = Rule::of(def.map_type) else { return Ok(()) };
    check_size("key", rule.key, def.key_size, def.map_type)?;
    check_size("value", rule.value, def.value_size, def.map_type)?;
    check_flags(def, &rule)?;
    if def.key_size > KEY_BYTES {
        return Err(format!("keys of {} bytes, the limit is {KEY_BYTES}", def.key_size));
    }
    let most = match def.map_type {
        MapType::TASK_STORAGE | MapType::CGRP_STORAGE => STORAGE_BYTES,
        kind if kind.is_per_cpu() => PER_CPU_BYTES,
        _ => u32::MAX,
    };
    if def.value_size > most {
        return Err(format!(
            "values of {} bytes, the limit of a map of type {} is {most}",
            def.value_size,
            def.map_type.name()
        ));
    }
    match (rule.no_entries, def.max_entries) {
        (true, 1..) => {
            Err(format!("max_entries is {}; a map of type {} has none", def.max_entries, def.map_type.name()))
        }
        (false, 0) => Err("max_entries is 0".into()),
        _ => check_extra(def),
    }
}

/// A storage's key is an `int` and its value a type: the kernel wants to show both (`bpf_local_storage_map_alloc_check()`).
pub(crate) fn check_types(def: &MapDef) -> Result<(), String> {
    let storage = matches!(def.map_type, MapType::TASK_STORAGE | MapType::CGRP_STORAGE);
    if storage && (def.key_type.is_none() || def.value_type.is_none()) {
        return Err(
            "a storage needs types: __type(key, int) and __type(value, ...), no key_size and value_size"
                .into(),
        );
    }
    Ok(())
}

fn check_size(what: &str, wanted: Size, size: u32, kind: MapType) -> Result<(), String> {
    let kind = kind.name();
    match (wanted, size) {
        (Size::None, 1..) => Err(format!("a {what} of {size} bytes; a map of type {kind} has no {what}s")),
        (Size::Some | Size::Four, 0) => Err(format!("the {what} has no size")),
        (Size::Four, size) if size != 4 => {
            Err(format!("a map of type {kind} has {what}s of 4 bytes, not {size}"))
        }
        _ => Ok(()),
    }
}

fn check_flags(def: &MapDef, rule: &Rule) -> Result<(), String> {
    let kind = def.map_type.name();
    let unknown = def.flags & !rule.flags;
    if unknown != 0 {
        return Err(format!("a map of type {kind} takes no {}", names(unknown)));
    }
    if rule.needed & !def.flags != 0 {
        return Err(format!("a map of type {kind} needs __uint(map_flags, {})", names(rule.needed)));
    }
    let none = RDONLY_PROG | WRONLY_PROG;
    if def.flags & none == none {
        return Err("programs may neither read nor write it: BPF_F_RDONLY_PROG and BPF_F_WRONLY_PROG".into());
    }
    let by_node = NUMA_NODE | NO_COMMON_LRU;
    if def.flags & by_node == by_node {
        return Err("BPF_F_NO_COMMON_LRU goes with no BPF_F_NUMA_NODE".into());
    }
    if def.flags & RB_OVERWRITE != 0 {
        return Err("BPF_F_RB_OVERWRITE is not modelled: a full ring refuses records here".into());
    }
    Ok(())
}

/// The names of flags, or the number of those that have none.
fn names(flags: u32) -> String {
    let named = FLAGS.iter().filter(|(flag, _)| flags & flag != 0);
    let rest = named.clone().fold(flags, |rest, (flag, _)| rest & !flag);
    let mut words: Vec<String> = named.map(|(_, name)| (*name).to_string()).collect();
    if rest != 0 {
        words.push(format!("flags {rest:#x}"));
    }
    words.join(" or ")
}

/// The word of an arena is where user space has it (`arena_map_alloc()`); the other kinds have none.
fn check_extra(def: &MapDef) -> Result<(), String> {
    if def.map_type != MapType::ARENA {
        return if def.extra == 0 {
            Ok(())
        } else {
            Err(format!("map_extra is {:#x}; it has to be 0", def.extra))
        };
    }
    let bytes = u64::from(def.max_entries) * PAGE_BYTES;
    let end = def.extra.wrapping_add(bytes).wrapping_sub(1);
    if !def.extra.is_multiple_of(PAGE_BYTES) || def.extra >> 32 != end >> 32 && bytes <= 1 << 32 {
        return Err(format!("an arena at {:#x}; it begins on a page and lies within 4 GiB", def.extra));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::TypeId;

    /// The declaration's fault, if it has one: kind, key, value, entries, flags.
    fn fault(kind: u32, sizes: [u32; 3], flags: u32) -> Option<String> {
        check(&MapDef::plain("m", MapType(kind), sizes, flags)).err()
    }

    /// `BPF_MAP_CREATE` of Linux 7.3.4 took each of these; the storage (29) is from `bpf_local_storage_map_alloc_check()`.
    #[test]
    fn what_the_kernel_takes_is_taken() {
        let taken = [
            (1, [4, 4, 4], NO_PREALLOC),
            (2, [4, 8, 4], MMAPABLE),
            (2, [4, 8, 4], INNER_MAP),
            (3, [4, 4, 4], 0),
            (4, [4, 4, 4], PRESERVE_ELEMS),
            (5, [4, PER_CPU_BYTES, 4], 0),
            (9, [4, 4, 4], NO_COMMON_LRU),
            (22, [0, 8, 4], 0),
            (27, [0, 0, 4096], 0),
            (29, [4, 8, 0], NO_PREALLOC),
            (31, [0, 0, 4096], 0),
            (33, [0, 0, 4], MMAPABLE),
        ];
        for (kind, sizes, flags) in taken {
            assert_eq!(fault(kind, sizes, flags), None, "{kind}");
        }
    }

    /// `BPF_MAP_CREATE` of Linux 7.3.4 answered each of these with an error, but for the last. Storages (29) are as above.
    #[test]
    fn what_the_kernel_refuses_is_refused_by_name() {
        let refused: [(u32, [u32; 3], u32, &str); 17] = [
            (1, [4, 4, 4], MMAPABLE, "takes no BPF_F_MMAPABLE"),
            (1, [4, 4, 4], ACCESS, "neither read nor write"),
            (2, [8, 8, 4], 0, "keys of 4 bytes, not 8"),
            (2, [4, 8, 4], NO_PREALLOC, "takes no BPF_F_NO_PREALLOC"),
            (3, [4, 8, 4], 0, "values of 4 bytes, not 8"),
            (5, [4, PER_CPU_BYTES + 1, 4], 0, "the limit of a map of type PERCPU_HASH is 32768"),
            (6, [4, 8, 4], MMAPABLE, "takes no BPF_F_MMAPABLE"),
            (9, [4, 4, 4], NO_PREALLOC, "takes no BPF_F_NO_PREALLOC"),
            (22, [4, 8, 4], 0, "has no keys"),
            (27, [0, 8, 4096], 0, "has no values"),
            (29, [4, 8, 0], 0, "needs __uint(map_flags, BPF_F_NO_PREALLOC)"),
            (29, [4, 8, 4], NO_PREALLOC, "max_entries is 4; a map of type TASK_STORAGE has none"),
            (29, [8, 8, 0], NO_PREALLOC, "keys of 4 bytes, not 8"),
            (31, [0, 0, 4096], RB_OVERWRITE, "takes no BPF_F_RB_OVERWRITE"),
            (33, [0, 0, 4], 0, "needs __uint(map_flags, BPF_F_MMAPABLE)"),
            (2, [4, 8, 4], 1 << 30, "takes no flags 0x40000000"),
            (27, [0, 0, 4096], RB_OVERWRITE, "is not modelled"),
        ];
        for (kind, sizes, flags, words) in refused {
            let fault = fault(kind, sizes, flags).unwrap_or_default();
            assert!(fault.contains(words), "{kind}: {fault:?}");
        }
    }

    #[test]
    fn a_storage_has_types() {
        let untyped = MapDef::plain("m", MapType::TASK_STORAGE, [4, 8, 0], NO_PREALLOC);
        assert!(check_types(&untyped).unwrap_err().contains("__type(key, int)"));
        let typed = MapDef { key_type: Some(TypeId(1)), value_type: Some(TypeId(2)), ..untyped };
        assert_eq!(check_types(&typed), Ok(()));
        assert_eq!(check_types(&MapDef { map_type: MapType::HASH, key_type: None, ..typed }), Ok(()));
    }

    #[test]
    fn the_word_of_an_arena_is_an_address() {
        let arena = |extra: u64, pages: u32| {
            let def = MapDef::plain("arena", MapType::ARENA, [0, 0, pages], MMAPABLE);
            check(&MapDef { extra, ..def }).is_ok()
        };
        assert!(arena(0, 1 << 20) && arena(0x1_0000_0000, 1 << 20) && arena(0x1_0000_0000, 4));
        assert!(!arena(0x1_0000_0001, 4) && !arena(0x1_ffff_f000, 2));
    }
}
