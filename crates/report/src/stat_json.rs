//! What `stat` says, as JSON: samples, and each against the first one. The form is `docs/results.md`.

use crate::json::Header;
use crate::ministat::{Against, moments_of};
use crate::names::visible_json;
use schedlab_stats::{Interval, Level, Moments, TwoSample, median};
use serde::Serialize;

#[derive(Serialize)]
struct File<'a> {
    schedlab: Header,
    samples: Vec<Sample<'a>>,
    differences: Vec<Difference<'a>>,
}

#[derive(Serialize)]
struct Sample<'a> {
    name: &'a str,
    count: usize,
    min: f64,
    max: f64,
    median: f64,
    mean: f64,
    sd: Option<f64>,
    values: &'a [f64],
}

#[derive(Serialize)]
struct Difference<'a> {
    sample: &'a str,
    reference: &'a str,
    student: Vec<Student>,
    p_welch: Option<f64>,
    p_permutation: Option<f64>,
    hedges_g: Option<f64>,
    hedges_g_half_width: Option<f64>,
}

#[derive(Serialize)]
struct Student {
    confidence_percent: f64,
    difference: f64,
    half_width: f64,
    difference_percent: Option<f64>,
    half_width_percent: Option<f64>,
    pooled_sd: f64,
    freedom: usize,
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
