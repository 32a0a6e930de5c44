//! Student's t: intervals of means and of the difference of two means.

use crate::describe::{Moments, StatsError};
use crate::level::Level;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A symmetric interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The middle of the interval.
    pub center: f64,
    /// Half of its width.
    pub half_width: f64,
}

/// Two means compared as ministat(1) does it: equal variances assumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoSample {
    /// The level of the interval.
    pub level: Level,
    /// Mean of the candidate minus mean of the reference.
    pub difference: f64,
    /// The interval is `difference +/- half_width`.
    pub half_width: f64,
    /// Difference in percent of the reference's mean; nothing when that is 0.
    pub percent: Option<Interval>,
    /// The pooled standard deviation.
    pub pooled_sd: f64,
    /// Degrees of freedom, n + m - 2.
    pub freedom: usize,
    /// True when the interval does not contain 0.
    pub proven: bool,
}

/// Two means compared without assuming equal variances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// The level of the interval.
    pub level: Level,
    /// Mean of the candidate minus mean of the reference.
    pub difference: f64,
    /// The interval is `difference +/- half_width`.
    pub half_width: f64,
    /// Degrees of freedom after Welch and Satterthwaite.
    pub freedom: f64,
    /// Two-sided p value.
    pub p_value: f64,
    /// True when the interval does not contain 0.
    pub proven: bool,
}

/// The two-sided quantile of Student's t for `freedom` >= 1.
pub(crate) fn t_quantile(level: Level, freedom: f64) -> f64 {
    distribution(freedom).inverse_cdf(level.upper_probability())
}

/// The two-sided quantile of the normal distribution.
pub(crate) fn normal_quantile(level: Level) -> f64 {
    Normal::standard().inverse_cdf(level.upper_probability())
}

fn distribution(freedom: f64) -> StudentsT {
    assert!(freedom > 0.0, "Student's t needs at least one degree of freedom");
    StudentsT::new(0.0, 1.0, freedom).expect("a positive number of degrees of freedom is valid")
}

fn need_two(sample: &Moments) -> Result<(), StatsError> {
    if sample.count < 2 {
        return Err(StatsError::TooFew { have: sample.count, need: 2 });
    }
    if !sample.mean.is_finite() || !sample.sd.is_finite() {
        return Err(StatsError::NotFinite);
    }
    Ok(())
}

/// The interval that holds the true mean with the given confidence:
/// mean +/- t(n-1) * s / sqrt(n). Assumes values that are independent and about
/// normal.
///
/// # Errors
/// Fewer than two values.
pub fn mean_interval(sample: &Moments, level: Level) -> Result<Interval, StatsError> {
    need_two(sample)?;
    let count = sample.count as f64;
    let half_width = t_quantile(level, count - 1.0) * sample.sd / count.sqrt();
    Ok(Interval { center: sample.mean, half_width })
}

/// Compares two means as ministat(1) prints it: pooled standard deviation
/// s = sqrt(((n-1) v_x + (m-1) v_y) / (n+m-2)), half width t * s * sqrt(1/n + 1/m).
/// The quantile is rounded to three decimals as in ministat's table, so that
/// published comparisons come out to the printed digit (n = m = 3 at 95 %: 2.776).
/// The percentage's half width counts the error of both means, as in ministat 20251113. The reference's variance is weighted with
/// the square of the ratio of the means. In ministat 20150715 the reference's mean was taken for exact.
///
/// # Errors
/// A sample of fewer than two values.
pub fn student(candidate: &Moments, reference: &Moments, level: Level) -> Result<TwoSample, StatsError> {
    need_two(candidate)?;
    need_two(reference)?;
    let (n, m) = (candidate.count as f64, reference.count as f64);
    let freedom = candidate.count + reference.count - 2;
    let squares = (n - 1.0) * candidate.variance() + (m - 1.0) * reference.variance();
    let pooled_sd = (squares / freedom as f64).sqrt();
    let quantile = (t_quantile(level, freedom as f64) * 1000.0).round() / 1000.0;
    let half_width = quantile * pooled_sd * (1.0 / n + 1.0 / m).sqrt();
    let difference = candidate.mean - reference.mean;
    let percent = (reference.mean.abs() > 0.0).then(|| {
        let ratio = candidate.mean / reference.mean;
        let squares = (n - 1.0) * candidate.variance() + (m - 1.0) * reference.variance() * ratio * ratio;
        let error = (squares / freedom as f64).sqrt() * (1.0 / n + 1.0 / m).sqrt();
        Interval {
            center: 100.0 * difference / reference.mean,
            half_width: 100.0 * quantile * error / reference.mean.abs(),
        }
    });
    let proven = difference.abs() > half_width;
    Ok(TwoSample { level, difference, half_width, percent, pooled_sd, freedom, proven })
}

