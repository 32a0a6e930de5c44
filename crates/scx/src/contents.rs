//! What an object's variables and maps hold when a run is over, for the people that wrote it.

use crate::scheduler::BpfScheduler;
use schedlab_bpf::btf::{Btf, Kind, TypeId};
use schedlab_bpf::maps::{MapEntry, MapId};
use schedlab_bpf::object::Object;
use schedlab_bpf::{GuestAddr, Memory};
use schedlab_trace::SchedulerTable;

/// Variables, and entries of a map, that are shown. Chosen: what a person reads.
const SHOWN: usize = 64;
/// Elements of an array of integers that are watched. Chosen: a histogram has them, a table of tasks has more.
const ELEMENTS: u32 = 4096;
/// Elements of an array inside a value that are shown. Chosen.
const INNER: usize = 8;
/// Structures inside of each other that are shown. Chosen.
const DEPTH: u32 = 3;
/// Bytes that are shown of a value whose type is not known. Chosen.
const BYTES: usize = 32;

/// An integer of the object outside of its maps.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    name: String,
    addr: GuestAddr,
    ty: TypeId,
    /// What it was before the run.
    before: String,
}

/// The types of a map's keys and values, where the object says them.
#[derive(Clone, Debug)]
pub(crate) struct MapTypes {
    pub(crate) map: MapId,
    key: Option<TypeId>,
    pub(crate) value: Option<TypeId>,
}

/// The maps that an object declares, with their types.
pub(crate) fn map_types(object: &Object, find: impl Fn(&str) -> Option<MapId>) -> Vec<MapTypes> {
    let maps = object.maps().iter();
    maps.filter_map(|map| Some(MapTypes { map: find(&map.name)?, key: map.key_type, value: map.value_type }))
        .collect()
}

impl BpfScheduler {
    /// Remembers what the object's integers are now, for [`BpfScheduler::changed_globals`].
    pub fn remember_globals(&mut self) {
        let types = &self.image.types;
        let mut globals = Vec::new();
        for (name, variable) in &self.image.variables {
            let Some(ty) = variable.ty else { continue };
            for (path, at, ty) in integers(types, name, ty) {
                let addr = variable.addr.offset(at);
                let before = shown(types, Some(ty), bytes(&self.mem, addr, types.size_of(ty)), 0);
                globals.push(Global { name: path, addr, ty, before });
            }
        }
        self.globals = globals;
    }

    /// The integers among the object's variables that are not what they were when they were remembered, in order of name. The
    /// first 64 are shown, and the table's meaning says how many there are besides. Nothing where none has changed.
    pub fn changed_globals(&self) -> Option<SchedulerTable> {
        let types = &self.image.types;
        let now = |global: &Global| {
            let size = types.size_of(global.ty);
            shown(types, Some(global.ty), bytes(&self.mem, global.addr, size), 0)
        };
        let changed = self.globals.iter().map(|global| (global, now(global)));
        let mut rows: Vec<Vec<String>> = changed
            .filter(|(global, now)| global.before != *now)
            .map(|(global, now)| vec![global.name.clone(), global.before.clone(), now])
            .collect();
        let count = rows.len();
        rows.truncate(SHOWN);
        let more = left_out(count, "variables");
        (count > 0).then(|| SchedulerTable {
            name: "globals".into(),
            meaning: format!("integers of the object that the run has changed{more}"),
            columns: ["variable", "before", "after"].map(String::from).to_vec(),
            rows,
        })
    }

    /// What the object's maps hold: for each the first 64 entries that are not all zeros, in the map's order. Data sections are
    /// no maps here. Of ring buffers, arenas and maps of maps or programs only the size is shown.
    pub fn map_contents(&self) -> Vec<SchedulerTable> {
        self.map_types.iter().filter_map(|types| self.map_content(types)).collect()
    }

    fn map_content(&self, types: &MapTypes) -> Option<SchedulerTable> {
        let maps = &self.state.runtime.maps;
        let map = maps.get(types.map)?;
        let size = u64::from(map.value_size());
        let about = format!(
            "{}, {} entries of at most {}",
            map.kind().name(),
            maps.len(types.map),
            map.max_entries()
        );
        let mut table = SchedulerTable {
            name: format!("map {}", map.name()),
            meaning: about,
            columns: ["key", "CPU", "value"].map(String::from).to_vec(),
            rows: Vec::new(),
        };
        let mut count = 0;
        let readable = maps.visit(types.map, &mut |MapEntry { key, cpu, value }| {
            let Some(content) =
                self.mem.slice(value, size).ok().filter(|content| content.iter().any(|b| *b != 0))
            else {
                return;
            };
            count += 1;
            if count <= SHOWN {
                let of = &self.image.types;
                let key = if key.is_empty() { String::new() } else { shown(of, types.key, Some(key), 0) };
                let cpu = cpu.map_or_else(String::new, |cpu| cpu.to_string());
                table.rows.push(vec![key, cpu, shown(of, types.value, Some(content), 0)]);
            }
        });
        if !readable {
            table.meaning.push_str("; its contents are not shown");
            return Some(table);
        }
        table.meaning.push_str(&format!(", {count} values not zero{}", left_out(count, "values")));
        Some(table)
    }
}

