//! A path into a type as CO-RE writes it (`0:3:1`), read in the program's types and found again in the kernel's.

use super::RelocKind;
use super::compat::{fields_are_compat, types_are_compat, types_match};
use crate::btf::ext::CoreRecord;
use crate::btf::{Btf, Kind, Member, MemberAt, TypeId, essential_name};
use crate::limits::Steps;

/// Longest path (libbpf's `BPF_CORE_SPEC_MAX_LEN`).
const MAX_STEPS: usize = 64;

/// Farthest place in a type, in bits (chosen: 2 GiB).
const MAX_BITS: u64 = 1 << 34;

/// Longest description in characters. Chosen: a line of a message.
const MAX_WORDS: usize = 160;

/// Longest text of a path: 64 numbers of 32 bits with colons between.
const MAX_PATH: usize = MAX_STEPS * 11;

/// A path, with everything between named members (unnamed structs) folded away.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) root: TypeId,
    kind: RelocKind,
    steps: Vec<Step>,
    pub(super) bit_offset: u64,
}

/// One step.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Element `index` of an array (or of the root pointer) of elements `ty`.
    Index { ty: TypeId, index: u32 },
    /// Member number `index` of the struct or union `of`.
    Member { of: TypeId, index: u32 },
    /// Value number `index` of the enumeration `of`.
    Value { of: TypeId, index: u32 },
}

impl Spec {
    /// Reads a record's path in the program's own types.
    pub(super) fn parse(btf: &Btf, record: &CoreRecord, kind: RelocKind) -> Result<Spec, String> {
        let path = btf.string(record.access);
        let mut spec = Spec { root: record.ty, kind, steps: Vec::new(), bit_offset: 0 };
        if btf.get(record.ty).is_none() {
            return Err(format!("type {} does not exist", record.ty.0));
        }
        if !kind.is_field() && !kind.is_enumval() {
            return if path == "0" {
                Ok(spec)
            } else {
                Err(format!("path `{path}` for a question about a type"))
            };
        }
        if path.len() > MAX_PATH {
            return Err(format!("a path of {} bytes", path.len()));
        }
        let indices: Vec<u32> = path
            .split(':')
            .map(|part| part.parse().map_err(|_| format!("path `{path}`")))
            .collect::<Result<_, _>>()?;
        if indices.len() > MAX_STEPS {
            return Err(format!("a path of {} steps", indices.len()));
        }
        let root = btf.resolve(record.ty);
        if kind.is_enumval() {
            let count = enumerators(btf, root).len();
            if indices.len() != 1 || indices[0] as usize >= count {
                return Err(format!("path `{path}` of an enumeration with {count} values"));
            }
            spec.steps.push(Step::Value { of: root, index: indices[0] });
            return Ok(spec);
        }
        spec.push_index(btf, root, indices[0])?;
        let mut at = root;
        for &index in &indices[1..] {
            at = spec.step(btf, at, index)?;
        }
        Ok(spec)
    }

    fn push_index(&mut self, btf: &Btf, ty: TypeId, index: u32) -> Result<(), String> {
        debug_assert!(self.steps.len() < MAX_STEPS, "the path's length was checked");
        let size = btf.size_of(ty).ok_or("elements of unknown size")?;
        self.advance(size.saturating_mul(8 * u64::from(index)))?;
        self.steps.push(Step::Index { ty, index });
        Ok(())
    }

    /// Advances by a number of bits, within what any real type has.
    fn advance(&mut self, bits: u64) -> Result<(), String> {
        self.bit_offset = self.bit_offset.saturating_add(bits);
        if self.bit_offset > MAX_BITS { Err("an offset beyond any type".into()) } else { Ok(()) }
    }

    /// One step from a value of type `at`; returns the type arrived at.
    fn step(&mut self, btf: &Btf, at: TypeId, index: u32) -> Result<TypeId, String> {
        let at = btf.resolve(at);
        match btf.kind(at) {
            Kind::Struct(c) | Kind::Union(c) => {
                let member = c.members.get(index as usize).ok_or("a member that does not exist")?;
                self.advance(u64::from(member.bit_offset))?;
                if !btf.member_name(member).is_empty() {
                    self.steps.push(Step::Member { of: at, index });
                }
                Ok(member.ty)
            }
            Kind::Array(array) => {
                if index >= array.count && !self.ends_in_flexible(btf, array.count) {
                    return Err(format!("element {index} of an array of {}", array.count));
                }
                let elem = btf.resolve(array.elem);
                self.push_index(btf, elem, index)?;
                Ok(elem)
            }
            _ => Err("a path into something that is no struct, union or array".into()),
        }
    }

    /// An array of 0 elements that is the last member of its struct may be indexed freely.
    fn ends_in_flexible(&self, btf: &Btf, count: u32) -> bool {
        match self.steps.last() {
            Some(Step::Member { of, index }) => count == 0 && *index as usize + 1 == btf.members(*of).len(),
            _ => false,
        }
    }