/// Welch's test: like [`student`] without the assumption of equal variances
/// (Welch, "The generalization of 'Student's' problem", Biometrika 34, 1947).
/// Two samples without any spread differ for certain when their means differ.
///
/// # Errors
/// A sample of fewer than two values.
pub fn welch(candidate: &Moments, reference: &Moments, level: Level) -> Result<Welch, StatsError> {
    need_two(candidate)?;
    need_two(reference)?;
    let share = |sample: &Moments| sample.variance() / sample.count as f64;
    let (a, b) = (share(candidate), share(reference));
    let difference = candidate.mean - reference.mean;
    let error = (a + b).sqrt();
    if error <= 0.0 {
        let proven = difference.abs() > 0.0;
        let p_value = if proven { 0.0 } else { 1.0 };
        let freedom = (candidate.count + reference.count - 2) as f64;
        return Ok(Welch { level, difference, half_width: 0.0, freedom, p_value, proven });
    }
    let weight = |part: f64, count: usize| part * part / (count - 1) as f64;
    let freedom = (a + b).powi(2) / (weight(a, candidate.count) + weight(b, reference.count));
    let half_width = t_quantile(level, freedom) * error;
    let tail = distribution(freedom).cdf(-(difference / error).abs());
    let proven = difference.abs() > half_width;
    Ok(Welch { level, difference, half_width, freedom, p_value: (2.0 * tail).min(1.0), proven })
}

/// The mean of differences of pairs: values that differ in one thing only, such as two
/// schedulers with the same seed. Assumes differences that are independent and about normal,
/// and nothing of the values themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Mean of the differences, candidate minus reference.
    pub difference: f64,
    /// The interval is `difference +/- half_width`.
    pub half_width: f64,
    /// Standard deviation of the differences.
    pub sd: f64,
    /// Two-sided p value.
    pub p_value: f64,
    /// True when the interval does not contain 0.
    pub proven: bool,
}

/// Student's test of pairs. Equal differences other than 0 are proven for certain.
///
/// # Errors
/// Fewer than two pairs, or samples of different size: the error names the smaller one.
pub fn paired(candidate: &[f64], reference: &[f64], level: Level) -> Result<Paired, StatsError> {
    if candidate.len() != reference.len() {
        let have = candidate.len().min(reference.len());
        return Err(StatsError::TooFew { have, need: candidate.len().max(reference.len()) });
    }
    let differences: Vec<f64> = candidate.iter().zip(reference).map(|(a, b)| a - b).collect();
    let moments = Moments::of(&differences)?;
    let Interval { center: difference, half_width } = mean_interval(&moments, level)?;
    let error = moments.sd / (moments.count as f64).sqrt();
    let proven = difference.abs() > half_width;
    let p_value = match error > 0.0 {
        true => 2.0 * distribution(moments.count as f64 - 1.0).cdf(-(difference / error).abs()),
        false if proven => 0.0,
        false => 1.0,
    };
    Ok(Paired { difference, half_width, sd: moments.sd, p_value: p_value.min(1.0), proven })
}

/// The most runs that [`runs_for`] advises. Chosen: more are no advice.
const MOST_RUNS: usize = 1000;

