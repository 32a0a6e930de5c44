//! Inputs without an engine: those of the corpus, damaged copies of them, and bytes without meaning. The same seed gives
//! the same row.

use crate::Target;
use std::path::{Path, PathBuf};

/// A row of inputs.
#[derive(Debug)]
pub struct Noise {
    state: u64,
    corpus: Vec<Vec<u8>>,
    round: usize,
}

/// The corpus of a target in the tree: path and content, in order of path.
///
/// # Errors
/// A file that cannot be read.
pub fn corpus(target: &Target) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        inputs.push((path.clone(), std::fs::read(&path)?));
    }
    inputs.sort();
    Ok(inputs)
}

impl Noise {
    /// A row that begins with `seed`; the corpus is not empty.
    ///
    /// # Panics
    /// If it is.
    #[must_use]
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Noise {
        assert!(!corpus.is_empty(), "the corpus is empty");
        // Any state but 0; neighbouring seeds begin far from each other.
        Noise { state: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, corpus, round: 0 }
    }

    /// Bytes without meaning (xorshift).
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let state = &mut self.state;
        let mut next = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    /// The next input: every fourth is noise, the others have a few bytes changed.
    pub fn next_input(&mut self) -> Vec<u8> {
        let round = self.round;
        self.round += 1;
        if round % 4 == 3 {
            let sizes = self.bytes(2);
            return self.bytes(usize::from(u16::from_le_bytes([sizes[0], sizes[1]])) % 1024);
        }
        let mut input = self.corpus[round % self.corpus.len()].clone();
        for place in self.bytes(20).chunks_exact(5) {
            let at =
                u32::from_le_bytes([place[0], place[1], place[2], place[3]]) as usize % input.len().max(1);
            input.iter_mut().skip(at).take(1).for_each(|byte| *byte = place[4]);
        }
        input
    }
}
