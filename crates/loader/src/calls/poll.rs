//! poll(2) on descriptors of bpf(2): they are files in memory here, which the host would always call ready.

use super::Step;
use crate::bpf::error;
use crate::descriptors::Held;
use crate::loader::Loader;
use crate::threads::Wait;
use crate::tracee::Tracee;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of `struct pollfd`: descriptor, events wanted, events found.
const ENTRY: usize = 8;
/// Descriptors of a call that is decided here. Chosen: beyond it the host decides.
const MOST: u64 = 1024;

impl Loader {
    /// Decides about a poll(2) that asks for something of bpf(2); nothing for another one, which the host carries out.
    pub(super) fn poll(&self, tracee: Tracee, at: u64, count: u64, until: Option<u64>) -> Option<Step> {
        let bytes = tracee.read(at, usize::try_from(count.min(MOST)).ok()? * ENTRY)?;
        let mut entries: Vec<libc::pollfd> = bytes.chunks_exact(ENTRY).map(entry).collect();
        if !entries.iter().any(|entry| matches!(self.descriptors.get(entry.fd), Some(Held::Bpf(_)))) {
            return None;
        }
        let mut found = 0;
        for (number, entry) in entries.iter_mut().enumerate() {
            entry.revents = self.ready(tracee, entry);
            found += i64::from(entry.revents != 0);
            let place = at + (number * ENTRY) as u64 + 6;
            if tracee.write(place, &entry.revents.to_le_bytes()).is_none() {
                return Some(Step::Value(error(libc::EFAULT)));
            }
        }
        let ended = until.is_some_and(|until| until <= self.clock);
        Some(if found > 0 || ended {
            Step::Value(found)
        } else {
            Step::Wait { what: Wait::Ready, until, expired: 0 }
        })
    }

    /// What of the events that are wanted of a descriptor there is.
    fn ready(&self, tracee: Tracee, entry: &libc::pollfd) -> i16 {
        match self.descriptors.get(entry.fd) {
            _ if entry.fd < 0 => 0,
            Some(Held::Bpf(number)) => match self.bpf.map(*number) {
                Some(map) if crate::rings::has_records(map) => entry.events & libc::POLLIN,
                Some(map) if map.kind == crate::bpf::kind::RINGBUF => 0,
                Some(map) if map.kind == crate::bpf::kind::USER_RINGBUF => entry.events & libc::POLLOUT,
                // The kernel has nothing to wait for.
                Some(_) => libc::POLLERR,
                None => entry.events & (libc::POLLIN | libc::POLLOUT),
            },
            _ => match tracee.take_descriptor(self.process(), entry.fd) {
                Ok(own) => at_host(&own, entry.events),
                Err(_) => libc::POLLNVAL,
            },
        }
    }
}

fn entry(bytes: &[u8]) -> libc::pollfd {
    let word = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let fd = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    libc::pollfd { fd, events: word(4), revents: 0 }
}

/// The events of a descriptor that the host knows about.
fn at_host(own: &OwnedFd, events: i16) -> i16 {
    let mut one = libc::pollfd { fd: own.as_raw_fd(), events, revents: 0 };
    // SAFETY: one structure, which lives across the call.
    if unsafe { libc::poll(&raw mut one, 1, 0) } > 0 { one.revents } else { 0 }
}
