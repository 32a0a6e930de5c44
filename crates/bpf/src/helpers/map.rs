//! Helpers on maps.

use super::{Env, misuse};
use crate::engine::Vm;
use crate::fault::{Access, Fault};
use crate::maps::{Errno, MapId, STORAGE_CREATE};
use crate::memory::GuestAddr;
use crate::object::MapType;

/// The map that an argument refers to.
#[inline]
fn map_of<E: Env>(value: u64, env: &mut E) -> Result<MapId, Fault> {
    env.runtime().maps.by_handle(value).ok_or_else(|| no_map(value))
}

#[cold]
fn no_map(value: u64) -> Fault {
    misuse(format!("{value:#x} is no map"))
}

fn result(done: Result<(), Errno>) -> u64 {
    done.map_or_else(Errno::to_r0, |()| 0)
}

/// (bytes of a key, of a value) of a map.
fn sizes<E: Env>(id: MapId, env: &mut E) -> (u64, u64) {
    let map = env.runtime().maps.get(id).expect("ids come from the table");
    (u64::from(map.key_size()), u64::from(map.value_size()))
}

/// `bpf_map_lookup_percpu_elem(map, key, cpu)`.
pub(super) fn lookup_percpu<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let cpu = args[2] as u32;
    if cpu >= env.runtime().maps.nr_cpus() {
        return Ok(0);
    }
    lookup_on(args[0], args[1], cpu, vm, env)
}

/// What a look-up on this CPU finds: the value's address, or 0.
#[inline(always)]
pub(super) fn lookup_on<E: Env>(
    map: u64,
    key: u64,
    cpu: u32,
    vm: &mut Vm<'_>,
    env: &mut E,
) -> Result<u64, Fault> {
    let id = map_of(map, env)?;
    if env.runtime().maps.is_array(id) {
        let index = vm.mem.read_u32(GuestAddr(key))?;
        return Ok(env.runtime().maps.element(id, index, cpu).map_or(0, |addr| addr.0));
    }
    lookup_key(id, key, cpu, vm, env)
}

/// The same for maps whose keys are bytes.
#[inline(never)]
fn lookup_key<E: Env>(id: MapId, key: u64, cpu: u32, vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let (key_size, _) = sizes(id, env);
    let key = vm.mem.slice(GuestAddr(key), key_size)?;
    Ok(env.runtime().maps.lookup(id, key, cpu, vm.mem).map_or(0, |addr| addr.0))
}

pub(super) fn update<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let id = map_of(args[0], env)?;
    let (key_size, value_size) = sizes(id, env);
    let key = vm.mem.slice(GuestAddr(args[1]), key_size)?.to_vec();
    let value = vm.mem.slice(GuestAddr(args[2]), value_size)?.to_vec();
    let cpu = env.cpu();
    Ok(result(env.runtime().maps.update(id, &key, &value, args[3], cpu, vm.mem)))
}

/// Removing an element also cancels the timers in its value.
pub(super) fn delete<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let id = map_of(args[0], env)?;
    let (key_size, value_size) = sizes(id, env);
    let key = vm.mem.slice(GuestAddr(args[1]), key_size)?.to_vec();
    let cpu = env.cpu();
    let has_parts = env.runtime().maps.get(id).is_some_and(|m| !m.special().is_empty());
    if has_parts && let Some(at) = env.runtime().maps.lookup(id, &key, cpu, vm.mem) {
        super::cancel_timers_in(at, value_size, env);
    }
    Ok(result(env.runtime().maps.delete(id, &key, vm.mem)))
}

/// Push (87), pop (88), peek (89) of queues and stacks.
pub(super) fn queue<E: Env>(
    number: u32,
    args: &[u64; 5],
    vm: &mut Vm<'_>,
    env: &mut E,
) -> Result<u64, Fault> {
    let id = map_of(args[0], env)?;
    let (_, value_size) = sizes(id, env);
    let place = GuestAddr(args[1]);
    if number == 87 {
        let value = vm.mem.slice(place, value_size)?.to_vec();
        return Ok(result(env.runtime().maps.push(id, &value, args[2], vm.mem)));
    }
    vm.mem.check_program_access(place, value_size, Access::Write)?;
    match env.runtime().maps.pop(id, number == 88, vm.mem) {
        Ok(value) => vm.mem.write(place, &value).map(|()| 0),
        Err(error) => {
            // The kernel zeroes the destination of a failed pop.
            vm.mem.slice_mut(place, value_size)?.fill(0);
            Ok(error.to_r0())
        }
    }
}

