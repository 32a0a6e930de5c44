//! What the loader's descriptors are, as far as they are not the host's.

use std::collections::BTreeMap;

/// What a descriptor stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// A map, program, link or set of types, by its number.
    Bpf(usize),
    /// A folder of the simulated machine: its names, and how many were read.
    Folder { path: String, names: Vec<(String, bool)>, read: usize },
    /// A file of the simulated machine.
    File { path: String },
    /// A file in memory of the loader's own, which stays empty: libraries make them to have a number.
    Memory,
    /// Something whose reader may have to wait: a pipe, an event, a socket.
    Waitable,
    /// A timer, by its number.
    Timer(usize),
    /// Watches of files, by the number of the instance.
    Watches(usize),
    /// A set of descriptors (epoll): those in it that are maps, each with events and data.
    Set(Vec<(i32, u32, u64)>),
}

/// The table of descriptors; those that are not in it are files of the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors(BTreeMap<i32, Held>);

impl Descriptors {
    pub(crate) fn get(&self, fd: i32) -> Option<&Held> {
        self.0.get(&fd)
    }

    pub(crate) fn get_mut(&mut self, fd: i32) -> Option<&mut Held> {
        self.0.get_mut(&fd)
    }

    /// The number of a thing of bpf(2).
    pub(crate) fn bpf(&self, fd: i32) -> Option<usize> {
        match self.get(fd) {
            Some(Held::Bpf(number)) => Some(*number),
            _ => None,
        }
    }

    /// How many descriptors of files of the simulated machine are open.
    pub(crate) fn files(&self) -> usize {
        self.0.values().filter(|held| matches!(held, Held::File { .. })).count()
    }

    /// A descriptor of this thing of bpf(2), if one is open.
    pub(crate) fn of(&self, number: usize) -> Option<i32> {
        self.0.iter().find(|(_, held)| **held == Held::Bpf(number)).map(|(fd, _)| *fd)
    }

    /// True if a descriptor is this.
    pub(crate) fn hold(&self, what: &Held) -> bool {
        self.0.values().any(|held| held == what)
    }

    pub(crate) fn set(&mut self, fd: i32, held: Option<Held>) {
        match held {
            Some(held) => self.0.insert(fd, held),
            None => self.0.remove(&fd),
        };
    }

    /// `to` is what `from` is.
    pub(crate) fn copy(&mut self, from: i32, to: i32) {
        let held = self.get(from).cloned();
        self.set(to, held);
    }

    pub(crate) fn close_range(&mut self, first: u32, last: u32) {
        self.0.retain(|fd, _| !(first..=last).contains(&fd.unsigned_abs()));
    }
}
