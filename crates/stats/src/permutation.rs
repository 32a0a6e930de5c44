//! The permutation test of two means: assumes only that the values could be
//! exchanged if nothing differed.

use crate::describe::{StatsError, mean};
use schedlab_base::Prng;

/// The answer of a permutation test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PermutationTest {
    /// Two-sided p value: the part of the relabellings whose means lie at least as
    /// far apart as those observed.
    pub p_value: f64,
    /// True when every relabelling was counted, false when they were drawn.
    pub exact: bool,
}

/// Up to this many relabellings all of them are counted. Chosen: 8 against 8
/// values (12,870) stay exact and take milliseconds.
const EXACT_LIMIT: u128 = 20_000;

/// Drawn relabellings otherwise. Chosen: a p value of 0.05 is then known to
/// +/- 0.005.
const DRAWS: u32 = 10_000;

/// Most values of the smaller sample. Chosen: the draws take seconds then; means of more values than this are normal
/// enough for Welch's test.
const LARGEST: usize = 100_000;

/// Tests whether the means of two samples differ. Exact for small samples, else
/// drawn with the generator of `seed` and corrected by one (Phipson and Smyth,
/// "Permutation p-values should never be zero", 2010).
///
/// # Errors
/// An empty sample, two very large ones, or a value that is not finite.
pub fn permutation_test(x: &[f64], y: &[f64], seed: u64) -> Result<PermutationTest, StatsError> {
    for sample in [x, y] {
        if sample.is_empty() {
            return Err(StatsError::TooFew { have: 0, need: 1 });
        }
        if sample.iter().any(|value| !value.is_finite()) {
            return Err(StatsError::NotFinite);
        }
    }
    // The smaller group is drawn: all others are in the larger one.
    let (x, y) = if x.len() <= y.len() { (x, y) } else { (y, x) };
    if x.len() > LARGEST {
        return Err(StatsError::TooMany { have: x.len(), most: LARGEST });
    }
    let pooled: Vec<f64> = x.iter().chain(y).copied().collect();
    let center = mean(&pooled).unwrap_or(0.0);
    let pooled: Vec<f64> = pooled.iter().map(|value| value - center).collect();
    let total: f64 = pooled.iter().sum();
    let scale: f64 = pooled.iter().map(|value| value.abs()).sum();
    let gap = Gap { total, x: x.len() as f64, y: y.len() as f64 };
    // Sums are taken in different orders: leave room for rounding.
    let observed = gap.of(pooled[..x.len()].iter().sum()) - scale * 1e-12;
    if combinations(pooled.len(), x.len()) <= EXACT_LIMIT {
        let mut counts = (0u64, 0u64);
        choose(&pooled, x.len(), 0.0, &mut |sum| {
            counts.0 += u64::from(gap.of(sum) >= observed);
            counts.1 += 1;
        });
        return Ok(PermutationTest { p_value: counts.0 as f64 / counts.1 as f64, exact: true });
    }
    Ok(PermutationTest { p_value: drawn(pooled, x.len(), observed, &gap, seed), exact: false })
}

/// The distance of two means from the sum of one group.
struct Gap {
    total: f64,
    x: f64,
    y: f64,
}

impl Gap {
    fn of(&self, sum_x: f64) -> f64 {
        (sum_x / self.x - (self.total - sum_x) / self.y).abs()
    }
}

/// Calls `visit` with the sum of every choice of `left` of the values.
fn choose(values: &[f64], left: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if left == 0 {
        return visit(sum);
    }
    for first in 0..=values.len() - left {
        choose(&values[first + 1..], left - 1, sum + values[first], visit);
    }
}

fn drawn(mut values: Vec<f64>, size: usize, observed: f64, gap: &Gap, seed: u64) -> f64 {
    let mut prng = Prng::new(seed);
    let mut extreme = 0u32;
    for _ in 0..DRAWS {
        for place in 0..size {
            let other = place + prng.below((values.len() - place) as u64) as usize;
            values.swap(place, other);
        }
        extreme += u32::from(gap.of(values[..size].iter().sum()) >= observed);
    }
    f64::from(extreme + 1) / f64::from(DRAWS + 1)
}

/// `n` over `k`, saturating.
fn combinations(n: usize, k: usize) -> u128 {
    let k = k.min(n - k) as u128;
    let mut result = 1u128;
    for step in 1..=k {
        let Some(product) = result.checked_mul(n as u128 - k + step) else { return u128::MAX };
        result = product / step;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        // 20 ways to choose 3 of 6; only the observed split and its mirror are as far.
        let test = permutation_test(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0], 1).unwrap();
        assert_eq!(test, PermutationTest { p_value: 0.1, exact: true });
        assert_eq!(combinations(16, 8), 12_870);
        assert_eq!(combinations(500, 250), u128::MAX);
    }

    #[test]
    fn degenerate_samples() {
        assert!(permutation_test(&[], &[1.0], 1).is_err());
        assert!(permutation_test(&[f64::INFINITY], &[1.0], 1).is_err());
        let same = permutation_test(&[4.0; 5], &[4.0; 5], 1).unwrap();
        assert!((same.p_value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn drawn_answers_depend_on_the_seed_alone() {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let y: Vec<f64> = (0..20).map(|v| f64::from(v) + 9.0).collect();
        let test = permutation_test(&x, &y, 7).unwrap();
        assert_eq!(test, permutation_test(&x, &y, 7).unwrap());
        assert!(!test.exact && test.p_value < 0.001, "{test:?}");
    }
}
