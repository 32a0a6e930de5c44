//! Random draws without transcendental functions, so that every host draws the
//! same numbers: results of `ln` and `exp` may differ in the last bit.

use schedlab_base::{DurationNs, Prng};

/// One exponentially distributed span with that mean, rounded down to ns. Von
/// Neumann's method (1951): runs of falling uniform draws; comparisons only.
pub(super) fn exponential(prng: &mut Prng, mean: DurationNs) -> DurationNs {
    let mut whole = 0u64;
    loop {
        let first = prng.next_u64();
        let (mut last, mut length) = (first, 1u32);
        loop {
            let next = prng.next_u64();
            if next >= last {
                break;
            }
            last = next;
            length += 1;
        }
        if length % 2 == 1 {
            let fraction = (u128::from(mean.0) * u128::from(first)) >> 64;
            return mean * whole + DurationNs(fraction as u64);
        }
        whole += 1;
    }
}

/// One Poisson distributed count: arrivals of unit-mean exponential gaps before
/// `mean`.
pub(super) fn poisson(prng: &mut Prng, mean: u64) -> u64 {
    const UNIT: DurationNs = DurationNs(1 << 32);
    let (mut elapsed, mut arrivals) = (exponential(prng, UNIT), 0);
    while elapsed < UNIT * mean {
        elapsed += exponential(prng, UNIT);
        arrivals += 1;
    }
    arrivals
}

/// Brings a list into a random order (Fisher and Yates).
pub(super) fn shuffle<T>(prng: &mut Prng, list: &mut [T]) {
    for last in (1..list.len()).rev() {
        list.swap(last, prng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_tails_are_right() {
        let mut prng = Prng::new(3);
        let mean = DurationNs::from_ms(4);
        let draws: Vec<u64> = (0..100_000).map(|_| exponential(&mut prng, mean).0).collect();
        let average = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!((average / mean.0 as f64 - 1.0).abs() < 0.02, "{average}");
        // P(X > 2 mean) = exp(-2) = 0.1353.
        let tail = draws.iter().filter(|&&draw| draw > 2 * mean.0).count();
        assert!((13_000..14_100).contains(&tail), "{tail}");
        let counts: u64 = (0..100_000).map(|_| poisson(&mut prng, 2)).sum();
        assert!((198_000..202_000).contains(&counts), "{counts}");
    }
}
