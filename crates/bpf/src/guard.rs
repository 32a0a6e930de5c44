//! Guard regions: parts of the host's mappings that nobody can read, write or execute, so that an access that misses its
//! place by a little ends the process and reaches nothing.

#[cfg(target_arch = "x86_64")]
use memmap2::MmapMut;
use std::io;
use std::ops::Range;

/// Length of a guard region in bytes. Chosen: beyond any 16-bit displacement of an instruction, and the size of a huge
/// page, so that what follows a guard keeps its alignment.
pub(crate) const GUARD_LEN: usize = 2 << 20;

/// Takes all rights from a range of a private anonymous mapping, whose bytes are lost.
///
/// # Errors
/// The host's refusal.
///
/// # Panics
/// If the range is not in the mapping.
///
/// # Safety
/// Nobody reads or writes these bytes afterwards, through `map` or otherwise.
#[cfg(unix)]
pub(crate) unsafe fn close(map: *const u8, len: usize, range: Range<usize>) -> io::Result<()> {
    assert!(range.start <= range.end && range.end <= len, "a guard lies in its mapping");
    // SAFETY: the range is inside a mapping of ours, which no reference reaches any more, as the caller promises.
    let done =
        unsafe { libc::mprotect(map.add(range.start).cast_mut().cast(), range.len(), libc::PROT_NONE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Hosts without `mprotect` have no guards.
///
/// # Errors
/// None.
///
/// # Safety
/// As on other hosts.
#[cfg(not(unix))]
pub(crate) unsafe fn close(_map: *const u8, _len: usize, _range: Range<usize>) -> io::Result<()> {
    Ok(())
}

/// A mapping of `len` bytes with a guard region on both sides; the bytes begin at [`GUARD_LEN`].
///
/// # Errors
/// The host gives no memory.
#[cfg(target_arch = "x86_64")]
pub(crate) fn padded(len: usize) -> io::Result<MmapMut> {
    let len =
        len.checked_add(2 * GUARD_LEN).ok_or_else(|| io::Error::other("longer than the address space"))?;
    MmapMut::map_anon(len)
}

#[cfg(test)]
pub(crate) mod tests {
    /// What the host lets anybody do with the page at an address of its own, as `/proc` tells it: `r-x`, `rw-`, `---`.
    #[cfg(target_os = "linux")]
    pub(crate) fn rights_at(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let holds = |line: &&str| {
            let number = |text: &str| usize::from_str_radix(text, 16).expect("an address");
            let (from, to) =
                line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
            (number(from)..number(to)).contains(&address)
        };
        let line = maps.lines().find(holds).expect("a mapping");
        line.split(' ').nth(1).expect("rights")[..3].to_string()
    }
}
