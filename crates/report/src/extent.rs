//! How far two means are apart, in words with the interval: as a factor, in percent, or in the metric's unit where the baseline has
//! no ratio.

use crate::comparison::Comparison;
use crate::format::{number, unit_text};
use schedlab_base::counted;

/// From this factor on a ratio is shown as a factor. Chosen: "2.3 times" is read faster than "130 % more".
const TIMES: f64 = 2.0;

/// Most decimals of a figure in a sentence. Chosen: a table has more.
const DECIMALS: usize = 4;

/// A distance without its sign, and the bounds where there are any.
pub(crate) enum Extent {
    /// How many times as large.
    Times(f64, Option<[f64; 2]>),
    /// By how many percent it is larger or smaller.
    Percent(f64, Option<[f64; 2]>),
    /// By how much, in the unit.
    Units(f64, Option<[f64; 2]>),
}

/// That of a comparison.
pub(crate) fn extent(c: &Comparison) -> Extent {
    let Some(percent) = c.percent.filter(|_| has_ratio(c)) else {
        let bounds = difference_bounds(c);
        return Extent::Units(c.difference.abs(), bounds.map(|bounds| without_sign(c.difference, bounds)));
    };
    let ratio = |percent: f64| 1.0 + percent / 100.0;
    if ratio(percent) >= TIMES {
        return Extent::Times(ratio(percent), c.percent_interval.map(|bounds| bounds.map(ratio)));
    }
    Extent::Percent(percent.abs(), c.percent_interval.map(|bounds| without_sign(percent, bounds)))
}

/// Bounds of the size of something that has this sign.
fn without_sign(sign: f64, [low, high]: [f64; 2]) -> [f64; 2] {
    if sign < 0.0 { [-high, -low] } else { [low, high] }
}

fn difference_bounds(c: &Comparison) -> Option<[f64; 2]> {
    c.half_width.map(|half| [c.difference - half, c.difference + half])
}

/// Whether the ratio says the same as the difference, which the verdict is made of. Percentages have none: a ratio of them would
/// be read as their difference.
fn has_ratio(c: &Comparison) -> bool {
    let agree = match (c.half_width, c.percent_interval) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(half), Some([low, high])) => (low <= 0.0 && 0.0 <= high) == (c.difference.abs() <= half),
    };
    c.baseline.moments.mean > 0.0 && agree && c.unit != "%"
}

impl Extent {
    /// Whether it is a factor.
    pub(crate) fn times(&self) -> bool {
        matches!(self, Extent::Times(..))
    }

    /// `38 %`.
    pub(crate) fn value(&self, c: &Comparison) -> String {
        match self {
            Extent::Units(value, _) => {
                format!("{}{}", without_signed_zero(number(*value)), unit_of_difference(c))
            }
            Extent::Times(value, _) => format!("{} times", rounded(&[*value], self.neutral(), *value)[0]),
            Extent::Percent(value, _) => format!("{} %", rounded(&[*value], self.neutral(), *value)[0]),
        }
    }

    /// `38 % (35 to 41)`, with the interval's level where that is wanted, or why there is no interval.
    pub(crate) fn with_interval(&self, c: &Comparison, level: bool) -> String {
        let (Extent::Times(value, bounds) | Extent::Percent(value, bounds) | Extent::Units(value, bounds)) =
            self;
        let unit = match self {
            Extent::Times(..) => " times".to_string(),
            Extent::Percent(..) => " %".to_string(),
            Extent::Units(..) => unit_of_difference(c),
        };
        let Some([low, high]) = *bounds else {
            let runs = c.baseline.values.len().min(c.candidate.values.len());
            let why =
                if runs < 2 { format!(" (no interval: {})", counted(runs, "run")) } else { String::new() };
            return self.value(c) + &why;
        };
        let texts = match self {
            Extent::Units(..) => [*value, low, high].map(number).map(without_signed_zero).to_vec(),
            _ => rounded(&[*value, low, high], self.neutral(), *value),
        };
        if texts[1] == texts[2] {
            // The runs agree to the last digit.
            return self.value(c);
        }
        format!("{}{unit} ({} to {}{})", texts[0], texts[1], texts[2], level_text(c, level))
    }

    /// The value that says that there is no difference.
    fn neutral(&self) -> f64 {
        if self.times() { 1.0 } else { 0.0 }
    }
}

