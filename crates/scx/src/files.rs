//! Open files in guest memory: what a program finds that follows `task->files` to pipes, sockets and locked files.
//!
//! All tasks have one table of descriptors open ([`Descriptors`]), as processes do that inherited it. So a descriptor
//! is the same `struct file` in all of them; each process has a `files_struct` of its own. The objects are made once,
//! when a scheduler is loaded, and do not change.
//!
//! Modelled are `file` (inode, operations, mode, private data), `inode` (number, mode, file system), `socket`, and `sock`
//! with the peer of a Unix socket and the addresses of a loopback connection. So is `eventpoll` with its tree of watched
//! files. Operations can be compared with each other but have no names and no content. Eventfds and epoll instances share
//! one inode, as in the kernel: they differ by their private data. Not modelled: directory entries, closing, what the
//! shell and idle tasks have open, and the content of pipes, queues and eventfds.

use crate::kernel_model::Offsets;
use crate::mirror::{Members, kernel_perm};
use schedlab_bpf::{GuestAddr, Memory, MemoryError};
use schedlab_sim::{Descriptors, File};
use schedlab_workload::{ChannelId, ChannelKind, PollId};
use std::collections::BTreeMap;

/// `S_IFIFO`, `S_IFREG`, `S_IFSOCK` with usual permissions.
const FIFO: u32 = 0o010_600;
const REGULAR: u32 = 0o100_600;
const SOCKET: u32 = 0o140_777;
const ANONYMOUS: u32 = 0o600;

/// `FMODE_READ`, `FMODE_WRITE`.
const READ: u32 = 1;
const WRITE: u32 = 2;

/// File systems by their magic number (include/uapi/linux/magic.h); places in this list are places of super blocks.
const FILE_SYSTEMS: [u64; 5] = [0x5049_5045, 0x534f_434b, 0x0904_1934, 0x1980_0202, 0x0102_1994];
const PIPES: u64 = 0;
const SOCKETS: u64 = 1;
const ANONYMOUS_INODES: u64 = 2;
const QUEUES: u64 = 3;
const MEMORY: u64 = 4;

/// The first inode number. Chosen.
const FIRST_INODE: u64 = 10_001;
/// `AF_UNIX`, `AF_INET`; `SOCK_STREAM`, `SOCK_DGRAM`; `IPPROTO_TCP`, `IPPROTO_UDP`; `TCP_ESTABLISHED`.
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const TCP: u32 = 6;
const UDP: u32 = 17;
const ESTABLISHED: u8 = 1;
/// 127.0.0.1 in network byte order, as it lies in memory.
const LOOPBACK: u32 = u32::from_le_bytes([127, 0, 0, 1]);
/// Ports of loopback connections: this plus the descriptor. Chosen, in the range for clients.
const FIRST_PORT: u32 = 33_000;
const PORTS: u32 = 32_000;

/// Bytes from one object to the next.
const STRIDE: u64 = 128;

/// Makes the objects of all descriptors and enters them into the table at `table`.
///
/// # Errors
/// No room in guest memory.
pub(crate) fn build(
    mem: &mut Memory,
    offsets: &Offsets,
    descriptors: &Descriptors,
    table: GuestAddr,
) -> Result<(), MemoryError> {
    let count = descriptors.count();
    let open: Vec<(u32, File)> =
        (0..count).filter_map(|fd| descriptors.resolve(fd).map(|file| (fd, file))).collect();
    let fds = mem.map(8 * u64::from(count), kernel_perm())?;
    write(mem, table, offsets.files.table_size, |object| {
        object.u32(offsets.files.max_fds, count);
        object.u64(offsets.files.fd, fds.0);
    });
    if open.is_empty() {
        return Ok(());
    }
    let mut arrays = [GuestAddr::NULL; 4];
    for array in &mut arrays {
        *array = mem.map(STRIDE * (open.len() as u64).max(16), kernel_perm())?;
    }
    let [files, inodes, privates, peers] = arrays;
    let systems = mem.map(STRIDE * FILE_SYSTEMS.len() as u64, kernel_perm())?;
    for (system, magic) in (0..).zip(FILE_SYSTEMS) {
        let at = systems.offset(STRIDE * system);
        write(mem, at, STRIDE, |object| object.u64(offsets.files.s_magic, magic));
    }
    let mut maker = Maker {
        mem,
        offsets,
        files,
        inodes,
        privates,
        peers,
        systems,
        places: BTreeMap::new(),
        pipes: BTreeMap::new(),
        next_inode: 0,
        anonymous: None,
    };
    for (place, (fd, _)) in (0..).zip(&open) {
        maker.places.insert(*fd, place);
    }
    debug_assert_eq!(maker.places.len(), open.len(), "each open descriptor has a place");
    for (fd, file) in &open {
        maker.make(*fd, *file);
        let at = fds.offset(8 * u64::from(*fd));
        let address = maker.file(*fd);
        write(maker.mem, at, 8, |object| object.u64(0, address.0));
    }
    for (fd, file) in &open {
        if let File::Epoll(set) = file {
            maker.watch(*fd, descriptors.watched(PollId(set.0)))?;
        }
    }
    Ok(())
}

