//! BTF from bytes: header, types, strings, with every reference checked so that later code may trust them.

use super::*;
use crate::error::LoadError;
use crate::limits::{BTF_BYTES, BTF_TYPES, NAME_BYTES, TAG_BYTES};

const MAGIC: u16 = 0xeb9f;
/// A bound on nesting of structs, arrays, typedefs and modifiers by value (chosen; kernels need about 30).
const MAX_DEPTH: u16 = 200;
const UNSEEN: u16 = u16::MAX;
const ON_PATH: u16 = u16::MAX - 1;

/// A cursor over little-endian words.
pub(super) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    place: &'static str,
}

impl<'a> Words<'a> {
    pub(super) fn new(bytes: &'a [u8], place: &'static str) -> Self {
        Words { bytes, at: 0, place }
    }

    pub(super) fn done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], LoadError> {
        let end = self.at.checked_add(n).filter(|&e| e <= self.bytes.len());
        debug_assert!(self.at <= self.bytes.len(), "reading ends with the bytes");
        let Some(end) = end else { return Err(self.ends()) };
        let out = &self.bytes[self.at..end];
        self.at = end;
        Ok(out)
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, LoadError> {
        debug_assert!(self.at <= self.bytes.len(), "reading ends with the bytes");
        let rest = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let Some(word) = rest else { return Err(self.ends()) };
        self.at += size_of::<u32>();
        Ok(u32::from_le_bytes(*word))
    }

    #[cold]
    fn ends(&self) -> LoadError {
        LoadError::malformed(self.place, format!("ends inside a record at byte {}", self.at))
    }
}

fn bad(problem: impl Into<String>) -> LoadError {
    LoadError::malformed("section .BTF", problem)
}

impl Btf {
    /// Reads the content of a `.BTF` section or of `/sys/kernel/btf/vmlinux`.
    ///
    /// # Errors
    /// `Malformed` for anything that is not complete, little-endian, self-consistent BTF of version 1, `Limit` for more
    /// bytes, types or bytes in a name than [`crate::limits`] allows.
    pub fn parse(bytes: &[u8]) -> Result<Btf, LoadError> {
        BTF_BYTES.check(bytes.len(), || "section .BTF".to_string())?;
        let (types, strings) = split(bytes)?;
        let mut btf = Btf {
            strings: strings.to_vec(),
            types: vec![Type { name: 0, kind: Kind::Void }],
            by_name: Vec::new(),
        };
        let mut words = Words::new(types, "section .BTF");
        while !words.done() {
            let ty = read_type(&mut words)?;
            btf.types.push(ty);
            BTF_TYPES.check(btf.types.len() - 1, || "section .BTF".to_string())?;
        }
        btf.check_names()?;
        btf.check()?;
        btf.index();
        debug_assert!(btf.strings.last() == Some(&0), "the last string ends");
        Ok(btf)
    }

    /// Checks that names are no longer than they may be.
    fn check_names(&self) -> Result<(), LoadError> {
        for (id, ty) in self.iter() {
            let place = || format!("section .BTF, type {}", id.0);
            let most =
                if matches!(ty.kind, Kind::DeclTag(..) | Kind::TypeTag(_)) { TAG_BYTES } else { NAME_BYTES };
            let inner = (0..).map_while(|index| inner_name(&ty.kind, index));
            for name in std::iter::once(ty.name).chain(inner) {
                let rest = self.strings.get(name as usize..).unwrap_or_default();
                let within = &rest[..rest.len().min(most.most_len() + 1)];
                // Without an end within the limit it is longer, as the last string has an end.
                most.check(
                    CStr::from_bytes_until_nul(within).map_or(within.len(), |name| name.count_bytes()),
                    place,
                )?;
            }
        }
        Ok(())
    }

