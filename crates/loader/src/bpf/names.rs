//! Things of bpf(2) by their numbers in the kernel, and by the paths that they are pinned at.

use super::{Answer, Asked, Bpf, MOST_THINGS, Thing, error};
use crate::files::normal;

/// Where things can be pinned.
const BPFFS: &str = "/sys/fs/bpf/";

/// What a number may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Map,
    Program,
    Link,
}

impl Sort {
    fn is(self, thing: &Thing) -> bool {
        matches!(
            (self, thing),
            (Sort::Map, Thing::Map(_)) | (Sort::Program, Thing::Program(_)) | (Sort::Link, Thing::Link(_))
        )
    }
}

impl Bpf {
    /// `BPF_*_GET_FD_BY_ID`.
    pub(super) fn by_id(&self, sort: Sort, asked: &Asked<'_, '_>) -> Answer {
        let number = (asked.attr.u32(0) as usize).wrapping_sub(1);
        match self.things.get(number).filter(|thing| sort.is(thing)) {
            Some(_) => Answer::Open(number),
            None => Answer::Value(error(libc::ENOENT)),
        }
    }

    /// `BPF_*_GET_NEXT_ID`.
    pub(super) fn next_id(&self, sort: Sort, asked: &Asked<'_, '_>) -> Answer {
        let after = asked.attr.u32(0) as usize;
        let mut later = self.things.iter().enumerate().skip(after);
        let Some((number, _)) = later.find(|(_, thing)| sort.is(thing)) else {
            return Answer::Value(error(libc::ENOENT));
        };
        let told = asked.tracee.write(asked.attr.place(4), &(number as u32 + 1).to_le_bytes());
        Answer::Value(told.map_or(error(libc::EFAULT), |()| 0))
    }

    /// The normal path of `BPF_OBJ_PIN` and `BPF_OBJ_GET`.
    fn pinned_path(asked: &Asked<'_, '_>) -> Result<String, i32> {
        let text = asked.tracee.text(asked.attr.u64(0)).ok_or(libc::EFAULT)?;
        let path = normal(&text, "/");
        if path.starts_with(BPFFS) { Ok(path) } else { Err(libc::EPERM) }
    }

    /// `BPF_OBJ_PIN`.
    pub(super) fn pin(&mut self, asked: &Asked<'_, '_>) -> Answer {
        let pinned = Bpf::pinned_path(asked).and_then(|path| {
            let number = asked.descriptors.bpf(asked.attr.i32(8)).ok_or(libc::EBADF)?;
            if self.pins.len() >= MOST_THINGS {
                return Err(libc::ENOSPC);
            }
            if self.pins.contains_key(&path) {
                return Err(libc::EEXIST);
            }
            self.pins.insert(path, number);
            Ok(())
        });
        Answer::Value(pinned.map_or_else(error, |()| 0))
    }

    /// `BPF_OBJ_GET`.
    pub(super) fn get_pinned(&self, asked: &Asked<'_, '_>) -> Answer {
        let found =
            Bpf::pinned_path(asked).and_then(|path| self.pins.get(&path).copied().ok_or(libc::ENOENT));
        found.map_or_else(|errno| Answer::Value(error(errno)), Answer::Open)
    }
}
