//! Memory that reads as zero and costs the host nothing before it is touched: one anonymous mapping.

use memmap2::{MmapOptions, MmapRaw};
use std::io;

/// Bytes that stay where they are, and read as zero until they are written.
#[derive(Debug)]
pub struct Untouched {
    map: MmapRaw,
}

impl Untouched {
    /// So many bytes.
    ///
    /// # Errors
    /// The host gives no address space.
    pub fn new(len: usize) -> io::Result<Untouched> {
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Untouched { map: map.into() })
    }

    /// Bytes that read as zero again, perhaps elsewhere.
    ///
    /// # Errors
    /// The host gives no address space; the bytes are as they were then.
    pub fn renew(&mut self) -> io::Result<()> {
        *self = Untouched::new(self.size())?;
        Ok(())
    }

    /// The first byte, aligned to a page.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// The first byte, to be written.
    #[inline(always)]
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// How many bytes there are.
    #[inline(always)]
    #[must_use]
    pub fn size(&self) -> usize {
        self.map.len()
    }

    /// The mapping, for advice to the host.
    #[must_use]
    pub fn mapping(&self) -> &MmapRaw {
        &self.map
    }
}