    /// Checks references: ids exist, and chains that are followed without a pointer between end.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let count = self.types.len() as u32;
        for (id, ty) in self.iter() {
            for target in references(&ty.kind) {
                if target.0 >= count {
                    return Err(bad(format!(
                        "type {} refers to type {}, which does not exist",
                        id.0, target.0
                    )));
                }
            }
        }
        let mut depth = vec![UNSEEN; self.types.len()];
        let mut stack = Vec::new();
        for (id, _) in self.iter() {
            self.check_nesting(id, &mut depth, &mut stack)?;
        }
        Ok(())
    }

    /// Depth-first over by-value references with an explicit stack, as a hostile file may nest deeply: types on the way,
    /// which of their references comes next, and how deep those before it nest.
    ///
    /// Afterwards every by-value walk from any type ends within [`MAX_DEPTH`] steps, so others may recurse.
    fn check_nesting(
        &self,
        root: TypeId,
        depth: &mut [u16],
        stack: &mut Vec<(TypeId, usize, u16)>,
    ) -> Result<(), LoadError> {
        if depth[root.0 as usize] != UNSEEN {
            return Ok(());
        }
        depth[root.0 as usize] = ON_PATH;
        stack.push((root, 0, 0));
        while let Some((id, next, deepest)) = stack.last_mut() {
            if let Some(child) = by_value(self.kind(*id), *next) {
                *next += 1;
                match depth[child.0 as usize] {
                    UNSEEN => {
                        depth[child.0 as usize] = ON_PATH;
                        stack.push((child, 0, 0));
                    }
                    ON_PATH => return Err(bad(format!("type {} contains itself", child.0))),
                    known => *deepest = (*deepest).max(known),
                }
                continue;
            }
            let (id, own) = (*id, *deepest + 1);
            if own > MAX_DEPTH {
                return Err(bad(format!("type {} nests more than {MAX_DEPTH} levels", id.0)));
            }
            depth[id.0 as usize] = own;
            stack.pop();
            if let Some((_, _, deepest)) = stack.last_mut() {
                *deepest = (*deepest).max(own);
            }
        }
        Ok(())
    }
}

/// The types and strings parts, by the header.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), LoadError> {
    let mut w = Words::new(bytes, "section .BTF");
    let head = w.take(8)?;
    let magic = u16::from_le_bytes([head[0], head[1]]);
    if magic != MAGIC {
        return Err(bad(format!("magic {magic:#06x} where BTF has {MAGIC:#06x}")));
    }
    if head[2] != 1 {
        return Err(bad(format!("BTF version {}, only 1 is known", head[2])));
    }
    let header = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let (type_off, type_len) = (w.u32()? as usize, w.u32()? as usize);
    let (str_off, str_len) = (w.u32()? as usize, w.u32()? as usize);
    if header < 24 {
        return Err(bad(format!("header of {header} bytes, at least 24 needed")));
    }
    let part = |off: usize, len: usize, what: &str| {
        let from = header.checked_add(off);
        let to = from.and_then(|f| f.checked_add(len));
        match (from, to) {
            (Some(f), Some(t)) if t <= bytes.len() => Ok(&bytes[f..t]),
            _ => Err(bad(format!("{what} reach beyond the end of the section"))),
        }
    };
    let types = part(type_off, type_len, "types")?;
    let strings = part(str_off, str_len, "strings")?;
    if strings.first() != Some(&0) || strings.last() != Some(&0) {
        return Err(bad("the string table does not start and end with a zero byte"));
    }
    Ok((types, strings))
}

fn linkage(value: u32) -> Result<Linkage, LoadError> {
    match value {
        0 => Ok(Linkage::Static),
        1 => Ok(Linkage::Global),
        2 => Ok(Linkage::Extern),
        other => Err(bad(format!("linkage {other} is not known"))),
    }
}

/// One type record: name, info word (kind, flag, count), size or type, then what the kind adds.
fn read_type(w: &mut Words) -> Result<Type, LoadError> {
    let name = w.u32()?;
    let info = w.u32()?;
    let size = w.u32()?;
    let id = TypeId(size);
    let count = info & 0xffff;
    let flag = info >> 31 == 1;
    let kind = match (info >> 24) & 0x1f {
        1 => read_int(w, size)?,
        2 => Kind::Ptr(id),
        3 => Kind::Array(Array { elem: TypeId(w.u32()?), index: TypeId(w.u32()?), count: w.u32()? }),
        4 => Kind::Struct(read_members(w, size, count, flag)?),
        5 => Kind::Union(read_members(w, size, count, flag)?),
        6 => Kind::Enum(read_enum(w, size, count, flag, false)?),
        7 => Kind::Fwd(flag),
        8 => Kind::Typedef(id),
        9 => Kind::Volatile(id),
        10 => Kind::Const(id),
        11 => Kind::Restrict(id),
        12 => Kind::Func(id, linkage(count)?),
        13 => Kind::FuncProto(read_proto(w, id, count)?),
        14 => Kind::Var(id, linkage(w.u32()?)?),
        15 => Kind::Datasec(read_datasec(w, size, count)?),
        16 => Kind::Float(size),
        17 => Kind::DeclTag(id, w.u32()? as i32),
        18 => Kind::TypeTag(id),
        19 => Kind::Enum64(read_enum(w, size, count, flag, true)?),
        other => return Err(bad(format!("type kind {other} is not known"))),
    };
    Ok(Type { name, kind })
}

