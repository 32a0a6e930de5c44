//! The ELF container: sections, symbols and relocations of a BPF object, copied out and checked.

use crate::error::{LoadError, LoadErrorKind};
use crate::limits::{NAME_BYTES, RELOCATIONS, SECTIONS, SYMBOLS};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, elf};
use std::collections::BTreeMap;

type Header = elf::FileHeader64<Endianness>;

/// Largest section that is accepted, in bytes (chosen: guest memory has 4 GiB for all of them).
const MAX_SECTION_BYTES: u64 = 1 << 30;

/// A section with its content and the relocations that apply to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// Empty for sections without content in the file (`.bss`).
    pub(crate) data: Vec<u8>,
    /// Bytes in memory.
    pub(crate) size: u64,
    pub(crate) executable: bool,
    pub(crate) allocated: bool,
    /// In order of offset.
    pub(crate) relocs: Vec<Reloc>,
}

/// "At this byte of the section, put in the address of this symbol."
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reloc {
    pub(crate) offset: u64,
    pub(crate) symbol: usize,
}

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Function,
    Data,
    Section,
    Other,
}

/// A symbol.
#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) kind: SymbolKind,
    /// Index of the section it is defined in; `None` for undefined (extern) and absolute symbols.
    pub(crate) section: Option<usize>,
    pub(crate) undefined: bool,
    /// Bytes from the start of the section.
    pub(crate) value: u64,
    pub(crate) size: u64,
    pub(crate) local: bool,
    pub(crate) weak: bool,
}

/// Sections (index 0 is the empty one of ELF) and symbols of one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elf {
    pub(crate) sections: Vec<Section>,
    pub(crate) symbols: Vec<Symbol>,
    /// Numbers of the symbols that each section defines, in order.
    defined: Vec<Vec<usize>>,
    /// The first section of each name.
    by_name: BTreeMap<String, usize>,
}

fn not_an_object(problem: impl Into<String>) -> LoadError {
    let cure =
        "give a relocatable BPF object as made by: clang -target bpf -g -O2 -c FILE.bpf.c -o FILE.bpf.o";
    LoadError::new(LoadErrorKind::NotAnObject, "ELF header", problem, cure)
}

fn bad(error: impl std::fmt::Display) -> LoadError {
    LoadError::malformed("ELF", error.to_string())
}

impl Elf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Elf, LoadError> {
        check_ident(bytes)?;
        let header = Header::parse(bytes).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        let machine = header.e_machine.get(endian);
        if machine != elf::EM_BPF {
            return Err(not_an_object(format!("machine number {}, BPF is {}", machine.0, elf::EM_BPF.0)));
        }
        if header.e_type.get(endian) != elf::ET_REL {
            return Err(not_an_object("not a relocatable object (ET_REL)"));
        }
        let table = header.sections(endian, bytes).map_err(bad)?;
        SECTIONS.check(table.len(), || "ELF".to_string())?;
        let mut out = Elf::default();
        let mut kept = 0;
        for section in table.iter() {
            let name = name(table.section_name(endian, section).map_err(bad)?, "section")?;
            let read = read_section(endian, bytes, section, &name)?;
            kept += read.data.len();
            if kept > bytes.len() {
                return Err(bad(format!("section {name} overlaps others")));
            }
            out.by_name.entry(name).or_insert(out.sections.len());
            out.sections.push(read);
        }
        out.defined = vec![Vec::new(); out.sections.len()];
        debug_assert_eq!(out.sections.len(), table.len(), "each section was read");
        let symbols = table.symbols(endian, bytes, elf::SHT_SYMTAB).map_err(bad)?;
        SYMBOLS.check(symbols.len(), || "ELF".to_string())?;
        for symbol in symbols.iter() {
            let name = name(symbol.name(endian, symbols.strings()).map_err(bad)?, "symbol")?;
            let read = out.read_symbol(endian, symbol, name)?;
            if let Some(section) = read.section {
                out.defined[section].push(out.symbols.len());
            }
            out.symbols.push(read);
        }
        let mut count = 0;
        for section in table.iter() {
            out.read_relocs(endian, bytes, section, &mut count)?;
        }
        for section in &mut out.sections {
            section.relocs.sort_by_key(|r| r.offset);
        }
        Ok(out)
    }

    fn read_symbol(
        &self,
        endian: Endianness,
        symbol: &elf::Sym64<Endianness>,
        name: String,
    ) -> Result<Symbol, LoadError> {
        let kind = match symbol.st_type() {
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_OBJECT => SymbolKind::Data,
            elf::STT_SECTION => SymbolKind::Section,
            _ => SymbolKind::Other,
        };
        let index = symbol.st_shndx(endian);
        let undefined = index == elf::SHN_UNDEF;
        let section = (!undefined && index.0 < elf::SHN_LORESERVE).then_some(usize::from(index.0));
        if section.is_some_and(|s| s >= self.sections.len()) {
            return Err(bad(format!("symbol `{name}` is in section {}, which does not exist", index.0)));
        }
        Ok(Symbol {
            name,
            kind,
            section,
            undefined,
            value: symbol.st_value(endian),
            size: symbol.st_size(endian),
            local: symbol.st_bind() == elf::STB_LOCAL,
            weak: symbol.st_bind() == elf::STB_WEAK,
        })
    }

    fn read_relocs(
        &mut self,
        endian: Endianness,
        bytes: &[u8],
        section: &elf::SectionHeader64<Endianness>,
        count: &mut usize,
    ) -> Result<(), LoadError> {
        let Some((relocs, _)) = section.rel(endian, bytes).map_err(bad)? else {
            return Ok(());
        };
        let target = section.info_link(endian).0;
        let Some(into) = self.sections.get_mut(target) else {
            return Err(bad(format!("relocations for section {target}, which does not exist")));
        };
        *count += relocs.len();
        RELOCATIONS.check(*count, || format!("section {}", into.name))?;
        for reloc in relocs {
            let symbol = reloc.r_sym(endian) as usize;
            if symbol >= self.symbols.len() {
                return Err(bad(format!(
                    "a relocation of {} names symbol {symbol}, which does not exist",
                    into.name
                )));
            }
            into.relocs.push(Reloc { offset: reloc.r_offset.get(endian), symbol });
        }
        Ok(())
    }

    /// The first section of this name.
    pub(crate) fn section(&self, name: &str) -> Option<(usize, &Section)> {
        let index = *self.by_name.get(name)?;
        debug_assert!(index < self.sections.len(), "a name leads to a section");
        Some((index, self.sections.get(index)?))
    }

    /// The symbols that a section defines, in order of the symbol table.
    pub(crate) fn defined(&self, section: usize) -> impl Iterator<Item = &Symbol> {
        self.defined.get(section).into_iter().flatten().map(|index| &self.symbols[*index])
    }

    /// The variables among them.
    pub(crate) fn variables(&self, section: usize) -> impl Iterator<Item = &Symbol> {
        self.defined(section).filter(|symbol| symbol.kind == SymbolKind::Data)
    }
}

