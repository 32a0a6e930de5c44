//! When two types count as the same: three relations, from loose to strict.
//!
//! * `fields_are_compat`: a member may stand for another (names were compared already);
//! * `types_are_compat`: a type exists in the kernel (`bpf_core_type_exists`, kfunc prototypes);
//! * `types_match`: a type looks alike in the kernel (`bpf_core_type_matches`).

use std::cell::Cell;

use crate::btf::{Btf, Composite, Enum, Kind, TypeId, essential_name};
use crate::limits::Steps;

/// Bound on recursion through pointers and prototypes (libbpf's is 32).
const MAX_DEPTH: u32 = 32;

fn is_enum(kind: &Kind) -> bool {
    matches!(kind, Kind::Enum(_) | Kind::Enum64(_))
}

fn same_kind(a: &Kind, b: &Kind) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b) || (is_enum(a) && is_enum(b))
}

/// Whether a kernel member of type `theirs` can be read as the program's member of type `ours`.
pub(super) fn fields_are_compat(local: &Btf, ours: TypeId, kernel: &Btf, theirs: TypeId) -> bool {
    let (mut a, mut b) = (local.resolve(ours), kernel.resolve(theirs));
    loop {
        let (ka, kb) = (local.kind(a), kernel.kind(b));
        let composite = |k: &Kind| matches!(k, Kind::Struct(_) | Kind::Union(_));
        if composite(ka) && composite(kb) {
            return true;
        }
        if !same_kind(ka, kb) {
            return false;
        }
        match (ka, kb) {
            (Kind::Ptr(_), _) | (Kind::Float(_), _) => return true,
            (Kind::Fwd(_) | Kind::Enum(_) | Kind::Enum64(_), _) => {
                let (na, nb) = (essential_name(local.name(a)), essential_name(kernel.name(b)));
                return na.is_empty() || nb.is_empty() || na == nb;
            }
            (Kind::Int(x), Kind::Int(y)) => return x.offset == 0 && y.offset == 0,
            (Kind::Array(x), Kind::Array(y)) => {
                (a, b) = (local.resolve(x.elem), kernel.resolve(y.elem));
            }
            _ => return false,
        }
    }
}

/// Whether the kernel's type is of the same shape by kinds alone: pointers lead to compatible types, prototypes have
/// compatible parameters, structs and enumerations of any content are compatible.
pub(crate) fn types_are_compat(
    local: &Btf,
    ours: TypeId,
    kernel: &Btf,
    theirs: TypeId,
    steps: &Steps,
) -> bool {
    if !same_kind(local.kind(ours), kernel.kind(theirs)) {
        return false;
    }
    Matcher::new(local, kernel, steps).compatible(ours, theirs, MAX_DEPTH)
}

/// Whether the kernel's type looks like the program's: every member and enumeration value that the program knows is
/// there, with matching types; behind a pointer, names and kinds suffice.
pub(super) fn types_match(local: &Btf, ours: TypeId, kernel: &Btf, theirs: TypeId, steps: &Steps) -> bool {
    Matcher::new(local, kernel, steps).types(ours, theirs, false, MAX_DEPTH)
}

struct Matcher<'a> {
    local: &'a Btf,
    kernel: &'a Btf,
    /// Types that may still be looked at: hostile types can refer to each other so often that a walk would not end.
    visits: Cell<u32>,
    /// Steps that are left for all walks of an object, and for names that are compared.
    steps: &'a Steps,
}

impl<'a> Matcher<'a> {
    fn new(local: &'a Btf, kernel: &'a Btf, steps: &'a Steps) -> Self {
        Matcher { local, kernel, visits: Cell::new(100_000), steps }
    }

    /// Whether another type may be looked at.
    fn visit(&self) -> bool {
        self.visits.set(self.visits.get().saturating_sub(1));
        self.visits.get() > 0 && self.steps.take(1)
    }

