//! A BPF object of our own that only watches the kernel: its programs are attached, its variables, maps and ring are read.

use std::io;
use std::os::fd::RawFd;

use schedlab_base::DurationNs;

use super::raw::{self, Link, Object, Ring};
use super::{LoadError, ProgramRunTime, SchedulerObject, btf, prepare, settings, verifier};

/// A BPF object of our own that only watches: loaded and attached until dropped.
pub(crate) struct Watcher {
    links: Vec<Link>,
    object: Object,
    variables: Vec<btf::Variable>,
}

impl Watcher {
    /// The same as [`Watcher::start`] for what the user asked for: that this process or this build cannot is an error that
    /// comes first.
    ///
    /// # Errors
    /// No privilege, a build without the program (`bytes` are empty), a kernel that refuses it.
    pub(crate) fn start_wanted(name: &str, bytes: &[u8]) -> Result<Watcher, LoadError> {
        // SAFETY: plain query.
        if unsafe { libc::geteuid() } != 0 {
            return Err(LoadError::WatchNotPrivileged);
        }
        if bytes.is_empty() {
            return Err(LoadError::NoWatcher);
        }
        Watcher::start(name, bytes)
    }

    /// Loads and attaches all programs of an object.
    pub(crate) fn start(name: &str, bytes: &[u8]) -> Result<Watcher, LoadError> {
        let scheduler =
            SchedulerObject { name: name.to_string(), bytes: bytes.to_vec(), ..SchedulerObject::default() };
        let object = prepare(&scheduler).map_err(|error| match error {
            LoadError::Load { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                LoadError::WatchNotPrivileged
            }
            other => other,
        })?;
        let mut links = Vec::new();
        for program in object.programs().filter(raw::Program::is_hook) {
            links.push(program.attach().map_err(|source| LoadError::Attach {
                name: name.to_string(),
                what: program.name(),
                source,
                words: verifier::words(&raw::take_messages()),
            })?);
        }
        let variables = object.btf().map(|btf| btf.variables()).unwrap_or_default();
        Ok(Watcher { links, object, variables })
    }

    fn place(&self, name: &str) -> Option<(raw::Map<'_>, &btf::Variable)> {
        let variable = self.variables.iter().find(|v| v.name == name)?;
        Some((settings::section_map(&self.object, variable.section)?, variable))
    }

    /// A variable as numbers of eight bytes; a smaller variable is one number.
    pub(crate) fn read(&self, name: &str) -> Vec<u64> {
        let bytes = self.place(name).and_then(|(map, v)| map.read(v.offset, v.size)).unwrap_or_default();
        bytes
            .chunks(8)
            .map(|chunk| chunk.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            .collect()
    }

    /// Sets a variable of at most eight bytes, also from a forked process.
    pub(crate) fn write(&self, name: &str, value: u64) {
        let written = self
            .place(name)
            .is_some_and(|(map, v)| map.write_present(v.offset, &value.to_le_bytes()[..v.size.min(8)]));
        assert!(written, "the watcher has no variable {name}");
    }

    /// Adds an entry to a hash map; false if there is no such map or no room.
    pub(crate) fn insert<const K: usize, const V: usize>(
        &self,
        map: &str,
        key: &[u8; K],
        value: &[u8; V],
    ) -> bool {
        self.object.maps().find(|m| m.name() == map).is_some_and(|map| map.insert(key, value))
    }

    /// Keys and values of a hash map.
    pub(crate) fn entries<const K: usize, const V: usize>(&self, map: &str) -> Vec<([u8; K], [u8; V])> {
        let map = self.object.maps().find(|m| m.name() == map);
        map.map(|map| map.entries()).unwrap_or_default()
    }

    /// The reader of its map `ring`.
    ///
    /// # Errors
    /// The system's: the ring could not be mapped.
    pub(crate) fn ring(&self) -> io::Result<Ring> {
        let map = self.object.maps().find(|map| map.name() == "ring");
        map.ok_or(io::ErrorKind::NotFound)?.ring()
    }

    /// How often its programs ran and how long, in the order of the object.
    pub(crate) fn run_times(&self) -> Vec<ProgramRunTime> {
        let one = |program: raw::Program<'_>| {
            let (runs, time) = program.run_time()?;
            Some(ProgramRunTime { name: program.name(), runs, time: DurationNs(time) })
        };
        self.object.programs().filter_map(one).collect()
    }

    /// Descriptors that keep it attached.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.links.iter().map(Link::fd).collect()
    }
}
