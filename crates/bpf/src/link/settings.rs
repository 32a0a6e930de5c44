//! Values that the user gives to variables before the object runs (`--set slice_ns=5000000`).

use crate::btf::{Btf, Kind, MemberAt};
use crate::error::{LoadError, LoadErrorKind};
use crate::memory::{GuestAddr, Memory};
use crate::object::{Object, StructOpsVar};
use std::collections::BTreeMap;

/// Values for variables, by name; also for elements and members: `weights[3]`, `limits.max`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    map_entries: BTreeMap<String, u32>,
}

impl Settings {
    /// No settings.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Sets a variable. A value is a number (decimal, `0x` hexadecimal, `-` negative), `true` or `false`, the name of a
    /// value of the variable's enumeration, or text for an array of characters. A later one replaces an earlier.
    /// Members of a struct_ops table can be set too, as loaders do with flags and time-outs: `qmap_ops.flags`.
    pub fn set(&mut self, variable: &str, value: &str) -> &mut Settings {
        self.values.insert(variable.to_string(), value.to_string());
        self
    }

    /// Gives a map another number of entries, as loaders do for maps that are sized by the number of CPUs.
    pub fn resize_map(&mut self, map: &str, max_entries: u32) -> &mut Settings {
        self.map_entries.insert(map.to_string(), max_entries);
        self
    }

    /// The number of entries that [`Settings::resize_map`] gave.
    pub(super) fn map_entries(&self, map: &str) -> Option<u32> {
        self.map_entries.get(map).copied()
    }

    /// The first resized map that the object does not declare.
    pub(super) fn unknown_map<'a>(&'a self, object: &Object) -> Option<&'a str> {
        let declared = |name: &str| object.maps().iter().any(|m| m.name == name);
        self.map_entries.keys().map(String::as_str).find(|name| !declared(name))
    }

    /// All settings of variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Writes all values into their variables.
    pub(super) fn apply(
        &self,
        object: &Object,
        address: impl Fn(&str) -> Option<GuestAddr>,
        mem: &mut Memory,
    ) -> Result<(), LoadError> {
        for (path, value) in &self.values {
            if object.struct_ops().iter().any(|var| var.name == root_of(path)) {
                // Written by `apply_to_table`.
                continue;
            }
            let fail = |problem: String, cure: &str| {
                LoadError::new(LoadErrorKind::Setting, format!("setting `{path}={value}`"), problem, cure)
            };
            let name = root_of(path);
            let (Some(variable), Some(addr)) = (object.variable(name), address(name)) else {
                let cure = format!("variables that can be set: {}", names(object));
                return Err(fail(format!("there is no variable `{name}`"), &cure));
            };
            let Some(ty) = variable.ty else {
                return Err(fail("the type of the variable is not known".into(), "compile with -g"));
            };
            let btf = object.btf();
            let at =
                btf.at_path(ty, &path[name.len()..]).map_err(|e| fail(e, "name an element or a member"))?;
            let end = btf.size_of(at.ty).and_then(|size| size.checked_add(at.offset()));
            if end.is_none_or(|end| end > variable.size) {
                return Err(fail("the type does not fit into the variable".into(), "build the object again"));
            }
            let bytes =
                encode(btf, &at, value).map_err(|e| fail(e, "give a value of the variable's type"))?;
            mem.write(addr.offset(at.offset()), &bytes).map_err(|e| fail(e.to_string(), ""))?;
        }
        Ok(())
    }
}

impl Settings {
    /// The bytes of a struct_ops table with the settings of its members (`qmap_ops.flags=2`) written in.
    pub(super) fn apply_to_table(&self, var: &StructOpsVar, btf: &Btf) -> Result<Vec<u8>, LoadError> {
        let mut data = var.data.clone();
        for (path, value) in self.values.iter().filter(|(path, _)| root_of(path) == var.name) {
            let write = |data: &mut [u8]| {
                let at = btf.at_path(var.ty, &path[var.name.len()..])?;
                if matches!(btf.resolved(at.ty), Kind::Ptr(_)) {
                    return Err("a function cannot be set".to_string());
                }
                let bytes = encode(btf, &at, value)?;
                let from = at.offset() as usize;
                let place = from.checked_add(bytes.len()).and_then(|end| data.get_mut(from..end));
                place.ok_or("the member lies outside the table")?.copy_from_slice(&bytes);
                Ok(())
            };
            write(&mut data).map_err(|problem| {
                let place = format!("setting `{path}={value}`");
                LoadError::new(
                    LoadErrorKind::Setting,
                    place,
                    problem,
                    "name a member that is a number or a text",
                )
            })?;
        }
        Ok(data)
    }
}

