//! What `stat` says, as JSON: samples, and each against the first one. The form is `docs/results.md`.

use crate::ministat::{Against, moments_of};
use crate::names::visible_json;
use crate::result_file::Header;
use schedlab_stats::{Interval, Level, Moments, TwoSample, median};
use schemars::JsonSchema;
use serde::Serialize;

/// What `schedlab stat --json` writes: samples compared.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stat")]
pub(crate) struct File<'a> {
    /// What wrote the file, and in which form.
    schedlab: Header,
    /// As named on the command line.
    samples: Vec<Sample<'a>>,
    /// Each sample from the second on against the first one.
    differences: Vec<Difference<'a>>,
}

/// A sample, in its own unit.
#[derive(Serialize, JsonSchema)]
struct Sample<'a> {
    /// As on the command line.
    name: &'a str,
    /// Number of values.
    count: usize,
    /// The least value.
    min: f64,
    /// The greatest value.
    max: f64,
    /// Of an even count the middle of the two values, as in ministat 20251113 (20150715 took the upper one).
    median: f64,
    /// Mean of the values.
    mean: f64,
    /// Standard deviation, with divisor n - 1; null for a single value.
    sd: Option<f64>,
    /// The values.
    values: &'a [f64],
}

/// A sample against the first one.
#[derive(Serialize, JsonSchema)]
struct Difference<'a> {
    /// The sample.
    sample: &'a str,
    /// The first one.
    reference: &'a str,
    /// One entry a level; empty when a side has one value.
    student: Vec<Student>,
    /// Two-sided p value of Welch's test; null where there is none.
    p_welch: Option<f64>,
    /// Two-sided p value of the permutation test; null where there is none.
    p_permutation: Option<f64>,
    /// Effect size; null where there is none.
    hedges_g: Option<f64>,
    /// Half width of its interval, at the first level.
    hedges_g_half_width: Option<f64>,
}

/// Student's test of two samples at a level.
#[derive(Serialize, JsonSchema)]
struct Student {
    /// The level, in percent.
    confidence_percent: f64,
    /// Sample minus reference.
    difference: f64,
    /// Half width of its interval.
    half_width: f64,
    /// In percent of the reference's mean; null where that is 0.
    difference_percent: Option<f64>,
    /// Half width of that interval, with the error of both means as in ministat 20251113; null where the reference's mean
    /// is 0.
    half_width_percent: Option<f64>,
    /// Standard deviation of both samples together.
    pooled_sd: f64,
    /// Degrees of freedom.
    freedom: usize,
    /// Whether the interval excludes 0.
    proven: bool,
}

/// Compares every sample with the first one, at each of the levels; a newline at the end.
///
/// # Errors
/// An empty sample or a value that is not finite, with the sample's name.
pub fn stat_json(samples: &[(String, Vec<f64>)], levels: &[Level]) -> Result<String, String> {
    let moments = moments_of(samples)?;
    let sides: Vec<(&(String, Vec<f64>), &Moments)> = samples.iter().zip(&moments).collect();
    let file = File {
        schedlab: Header::new(),
        samples: sides.iter().map(|(sample, moments)| described(sample, moments)).collect(),
        differences: sides.iter().skip(1).map(|side| difference(sides[0], *side, levels)).collect(),
    };
    let mut text = visible_json(serde_json::to_string_pretty(&file).expect("plain data has a JSON form"));
    text.push('\n');
    Ok(text)
}

fn described<'a>((name, values): &'a (String, Vec<f64>), moments: &Moments) -> Sample<'a> {
    Sample {
        name,
        count: moments.count,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        median: median(values).unwrap_or(moments.mean),
        mean: moments.mean,
        sd: moments.known_sd(),
        values,
    }
}

fn difference<'a>(
    (reference, reference_moments): (&'a (String, Vec<f64>), &Moments),
    (sample, moments): (&'a (String, Vec<f64>), &Moments),
    levels: &[Level],
) -> Difference<'a> {
    let against = Against::new((&reference.1, reference_moments), (&sample.1, moments), levels);
    Difference {
        sample: &sample.0,
        reference: &reference.0,
        student: against.tests.iter().map(student).collect(),
        p_welch: against.welch.map(|test| test.p_value),
        p_permutation: against.permutation.map(|test| test.p_value),
        hedges_g: against.effect.map(|effect| effect.center),
        hedges_g_half_width: against.effect.map(|effect| effect.half_width),
    }
}

fn student(test: &TwoSample) -> Student {
    Student {
        confidence_percent: f64::from(test.level.permille()) / 10.0,
        difference: test.difference,
        half_width: test.half_width,
        difference_percent: test.percent.map(|Interval { center, .. }| center),
        half_width_percent: test.percent.map(|Interval { half_width, .. }| half_width),
        pooled_sd: test.pooled_sd,
        freedom: test.freedom,
        proven: test.proven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(samples: &[(&str, &[f64])]) -> serde_json::Value {
        let samples: Vec<(String, Vec<f64>)> =
            samples.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect();
        serde_json::from_str(&stat_json(&samples, &[Level::P95, Level::P995]).unwrap()).unwrap()
    }

    #[test]
    fn says_what_the_text_says() {
        let value = json(&[("a", &[10.0, 11.0, 12.0]), ("b", &[20.0, 21.0, 22.0])]);
        assert_eq!((&value["schedlab"]["schema"], &value["samples"][1]["mean"]), (&1.into(), &21.0.into()));
        let (difference, test) = (&value["differences"][0], &value["differences"][0]["student"]);
        assert_eq!((&difference["sample"], &difference["reference"]), (&"b".into(), &"a".into()));
        assert_eq!((&test[0]["difference"], &test[0]["proven"]), (&10.0.into(), &true.into()));
        assert!((test[0]["half_width"].as_f64().unwrap() - 2.266_594_5).abs() < 1e-7);
        assert_eq!((&test[0]["pooled_sd"], &test[1]["confidence_percent"]), (&1.0.into(), &99.5.into()));
        assert_eq!(difference["p_permutation"], 0.1);
    }

    #[test]
    fn a_single_value_has_no_test() {
        let value = json(&[("a", &[10.0]), ("b", &[20.0, 21.0])]);
        let difference = &value["differences"][0];
        assert!(difference["student"].as_array().unwrap().is_empty() && difference["p_welch"].is_null());
        let spread = |sample: usize| &value["samples"][sample]["sd"];
        assert!(spread(0).is_null() && spread(1).is_number());
        assert!(stat_json(&[("void".to_string(), vec![])], &[Level::P95]).unwrap_err().starts_with("void:"));
    }
}
