//! Helpers that copy memory which may not be there, and text.

use super::Env;
use super::format::text;
use crate::engine::Vm;
use crate::fault::{Access, Fault};
use crate::maps::Errno;
use crate::memory::GuestAddr;

/// Reads of user memory.
const USER_READS: [u32; 4] = [112, 114, 148, 191];

/// `bpf_probe_read_kernel(destination, size, source)` and its kin: what cannot be read becomes zeros and `EFAULT`.
pub(super) fn read<E: Env>(id: u32, args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let (to, size, from) = (GuestAddr(args[0]), args[1] & 0xffff_ffff, GuestAddr(args[2]));
    if size == 0 {
        return Ok(0);
    }
    vm.mem.check_program_access(to, size, Access::Write)?;
    let user = USER_READS.contains(&id);
    let bytes = if user {
        env.read_user(from.0, size as usize)
    } else {
        vm.mem.slice(from, size).ok().map(<[u8]>::to_vec)
    };
    match bytes {
        Some(bytes) => vm.mem.write(to, &bytes).map(|()| 0),
        None => {
            vm.mem.slice_mut(to, size)?.fill(0);
            Ok(Errno::EFAULT.to_r0())
        }
    }
}

/// `bpf_probe_read_kernel_str(destination, size, source)`: bytes copied with the closing zero.
pub(super) fn read_text(id: u32, args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let (to, size, from) = (GuestAddr(args[0]), args[1] & 0xffff_ffff, GuestAddr(args[2]));
    if size == 0 {
        return Ok(0);
    }
    vm.mem.check_program_access(to, size, Access::Write)?;
    let found = if USER_READS.contains(&id) { None } else { text(from, size - 1, vm.mem) };
    let Some(mut bytes) = found else {
        vm.mem.slice_mut(to, size)?.fill(0);
        return Ok(Errno::EFAULT.to_r0());
    };
    bytes.push(0);
    vm.mem.write(to, &bytes)?;
    Ok(bytes.len() as u64)
}

/// `bpf_strncmp(first, size, second)`: the sign of the difference at the first unequal byte.
pub(super) fn compare_text(args: &[u64; 5], vm: &mut Vm<'_>) -> Result<u64, Fault> {
    let [first, size, second, ..] = *args;
    for at in 0..size & 0xffff_ffff {
        let a = vm.mem.read_u8(GuestAddr(first.wrapping_add(at)))?;
        let b = vm.mem.read_u8(GuestAddr(second.wrapping_add(at)))?;
        if a != b {
            return Ok(if a < b { u64::MAX } else { 1 });
        }
        if a == 0 {
            break;
        }
    }
    Ok(0)
}

/// `bpf_get_current_comm(buffer, size)`.
pub(super) fn current_comm<E: Env>(args: &[u64; 5], vm: &mut Vm<'_>, env: &mut E) -> Result<u64, Fault> {
    let (to, size) = (GuestAddr(args[0]), args[1] & 0xffff_ffff);
    vm.mem.check_program_access(to, size, Access::Write)?;
    let comm = env.current_comm();
    let place = vm.mem.slice_mut(to, size)?;
    place.fill(0);
    let len = place.len().saturating_sub(1).min(15);
    place[..len].copy_from_slice(&comm[..len]);
    Ok(0)
}