/// ` (-3.1 to +4.2 %, 95 % interval)`; nothing where all runs have one value, or there is no interval.
pub(crate) fn range(c: &Comparison, level: bool) -> String {
    let told = |[low, high]: [String; 2], unit: &str| {
        let sign =
            |text: &str| if text == "0" || text.starts_with('-') { text.into() } else { format!("+{text}") };
        if low == high {
            return format!(" ({}{unit})", sign(&low));
        }
        format!(" ({} to {}{unit}{})", sign(&low), sign(&high), level_text(c, level))
    };
    match (c.percent_interval.filter(|_| has_ratio(c)), difference_bounds(c)) {
        (Some([low, high]), _) if high - low > 1e-9 => {
            let texts = rounded(&[low, high], 0.0, low.abs().max(high.abs()));
            told([texts[0].clone(), texts[1].clone()], " %")
        }
        (None, Some(bounds)) if bounds[1] > bounds[0] => {
            told(bounds.map(number).map(without_signed_zero), &unit_of_difference(c))
        }
        _ => String::new(),
    }
}

/// ` messages/s` behind a difference; of percentages it is in points.
fn unit_of_difference(c: &Comparison) -> String {
    match unit_text(c.unit) {
        "" => String::new(),
        "%" => " percentage points".to_string(),
        unit => format!(" {unit}"),
    }
}

/// `0` for what shows no digit but zeros, with or without a sign.
fn without_signed_zero(text: String) -> String {
    if text.parse().is_ok_and(|shown: f64| shown.abs() <= 0.0) { "0".to_string() } else { text }
}

fn level_text(c: &Comparison, wanted: bool) -> String {
    if wanted { format!(", {} % interval", c.level_percent) } else { String::new() }
}

/// The values with as few decimals as show two digits of `size`, that they differ, and that they are not `neutral`.
fn rounded(values: &[f64], neutral: f64, size: f64) -> Vec<String> {
    let least = match size {
        size if size >= 10.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    let texts = |decimals: usize| -> Vec<String> {
        values.iter().map(|value| format!("{value:.decimals$}")).collect()
    };
    let is_neutral = |text: &String| text.parse().is_ok_and(|shown: f64| (shown - neutral).abs() <= 0.0);
    let shows = |texts: &Vec<String>| {
        let hidden = |(text, value): (&String, &f64)| is_neutral(text) && (value - neutral).abs() > 0.0;
        let apart = texts.iter().enumerate().all(|(at, text)| !texts[..at].contains(text));
        apart && !texts.iter().zip(values).any(hidden)
    };
    (least..DECIMALS)
        .map(texts)
        .find(shows)
        .unwrap_or_else(|| texts(DECIMALS).into_iter().map(without_signed_zero).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::runs;
    use schedlab_stats::Level;

    #[test]
    fn bounds_that_look_alike_are_one_figure_without_a_signed_zero() {
        let mut c = compare(&runs(&[10.0, 15.0, 20.0], &[11.0, 16.0, 18.0]), Level::P995, 1.0).remove(0);
        assert!(range(&c, true).ends_with(" %, 99.5 % interval)"), "{}", range(&c, true));
        let mut of = |bounds| {
            c.percent_interval = Some(bounds);
            c.difference = 0.5 * (bounds[0] + bounds[1]);
            c.half_width = Some(0.5 * (bounds[1] - bounds[0]));
            range(&c, false)
        };
        assert_eq!(of([-0.006_31, -0.006_29]), " (-0.0063 %)");
        assert_eq!(of([-0.000_01, 0.000_02]), " (0 %)");
        assert_eq!(of([-0.000_01, 0.2]), " (0 to +0.2000 %)");
        assert_eq!(without_signed_zero("-0".into()), "0");
    }

    #[test]
    fn percentages_differ_by_points() {
        let mut c = compare(&runs(&[10.0, 11.0, 12.0], &[30.0, 31.5, 32.0]), Level::P95, 1.0).remove(0);
        assert!(extent(&c).times());
        c.unit = "%";
        let text = extent(&c).with_interval(&c, true);
        assert!(text.starts_with("20.167 percentage points (") && !extent(&c).times(), "{text}");
        assert!(range(&c, true).contains(" percentage points, 95 % interval)"));
    }
}
