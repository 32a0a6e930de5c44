//! Effect size: how far apart two means are, in standard deviations.

use crate::describe::{Moments, StatsError};
use crate::level::Level;
use crate::student::{Interval, normal_quantile, student};

/// Hedges' g: the difference of the means in pooled standard deviations, with the
/// correction 1 - 3 / (4 df - 1) for small samples (Hedges, "Distribution theory
/// for Glass's estimator of effect size", 1981). Nothing when neither sample has
/// any spread.
///
/// # Errors
/// A sample of fewer than two values.
pub fn hedges_g(candidate: &Moments, reference: &Moments) -> Result<Option<f64>, StatsError> {
    let test = student(candidate, reference, Level::P95)?;
    let correction = 1.0 - 3.0 / (4.0 * test.freedom as f64 - 1.0);
    Ok((test.pooled_sd > 0.0).then(|| test.difference / test.pooled_sd * correction))
}

/// Hedges' g with its interval at the level: the normal approximation with the variance
/// (n + m) / (n m) + g^2 / (2 (n + m)) (Hedges and Olkin, "Statistical methods for
/// meta-analysis", 1985). Rough below ten values a side.
///
/// # Errors
/// A sample of fewer than two values.
pub fn hedges_interval(
    candidate: &Moments,
    reference: &Moments,
    level: Level,
) -> Result<Option<Interval>, StatsError> {
    let Some(center) = hedges_g(candidate, reference)? else { return Ok(None) };
    let (n, m) = (candidate.count as f64, reference.count as f64);
    let variance = (n + m) / (n * m) + center * center / (2.0 * (n + m));
    Ok(Some(Interval { center, half_width: normal_quantile(level) * variance.sqrt() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_deviation_apart() {
        let at = |mean| Moments { count: 10, mean, sd: 2.0 };
        let g = hedges_g(&at(12.0), &at(10.0)).unwrap().unwrap();
        assert!((g - (1.0 - 3.0 / 71.0)).abs() < 1e-12);
        // With g = 0.958: 1.960 * sqrt(0.2 + 0.0229) = 0.9254.
        let interval = hedges_interval(&at(12.0), &at(10.0), Level::P95).unwrap().unwrap();
        assert!((interval.half_width - 0.9255).abs() < 1e-3, "{interval:?}");
        let flat = Moments { count: 3, mean: 1.0, sd: 0.0 };
        assert_eq!(hedges_g(&flat, &flat), Ok(None));
    }
}
