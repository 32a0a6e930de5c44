//! The key of a judgement: all that is drawn comes from it.

use schedlab_base::Prng;
use sha2::{Digest, Sha256};

/// What names, parameters, lengths, orders and seeds are drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(pub String);

impl Key {
    /// The generator for one purpose. Every part counts, so that nothing about one load tells anything about another.
    pub(super) fn prng(&self, parts: &[&str]) -> Prng {
        let mut hash = Sha256::new();
        for part in [self.0.as_str()].iter().chain(parts) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let word = |at: usize| digest[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Prng::stream(word(0), word(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let draw = |key: &str, parts: &[&str]| Key(key.to_string()).prng(parts).next_u64();
        assert_eq!(draw("a", &["b", "c"]), draw("a", &["b", "c"]));
        assert_ne!(draw("a", &["b", "c"]), draw("a", &["bc"]));
        assert_ne!(draw("a", &["b"]), draw("b", &["a"]));
    }
}