    fn compatible(&self, ours: TypeId, theirs: TypeId, depth: u32) -> bool {
        let (a, b) = (self.local.resolved(ours), self.kernel.resolved(theirs));
        if depth == 0 || !self.visit() || !same_kind(a, b) {
            return false;
        }
        let inner = |x, y| self.compatible(x, y, depth - 1);
        match (a, b) {
            (Kind::Int(x), Kind::Int(y)) => x.offset == 0 && y.offset == 0,
            (Kind::Ptr(x), Kind::Ptr(y)) => inner(*x, *y),
            (Kind::Array(x), Kind::Array(y)) => inner(x.elem, y.elem),
            (Kind::FuncProto(x), Kind::FuncProto(y)) => {
                x.params.len() == y.params.len()
                    && x.params.iter().zip(&y.params).all(|(p, q)| inner(p.ty, q.ty))
                    && inner(x.ret, y.ret)
            }
            (
                Kind::Void
                | Kind::Struct(_)
                | Kind::Union(_)
                | Kind::Fwd(_)
                | Kind::Enum(_)
                | Kind::Enum64(_),
                _,
            ) => true,
            _ => false,
        }
    }

    fn names(&self, ours: &str, theirs: &str) -> bool {
        self.steps.take(1) && essential_name(ours) == essential_name(theirs)
    }

    fn types(&self, ours: TypeId, theirs: TypeId, behind_ptr: bool, depth: u32) -> bool {
        let (ours, theirs) = (self.local.resolve(ours), self.kernel.resolve(theirs));
        if depth == 0 || !self.visit() || !self.names(self.local.name(ours), self.kernel.name(theirs)) {
            return false;
        }
        let inner = |x, y, ptr| self.types(x, y, ptr, depth - 1);
        match (self.local.kind(ours), self.kernel.kind(theirs)) {
            (Kind::Void, Kind::Void) => true,
            (Kind::Fwd(a), Kind::Fwd(b)) => a == b,
            (Kind::Fwd(false), Kind::Struct(_)) | (Kind::Fwd(true), Kind::Union(_)) => behind_ptr,
            (Kind::Struct(_), Kind::Fwd(false)) | (Kind::Union(_), Kind::Fwd(true)) => behind_ptr,
            (Kind::Enum(a) | Kind::Enum64(a), Kind::Enum(b) | Kind::Enum64(b)) => self.enums(a, b),
            (Kind::Struct(a), Kind::Struct(b)) | (Kind::Union(a), Kind::Union(b)) => {
                behind_ptr || self.composites(a, b, depth)
            }
            (Kind::Int(a), Kind::Int(b)) => a.size == b.size && a.signed == b.signed,
            (Kind::Ptr(a), Kind::Ptr(b)) => inner(*a, *b, true),
            (Kind::Array(a), Kind::Array(b)) => a.count == b.count && inner(a.elem, b.elem, behind_ptr),
            (Kind::FuncProto(a), Kind::FuncProto(b)) => {
                a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(p, q)| inner(p.ty, q.ty, behind_ptr))
                    && inner(a.ret, b.ret, behind_ptr)
            }
            _ => false,
        }
    }

    fn enums(&self, a: &Enum, b: &Enum) -> bool {
        a.size == b.size
            && a.values.len() <= b.values.len()
            && a.values.iter().all(|v| {
                let wanted = self.local.enumerator_name(v);
                b.values.iter().any(|w| self.names(wanted, self.kernel.enumerator_name(w)))
            })
    }

    fn composites(&self, a: &Composite, b: &Composite, depth: u32) -> bool {
        a.members.len() <= b.members.len()
            && a.members.iter().all(|m| {
                let wanted = self.local.member_name(m);
                b.members.iter().any(|n| {
                    self.names(wanted, self.kernel.member_name(n)) && self.types(m.ty, n.ty, false, depth - 1)
                })
            })
    }
}
