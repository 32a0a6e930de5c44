//! Samples side by side in the form that ministat(1) made familiar: a plot of the
//! values, a table, and each sample against the first one.

use crate::format::number;
use schedlab_stats::{
    Interval, Level, Moments, PermutationTest, StatsError, TwoSample, Welch, hedges_interval, median,
    permutation_test, quantile, student, welch,
};

/// The marks of the samples, in order; `*` is where two samples meet.
const MARKS: [char; 8] = ['x', '+', 'o', '%', '#', '@', 'O', '&'];

/// How samples are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// A mark for each value, and a bar from mean - sd to mean + sd.
    Values,
    /// Boxes: smallest and largest value, quartiles, median.
    Boxes,
}

/// Compares every sample with the first one, at each of the levels. `width` is the plot's in
/// columns, at least 20.
///
/// # Errors
/// An empty sample or a value that is not finite, with the sample's name.
pub fn ministat(
    samples: &[(String, Vec<f64>)],
    levels: &[Level],
    plot: Plot,
    width: usize,
) -> Result<String, String> {
    let moments = moments_of(samples)?;
    let mut text = String::new();
    for (index, (name, _)) in samples.iter().enumerate() {
        text.push_str(&format!("{} {name}\n", mark(index)));
    }
    text.push_str(&match plot {
        Plot::Values => values_plot(samples, &moments, width.max(20)),
        Plot::Boxes => box_plot(samples, &moments, width.max(20)),
    });
    text.push_str(&summary(samples, &moments));
    for (index, (name, values)) in samples.iter().enumerate().skip(1) {
        let reference = (&samples[0], &moments[0]);
        text.push_str(&verdict(reference, (name, values, &moments[index]), levels, samples.len() > 2));
    }
    Ok(text)
}

/// The moments of every sample.
///
/// # Errors
/// An empty sample or a value that is not finite, with the sample's name.
pub(crate) fn moments_of(samples: &[(String, Vec<f64>)]) -> Result<Vec<Moments>, String> {
    let moments = |(name, values): &(String, Vec<f64>)| {
        Moments::of(values).map_err(|error: StatsError| format!("{name}: {error}"))
    };
    samples.iter().map(moments).collect()
}

fn mark(index: usize) -> char {
    MARKS[index % MARKS.len()]
}

/// Maps values to columns of the plot.
struct Scale {
    low: f64,
    high: f64,
    width: usize,
}

impl Scale {
    /// Room for all values and for the bars of mean +/- standard deviation.
    fn new(samples: &[(String, Vec<f64>)], moments: &[Moments], width: usize) -> Scale {
        let values = samples.iter().flat_map(|(_, values)| values.iter().copied());
        let bars = moments.iter().flat_map(|m| [m.mean - m.sd, m.mean + m.sd]);
        let all: Vec<f64> = values.chain(bars).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Scale { low, high, width }
    }

    fn column(&self, value: f64) -> usize {
        if self.high <= self.low {
            return self.width / 2;
        }
        let part = (value - self.low) / (self.high - self.low);
        (part * (self.width - 1) as f64).round() as usize
    }
}

fn values_plot(samples: &[(String, Vec<f64>)], moments: &[Moments], width: usize) -> String {
    let scale = Scale::new(samples, moments, width);
    let mut stacks = vec![Vec::new(); width];
    for (index, (_, values)) in samples.iter().enumerate() {
        let mut seen = vec![0usize; width];
        for &value in values {
            let column = scale.column(value);
            let stack: &mut Vec<char> = &mut stacks[column];
            // Equal heights of two samples share a cell.
            if let Some(cell) = stack.get_mut(seen[column]) {
                *cell = '*';
            } else {
                stack.push(mark(index));
            }
            seen[column] += 1;
        }
    }
    let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
    let rule = format!("+{}+\n", "-".repeat(width));
    let mut text = rule.clone();
    for level in (0..height).rev() {
        let line: String = stacks.iter().map(|stack| stack.get(level).copied().unwrap_or(' ')).collect();
        text.push_str(&format!("|{line}|\n"));
    }
    for (moments, (_, values)) in moments.iter().zip(samples) {
        text.push_str(&bar(&scale, moments, values));
    }
    text + &rule
}

