//! Calls about the process, its threads and the machine.

use super::time::timespec;
use super::{After, Step};
use crate::bpf::error;
use crate::descriptors::Held;
use crate::loader::Loader;
use crate::threads::Wait;
use crate::tracee::{Call, Tracee};
use crate::world::{MEMORY_KIB, RELEASE};
use schedlab_base::Policy;
use schedlab_bpf::memory::ARENA_BASE;
use schedlab_sandbox::passed;
use schedlab_scx::USER_SPACE_PID;

/// The number that the loader has for itself, and its threads from there on.
pub(super) const OWN: i64 = USER_SPACE_PID as i64;

/// Calls that concern the process alone; the host carries them out.
const OWN_AFFAIRS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_set_robust_list,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_arch_prctl,
    libc::SYS_getcwd,
    libc::SYS_msync,
];

/// What membarrier(2) says that there is: global, expedited in three ways, and their registrations.
const MEMBARRIERS: i64 = 0x7f;

/// Calls that ask for what the simulated machine does not have to do: they succeed.
const GRANTED: &[i64] = &[
    libc::SYS_sched_setparam,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_setrlimit,
    libc::SYS_capset,
    libc::SYS_umask,
    // A filter of its own system calls: none is left out that it does not make.
    libc::SYS_seccomp,
    // The loader is root on the simulated machine.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getpgrp,
    libc::SYS_setsid,
    libc::SYS_sched_getscheduler,
];

/// Calls that begin another process.
const PROCESSES: &[i64] = &[libc::SYS_fork, libc::SYS_vfork, libc::SYS_execve, libc::SYS_execveat];

fn written(done: Option<()>) -> Step {
    Step::Value(if done.is_some() { 0 } else { error(libc::EFAULT) })
}

impl Loader {
    pub(super) fn process_call(&mut self, number: usize, call: &Call) -> Option<Step> {
        let tracee = self.threads.all[number].tracee;
        let [first, second, third, ..] = call.args;
        Some(match call.nr {
            nr if OWN_AFFAIRS.contains(&nr) && passed::allows(nr, &call.args) => Step::Pass(After::Nothing),
            nr if OWN_AFFAIRS.contains(&nr) => {
                self.refuse(&format!("call {nr} with an argument that is not left to the host"), libc::EINVAL)
            }
            libc::SYS_sched_setscheduler => self.set_policy(first, second),
            // `sched_policy` follows the size.
            libc::SYS_sched_setattr => {
                self.set_policy(first, tracee.number::<4>(second.wrapping_add(4)).unwrap_or(0))
            }
            nr if GRANTED.contains(&nr) => Step::Value(0),
            nr if PROCESSES.contains(&nr) => self.refuse("another process", libc::EPERM),
            libc::SYS_mmap => self.map_memory(call),
            // Its threads run one at a time, and no program while they run.
            libc::SYS_membarrier => Step::Value(if first == 0 { MEMBARRIERS } else { 0 }),
            libc::SYS_clone => self.new_thread(first),
            libc::SYS_clone3 => self.new_thread(tracee.number::<8>(first).unwrap_or(0)),
            libc::SYS_exit_group => Step::End(first as i32),
            libc::SYS_exit if number == 0 => Step::Wait { what: Wait::Time, until: None, expired: 0 },
            libc::SYS_exit => Step::Pass(After::Nothing),
            libc::SYS_getpid => Step::Value(OWN),
            libc::SYS_getppid => Step::Value(1),
            libc::SYS_gettid => Step::Value(OWN + number as i64),
            libc::SYS_set_tid_address => Step::Pass(After::Value(OWN + number as i64)),
            libc::SYS_kill => self.signal(first as i64, second),
            libc::SYS_tkill => self.signal(first as i64, second),
            libc::SYS_tgkill => self.signal(second as i64, third),
            libc::SYS_wait4 | libc::SYS_waitid => Step::Value(error(libc::ECHILD)),
            libc::SYS_pause | libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend => {
                Step::Wait { what: Wait::Time, until: None, expired: error(libc::EINTR) }
            }
            libc::SYS_sched_yield => Step::Yield,
            libc::SYS_prlimit64 => {
                Step::Replace(Call { nr: call.nr, args: [0, second, 0, call.args[3], 0, 0] }, After::Nothing)
            }
            libc::SYS_getrlimit => Step::Pass(After::Nothing),
            libc::SYS_prctl => prctl(first),
            libc::SYS_getpriority => Step::Value(20),
            libc::SYS_getrandom => self.random(tracee, first, second),
            libc::SYS_perf_event_open => {
                self.refused.note("perf events (there are no counters, as on a virtual machine)");
                Step::Value(error(libc::ENOENT))
            }
            _ => return self.machine_call(tracee, call),
        })
    }

