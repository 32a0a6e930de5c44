//! Timers with descriptors (timerfd): event counters of the host that the simulated clock counts up; and watches of files.

use super::time::{EPOCH, span, timespec};
use super::{After, Step};
use crate::bpf::error;
use crate::descriptors::Held;
use crate::files::Found;
use crate::loader::Loader;
use crate::tracee::{Call, Tracee};
use crate::watches::Watches;
use crate::world::Node;
use schedlab_scx::UserGroup;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

/// `TFD_TIMER_ABSTIME`.
const ABSOLUTE: u64 = 1;

/// A timer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// The counter that the loader reads; nothing once it has closed it.
    counter: Option<File>,
    /// The timer counts wall-clock time.
    wall: bool,
    /// When it expires next, by the loader's clock.
    next: Option<u64>,
    /// In nanoseconds; 0 for one that expires once.
    interval: u64,
}

impl Timer {
    pub(crate) fn new(counter: File, clock: u64) -> Timer {
        Timer { counter: Some(counter), wall: clock == libc::CLOCK_REALTIME as u64, next: None, interval: 0 }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
        self.counter = None;
    }

    /// Counts what has expired by now; true if anything has.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        let Some(next) = self.next.filter(|next| *next <= now) else { return false };
        let more = (now - next).checked_div(self.interval).unwrap_or(0);
        self.next =
            (self.interval > 0).then(|| next.saturating_add((more + 1).saturating_mul(self.interval)));
        // A counter that is full has been expired for long, and a write to it would block the command.
        if let Some(counter) = self.counter.as_mut().filter(|counter| is_ready(counter, libc::POLLOUT)) {
            let _ = counter.write(&(more + 1).to_ne_bytes());
        }
        true
    }

    /// Forgets expirations that were not read.
    fn clear(&mut self) {
        if let Some(counter) = self.counter.as_mut().filter(|counter| is_ready(counter, libc::POLLIN)) {
            let _ = counter.read(&mut [0; 8]);
        }
    }
}

/// Whether a read (`POLLIN`) or a write (`POLLOUT`) of `counter` would not block.
fn is_ready(counter: &File, events: i16) -> bool {
    let mut ready = libc::pollfd { fd: counter.as_raw_fd(), events, revents: 0 };
    // SAFETY: one structure, which lives across the call.
    unsafe { libc::poll(&raw mut ready, 1, 0) > 0 && ready.revents & events != 0 }
}

