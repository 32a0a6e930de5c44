//! Data sections: their place in guest memory, their first content, and the constants that loaders fill in.

use super::{Linker, memory};
use crate::btf::Kind;
use crate::error::LoadError;
use crate::maps::find_special;
use crate::memory::{ARENA_BASE, GuestAddr, Memory, PAGE_SIZE, Perm};
use crate::object::enumerator_of;

/// The section of variables in the arena.
pub(super) use crate::object::ARENA_SECTION;

/// A data section in guest memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) base: GuestAddr,
    pub(super) size: u64,
    pub(super) read_only: bool,
}

impl Linker<'_> {
    /// Puts every data section into memory with the content that it has in the file.
    pub(super) fn place_sections(&mut self, mem: &mut Memory) -> Result<(), LoadError> {
        let object = self.object;
        for (index, section) in object.elf.sections.iter().enumerate() {
            if !section.allocated || section.size == 0 || !crate::object::is_data_section(&section.name) {
                continue;
            }
            let place = format!("section {}", section.name);
            let placed = if section.name == ARENA_SECTION {
                self.place_in_arena(section.size, &place, mem)?
            } else {
                let size = u32::try_from(section.size).map_err(|e| memory(&place, &e))?;
                let variables = object.variables().filter(|variable| variable.section == section.name);
                let types = variables.filter_map(|variable| Some((variable.ty?, variable.offset)));
                let special = find_special(object.btf(), types);
                let base = self.maps.add_section(&section.name, size, special, mem);
                let base = base.map_err(|e| memory(&place, &e))?;
                let read_only = section.name.starts_with(".rodata");
                Placed { base, size: section.size, read_only }
            };
            mem.write(placed.base, &section.data).map_err(|e| memory(&place, &e))?;
            self.sections.insert(index, placed);
            debug_assert!(placed.size > 0, "an empty section has no place");
        }
        Ok(())
    }

    /// Writes the contents that a loader gave to sections.
    pub(super) fn fill_sections(
        &self,
        contents: &[(String, Vec<u8>)],
        mem: &mut Memory,
    ) -> Result<(), LoadError> {
        for (name, content) in contents {
            let section = self.object.elf.section(name).and_then(|(index, _)| self.sections.get(&index));
            let Some(placed) = section.filter(|placed| placed.size >= content.len() as u64) else { continue };
            mem.write(placed.base, content).map_err(|error| memory(name, &error))?;
        }
        Ok(())
    }

    /// Variables of the arena stand in its last pages, where libbpf (1.7) puts them.
    fn place_in_arena(&mut self, size: u64, place: &str, mem: &mut Memory) -> Result<Placed, LoadError> {
        let Some(arena) = &mut self.maps.arena else {
            return Err(LoadError::unsupported(
                place,
                "there are variables of the arena but no map of type ARENA",
                "declare the arena's map in the same object",
            ));
        };
        let pages = size.div_ceil(PAGE_SIZE);
        let first = u64::from(arena.pages()).checked_sub(pages);
        let base = first.and_then(|f| arena.alloc(Some(ARENA_BASE + f * PAGE_SIZE), pages as u32, mem));
        let base = base.ok_or_else(|| memory(place, &"the arena is too small for its variables"))?;
        debug_assert!(base.0 >= ARENA_BASE, "the arena lies in window 1");
        Ok(Placed { base, size, read_only: false })
    }

    /// Where a variable is.
    pub(super) fn variable_address(&self, name: &str) -> Option<GuestAddr> {
        let variable = self.object.variable(name)?;
        let (index, _) = self.object.elf.section(&variable.section)?;
        self.sections.get(&index).map(|s| s.base.offset(variable.offset))
    }

    /// Fills `.rodata` variables named `__SCX_...` or `__COMPAT_SCX_...` with the kernel's enumeration value `SCX_...`.
    ///
    /// Objects built with the scx enum header leave this to their loader; without it they use 0 for every constant.
    /// A value that the kernel does not have stays as it is.
    pub(super) fn fill_enum_variables(&mut self, mem: &mut Memory) -> Result<(), LoadError> {
        let wanted: Vec<_> = self
            .object
            .variables()
            .filter(|v| v.section.starts_with(".rodata") && enumerator_of(&v.name).is_some() && v.size <= 8)
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let btf = &self.kernel.btf;
        let mut values = std::collections::BTreeMap::new();
        for (_, ty) in btf.iter() {
            if let Kind::Enum(e) | Kind::Enum64(e) = &ty.kind {
                for v in &e.values {
                    values.entry(btf.enumerator_name(v)).or_insert(v.value);
                }
            }
        }
        for variable in wanted {
            debug_assert!(variable.size <= 8, "an enumerator has eight bytes at most");
            let value = enumerator_of(&variable.name).and_then(|name| values.get(name));
            if let (Some(value), Some(addr)) = (value, self.variable_address(&variable.name)) {
                let bytes = &value.to_le_bytes()[..variable.size as usize];
                mem.write(addr, bytes).map_err(|e| memory(&variable.name, &e))?;
            }
        }
        Ok(())
    }

    /// Freezes `.rodata` once everything is filled in.
    pub(super) fn protect_read_only(&mut self, mem: &mut Memory) {
        self.frozen = self.sections.values().filter(|p| p.read_only).copied().collect();
        self.frozen.sort_by_key(|placed| placed.base);
        for placed in &self.frozen {
            mem.protect(placed.base, placed.size, Perm::READ);
        }
    }

    /// The bytes of a constant: only what lies in a frozen section counts.
    pub(super) fn constant(&self, addr: u64, size: u64, mem: &Memory) -> Option<u64> {
        let before = self.frozen.partition_point(|placed| placed.base.0 <= addr);
        let placed = self.frozen.get(before.checked_sub(1)?)?;
        debug_assert!(placed.base.0 <= addr, "the section begins before the address");
        addr.checked_add(size).filter(|end| *end <= placed.base.0 + placed.size)?;
        let bytes = mem.slice(GuestAddr(addr), size).ok()?;
        debug_assert!(size <= 8, "a constant has eight bytes at most");
        let mut word = [0u8; 8];
        word[..size as usize].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}