    /// Questions about the machine.
    fn machine_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let [first, second, ..] = call.args;
        Some(match call.nr {
            libc::SYS_uname => {
                let mut names = [0u8; 6 * 65];
                let texts = ["Linux", "schedlab", RELEASE, "#1 SMP PREEMPT", "x86_64", "(none)"];
                for (at, text) in texts.iter().enumerate() {
                    names[at * 65..at * 65 + text.len()].copy_from_slice(text.as_bytes());
                }
                written(tracee.write(first, &names))
            }
            libc::SYS_sysinfo => {
                let mut info = [0u8; 112];
                info[0..8].copy_from_slice(&(self.clock / 1_000_000_000).to_le_bytes());
                for at in [32, 40] {
                    info[at..at + 8].copy_from_slice(&(MEMORY_KIB * 1024).to_le_bytes());
                }
                info[80..82].copy_from_slice(&1u16.to_le_bytes());
                info[104..108].copy_from_slice(&1u32.to_le_bytes());
                written(tracee.write(first, &info))
            }
            libc::SYS_getrusage => written(tracee.write(second, &[0; 144])),
            libc::SYS_sched_getparam => written(tracee.write(second, &[0; 4])),
            libc::SYS_sched_getattr => self.attributes(tracee, call),
            libc::SYS_sched_get_priority_max | libc::SYS_sched_get_priority_min => match first {
                1 | 2 => Step::Value(if call.nr == libc::SYS_sched_get_priority_max { 99 } else { 1 }),
                0 | 3 | 5..=7 => Step::Value(0),
                _ => Step::Value(error(libc::EINVAL)),
            },
            // Whole ticks of its slice (`get_rr_interval_fair()`).
            libc::SYS_sched_rr_get_interval => {
                written(tracee.write(second, &timespec(self.slice / self.tick * self.tick)))
            }
            libc::SYS_capget if second == 0 => Step::Value(0),
            libc::SYS_capget => written(tracee.write(second, &[0xff; 24])),
            _ => return self.placement_call(tracee, call),
        })
    }

    pub(super) fn refuse(&mut self, what: &str, errno: i32) -> Step {
        self.refused.note(what);
        Step::Value(error(errno))
    }

    /// `sched_getattr()` of the task itself (`kernel/sched/syscalls.c`, Linux 7.3): `struct sched_attr` as far as the caller has room,
    /// and zeros behind it.
    fn attributes(&self, tracee: Tracee, call: &Call) -> Step {
        /// Bytes of its first version, of the one with clamps of utilisation, and of a page.
        const FIRST: u64 = 48;
        const WHOLE: u64 = 56;
        const PAGE: u64 = 4096;
        let [_, place, room, flags, ..] = call.args;
        if place == 0 || !(FIRST..=PAGE).contains(&room) || flags != 0 {
            return Step::Value(error(libc::EINVAL));
        }
        let policy: u32 = if self.policy == Policy::Ext { 7 } else { 0 };
        let mut bytes = vec![0u8; room.max(WHOLE) as usize];
        for (at, value) in [(0, room.min(WHOLE) as u32), (4, policy), (52, 1024)] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.slice.to_le_bytes());
        written(tracee.write(place, &bytes[..room as usize]))
    }

    /// A policy for itself, which its task has when the run begins: only `SCHED_EXT` makes a difference.
    fn set_policy(&mut self, pid: u64, policy: u64) -> Step {
        /// `SCHED_EXT`.
        const EXT: u64 = 7;
        if (pid == 0 || pid as i64 == OWN) && !self.bpf.attached {
            self.policy = if policy == EXT { Policy::Ext } else { Policy::Other };
        }
        Step::Value(0)
    }

    fn new_thread(&mut self, flags: u64) -> Step {
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_FILES) as u64;
        if flags & thread != thread || flags & libc::CLONE_UNTRACED as u64 != 0 {
            return self.refuse("another process", libc::EPERM);
        }
        if self.threads.all.len() >= crate::loader::MOST_THREADS {
            return self.refuse("more threads than there may be", libc::EAGAIN);
        }
        Step::Pass(After::Nothing)
    }

    /// A signal to itself, by the numbers that it knows or that the host's kernel has put into its memory.
    fn signal(&mut self, to: i64, signal: u64) -> Step {
        let own = usize::try_from(to - OWN).ok().and_then(|number| self.threads.all.get(number));
        let by_host = self.threads.all.iter().find(|thread| i64::from(thread.tracee.0) == to);
        let Some(thread) = own.or(by_host).or(if to == 0 { self.threads.all.first() } else { None }) else {
            return self.refuse("a signal to another process", libc::EPERM);
        };
        let (process, tid) = (self.process() as u64, thread.tracee.0 as u64);
        Step::Replace(Call { nr: libc::SYS_tgkill, args: [process, tid, signal, 0, 0, 0] }, After::Nothing)
    }

    fn random(&mut self, tracee: Tracee, addr: u64, len: u64) -> Step {
        let bytes = self.random_bytes(len.min(1 << 16) as usize);
        match tracee.write(addr, &bytes) {
            Some(()) => Step::Value(bytes.len() as i64),
            None => Step::Value(error(libc::EFAULT)),
        }
    }

    /// Memory of maps lies where the simulated programs have it: the arena's addresses are in its pointers.
    fn map_memory(&mut self, call: &Call) -> Step {
        let mut args = call.args;
        let fd = args[4] as i32;
        // There is no process to share it with, and what is private is limited. Stacks (MAP_GROWSDOWN) and shared pages of a
        // device (/dev/zero) are in no limit. What the host's files hold is only read.
        let private = |flags: u64| {
            let others = libc::MAP_SHARED | libc::MAP_PRIVATE | libc::MAP_GROWSDOWN;
            flags & !(others as u64) | libc::MAP_PRIVATE as u64
        };
        if args[3] & libc::MAP_ANONYMOUS as u64 != 0 || self.descriptors.get(fd).is_none() {
            args[3] = private(args[3]);
            return Step::Replace(Call { nr: call.nr, args }, After::Nothing);
        }
        let number = match self.descriptors.get(fd) {
            Some(Held::Bpf(number)) => number,
            Some(Held::File { .. }) => return self.map_file(call),
            _ => return Step::Pass(After::Nothing),
        };
        let Some(map) = self.bpf.map(*number).filter(|map| map.memory.is_some()) else {
            return Step::Value(error(libc::ENODEV));
        };
        if map.frozen && args[2] & libc::PROT_WRITE as u64 != 0 {
            return Step::Value(error(libc::EPERM));
        }
        if map.kind == crate::bpf::kind::ARENA {
            args[0] = ARENA_BASE;
            args[3] |= libc::MAP_FIXED as u64;
            return Step::Replace(Call { nr: call.nr, args }, After::Nothing);
        }
        Step::Pass(After::Nothing)
    }
}

/// Bytes of files of the simulated machine that a loader may map in its life. Chosen: a few hundred times what they have.
const MOST_MAPPED: u64 = 512 << 20;

impl Loader {
    /// Maps a file of the simulated machine, which lives as long as it is mapped.
    fn map_file(&mut self, call: &Call) -> Step {
        self.mapped = self.mapped.saturating_add(call.args[1]);
        match self.mapped > MOST_MAPPED {
            true => self.refuse("more mapped files than there may be", libc::ENOMEM),
            false => Step::Pass(After::Nothing),
        }
    }
}

fn prctl(option: u64) -> Step {
    /// `PR_SET_VMA`, which names memory.
    const SET_VMA: i32 = 0x5356_4d41;
    match option as i32 {
        libc::PR_SET_NAME | libc::PR_GET_NAME | SET_VMA => Step::Pass(After::Nothing),
        libc::PR_CAPBSET_READ => Step::Value(1),
        libc::PR_SET_PDEATHSIG
        | libc::PR_SET_DUMPABLE
        | libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_SET_SECCOMP
        | libc::PR_SET_TIMERSLACK => Step::Value(0),
        _ => Step::Value(error(libc::EINVAL)),
    }
}
