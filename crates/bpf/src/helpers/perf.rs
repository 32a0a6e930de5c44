//! Helpers on arrays of perf events. The simulated machine counts nothing, so that each array is empty, as on a kernel whose
//! loader has opened no event.

use super::Env;
use crate::args::{Buffer, Bytes, Caller, MapArg, misuse};
use crate::fault::Fault;
use crate::maps::Errno;
use crate::object::MapType;

/// The part of the flags that is an index (`BPF_F_INDEX_MASK`); all of it means the own CPU (`BPF_F_CURRENT_CPU`).
const INDEX: u64 = 0xffff_ffff;

/// Bytes of `struct bpf_perf_event_value`.
const VALUE_SIZE: usize = 24;

/// `bpf_perf_event_read(events, flags)`.
pub(super) fn read<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    events: MapArg,
    flags: u64,
) -> Result<Result<u64, Errno>, Fault> {
    Ok(Err(entry(caller, &events, flags)?))
}

/// `bpf_perf_event_read_value(events, flags, value, size)`: zeros.
pub(super) fn read_value<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    events: MapArg,
    flags: u64,
    value: Buffer,
) -> Result<Result<(), Errno>, Fault> {
    let error = entry(caller, &events, flags)?;
    let room = caller.room(value.0)?;
    room.fill(0);
    Ok(Err(if room.len() == VALUE_SIZE { error } else { Errno::EINVAL }))
}

/// `bpf_perf_event_output(context, events, flags, data, size)`.
pub(super) fn output<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    _context: u64,
    events: MapArg,
    flags: u64,
    _data: Bytes,
) -> Result<Result<(), Errno>, Fault> {
    Ok(Err(entry(caller, &events, flags)?))
}

/// The kernel's error on looking for an event that is not there.
fn entry<E: Env>(caller: &mut Caller<'_, '_, E>, events: &MapArg, flags: u64) -> Result<Errno, Fault> {
    let cpu = caller.env.cpu();
    let map = caller.env.runtime().maps.get(events.0);
    let map = map.filter(|map| map.kind() == MapType::PERF_EVENT_ARRAY);
    let map = map.ok_or_else(|| misuse("the map is no PERF_EVENT_ARRAY"))?;
    let index = if flags == INDEX { u64::from(cpu) } else { flags };
    Ok(match index {
        _ if flags & !INDEX != 0 => Errno::EINVAL,
        index if index >= u64::from(map.max_entries()) => Errno::E2BIG,
        _ => Errno::ENOENT,
    })
}
