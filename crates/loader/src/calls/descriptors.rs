//! Calls on descriptors: reading, waiting for them, and sockets that lead nowhere.

use super::time::{SECOND, span};
use super::{After, Step};
use crate::bpf::error;
use crate::descriptors::Held;
use crate::loader::Loader;
use crate::threads::Wait;
use crate::tracee::{Call, Tracee};
use schedlab_sandbox::passed;
use std::os::fd::AsRawFd;

/// Calls that read or write and may block; whether they write.
const TRANSFERS: &[(i64, bool)] = &[
    (libc::SYS_read, false),
    (libc::SYS_readv, false),
    (libc::SYS_pread64, false),
    (libc::SYS_recvfrom, false),
    (libc::SYS_recvmsg, false),
    (libc::SYS_write, true),
    (libc::SYS_writev, true),
    (libc::SYS_pwrite64, true),
    (libc::SYS_sendto, true),
    (libc::SYS_sendmsg, true),
];

/// Calls on sockets that nobody ever reaches: they succeed.
const SOCKET_AFFAIRS: &[i64] = &[libc::SYS_bind, libc::SYS_listen, libc::SYS_setsockopt, libc::SYS_shutdown];

/// Whether a message carries more than its text, such as descriptors.
fn passes_descriptors(tracee: Tracee, message: u64) -> bool {
    // `msg_controllen` of `struct msghdr`.
    tracee.number::<8>(message.wrapping_add(40)) != Some(0)
}

/// Whether a message has an address: it would leave the pair of sockets that it is sent through.
fn is_addressed(tracee: Tracee, call: &Call) -> bool {
    match call.nr {
        // `msg_name` of `struct msghdr`.
        libc::SYS_sendmsg => tracee.number::<8>(call.args[1]) != Some(0),
        nr => !passed::allows(nr, &call.args),
    }
}