fn read_int(w: &mut Words, size: u32) -> Result<Kind, LoadError> {
    let word = w.u32()?;
    let encoding = (word >> 24) & 0xf;
    if !(1..=16).contains(&size) {
        return Err(bad(format!("an integer of {size} bytes")));
    }
    Ok(Kind::Int(Int {
        size,
        bits: (word & 0xff) as u8,
        offset: ((word >> 16) & 0xff) as u8,
        signed: encoding & 1 != 0,
        is_char: encoding & 2 != 0,
        is_bool: encoding & 4 != 0,
    }))
}

fn read_members(w: &mut Words, size: u32, count: u32, flag: bool) -> Result<Composite, LoadError> {
    let mut members = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let name = w.u32()?;
        let ty = TypeId(w.u32()?);
        let word = w.u32()?;
        let (bit_offset, bitfield) = if flag { (word & 0xff_ffff, (word >> 24) as u8) } else { (word, 0) };
        members.push(Member { name, ty, bit_offset, bitfield });
    }
    Ok(Composite { size, members })
}

fn read_enum(w: &mut Words, size: u32, count: u32, signed: bool, wide: bool) -> Result<Enum, LoadError> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(bad(format!("an enumeration of {size} bytes")));
    }
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let name = w.u32()?;
        let low = w.u32()?;
        let value = if wide {
            u64::from(low) | u64::from(w.u32()?) << 32
        } else if signed {
            i64::from(low as i32) as u64
        } else {
            u64::from(low)
        };
        values.push(Enumerator { name, value });
    }
    Ok(Enum { size, signed, values })
}

fn read_proto(w: &mut Words, ret: TypeId, count: u32) -> Result<FuncProto, LoadError> {
    let mut params = Vec::with_capacity(count as usize);
    for _ in 0..count {
        params.push(Param { name: w.u32()?, ty: TypeId(w.u32()?) });
    }
    Ok(FuncProto { ret, params })
}

fn read_datasec(w: &mut Words, size: u32, count: u32) -> Result<Datasec, LoadError> {
    let mut vars = Vec::with_capacity(count as usize);
    for _ in 0..count {
        vars.push(SecVar { ty: TypeId(w.u32()?), offset: w.u32()?, size: w.u32()? });
    }
    Ok(Datasec { size, vars })
}

/// The names inside a type, one by one: of members, values and parameters.
fn inner_name(kind: &Kind, index: usize) -> Option<u32> {
    match kind {
        Kind::Struct(c) | Kind::Union(c) => c.members.get(index).map(|member| member.name),
        Kind::Enum(e) | Kind::Enum64(e) => e.values.get(index).map(|value| value.name),
        Kind::FuncProto(p) => p.params.get(index).map(|param| param.name),
        _ => None,
    }
}

/// Every type that this shape names.
pub(super) fn references(kind: &Kind) -> impl Iterator<Item = TypeId> + '_ {
    (0..).map_while(|index| reference(kind, index))
}

fn reference(kind: &Kind, index: usize) -> Option<TypeId> {
    match kind {
        Kind::Void | Kind::Int(_) | Kind::Enum(_) | Kind::Enum64(_) | Kind::Fwd(_) | Kind::Float(_) => None,
        Kind::Ptr(t) | Kind::Func(t, _) | Kind::DeclTag(t, _) => (index == 0).then_some(*t),
        Kind::Array(a) => [a.elem, a.index].get(index).copied(),
        Kind::FuncProto(p) if index == 0 => Some(p.ret),
        Kind::FuncProto(p) => p.params.get(index - 1).map(|p| p.ty),
        Kind::Datasec(d) => d.vars.get(index).map(|v| v.ty),
        _ => by_value(kind, index),
    }
}

/// The types whose storage is part of this one's, one by one.
fn by_value(kind: &Kind, index: usize) -> Option<TypeId> {
    match kind {
        Kind::Typedef(t)
        | Kind::Volatile(t)
        | Kind::Const(t)
        | Kind::Restrict(t)
        | Kind::TypeTag(t)
        | Kind::Var(t, _) => (index == 0).then_some(*t),
        Kind::Array(a) => (index == 0).then_some(a.elem),
        Kind::Struct(c) | Kind::Union(c) => c.members.get(index).map(|m| m.ty),
        _ => None,
    }
}
