//! Helpers on ring buffers.

use super::Env;
use crate::args::{Bytes, Caller, MapArg, misuse};
use crate::fault::Fault;
use crate::maps::Errno;
use crate::memory::GuestAddr;

/// The kernel's EAGAIN: the buffer is full.
const EAGAIN: Errno = Errno(11);

/// `bpf_ringbuf_output(ring, data, size, flags)`.
pub(super) fn output<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    ring: MapArg,
    data: Bytes,
    _flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    let data = caller.bytes(data.0)?.to_vec();
    Ok(caller.with_maps(|maps, mem| {
        let at = maps.ring_reserve(ring.0, data.len() as u64, mem).ok_or(EAGAIN)?;
        mem.write(at, &data).map_err(|_| Errno::EFAULT)?;
        maps.ring_finish(at, false, mem)
    }))
}

/// `bpf_ringbuf_reserve(ring, size, flags)`: the record, or NULL.
pub(super) fn reserve<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    ring: MapArg,
    size: u64,
    flags: u64,
) -> Result<Option<GuestAddr>, Fault> {
    if flags != 0 {
        return Ok(None);
    }
    let made = caller.with_maps(|maps, mem| maps.ring_reserve(ring.0, size, mem));
    caller.work_bytes(if made.is_some() { size } else { 0 })?;
    Ok(made)
}

/// `bpf_ringbuf_submit(record, flags)`.
pub(super) fn submit<E: Env>(caller: &mut Caller<'_, '_, E>, record: u64, _flags: u64) -> Result<(), Fault> {
    finish(caller, record, false)
}

/// `bpf_ringbuf_discard(record, flags)`.
pub(super) fn discard<E: Env>(caller: &mut Caller<'_, '_, E>, record: u64, _flags: u64) -> Result<(), Fault> {
    finish(caller, record, true)
}

fn finish<E: Env>(caller: &mut Caller<'_, '_, E>, record: u64, discard: bool) -> Result<(), Fault> {
    let done = caller.with_maps(|maps, mem| maps.ring_finish(GuestAddr(record), discard, mem));
    done.map_err(|_| misuse(format!("{record:#x} is no reserved record")))
}

/// `bpf_ringbuf_query(ring, what)`.
pub(super) fn query<E: Env>(caller: &mut Caller<'_, '_, E>, ring: MapArg, what: u64) -> u64 {
    let answers = caller.env.runtime().maps.ring_query(ring.0).unwrap_or_default();
    usize::try_from(what).ok().and_then(|what| answers.get(what)).copied().unwrap_or(0)
}