impl Loader {
    /// The earliest deadline of threads and timers.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let timers = self.timers.iter().filter_map(Timer::next);
        timers.chain(self.threads.deadline()).min()
    }

    /// Ends the waits whose deadlines have come.
    pub(crate) fn expire(&mut self) {
        self.threads.expire(self.clock);
        let mut expired = false;
        for timer in &mut self.timers {
            expired |= timer.expire(self.clock);
        }
        if expired {
            self.threads.look_again();
        }
    }

    pub(super) fn timer_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let [first, second, third, fourth, ..] = call.args;
        let counter = |flags: u64, after: After| {
            Step::Replace(Call { nr: libc::SYS_eventfd2, args: [0, flags, 0, 0, 0, 0] }, after)
        };
        Some(match call.nr {
            // The flags are those of eventfd(2).
            libc::SYS_timerfd_create => counter(second, After::Timer(first)),
            libc::SYS_timerfd_settime => self.set_timer(tracee, first as i32, (second, third, fourth)),
            libc::SYS_timerfd_gettime => self.show_timer(tracee, first as i32, second),
            libc::SYS_inotify_init => watches(tracee, 0),
            libc::SYS_inotify_init1 => watches(tracee, first),
            libc::SYS_inotify_add_watch => self.watch_file(tracee, (first as i32, second, third as u32)),
            libc::SYS_inotify_rm_watch => {
                let ended = self.watches(first as i32).is_some_and(|watches| watches.remove(second as i32));
                Step::Value(if ended { 0 } else { error(libc::EINVAL) })
            }
            _ => return None,
        })
    }

    fn timer(&mut self, fd: i32) -> Option<&mut Timer> {
        match self.descriptors.get(fd) {
            Some(Held::Timer(number)) => self.timers.get_mut(*number),
            _ => None,
        }
    }

    fn set_timer(&mut self, tracee: Tracee, fd: i32, (flags, new, old): (u64, u64, u64)) -> Step {
        if old != 0 && !matches!(self.show_timer(tracee, fd, old), Step::Value(0)) {
            return Step::Value(error(libc::EFAULT));
        }
        let (Some(interval), Some(value)) = (span(tracee, new), span(tracee, new.wrapping_add(16))) else {
            return Step::Value(error(libc::EFAULT));
        };
        let now = self.clock;
        let Some(timer) = self.timer(fd) else { return Step::Value(error(libc::EINVAL)) };
        timer.clear();
        timer.interval = interval;
        timer.next = match (value, flags & ABSOLUTE != 0) {
            (0, _) => None,
            (value, false) => Some(now.saturating_add(value)),
            (value, true) if timer.wall => Some(value.saturating_sub(EPOCH)),
            (value, true) => Some(value),
        };
        if timer.expire(now) {
            self.threads.look_again();
        }
        Step::Value(0)
    }

    fn show_timer(&mut self, tracee: Tracee, fd: i32, at: u64) -> Step {
        let now = self.clock;
        let Some(timer) = self.timer(fd) else { return Step::Value(error(libc::EINVAL)) };
        let left = timer.next.map_or(0, |next| next.saturating_sub(now));
        let shown = [timespec(timer.interval), timespec(left)].concat();
        Step::Value(tracee.write(at, &shown).map_or(error(libc::EFAULT), |()| 0))
    }

    fn watches(&mut self, fd: i32) -> Option<&mut Watches> {
        match self.descriptors.get(fd) {
            Some(Held::Watches(number)) => self.watches.get_mut(*number),
            _ => None,
        }
    }

    fn watch_file(&mut self, tracee: Tracee, (fd, path, mask): (i32, u64, u32)) -> Step {
        let Some(text) = tracee.text(path) else { return Step::Value(error(libc::EFAULT)) };
        let path = self.files.normal(&text, None);
        let found = self.files.find(&path, self.clock);
        let Some(watches) = self.watches(fd) else { return Step::Value(error(libc::EINVAL)) };
        Step::Value(match found {
            Found::Nothing(errno) => error(errno),
            Found::World(Node::File(_)) if mask & libc::IN_ONLYDIR != 0 => error(libc::ENOTDIR),
            _ => i64::from(watches.add(&path, mask)),
        })
    }

    /// The groups are these from now on: watches of their folders report what has changed.
    pub(crate) fn set_groups(&mut self, groups: Vec<UserGroup>) {
        let changes = self.files.world.groups.set(groups);
        for change in &changes {
            self.watches.iter_mut().for_each(|watches| watches.note(change));
        }
    }

    /// Hands reports of watches over; true if the loader has something new to read.
    pub(crate) fn deliver_reports(&mut self) -> bool {
        let took = |any: bool, watches: &mut Watches| watches.deliver() || any;
        self.watches.iter_mut().fold(false, took)
    }
}

/// A pair of sockets in the place of an instance of inotify, whose flags have the same numbers.
fn watches(tracee: Tracee, flags: u64) -> Step {
    let Some(place) = tracee.scratch(&[0; 8]) else { return Step::Value(error(libc::EFAULT)) };
    let kind = libc::SOCK_SEQPACKET as u64 | flags & (libc::IN_NONBLOCK | libc::IN_CLOEXEC) as u64;
    let args = [libc::AF_UNIX as u64, kind, 0, place, 0, 0];
    Step::Replace(Call { nr: libc::SYS_socketpair, args }, After::Watches(place))
}
