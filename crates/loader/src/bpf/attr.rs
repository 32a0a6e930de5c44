//! `union bpf_attr` as it lies in the loader's memory.

use crate::tracee::Tracee;

/// Longest attribute that is looked at. Linux 7.3's has 160 bytes; the rest must be 0 and is not read.
const LONGEST: usize = 256;

/// A copy of the attribute, as if zeros followed.
#[derive(Clone, Debug)]
pub(crate) struct Attr {
    addr: u64,
    bytes: Vec<u8>,
}

impl Attr {
    /// Reads it.
    pub(crate) fn read(tracee: Tracee, addr: u64, size: u64) -> Option<Attr> {
        let size = usize::try_from(size).ok()?.min(LONGEST);
        Some(Attr { addr, bytes: tracee.read(addr, size)? })
    }

    /// Where the byte of this number lies.
    pub(crate) fn place(&self, at: usize) -> u64 {
        self.addr.wrapping_add(at as u64)
    }

    fn word<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut word = [0; N];
        if let Some(found) = self.bytes.get(at..at + N) {
            word.copy_from_slice(found);
        }
        word
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.word(at))
    }

    pub(crate) fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.word(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.word(at))
    }

    /// A name of up to 15 bytes.
    pub(crate) fn name(&self, at: usize) -> String {
        let name: [u8; 16] = self.word(at);
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }
}
