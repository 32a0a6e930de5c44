//! Message queues, and polling.

use std::io;
use std::os::fd::RawFd;

use schedlab_workload::PollKind;

use super::handles::{Handles, PollHandle};
use super::system::retry;

/// Bytes before a message's text: its type (`struct msgbuf`).
pub(super) const HEADER: usize = size_of::<libc::c_long>();

/// The type of all messages of System V queues.
pub(super) const TYPE: libc::c_long = 1;

/// Sends a message whose text follows a header of [`HEADER`] bytes.
pub(super) fn send_sysv(queue: i32, message: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the header and the text.
    retry(|| unsafe { libc::msgsnd(queue, message.as_ptr().cast(), message.len() - HEADER, 0) } as isize)
        .map(drop)
}

/// Receives a message with its header.
pub(super) fn receive_sysv(queue: i32, message: &mut [u8]) -> io::Result<()> {
    let length = message.len() - HEADER;
    // SAFETY: the kernel writes the header and up to the length of the text.
    retry(|| unsafe { libc::msgrcv(queue, message.as_mut_ptr().cast(), length, 0, 0) }).map(drop)
}

/// Sends a message to a POSIX queue.
pub(super) fn send_posix(queue: RawFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the message lives across the call.
    retry(|| unsafe { libc::mq_send(queue, message.as_ptr().cast(), message.len(), 0) } as isize).map(drop)
}

/// Receives a message from a POSIX queue, which has room for no longer ones.
pub(super) fn receive_posix(queue: RawFd, message: &mut [u8]) -> io::Result<()> {
    let length = message.len();
    // SAFETY: the kernel writes up to the length; no priority is asked for.
    retry(|| unsafe { libc::mq_receive(queue, message.as_mut_ptr().cast(), length, std::ptr::null_mut()) })
        .map(drop)
}

/// Waits until something can be read; the place of the first such object.
pub(super) fn poll(handles: &Handles, set: &PollHandle) -> io::Result<usize> {
    let fds: Vec<RawFd> = match set.kind {
        PollKind::Epoll => return poll_epoll(set.epoll),
        _ => set.watched.iter().map(|watched| handles.pollable(*watched)).collect(),
    };
    let found = match set.kind {
        PollKind::Select => select(&fds)?,
        _ => {
            let mut entries: Vec<libc::pollfd> =
                fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
            // SAFETY: the list lives across the call.
            retry(|| unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) } as isize)?;
            entries.iter().position(|entry| entry.revents != 0)
        }
    };
    found.ok_or_else(|| io::Error::other("a poll without a timeout found nothing"))
}

fn poll_epoll(epoll: RawFd) -> io::Result<usize> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event.
    retry(|| unsafe { libc::epoll_wait(epoll, &raw mut event, 1, -1) } as isize)?;
    Ok(event.u64 as usize)
}

fn select(fds: &[RawFd]) -> io::Result<Option<usize>> {
    let last = fds.iter().max().copied().unwrap_or(0);
    // SAFETY: the set is plain data, and descriptors are below its size (checked when they were made).
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        retry(|| {
            libc::FD_ZERO(&raw mut set);
            fds.iter().for_each(|&fd| libc::FD_SET(fd, &raw mut set));
            let (none, forever) = (std::ptr::null_mut(), std::ptr::null_mut());
            libc::select(last + 1, &raw mut set, none, none, forever) as isize
        })?;
        Ok(fds.iter().position(|&fd| libc::FD_ISSET(fd, &raw const set)))
    }
}
