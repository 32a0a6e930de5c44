//! How many times as large a mean is as another one, with the error of both.

use crate::describe::Moments;
use crate::level::Level;
use crate::student::{t_quantile, welch};

/// A relative change and where it may lie. The interval reaches further up than down: the smaller the reference may be, the
/// more the change may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The change in percent of the reference's mean.
    pub percent: f64,
    /// The change's lowest and highest value at the level.
    pub interval: Option<[f64; 2]>,
}

/// Two means with the variances of the means, and their covariance.
#[derive(Clone, Copy, Debug)]
struct Means {
    candidate: f64,
    reference: f64,
    variances: [f64; 2],
    covariance: f64,
}

impl Means {
    /// Bounds of the ratio at the quantile `t`: all ratios r for which candidate - r * reference may be 0. Source: Fieller, "Some
    /// problems in interval estimation", Journal of the Royal Statistical Society B 16, 1954.
    ///
    /// 1 is among them if and only if 0 is in the interval of the difference. Nothing where the reference's own interval
    /// contains 0: then they are not bounded.
    fn fieller(&self, t: f64) -> Option<[f64; 2]> {
        let [of_candidate, of_reference] = self.variances.map(|variance| t * t * variance);
        let a = self.reference * self.reference - of_reference;
        let b = self.candidate * self.reference - t * t * self.covariance;
        let c = self.candidate * self.candidate - of_candidate;
        let root = (b * b - a * c).max(0.0).sqrt();
        (a > 0.0).then(|| [(b - root) / a, (b + root) / a])
    }

    /// Bounds from the error of the ratio's logarithm, to first order: bounded for all means above 0.
    fn by_logarithm(&self, t: f64) -> Option<[f64; 2]> {
        let positive = self.candidate > 0.0 && self.reference > 0.0;
        let [of_candidate, of_reference] = self.variances;
        let both = self.candidate * self.reference;
        let variance = of_candidate / self.candidate.powi(2) + of_reference / self.reference.powi(2)
            - 2.0 * self.covariance / both;
        let (ratio, factor) = (self.candidate / self.reference, (t * variance.max(0.0).sqrt()).exp());
        (positive && factor.is_finite()).then_some([ratio / factor, ratio * factor])
    }
}

/// The change of the mean from the reference to the candidate, in percent. `paired` values differ in one thing only and stand in
/// the same order. Nothing where the reference's mean is 0. The interval is Fieller's; where the reference's own interval contains
/// 0, it is that of the ratio's logarithm. Of samples without a value below 0 it never goes below -100 %.
pub fn relative_change(candidate: &[f64], reference: &[f64], paired: bool, level: Level) -> Option<Change> {
    let (a, b) = (Moments::of(candidate).ok()?, Moments::of(reference).ok()?);
    if b.mean.abs() <= 0.0 {
        return None;
    }
    let percent = 100.0 * (a.mean - b.mean) / b.mean;
    let interval = interval((candidate, &a), (reference, &b), paired, level);
    let least =
        if candidate.iter().chain(reference).all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
    let percents = |ratios: [f64; 2]| ratios.map(|ratio| 100.0 * (ratio.max(least) - 1.0));
    Some(Change { percent, interval: interval.map(percents) })
}

fn interval(
    (candidate, a): (&[f64], &Moments),
    (reference, b): (&[f64], &Moments),
    paired: bool,
    level: Level,
) -> Option<[f64; 2]> {
    let test = welch(a, b, level).ok()?;
    let (freedom, covariance) = if paired {
        let products = candidate.iter().zip(reference).map(|(x, y)| (x - a.mean) * (y - b.mean));
        let count = a.count as f64;
        (count - 1.0, products.sum::<f64>() / (count - 1.0) / count)
    } else {
        (test.freedom, 0.0)
    };
    let variances = [a, b].map(|side| side.variance() / side.count as f64);
    let means = Means { candidate: a.mean, reference: b.mean, variances, covariance };
    let t = t_quantile(level, freedom);
    means.fieller(t).or_else(|| means.by_logarithm(t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::student::paired;

    fn change(candidate: &[f64], reference: &[f64]) -> [f64; 2] {
        relative_change(candidate, reference, false, Level::P95).unwrap().interval.unwrap()
    }

    #[test]
    fn the_references_error_counts() {
        // The reference taken for exact gives 638 % +/- 74.9.
        let (few, many) = ([1.0, 2.0, 3.0, 4.0, 5.0], [20.5, 21.0, 22.0, 23.0, 24.2]);
        let found = relative_change(&many, &few, false, Level::P95).unwrap();
        let [low, high] = found.interval.unwrap();
        assert!((found.percent - 638.0).abs() < 1e-9, "{found:?}");
        assert!(low < 638.0 - 200.0 && high > 638.0 + 400.0, "{found:?}");
        // The bounds are ratios at which the difference is just proven.
        for bound in [low, high] {
            let scaled = few.map(|value| value * (1.0 + bound / 100.0));
            let (a, b) = (Moments::of(&many).unwrap(), Moments::of(&few).unwrap());
            let t = t_quantile(Level::P95, welch(&a, &b, Level::P95).unwrap().freedom);
            let scaled = Moments::of(&scaled).unwrap();
            let error = ((a.variance() + scaled.variance()) / 5.0).sqrt();
            assert!(((a.mean - scaled.mean).abs() - t * error).abs() < 1e-9, "{bound}");
        }
    }

    #[test]
    fn no_change_passes_what_is_possible() {
        let [low, high] = change(&[0.0, 0.0, 0.1, 9.0], &[5.0, 1.0, 9.0, 4.0]);
        assert!(low >= -100.0 && high.is_finite(), "{low} {high}");
        // The reference may be 0: bounded nevertheless.
        let [low, high] = change(&[4.0, 5.0, 6.0], &[0.1, 0.1, 9.0]);
        assert!((-100.0..0.0).contains(&low) && high > 0.0 && high.is_finite(), "{low} {high}");
        assert_eq!(relative_change(&[1.0, 2.0], &[0.0, 0.0], false, Level::P95), None);
        assert_eq!(relative_change(&[1.0], &[2.0, 3.0], false, Level::P95).unwrap().interval, None);
        assert!(change(&[6.0, 6.0], &[4.0, 4.0]).iter().all(|bound| (bound - 50.0).abs() < 1e-9));
    }

    #[test]
    fn it_contains_no_change_where_no_difference_is_proven() {
        let reference = [10.0, 14.0, 11.0, 19.0];
        for more in [0.2, 0.5, 1.0, 2.0, 4.0, 8.0] {
            let candidate = [10.1 + more, 13.5 + more, 11.4 + more, 19.2 + more];
            for pairs in [false, true] {
                let (a, b) = (Moments::of(&candidate).unwrap(), Moments::of(&reference).unwrap());
                let proven = if pairs {
                    paired(&candidate, &reference, Level::P95).unwrap().proven
                } else {
                    welch(&a, &b, Level::P95).unwrap().proven
                };
                let found = relative_change(&candidate, &reference, pairs, Level::P95).unwrap();
                let [low, high] = found.interval.unwrap();
                assert_eq!(proven, !(low <= 0.0 && 0.0 <= high), "{more} {pairs} {low} {high}");
            }
        }
    }
}
