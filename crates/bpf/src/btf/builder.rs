//! Types made in Rust: the simulated kernel describes itself with these, as a real one does with its BTF.

use super::*;

/// Builds a [`Btf`], one type at a time; each call returns the id that later calls refer to.
///
/// Ids are given in order of the calls, so the same calls give the same ids. A struct that refers to itself is made
/// with [`BtfBuilder::declare`] first and [`BtfBuilder::define`] later.
#[derive(Debug, Clone)]
pub struct BtfBuilder {
    btf: Btf,
}

/// A member as the builder wants it.
#[derive(Debug, Clone, Copy)]
pub struct MemberSpec<'a> {
    /// Empty for an unnamed struct or union inside.
    pub name: &'a str,
    /// The member's type.
    pub ty: TypeId,
    /// Distance from the start, in bits.
    pub bit_offset: u32,
    /// Width in bits of a bit field, 0 for an ordinary member.
    pub bitfield: u8,
}

impl<'a> MemberSpec<'a> {
    /// An ordinary member at this distance in bits.
    pub fn at(name: &'a str, ty: TypeId, bit_offset: u32) -> Self {
        MemberSpec { name, ty, bit_offset, bitfield: 0 }
    }
}

impl Default for BtfBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BtfBuilder {
    /// No types but `void`.
    pub fn new() -> Self {
        BtfBuilder {
            btf: Btf {
                strings: vec![0],
                types: vec![Type { name: 0, kind: Kind::Void }],
                by_name: Vec::new(),
            },
        }
    }

    /// Puts a name at the end of the strings and tells where it is. Most names stand for one thing, so none is looked for.
    fn put(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.btf.strings.len() as u32;
        self.btf.strings.extend_from_slice(name.as_bytes());
        self.btf.strings.push(0);
        at
    }

    /// Adds a type of any shape; the shape's own names must come from this builder.
    fn add(&mut self, name: &str, kind: Kind) -> TypeId {
        let name = self.put(name);
        self.btf.types.push(Type { name, kind });
        TypeId(self.btf.types.len() as u32 - 1)
    }

