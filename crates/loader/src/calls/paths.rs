//! Calls that name a file.

use super::{After, Step, memory_file_call};
use crate::bpf::error;
use crate::descriptors::Held;
use crate::files::{Found, entries, stat, statx};
use crate::groups;
use crate::loader::Loader;
use crate::tracee::{Call, Tracee};
use crate::world::{Node, World};

/// Bytes that a file of random numbers has. Chosen: who reads more gets its end.
const RANDOM: usize = 4096;

/// Files of the simulated machine that may be open at once. Chosen.
const MOST_FILES: usize = 256;

/// The number of the mount that all groups are in. Chosen.
const MOUNT: u32 = 30;

/// Opening for more than reading.
const WRITES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Where a call names its path, and relative to which descriptor.
fn place(call: &Call) -> Option<(i32, u64)> {
    let [first, second, ..] = call.args;
    Some(match call.nr {
        libc::SYS_open
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_readlink
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_statfs
        | libc::SYS_creat
        | libc::SYS_truncate => (libc::AT_FDCWD, first),
        libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat
        | libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_name_to_handle_at => (first as i32, second),
        _ => return None,
    })
}

impl Loader {
    pub(super) fn path_call(&mut self, tracee: Tracee, call: &Call) -> Option<Step> {
        let (folder, addr) = place(call)?;
        let Some(text) = tracee.text(addr) else { return Some(Step::Value(error(libc::EFAULT))) };
        let base = match self.descriptors.get(folder) {
            Some(Held::Folder { path, .. } | Held::File { path }) => Some(path.clone()),
            _ => None,
        };
        if text.is_empty() {
            return Some(self.by_descriptor(tracee, call, folder, base));
        }
        if folder != libc::AT_FDCWD && base.is_none() && !text.starts_with('/') {
            return Some(Step::Value(error(libc::EACCES)));
        }
        let path = self.files.normal(&text, base.as_deref());
        if self.files.leads_elsewhere(&text, &path) {
            return Some(self.refuse(&format!("file {text}"), libc::EACCES));
        }
        Some(match call.nr {
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat => self.open(tracee, call, path),
            libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_rmdir
            | libc::SYS_unlink
            | libc::SYS_unlinkat
            | libc::SYS_chmod
            | libc::SYS_chown
            | libc::SYS_fchmodat
            | libc::SYS_fchownat
                if groups::owns(&path) =>
            {
                self.refuse(&format!("changing the groups at {path}"), libc::EACCES)
            }
            libc::SYS_mkdir | libc::SYS_mkdirat => self.make_folder(&path),
            libc::SYS_unlink | libc::SYS_unlinkat if self.bpf.pins.contains_key(&path) => self.unpin(&path),
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => self.change(&path, libc::ENOENT),
            libc::SYS_chmod
            | libc::SYS_chown
            | libc::SYS_fchmodat
            | libc::SYS_fchownat
            | libc::SYS_truncate => self.change(&path, 0),
            _ => self.look_at(tracee, call, &path),
        })
    }

    /// An empty path: the descriptor itself is meant.
    fn by_descriptor(&mut self, tracee: Tracee, call: &Call, fd: i32, path: Option<String>) -> Step {
        match path {
            Some(path) => self.look_at(tracee, call, &path),
            None if matches!(call.nr, libc::SYS_newfstatat | libc::SYS_statx) && fd >= 0 => {
                Step::Pass(After::Nothing)
            }
            None => Step::Value(error(libc::ENOENT)),
        }
    }

    fn open(&mut self, tracee: Tracee, call: &Call, path: String) -> Step {
        let flags = match call.nr {
            libc::SYS_open => call.args[1],
            libc::SYS_openat => call.args[2],
            _ => WRITES,
        };
        let write = flags & WRITES != 0 && path != "/dev/null";
        match self.files.find(&path, self.clock) {
            _ if write => self.refuse(&format!("writing to {path}"), libc::EACCES),
            Found::Host => Step::Pass(After::Nothing),
            Found::Nothing(errno) => Step::Value(error(errno)),
            Found::Random => {
                let content = self.random_bytes(RANDOM);
                self.inject(tracee, content, Held::File { path })
            }
            Found::World(Node::File(_)) if flags & libc::O_DIRECTORY as u64 != 0 => {
                Step::Value(error(libc::ENOTDIR))
            }
            Found::World(Node::File(content)) => self.inject(tracee, content, Held::File { path }),
            Found::World(Node::Folder(names)) => {
                self.inject(tracee, Vec::new(), Held::Folder { path, names, read: 0 })
            }
        }
    }

    /// The call gives a descriptor of a file in memory.
    fn inject(&self, tracee: Tracee, content: Vec<u8>, held: Held) -> Step {
        if self.descriptors.files() >= MOST_FILES {
            return Step::Value(error(libc::EMFILE));
        }
        match memory_file_call(tracee) {
            Some(call) => Step::Replace(call, After::Fill(content, held)),
            None => Step::Value(error(libc::EFAULT)),
        }
    }

    /// Takes the path of something pinned away, which may be the last that held the scheduler.
    fn unpin(&mut self, path: &str) -> Step {
        if let Some(number) = self.bpf.pins.remove(path)
            && self.bpf.is_scheduler_link(number)
            && !self.bpf.is_pinned(number)
            && self.descriptors.of(number).is_none()
        {
            self.bpf.detached = self.bpf.attached;
        }
        Step::Value(0)
    }

