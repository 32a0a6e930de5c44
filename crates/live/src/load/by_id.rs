//! BPF programs of the running kernel that others have loaded, by their numbers.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_sys as sys;

use super::raw::program_info;

/// Bytes of a program's name that the kernel keeps (`BPF_OBJ_NAME_LEN` without the zero).
const NAME: usize = 15;

/// A name as the kernel keeps it.
pub(super) fn kept(name: &str) -> &str {
    name.get(..NAME).unwrap_or(name)
}

/// The numbers of all programs in the kernel.
pub(super) fn programs() -> BTreeSet<u32> {
    let (mut ids, mut last) = (BTreeSet::new(), 0);
    // SAFETY: the number is written only.
    while unsafe { sys::bpf_prog_get_next_id(last, &raw mut last) } == 0 {
        ids.insert(last);
    }
    ids
}

/// The callbacks of schedulers (programs of struct_ops) that are not among those `known`: their names as the kernel keeps them.
pub(super) fn new_callbacks(known: &BTreeSet<u32>) -> Vec<(String, OwnedFd)> {
    let new = programs().into_iter().filter(|id| !known.contains(id));
    let opened = new.filter_map(|id| {
        // SAFETY: a plain call; a descriptor that it gives is ours alone.
        let fd = unsafe { sys::bpf_prog_get_fd_by_id(id) };
        // SAFETY: as above.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    });
    let named = opened.filter_map(|fd| {
        let info = program_info(fd.as_raw_fd()).filter(|info| info.type_ == sys::BPF_PROG_TYPE_STRUCT_OPS)?;
        let bytes: Vec<u8> =
            info.name.iter().flat_map(|byte| byte.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        Some((String::from_utf8_lossy(&bytes).into_owned(), fd))
    });
    named.collect()
}
