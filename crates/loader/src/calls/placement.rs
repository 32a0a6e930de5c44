//! Where the loader's task runs: the CPUs that it may use, and the one that it is on.
//!
//! All threads are one task, so an affinity is that of the task, whichever thread asks for it.

use super::Step;
use super::process::OWN;
use crate::bpf::error;
use crate::loader::Loader;
use crate::tracee::{Call, Tracee};
use schedlab_base::{CpuId, CpuMask, MAX_CPUS};

impl Loader {
    pub(super) fn placement_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let [first, second, third, ..] = call.args;
        Some(match call.nr {
            libc::SYS_sched_setaffinity | libc::SYS_sched_getaffinity if !self.is_own(first) => {
                Step::Value(error(libc::ESRCH))
            }
            libc::SYS_sched_setaffinity => self.set_affinity(tracee, second, third),
            libc::SYS_sched_getaffinity => self.tell_affinity(tracee, second, third),
            libc::SYS_getcpu => {
                let cpu = self.cpu.0.to_le_bytes();
                let node = self.nodes[self.cpu.index()].to_le_bytes();
                let give = |addr: u64, value: [u8; 4]| {
                    if addr == 0 { Some(()) } else { tracee.write(addr, &value) }
                };
                let done = give(first, cpu).and_then(|()| give(second, node));
                Step::Value(if done.is_some() { 0 } else { error(libc::EFAULT) })
            }
            // The C library would read the host's CPU in the memory that it registers; without it, it asks `getcpu`.
            libc::SYS_rseq => Step::Value(error(libc::ENOSYS)),
            _ => return None,
        })
    }

    /// True for the loader's process and threads, by the numbers that it knows.
    fn is_own(&self, pid: u64) -> bool {
        let number = (pid as i32 as i64).wrapping_sub(OWN);
        pid as i32 == 0 || usize::try_from(number).is_ok_and(|number| number < self.threads.all.len())
    }

    /// Takes effect when the next turn begins, which the next call does.
    fn set_affinity(&mut self, tracee: Tracee, len: u64, addr: u64) -> Step {
        let Some(bytes) = tracee.read(addr, (len as usize).min(MAX_CPUS / 8)) else {
            return Step::Value(error(libc::EFAULT));
        };
        let mut mask = CpuMask::EMPTY;
        for cpu in
            (0..self.nodes.len()).filter(|cpu| bytes.get(cpu / 8).is_some_and(|b| b >> (cpu % 8) & 1 != 0))
        {
            mask.set(CpuId(cpu as u32));
        }
        let Some(lowest) = mask.lowest() else { return Step::Value(error(libc::EINVAL)) };
        if self.bpf.attached {
            (self.moves, self.last_step) = (true, self.steps);
        } else if !mask.contains(self.cpu) {
            self.cpu = lowest;
        }
        self.affinity = mask;
        Step::Value(0)
    }

    fn tell_affinity(&self, tracee: Tracee, len: u64, addr: u64) -> Step {
        let size = self.nodes.len().div_ceil(64) * 8;
        if (len as usize) < size {
            return Step::Value(error(libc::EINVAL));
        }
        let words = self.affinity.words().iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = words.take(size).collect();
        Step::Value(tracee.write(addr, &bytes).map_or(error(libc::EFAULT), |()| size as i64))
    }
}
