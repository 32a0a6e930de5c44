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

/// Whether the ratio says the same as the difference, which the verdict is made of.
fn has_ratio(c: &Comparison) -> bool {
    let agree = match (c.half_width, c.percent_interval) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(half), Some([low, high])) => (low <= 0.0 && 0.0 <= high) == (c.difference.abs() <= half),
    };
    c.baseline.moments.mean > 0.0 && agree
}

impl Extent {
    /// Whether it is a factor.
    pub(crate) fn times(&self) -> bool {
        matches!(self, Extent::Times(..))
    }

    /// `38 % (35 to 41)`, with the interval's level where that is wanted, or why there is no interval.
    pub(crate) fn with_interval(&self, c: &Comparison, level: bool) -> String {
        let (value, bounds, unit) = match self {
            Extent::Times(value, bounds) => (*value, *bounds, " times".to_string()),
            Extent::Percent(value, bounds) => (*value, *bounds, " %".to_string()),
            Extent::Units(value, bounds) => {
                let unit = unit_text(c.unit);
                (*value, *bounds, if unit.is_empty() { String::new() } else { format!(" {unit}") })
            }
        };
        let plain = |value: f64| match self {
            Extent::Units(..) => number(value),
            _ => rounded(&[value], self.neutral(), value)[0].clone(),
        };
        let Some([low, high]) = bounds else {
            let runs = c.baseline.values.len().min(c.candidate.values.len());
            let why =
                if runs < 2 { format!(" (no interval: {})", counted(runs, "run")) } else { String::new() };
            return format!("{}{unit}{why}", plain(value));
        };
        let texts = match self {
            Extent::Units(..) => [value, low, high].map(number).to_vec(),
            _ => rounded(&[value, low, high], self.neutral(), value),
        };
        if texts[1] == texts[2] {
            // The runs agree to the last digit.
            return format!("{}{unit}", plain(value));
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
    let told = |low: String, high: String, unit: &str| {
        let sign = |text: String| if text.starts_with('-') { text } else { format!("+{text}") };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!(" ({} to {}{unit}{})", sign(low), sign(high), level_text(c, level))
    };
    match (c.percent_interval.filter(|_| has_ratio(c)), difference_bounds(c)) {
        (Some([low, high]), _) if high - low > 1e-9 => {
            let texts = rounded(&[low, high], 0.0, low.abs().max(high.abs()));
            told(texts[0].clone(), texts[1].clone(), "%")
        }
        (None, Some([low, high])) if high > low => told(number(low), number(high), unit_text(c.unit)),
        _ => String::new(),
    }
}

fn level_text(c: &Comparison, wanted: bool) -> String {
    if wanted { format!(", {} % interval", number(c.level_percent)) } else { String::new() }
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
    (least..DECIMALS).map(texts).find(shows).unwrap_or_else(|| texts(DECIMALS))
}
