//! Parts of a map value that belong to the kernel: locks, timers, kernel pointers, list heads.

use crate::btf::{Btf, Kind, TypeId};
use crate::memory::{GuestAddr, Memory};

/// A kernel-owned part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Special {
    /// What it is.
    pub kind: SpecialKind,
    /// Bytes from the start of the value.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Kinds of kernel-owned parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialKind {
    /// `struct bpf_spin_lock` or `struct bpf_res_spin_lock`.
    Lock,
    /// `struct bpf_timer`.
    Timer,
    /// `struct bpf_wq` or another deferred-work object.
    Work,
    /// A pointer tagged `__kptr`, `__kptr_untrusted` or `__percpu_kptr`.
    Pointer,
    /// A list or tree head, node or reference count.
    Graph,
}

/// Most parts that are looked for in one value (chosen; the kernel's limit is 11 fields, `BTF_FIELDS_MAX`).
const MAX_PARTS: usize = 4096;

/// Most types that are looked at for that. Chosen: a hundred times a large scheduler's.
const MAX_STEPS: u32 = 100_000;

/// All kernel-owned parts of a type, in order of place.
pub(super) fn find(btf: &Btf, ty: TypeId) -> Vec<Special> {
    find_in(btf, [(ty, 0)])
}

/// All kernel-owned parts of several types, each at a distance from the start.
pub(crate) fn find_in(btf: &Btf, types: impl IntoIterator<Item = (TypeId, u64)>) -> Vec<Special> {
    let mut out = Vec::new();
    let mut budget = MAX_STEPS;
    for (ty, base) in types {
        walk(btf, ty, base, &mut out, &mut budget);
    }
    out.sort_by_key(|s| s.offset);
    debug_assert!(out.len() <= MAX_PARTS, "the walk ends at the limit");
    out
}

fn walk(btf: &Btf, ty: TypeId, base: u64, out: &mut Vec<Special>, budget: &mut u32) {
    if *budget == 0 || out.len() >= MAX_PARTS {
        return;
    }
    *budget -= 1;
    let id = btf.resolve(ty);
    let mut push = |kind, size| out.push(Special { kind, offset: base, size });
    match btf.kind(id) {
        Kind::Struct(c) => {
            let size = u64::from(c.size);
            match btf.name(id) {
                "bpf_spin_lock" | "bpf_res_spin_lock" => return push(SpecialKind::Lock, size),
                "bpf_timer" => return push(SpecialKind::Timer, size),
                "bpf_wq" | "bpf_task_work" => return push(SpecialKind::Work, size),
                "bpf_list_head" | "bpf_list_node" | "bpf_rb_root" | "bpf_rb_node" | "bpf_refcount" => {
                    return push(SpecialKind::Graph, size);
                }
                _ => {}
            }
            for member in &c.members {
                walk(btf, member.ty, base.saturating_add(u64::from(member.bit_offset) / 8), out, budget);
            }
        }
        Kind::Array(array) => {
            let size = btf.size_of(array.elem).unwrap_or(0);
            let before = out.len();
            for index in 0..u64::from(array.count) {
                walk(btf, array.elem, base.saturating_add(index.saturating_mul(size)), out, budget);
                // If the first element has none, no other has.
                if out.len() == before || *budget == 0 || out.len() >= MAX_PARTS {
                    break;
                }
            }
        }
        Kind::Ptr(target) => {
            if let Kind::TypeTag(_) = btf.kind(*target)
                && matches!(btf.name(*target), "kptr" | "kptr_untrusted" | "percpu_kptr" | "uptr")
            {
                push(SpecialKind::Pointer, 8);
            }
        }
        _ => {}
    }
}

/// Copies a value into place except for its kernel-owned parts. The place is a value of a map, so it is mapped.
pub(super) fn store(at: GuestAddr, value: &[u8], special: &[Special], mem: &mut Memory) {
    let mut from = 0usize;
    debug_assert!(special.is_sorted_by_key(|part| part.offset), "parts are in order");
    for part in special {
        let (start, end) = (part.offset as usize, part.offset.saturating_add(part.size) as usize);
        if start > from && start <= value.len() {
            copy(at, from, &value[from..start], mem);
        }
        from = from.max(end);
    }
    if from < value.len() {
        copy(at, from, &value[from..], mem);
    }
}

fn copy(at: GuestAddr, offset: usize, bytes: &[u8], mem: &mut Memory) {
    debug_assert!(offset as u64 <= u64::from(u32::MAX), "a value is shorter than 4 GiB");
    mem.write(at.offset(offset as u64), bytes).expect("values of maps stay mapped");
}
