//! Values that the user gives to variables before the object runs (`--set slice_ns=5000000`).

use crate::btf::{Btf, Kind, MemberAt};
use crate::error::{LoadError, LoadErrorKind};
use crate::maps::{Errno, MapTable};
use crate::memory::{GuestAddr, Memory};
use crate::object::{Object, StructOpsVar};
use crate::settings::{Change, Holder, changes};
use std::collections::BTreeSet;

/// Values for what an object declares, as [`crate::settings`] has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// In the order in which they were given first.
    values: Vec<(String, String)>,
    /// Programs that are not loaded.
    left_out: BTreeSet<String>,
    /// Whole contents of data sections.
    contents: Vec<(String, Vec<u8>)>,
}

impl Settings {
    /// No settings.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Sets a variable, a member of a struct_ops table or a map's size, in the forms of [`crate::settings`]. A later value of the same name
    /// replaces an earlier one.
    pub fn set(&mut self, path: &str, value: &str) -> &mut Settings {
        match self.values.iter_mut().find(|(known, _)| known == path) {
            Some((_, known)) => *known = value.to_string(),
            None => self.values.push((path.to_string(), value.to_string())),
        }
        self
    }

    /// Leaves a program out that no struct_ops table names.
    pub fn leave_out(&mut self, program: &str) -> &mut Settings {
        self.left_out.insert(program.to_string());
        self
    }

    /// Gives a data section its content; values of variables come after it.
    pub fn set_content(&mut self, section: &str, content: Vec<u8>) -> &mut Settings {
        self.contents.push((section.to_string(), content));
        self
    }

    /// The contents of data sections.
    pub(super) fn contents(&self) -> &[(String, Vec<u8>)] {
        &self.contents
    }

    /// True for a program that is left out.
    pub(super) fn leaves_out(&self, program: &str) -> bool {
        self.left_out.contains(program)
    }

    /// The number of entries that a map gets.
    pub(super) fn max_entries(&self, object: &Object, map: &str) -> Result<Option<u32>, LoadError> {
        let mut found = None;
        for (path, value) in &self.values {
            for change in changes(object, path, value)? {
                if let Change::MapSize { map: name, max_entries } = change
                    && name == map
                {
                    found = Some(max_entries);
                }
            }
        }
        Ok(found)
    }

    /// Writes all values into their variables.
    pub(super) fn apply(
        &self,
        object: &Object,
        address: impl Fn(&str) -> Option<GuestAddr>,
        mem: &mut Memory,
    ) -> Result<(), LoadError> {
        for (path, value) in &self.values {
            let fail = |problem: &str, cure: &str| {
                LoadError::new(LoadErrorKind::Setting, format!("setting `{path}={value}`"), problem, cure)
            };
            for change in changes(object, path, value)? {
                let Change::Bytes { of: Holder::Variable(name), offset, bytes } = change else { continue };
                let variable = object.variable(&name).zip(address(&name));
                let (variable, addr) = variable.ok_or_else(|| fail("the variable has no place", ""))?;
                let end = offset.checked_add(bytes.len() as u64);
                if end.is_none_or(|end| end > variable.size) {
                    let cure = format!("{name} has {} bytes here", variable.size);
                    return Err(fail("there is no such element", &cure));
                }
                mem.write(addr.offset(offset), &bytes).map_err(|error| fail(&error.to_string(), ""))?;
            }
        }
        Ok(())
    }

    /// Writes the entries of maps.
    pub(super) fn fill_maps(
        &self,
        object: &Object,
        maps: &mut MapTable,
        mem: &mut Memory,
    ) -> Result<(), LoadError> {
        for (path, value) in &self.values {
            for change in changes(object, path, value)? {
                let Change::MapEntry { map, key, offset, bytes } = change else { continue };
                write_entry(maps, mem, &map, &key, (offset, bytes)).map_err(|error| {
                    let place = format!("setting `{path}={value}`");
                    let problem = format!("map `{map}` does not take this entry (errno {})", error.0);
                    let cure = "give a key that the map has room for";
                    LoadError::new(LoadErrorKind::Setting, place, problem, cure)
                })?;
            }
        }
        Ok(())
    }

    /// The bytes of a struct_ops table with the settings of its members (`qmap_ops.flags=2`) written in.
    pub(super) fn apply_to_table(&self, object: &Object, var: &StructOpsVar) -> Result<Vec<u8>, LoadError> {
        let mut data = var.data.clone();
        for (path, value) in &self.values {
            for change in changes(object, path, value)? {
                let Change::Bytes { of: Holder::Table(name), offset, bytes } = change else { continue };
                if name != var.name {
                    continue;
                }
                let from = offset as usize;
                let place = from.checked_add(bytes.len()).and_then(|end| data.get_mut(from..end));
                let place = place.ok_or_else(|| {
                    let place = format!("setting `{path}={value}`");
                    LoadError::malformed(place, "the member lies outside the table")
                })?;
                place.copy_from_slice(&bytes);
            }
        }
        Ok(data)
    }
}

/// Writes a part of a map's value at a key, on all CPUs where each has its own.
fn write_entry(
    maps: &mut MapTable,
    mem: &mut Memory,
    map: &str,
    key: &[u8],
    (offset, bytes): (u64, Vec<u8>),
) -> Result<(), Errno> {
    let id = maps.find(map).ok_or(Errno::EINVAL)?;
    let (kind, size) = maps.get(id).map(|map| (map.kind(), map.value_size())).ok_or(Errno::EINVAL)?;
    let copies = if kind.is_per_cpu() { maps.nr_cpus() } else { 1 };
    for cpu in 0..copies {
        let present = maps.lookup(id, key, cpu, mem);
        let present = present.and_then(|at| mem.slice(at, u64::from(size)).ok()).map(<[u8]>::to_vec);
        let mut value = present.unwrap_or_else(|| vec![0; size as usize]);
        let from = offset as usize;
        let place = from.checked_add(bytes.len()).and_then(|end| value.get_mut(from..end));
        place.ok_or(Errno::EINVAL)?.copy_from_slice(&bytes);
        maps.update(id, key, &value, 0, cpu, mem)?;
    }
    Ok(())
}

/// The number that these bytes of the variable hold; sign-extended where the type is signed.
pub(super) fn number_of(btf: &Btf, at: &MemberAt, bytes: &[u8]) -> Option<u64> {
    let signed = match btf.resolved(at.ty) {
        Kind::Int(int) => int.signed,
        Kind::Enum(e) | Kind::Enum64(e) => e.signed,
        Kind::Ptr(_) => false,
        _ => return None,
    };
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let value = u64::from_le_bytes(word);
    let (skip, width) = match at.bitfield {
        0 => (0, bytes.len() as u32 * 8),
        // A bit field's place inside the unit that was read.
        width => ((at.bit_offset % 8) as u32, u32::from(width)),
    };
    let top = (value >> skip).checked_shl(64 - width)?;
    Some(if signed { ((top as i64) >> (64 - width)) as u64 } else { top >> (64 - width) })
}
