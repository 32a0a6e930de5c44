//! The kernel objects of a scenario.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use schedlab_workload::{ChannelKind, PollKind, Scenario, SemKind, Watched};

use super::handles::{Ends, Handles, SemHandle};

/// Descriptors that `select` can watch (`FD_SETSIZE`).
const SELECT_LIMIT: RawFd = 1024;

/// Kernel objects of a run; closed and removed when dropped.
pub(super) struct Objects {
    pub(super) handles: Handles,
    fds: Vec<OwnedFd>,
}

impl Objects {
    /// Makes everything that the scenario names.
    pub(super) fn new(scenario: &Scenario) -> io::Result<Objects> {
        let mut objects = Objects { handles: Handles::of(scenario), fds: Vec::new() };
        let sockets = scenario.channels.len() + scenario.listeners as usize;
        let others = scenario.semaphores.len() + 2 * scenario.locks.len() + scenario.polls.len();
        raise_open_files((2 * sockets + others + 64) as u64)?;
        objects.open_channels(scenario)?;
        for _ in 0..scenario.listeners {
            // Room for the number of every connection, so that connecting does not block.
            let room = 4 * scenario.channels.len() as u32;
            let [read, write] = pipe(room.max(1 << 16))?.map(|fd| objects.own(fd));
            objects.handles.listeners.push(Ends { kind: ChannelKind::Pipe, read, write });
        }
        for sem in &scenario.semaphores {
            let id = match sem.kind {
                SemKind::Sysv => semaphore(sem.initial)?,
                SemKind::EventFd => objects.own(eventfd(sem.initial)?),
            };
            objects.handles.semaphores.push(SemHandle { kind: sem.kind, id });
        }
        for (at, _) in scenario.locks.iter().enumerate().filter(|(_, kind)| kind.is_file()) {
            let file = objects.own(memory_fd(c"schedlab-lock", libc::MFD_CLOEXEC)?);
            objects.handles.locks[at].file = file;
        }
        objects.open_polls()?;
        Ok(objects)
    }

    fn own(&mut self, fd: OwnedFd) -> RawFd {
        self.fds.push(fd);
        self.fds[self.fds.len() - 1].as_raw_fd()
    }

    /// Two channels that are each other's peer are the directions of one connection.
    fn open_channels(&mut self, scenario: &Scenario) -> io::Result<()> {
        let lengths = scenario.message_lengths();
        let mut opened: Vec<Option<Ends>> = vec![None; scenario.channels.len()];
        for (number, channel) in scenario.channels.iter().enumerate() {
            if opened[number].is_some() {
                continue;
            }
            let kind = channel.kind;
            let [read, write] = match kind {
                ChannelKind::SysvQueue => [message_queue(channel.capacity)?; 2],
                ChannelKind::PosixQueue => [self.own(posix_queue(channel.capacity, lengths[number])?); 2],
                ChannelKind::Pipe => pipe(channel.capacity)?.map(|fd| self.own(fd)),
                ChannelKind::Unix => {
                    let (a, b) = UnixStream::pair()?;
                    [OwnedFd::from(a), OwnedFd::from(b)].map(|fd| self.own(fd))
                }
                ChannelKind::Tcp => tcp_pair()?.map(|fd| self.own(fd)),
                ChannelKind::Udp => udp_pair()?.map(|fd| self.own(fd)),
            };
            opened[number] = Some(Ends { kind, read, write });
            let peer = channel.peer.filter(|_| kind.is_socket());
            if let Some(other) = peer.and_then(|peer| opened.get_mut(peer.index()))
                && other.is_none()
            {
                *other = Some(Ends { kind, read: write, write: read });
            }
        }
        self.handles.channels = opened.into_iter().flatten().collect();
        Ok(())
    }

