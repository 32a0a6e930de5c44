//! Variables, externs and struct_ops tables: symbols of data sections joined with their types.

use super::elf::{Elf, Symbol, SymbolKind};
use crate::btf::{Btf, Kind, Linkage, Member, TypeId};
use crate::error::LoadError;
use crate::limits::{STRUCT_OPS, STRUCT_OPS_BYTES};
use std::collections::BTreeMap;

/// A variable of a data section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name as in C; a static of a function is `function.name`.
    pub name: String,
    /// `.rodata`, `.data`, `.bss`, `.addr_space.1`, ...
    pub section: String,
    /// Bytes from the start of the section.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Type in the object's BTF; `None` where the compiler left it out.
    pub ty: Option<TypeId>,
    /// Visible outside its C file.
    pub global: bool,
}

/// What the object expects someone else to provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extern {
    /// Name as in C.
    pub name: String,
    /// What it is.
    pub kind: ExternKind,
    /// May be absent; the program then sees address 0.
    pub weak: bool,
    /// Type in the object's BTF: the prototype, the variable's type; `None` for an untyped symbol.
    pub ty: Option<TypeId>,
}

/// Kinds of extern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternKind {
    /// A kernel function.
    Kfunc,
    /// A kernel variable.
    Ksym,
    /// A kernel configuration value or one of libbpf's virtual ones (`LINUX_KERNEL_VERSION`).
    Kconfig,
}

/// A struct_ops table in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructOpsVar {
    /// Name of the variable.
    pub name: String,
    /// Name of its struct, without flavour: `sched_ext_ops`.
    pub type_name: String,
    /// Type in the object's BTF.
    pub ty: TypeId,
    /// Members that point to functions, by member name, in order of place.
    pub functions: Vec<(String, String)>,
    /// The table's bytes as initialised; function members are zero here.
    pub(crate) data: Vec<u8>,
}

impl StructOpsVar {
    /// The bytes that a member is initialised with; none for one that does not lie in the table.
    pub(crate) fn content(&self, btf: &Btf, member: &Member) -> &[u8] {
        let from = (member.bit_offset / 8) as usize;
        let size = usize::try_from(btf.size_of(member.ty).unwrap_or(0)).unwrap_or(usize::MAX);
        from.checked_add(size).and_then(|end| self.data.get(from..end)).unwrap_or(&[])
    }
}

/// The number that one to eight bytes stand for, zero-extended.
pub(crate) fn little_endian(bytes: &[u8]) -> Option<u64> {
    let mut word = [0u8; 8];
    word.get_mut(..bytes.len()).filter(|_| !bytes.is_empty())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// Whether this section holds variables that programs read and write, by libbpf's names.
pub(crate) fn is_data_section(name: &str) -> bool {
    [".rodata", ".data", ".bss"].iter().any(|p| name == *p || name.starts_with(&format!("{p}.")))
        || name == ARENA_SECTION
}

/// Where clang puts variables of address space 1: the arena.
pub const ARENA_SECTION: &str = ".addr_space.1";

/// (name, type, linkage) of the variables of a section, by its BTF record.
fn declared<'a>(btf: &'a Btf, section: &str) -> Vec<(&'a str, TypeId, Linkage)> {
    let Some(id) = btf.find(section, |k| matches!(k, Kind::Datasec(_))) else {
        return Vec::new();
    };
    let Kind::Datasec(sec) = btf.kind(id) else {
        return Vec::new();
    };
    let read = |ty: TypeId| match btf.kind(ty) {
        Kind::Var(inner, linkage) => Some((btf.name(ty), *inner, *linkage)),
        _ => None,
    };
    sec.vars.iter().filter_map(|v| read(v.ty)).collect()
}

/// Types of the variables of a section, by symbol name.
///
/// Types and symbols are joined by name. A static of a function is `function.name` for the linker and `name` in BTF,
/// where it is matched if that leaves one possibility.
pub(super) fn section_vars(elf: &Elf, btf: &Btf, name: &str, index: usize) -> BTreeMap<String, TypeId> {
    // By name the type, unless there are several: of all variables, and of the static ones.
    let mut exact: BTreeMap<&str, Option<TypeId>> = BTreeMap::new();
    let mut statics: BTreeMap<&str, Option<TypeId>> = BTreeMap::new();
    let note = |types: &mut BTreeMap<_, _>, name, ty| {
        types.entry(name).and_modify(|only| *only = None).or_insert(Some(ty));
    };
    for (name, ty, linkage) in declared(btf, name) {
        note(&mut exact, name, ty);
        if linkage == Linkage::Static {
            note(&mut statics, name, ty);
        }
    }
    let only = |types: &BTreeMap<&str, Option<TypeId>>, name: &str| types.get(name).copied().flatten();
    let find = |symbol: &str| only(&exact, symbol).or_else(|| only(&statics, symbol.rsplit('.').next()?));
    elf.variables(index).filter_map(|s| find(&s.name).map(|ty| (s.name.clone(), ty))).collect()
}

