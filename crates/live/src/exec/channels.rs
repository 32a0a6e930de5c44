//! Channels and semaphores of a scenario as kernel objects.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use schedlab_workload::{Channel, ChannelKind, Scenario};

/// Semaphores in one System V set, within the default limit of any distribution.
const SET_SIZE: usize = 250;

/// The two ends of a one-directional channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) read: RawFd,
    pub(super) write: RawFd,
}

/// Kernel objects of a run; closed and removed when dropped.
pub(super) struct Objects {
    pub(super) channels: Vec<Ends>,
    pub(super) sets: Vec<i32>,
    _fds: Vec<OwnedFd>,
}

impl Objects {
    /// Makes everything that the scenario names.
    pub(super) fn new(scenario: &Scenario) -> io::Result<Objects> {
        let mut objects = Objects { channels: Vec::new(), sets: Vec::new(), _fds: Vec::new() };
        raise_open_files(2 * scenario.channels.len() as u64 + 64)?;
        objects.open_channels(&scenario.channels)?;
        let initial: Vec<u32> = scenario.semaphores.iter().map(|s| s.initial).collect();
        for chunk in initial.chunks(SET_SIZE) {
            objects.sets.push(semaphore_set(chunk)?);
        }
        Ok(objects)
    }

    /// Two channels that are each other's peer are the directions of one connection.
    fn open_channels(&mut self, channels: &[Channel]) -> io::Result<()> {
        let mut opened: Vec<Option<Ends>> = vec![None; channels.len()];
        for (number, channel) in channels.iter().enumerate() {
            if opened[number].is_some() {
                continue;
            }
            let [left, right] = match channel.kind {
                ChannelKind::Pipe => pipe(channel.capacity)?,
                ChannelKind::Unix => {
                    let (a, b) = UnixStream::pair()?;
                    [OwnedFd::from(a), OwnedFd::from(b)]
                }
                ChannelKind::Tcp => tcp_pair()?,
            };
            let ends = Ends { read: left.as_raw_fd(), write: right.as_raw_fd() };
            opened[number] = Some(ends);
            let peer = channel.peer.filter(|_| channel.kind != ChannelKind::Pipe);
            if let Some(other) = peer.and_then(|peer| opened.get_mut(peer.index()))
                && other.is_none()
            {
                *other = Some(Ends { read: ends.write, write: ends.read });
            }
            self._fds.extend([left, right]);
        }
        self.channels = opened.into_iter().flatten().collect();
        Ok(())
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for &set in &self.sets {
            // SAFETY: plain system call; the set is ours.
            unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
        }
    }
}

/// Set and number in it of a scenario's semaphore.
pub(super) fn place_of(semaphore: usize) -> (usize, u16) {
    (semaphore / SET_SIZE, (semaphore % SET_SIZE) as u16)
}

/// Read end, write end.
fn pipe(capacity: u32) -> io::Result<[OwnedFd; 2]> {
    let mut fds = [0; 2];
    // SAFETY: writes two descriptors; they are owned from here on.
    let ends = unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        fds.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    // The kernel rounds up to whole pages; a refusal (limit of unprivileged users) leaves 64 KiB.
    // SAFETY: plain system call on an open descriptor.
    unsafe { libc::fcntl(fds[1], libc::F_SETPIPE_SZ, capacity as libc::c_int) };
    Ok(ends)
}

fn tcp_pair() -> io::Result<[OwnedFd; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok([OwnedFd::from(client), OwnedFd::from(server)])
}

fn semaphore_set(initial: &[u32]) -> io::Result<i32> {
    // SAFETY: plain system call.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, initial.len() as libc::c_int, 0o600) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    for (number, &value) in initial.iter().enumerate() {
        // SAFETY: SETVAL takes an int.
        let done = unsafe { libc::semctl(set, number as libc::c_int, libc::SETVAL, value as libc::c_int) };
        if done != 0 {
            let error = io::Error::last_os_error();
            // SAFETY: plain system call; the set is ours.
            unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
            return Err(error);
        }
    }
    Ok(set)
}

/// Makes room for `count` open files if the limit of this process can be raised so far.
fn raise_open_files(count: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_cur >= count {
        return Ok(());
    }
    limit.rlim_max = limit.rlim_max.max(count);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a descriptor survive `execve`.
pub(super) fn keep_open(fd: RawFd) {
    // SAFETY: plain system call.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
}

/// A file in memory with this content, at its beginning; survives `execve`.
pub(super) fn memory_file(content: &[u8]) -> io::Result<RawFd> {
    // SAFETY: the name is NUL-terminated; the descriptor is owned from here on.
    let file = unsafe {
        let fd = libc::memfd_create(c"schedlab-state".as_ptr(), 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    super::system::write_all(file.as_raw_fd(), content)?;
    // SAFETY: plain system call on an open descriptor.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    Ok(file.into_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::super::system::{read_all, write_all};
    use super::*;
    use schedlab_workload::ChannelId;

    #[test]
    fn each_kind_carries_bytes_both_ways() {
        for kind in [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp] {
            let channel = |peer| Channel { kind, capacity: 4096, peer: Some(ChannelId(peer)) };
            let mut objects = Objects { channels: Vec::new(), sets: Vec::new(), _fds: Vec::new() };
            objects.open_channels(&[channel(1), channel(0)]).unwrap();
            for ends in &objects.channels {
                write_all(ends.write, b"ping").unwrap();
                let mut buffer = [0; 4];
                read_all(ends.read, &mut buffer).unwrap();
                assert_eq!(&buffer, b"ping", "{kind:?}");
            }
        }
    }

    #[test]
    fn semaphores_start_with_their_units() {
        let set = semaphore_set(&[2, 0]).unwrap();
        super::super::system::semop(set, 0, -2).unwrap();
        // SAFETY: plain query and removal of our own set.
        unsafe {
            assert_eq!(libc::semctl(set, 0, libc::GETVAL), 0);
            libc::semctl(set, 0, libc::IPC_RMID);
        }
    }
}
