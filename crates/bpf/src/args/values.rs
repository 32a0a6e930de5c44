//! Maps, their keys and values, and the kernel-owned parts of values, as arguments.

use super::{Arg, Caller, Readable, Registers, Shape, Writable, misuse};
use crate::code::FuncId;
use crate::fault::Fault;
use crate::helpers::{Env, Objects};
use crate::maps::{MapId, MapTable, SpecialKind, ValuePlace};
use crate::memory::{GuestAddr, Memory, Perm};

/// Bytes of a key that the price of a call covers, and bytes beyond it that count as an instruction. Chosen: a cache line,
/// and what the kernel's hash takes at a step.
const SHORT_KEY: u64 = 64;
const KEY_WORK: u64 = 4;

/// A map.
#[derive(Debug, Clone, Copy)]
pub struct MapArg(pub MapId);

/// A key of the map before; it is checked when it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    map: MapId,
    at: GuestAddr,
}

/// A value for the map before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValue(pub(crate) Readable);

/// Room for a value of the map before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueOut(pub(crate) Writable);

/// A `struct bpf_spin_lock` or `bpf_res_spin_lock` in a value of a map.
#[derive(Debug, Clone, Copy)]
pub struct LockPlace(pub GuestAddr);

/// A `struct bpf_timer` in a value of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerPlace {
    pub(crate) at: GuestAddr,
    pub(crate) value: ValuePlace,
}

/// A kernel pointer (`__kptr`) in a value of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KptrPlace(pub(crate) GuestAddr);

/// What a kernel pointer may be: NULL, or a kernel object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelPointer(pub(crate) u64);

/// A function of the program.
#[derive(Debug, Clone, Copy)]
pub struct Callback(pub FuncId);

/// Bytes in a value of the map that an earlier argument named.
fn value_size<E: Env>(registers: &Registers<'_>, caller: &mut Caller<'_, '_, E>) -> u64 {
    let map = registers.map.and_then(|id| caller.env.runtime().maps.get(id));
    map.map_or(0, |map| u64::from(map.value_size()))
}

#[cold]
fn no_map(value: u64) -> Fault {
    misuse(format!("{value:#x} is no map"))
}

impl<E: Env> Arg<E> for MapArg {
    const SHAPE: &'static [Shape] = &[Shape::Pointer];

    #[inline(always)]
    fn take(registers: &mut Registers<'_>, caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
        let value = registers.take();
        let map = caller.env.runtime().maps.by_handle(value).ok_or_else(|| no_map(value))?;
        registers.map = Some(map);
        Ok(MapArg(map))
    }
}

macro_rules! value_args {
    ($($name:ident, |$registers:ident, $caller:ident| $make:expr;)*) => { $(
        impl<E: Env> Arg<E> for $name {
            const SHAPE: &'static [Shape] = &[Shape::Pointer];

            #[inline(always)]
            fn take($registers: &mut Registers<'_>, $caller: &mut Caller<'_, '_, E>) -> Result<Self, Fault> {
                $make
            }
        }
    )* };
}

value_args! {
    Key, |registers, _caller| {
        let at = GuestAddr(registers.take());
        registers.map.map(|map| Key { map, at }).ok_or_else(|| misuse("a key without a map"))
    };
    KeyValue, |registers, caller| {
        let size = value_size(registers, caller);
        caller.readable(registers.take(), size).map(KeyValue)
    };
    ValueOut, |registers, caller| {
        let size = value_size(registers, caller);
        caller.writable(registers.take(), size).map(ValueOut)
    };
    LockPlace, |registers, caller| {
        let at = registers.take();
        // A place that was a lock once stays one: values of maps never move or change their type.
        if !caller.env.is_known_lock(GuestAddr(at)) {
            caller.special(at, SpecialKind::Lock)?;
        }
        Ok(LockPlace(GuestAddr(at)))
    };
    TimerPlace, |registers, caller| {
        let at = registers.take();
        let value = caller.special(at, SpecialKind::Timer)?;
        Ok(TimerPlace { at: GuestAddr(at), value })
    };
    KptrPlace, |registers, caller| {
        let at = registers.take();
        caller.special(at, SpecialKind::Pointer)?;
        Ok(KptrPlace(GuestAddr(at)))
    };
    KernelPointer, |registers, caller| {
        let value = registers.take();
        let perm = caller.vm.mem.perm_at(GuestAddr(value));
        if value == 0 || perm.contains(Perm::KERNEL) || caller.env.runtime().objects.is_live(value) {
            return Ok(KernelPointer(value));
        }
        Err(misuse(format!("{value:#x} is no kernel object")))
    };
    Callback, |registers, _caller| {
        let value = registers.take();
        let func = FuncId::from_pointer(value);
        func.map(Callback).ok_or_else(|| misuse(format!("{value:#x} is no function of the program")))
    };
}

impl SpecialKind {
    /// What a program calls it.
    fn described(self) -> &'static str {
        match self {
            SpecialKind::Lock => "lock",
            SpecialKind::Timer => "timer",
            SpecialKind::Work => "deferred work",
            SpecialKind::Pointer => "kernel pointer",
            SpecialKind::Graph => "list or tree",
        }
    }
}

impl<E: Env> Caller<'_, '_, E> {
    /// Works on the object's maps, which keep their values in the guest's memory themselves.
    #[inline(always)]
    pub(crate) fn with_maps<T>(&mut self, work: impl FnOnce(&mut MapTable, &mut Memory) -> T) -> T {
        work(&mut self.env.runtime().maps, self.vm.mem)
    }

    /// Works on the objects that the program has made.
    pub(crate) fn with_objects<T>(&mut self, work: impl FnOnce(&mut Objects, &mut Memory) -> T) -> T {
        work(&mut self.env.runtime().objects, self.vm.mem)
    }

    /// The index that a key of an array is.
    #[inline(always)]
    pub(crate) fn index(&mut self, key: Key) -> Result<u32, Fault> {
        match self.vm.mem.load::<4>(key.at.0) {
            Some(index) => Ok(index as u32),
            None => self.index_elsewhere(key),
        }
    }

    /// The index that a key of an array is, where the key does not lie in one ordinary page.
    #[cold]
    fn index_elsewhere(&mut self, key: Key) -> Result<u32, Fault> {
        let key = self.readable(key.at.0, 4)?;
        let bytes = self.bytes(key)?.first_chunk().copied();
        Ok(u32::from_le_bytes(bytes.unwrap_or_default()))
    }

    /// The bytes of a key. A long one is more work than to read it: it is hashed, compared and kept.
    pub(crate) fn key(&mut self, key: Key) -> Result<Readable, Fault> {
        let size = self.env.runtime().maps.get(key.map).map_or(0, |map| u64::from(map.key_size()));
        self.work(size.saturating_sub(SHORT_KEY) / KEY_WORK)?;
        self.readable(key.at.0, size)
    }

    /// The value in which a kernel-owned part of this kind begins at an address.
    pub(crate) fn special(&mut self, at: u64, kind: SpecialKind) -> Result<ValuePlace, Fault> {
        let place = self.env.runtime().maps.special_at(at, kind, self.vm.mem);
        place.ok_or_else(|| misuse(format!("{at:#x} is no {} in a value of a map", kind.described())))
    }

    /// Puts a pointer into its place and gives the one that was there.
    pub(crate) fn exchange(&mut self, place: KptrPlace, new: KernelPointer) -> Result<u64, Fault> {
        let old = self.vm.mem.read_u64(place.0)?;
        self.vm.mem.write_u64(place.0, new.0)?;
        Ok(old)
    }
}
