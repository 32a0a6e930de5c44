//! The buffer that a task walks, one cache line at a time.

use memmap2::MmapMut;
use std::io;

use super::doing::{Doing, Failure};

/// Stride of a buffer walk in bytes: the cache line of the machines that we know.
const LINE: usize = 64;

/// A buffer that is mapped when it is first walked.
pub(super) struct Walk {
    mapped: Option<MmapMut>,
    /// Its length, bytes: that of the longest walk.
    longest: usize,
}

impl Walk {
    pub(super) fn new(longest: usize) -> Walk {
        Walk { mapped: None, longest }
    }

    /// Writes to each cache line of the first `bytes`.
    pub(super) fn touch(&mut self, bytes: usize) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure(Doing::Memory, error);
        let walked = match &mut self.mapped {
            Some(walked) => walked,
            none => none.insert(MmapMut::map_anon(self.longest.max(1)).map_err(failed)?),
        };
        for line in walked[..bytes].chunks_mut(LINE) {
            line[0] = line[0].wrapping_add(1);
        }
        std::hint::black_box(walked);
        Ok(())
    }
}
