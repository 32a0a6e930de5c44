//! Proportions observed in few cases.

use statrs::distribution::{Beta, ContinuousCDF};

/// The 95 % interval of a proportion that was observed as `cases` in `of` (Clopper and
/// Pearson, "The use of confidence or fiducial limits", 1934): conservative, exact for any
/// number of cases. Nothing without cases, or with more than there are.
pub fn proportion_interval(cases: u64, of: u64) -> Option<(f64, f64)> {
    if of == 0 || cases > of {
        return None;
    }
    let (hits, misses) = (cases as f64, (of - cases) as f64);
    let quantile = |a: f64, b: f64, p: f64| Beta::new(a, b).ok().map(|beta| beta.inverse_cdf(p));
    let low = if cases == 0 { 0.0 } else { quantile(hits, misses + 1.0, 0.025)? };
    let high = if cases == of { 1.0 } else { quantile(hits + 1.0, misses, 0.975)? };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabulated_intervals() {
        // Binomial tables: 3 of 6, 8 of 9, 0 of 10.
        for ((cases, of), (low, high)) in
            [((3, 6), (0.1181, 0.8819)), ((8, 9), (0.5175, 0.9972)), ((0, 10), (0.0, 0.3085))]
        {
            let found = proportion_interval(cases, of).unwrap();
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{cases} {found:?}");
        }
        assert_eq!(proportion_interval(10, 10).unwrap().1.to_bits(), 1.0f64.to_bits());
        assert_eq!((proportion_interval(0, 0), proportion_interval(3, 2)), (None, None));
    }
}