    fn open_polls(&mut self) -> io::Result<()> {
        for at in 0..self.handles.polls.len() {
            let watched: Vec<Watched> = self.handles.polls[at].watched.clone();
            let fds: Vec<RawFd> = watched.iter().map(|watched| self.handles.pollable(*watched)).collect();
            match self.handles.polls[at].kind {
                PollKind::Epoll => {
                    let epoll = self.own(epoll(&fds)?);
                    self.handles.polls[at].epoll = epoll;
                }
                PollKind::Select if fds.iter().any(|fd| *fd >= SELECT_LIMIT) => {
                    return Err(io::Error::other("select watches descriptors below 1024 alone; use poll"));
                }
                PollKind::Select | PollKind::Poll => {}
            }
        }
        Ok(())
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for sem in self.handles.semaphores.iter().filter(|sem| sem.kind == SemKind::Sysv) {
            // SAFETY: plain system call; the set is ours.
            unsafe { libc::semctl(sem.id, 0, libc::IPC_RMID) };
        }
        for queue in self.handles.channels.iter().filter(|ends| ends.kind == ChannelKind::SysvQueue) {
            // SAFETY: plain system call; the queue is ours.
            unsafe { libc::msgctl(queue.read, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }
}

/// A descriptor that a system call made, owned from here on.
fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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

fn udp_pair() -> io::Result<[OwnedFd; 2]> {
    let ends = [UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
    ends[0].connect(ends[1].local_addr()?)?;
    ends[1].connect(ends[0].local_addr()?)?;
    Ok(ends.map(OwnedFd::from))
}

/// A set of one System V semaphore.
fn semaphore(initial: u32) -> io::Result<i32> {
    // SAFETY: plain system call.
    let set = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SETVAL takes an int.
    if unsafe { libc::semctl(set, 0, libc::SETVAL, initial as libc::c_int) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: plain system call; the set is ours.
        unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
        return Err(error);
    }
    Ok(set)
}

fn eventfd(initial: u32) -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    owned(unsafe { libc::eventfd(initial, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) })
}

/// A System V message queue that holds at most this many bytes.
fn message_queue(capacity: u32) -> io::Result<i32> {
    // SAFETY: plain system call.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    if queue < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the description is plain data, read by the kernel and written back changed.
    let done = unsafe {
        let mut description: libc::msqid_ds = std::mem::zeroed();
        libc::msgctl(queue, libc::IPC_STAT, &raw mut description);
        description.msg_qbytes = capacity.into();
        libc::msgctl(queue, libc::IPC_SET, &raw mut description)
    };
    if done != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: plain system call; the queue is ours.
        unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
        return Err(error);
    }
    Ok(queue)
}

/// A POSIX message queue without a name, for messages of this length.
fn posix_queue(capacity: u32, length: u32) -> io::Result<OwnedFd> {
    let mut random = [0u8; 16];
    // SAFETY: writes as many bytes as the buffer has. Few or none only make the name one that others can foresee and take.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    let name = std::ffi::CString::new(format!("/schedlab-{:032x}", u128::from_ne_bytes(random)))?;
    // SAFETY: the attributes are plain data; the name is NUL-terminated; it is given up at once, if it is ours.
    unsafe {
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        attributes.mq_maxmsg = i64::from((capacity / length.max(1)).max(1));
        attributes.mq_msgsize = length.into();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        raise_queue_bytes();
        let queue = owned(libc::mq_open(name.as_ptr(), flags, 0o600, &raw mut attributes))?;
        libc::mq_unlink(name.as_ptr());
        Ok(queue)
    }
}

/// Room for the queues of this process's user, if it may be raised (`RLIMIT_MSGQUEUE`, 800 KiB by default: less than a queue of
/// 65,536 short messages has).
fn raise_queue_bytes() {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads one rlimit. Where it is refused, `mq_open` tells.
    unsafe { libc::setrlimit(libc::RLIMIT_MSGQUEUE, &raw const limit) };
}

/// An epoll instance that watches these descriptors for reading; an event carries the place in the list.
fn epoll(watched: &[RawFd]) -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    for (place, &fd) in watched.iter().enumerate() {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place as u64 };
        // SAFETY: reads one event.
        if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(epoll)
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

fn memory_fd(name: &std::ffi::CStr, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is NUL-terminated.
    owned(unsafe { libc::memfd_create(name.as_ptr(), flags) })
}

/// A file in memory with this content, at its beginning; survives `execve`.
pub(super) fn memory_file(content: &[u8]) -> io::Result<RawFd> {
    let file = memory_fd(c"schedlab-state", 0)?;
    super::system::write_all(file.as_raw_fd(), content)?;
    // SAFETY: plain system call on an open descriptor.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    Ok(file.into_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::super::system::{read_all, semop, write_all};
    use super::*;
    use schedlab_workload::{Channel, ChannelId, End, Op, PollSet, Program, SemId, Semaphore};

    fn scenario(kind: ChannelKind) -> Scenario {
        let channel = |peer| Channel { kind, capacity: 4096, peer: Some(ChannelId(peer)) };
        let mut scenario = Scenario::empty("test", End::AllExit);
        scenario.channels = vec![channel(1), channel(0)];
        let send = Op::Send { channel: ChannelId(0), bytes: 4 };
        scenario.programs = vec![Program::new(vec![send]).unwrap()];
        scenario
    }

    #[test]
    fn each_kind_carries_bytes_both_ways() {
        for kind in [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp] {
            let objects = Objects::new(&scenario(kind)).unwrap();
            for ends in &objects.handles.channels {
                write_all(ends.write, b"ping").unwrap();
                let mut buffer = [0; 4];
                read_all(ends.read, &mut buffer).unwrap();
                assert_eq!(&buffer, b"ping", "{kind:?}");
            }
        }
    }

    #[test]
    fn semaphores_start_with_their_units() {
        let set = semaphore(2).unwrap();
        semop(set, -2).unwrap();
        // SAFETY: plain query and removal of our own set.
        unsafe {
            assert_eq!(libc::semctl(set, 0, libc::GETVAL), 0);
            libc::semctl(set, 0, libc::IPC_RMID);
        }
    }

    #[test]
    fn an_epoll_instance_reports_the_place() {
        let mut scenario = scenario(ChannelKind::Pipe);
        scenario.semaphores = vec![Semaphore { kind: SemKind::EventFd, initial: 1 }];
        let watched = vec![Watched::Channel(ChannelId(0)), Watched::Semaphore(SemId(0))];
        scenario.polls = vec![PollSet { kind: PollKind::Epoll, watched }];
        let objects = Objects::new(&scenario).unwrap();
        let mut event = libc::epoll_event { events: 0, u64: 99 };
        // SAFETY: room for one event.
        let found = unsafe { libc::epoll_wait(objects.handles.polls[0].epoll, &raw mut event, 1, 0) };
        assert_eq!((found, { event.u64 }), (1, 1));
    }
}
