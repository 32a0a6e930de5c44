//! Sets of CPUs as they lie in guest memory: `struct cpumask`, and `struct scx_cmask` of cid-form schedulers.

use schedlab_base::{CpuMask, MAX_CPUS};
use schedlab_bpf::{Fault, GuestAddr, Memory};

/// Bytes of a `struct cpumask`.
pub(crate) const MASK_BYTES: u64 = (MAX_CPUS / 8) as u64;
/// Where the bits of a `struct scx_cmask` begin.
pub(crate) const CMASK_BITS: u64 = 16;
/// Most bits that are looked at of one. Chosen: far above every number of CPUs.
const CMASK_LIMIT: u32 = 1 << 16;

/// The mask at a guest address.
pub(crate) fn read_mask(mem: &Memory, addr: GuestAddr) -> Result<CpuMask, Fault> {
    let bytes = mem.slice(addr, MASK_BYTES)?;
    let mut mask = CpuMask::EMPTY;
    for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        mask.set_word(index, u64::from_le_bytes(*word));
    }
    Ok(mask)
}

/// Writes a mask to a guest address.
pub(crate) fn write_mask(mem: &mut Memory, addr: GuestAddr, mask: &CpuMask) -> Result<(), Fault> {
    let bytes = mem.slice_mut(addr, MASK_BYTES)?;
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(mask.words()) {
        *to = word.to_le_bytes();
    }
    Ok(())
}

/// Which cids a `struct scx_cmask` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CmaskRange {
    base: u32,
    count: u32,
}

impl CmaskRange {
    /// That of the cmask at an address, from its header.
    pub(crate) fn read(mem: &Memory, at: GuestAddr) -> Result<CmaskRange, Fault> {
        let (base, count) = (mem.read_u32(at)?, mem.read_u32(at.offset(4))?);
        Ok(CmaskRange { base, count: count.min(CMASK_LIMIT).min(u32::MAX - base) })
    }

    /// Bytes of such a cmask, its header included.
    pub(crate) fn bytes(self) -> u64 {
        debug_assert!(self.base.checked_add(self.count).is_some(), "the range was cut when it was read");
        let words = match self.count {
            0 => 0,
            count => (self.base + count - 1) / 64 - self.base / 64 + 1,
        };
        CMASK_BITS + u64::from(words) * 8
    }

    /// The word of a cid in the cmask at an address.
    fn word(self, at: GuestAddr, cid: u32) -> GuestAddr {
        at.offset(CMASK_BITS + u64::from(cid / 64 - self.base / 64) * 8)
    }

    /// The cids whose bits are set.
    pub(crate) fn cids(self, mem: &Memory, at: GuestAddr) -> Result<Vec<u32>, Fault> {
        let mut cids = Vec::new();
        for cid in self.base..self.base + self.count {
            if mem.read_u64(self.word(at, cid))? >> (cid % 64) & 1 != 0 {
                cids.push(cid);
            }
        }
        Ok(cids)
    }

    /// Sets exactly the bits for which `wanted` holds; bits beyond the range stay as they are.
    pub(crate) fn fill(
        self,
        mem: &mut Memory,
        at: GuestAddr,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(), Fault> {
        for cid in self.base..self.base + self.count {
            let word = self.word(at, cid);
            let old = mem.read_u64(word)?;
            let bit = 1u64 << (cid % 64);
            mem.write_u64(word, if wanted(cid) { old | bit } else { old & !bit })?;
        }
        Ok(())
    }
}
