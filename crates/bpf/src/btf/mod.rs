//! BTF, the type description that BPF objects and the kernel carry: reading, building, searching, measuring.
//!
//! Layout of the format: kernel documentation `Documentation/bpf/btf.rst`. Type ids are dense; 0 is `void`.
//! Sub-modules: `parse` (bytes to types), `builder` (types made in Rust), `write` (types to bytes), `layout`
//! (sizes, members), `ext` (the `.BTF.ext` section: CO-RE records and source lines).

mod builder;
pub(crate) mod ext;
mod layout;
mod parse;
mod write;

pub use builder::{BtfBuilder, MemberSpec};
pub use layout::MemberAt;

use crate::limits::TAG_BYTES;
use std::collections::BTreeMap;
use std::ffi::CStr;

/// Index of a type in its [`Btf`]; 0 is `void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// The `void` type.
pub const VOID: TypeId = TypeId(0);

/// A set of types with the names that they use.
///
/// Names are kept in one string table and referred to by offset, as in the file: a kernel has above 100,000 types.
#[derive(Debug, Clone, Default)]
pub struct Btf {
    strings: Vec<u8>,
    types: Vec<Type>,
    /// The types that have a name, sorted by (essential name, id): the search index.
    by_name: Vec<Named>,
}

/// A type and where its essential name stands in the strings.
#[derive(Debug, Clone, Copy)]
struct Named {
    id: u32,
    at: u32,
    len: u32,
}

/// One type: its name and its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    pub(crate) name: u32,
    /// The shape.
    pub kind: Kind,
}

/// The shape of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// No type; id 0 only.
    Void,
    /// An integer.
    Int(Int),
    /// A pointer to a type.
    Ptr(TypeId),
    /// An array.
    Array(Array),
    /// A struct.
    Struct(Composite),
    /// A union.
    Union(Composite),
    /// An enumeration of at most 32 bits.
    Enum(Enum),
    /// An enumeration of 64 bits.
    Enum64(Enum),
    /// A forward declaration of a struct (`false`) or a union (`true`).
    Fwd(bool),
    /// Another name for a type.
    Typedef(TypeId),
    /// `volatile`.
    Volatile(TypeId),
    /// `const`.
    Const(TypeId),
    /// `restrict`.
    Restrict(TypeId),
    /// A function: its prototype and linkage.
    Func(TypeId, Linkage),
    /// A function prototype.
    FuncProto(FuncProto),
    /// A variable: its type and linkage.
    Var(TypeId, Linkage),
    /// The variables of a section.
    Datasec(Datasec),
    /// A floating-point number of this many bytes.
    Float(u32),
    /// A tag on a type or on one of its components (-1: the type itself).
    DeclTag(TypeId, i32),
    /// A tag on a pointed-to type.
    TypeTag(TypeId),
}

/// Shape of an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int {
    /// Storage in bytes.
    pub size: u32,
    /// Value width in bits.
    pub bits: u8,
    /// Bit offset inside the storage; only old compilers set it.
    pub offset: u8,
    /// Sign-extended.
    pub signed: bool,
    /// `char`.
    pub is_char: bool,
    /// `bool`.
    pub is_bool: bool,
}

/// Shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub elem: TypeId,
    /// Index type.
    pub index: TypeId,
    /// Number of elements.
    pub count: u32,
}

/// Shape of a struct or union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composite {
    /// Bytes.
    pub size: u32,
    /// In order of declaration.
    pub members: Vec<Member>,
}

/// A member of a struct or union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub(crate) name: u32,
    /// The member's type.
    pub ty: TypeId,
    /// Distance from the start of the struct, in bits.
    pub bit_offset: u32,
    /// Width in bits of a bit field, 0 for an ordinary member.
    pub bitfield: u8,
}

/// Shape of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enum {
    /// Bytes.
    pub size: u32,
    /// Values are signed.
    pub signed: bool,
    /// In order of declaration.
    pub values: Vec<Enumerator>,
}

/// One value of an enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enumerator {
    pub(crate) name: u32,
    /// The value; the bits of an `i64` where the enumeration is signed.
    pub value: u64,
}

/// Shape of a function prototype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuncProto {
    /// Return type.
    pub ret: TypeId,
    /// Parameters; a last one of type 0 without name stands for `...`.
    pub params: Vec<Param>,
}

/// A parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    pub(crate) name: u32,
    /// The parameter's type.
    pub ty: TypeId,
}

/// Shape of a section of variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datasec {
    /// Bytes; 0 in a file that was not linked, where the ELF section knows.
    pub size: u32,
    /// In order of the file.
    pub vars: Vec<SecVar>,
}

/// A variable (or extern function) in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecVar {
    /// The `Var` or `Func`.
    pub ty: TypeId,
    /// Bytes from the start of the section; 0 in a file that was not linked.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// Who can see a function or variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// This file only.
    Static,
    /// Every file.
    Global,
    /// Defined elsewhere.
    Extern,
}

/// The part of a name before its last flavour mark (`___`): `task_struct___old` is a view of `task_struct`.
///
/// The rule is libbpf's: the mark needs a character on each side that is not an underscore.
pub fn essential_name(name: &str) -> &str {
    let b = name.as_bytes();
    let mut i = b.len().saturating_sub(4);
    while i > 0 {
        i -= 1;
        if b[i] != b'_' && &b[i + 1..i + 4] == b"___" && b[i + 4] != b'_' {
            return &name[..=i];
        }
    }
    name
}

