//! What a sample looks like: mean, spread, order statistics.

use std::fmt;

/// Why a question about samples has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsError {
    /// The sample has fewer values than the question needs.
    TooFew {
        /// How many there are.
        have: usize,
        /// How many are needed.
        need: usize,
    },
    /// The sample has more values than the question can be asked about.
    TooMany {
        /// How many there are.
        have: usize,
        /// How many there may be.
        most: usize,
    },
    /// A value is infinite or not a number.
    NotFinite,
}

impl fmt::Display for StatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsError::TooFew { have, need } => {
                write!(f, "{have} value(s), at least {need} are needed")
            }
            StatsError::TooMany { have, most } => write!(f, "{have} values, at most {most} are possible"),
            StatsError::NotFinite => f.write_str("a value is not a finite number"),
        }
    }
}

impl std::error::Error for StatsError {}

/// Size, mean and standard deviation of a sample: all that Student's t needs, so
/// that published summaries can be compared without their raw values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with divisor n - 1; 0 for a single value, of which nothing is known ([`Moments::known_sd`]).
    pub sd: f64,
}

impl Moments {
    /// The moments of a sample.
    ///
    /// # Errors
    /// An empty sample, or a value that is not finite.
    pub fn of(values: &[f64]) -> Result<Moments, StatsError> {
        if values.iter().any(|value| !value.is_finite()) {
            return Err(StatsError::NotFinite);
        }
        let mean = mean(values).ok_or(StatsError::TooFew { have: 0, need: 1 })?;
        Ok(Moments { count: values.len(), mean, sd: sd(values).unwrap_or(0.0) })
    }

    /// The standard deviation where there is one: a single value has none.
    pub fn known_sd(&self) -> Option<f64> {
        (self.count > 1).then_some(self.sd)
    }

    /// The variance with divisor n - 1.
    pub fn variance(&self) -> f64 {
        self.sd * self.sd
    }
}

/// The arithmetic mean; nothing of an empty sample.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation with divisor n - 1 (two passes); nothing of fewer than
/// two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The value below which the part `q` (0 to 1) of the sample lies, interpolated
/// linearly between order statistics (Hyndman and Fan, "Sample quantiles in
/// statistical packages", 1996, type 7). Nothing of an empty sample.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = q * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (place - below as f64) * (sorted[above] - sorted[below]))
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_description() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let moments = Moments::of(&values).unwrap();
        assert!((moments.mean - 5.0).abs() < 1e-12);
        assert!((moments.sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(median(&values), Some(4.5));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), Some(1.75));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), Some(3.0));
    }

    #[test]
    fn degenerate_samples() {
        assert_eq!((mean(&[]), sd(&[1.0]), median(&[])), (None, None, None));
        assert_eq!(Moments::of(&[]), Err(StatsError::TooFew { have: 0, need: 1 }));
        assert_eq!(Moments::of(&[1.0, f64::NAN]), Err(StatsError::NotFinite));
        assert_eq!(Moments::of(&[3.0]), Ok(Moments { count: 1, mean: 3.0, sd: 0.0 }));
        assert_eq!(sd(&[4.0, 4.0, 4.0]), Some(0.0));
        assert_eq!(quantile(&[1.0], 2.0), None);
    }
}
