//! Map declarations of the `.maps` section: what is said by types (`__uint`, `__type`) is read back from the types.

use super::elf::{Elf, Symbol};
use crate::btf::{Btf, Kind, TypeId};
use crate::error::LoadError;
use crate::limits::MAPS;

/// Kinds of map, by the kernel's numbers (`enum bpf_map_type`, include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapType(pub u32);

impl MapType {
    /// `HASH`.
    pub const HASH: MapType = MapType(1);
    /// `ARRAY`.
    pub const ARRAY: MapType = MapType(2);
    /// `PROG_ARRAY`.
    pub const PROG_ARRAY: MapType = MapType(3);
    /// `PERF_EVENT_ARRAY`.
    pub const PERF_EVENT_ARRAY: MapType = MapType(4);
    /// `PERCPU_HASH`.
    pub const PERCPU_HASH: MapType = MapType(5);
    /// `PERCPU_ARRAY`.
    pub const PERCPU_ARRAY: MapType = MapType(6);
    /// `LRU_HASH`.
    pub const LRU_HASH: MapType = MapType(9);
    /// `LRU_PERCPU_HASH`.
    pub const LRU_PERCPU_HASH: MapType = MapType(10);
    /// `ARRAY_OF_MAPS`.
    pub const ARRAY_OF_MAPS: MapType = MapType(12);
    /// `HASH_OF_MAPS`.
    pub const HASH_OF_MAPS: MapType = MapType(13);
    /// `QUEUE`.
    pub const QUEUE: MapType = MapType(22);
    /// `STACK`.
    pub const STACK: MapType = MapType(23);
    /// `STRUCT_OPS`.
    pub const STRUCT_OPS: MapType = MapType(26);
    /// `RINGBUF`.
    pub const RINGBUF: MapType = MapType(27);
    /// `USER_RINGBUF`: user space writes, programs read.
    pub const USER_RINGBUF: MapType = MapType(31);
    /// `TASK_STORAGE`.
    pub const TASK_STORAGE: MapType = MapType(29);
    /// `CGRP_STORAGE`.
    pub const CGRP_STORAGE: MapType = MapType(32);
    /// `ARENA`.
    pub const ARENA: MapType = MapType(33);

    /// Whether a map of this kind must be given a number of entries: storage and struct_ops maps have none, and data
    /// sections bring theirs along.
    pub fn needs_entries(self) -> bool {
        !matches!(
            self,
            // Loaders give an array of events one entry a CPU.
            MapType::PERF_EVENT_ARRAY
                | MapType::TASK_STORAGE
                | MapType::CGRP_STORAGE
                | MapType::STRUCT_OPS
                | MapType(24 | 28)
        )
    }

    /// Whether each CPU has values of its own.
    pub fn is_per_cpu(self) -> bool {
        matches!(self, MapType::PERCPU_HASH | MapType::PERCPU_ARRAY | MapType::LRU_PERCPU_HASH)
    }

    /// The kernel's name of this number, without `BPF_MAP_TYPE_`.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 35] = [
            "UNSPEC",
            "HASH",
            "ARRAY",
            "PROG_ARRAY",
            "PERF_EVENT_ARRAY",
            "PERCPU_HASH",
            "PERCPU_ARRAY",
            "STACK_TRACE",
            "CGROUP_ARRAY",
            "LRU_HASH",
            "LRU_PERCPU_HASH",
            "LPM_TRIE",
            "ARRAY_OF_MAPS",
            "HASH_OF_MAPS",
            "DEVMAP",
            "SOCKMAP",
            "CPUMAP",
            "XSKMAP",
            "SOCKHASH",
            "CGROUP_STORAGE",
            "REUSEPORT_SOCKARRAY",
            "PERCPU_CGROUP_STORAGE",
            "QUEUE",
            "STACK",
            "SK_STORAGE",
            "DEVMAP_HASH",
            "STRUCT_OPS",
            "RINGBUF",
            "INODE_STORAGE",
            "TASK_STORAGE",
            "BLOOM_FILTER",
            "USER_RINGBUF",
            "CGRP_STORAGE",
            "ARENA",
            "INSN_ARRAY",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("unknown")
    }
}

/// A map as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapDef {
    /// Name of the variable.
    pub name: String,
    /// Kind.
    pub map_type: MapType,
    /// Bytes in a key.
    pub key_size: u32,
    /// Bytes in a value.
    pub value_size: u32,
    /// Entries; pages for an arena, bytes for a ring buffer.
    pub max_entries: u32,
    /// `BPF_F_...` flags.
    pub flags: u32,
    /// Kind-specific extra word (the user-space address of an arena).
    pub extra: u64,
    /// Type of the key in the object's BTF, if declared with one.
    pub key_type: Option<TypeId>,
    /// Type of the value.
    pub value_type: Option<TypeId>,
    /// The inner map's declaration, for maps of maps.
    pub inner: Option<Box<MapDef>>,
    /// Filled-in slots (slot, symbol name): maps of maps and program arrays declared with `.values = {...}`.
    pub slots: Vec<(u32, String)>,
    /// Bytes from the start of `.maps`.
    pub(crate) offset: u64,
}

