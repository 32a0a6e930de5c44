//! Tasks of other users. They keep the rights of root: what they do stands in the workload, and only who they are is another's.

use std::io;

use schedlab_workload::TaskSpec;

use super::ExecError;

/// `SECBIT_NO_SETUID_FIXUP`: a change of the user takes no capability away.
const KEEP_ALL: libc::c_ulong = 1 << 2;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// A real run can have this task.
pub(super) fn check(task: &TaskSpec) -> Result<(), ExecError> {
    // SAFETY: plain system call.
    if (task.identity.uid, task.identity.gid) != (0, 0) && unsafe { libc::geteuid() } != 0 {
        let what = "a uid or gid takes root; run as root or in the VM (--vm), or leave both out";
        return Err(ExecError::NotPossible { task: task.name.clone(), what });
    }
    Ok(())
}

/// Makes the calling thread one of this user and group, if they are not root's.
pub(super) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    if (uid, gid) == (0, 0) {
        return Ok(());
    }
    let mut signal: libc::c_int = 0;
    // SAFETY: writes one number; the others are numbers. The plain system calls change this thread alone, unlike the C library's.
    unsafe {
        checked(libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal).into())?;
        checked(libc::prctl(libc::PR_SET_SECUREBITS, KEEP_ALL).into())?;
        keep_over_exec()?;
        checked(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        checked(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        checked(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        // A change of the user forgets it.
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, signal).into())?;
    }
    Ok(())
}

/// Makes all capabilities of this thread ambient ones, which another image of its process has too.
fn keep_over_exec() -> io::Result<()> {
    let header = [CAPABILITY_VERSION, 0];
    // Twice: effective, permitted, inheritable.
    let mut sets = [0u32; 6];
    // SAFETY: reads two words, writes six.
    checked(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) })?;
    (sets[2], sets[5]) = (sets[1], sets[4]);
    // SAFETY: reads two words, and six.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })?;
    let permitted = u64::from(sets[4]) << 32 | u64::from(sets[1]);
    for capability in (0..64).filter(|number| permitted >> number & 1 == 1) {
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        // SAFETY: numbers alone.
        let raised = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, capability as libc::c_ulong, 0, 0) };
        checked(raised.into())?;
    }
    Ok(())
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