/// All variables, in order of section and place.
pub(super) fn variables(elf: &Elf, btf: &Btf) -> Vec<Variable> {
    let mut out = Vec::new();
    for (index, section) in elf.sections.iter().enumerate().filter(|(_, s)| is_data_section(&s.name)) {
        let types = section_vars(elf, btf, &section.name, index);
        let mut here: Vec<Variable> = elf
            .variables(index)
            .filter(|s| s.value.checked_add(s.size).is_some_and(|end| end <= section.size))
            .map(|s| Variable {
                name: s.name.clone(),
                section: section.name.clone(),
                offset: s.value,
                size: s.size,
                ty: types.get(&s.name).copied(),
                global: !s.local,
            })
            .collect();
        here.sort_by_key(|v| v.offset);
        out.append(&mut here);
    }
    out
}

/// All externs that the symbol table leaves undefined.
pub(super) fn externs(elf: &Elf, btf: &Btf) -> Result<Vec<Extern>, LoadError> {
    let types = extern_types(btf);
    let mut out: Vec<Extern> = Vec::new();
    for symbol in elf.symbols.iter().filter(|s| s.undefined && !s.name.is_empty()) {
        let Some((kind, ty)) = types.get(symbol.name.as_str()).copied() else {
            return Err(LoadError::malformed(
                format!("symbol `{}`", symbol.name),
                "used but neither defined nor declared with __ksym or __kconfig",
            ));
        };
        out.push(Extern { name: symbol.name.clone(), kind, weak: symbol.weak, ty });
    }
    Ok(out)
}

/// Kind and type of all externs by name, from the sections that BTF puts them in; the first of a name counts.
fn extern_types(btf: &Btf) -> BTreeMap<&str, (ExternKind, Option<TypeId>)> {
    let mut types = BTreeMap::new();
    for (section, variable) in [(".ksyms", ExternKind::Ksym), (".kconfig", ExternKind::Kconfig)] {
        let section = btf.find(section, |k| matches!(k, Kind::Datasec(_))).map(|id| btf.kind(id));
        let Some(Kind::Datasec(section)) = section else { continue };
        for found in &section.vars {
            types.entry(btf.name(found.ty)).or_insert_with(|| match btf.kind(found.ty) {
                Kind::Func(proto, _) => (ExternKind::Kfunc, Some(*proto)),
                Kind::Var(ty, _) => (variable, (btf.resolve(*ty) != crate::btf::VOID).then_some(*ty)),
                _ => (variable, None),
            });
        }
    }
    types
}

/// All struct_ops tables with the functions that they name.
pub(super) fn struct_ops(elf: &Elf, btf: &Btf) -> Result<Vec<StructOpsVar>, LoadError> {
    let mut out = Vec::new();
    for (index, section) in elf.sections.iter().enumerate() {
        let plain = section.name.strip_prefix('?').unwrap_or(&section.name);
        if plain != ".struct_ops" && plain != ".struct_ops.link" {
            continue;
        }
        STRUCT_OPS.check(out.len() + elf.variables(index).count(), || format!("section {}", section.name))?;
        let vars = section_vars(elf, btf, &section.name, index);
        for symbol in elf.variables(index) {
            let place = format!("section {}, variable `{}`", section.name, symbol.name);
            let Some(ty) = vars.get(&symbol.name).map(|ty| btf.resolve(*ty)) else {
                return Err(LoadError::malformed(place, "there is no type information for it"));
            };
            let (Kind::Struct(_), Some(size)) = (btf.kind(ty), btf.size_of(ty)) else {
                return Err(LoadError::malformed(place, "its type is no struct"));
            };
            STRUCT_OPS_BYTES.check(usize::try_from(size).unwrap_or(usize::MAX), || place.clone())?;
            let end = symbol.value.checked_add(size).filter(|&e| e <= section.data.len() as u64);
            let Some(end) = end else {
                return Err(LoadError::malformed(place, "reaches beyond its section"));
            };
            let mut var = StructOpsVar {
                name: symbol.name.clone(),
                type_name: crate::btf::essential_name(btf.name(ty)).to_string(),
                ty,
                functions: Vec::new(),
                data: section.data[symbol.value as usize..end as usize].to_vec(),
            };
            let places = btf.members(ty).iter().map(|m| (u64::from(m.bit_offset), m)).rev().collect();
            let relocs = section.relocs_within(symbol.value..end);
            if relocs.windows(2).any(|two| two[0].offset == two[1].offset) {
                return Err(LoadError::malformed(place, "two relocations at one place"));
            }
            for reloc in relocs {
                let target = &elf.symbols[reloc.symbol];
                var.add_function(btf, &places, reloc.offset - symbol.value, target, &place)?;
            }
            out.push(var);
        }
    }
    Ok(out)
}

impl StructOpsVar {
    /// Sets the member at this byte to a function; `places` has the first member at each bit.
    fn add_function(
        &mut self,
        btf: &Btf,
        places: &BTreeMap<u64, &Member>,
        offset: u64,
        target: &Symbol,
        place: &str,
    ) -> Result<(), LoadError> {
        let Some(member) = places.get(&(offset * 8)).filter(|_| target.kind == SymbolKind::Function) else {
            let problem =
                format!("byte {offset} refers to `{}`, which is no function for a member", target.name);
            return Err(LoadError::malformed(place, problem));
        };
        let name = btf.member_name(member).to_string();
        // The file may hold an addend here; the member's value is the function alone.
        let at = offset as usize;
        if let Some(bytes) = self.data.get_mut(at..at + 8) {
            bytes.fill(0);
        }
        self.functions.push((name, target.name.clone()));
        Ok(())
    }
}