/// A page of the simulated kernel, as on x86-64.
const PAGE_BYTES: u32 = 4096;

fn bad(map: &str, problem: impl Into<String>) -> LoadError {
    LoadError::unsupported(
        format!("section .maps, map `{map}`"),
        problem,
        "declare it as libbpf documents: __uint(type, ...), __uint(max_entries, ...), __type(key, ...), __type(value, ...)",
    )
}

/// All maps of the object, in order of declaration.
pub(super) fn read(elf: &Elf, btf: &Btf) -> Result<Vec<MapDef>, LoadError> {
    let Some((index, section)) = elf.section(".maps") else {
        return Ok(Vec::new());
    };
    let vars = super::data::section_vars(elf, btf, ".maps", index);
    let mut symbols: Vec<&Symbol> = elf.variables(index).collect();
    MAPS.check(symbols.len(), || "section .maps".to_string())?;
    symbols.sort_by_key(|symbol| symbol.value);
    if section.relocs.windows(2).any(|two| two[0].offset == two[1].offset) {
        return Err(LoadError::malformed("section .maps", "two relocations at one place"));
    }
    let mut out = Vec::new();
    let mut free = 0;
    for symbol in symbols {
        if symbol.value < free {
            return Err(LoadError::malformed(
                "section .maps",
                format!("map `{}` overlaps another", symbol.name),
            ));
        }
        free = symbol.value.saturating_add(symbol.size);
        let Some(ty) = vars.get(&symbol.name) else {
            return Err(bad(&symbol.name, "there is no type information for it"));
        };
        let mut map = MapDef { name: symbol.name.clone(), offset: symbol.value, ..MapDef::empty() };
        if let Some(values_at) = map.read_members(btf, *ty)? {
            let first = symbol.value.saturating_add(values_at);
            for reloc in section.relocs_within(first..free.max(first)) {
                let slot = (reloc.offset - first) / 8;
                map.slots.push((slot as u32, elf.symbols[reloc.symbol].name.clone()));
            }
        }
        out.push(map);
    }
    Ok(out)
}

impl MapDef {
    /// A map that no object declares; `sizes` are those of key and value, and the number of entries.
    pub fn plain(name: &str, map_type: MapType, sizes: [u32; 3], flags: u32) -> MapDef {
        let [key_size, value_size, max_entries] = sizes;
        MapDef { name: name.into(), map_type, key_size, value_size, max_entries, flags, ..MapDef::empty() }
    }

    /// Fills in what libbpf does before it makes a map: an array of events has one entry a CPU (`map_set_def_max_entries()`).
    pub(crate) fn complete(&mut self, nr_cpus: u32) {
        if self.map_type == MapType::PERF_EVENT_ARRAY && self.max_entries == 0 {
            self.max_entries = nr_cpus;
        }
        self.adjust_ring();
    }

    /// Rounds the size of a ring buffer up to a power of two of whole pages, as libbpf does (`adjust_ringbuf_sz()`).
    /// A size of 0, or one that no such number reaches, stays and is refused.
    fn adjust_ring(&mut self) {
        let is_ring = matches!(self.map_type, MapType::RINGBUF | MapType::USER_RINGBUF);
        if is_ring && self.max_entries != 0 {
            let pages = self.max_entries.max(PAGE_BYTES).checked_next_power_of_two();
            self.max_entries = pages.unwrap_or(self.max_entries);
        }
    }

    pub(crate) fn empty() -> MapDef {
        MapDef {
            name: String::new(),
            map_type: MapType(0),
            key_size: 0,
            value_size: 0,
            max_entries: 0,
            flags: 0,
            extra: 0,
            key_type: None,
            value_type: None,
            inner: None,
            slots: Vec::new(),
            offset: 0,
        }
    }

