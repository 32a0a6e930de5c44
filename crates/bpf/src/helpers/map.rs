//! Helpers on maps.

use super::Env;
use crate::args::{Callback, Caller, KernelPointer, Key, KeyValue, KptrPlace, MapArg, ValueOut, misuse};
use crate::fault::Fault;
use crate::maps::{Errno, MapId, STORAGE_CREATE};
use crate::memory::GuestAddr;

/// What was found, as r0.
#[inline(always)]
fn pointer(found: Option<GuestAddr>) -> u64 {
    found.map_or(0, |addr| addr.0)
}

/// `bpf_map_lookup_elem(map, key)`.
#[inline(always)]
pub(super) fn lookup<E: Env>(caller: &mut Caller<'_, '_, E>, map: MapArg, key: Key) -> Result<u64, Fault> {
    let cpu = caller.env.cpu();
    lookup_on(caller, map.0, key, cpu)
}

/// `bpf_map_lookup_percpu_elem(map, key, cpu)`.
pub(super) fn lookup_percpu<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    key: Key,
    cpu: u32,
) -> Result<u64, Fault> {
    if cpu >= caller.env.runtime().maps.nr_cpus() {
        return Ok(0);
    }
    lookup_on(caller, map.0, key, cpu)
}

/// What a look-up on this CPU finds: the value's address.
#[inline(always)]
fn lookup_on<E: Env>(caller: &mut Caller<'_, '_, E>, id: MapId, key: Key, cpu: u32) -> Result<u64, Fault> {
    if caller.env.runtime().maps.is_array(id) {
        let index = caller.index(key)?;
        return Ok(pointer(caller.env.runtime().maps.element(id, index, cpu)));
    }
    lookup_key(caller, id, key, cpu)
}

/// What a look-up finds in maps whose keys are bytes.
#[inline(never)]
fn lookup_key<E: Env>(caller: &mut Caller<'_, '_, E>, id: MapId, key: Key, cpu: u32) -> Result<u64, Fault> {
    let key = caller.key(key)?;
    caller.with_maps(|maps, mem| Ok(pointer(maps.lookup(id, key.of(mem)?, cpu, mem))))
}

/// `bpf_map_update_elem(map, key, value, flags)`.
pub(super) fn update<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    key: Key,
    value: KeyValue,
    flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    let cpu = caller.env.cpu();
    let parts = caller.env.runtime().maps.get(map.0).map_or(0, |map| map.special().len());
    caller.work(parts as u64)?;
    let key = caller.key(key)?;
    let (key, value) = (caller.bytes(key)?.to_vec(), caller.bytes(value.0)?.to_vec());
    let updated = caller.with_maps(|maps, mem| maps.update(map.0, &key, &value, flags, cpu, mem));
    if updated.is_ok() && caller.follows_lines() {
        let at = caller.env.runtime().maps.value(map.0, &key, cpu);
        caller.wrote_value(at, value.len() as u64);
    }
    Ok(updated)
}

/// `bpf_map_delete_elem(map, key)`. Removing an element also cancels the timers in its value. Trees, lists
/// and kernel pointers stay there, as in 7.3, and are met by the next value at that place.
pub(super) fn delete<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    key: Key,
) -> Result<Result<(), Errno>, Fault> {
    let key = caller.key(key)?;
    let key = caller.bytes(key)?.to_vec();
    let cpu = caller.env.cpu();
    let known = caller.env.runtime().maps.get(map.0).filter(|map| !map.special().is_empty());
    let size = known.map_or(0, |map| u64::from(map.value_size()));
    let place =
        (size > 0).then(|| caller.with_maps(|maps, mem| maps.lookup(map.0, &key, cpu, mem))).flatten();
    let deleted = caller.with_maps(|maps, mem| maps.delete(map.0, &key, mem));
    if let Some(at) = place.filter(|_| deleted.is_ok()) {
        super::timer::cancel_timers_in(at, size, caller);
    }
    Ok(deleted)
}

/// `bpf_map_push_elem(map, value, flags)`.
pub(super) fn push<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    value: KeyValue,
    flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    let value = caller.bytes(value.0)?.to_vec();
    Ok(caller.with_maps(|maps, mem| maps.push(map.0, &value, flags, mem)))
}

/// `bpf_map_pop_elem(map, value)`.
pub(super) fn pop<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    to: ValueOut,
) -> Result<Result<(), Errno>, Fault> {
    next(caller, map, to, true)
}

/// `bpf_map_peek_elem(map, value)`.
pub(super) fn peek<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    to: ValueOut,
) -> Result<Result<(), Errno>, Fault> {
    next(caller, map, to, false)
}