/// `x  |-----[    |  ]---|`, one line a sample, with a scale below.
fn box_plot(samples: &[(String, Vec<f64>)], moments: &[Moments], width: usize) -> String {
    let scale = Scale::new(samples, moments, width);
    let rule = format!("+{}+\n", "-".repeat(width));
    let mut text = rule.clone();
    for (index, (_, values)) in samples.iter().enumerate() {
        let at = |q: f64| scale.column(quantile(values, q).unwrap_or(f64::NAN));
        let [low, lower, middle, upper, high] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        let mut line = vec![' '; width];
        line[low..=high].fill('-');
        (line[low], line[high]) = ('|', '|');
        line[lower..=upper].fill('=');
        (line[lower], line[upper]) = ('[', ']');
        line[middle] = mark(index);
        text.push_str(&format!("|{}|\n", line.into_iter().collect::<String>()));
    }
    let (low, high) = (number(scale.low), number(scale.high));
    let gap = (width + 2).saturating_sub(low.len() + high.len());
    text + &rule + &format!("{low}{}{high}\n", " ".repeat(gap))
}

/// `|___A__M__|`: from mean - sd to mean + sd, with mean (A) and median (M).
fn bar(scale: &Scale, moments: &Moments, values: &[f64]) -> String {
    let mut line = vec![' '; scale.width];
    let (from, to) = (scale.column(moments.mean - moments.sd), scale.column(moments.mean + moments.sd));
    line[from..=to].fill('_');
    (line[from], line[to]) = ('|', '|');
    line[scale.column(median(values).unwrap_or(moments.mean))] = 'M';
    line[scale.column(moments.mean)] = 'A';
    format!("|{}|\n", line.into_iter().collect::<String>())
}

fn summary(samples: &[(String, Vec<f64>)], moments: &[Moments]) -> String {
    let mut text =
        format!("  {:>5} {:>13} {:>13} {:>13} {:>13} {:>13}\n", "N", "Min", "Max", "Median", "Avg", "Stddev");
    for (index, ((_, values), moments)) in samples.iter().zip(moments).enumerate() {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let figures = [low, high, median(values).unwrap_or(f64::NAN), moments.mean];
        text.push_str(&format!("{} {:>5}", mark(index), moments.count));
        for figure in figures {
            text.push_str(&format!(" {:>13}", eight_digits(figure)));
        }
        let sd = moments.known_sd().map_or_else(|| "-".to_string(), eight_digits);
        text.push_str(&format!(" {sd:>13}"));
        text.push('\n');
    }
    text
}

