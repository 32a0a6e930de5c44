//! BPF objects inside of a program: loaders written in Rust carry theirs in the section `.bpf.objs` of their executable, loaders
//! in C among their constants, where they are found by how an object begins.

use super::Object;
use crate::error::{LoadError, LoadErrorKind};
use crate::limits::OBJECT_BYTES;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

type Header = elf::FileHeader64<Endianness>;

/// The section that holds them, one behind the other.
const SECTION: &str = ".bpf.objs";

/// Most objects of one executable. Chosen: loaders have one, some a second for tests.
const MOST: usize = 16;

/// True for an ELF executable or shared library of 64 bits for a CPU: a program that may carry objects and is none.
pub fn is_executable(bytes: &[u8]) -> bool {
    let kind = |header: &Header| {
        let endian = header.endian().ok()?;
        Some((header.e_type.get(endian), header.e_machine.get(endian)))
    };
    let found = Header::parse(bytes).ok().and_then(kind);
    matches!(found, Some((elf::ET_EXEC | elf::ET_DYN, machine)) if machine != elf::EM_BPF)
}

/// The scheduler's object in an executable: the only one with a struct_ops table, or the one whose table `choice` names.
///
/// # Errors
/// No such section, damaged contents, or no object or several that can be meant.
pub fn scheduler_within<'a>(bytes: &'a [u8], choice: Option<&str>) -> Result<&'a [u8], LoadError> {
    let mut named = Vec::new();
    for (number, part) in carried(bytes)?.into_iter().enumerate() {
        let object =
            Object::parse_unnamed(part).map_err(|error| error.in_file(&format!("object {number} in it")))?;
        let wanted = |table: &&super::StructOpsVar| choice.is_none_or(|name| object.is_called(table, name));
        named.extend(object.struct_ops().iter().filter(wanted).map(|table| (table.name.clone(), part)));
    }
    let place = "objects in the program".to_string();
    let Some((_, first)) = named.first() else {
        let problem = match choice {
            Some(name) => format!("no object in it has a scheduler `{name}`"),
            None => "no object in it has a scheduler".to_string(),
        };
        return Err(LoadError::new(LoadErrorKind::Unresolved, place, problem, "give the *.bpf.o itself"));
    };
    // The loader of the object distinguishes several tables of one object.
    if named.iter().any(|(_, part)| !std::ptr::eq(*part, *first)) {
        let tables: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        let problem = format!("there are schedulers in several objects: {}", tables.join(", "));
        return Err(LoadError::new(LoadErrorKind::Unresolved, place, problem, "choose one: FILE#NAME"));
    }
    Ok(first)
}

/// The objects of an executable; nothing for another file.
pub(super) fn parts_of_program(bytes: &[u8]) -> Option<Result<Vec<&[u8]>, LoadError>> {
    is_executable(bytes).then(|| carried(bytes))
}

/// The objects that a program carries.
fn carried(bytes: &[u8]) -> Result<Vec<&[u8]>, LoadError> {
    if let Some(content) = section(bytes)? {
        return parts(content);
    }
    let found = among_constants(bytes);
    if found.is_empty() {
        let problem = "it is a program that carries no BPF object";
        let cure = "give the scheduler's *.bpf.o, or the program that loads it";
        return Err(LoadError::new(LoadErrorKind::NotAnObject, "ELF header", problem, cure));
    }
    Ok(found)
}

/// Objects anywhere in a program: by the first bytes of an ELF file of 64 bits for BPF.
fn among_constants(bytes: &[u8]) -> Vec<&[u8]> {
    const BEGIN: &[u8] = b"\x7fELF\x02\x01\x01";
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.windows(BEGIN.len()).position(|w| w == BEGIN))
    {
        at += next;
        let rest = &bytes[at..];
        let is_bpf = Header::parse(rest)
            .ok()
            .and_then(|header| Some(header.e_machine.get(header.endian().ok()?) == elf::EM_BPF))
            .unwrap_or(false);
        let whole = length(rest).ok().filter(|_| is_bpf).and_then(|length| rest.get(..length));
        if let Some(object) = whole.filter(|object| OBJECT_BYTES.check(object.len(), String::new).is_ok()) {
            found.push(object);
            at += object.len().max(1);
        } else {
            at += 1;
        }
        debug_assert!(found.len() <= MOST, "the search ends at the limit");
        if found.len() == MOST {
            break;
        }
    }
    found
}

/// The content of the section, if there is one.
fn section(bytes: &[u8]) -> Result<Option<&[u8]>, LoadError> {
    let found = || -> Result<Option<&[u8]>, object::read::Error> {
        let header = Header::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let section = sections.section_by_name(endian, SECTION.as_bytes());
        section.map(|(_, section)| section.data(endian, bytes)).transpose()
    };
    let found = found().map_err(|error| LoadError::malformed("ELF of an executable", error.to_string()))?;
    Ok(found.filter(|content| !content.is_empty()))
}

/// The objects of the section; only zeros may stand between them.
fn parts(mut rest: &[u8]) -> Result<Vec<&[u8]>, LoadError> {
    let mut parts = Vec::new();
    while let Some(begin) = rest.iter().position(|byte| *byte != 0) {
        let place = || format!("section {SECTION}, object {}", parts.len());
        let length =
            length(&rest[begin..]).map_err(|error| LoadError::malformed(place(), error.to_string()))?;
        let Some(part) = rest.get(begin..begin.saturating_add(length)) else {
            return Err(LoadError::malformed(place(), "it reaches beyond the section"));
        };
        OBJECT_BYTES.check(length, place)?;
        if parts.len() == MOST {
            return Err(LoadError::malformed(place(), format!("there are more than {MOST}")));
        }
        parts.push(part);
        rest = &rest[begin + length..];
    }
    Ok(parts)
}

/// Bytes of the ELF file that begins here: its header, its sections and their table.
fn length(bytes: &[u8]) -> Result<usize, object::read::Error> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let table = u64::from(header.e_shentsize.get(endian)).saturating_mul(sections.len() as u64);
    let mut end = header.e_shoff.get(endian).saturating_add(table).max(size_of::<Header>() as u64);
    for section in sections.iter() {
        if let Some((offset, size)) = section.file_range(endian) {
            end = end.max(offset.saturating_add(size));
        }
    }
    Ok(usize::try_from(end).unwrap_or(usize::MAX))
}