/// How many values a sample needs for the interval of its mean to be no wider than
/// +/- `half_width`, if its deviation stays `sd`. Nothing where that takes more than a thousand,
/// or where `half_width` is 0.
pub fn runs_for(sd: f64, half_width: f64, level: Level) -> Option<usize> {
    let enough = |count: usize| {
        let count = count as f64;
        t_quantile(level, count - 1.0) * sd / count.sqrt() < half_width
    };
    (2..=MOST_RUNS).find(|&count| enough(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f64]) -> Moments {
        Moments::of(values).unwrap()
    }

    #[test]
    fn table_of_t() {
        let table = [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (100.0, 1.984)];
        for (freedom, value) in table {
            assert!((t_quantile(Level::P95, freedom) - value).abs() < 6e-4, "{freedom}");
        }
        assert!((t_quantile(Level::P80, 5.0) - 1.476).abs() < 6e-4);
        assert!((t_quantile(Level::P995, 9.0) - 3.690).abs() < 6e-4);
    }

    #[test]
    fn too_small_samples_have_no_interval() {
        let one = moments(&[1.0]);
        let error = StatsError::TooFew { have: 1, need: 2 };
        assert_eq!(mean_interval(&one, Level::P95), Err(error.clone()));
        assert_eq!(student(&one, &moments(&[1.0, 2.0]), Level::P95), Err(error.clone()));
        assert_eq!(welch(&moments(&[1.0, 2.0]), &one, Level::P95), Err(error));
    }

    #[test]
    fn percentages_are_those_of_ministat() {
        // ministat 20251113 on these samples: 638% +/- 404.4%.
        let (few, many) = (moments(&[1.0, 2.0, 3.0, 4.0, 5.0]), moments(&[20.5, 21.0, 22.0, 23.0, 24.2]));
        let percent = student(&many, &few, Level::P95).unwrap().percent.unwrap();
        assert!(
            (percent.center - 638.0).abs() < 1e-9 && (percent.half_width - 404.4).abs() < 0.05,
            "{percent:?}"
        );
    }

    #[test]
    fn equal_constants_do_not_differ_and_unequal_ones_do() {
        let (a, b) = (moments(&[5.0; 3]), moments(&[6.0; 3]));
        assert!(!student(&a, &a, Level::P95).unwrap().proven);
        assert!(student(&b, &a, Level::P95).unwrap().proven);
        assert!(!welch(&a, &a, Level::P95).unwrap().proven);
        assert!(welch(&b, &a, Level::P95).unwrap().p_value < 1e-12);
        let zero = moments(&[0.0, 0.0]);
        assert_eq!(student(&a, &zero, Level::P95).unwrap().percent, None);
    }

    #[test]
    fn welch_on_a_textbook_example() {
        // Extra hours of sleep under two drugs (Student, "The probable error of a mean",
        // 1908): t = -1.8608, df = 17.776, p = 0.07939, interval -3.365 to 0.205.
        let x = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let y = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let result = welch(&moments(&x), &moments(&y), Level::P95).unwrap();
        assert!((result.p_value - 0.07939).abs() < 1e-5, "{result:?}");
        assert!((result.freedom - 17.776).abs() < 1e-3, "{result:?}");
        assert!((result.difference - result.half_width + 3.3654832).abs() < 1e-6, "{result:?}");
        assert!(!result.proven);
    }

    #[test]
    fn pairs_on_a_textbook_example() {
        // The same hours of sleep, as they were meant: one patient, two drugs. t = -4.0621,
        // p = 0.002833, interval -2.4598858 to -0.7001142.
        let x = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let y = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let result = paired(&x, &y, Level::P95).unwrap();
        assert!((result.p_value - 0.002833).abs() < 1e-6 && result.proven, "{result:?}");
        assert!((result.difference - result.half_width + 2.4598858).abs() < 1e-6, "{result:?}");
        assert!(paired(&[2.0, 3.0], &[1.0, 2.0], Level::P95).unwrap().p_value < 1e-12);
        assert!(!paired(&[2.0, 3.0], &[2.0, 3.0], Level::P95).unwrap().proven);
        assert!(
            paired(&[2.0, 3.0], &[1.0], Level::P95).is_err() && paired(&[2.0], &[1.0], Level::P95).is_err()
        );
    }

    #[test]
    fn runs_that_a_width_needs() {
        // 2.228 / sqrt(11) = 0.672, 2.262 / sqrt(10) = 0.715.
        assert_eq!(runs_for(1.0, 0.7, Level::P95), Some(11));
        assert_eq!((runs_for(1.0, 0.001, Level::P95), runs_for(1.0, 0.0, Level::P95)), (None, None));
        assert_eq!(runs_for(0.0, 0.5, Level::P95), Some(2));
    }

    #[test]
    fn interval_of_a_mean() {
        let interval = mean_interval(&moments(&[1.0, 2.0, 3.0, 4.0, 5.0]), Level::P95).unwrap();
        assert!((interval.center - 3.0).abs() < 1e-12);
        assert!((interval.half_width - 1.963243).abs() < 1e-4);
    }
}