    /// The path in a kernel type, or `None` if that type has no such thing.
    pub(super) fn find_in(
        &self,
        local: &Btf,
        kernel: &Btf,
        candidate: TypeId,
        steps: &Steps,
    ) -> Result<Option<Spec>, String> {
        debug_assert!(
            self.kind.is_field() || self.steps.len() <= 1,
            "only a field has a path of several steps"
        );
        let mut found = Spec { root: candidate, kind: self.kind, steps: Vec::new(), bit_offset: 0 };
        match self.kind {
            RelocKind::TypeMatches => {
                return Ok(types_match(local, self.root, kernel, candidate, steps).then_some(found));
            }
            _ if self.kind.is_enumval() => return Ok(self.find_value(local, kernel, found)),
            _ if !self.kind.is_field() => {
                return Ok(types_are_compat(local, self.root, kernel, candidate, steps).then_some(found));
            }
            _ => {}
        }
        let mut at = candidate;
        for (number, step) in self.steps.iter().enumerate() {
            at = match *step {
                Step::Index { index, .. } => {
                    let ty =
                        if number == 0 { Some(kernel.resolve(at)) } else { found.element(kernel, at, index) };
                    let Some(ty) = ty else {
                        return Ok(None);
                    };
                    found.push_index(kernel, ty, index)?;
                    ty
                }
                Step::Member { of, index } => {
                    let wanted = &local.members(of)[index as usize];
                    match found.find_member(local, wanted, kernel, at, steps) {
                        Some(ty) => ty,
                        None => return Ok(None),
                    }
                }
                Step::Value { .. } => return Ok(None),
            };
        }
        Ok(Some(found))
    }

    fn element(&self, kernel: &Btf, at: TypeId, index: u32) -> Option<TypeId> {
        let Kind::Array(array) = kernel.resolved(at) else {
            return None;
        };
        let inside = index < array.count || self.ends_in_flexible(kernel, array.count);
        inside.then(|| kernel.resolve(array.elem))
    }

    /// Finds a member by name, also inside unnamed structs; returns its type if that is compatible.
    fn find_member(
        &mut self,
        local: &Btf,
        wanted: &Member,
        kernel: &Btf,
        at: TypeId,
        steps: &Steps,
    ) -> Option<TypeId> {
        let of = kernel.resolve(at);
        for (index, member) in (0u32..).zip(kernel.members(of)) {
            if !steps.take(1) {
                return None;
            }
            let name = kernel.member_name(member);
            let before = self.bit_offset;
            self.bit_offset += u64::from(member.bit_offset);
            if name.is_empty() {
                if let Some(found) = self.find_member(local, wanted, kernel, member.ty, steps) {
                    return Some(found);
                }
            } else if name == local.member_name(wanted) {
                self.steps.push(Step::Member { of, index });
                return fields_are_compat(local, wanted.ty, kernel, member.ty).then_some(member.ty);
            }
            self.bit_offset = before;
        }
        None
    }

    fn find_value(&self, local: &Btf, kernel: &Btf, mut found: Spec) -> Option<Spec> {
        debug_assert!(matches!(self.steps.as_slice(), [Step::Value { .. }]), "a value has one step");
        let Some(Step::Value { of, index }) = self.steps.first() else {
            return None;
        };
        let wanted = essential_name(local.enumerator_name(&enumerators(local, *of)[*index as usize]));
        let target = kernel.resolve(found.root);
        let at = enumerators(kernel, target)
            .iter()
            .position(|v| essential_name(kernel.enumerator_name(v)) == wanted)?;
        found.steps.push(Step::Value { of: target, index: at as u32 });
        Some(found)
    }

    /// The value of the enumeration constant that the path names.
    pub(super) fn enum_value(&self, btf: &Btf) -> Option<u64> {
        match self.steps.first() {
            Some(Step::Value { of, index }) => enumerators(btf, *of).get(*index as usize).map(|v| v.value),
            _ => None,
        }
    }

    /// The member that the path ends in, at its distance from the root; `None` if it ends in an element.
    pub(super) fn last_member(&self, btf: &Btf) -> Option<MemberAt> {
        debug_assert!(self.steps.len() <= MAX_STEPS, "the path's length was checked");
        let Some(Step::Member { of, index }) = self.steps.last() else {
            return None;
        };
        let member = btf.members(*of).get(*index as usize)?;
        Some(MemberAt { ty: member.ty, bit_offset: self.bit_offset, bitfield: member.bitfield })
    }

    /// The element type that the path ends in.
    pub(super) fn last_type(&self) -> TypeId {
        match self.steps.last() {
            Some(Step::Index { ty, .. }) => *ty,
            _ => self.root,
        }
    }

    /// In words: `task_struct.scx.flags`, `scx_ops_flags::SCX_OPS_KEEP_BUILTIN_IDLE`; what is longer than
    /// [`MAX_WORDS`] is cut.
    pub(super) fn describe(&self, btf: &Btf) -> String {
        let mut out = btf.spell(self.root);
        for (number, step) in self.steps.iter().enumerate() {
            if out.len() > MAX_WORDS {
                return out.chars().take(MAX_WORDS).chain("...".chars()).collect();
            }
            match step {
                Step::Index { index, .. } if number == 0 && *index == 0 => {}
                Step::Index { index, .. } => out.push_str(&format!("[{index}]")),
                Step::Member { of, index } => {
                    out.push('.');
                    out.push_str(btf.members(*of).get(*index as usize).map_or("?", |m| btf.member_name(m)));
                }
                Step::Value { of, index } => {
                    out.push_str("::");
                    let value = enumerators(btf, *of).get(*index as usize);
                    out.push_str(value.map_or("?", |v| btf.enumerator_name(v)));
                }
            }
        }
        out
    }
}

fn enumerators(btf: &Btf, id: TypeId) -> &[crate::btf::Enumerator] {
    match btf.resolved(id) {
        Kind::Enum(e) | Kind::Enum64(e) => &e.values,
        _ => &[],
    }
}