impl Loader {
    pub(super) fn descriptor_call(&mut self, number: usize, call: &Call) -> Option<Step> {
        let tracee = self.threads.all[number].tracee;
        let [first, second, third, ..] = call.args;
        let fd = first as i32;
        if call.nr == libc::SYS_sendmsg && passes_descriptors(tracee, second) {
            return Some(self.refuse("descriptors sent through a socket", libc::EPERM));
        }
        if is_addressed(tracee, call) {
            return Some(self.refuse("messages with an address", libc::EPERM));
        }
        if let Some((_, writes)) = TRANSFERS.iter().find(|(nr, _)| *nr == call.nr) {
            if *writes {
                self.output.make_room();
            }
            return Some(self.transfer(number, fd, *writes));
        }
        Some(match call.nr {
            libc::SYS_close => {
                self.close(fd);
                Step::Pass(After::Nothing)
            }
            // They are closed when it starts another program, which it never does.
            libc::SYS_close_range if third as u32 == libc::CLOSE_RANGE_CLOEXEC => Step::Value(0),
            // Its threads have one table of descriptors.
            libc::SYS_close_range if third as u32 != 0 => Step::Value(error(libc::EINVAL)),
            libc::SYS_close_range => {
                self.descriptors.close_range(first as u32, second as u32);
                Step::Pass(After::Nothing)
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => Step::Pass(After::Copy(fd)),
            libc::SYS_fcntl => match second as i32 {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Step::Pass(After::Copy(fd)),
                libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_SETFL => Step::Pass(After::Nothing),
                _ => Step::Value(error(libc::EINVAL)),
            },
            libc::SYS_ioctl => self.control(fd, second),
            libc::SYS_fstat => self.stat_descriptor(tracee, fd, second),
            libc::SYS_getdents64 => self.list(tracee, fd, second, third),
            libc::SYS_lseek => Step::Pass(After::Nothing),
            libc::SYS_fstatfs | libc::SYS_flock | libc::SYS_fsync | libc::SYS_fchmod => Step::Value(0),
            libc::SYS_ftruncate => match self.descriptors.get(fd) {
                Some(Held::Memory) => self.refuse("memory in files (memfd)", libc::ENOSPC),
                _ => Step::Value(error(libc::EINVAL)),
            },
            libc::SYS_memfd_create => Step::Pass(After::Hold(Held::Memory)),
            libc::SYS_pipe | libc::SYS_pipe2 => Step::Pass(After::Pair(first)),
            libc::SYS_eventfd | libc::SYS_eventfd2 | libc::SYS_signalfd | libc::SYS_signalfd4 => {
                Step::Pass(After::Hold(Held::Waitable))
            }
            libc::SYS_epoll_create | libc::SYS_epoll_create1 => {
                Step::Pass(After::Hold(Held::Set(Vec::new())))
            }
            libc::SYS_epoll_ctl => self.change_set(tracee, call),
            _ => {
                return self
                    .waiting_call(number, call)
                    .or_else(|| self.timer_call(tracee, call))
                    .or_else(|| self.socket_call(tracee, call));
            }
        })
    }

    /// The last descriptor of an attached scheduler's link takes the scheduler with it.
    pub(super) fn close(&mut self, fd: i32) {
        let Some(held) = self.descriptors.get(fd).cloned() else { return };
        self.descriptors.set(fd, None);
        if self.descriptors.hold(&held) {
            return;
        }
        match held {
            Held::Bpf(number) if self.bpf.is_scheduler_link(number) && !self.bpf.is_pinned(number) => {
                self.bpf.detached = self.bpf.attached;
            }
            Held::Timer(number) => self.timers[number].stop(),
            Held::Watches(number) => self.watches[number].stop(),
            _ => {}
        }
    }

    /// Reading or writing: what belongs to the simulated machine is read only, and what may block is looked at
    /// first.
    fn transfer(&mut self, number: usize, fd: i32, writes: bool) -> Step {
        let tracee = self.threads.all[number].tracee;
        match self.descriptors.get(fd) {
            None => Step::Pass(After::Nothing),
            Some(Held::File { .. }) if !writes => Step::Pass(After::Nothing),
            // A counter of the host stands for the timer, and the kernel's timers take no writes. A full one would block the command.
            Some(Held::Timer(_)) if writes => Step::Value(error(libc::EINVAL)),
            Some(Held::Watches(_)) if writes => Step::Value(error(libc::EBADF)),
            Some(Held::Waitable | Held::Timer(_) | Held::Watches(_)) => {
                if std::mem::take(&mut self.threads.all[number].looked) || self.never_waits(tracee, fd) {
                    return Step::Pass(After::Nothing);
                }
                let events = if writes { libc::POLLOUT } else { libc::POLLIN };
                let wanted = [fd.to_le_bytes().as_slice(), &events.to_le_bytes(), &[0; 2]].concat();
                match tracee.scratch(&wanted) {
                    Some(at) => {
                        Step::Replace(Call { nr: libc::SYS_poll, args: [at, 1, 0, 0, 0, 0] }, After::Looked)
                    }
                    None => Step::Value(error(libc::EFAULT)),
                }
            }
            Some(Held::Memory) if writes => self.refuse("memory in files (memfd)", libc::ENOSPC),
            Some(Held::Memory) => Step::Pass(After::Nothing),
            Some(Held::Folder { .. }) => Step::Value(error(libc::EISDIR)),
            Some(_) => Step::Value(error(libc::EINVAL)),
        }
    }

    fn never_waits(&self, tracee: Tracee, fd: i32) -> bool {
        let Ok(own) = tracee.take_descriptor(self.process(), fd) else { return true };
        // SAFETY: numbers only.
        let flags = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK != 0
    }

    fn control(&mut self, fd: i32, request: u64) -> Step {
        match self.descriptors.get(fd) {
            Some(Held::Waitable | Held::Timer(_) | Held::Watches(_)) if request == libc::FIONBIO => {
                Step::Pass(After::Nothing)
            }
            _ => Step::Value(error(libc::ENOTTY)),
        }
    }

    /// Descriptors of maps are files in memory here, which a set does not take: it is remembered that they are in it.
    fn change_set(&mut self, tracee: Tracee, call: &Call) -> Step {
        let [set, op, fd, event, ..] = call.args;
        let (set, fd) = (set as i32, fd as i32);
        if !matches!(self.descriptors.get(fd), Some(Held::Bpf(_))) {
            return Step::Pass(After::Nothing);
        }
        let entry = (tracee.number::<4>(event), tracee.number::<8>(event.wrapping_add(4)));
        let Some(Held::Set(members)) = self.descriptors.get_mut(set) else {
            return Step::Value(error(libc::EINVAL));
        };
        members.retain(|(member, ..)| *member != fd);
        if let ((Some(events), Some(data)), true) = (entry, op as i32 != libc::EPOLL_CTL_DEL) {
            members.push((fd, events as u32, data));
        }
        Step::Value(0)
    }

    /// Calls that wait for descriptors: they look, and wait in simulated time.
    fn waiting_call(&mut self, number: usize, call: &Call) -> Option<Step> {
        let tracee = self.threads.all[number].tracee;
        let [first, second, third, fourth, fifth, _] = call.args;
        let ms = |ms: u64| u64::try_from(ms as i32).ok().map(|ms| ms * 1_000_000);
        let at = |addr: u64| if addr == 0 { None } else { span(tracee, addr) };
        let (span, then) = match call.nr {
            libc::SYS_poll => (ms(third), Call { nr: call.nr, args: [first, second, 0, 0, 0, 0] }),
            libc::SYS_ppoll => (at(third), Call { nr: libc::SYS_poll, args: [first, second, 0, 0, 0, 0] }),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                if let Some(step) = self.ready_maps(tracee, first as i32, second, third) {
                    return Some(step);
                }
                (ms(fourth), Call { nr: libc::SYS_epoll_wait, args: [first, second, third, 0, 0, 0] })
            }
            libc::SYS_epoll_pwait2 => {
                if let Some(step) = self.ready_maps(tracee, first as i32, second, third) {
                    return Some(step);
                }
                (at(fourth), Call { nr: libc::SYS_epoll_wait, args: [first, second, third, 0, 0, 0] })
            }
            libc::SYS_select | libc::SYS_pselect6 => {
                let unit = if call.nr == libc::SYS_select { 1000 } else { 1 };
                let whole = |span: u64| span - span % SECOND;
                let span = at(fifth).map(|span| whole(span).saturating_add(span % SECOND * unit));
                let zero = tracee.scratch(&[0; 16]).unwrap_or(0);
                (span, Call { nr: libc::SYS_select, args: [first, second, third, fourth, zero, 0] })
            }
            _ => return None,
        };
        // A call that is made again keeps its first deadline.
        let first_until = self.threads.all[number].until.take();
        let until = first_until.unwrap_or_else(|| span.map(|span| self.clock.saturating_add(span)));
        let ended = until.is_some_and(|until| until <= self.clock);
        if matches!(call.nr, libc::SYS_poll | libc::SYS_ppoll)
            && let Some(step) = self.poll(tracee, first, second, until)
        {
            return Some(step);
        }
        Some(Step::Replace(then, if ended { After::Nothing } else { After::Polled(until) }))
    }

