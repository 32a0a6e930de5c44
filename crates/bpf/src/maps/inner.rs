//! Maps of maps: which maps they may hold, and putting one in.

use super::declared::{self, INNER_MAP};
use super::{Errno, MapId, MapTable, Store, check_types, index_of};
use crate::memory::Memory;
use crate::object::{MapDef, MapType};

/// What maps in one map of maps have in common (`bpf_map_meta_equal()`, `array_map_meta_equal()`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    kind: MapType,
    sizes: [u32; 2],
    flags: u32,
    /// Of arrays alone: programs' indices are checked against it. 0 with `BPF_F_INNER_MAP`, which allows any.
    entries: u32,
}

impl Pattern {
    fn new(kind: MapType, sizes: [u32; 2], entries: u32, flags: u32) -> Pattern {
        let counts = kind == MapType::ARRAY && flags & INNER_MAP == 0;
        Pattern { kind, sizes, flags, entries: if counts { entries } else { 0 } }
    }
}

impl MapTable {
    /// The pattern of an inner map, which the kernel makes once for its rules to be applied.
    pub(super) fn pattern(&self, inner: &MapDef) -> Result<Pattern, String> {
        let mut def = inner.clone();
        def.complete(self.nr_cpus);
        declared::check(&def)
            .and_then(|()| check_types(&def))
            .map_err(|why| format!("its inner map: {why}"))?;
        Ok(Pattern::new(def.map_type, [def.key_size, def.value_size], def.max_entries, def.flags))
    }

    /// Puts an inner map into a map of maps.
    ///
    /// # Errors
    /// `E2BIG`, `EINVAL` as for values.
    pub fn set_inner(&mut self, id: MapId, key: &[u8], inner: MapId, mem: &mut Memory) -> Result<(), Errno> {
        let handle = self.handle(inner);
        let held = self.get(inner).ok_or(Errno::EINVAL)?;
        let held = Pattern::new(held.kind, [held.key_size, held.value_size], held.max_entries, held.flags);
        if self.get(id).and_then(|outer| outer.inner).is_some_and(|wanted| wanted != held) {
            return Err(Errno::EINVAL);
        }
        match &mut self.get_mut(id).ok_or(Errno::EINVAL)?.store {
            Store::MapArray(slots) => {
                let index = index_of(key).ok_or(Errno::EINVAL)?;
                *slots.get_mut(index as usize).ok_or(Errno::E2BIG)? = Some(inner);
                Ok(())
            }
            Store::Hash(hash) => {
                let (slot, _) = hash.claim(key, 0, mem)?;
                let at = hash.value(slot, 0).ok_or(Errno::EINVAL)?;
                mem.write_u64(at, handle.0).map_err(|_| Errno::EFAULT)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::Btf;

    fn def(kind: u32, key: u32, value: u32, entries: u32) -> MapDef {
        MapDef::plain("m", MapType(kind), [key, value, entries], 0)
    }

    /// `bpf_map_fd_get_ptr()` gives -EINVAL for a map of another pattern.
    #[test]
    fn a_map_of_maps_takes_maps_of_its_pattern() {
        let mut mem = Memory::new().expect("memory");
        let mut maps = MapTable::new(&mut mem, 2).expect("room");
        let types = Btf::default();
        for (flags, of_other_length) in [(0, Err(Errno::EINVAL)), (INNER_MAP, Ok(()))] {
            let array = |value, entries| MapDef { flags, ..def(2, 4, value, entries) };
            let outer = MapDef { inner: Some(Box::new(array(8, 2))), ..def(12, 4, 4, 1) };
            let outer = maps.create(&outer, &types, &mut mem).expect("a map of maps");
            let mut put = |inner: MapDef| {
                let inner = maps.create(&inner, &types, &mut mem).expect("an inner map");
                maps.set_inner(outer, &[0; 4], inner, &mut mem)
            };
            assert_eq!(put(array(8, 2)), Ok(()));
            assert_eq!(put(array(8, 3)), of_other_length);
            assert_eq!(put(array(16, 2)), Err(Errno::EINVAL));
            assert_eq!(put(def(1, 4, 8, 2)), Err(Errno::EINVAL));
        }
        let outer = MapDef { inner: Some(Box::new(def(2, 8, 8, 2))), ..def(12, 4, 4, 1) };
        let error = maps.create(&outer, &types, &mut mem).expect_err("its inner map");
        assert!(error.starts_with("its inner map: a map of type ARRAY has keys of 4 bytes"), "{error}");
    }
}