/// The variable that a path begins with.
pub(super) fn root_of(path: &str) -> &str {
    &path[..path.find(['[', '.']).unwrap_or(path.len())]
}

/// Names for a message: `const volatile` tunables, without those that loaders fill.
fn names(object: &Object) -> String {
    let names: Vec<&str> = object
        .variables()
        .filter(|v| v.section.starts_with(".rodata") && v.global && !v.name.starts_with("__"))
        .map(|v| v.name.as_str())
        .collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// A number as its variable stores it.
pub(super) fn encode(btf: &Btf, at: &MemberAt, text: &str) -> Result<Vec<u8>, String> {
    if at.bitfield != 0 {
        return Err("a bit field cannot be set".into());
    }
    let spelled = btf.spell(at.ty);
    match btf.resolved(at.ty) {
        Kind::Int(int) => {
            let value = parse_number(text).ok_or_else(|| format!("`{text}` is no number for {spelled}"))?;
            let bits = u32::from(int.bits).min(int.size * 8);
            fits(value, if int.is_bool { 1 } else { bits }, int.signed)
                .then(|| value.to_le_bytes()[..int.size as usize].to_vec())
                .ok_or_else(|| format!("{text} does not fit into {spelled}"))
        }
        Kind::Enum(e) | Kind::Enum64(e) => {
            let named =
                e.values.iter().find(|v| btf.enumerator_name(v) == text).map(|v| i128::from(v.value as i64));
            let value = named.or_else(|| parse_number(text)).ok_or_else(|| {
                let known: Vec<_> = e.values.iter().map(|v| btf.enumerator_name(v)).collect();
                format!("`{text}` is none of {}", known.join(", "))
            })?;
            fits(value, e.size * 8, value < 0)
                .then(|| value.to_le_bytes()[..e.size as usize].to_vec())
                .ok_or_else(|| format!("{text} does not fit into {spelled}"))
        }
        Kind::Array(array) if btf.size_of(array.elem) == Some(1) => {
            let mut bytes = text.as_bytes().to_vec();
            if bytes.len() >= array.count as usize {
                return Err(format!("text of {} bytes for {spelled}", bytes.len()));
            }
            bytes.resize(array.count as usize, 0);
            Ok(bytes)
        }
        _ => Err(format!("a variable of type {spelled} cannot be set as a whole")),
    }
}

fn parse_number(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    match digits {
        "true" if sign == 1 => return Some(1),
        "false" if sign == 1 => return Some(0),
        _ => {}
    }
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.replace('_', "").parse::<u64>().ok()?,
    };
    Some(sign * i128::from(value))
}

fn fits(value: i128, bits: u32, signed: bool) -> bool {
    if bits > 64 {
        return value >= 0;
    }
    let (low, high) = if signed { (-(1i128 << (bits - 1)), 1i128 << (bits - 1)) } else { (0, 1i128 << bits) };
    bits > 0 && value >= low && value < high
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_all_spellings() {
        assert_eq!(parse_number("20_000"), Some(20_000));
        assert_eq!(parse_number("0xff"), Some(255));
        assert_eq!(parse_number("-3"), Some(-3));
        assert_eq!(parse_number("true"), Some(1));
        assert_eq!(parse_number("5ms"), None);
        assert_eq!(parse_number(""), None);
    }

    #[test]
    fn values_outside_the_type_are_refused() {
        assert!(fits(255, 8, false) && !fits(256, 8, false) && !fits(-1, 8, false));
        assert!(fits(-128, 8, true) && !fits(128, 8, true));
        assert!(fits(i128::from(u64::MAX), 64, false));
    }
}