/// Up to eight significant digits, as the original prints them.
fn eight_digits(value: f64) -> String {
    let magnitude = if value.abs() > 0.0 { value.abs().log10().floor() as i32 } else { 0 };
    if !(-5..12).contains(&magnitude) {
        return format!("{value:.7e}");
    }
    let decimals = usize::try_from(7 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A sample against the reference.
pub(crate) struct Against {
    /// Student's t at each level; empty when a sample has one value only.
    pub(crate) tests: Vec<TwoSample>,
    /// What assumes less, and the size of the effect; none where there is no test either.
    pub(crate) welch: Option<Welch>,
    pub(crate) permutation: Option<PermutationTest>,
    pub(crate) effect: Option<Interval>,
}

impl Against {
    /// Both sides as values and their moments. The first level is that of Welch's test and of the effect.
    pub(crate) fn new(
        (reference, reference_moments): (&[f64], &Moments),
        (values, moments): (&[f64], &Moments),
        levels: &[Level],
    ) -> Against {
        let level = levels.first().copied().unwrap_or_default();
        let tests =
            levels.iter().filter_map(|&level| student(moments, reference_moments, level).ok()).collect();
        Against {
            tests,
            welch: welch(moments, reference_moments, level).ok(),
            permutation: permutation_test(values, reference, PERMUTATION_SEED).ok(),
            effect: hedges_interval(moments, reference_moments, level).ok().flatten(),
        }
    }
}

fn verdict(
    (reference, reference_moments): (&(String, Vec<f64>), &Moments),
    (name, values, moments): (&str, &[f64], &Moments),
    levels: &[Level],
    named: bool,
) -> String {
    let mut text = if named { format!("{name} against {}:\n", reference.0) } else { String::new() };
    let against = Against::new((&reference.1, reference_moments), (values, moments), levels);
    if against.tests.is_empty() {
        let least = moments.count.min(reference_moments.count);
        let why = if least < 2 {
            format!("{least} value on one side, at least 2 are needed (3 or more advised)")
        } else {
            "the values lie too far apart for a standard deviation".to_string()
        };
        text.push_str(&format!("No test: {why}\n"));
        return text;
    }
    for test in &against.tests {
        let level = test.level;
        if !test.proven {
            text.push_str(&format!("No difference proven at {level} confidence\n"));
            continue;
        }
        let plus_minus = |center, half| format!("{} +/- {}", eight_digits(center), eight_digits(half));
        text.push_str(&format!("Difference at {level} confidence\n"));
        text.push_str(&format!("\t{}\n", plus_minus(test.difference, test.half_width)));
        if let Some(percent) = test.percent {
            let (center, half) = (eight_digits(percent.center), eight_digits(percent.half_width));
            text.push_str(&format!("\t{center}% +/- {half}%\n"));
        }
        text.push_str(&format!("\t(Student's t, pooled s = {})\n", eight_digits(test.pooled_sd)));
    }
    text + &besides(&against)
}

/// What assumes less than Student's t, and the size of the effect.
fn besides(against: &Against) -> String {
    let mut text = String::new();
    if let Some(welch) = &against.welch {
        text.push_str(&format!("\t(without equal variances, Welch: p = {}", number(welch.p_value)));
        if let Some(permutation) = &against.permutation {
            let kind = if permutation.exact { "all" } else { "drawn" };
            text.push_str(&format!("; {kind} permutations: p = {}", number(permutation.p_value)));
        }
        text.push_str(")\n");
    }
    if let (Some(effect), Some(test)) = (&against.effect, against.tests.first()) {
        text.push_str(&format!(
            "\t(effect size, Hedges' g: {}, {} interval {} to {})\n",
            number(effect.center),
            test.level,
            number(effect.center - effect.half_width),
            number(effect.center + effect.half_width)
        ));
    }
    text
}

/// The seed of drawn permutations: fixed, so that equal samples give equal texts.
const PERMUTATION_SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, values: &[f64]) -> (String, Vec<f64>) {
        (name.to_string(), values.to_vec())
    }

    #[test]
    fn a_proven_difference() {
        let samples = [sample("a", &[10.0, 11.0, 12.0]), sample("b", &[20.0, 21.0, 22.0])];
        let text = ministat(&samples, &[Level::P95], Plot::Values, 40).unwrap();
        assert!(text.contains("Difference at 95.0% confidence\n\t10 +/- 2.2665945\n"), "{text}");
        assert!(text.contains("(Student's t, pooled s = 1)"), "{text}");
        assert!(text.starts_with("x a\n+ b\n+----------------------------------------+\n"), "{text}");
    }

    #[test]
    fn no_difference_is_an_answer() {
        let samples = [sample("a", &[10.0, 11.0, 12.0]), sample("b", &[10.5, 11.0, 12.0])];
        assert!(
            ministat(&samples, &[Level::P99], Plot::Values, 40)
                .unwrap()
                .contains("No difference proven at 99.0% confidence")
        );
    }

    #[test]
    fn several_levels_and_the_size_of_the_effect() {
        let samples = [sample("a", &[10.0, 11.0, 12.0]), sample("b", &[12.0, 13.5, 14.5])];
        let text = ministat(&samples, &[Level::P80, Level::P95, Level::P99], Plot::Values, 40).unwrap();
        assert!(text.contains("Difference at 80.0% confidence"), "{text}");
        assert!(text.contains("No difference proven at 99.0% confidence"), "{text}");
        assert!(text.contains("Hedges' g: 1.6") && text.contains("80.0% interval"), "{text}");
    }

    #[test]
    fn boxes_show_quartiles() {
        let samples = [sample("a", &[0.0, 10.0, 20.0, 30.0, 40.0]), sample("b", &[40.0])];
        let text = ministat(&samples, &[Level::P95], Plot::Boxes, 41).unwrap();
        assert!(text.contains("|---------[=========x=========]---------|"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("0 ") && line.ends_with("40")), "{text}");
    }

    #[test]
    fn degenerate_samples() {
        let flat = [sample("a", &[5.0; 4]), sample("b", &[5.0; 4])];
        let text = ministat(&flat, &[Level::P95], Plot::Values, 40).unwrap();
        assert!(text.contains("No difference proven"), "{text}");
        assert!(text.contains('*'), "equal values share a cell");
        let single = [sample("a", &[5.0]), sample("b", &[6.0, 7.0])];
        let text = ministat(&single, &[Level::P95], Plot::Values, 40).unwrap();
        assert!(text.contains("No test: 1 value on one side"), "{text}");
        let row = |mark: &str| text.lines().find(|line| line.starts_with(mark)).unwrap().to_string();
        assert!(row("x     1").ends_with(" -") && !row("+     2").ends_with('-'), "{text}");
        assert!(
            ministat(&[sample("void", &[])], &[Level::P95], Plot::Values, 40)
                .unwrap_err()
                .starts_with("void:")
        );
    }

    #[test]
    fn digits() {
        assert_eq!(eight_digits(4231.5), "4231.5");
        assert_eq!(eight_digits(0.000123456789), "0.00012345679");
        assert_eq!(eight_digits(0.0), "0");
        assert_eq!(eight_digits(123456789.0), "123456789");
    }
}