/// The next element of a queue or stack. The kernel zeroes the destination if there is none.
fn next<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    to: ValueOut,
    take: bool,
) -> Result<Result<(), Errno>, Fault> {
    match caller.with_maps(|maps, mem| maps.pop(map.0, take, mem)) {
        Ok(value) => caller.fill(to.0, &value).map(Ok),
        Err(error) => {
            caller.room(to.0)?.fill(0);
            Ok(Err(error))
        }
    }
}

/// `bpf_task_storage_get(map, task, initial, flags)`.
#[inline(always)]
pub(super) fn task_storage_get<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    task: u64,
    initial: u64,
    flags: u64,
) -> Result<u64, Fault> {
    let owner = caller.env.task_owner(task);
    let found = storage_get(caller, map, owner, initial, flags)?;
    if found != 0 {
        caller.env.runtime().maps.remember(map.0, task, GuestAddr(found));
    }
    Ok(found)
}

/// `bpf_cgrp_storage_get(map, cgroup, initial, flags)`.
pub(super) fn cgroup_storage_get<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    cgroup: u64,
    initial: u64,
    flags: u64,
) -> Result<u64, Fault> {
    let owner = caller.env.cgroup_owner(cgroup);
    storage_get(caller, map, owner, initial, flags)
}

#[inline(always)]
fn storage_get<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    owner: Option<u32>,
    initial: u64,
    flags: u64,
) -> Result<u64, Fault> {
    let Some(owner) = owner.filter(|_| flags & !STORAGE_CREATE == 0) else { return Ok(0) };
    match caller.env.runtime().maps.storage_find(map.0, owner) {
        Some(addr) => Ok(addr.0),
        None if flags == STORAGE_CREATE => storage_create(caller, map.0, owner, initial),
        None => Ok(0),
    }
}

/// Makes the value that `owner` has not yet, from what lies at `initial` unless that is NULL.
#[inline(never)]
fn storage_create<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    id: MapId,
    owner: u32,
    initial: u64,
) -> Result<u64, Fault> {
    let size = caller.env.runtime().maps.get(id).map_or(0, |map| u64::from(map.value_size()));
    let init = match initial {
        0 => {
            caller.work_bytes(size)?;
            None
        }
        at => {
            let value = caller.readable(at, size)?;
            Some(caller.bytes(value)?.to_vec())
        }
    };
    Ok(pointer(caller.with_maps(|maps, mem| maps.storage_get(id, owner, true, init.as_deref(), mem))))
}

/// `bpf_task_storage_delete(map, task)`.
pub(super) fn task_storage_delete<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    task: u64,
) -> Result<(), Errno> {
    let owner = caller.env.task_owner(task).ok_or(Errno::EINVAL)?;
    caller.env.runtime().maps.storage_delete(map.0, owner)
}

/// `bpf_cgrp_storage_delete(map, cgroup)`.
pub(super) fn cgroup_storage_delete<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    cgroup: u64,
) -> Result<(), Errno> {
    let owner = caller.env.cgroup_owner(cgroup).ok_or(Errno::EINVAL)?;
    caller.env.runtime().maps.storage_delete(map.0, owner)
}

/// `bpf_for_each_map_elem(map, callback, context, flags)`: elements visited.
///
/// Of a map with keys, the elements are those at the start; ones that the callback removes are not visited.
pub(super) fn for_each<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    map: MapArg,
    callback: Callback,
    context: u64,
    flags: u64,
) -> Result<Result<u64, Errno>, Fault> {
    if flags != 0 {
        return Ok(Err(Errno::EINVAL));
    }
    let (id, cpu) = (map.0, caller.env.cpu());
    let handle = caller.env.runtime().maps.handle(id).0;
    let slots = caller.env.runtime().maps.slots(id);
    if slots.is_none() && !caller.env.runtime().maps.is_indexed(id) {
        return Err(misuse("bpf_for_each_map_elem() walks arrays and hash maps only"));
    }
    let count = slots.as_ref().map_or_else(|| caller.env.runtime().maps.len(id), |slots| slots.len() as u32);
    caller.work_bytes(slots.as_ref().map_or(0, |slots| size_of_val(slots.as_slice()) as u64))?;
    let mut visited = 0;
    for number in 0..count {
        let element = caller.with_maps(|maps, mem| match &slots {
            Some(slots) => maps.slot(id, slots[number as usize], cpu),
            None => maps.element(id, number, cpu).map(|value| (maps.scratch_key(number, mem), value)),
        });
        let Some((key, value)) = element else { continue };
        visited += 1;
        if caller.call_back(callback.0, &[handle, key.0, value.0, context])? != 0 {
            break;
        }
    }
    Ok(Ok(visited))
}

/// `bpf_kptr_xchg(place, new)`: the old pointer.
pub(super) fn exchange_pointer<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    place: KptrPlace,
    new: KernelPointer,
) -> Result<u64, Fault> {
    caller.exchange(place, new)
}