/// Fills in a kernel object that was mapped for it.
fn write(mem: &mut Memory, at: GuestAddr, size: u64, fill: impl FnOnce(&mut Members<'_>)) {
    fill(&mut Members(mem.slice_mut(at, size).expect("mapped for it")));
}

struct Maker<'a> {
    mem: &'a mut Memory,
    offsets: &'a Offsets,
    files: GuestAddr,
    inodes: GuestAddr,
    /// Sockets, contexts of eventfds, epoll instances, pipes: by the file's place.
    privates: GuestAddr,
    /// The `sock` of a socket, by the file's place.
    peers: GuestAddr,
    systems: GuestAddr,
    /// By descriptor: which of the files it is.
    places: BTreeMap<u32, u64>,
    /// By pipe: its inode and what both ends point to.
    pipes: BTreeMap<ChannelId, (GuestAddr, GuestAddr)>,
    next_inode: u64,
    anonymous: Option<GuestAddr>,
}

impl Maker<'_> {
    fn at(&self, array: GuestAddr, fd: u32) -> GuestAddr {
        self.places.get(&fd).map_or(GuestAddr::NULL, |place| array.offset(STRIDE * place))
    }

    fn file(&self, fd: u32) -> GuestAddr {
        self.at(self.files, fd)
    }

    fn inode(&mut self, mode: u32, system: u64) -> GuestAddr {
        debug_assert!((system as usize) < FILE_SYSTEMS.len(), "the file system is one of the list");
        let at = self.inodes.offset(STRIDE * self.next_inode);
        let (number, system) = (FIRST_INODE + self.next_inode, self.systems.offset(STRIDE * system));
        self.next_inode += 1;
        debug_assert!(
            self.next_inode <= (self.places.len() as u64).max(16),
            "the array has room for the inodes"
        );
        let offsets = &self.offsets.files;
        write(self.mem, at, STRIDE, |object| {
            object.bytes(offsets.i_mode, &(mode as u16).to_le_bytes());
            object.u64(offsets.i_ino, number);
            object.u64(offsets.i_sb, system.0);
        });
        at
    }

    /// The inode of everything that has none of its own.
    fn anonymous(&mut self) -> GuestAddr {
        match self.anonymous {
            Some(inode) => inode,
            None => {
                let inode = self.inode(ANONYMOUS, ANONYMOUS_INODES);
                *self.anonymous.insert(inode)
            }
        }
    }

    fn make(&mut self, fd: u32, file: File) {
        let private = self.at(self.privates, fd);
        // Programs tell operations apart by their addresses: one of the unused places behind the super blocks' magic.
        let (inode, private, mode, kind) = match file {
            File::Channel { channel, kind: ChannelKind::Pipe, second } => {
                let (inode, pipe) = match self.pipes.get(&channel) {
                    Some(pipe) => *pipe,
                    None => {
                        let made = (self.inode(FIFO, PIPES), private);
                        let at = self.offsets.files.i_pipe;
                        write(self.mem, made.0, STRIDE, |object| object.u64(at, made.1.0));
                        self.pipes.insert(channel, made);
                        made
                    }
                };
                (inode, pipe, if second { WRITE } else { READ }, 0)
            }
            File::Channel { kind: ChannelKind::PosixQueue, .. } => {
                (self.inode(REGULAR, QUEUES), GuestAddr::NULL, READ | WRITE, 1)
            }
            File::Channel { kind, second, .. } => {
                let inode = self.inode(SOCKET, SOCKETS);
                self.socket(fd, kind, if second { fd - 1 } else { fd + 1 });
                (inode, private, READ | WRITE, 2)
            }
            File::EventFd(_) => (self.anonymous(), private, READ | WRITE, 3),
            File::Epoll(_) => (self.anonymous(), private, READ | WRITE, 4),
            File::Locked(_) => (self.inode(REGULAR, MEMORY), GuestAddr::NULL, READ | WRITE, 5),
        };
        let operations = self.systems.offset(64 + 8 * kind);
        debug_assert!(kind < 8, "the operations lie behind the super block's magic");
        let (at, place) = (self.offsets.files, self.file(fd));
        write(self.mem, place, STRIDE, |object| {
            object.u64(at.f_inode, inode.0);
            object.u64(at.f_op, operations.0);
            object.u64(at.private_data, private.0);
            object.u32(at.f_mode, mode);
        });
    }

    /// A socket whose peer is the endpoint with the descriptor `peer`.
    fn socket(&mut self, fd: u32, kind: ChannelKind, peer: u32) {
        let (socket, sk, file) = (self.at(self.privates, fd), self.at(self.peers, fd), self.file(fd));
        let peer_sk = self.at(self.peers, peer);
        let datagrams = kind == ChannelKind::Udp;
        let kind_number = if datagrams { SOCK_DGRAM } else { SOCK_STREAM };
        let at = self.offsets.files;
        write(self.mem, socket, STRIDE, |object| {
            object.bytes(at.socket_type, &(kind_number as u16).to_le_bytes());
            object.u64(at.socket_file, file.0);
            object.u64(at.socket_sk, sk.0);
        });
        let port = |fd: u32| (FIRST_PORT + fd % PORTS) as u16;
        write(self.mem, sk, STRIDE, |object| {
            object.u64(at.sk_socket, socket.0);
            object.bytes(at.sk_type, &(kind_number as u16).to_le_bytes());
            object.bytes(at.skc_state, &[ESTABLISHED]);
            if kind == ChannelKind::Unix {
                object.bytes(at.skc_family, &(AF_UNIX as u16).to_le_bytes());
                object.u64(at.unix_peer, peer_sk.0);
                return;
            }
            object.bytes(at.skc_family, &(AF_INET as u16).to_le_bytes());
            object.bytes(at.sk_protocol, &((if datagrams { UDP } else { TCP }) as u16).to_le_bytes());
            object.u32(at.skc_daddr, LOOPBACK);
            object.u32(at.skc_rcv_saddr, LOOPBACK);
            object.bytes(at.skc_num, &port(fd).to_le_bytes());
            object.bytes(at.skc_dport, &port(peer).to_be_bytes());
        });
    }

    /// The tree of an epoll instance: in order, each node right of the one before.
    fn watch(&mut self, fd: u32, watched: &[u32]) -> Result<(), MemoryError> {
        let items = self.mem.map(STRIDE * watched.len().max(1) as u64, kernel_perm())?;
        let (at, instance) = (self.offsets.files, self.at(self.privates, fd));
        let mut sorted: Vec<u32> = watched.to_vec();
        sorted.sort_unstable();
        let node = |place: usize| items.offset(STRIDE * place as u64).offset(at.epi_node);
        for (place, &target) in sorted.iter().enumerate() {
            let file = self.file(target);
            write(self.mem, items.offset(STRIDE * place as u64), STRIDE, |object| {
                let next = if place + 1 < sorted.len() { node(place + 1).0 } else { 0 };
                object.u64(at.epi_node + at.rb_right, next);
                object.u64(at.epi_file, file.0);
                object.u32(at.epi_fd, target);
                object.u64(at.epi_ep, instance.0);
            });
        }
        write(self.mem, instance, STRIDE, |object| {
            object.u64(at.ep_root, node(0).0);
            object.u64(at.ep_leftmost, node(0).0);
        });
        Ok(())
    }
}