    /// An integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u32, signed: bool) -> TypeId {
        debug_assert!(matches!(size, 1 | 2 | 4 | 8 | 16), "an integer of C has a size of C");
        let int = Int { size, bits: (size * 8) as u8, offset: 0, signed, is_char: false, is_bool: false };
        self.add(name, Kind::Int(int))
    }

    /// `_Bool`: one byte.
    pub fn boolean(&mut self) -> TypeId {
        let int = Int { size: 1, bits: 8, offset: 0, signed: false, is_char: false, is_bool: true };
        self.add("_Bool", Kind::Int(int))
    }

    /// A pointer.
    pub fn ptr(&mut self, to: TypeId) -> TypeId {
        self.add("", Kind::Ptr(to))
    }

    /// An array; the index type is the element type, which nothing reads.
    pub fn array(&mut self, elem: TypeId, count: u32) -> TypeId {
        self.add("", Kind::Array(Array { elem, index: elem, count }))
    }

    /// A typedef.
    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        self.add(name, Kind::Typedef(to))
    }

    /// `const`.
    pub fn constant(&mut self, of: TypeId) -> TypeId {
        self.add("", Kind::Const(of))
    }

    /// A type tag such as `rcu`.
    pub fn type_tag(&mut self, tag: &str, of: TypeId) -> TypeId {
        self.add(tag, Kind::TypeTag(of))
    }

    /// A declaration tag such as `bpf_kfunc` on a function.
    pub fn decl_tag(&mut self, tag: &str, of: TypeId) -> TypeId {
        self.add(tag, Kind::DeclTag(of, -1))
    }

    /// A struct with members at explicit places.
    pub fn structure(&mut self, name: &str, size: u32, members: &[MemberSpec]) -> TypeId {
        let body = self.body(size, members);
        self.add(name, Kind::Struct(body))
    }

    /// A union.
    pub fn union(&mut self, name: &str, size: u32, members: &[MemberSpec]) -> TypeId {
        let body = self.body(size, members);
        self.add(name, Kind::Union(body))
    }

    /// A struct that is only named so far: a forward declaration until [`BtfBuilder::define`].
    pub fn declare(&mut self, name: &str) -> TypeId {
        self.add(name, Kind::Fwd(false))
    }

    /// Gives a declared struct its members.
    ///
    /// # Panics
    /// If `id` did not come from [`BtfBuilder::declare`] or is defined already.
    pub fn define(&mut self, id: TypeId, size: u32, members: &[MemberSpec]) {
        let body = self.body(size, members);
        let ty = &mut self.btf.types[id.0 as usize];
        assert!(matches!(ty.kind, Kind::Fwd(_)), "type {} is not a declaration", id.0);
        ty.kind = Kind::Struct(body);
    }

    fn body(&mut self, size: u32, members: &[MemberSpec]) -> Composite {
        debug_assert!(
            members.iter().all(|member| u64::from(member.bit_offset) <= u64::from(size) * 8),
            "a member begins in its struct"
        );
        let members = members
            .iter()
            .map(|m| Member {
                name: self.put(m.name),
                ty: m.ty,
                bit_offset: m.bit_offset,
                bitfield: m.bitfield,
            })
            .collect();
        Composite { size, members }
    }

    /// An enumeration of 4 bytes; `signed` if a value is negative.
    pub fn enumeration(&mut self, name: &str, signed: bool, values: &[(&str, i64)]) -> TypeId {
        debug_assert!(
            values.iter().all(|(_, value)| (i64::from(i32::MIN)..=u32::MAX.into()).contains(value)),
            "a value has 32 bits"
        );
        let values = self.enumerators(values);
        self.add(name, Kind::Enum(Enum { size: 4, signed, values }))
    }

    /// An enumeration of 8 bytes.
    pub fn enumeration64(&mut self, name: &str, signed: bool, values: &[(&str, i64)]) -> TypeId {
        let values = self.enumerators(values);
        self.add(name, Kind::Enum64(Enum { size: 8, signed, values }))
    }

    fn enumerators(&mut self, values: &[(&str, i64)]) -> Vec<Enumerator> {
        values.iter().map(|&(name, value)| Enumerator { name: self.put(name), value: value as u64 }).collect()
    }

    /// A function prototype: return type (0 is `void`) and named parameters.
    pub fn proto(&mut self, ret: TypeId, params: &[(&str, TypeId)]) -> TypeId {
        let params = params.iter().map(|&(name, ty)| Param { name: self.put(name), ty }).collect();
        self.add("", Kind::FuncProto(FuncProto { ret, params }))
    }

    /// A global function, for instance a kfunc.
    pub fn func(&mut self, name: &str, proto: TypeId) -> TypeId {
        debug_assert!(
            matches!(self.btf.types[proto.0 as usize].kind, Kind::FuncProto(_)),
            "a function has a prototype"
        );
        self.add(name, Kind::Func(proto, Linkage::Global))
    }

    /// A global variable.
    pub fn var(&mut self, name: &str, ty: TypeId) -> TypeId {
        self.add(name, Kind::Var(ty, Linkage::Global))
    }

    /// The first type of this name made so far.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        let is_it = |t: &Type| t.name != 0 && self.btf.string(t.name) == name;
        let found = self.btf.types.iter().position(is_it)?;
        Some(TypeId(found as u32))
    }

    /// Bytes of a type made so far.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        self.btf.size_of(id)
    }

    /// The finished types.
    ///
    /// # Panics
    /// If a type refers to an id that was never given out or contains itself.
    pub fn finish(mut self) -> Btf {
        if let Err(error) = self.btf.check() {
            panic!("types built in Rust contradict themselves: {error}");
        }
        self.btf.index();
        self.btf
    }
}
