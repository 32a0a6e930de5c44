//! The random number generator: small, seeded, integer only.

/// xoshiro256** seeded by SplitMix64 (Blackman and Vigna, "Scrambled linear
/// pseudorandom number generators", 2018). One (seed, stream) pair gives one
/// sequence on every host; nothing in the deterministic rooms draws elsewhere.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Prng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Prng {
        Prng::stream(seed, 0)
    }

    /// An independent generator for part `stream` of the run with `seed`.
    pub fn stream(seed: u64, stream: u64) -> Prng {
        let mut stream = stream;
        let mut mix = seed ^ split_mix(&mut stream);
        Prng { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound` (multiply-shift, bias below 2^-32 for bounds below
    /// 2^32). `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no element");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `num / den`.
    pub fn chance(&mut self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_depend_on_seed_and_stream() {
        let draw = |seed, stream| Prng::stream(seed, stream).next_u64();
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn below_stays_below() {
        let mut prng = Prng::new(1);
        assert!((0..1000).all(|_| prng.below(7) < 7));
    }
}