impl Btf {
    /// The type with this id.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get(id.0 as usize)
    }

    /// The shape of this type; `Void` for an id that does not exist.
    pub fn kind(&self, id: TypeId) -> &Kind {
        self.get(id).map_or(&Kind::Void, |t| &t.kind)
    }

    /// The name of this type; empty if it has none.
    pub fn name(&self, id: TypeId) -> &str {
        self.get(id).map_or("", |t| self.string(t.name))
    }

    /// The name of a member.
    pub fn member_name(&self, member: &Member) -> &str {
        self.string(member.name)
    }

    /// The name of an enumeration value.
    pub fn enumerator_name(&self, value: &Enumerator) -> &str {
        self.string(value.name)
    }

    /// The name of a parameter.
    pub fn param_name(&self, param: &Param) -> &str {
        self.string(param.name)
    }

    /// The first tag (`btf_decl_tag`) of each variable that has one, by the variable's name.
    pub fn variable_tags(&self) -> BTreeMap<&str, &str> {
        let mut tags = BTreeMap::new();
        for (name, tag) in self.tags(|kind| matches!(kind, Kind::Var(..))) {
            tags.entry(name).or_insert(tag);
        }
        tags
    }

    /// The tags (`btf_decl_tag`) of functions: the function's name and the tag, in order of the tags.
    pub fn function_tags(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tags(|kind| matches!(kind, Kind::Func(..)))
    }

    /// Tags on whole types that `wanted` accepts: the type's name and the tag.
    pub(crate) fn tags(&self, wanted: impl Fn(&Kind) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.types.iter().filter_map(move |tag| match tag.kind {
            Kind::DeclTag(of, -1) if wanted(self.kind(of)) => Some((self.name(of), self.string(tag.name))),
            _ => None,
        })
    }

    /// Types whose name without flavour is `name`, in order of id.
    pub fn candidates<'a>(&'a self, name: &'a str) -> impl Iterator<Item = TypeId> + 'a {
        let text = |named: &Named| &self.strings[named.at as usize..][..named.len as usize];
        let from = self.by_name.partition_point(|named| text(named) < name.as_bytes());
        let equal = self.by_name[from..].iter().take_while(move |named| text(named) == name.as_bytes());
        equal.map(|named| TypeId(named.id))
    }

    /// The first type of exactly this name that `wanted` accepts.
    pub fn find(&self, name: &str, wanted: impl Fn(&Kind) -> bool) -> Option<TypeId> {
        self.candidates(essential_name(name)).find(|&id| self.name(id) == name && wanted(self.kind(id)))
    }

    /// The struct of this name.
    pub fn find_struct(&self, name: &str) -> Option<TypeId> {
        self.find(name, |k| matches!(k, Kind::Struct(_)))
    }

    /// The function of this name.
    pub fn find_func(&self, name: &str) -> Option<TypeId> {
        self.find(name, |k| matches!(k, Kind::Func(..)))
    }

    /// The value of the enumeration constant `name`, searched in all enumerations (the first wins).
    pub fn enum_value(&self, name: &str) -> Option<u64> {
        self.types.iter().find_map(|t| match &t.kind {
            Kind::Enum(e) | Kind::Enum64(e) => {
                e.values.iter().find(|v| self.string(v.name) == name).map(|v| v.value)
            }
            _ => None,
        })
    }

    /// All types with their ids, `void` first.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u32..).map(TypeId).zip(self.types.iter())
    }

    /// The string at this offset of the string table; empty if out of range, longer than [`TAG_BYTES`] or not UTF-8.
    pub(crate) fn string(&self, offset: u32) -> &str {
        debug_assert!(self.strings.last() == Some(&0), "the last string ends");
        let Some(rest) = self.strings.get(offset as usize..) else {
            return "";
        };
        let within = &rest[..rest.len().min(TAG_BYTES.most_len() + 1)];
        CStr::from_bytes_until_nul(within).ok().and_then(|text| text.to_str().ok()).unwrap_or("")
    }

    /// Rebuilds the search index; called once after all types are there.
    fn index(&mut self) {
        debug_assert!(self.by_name.is_empty(), "names are indexed once");
        let mut named: Vec<(&str, Named)> = (1..self.types.len() as u32)
            .map(|id| {
                let name = essential_name(self.name(TypeId(id)));
                (name, Named { id, at: self.types[id as usize].name, len: name.len() as u32 })
            })
            .filter(|(name, _)| !name.is_empty())
            .collect();
        named.sort_unstable_by_key(|(name, named)| (*name, named.id));
        self.by_name = named.into_iter().map(|(_, named)| named).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::essential_name;

    #[test]
    fn the_last_flavour_mark_is_cut_off() {
        assert_eq!(essential_name("task_struct"), "task_struct");
        assert_eq!(essential_name("task_struct___old"), "task_struct");
        assert_eq!(essential_name("a___v2___compat"), "a___v2");
        assert_eq!(essential_name("___x"), "___x");
        assert_eq!(essential_name("a____b"), "a____b");
        assert_eq!(essential_name("a___"), "a___");
        assert_eq!(essential_name(""), "");
    }
}
