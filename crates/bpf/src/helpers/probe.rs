//! Helpers that copy memory which may not be there, and text.

use super::Env;
use crate::args::{Buffer, Bytes, Caller, misuse};
use crate::fault::Fault;
use crate::maps::Errno;
use crate::memory::PAGE_SIZE;

/// The kernel's ERANGE.
const ERANGE: Errno = Errno(34);

/// Why the kernel cannot read at an address: none of its own (`copy_from_kernel_nofault_allowed()`, arch/x86/mm/maccess.c,
/// Linux 7.3, with addresses of 48 bits), or nothing is there.
fn unreadable(at: u64) -> Errno {
    const USER_END: u64 = 0x7fff_ffff_f000 + PAGE_SIZE;
    const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;
    let canonical = (at.cast_signed() << 16) >> 16 == at.cast_signed();
    let allowed = at >= USER_END && at & !(PAGE_SIZE - 1) != VSYSCALL && canonical;
    if allowed { Errno::EFAULT } else { ERANGE }
}

/// `bpf_probe_read_kernel(destination, size, source)`: what cannot be read becomes zeros and an error.
pub(super) fn read<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    from: u64,
) -> Result<Result<(), Errno>, Fault> {
    let done = caller.probe(to.0, from)?;
    let nothing = to.0.size() == 0 && unreadable(from) == Errno::EFAULT;
    Ok(if done || nothing { Ok(()) } else { Err(unreadable(from)) })
}

/// `bpf_probe_read_user(destination, size, source)`.
pub(super) fn read_user<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    from: u64,
) -> Result<Result<(), Errno>, Fault> {
    if to.0.size() == 0 {
        return Ok(Ok(()));
    }
    match caller.env.read_user(from, to.0.size() as usize) {
        Some(bytes) => caller.fill(to.0, &bytes).map(Ok),
        None => {
            caller.room(to.0)?.fill(0);
            Ok(Err(Errno::EFAULT))
        }
    }
}

/// `bpf_copy_from_user_task(destination, size, source, task, flags)`.
pub(super) fn read_user_task<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    from: u64,
    _task: u64,
    _flags: u64,
) -> Result<Result<(), Errno>, Fault> {
    read_user(caller, to, from)
}

/// `bpf_probe_read_kernel_str(destination, size, source)`: bytes copied with the closing zero.
pub(super) fn read_text<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    from: u64,
) -> Result<Result<u64, Errno>, Fault> {
    let Some(limit) = to.0.size().checked_sub(1) else { return Ok(Ok(0)) };
    let Some(mut bytes) = caller.text(from, limit)? else {
        caller.room(to.0)?.fill(0);
        return Ok(Err(unreadable(from)));
    };
    bytes.push(0);
    caller.fill(to.0, &bytes)?;
    Ok(Ok(bytes.len() as u64))
}

/// `bpf_probe_read_user_str(destination, size, source)`: no text of a user is modelled.
pub(super) fn read_user_text<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    to: Buffer,
    _from: u64,
) -> Result<Result<u64, Errno>, Fault> {
    caller.room(to.0)?.fill(0);
    Ok(if to.0.size() == 0 { Ok(0) } else { Err(Errno::EFAULT) })
}

/// `bpf_strncmp(first, size, second)`: the sign of the difference at the first unequal byte.
pub(super) fn compare_text<E: Env>(
    caller: &mut Caller<'_, '_, E>,
    first: Bytes,
    second: u64,
) -> Result<i32, Fault> {
    let second = caller.text(second, first.0.size())?;
    let first = caller.bytes(first.0)?;
    let second = second.ok_or_else(|| misuse("bpf_strncmp() compares with no readable text"))?;
    let ended = second.iter().chain(std::iter::once(&0));
    for (a, b) in first.iter().zip(ended) {
        if a != b {
            return Ok(if a < b { -1 } else { 1 });
        }
        if *a == 0 {
            break;
        }
    }
    Ok(0)
}

/// `bpf_get_current_comm(buffer, size)`.
pub(super) fn current_comm<E: Env>(caller: &mut Caller<'_, '_, E>, to: Buffer) -> Result<(), Fault> {
    let comm = caller.env.current_comm();
    let room = caller.room(to.0)?;
    room.fill(0);
    let len = room.len().saturating_sub(1).min(15);
    room[..len].copy_from_slice(&comm[..len]);
    Ok(())
}