/// `bpf_task_storage_get(map, task, initial, flags)` and the cgroup form.
pub(super) fn storage_get<E: Env>(
    args: &[u64; 5],
    vm: &mut Vm<'_>,
    env: &mut E,
    cgroup: bool,
) -> Result<u64, Fault> {
    let [map, owner, _, flags, _] = *args;
    let id = map_of(map, env)?;
    let owner = if cgroup { env.cgroup_owner(owner) } else { env.task_owner(owner) };
    let Some(owner) = owner.filter(|_| flags & !STORAGE_CREATE == 0) else {
        return Ok(0);
    };
    match env.runtime().maps.storage_find(id, owner) {
        Some(addr) => Ok(addr.0),
        None if flags == STORAGE_CREATE => storage_create(id, owner, args[2], vm, env),
        None => Ok(0),
    }
}

/// Makes the value that `owner` has not yet, from what lies at `initial` unless that is NULL.
#[inline(never)]
fn storage_create<E: Env>(
    id: MapId,
    owner: u32,
    initial: u64,
    vm: &mut Vm<'_>,
    env: &mut E,
) -> Result<u64, Fault> {
    let init = if initial != 0 {
        let (_, value_size) = sizes(id, env);
        Some(vm.mem.slice(GuestAddr(initial), value_size)?.to_vec())
    } else {
        None
    };
    let made = env.runtime().maps.storage_get(id, owner, true, init.as_deref(), vm.mem);
    Ok(made.map_or(0, |addr| addr.0))
}

pub(super) fn storage_delete<E: Env>(args: &[u64; 5], env: &mut E, cgroup: bool) -> Result<u64, Fault> {
    let id = map_of(args[0], env)?;
    let owner = if cgroup { env.cgroup_owner(args[1]) } else { env.task_owner(args[1]) };
    let Some(owner) = owner else {
        return Ok(Errno::EINVAL.to_r0());
    };
    Ok(result(env.runtime().maps.storage_delete(id, owner)))
}

/// `bpf_for_each_map_elem(map, callback, context, flags)`: elements visited.
///
/// The elements are those at the start; ones that the callback removes are not visited.
pub(super) fn for_each<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let [map, callback, context, flags, _] = *args;
    if flags != 0 {
        return Ok(Errno::EINVAL.to_r0());
    }
    let id = map_of(map, env)?;
    let cpu = env.cpu();
    let kind = env.runtime().maps.get(id).map(|m| m.kind());
    let array = matches!(kind, Some(MapType::ARRAY | MapType::PERCPU_ARRAY));
    let mut visited = 0;
    for (key, value) in env.runtime().maps.elements(id, cpu) {
        let key_at = if array {
            env.runtime().maps.scratch_key(visited as u32, vm.mem)
        } else {
            if env.runtime().maps.peek(id, &key, cpu) != Some(value) {
                continue;
            }
            env.runtime().maps.key_address(id, &key).unwrap_or(GuestAddr::NULL)
        };
        visited += 1;
        if vm.call_pointer(callback, &[map, key_at.0, value.0, context], env)? != 0 {
            break;
        }
    }
    Ok(visited)
}

/// Output (130), reserve (131), submit (132), discard (133), query (134) of ring buffers.
pub(super) fn ring<E: Env>(number: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    /// The kernel's EAGAIN: the buffer is full.
    const EAGAIN: Errno = Errno(11);
    if matches!(number, 132 | 133) {
        let done = env.runtime().maps.ring_finish(GuestAddr(args[0]), number == 133);
        return done.map(|()| 0).map_err(|_| misuse(format!("{:#x} is no reserved record", args[0])));
    }
    let id = map_of(args[0], env)?;
    match number {
        131 if args[2] == 0 => Ok(env.runtime().maps.ring_reserve(id, args[1], vm.mem).map_or(0, |a| a.0)),
        131 => Ok(0),
        134 => {
            let answers = env.runtime().maps.ring_query(id).unwrap_or_default();
            Ok(answers.get(args[1] as usize).copied().unwrap_or(0))
        }
        _ => {
            let data = vm.mem.slice(GuestAddr(args[1]), args[2])?.to_vec();
            let Some(at) = env.runtime().maps.ring_reserve(id, args[2], vm.mem) else {
                return Ok(EAGAIN.to_r0());
            };
            vm.mem.write(at, &data)?;
            Ok(result(env.runtime().maps.ring_finish(at, false)))
        }
    }
}

/// `bpf_kptr_xchg(place, new)`: the old pointer.
pub(super) fn exchange_pointer(args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let place = GuestAddr(args[0]);
    vm.mem.check_program_access(place, 8, Access::Write)?;
    let old = vm.mem.read_u64(place)?;
    vm.mem.write_u64(place, args[1])?;
    Ok(old)
}