    /// Maps of a set that have something to read.
    fn ready_maps(&mut self, tracee: Tracee, set: i32, events: u64, most: u64) -> Option<Step> {
        let Some(Held::Set(members)) = self.descriptors.get(set) else { return None };
        let ready = |fd: i32| {
            self.descriptors
                .bpf(fd)
                .and_then(|number| self.bpf.map(number))
                .is_some_and(crate::rings::has_records)
        };
        let found: Vec<_> =
            members.iter().filter(|(fd, ..)| ready(*fd)).take(most.min(64) as usize).collect();
        if found.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        for (_, wanted, data) in &found {
            bytes.extend_from_slice(&(wanted & libc::EPOLLIN as u32).to_le_bytes());
            bytes.extend_from_slice(&data.to_le_bytes());
        }
        let count = found.len() as i64;
        Some(Step::Value(tracee.write(events, &bytes).map_or(error(libc::EFAULT), |()| count)))
    }

    /// Sockets: local ones can be made and listened on, but nobody is there.
    fn socket_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let [first, second, third, fourth, ..] = call.args;
        Some(match call.nr {
            libc::SYS_socket if first as i32 == libc::AF_UNIX => {
                let nonblocking = second & libc::SOCK_NONBLOCK as u64;
                let flags = libc::EFD_CLOEXEC as u64 | nonblocking;
                Step::Replace(
                    Call { nr: libc::SYS_eventfd2, args: [0, flags, 0, 0, 0, 0] },
                    After::Hold(Held::Waitable),
                )
            }
            libc::SYS_socket => self.refuse(&format!("a socket of family {first}"), libc::EACCES),
            libc::SYS_socketpair if first as i32 == libc::AF_UNIX => Step::Pass(After::Pair(fourth)),
            nr if SOCKET_AFFAIRS.contains(&nr) => Step::Value(0),
            libc::SYS_connect => Step::Value(error(libc::ECONNREFUSED)),
            libc::SYS_accept | libc::SYS_accept4 if self.never_waits(tracee, first as i32) => {
                Step::Value(error(libc::EAGAIN))
            }
            libc::SYS_accept | libc::SYS_accept4 => {
                Step::Wait { what: Wait::Time, until: None, expired: error(libc::EINTR) }
            }
            libc::SYS_getsockname | libc::SYS_getpeername => {
                let done =
                    tracee.write(second, &[1, 0]).and_then(|()| tracee.write(third, &2u32.to_le_bytes()));
                Step::Value(done.map_or(error(libc::EFAULT), |()| 0))
            }
            libc::SYS_getsockopt => {
                let done = tracee.write(fourth, &[0; 4]);
                Step::Value(done.map_or(error(libc::EFAULT), |()| 0))
            }
            _ => return None,
        })
    }
}
