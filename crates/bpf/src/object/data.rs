//! Variables, externs and struct_ops tables: symbols of data sections joined with their types.

use super::elf::{Elf, SymbolKind};
use crate::btf::{Btf, Kind, Linkage, TypeId};
use crate::error::LoadError;

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

/// Whether this section holds variables that programs read and write, by libbpf's names.
pub(crate) fn is_data_section(name: &str) -> bool {
    [".rodata", ".data", ".bss"].iter().any(|p| name == *p || name.starts_with(&format!("{p}.")))
        || name == ARENA_SECTION
}

/// Where clang puts variables of address space 1: the arena.
pub(crate) const ARENA_SECTION: &str = ".addr_space.1";

/// (name, type, linkage) of the variables of a section, by its BTF record.
fn declared(btf: &Btf, section: &str) -> Vec<(String, TypeId, Linkage)> {
    let Some(id) = btf.find(section, |k| matches!(k, Kind::Datasec(_))) else {
        return Vec::new();
    };
    let Kind::Datasec(sec) = btf.kind(id) else {
        return Vec::new();
    };
    let read = |ty: TypeId| match btf.kind(ty) {
        Kind::Var(inner, linkage) => Some((btf.name(ty).to_string(), *inner, *linkage)),
        _ => None,
    };
    sec.vars.iter().filter_map(|v| read(v.ty)).collect()
}

/// (symbol name, type) of the variables of a section.
///
/// Types and symbols are joined by name. A static of a function is `function.name` for the linker and `name` in BTF,
/// where it is matched if that leaves one possibility.
pub(super) fn section_vars(elf: &Elf, btf: &Btf, name: &str, index: usize) -> Vec<(String, TypeId)> {
    let types = declared(btf, name);
    let in_section = |s: &&super::elf::Symbol| s.section == Some(index) && s.kind == SymbolKind::Data;
    let find = |symbol: &str| {
        let exact: Vec<_> = types.iter().filter(|t| t.0 == symbol).collect();
        if let [only] = exact[..] {
            return Some(only.1);
        }
        let tail = symbol.rsplit('.').next()?;
        let loose: Vec<_> = types.iter().filter(|t| t.0 == tail && t.2 == Linkage::Static).collect();
        match loose[..] {
            [only] => Some(only.1),
            _ => None,
        }
    };
    elf.symbols
        .iter()
        .filter(in_section)
        .filter_map(|s| find(&s.name).map(|ty| (s.name.clone(), ty)))
        .collect()
}

/// All variables, in order of section and place.
pub(super) fn variables(elf: &Elf, btf: &Btf) -> Vec<Variable> {
    let mut out = Vec::new();
    for (index, section) in elf.sections.iter().enumerate().filter(|(_, s)| is_data_section(&s.name)) {
        let types: std::collections::BTreeMap<_, _> =
            section_vars(elf, btf, &section.name, index).into_iter().collect();
        let mut here: Vec<Variable> = elf
            .symbols
            .iter()
            .filter(|s| s.section == Some(index) && s.kind == SymbolKind::Data)
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
    let mut out: Vec<Extern> = Vec::new();
    for symbol in elf.symbols.iter().filter(|s| s.undefined && !s.name.is_empty()) {
        let Some((kind, ty)) = extern_type(btf, &symbol.name) else {
            return Err(LoadError::malformed(
                format!("symbol `{}`", symbol.name),
                "used but neither defined nor declared with __ksym or __kconfig",
            ));
        };
        out.push(Extern { name: symbol.name.clone(), kind, weak: symbol.weak, ty });
    }
    Ok(out)
}

/// Kind and type of an extern, by the section that its BTF puts it in.
fn extern_type(btf: &Btf, name: &str) -> Option<(ExternKind, Option<TypeId>)> {
    for (section, variable) in [(".ksyms", ExternKind::Ksym), (".kconfig", ExternKind::Kconfig)] {
        let Some(id) = btf.find(section, |k| matches!(k, Kind::Datasec(_))) else {
            continue;
        };
        let Kind::Datasec(sec) = btf.kind(id) else {
            continue;
        };
        let Some(found) = sec.vars.iter().find(|v| btf.name(v.ty) == name) else {
            continue;
        };
        return Some(match btf.kind(found.ty) {
            Kind::Func(proto, _) => (ExternKind::Kfunc, Some(*proto)),
            Kind::Var(ty, _) => (variable, (btf.resolve(*ty) != crate::btf::VOID).then_some(*ty)),
            _ => (variable, None),
        });
    }
    None
}

/// All struct_ops tables with the functions that they name.
pub(super) fn struct_ops(elf: &Elf, btf: &Btf) -> Result<Vec<StructOpsVar>, LoadError> {
    let mut out = Vec::new();
    for (index, section) in elf.sections.iter().enumerate() {
        let plain = section.name.strip_prefix('?').unwrap_or(&section.name);
        if plain != ".struct_ops" && plain != ".struct_ops.link" {
            continue;
        }
        let vars = section_vars(elf, btf, &section.name, index);
        for symbol in elf.symbols.iter().filter(|s| s.section == Some(index) && s.kind == SymbolKind::Data) {
            let place = format!("section {}, variable `{}`", section.name, symbol.name);
            let Some(ty) = vars.iter().find(|v| v.0 == symbol.name).map(|v| btf.resolve(v.1)) else {
                return Err(LoadError::malformed(place, "there is no type information for it"));
            };
            let (Kind::Struct(_), Some(size)) = (btf.kind(ty), btf.size_of(ty)) else {
                return Err(LoadError::malformed(place, "its type is no struct"));
            };
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
            for reloc in section.relocs.iter().filter(|r| r.offset >= symbol.value && r.offset < end) {
                var.add_function(elf, btf, reloc.offset - symbol.value, reloc.symbol, &place)?;
            }
            out.push(var);
        }
    }
    Ok(out)
}

impl StructOpsVar {
    fn add_function(
        &mut self,
        elf: &Elf,
        btf: &Btf,
        offset: u64,
        symbol: usize,
        place: &str,
    ) -> Result<(), LoadError> {
        let target = &elf.symbols[symbol];
        let member = btf.members(self.ty).iter().find(|m| u64::from(m.bit_offset) == offset * 8);
        let Some(member) = member.filter(|_| target.kind == SymbolKind::Function) else {
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
