//! Samples side by side in the form that ministat(1) made familiar: a plot of the
//! values, a table, and each sample against the first one.

use crate::format::number;
use schedlab_stats::{Level, Moments, StatsError, median, permutation_test, student, welch};

/// The marks of the samples, in order; `*` is where two samples meet.
const MARKS: [char; 8] = ['x', '+', 'o', '%', '#', '@', 'O', '&'];

/// Compares every sample with the first one. `width` is the plot's in columns, at
/// least 20.
///
/// # Errors
/// An empty sample or a value that is not finite, with the sample's name.
pub fn ministat(samples: &[(String, Vec<f64>)], level: Level, width: usize) -> Result<String, String> {
    let mut moments = Vec::new();
    for (name, values) in samples {
        moments.push(Moments::of(values).map_err(|error: StatsError| format!("{name}: {error}"))?);
    }
    let mut text = String::new();
    for (index, (name, _)) in samples.iter().enumerate() {
        text.push_str(&format!("{} {name}\n", mark(index)));
    }
    text.push_str(&plot(samples, &moments, width.max(20)));
    text.push_str(&summary(samples, &moments));
    for (index, (name, values)) in samples.iter().enumerate().skip(1) {
        let reference = (&samples[0], &moments[0]);
        text.push_str(&verdict(reference, (name, values, &moments[index]), level, samples.len() > 2));
    }
    Ok(text)
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

fn plot(samples: &[(String, Vec<f64>)], moments: &[Moments], width: usize) -> String {
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
        let figures = [low, high, median(values).unwrap_or(f64::NAN), moments.mean, moments.sd];
        text.push_str(&format!("{} {:>5}", mark(index), moments.count));
        for figure in figures {
            text.push_str(&format!(" {:>13}", eight_digits(figure)));
        }
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

fn verdict(
    (reference, reference_moments): (&(String, Vec<f64>), &Moments),
    (name, values, moments): (&str, &[f64], &Moments),
    level: Level,
    named: bool,
) -> String {
    let mut text = if named { format!("{name} against {}:\n", reference.0) } else { String::new() };
    let (Ok(test), Ok(welch)) =
        (student(moments, reference_moments, level), welch(moments, reference_moments, level))
    else {
        let least = moments.count.min(reference_moments.count);
        text.push_str(&format!(
            "No test: {least} value on one side, at least 2 are needed (3 or more advised)\n"
        ));
        return text;
    };
    if test.proven {
        text.push_str(&format!("Difference at {level} confidence\n"));
        text.push_str(&format!(
            "\t{} +/- {}\n",
            eight_digits(test.difference),
            eight_digits(test.half_width)
        ));
        if let Some(percent) = test.percent {
            text.push_str(&format!(
                "\t{}% +/- {}%\n",
                eight_digits(percent.center),
                eight_digits(percent.half_width)
            ));
        }
        text.push_str(&format!("\t(Student's t, pooled s = {})\n", eight_digits(test.pooled_sd)));
    } else {
        text.push_str(&format!("No difference proven at {level} confidence\n"));
    }
    if let Ok(permutation) = permutation_test(values, &reference.1, 1) {
        let kind = if permutation.exact { "all" } else { "drawn" };
        text.push_str(&format!(
            "\t(without equal variances, Welch: p = {}; {kind} permutations: p = {})\n",
            number(welch.p_value),
            number(permutation.p_value)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, values: &[f64]) -> (String, Vec<f64>) {
        (name.to_string(), values.to_vec())
    }

    #[test]
    fn a_proven_difference() {
        let samples = [sample("a", &[10.0, 11.0, 12.0]), sample("b", &[20.0, 21.0, 22.0])];
        let text = ministat(&samples, Level::P95, 40).unwrap();
        assert!(text.contains("Difference at 95.0% confidence\n\t10 +/- 2.2665945\n"), "{text}");
        assert!(text.contains("(Student's t, pooled s = 1)"), "{text}");
        assert!(text.starts_with("x a\n+ b\n+----------------------------------------+\n"), "{text}");
    }

    #[test]
    fn no_difference_is_an_answer() {
        let samples = [sample("a", &[10.0, 11.0, 12.0]), sample("b", &[10.5, 11.0, 12.0])];
        assert!(
            ministat(&samples, Level::P99, 40).unwrap().contains("No difference proven at 99.0% confidence")
        );
    }

    #[test]
    fn degenerate_samples() {
        let flat = [sample("a", &[5.0; 4]), sample("b", &[5.0; 4])];
        let text = ministat(&flat, Level::P95, 40).unwrap();
        assert!(text.contains("No difference proven"), "{text}");
        assert!(text.contains('*'), "equal values share a cell");
        let single = [sample("a", &[5.0]), sample("b", &[6.0, 7.0])];
        assert!(ministat(&single, Level::P95, 40).unwrap().contains("No test: 1 value on one side"));
        assert!(ministat(&[sample("void", &[])], Level::P95, 40).unwrap_err().starts_with("void:"));
    }

    #[test]
    fn digits() {
        assert_eq!(eight_digits(4231.5), "4231.5");
        assert_eq!(eight_digits(0.000123456789), "0.00012345679");
        assert_eq!(eight_digits(0.0), "0");
        assert_eq!(eight_digits(123456789.0), "123456789");
    }
}