    fn make_folder(&mut self, path: &str) -> Step {
        match self.files.find(path, self.clock) {
            Found::Nothing(libc::ENOENT) if World::owns(path) => {
                let made = self.files.world.make_folder(path);
                Step::Value(if made { 0 } else { error(libc::ENOSPC) })
            }
            Found::World(_) | Found::Host | Found::Random => Step::Value(error(libc::EEXIST)),
            Found::Nothing(_) => self.refuse(&format!("writing to {path}"), libc::EACCES),
        }
    }

    /// A change of what the simulated machine has: nothing of it lasts. `errno` is for what is not there, 0 for none.
    fn change(&mut self, path: &str, errno: i32) -> Step {
        if !World::owns(path) {
            return self.refuse(&format!("writing to {path}"), libc::EACCES);
        }
        Step::Value(error(errno))
    }

    /// Questions about a path.
    fn look_at(&mut self, tracee: Tracee, call: &Call, path: &str) -> Step {
        let [_, second, third, ..] = call.args;
        let found = self.files.find(path, self.clock);
        let node = match found {
            Found::Host => return Step::Pass(After::Nothing),
            Found::Nothing(errno) => return Step::Value(error(errno)),
            Found::Random => Node::File(Vec::new()),
            Found::World(node) => node,
        };
        let number = self.files.number(path);
        let done = match call.nr {
            libc::SYS_stat | libc::SYS_lstat => tracee.write(second, &stat(&node, number)),
            libc::SYS_newfstatat => tracee.write(third, &stat(&node, number)),
            libc::SYS_statx => tracee.write(call.args[4], &statx(&node, number)),
            libc::SYS_name_to_handle_at => return self.handle(tracee, path, third, call.args[3]),
            libc::SYS_statfs => tracee.write(second, &file_system(path)),
            libc::SYS_readlink | libc::SYS_readlinkat => return Step::Value(error(libc::EINVAL)),
            // It is there.
            _ => Some(()),
        };
        Step::Value(if done.is_some() { 0 } else { error(libc::EFAULT) })
    }

    /// `name_to_handle_at` of a group's directory, whose handle is its number. Other file systems of the machine have no handles.
    fn handle(&self, tracee: Tracee, path: &str, handle: u64, mount: u64) -> Step {
        /// `FILEID_KERNFS`.
        const KERNFS: u32 = 0xfe;
        const LENGTH: u32 = 8;
        let Some(id) = self.files.world.groups.id(path) else { return Step::Value(error(libc::EOPNOTSUPP)) };
        let Some(room) = tracee.read(handle, 4) else { return Step::Value(error(libc::EFAULT)) };
        let is_short = u32::from_le_bytes(room.try_into().unwrap_or_default()) < LENGTH;
        let mut bytes = LENGTH.to_le_bytes().to_vec();
        if !is_short {
            bytes.extend_from_slice(&KERNFS.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        let done = tracee.write(handle, &bytes).and_then(|()| tracee.write(mount, &MOUNT.to_le_bytes()));
        match done {
            None => Step::Value(error(libc::EFAULT)),
            Some(()) if is_short => Step::Value(error(libc::EOVERFLOW)),
            Some(()) => Step::Value(0),
        }
    }

    /// `getdents64`.
    pub(super) fn list(&mut self, tracee: Tracee, fd: i32, addr: u64, room: u64) -> Step {
        let Some(Held::Folder { path, names, read }) = self.descriptors.get_mut(fd) else {
            return Step::Pass(After::Nothing);
        };
        let number = |name: &str| self.files.number(&self.files.normal(name, Some(path)));
        let (bytes, count) = entries(names, number, *read, room.min(1 << 16) as usize);
        if bytes.is_empty() && *read < names.len() + 2 {
            return Step::Value(error(libc::EINVAL));
        }
        *read = count;
        match tracee.write(addr, &bytes) {
            Some(()) => Step::Value(bytes.len() as i64),
            None => Step::Value(error(libc::EFAULT)),
        }
    }

    /// `fstat` of what is not the host's.
    pub(super) fn stat_descriptor(&mut self, tracee: Tracee, fd: i32, addr: u64) -> Step {
        let Some(Held::Folder { path, .. }) = self.descriptors.get(fd) else {
            return Step::Pass(After::Nothing);
        };
        let bytes = stat(&Node::Folder(Vec::new()), self.files.number(path));
        Step::Value(tracee.write(addr, &bytes).map_or(error(libc::EFAULT), |()| 0))
    }
}

/// `struct statfs` of the file system that a path lies in: which it is, and nothing else.
fn file_system(path: &str) -> [u8; 120] {
    let kinds: [(&str, u64); 4] = [
        ("/sys/fs/bpf", 0xcafe_4a11),
        ("/sys/fs/cgroup", 0x6367_7270),
        ("/sys", 0x6265_6572),
        ("/proc", 0x9fa0),
    ];
    let kind =
        kinds.into_iter().find(|(place, _)| path.starts_with(place)).map_or(0x0102_1994, |(_, kind)| kind);
    let mut out = [0; 120];
    out[..8].copy_from_slice(&kind.to_le_bytes());
    out[8..16].copy_from_slice(&4096u64.to_le_bytes());
    out
}