impl Section {
    /// The relocations in a range of the section's bytes.
    pub(crate) fn relocs_within(&self, bytes: std::ops::Range<u64>) -> &[Reloc] {
        debug_assert!(self.relocs.is_sorted_by_key(|reloc| reloc.offset), "relocations are in order");
        let from = self.relocs.partition_point(|reloc| reloc.offset < bytes.start);
        let len = self.relocs[from..].partition_point(|reloc| reloc.offset < bytes.end);
        &self.relocs[from..from + len]
    }
}

/// A name of the file as text.
fn name(bytes: &[u8], of: &str) -> Result<String, LoadError> {
    NAME_BYTES.check(bytes.len(), || format!("name of a {of}"))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Magic, width and byte order, each with its own message.
fn check_ident(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() < 16 || bytes[..4] != elf::ELFMAG {
        return Err(not_an_object(if bytes.is_empty() { "the file is empty" } else { "not an ELF file" }));
    }
    if bytes[4] != elf::ELFCLASS64.0 {
        return Err(not_an_object("not a 64-bit ELF file"));
    }
    if bytes[5] != elf::ELFDATA2LSB.0 {
        return Err(not_an_object(
            "big-endian; schedulers are simulated little-endian: compile with -target bpfel",
        ));
    }
    Ok(())
}

fn read_section(
    endian: Endianness,
    bytes: &[u8],
    section: &elf::SectionHeader64<Endianness>,
    name: &str,
) -> Result<Section, LoadError> {
    let flags = section.sh_flags(endian);
    let size = section.sh_size(endian);
    let no_bits = section.sh_type(endian) == elf::SHT_NOBITS;
    if size > MAX_SECTION_BYTES {
        return Err(bad(format!("section {name} has {size} bytes, the limit is {MAX_SECTION_BYTES}")));
    }
    if flags.contains(elf::SHF_COMPRESSED) {
        return Err(bad(format!("section {name} is compressed")));
    }
    let data = if no_bits { &[][..] } else { section.data(endian, bytes).map_err(bad)? };
    // Only what loading reads is kept: debug information can be megabytes.
    let keep = flags.contains(elf::SHF_ALLOC) || matches!(name, ".BTF" | ".BTF.ext" | "license" | "maps");
    Ok(Section {
        name: name.to_string(),
        data: if keep { data.to_vec() } else { Vec::new() },
        size,
        executable: flags.contains(elf::SHF_EXECINSTR),
        allocated: flags.contains(elf::SHF_ALLOC),
        relocs: Vec::new(),
    })
}