/// How many of so many are not among those that are shown.
fn left_out(count: usize, what: &str) -> String {
    if count > SHOWN {
        format!("; the first {SHOWN} {what}, {} more are left out", count - SHOWN)
    } else {
        String::new()
    }
}

fn bytes(mem: &Memory, addr: GuestAddr, size: Option<u64>) -> Option<&[u8]> {
    mem.slice(addr, size?).ok()
}

/// The integers that a variable consists of: itself, or the elements of an array. Name, distance in bytes and type of each.
fn integers(types: &Btf, name: &str, ty: TypeId) -> Vec<(String, u64, TypeId)> {
    match types.resolved(ty) {
        Kind::Int(_) => vec![(name.to_string(), 0, ty)],
        Kind::Array(array)
            if array.count <= ELEMENTS && matches!(types.resolved(array.elem), Kind::Int(_)) =>
        {
            let size = types.size_of(array.elem).unwrap_or(0);
            let element = |at: u32| (format!("{name}[{at}]"), u64::from(at) * size, array.elem);
            (0..array.count).map(element).collect()
        }
        _ => Vec::new(),
    }
}

/// Bytes of a type, which may be more than the host counts; none for a type without a size.
fn host_size(types: &Btf, ty: TypeId) -> usize {
    types.size_of(ty).map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX))
}

/// A value as text: numbers, `{member=number}`, `[element, element]`; bytes in hex where the type is not known.
fn shown(types: &Btf, ty: Option<TypeId>, bytes: Option<&[u8]>, depth: u32) -> String {
    debug_assert!(depth <= DEPTH, "contents are shown to a depth");
    let Some(bytes) = bytes else { return "?".into() };
    let kind = ty.map(|ty| types.resolved(ty));
    match (kind, ty) {
        (Some(Kind::Int(int)), _) if bytes.len() <= 8 => number(bytes, int.signed),
        (Some(Kind::Enum(shape) | Kind::Enum64(shape)), _) if bytes.len() <= 8 => number(bytes, shape.signed),
        (Some(Kind::Ptr(_)), _) if bytes.len() == 8 => format!("{:#x}", word(bytes)),
        (Some(Kind::Struct(_)), Some(ty)) if depth < DEPTH => structure(types, ty, bytes, depth),
        (Some(Kind::Array(array)), _) if depth < DEPTH => {
            let size = host_size(types, array.elem).max(1);
            let elements = bytes.chunks(size).take(INNER);
            let mut parts: Vec<String> =
                elements.map(|element| shown(types, Some(array.elem), Some(element), depth + 1)).collect();
            if bytes.len() / size > INNER {
                parts.push("...".into());
            }
            format!("[{}]", parts.join(", "))
        }
        _ if kind.is_none() && [1, 2, 4, 8].contains(&bytes.len()) => number(bytes, false),
        _ => hex(bytes),
    }
}

fn structure(types: &Btf, ty: TypeId, bytes: &[u8], depth: u32) -> String {
    let member = |member: &schedlab_bpf::btf::Member| {
        let name = types.member_name(member);
        let name = if name.is_empty() { String::new() } else { format!("{name}=") };
        let from = member.bit_offset as usize / 8;
        let end = from.saturating_add(host_size(types, member.ty));
        let within = bytes.get(from..end).filter(|_| member.bitfield == 0);
        let text =
            within.map_or_else(|| "...".into(), |part| shown(types, Some(member.ty), Some(part), depth + 1));
        format!("{name}{text}")
    };
    let members: Vec<String> = types.members(ty).iter().map(member).collect();
    format!("{{{}}}", members.join(", "))
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn number(bytes: &[u8], signed: bool) -> String {
    debug_assert!(bytes.len() <= 8, "a number has eight bytes at most");
    let value = word(bytes);
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    if signed { ((value << unused) as i64 >> unused).to_string() } else { value.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    let text: String = bytes.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > BYTES { "..." } else { "" };
    format!("0x{text}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_sign() {
        assert_eq!(number(&[0xff, 0xff], true), "-1");
        assert_eq!(number(&[0xff, 0xff], false), "65535");
        assert_eq!(number(&(-5i64).to_le_bytes(), true), "-5");
        assert_eq!(hex(&[1, 0xab]), "0x01ab");
        assert!(hex(&[7; 40]).ends_with("..."));
        assert_eq!(left_out(SHOWN, "values"), "");
        assert!(left_out(SHOWN + 3, "values").contains("3 more"));
    }
}