    /// Reads the members of the declaring struct; returns where the slots begin, in bytes, if there are any.
    fn read_members(&mut self, btf: &Btf, ty: TypeId) -> Result<Option<u64>, LoadError> {
        if !matches!(btf.resolved(ty), Kind::Struct(_)) {
            return Err(bad(&self.name, "its type is no struct"));
        }
        let mut values_at = None;
        for member in btf.members(ty) {
            let name = btf.member_name(member);
            let number = || {
                constant(btf, member.ty).ok_or_else(|| bad(&self.name, format!("`{name}` is no constant")))
            };
            match name {
                "type" => self.map_type = MapType(number()? as u32),
                "max_entries" => self.max_entries = number()? as u32,
                "map_flags" => self.flags = number()? as u32,
                "key_size" => self.set_key_size(number()? as u32)?,
                "value_size" => self.set_value_size(number()? as u32)?,
                "map_extra" => self.extra = number()?,
                "numa_node" => {}
                "pinning" if number()? > 1 => {
                    return Err(bad(&self.name, "`pinning` is LIBBPF_PIN_NONE or LIBBPF_PIN_BY_NAME"));
                }
                "pinning" => {}
                "key" => {
                    let (ty, size) = self.pointed(btf, member.ty, name)?;
                    self.key_type = Some(ty);
                    self.set_key_size(size)?;
                }
                "value" => {
                    let (ty, size) = self.pointed(btf, member.ty, name)?;
                    self.value_type = Some(ty);
                    self.set_value_size(size)?;
                }
                "values" => {
                    if !matches!(
                        self.map_type,
                        MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS | MapType::PROG_ARRAY
                    ) {
                        return Err(bad(
                            &self.name,
                            "`values` stands in maps of maps and program arrays alone, behind their type",
                        ));
                    }
                    values_at = Some(u64::from(member.bit_offset) / 8);
                    self.read_inner(btf, member.ty)?;
                }
                other => return Err(bad(&self.name, format!("`{other}` is not known"))),
            }
        }
        if self.map_type.0 == 0 {
            return Err(bad(&self.name, "its type is missing"));
        }
        Ok(values_at)
    }

    /// Sets the size of a key; a second one that differs is a contradiction, as for libbpf (`parse_btf_map_def()`).
    fn set_key_size(&mut self, size: u32) -> Result<(), LoadError> {
        if ![0, size].contains(&self.key_size) {
            return Err(bad(&self.name, format!("conflicting key size {} != {size}", self.key_size)));
        }
        self.key_size = size;
        Ok(())
    }

    /// Sets the size of a value; a second one that differs is a contradiction.
    fn set_value_size(&mut self, size: u32) -> Result<(), LoadError> {
        if ![0, size].contains(&self.value_size) {
            return Err(bad(&self.name, format!("conflicting value size {} != {size}", self.value_size)));
        }
        self.value_size = size;
        Ok(())
    }

    fn pointed(&self, btf: &Btf, ty: TypeId, what: &str) -> Result<(TypeId, u32), LoadError> {
        let Kind::Ptr(target) = btf.resolved(ty) else {
            return Err(bad(&self.name, format!("`{what}` is no pointer to its type")));
        };
        let size = btf.size_of(*target).and_then(|s| u32::try_from(s).ok());
        size.map(|s| (*target, s)).ok_or_else(|| bad(&self.name, format!("`{what}` has no size")))
    }

    /// `values` is an array of pointers to the inner map's struct, or to functions in a program array.
    fn read_inner(&mut self, btf: &Btf, ty: TypeId) -> Result<(), LoadError> {
        // Slots of both kinds hold 4-byte references.
        self.set_value_size(4)?;
        let Kind::Array(array) = btf.resolved(ty) else {
            return Err(bad(&self.name, "`values` is no array"));
        };
        let Kind::Ptr(target) = btf.resolved(array.elem) else {
            return Err(bad(&self.name, "`values` holds no pointers"));
        };
        if self.map_type == MapType::PROG_ARRAY || matches!(btf.resolved(*target), Kind::FuncProto(_)) {
            return Ok(());
        }
        let mut inner = MapDef { name: format!("{}.inner", self.name), ..MapDef::empty() };
        if inner.read_members(btf, *target)?.is_some() {
            return Err(bad(&self.name, "maps of maps nest only once"));
        }
        self.inner = Some(Box::new(inner));
        Ok(())
    }
}

/// `__uint(name, n)` is a pointer to an array of n; `__ulong(name, n)` an enumeration with the one value n.
fn constant(btf: &Btf, ty: TypeId) -> Option<u64> {
    match btf.resolved(ty) {
        Kind::Ptr(target) => match btf.resolved(*target) {
            Kind::Array(array) => Some(u64::from(array.count)),
            _ => None,
        },
        Kind::Enum(e) | Kind::Enum64(e) => e.values.first().map(|v| v.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_ring_buffers_are_rounded_up() {
        // `adjust_ringbuf_sz()` of libbpf 1.6.
        let sizes = [(0, 0), (1, 4096), (4096, 4096), (4097, 8192), (3 * 4096, 4 * 4096), (100_000, 131_072)];
        let most = [(1 << 31, 1 << 31), (u32::MAX, u32::MAX)];
        for (asked, made) in sizes.into_iter().chain(most) {
            for kind in [MapType::RINGBUF, MapType::USER_RINGBUF] {
                let mut def = MapDef::plain("ring", kind, [0, 0, asked], 0);
                def.adjust_ring();
                assert_eq!(def.max_entries, made, "{asked}");
            }
        }
        let mut hash = MapDef::plain("hash", MapType(1), [4, 4, 5000], 0);
        hash.adjust_ring();
        assert_eq!(hash.max_entries, 5000);
    }
}
