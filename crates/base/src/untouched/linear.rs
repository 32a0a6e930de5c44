//! Memory that reads as zero and costs the host nothing before it is touched: pages of WebAssembly's linear memory.

use std::arch::wasm32::memory_grow;
use std::io;
use std::ptr::NonNull;

/// Bytes of a page of linear memory.
const PAGE: usize = 64 << 10;

/// Bytes that stay where they are, and read as zero until they are written. Linear memory never shrinks: what is dropped stays
/// taken until the instance ends.
#[derive(Debug)]
pub struct Untouched {
    first: NonNull<u8>,
    size: usize,
}

// SAFETY: plain bytes that nothing else knows of. Their owner guards each write, as with a mapping.
unsafe impl Send for Untouched {}
// SAFETY: as above.
unsafe impl Sync for Untouched {}

impl Untouched {
    /// So many bytes.
    ///
    /// # Errors
    /// Linear memory cannot grow so far.
    pub fn new(len: usize) -> io::Result<Untouched> {
        let before = memory_grow::<0>(len.div_ceil(PAGE));
        let first = if before == usize::MAX { None } else { NonNull::new((before * PAGE) as *mut u8) };
        let first = first.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Untouched { first, size: len })
    }

    /// Bytes that read as zero again.
    ///
    /// # Errors
    /// None.
    pub fn renew(&mut self) -> io::Result<()> {
        // SAFETY: the bytes are ours, and `&mut self` makes them ours alone.
        unsafe { self.first.write_bytes(0, self.size) };
        Ok(())
    }

    /// The first byte, aligned to a page.
    #[inline(always)]
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.first.as_ptr()
    }

    /// The first byte, to be written.
    #[inline(always)]
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    /// How many bytes there are.
    #[inline(always)]
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}
