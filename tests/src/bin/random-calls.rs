//! A scheduler's loader that makes random system calls, for `exec:` in tests: `random-calls OBJECT SEED CALLS FOLDER PID`.
//!
//! Arguments are numbers, flags, descriptors, the process PID and its relations, and buffers that name files and the socket in
//! FOLDER, which no call may reach. Calls that would harm the machine of a guard with a hole are left out, and those that only end
//! or stop this program. It writes how many calls it has made.

#![cfg(target_arch = "x86_64")]

use std::ffi::CString;

/// The highest number of a call that is tried, and some more; Linux 7.3 has 471.
const NUMBERS: u64 = 480;

/// Calls between two lines of output.
const LINE: u64 = 50;

/// Calls that end or stop the program or take its memory away, and those that wait for something that never comes.
const OWN: [i64; 41] = [
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_pause,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_mmap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_arch_prctl,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    449, // futex_waitv
    455, // futex_wait
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_alarm,
    libc::SYS_setitimer,
];

/// Calls on the whole machine.
const OF_MACHINE: [i64; 22] = [
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_vhangup,
    libc::SYS_sync,
    libc::SYS_syslog,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
];

/// Calls that send a signal: the probe, and the one that changes nothing of a process that runs.
const SIGNALS: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("SEED CALLS FOLDER PID");
    let (seed, calls, folder, pid) = (number(0), number(1), &arguments[2], number(3));
    let names = ["file", "new", "socket", "link", "folder/file", ""].map(|name| format!("{folder}/{name}"));
    let mut buffers: Vec<Vec<u8>> = names.iter().map(|name| text(name)).collect();
    buffers.push(text(&format!("/proc/{pid}/mem")));
    // An address of the socket, a path behind a family.
    buffers.push([&(libc::AF_UNIX as u16).to_ne_bytes()[..], &text(&names[2])].concat());
    buffers.push(vec![0; 4096]);
    buffers.push(vec![0xff; 4096]);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| {
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 31) % below
    };
    for made in 1..=calls {
        let call = loop {
            let call = next(NUMBERS) as i64;
            if !OWN.contains(&call) && !OF_MACHINE.contains(&call) {
                break call;
            }
        };
        let mut args: [u64; 6] = std::array::from_fn(|_| match next(8) {
            0 => next(24),
            1 => 1 << next(32),
            2 => next(3).wrapping_sub(2),
            3 => pid,
            4 => u64::from(std::os::unix::process::parent_id()),
            _ => {
                let at = next(buffers.len() as u64) as usize;
                buffers[at].as_mut_ptr() as u64
            }
        });
        if SIGNALS.contains(&call) {
            let harmless = if next(2) == 0 { 0 } else { libc::SIGCONT as u64 };
            args[1..3].fill(harmless);
        }
        // SAFETY: the kernel checks what is an address; what it writes goes into buffers, or fails.
        unsafe { libc::syscall(call, args[0], args[1], args[2], args[3], args[4], args[5]) };
        if made % LINE == 0 {
            let line = format!("made {LINE}\n");
            // SAFETY: the line lives until the call returns.
            unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
        }
    }
}

/// A text with its zero, and room behind it for what a call may write there.
fn text(name: &str) -> Vec<u8> {
    let mut bytes = CString::new(name).expect("no zero is in it").into_bytes_with_nul();
    bytes.resize(4096, 0);
    bytes
}
