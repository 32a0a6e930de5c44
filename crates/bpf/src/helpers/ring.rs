//! Helpers on ring buffers.

use super::Env;
use crate::args::{Buffer, Bytes, Callback, Caller, MapArg, Pointer, misuse};
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
    flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    if flags & !WAKEUPS != 0 {
        return Ok(Err(Errno::EINVAL));
    }
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

/// Most records that are drained at once (kernel: `BPF_MAX_USER_RINGBUF_SAMPLES`).
const MAX_DRAINED: u64 = 128 << 10;
/// `BPF_RB_NO_WAKEUP` and `BPF_RB_FORCE_WAKEUP`.
const WAKEUPS: u64 = 3;

/// `bpf_user_ringbuf_drain(ring, callback, context, flags)`: records drained.
pub(super) fn drain<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    ring: MapArg,
    callback: Callback,
    context: u64,
    flags: u64,
) -> Result<Result<u64, Errno>, Fault> {
    if flags & !WAKEUPS != 0 {
        return Ok(Err(Errno::EINVAL));
    }
    if let Err(errno) = caller.env.runtime().maps.user_ring_drains(ring.0, true) {
        return Ok(Err(errno));
    }
    let mut drained = 0;
    while drained < MAX_DRAINED {
        let Some(dynptr) = caller.with_maps(|maps, mem| maps.user_ring_show(ring.0, mem)) else { break };
        let stops = caller.call_back(callback.0, &[dynptr.0, context])? != 0;
        caller.env.runtime().maps.user_ring_seen(ring.0);
        drained += 1;
        if stops {
            break;
        }
    }
    let _ = caller.env.runtime().maps.user_ring_drains(ring.0, false);
    debug_assert!(drained <= MAX_DRAINED, "the walk ends at the limit");
    Ok(Ok(drained))
}

/// `bpf_dynptr_data(dynptr, offset, length)`: the place, or NULL.
pub(super) fn dynptr_data<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    dynptr: Pointer,
    offset: u64,
    length: u64,
) -> Result<Option<GuestAddr>, Fault> {
    let (at, size) = extent(caller, dynptr)?;
    let fits = offset.checked_add(length).is_some_and(|end| end <= size);
    Ok(fits.then(|| at.offset(offset)))
}

/// `bpf_dynptr_read(destination, length, dynptr, offset, flags)`.
pub(super) fn dynptr_read<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    into: Buffer,
    dynptr: Pointer,
    offset: u64,
    flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    let (at, size) = extent(caller, dynptr)?;
    let length = into.0.size();
    if flags != 0 {
        return Ok(Err(Errno::EINVAL));
    }
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Ok(Err(Errno::E2BIG));
    }
    let from = caller.readable(at.offset(offset).0, length)?;
    let bytes = caller.bytes(from)?.to_vec();
    caller.fill(into.0, &bytes)?;
    Ok(Ok(()))
}

fn extent<E: Env>(caller: &mut Caller<'_, '_, E>, dynptr: Pointer) -> Result<(GuestAddr, u64), Fault> {
    let found = caller.with_maps(|maps, mem| maps.dynptr(dynptr.0, mem));
    found.ok_or_else(|| {
        misuse(format!("{:#x} is no dynptr: those of records of user ring buffers are modelled", dynptr.0.0))
    })
}
