//! What a workload measures of itself, and the figures made of it.

use schedlab_base::{Better, DurationNs, Metric, TimeNs};

/// A counter of the run, shared by all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u32);

/// A kind of measured span; each task may have one of each kind open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u32);

/// One finished span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanSample {
    /// When it began, on the run's clock.
    pub begin: TimeNs,
    /// When it ended.
    pub end: TimeNs,
}

impl SpanSample {
    /// The length of the sample.
    pub fn length(&self) -> DurationNs {
        self.end.since(self.begin)
    }
}

/// Samples of a span that are kept one by one. Chosen: a mebibyte of them.
const MAX_SAMPLES: usize = 1 << 16;

/// What is kept of a span's samples: the first 65,536 of them, and figures of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    samples: Vec<SpanSample>,
    count: u64,
    total: DurationNs,
    /// The longest sample's length, and 0 without samples.
    longest: DurationNs,
    /// How many samples were longer than each of these lengths.
    longer: Vec<(DurationNs, u64)>,
    /// The shortest sample's length, the first begin and the last end, once there is a sample.
    extent: Option<(DurationNs, TimeNs, TimeNs)>,
}

impl Spans {
    /// No samples yet; counts those that are longer than each of the limits.
    #[must_use]
    pub fn counting(limits: impl IntoIterator<Item = DurationNs>) -> Spans {
        Spans { longer: limits.into_iter().map(|limit| (limit, 0)).collect(), ..Spans::default() }
    }

    /// Adds a finished span.
    pub fn record(&mut self, sample: SpanSample) {
        let length = sample.length();
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
        for (limit, count) in &mut self.longer {
            *count += u64::from(length > *limit);
        }
        let (shortest, begin, end) = self.extent.unwrap_or((length, sample.begin, sample.end));
        self.extent = Some((shortest.min(length), begin.min(sample.begin), end.max(sample.end)));
        if self.samples.len() < MAX_SAMPLES {
            self.samples.push(sample);
        }
    }

    /// The number of all samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The samples that were recorded first, in the order of their ends: all of them in runs that do not last long.
    #[must_use]
    pub fn samples(&self) -> &[SpanSample] {
        &self.samples
    }

    /// How many of all samples were longer than a limit that is counted.
    fn longer_than(&self, limit: DurationNs) -> Option<u64> {
        self.longer.iter().find(|(known, _)| *known == limit).map(|(_, count)| *count)
    }

    /// From the first begin to the last end.
    fn window(&self) -> Option<DurationNs> {
        self.extent.map(|(_, begin, end)| end - begin)
    }

    fn shortest(&self) -> Option<DurationNs> {
        self.extent.map(|(shortest, ..)| shortest)
    }

    fn longest(&self) -> Option<DurationNs> {
        self.extent.map(|_| self.longest)
    }

    fn mean_seconds(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total.as_secs_f64() / self.count as f64)
    }
}

impl FromIterator<SpanSample> for Spans {
    fn from_iter<I: IntoIterator<Item = SpanSample>>(samples: I) -> Spans {
        let mut spans = Spans::default();
        samples.into_iter().for_each(|sample| spans.record(sample));
        spans
    }
}

/// What an executor has recorded when the run is over.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Counter values by [`CounterId`].
    pub counters: Vec<u64>,
    /// Finished spans by [`SpanId`].
    pub spans: Vec<Spans>,
    /// Length of the run.
    pub elapsed: DurationNs,
    /// Number of CPUs.
    pub cpus: usize,
    /// CPU time that the tasks which keep the run alive and their children used in user space.
    pub user: DurationNs,
    /// Such CPU time in system calls.
    pub system: DurationNs,
}

/// The unit in which a figure tells a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }

    /// A time in seconds, in this unit.
    fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            TimeUnit::Ns => seconds * 1e9,
            TimeUnit::Us => seconds * 1e6,
            TimeUnit::Ms => seconds * 1e3,
            TimeUnit::S => seconds,
        }
    }
}

/// Which figure of a span's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanFigure {
    /// Mean length.
    Mean,
    /// Length of the shortest.
    Shortest,
    /// Length of the longest.
    Longest,
    /// From the first begin to the last end.
    Makespan,
    /// The smallest length that so many thousandths of the samples do not exceed; of the first 65,536 where there are more.
    Permille(u16),
}

/// How a figure is made of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Units of the counter per second of the span (of the run without a span).
    Rate {
        /// What is counted.
        counter: CounterId,
        /// Over which time: from the first begin to the last end of this span.
        over: Option<SpanId>,
    },
    /// The same in thousands (kB of bytes).
    RateThousands {
        /// What is counted.
        counter: CounterId,
        /// Over which time, as above.
        over: Option<SpanId>,
    },
    /// Time per unit of the counter, in microseconds.
    TimePerUnitUs {
        /// What is counted.
        counter: CounterId,
        /// Over which time, as above.
        over: Option<SpanId>,
        /// Multiply the time by the number of CPUs (CPU time instead of wall time).
        times_cpus: bool,
    },
    /// Time per unit of one counter minus time per unit of another (the part of it
    /// that is not measured), both over their spans, in microseconds.
    TimePerUnitDifferenceUs {
        /// What is counted, and over which time.
        whole: (CounterId, SpanId),
        /// What is taken off.
        part: (CounterId, SpanId),
    },
    /// Mean length of the span's samples, in seconds.
    MeanSpanSeconds(SpanId),
    /// From the first begin to the last end, in seconds.
    MakespanSeconds(SpanId),
    /// Mean length in milliseconds.
    MeanSpanMs(SpanId),
    /// Mean length in microseconds.
    MeanSpanUs(SpanId),
    /// The first sample, in the order of the ends, in milliseconds.
    FirstSpanMs(SpanId),
    /// Mean length of the later half of the samples (of the first 65,536), in the order of the ends, the middle one
    /// included, in milliseconds.
    LaterHalfMeanMs(SpanId),
    /// The smallest length, in milliseconds, that this many percent of the samples do not exceed;
    /// of the first 65,536 where there are more.
    QuantileSpanMs {
        /// Of which span.
        span: SpanId,
        /// 0 to 100; 0 is the shortest sample, 100 the longest.
        percent: u8,
    },
    /// The same in microseconds, of this many thousandths of the samples.
    QuantileSpanUs {
        /// Of which span.
        span: SpanId,
        /// 0 to 1000; 0 is the shortest sample, 1000 the longest.
        permille: u16,
    },
    /// How much more [`Formula::QuantileSpanMs`] is than the shortest sample, in milliseconds.
    QuantileAboveShortestMs {
        /// Of which span.
        span: SpanId,
        /// 0 to 100; 0 is the shortest sample, 100 the longest.
        percent: u8,
    },
    /// Longest sample over the shortest.
    LongestOverShortest(SpanId),
    /// CPU time in user space, in seconds.
    UserSeconds,
    /// CPU time in system calls, in seconds.
    SystemSeconds,
    /// Shortest sample in seconds.
    MinSpanSeconds(SpanId),
    /// Longest sample in seconds.
    MaxSpanSeconds(SpanId),
    /// The counter's value.
    Count(CounterId),
    /// A figure of a span in a unit of choice.
    Span {
        /// Of which span.
        span: SpanId,
        /// Which figure.
        figure: SpanFigure,
        /// In which unit.
        unit: TimeUnit,
    },
    /// Time per unit of the counter, in a unit of choice.
    TimePerUnit {
        /// What is counted.
        counter: CounterId,
        /// Over which time, as of [`Formula::Rate`].
        over: Option<SpanId>,
        /// In which unit.
        unit: TimeUnit,
    },
    /// How many samples of the span were longer than the limit; the run must be made of
    /// [`crate::Scenario::empty_spans`], which count them.
    Longer {
        /// Of which span.
        span: SpanId,
        /// How long is in time.
        limit: DurationNs,
    },
    /// The same in percent of all samples.
    LongerPercent {
        /// Of which span.
        span: SpanId,
        /// How long is in time.
        limit: DurationNs,
    },
}

/// A figure that a workload reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSpec {
    /// The metric's name in results.
    pub name: String,
    /// The metric's unit.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// How it is made.
    pub formula: Formula,
}

/// Samples of a span that a workload reports one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSpec {
    /// The series' name in results.
    pub name: String,
    /// Whose samples.
    pub span: SpanId,
}

impl SeriesSpec {
    /// The lengths in milliseconds, in the order of the ends; at most the first 65,536.
    pub fn evaluate(&self, m: &Measurements) -> Vec<f64> {
        lengths(m, self.span).map(|length| length.as_secs_f64() * 1e3).collect()
    }
}

impl MetricSpec {
    /// The figure, or nothing when the run did not get far enough to have one
    /// (no finished span, nothing counted).
    pub fn evaluate(&self, m: &Measurements) -> Option<Metric> {
        let value = self.formula.evaluate(m)?;
        Some(Metric::new(&self.name, value, self.unit, self.better))
    }
}

impl Formula {
    fn evaluate(&self, m: &Measurements) -> Option<f64> {
        match *self {
            Formula::Rate { counter, over } => {
                let seconds = window(m, over)?;
                (seconds > 0.0).then(|| count(m, counter) as f64 / seconds)
            }
            Formula::RateThousands { counter, over } => {
                Formula::Rate { counter, over }.evaluate(m).map(|rate| rate / 1e3)
            }
            Formula::TimePerUnitUs { counter, over, times_cpus } => {
                let units = count(m, counter);
                let factor = if times_cpus { m.cpus as f64 } else { 1.0 };
                let seconds = window(m, over)?;
                (units > 0).then(|| seconds * 1e6 * factor / units as f64)
            }
            Formula::TimePerUnitDifferenceUs { whole, part } => {
                Some(unit_us(m, whole.0, whole.1)? - unit_us(m, part.0, part.1)?)
            }
            Formula::MeanSpanSeconds(span) => mean_seconds(m, span),
            Formula::MeanSpanMs(span) => mean_seconds(m, span).map(|s| s * 1e3),
            Formula::MeanSpanUs(span) => mean_seconds(m, span).map(|s| s * 1e6),
            Formula::FirstSpanMs(span) => lengths(m, span).next().map(|length| length.as_secs_f64() * 1e3),
            Formula::LaterHalfMeanMs(span) => later_half_mean(m, span).map(|s| s * 1e3),
            Formula::QuantileSpanMs { span, percent } => {
                quantile(m, span, u16::from(percent) * 10).map(|s| s * 1e3)
            }
            Formula::QuantileSpanUs { span, permille } => quantile(m, span, permille).map(|s| s * 1e6),
            Formula::QuantileAboveShortestMs { span, percent } => {
                let shortest = spans(m, span)?.shortest()?.as_secs_f64();
                Some((quantile(m, span, u16::from(percent) * 10)? - shortest) * 1e3)
            }
            Formula::LongestOverShortest(span) => {
                let (longest, shortest) = (spans(m, span)?.longest()?, spans(m, span)?.shortest()?);
                (shortest > DurationNs::ZERO).then(|| longest.as_secs_f64() / shortest.as_secs_f64())
            }
            Formula::UserSeconds => Some(m.user.as_secs_f64()),
            Formula::SystemSeconds => Some(m.system.as_secs_f64()),
            Formula::MakespanSeconds(span) => window(m, Some(span)),
            Formula::MinSpanSeconds(span) => spans(m, span)?.shortest().map(DurationNs::as_secs_f64),
            Formula::MaxSpanSeconds(span) => spans(m, span)?.longest().map(DurationNs::as_secs_f64),
            Formula::Count(counter) => Some(count(m, counter) as f64),
            Formula::Span { span, figure, unit } => {
                span_figure(m, span, figure).map(|seconds| unit.of_seconds(seconds))
            }
            Formula::TimePerUnit { counter, over, unit } => {
                let units = count(m, counter);
                let seconds = window(m, over)?;
                (units > 0).then(|| unit.of_seconds(seconds / units as f64))
            }
            Formula::Longer { span, limit } => {
                let spans = spans(m, span).filter(|spans| spans.count() > 0)?;
                spans.longer_than(limit).map(|late| late as f64)
            }
            Formula::LongerPercent { span, limit } => {
                let spans = spans(m, span).filter(|spans| spans.count() > 0)?;
                spans.longer_than(limit).map(|late| late as f64 * 100.0 / spans.count() as f64)
            }
        }
    }

    /// The span and the length whose longer samples it counts.
    pub(crate) fn limit(&self) -> Option<(SpanId, DurationNs)> {
        match *self {
            Formula::Longer { span, limit } | Formula::LongerPercent { span, limit } => Some((span, limit)),
            _ => None,
        }
    }
}

/// A figure of a span in seconds.
fn span_figure(m: &Measurements, span: SpanId, figure: SpanFigure) -> Option<f64> {
    match figure {
        SpanFigure::Mean => mean_seconds(m, span),
        SpanFigure::Shortest => quantile(m, span, 0),
        SpanFigure::Longest => quantile(m, span, 1000),
        SpanFigure::Makespan => window(m, Some(span)),
        SpanFigure::Permille(permille) => quantile(m, span, permille),
    }
}

fn count(m: &Measurements, counter: CounterId) -> u64 {
    m.counters.get(counter.0 as usize).copied().unwrap_or(0)
}

fn spans(m: &Measurements, span: SpanId) -> Option<&Spans> {
    m.spans.get(span.0 as usize)
}

/// Lengths of the samples that were kept, in the order of their ends.
fn lengths(m: &Measurements, span: SpanId) -> impl Iterator<Item = DurationNs> + '_ {
    spans(m, span).map_or(&[][..], Spans::samples).iter().map(SpanSample::length)
}

/// Mean length in seconds of the later half of the samples that were kept.
fn later_half_mean(m: &Measurements, span: SpanId) -> Option<f64> {
    let all = spans(m, span)?.samples().len();
    let sum: f64 = lengths(m, span).skip(all / 2).map(DurationNs::as_secs_f64).sum();
    (all > 0).then(|| sum / (all - all / 2) as f64)
}

/// The smallest length in seconds that this many thousandths of the samples do not exceed.
fn quantile(m: &Measurements, span: SpanId, permille: u16) -> Option<f64> {
    match permille {
        0 => return spans(m, span)?.shortest().map(DurationNs::as_secs_f64),
        1000 => return spans(m, span)?.longest().map(DurationNs::as_secs_f64),
        _ => {}
    }
    let mut sorted: Vec<DurationNs> = lengths(m, span).collect();
    sorted.sort_unstable();
    // Nearest rank, rounded up.
    let rank = (sorted.len() * usize::from(permille)).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).map(|length| length.as_secs_f64())
}

fn mean_seconds(m: &Measurements, span: SpanId) -> Option<f64> {
    spans(m, span)?.mean_seconds()
}

fn unit_us(m: &Measurements, counter: CounterId, span: SpanId) -> Option<f64> {
    let units = count(m, counter);
    let seconds = window(m, Some(span))?;
    (units > 0).then(|| seconds * 1e6 / units as f64)
}

fn window(m: &Measurements, span: Option<SpanId>) -> Option<f64> {
    let Some(span) = span else { return Some(m.elapsed.as_secs_f64()) };
    spans(m, span)?.window().map(DurationNs::as_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measurements {
        let sample = |begin, end| SpanSample { begin: TimeNs(begin), end: TimeNs(end) };
        Measurements {
            counters: vec![1000],
            spans: vec![
                [sample(0, 1_000_000_000), sample(500_000_000, 2_000_000_000)].into_iter().collect(),
                Spans::default(),
            ],
            elapsed: DurationNs::from_secs(4),
            cpus: 2,
            user: DurationNs::from_secs(3),
            system: DurationNs::from_ms(500),
        }
    }

    #[test]
    fn formulas() {
        let m = measured();
        let (counter, span) = (CounterId(0), SpanId(0));
        assert_eq!(Formula::Rate { counter, over: Some(span) }.evaluate(&m), Some(500.0));
        assert_eq!(Formula::Rate { counter, over: None }.evaluate(&m), Some(250.0));
        assert_eq!(Formula::RateThousands { counter, over: None }.evaluate(&m), Some(0.25));
        assert_eq!(Formula::MeanSpanSeconds(span).evaluate(&m), Some(1.25));
        assert_eq!(Formula::MeanSpanUs(span).evaluate(&m), Some(1.25e6));
        assert_eq!(Formula::MakespanSeconds(span).evaluate(&m), Some(2.0));
        let per_unit = Formula::TimePerUnitUs { counter, over: None, times_cpus: true };
        assert_eq!(per_unit.evaluate(&m), Some(8000.0));
        assert_eq!(Formula::FirstSpanMs(span).evaluate(&m), Some(1000.0));
        assert_eq!(Formula::LaterHalfMeanMs(span).evaluate(&m), Some(1500.0));
        let quantile = |percent| Formula::QuantileSpanMs { span, percent }.evaluate(&m);
        assert_eq!((quantile(50), quantile(51), quantile(100)), (Some(1000.0), Some(1500.0), Some(1500.0)));
        let fine = |permille| Formula::QuantileSpanUs { span, permille }.evaluate(&m);
        assert_eq!((fine(500), fine(501), fine(1000)), (Some(1e6), Some(1.5e6), Some(1.5e6)));
        let above = |percent| Formula::QuantileAboveShortestMs { span, percent }.evaluate(&m);
        assert_eq!((above(50), above(100)), (Some(0.0), Some(500.0)));
        assert_eq!(Formula::LongestOverShortest(span).evaluate(&m), Some(1.5));
        assert_eq!(Formula::UserSeconds.evaluate(&m), Some(3.0));
        assert_eq!(Formula::SystemSeconds.evaluate(&m), Some(0.5));
    }

    #[test]
    fn memory_of_spans_is_bounded_and_their_figures_are_of_all() {
        let samples = (0..200_000).map(|n| SpanSample { begin: TimeNs(n), end: TimeNs(n + 1 + n % 3) });
        let spans: Spans = samples.collect();
        assert_eq!((spans.count(), spans.samples().len()), (200_000, MAX_SAMPLES));
        assert_eq!((spans.shortest(), spans.longest()), (Some(DurationNs(1)), Some(DurationNs(3))));
        assert_eq!(spans.window(), Some(DurationNs(200_001)));
        assert_eq!(spans.total, DurationNs(399_999));
    }

    #[test]
    fn misses_are_counted_of_all_samples() {
        let limit = DurationNs(2);
        let mut spans = Spans::counting([limit, DurationNs(9)]);
        (0..200_000).for_each(|n| spans.record(SpanSample { begin: TimeNs(n), end: TimeNs(n + 1 + n % 4) }));
        let m = Measurements { spans: vec![spans, Spans::counting([limit])], ..measured() };
        let (span, none) = (SpanId(0), SpanId(1));
        // Lengths 1, 2, 3 and 4: two of four exceed 2, which itself is in time.
        assert_eq!(Formula::Longer { span, limit }.evaluate(&m), Some(100_000.0));
        assert_eq!(Formula::LongerPercent { span, limit }.evaluate(&m), Some(50.0));
        assert_eq!(Formula::Longer { span, limit: DurationNs(9) }.evaluate(&m), Some(0.0));
        assert_eq!(Formula::Longer { span: none, limit }.evaluate(&m), None);
        assert_eq!(Formula::LongerPercent { span: none, limit }.evaluate(&m), None);
    }

    #[test]
    fn figures_of_spans_have_a_unit_of_choice() {
        let (m, span) = (measured(), SpanId(0));
        let figure = |figure, unit| Formula::Span { span, figure, unit }.evaluate(&m);
        assert_eq!(figure(SpanFigure::Mean, TimeUnit::Ms), Some(1250.0));
        assert_eq!(figure(SpanFigure::Shortest, TimeUnit::S), Some(1.0));
        assert_eq!(figure(SpanFigure::Longest, TimeUnit::Us), Some(1.5e6));
        assert_eq!(figure(SpanFigure::Makespan, TimeUnit::Ns), Some(2e9));
        assert_eq!(figure(SpanFigure::Permille(500), TimeUnit::Ms), Some(1000.0));
        let per_unit = Formula::TimePerUnit { counter: CounterId(0), over: None, unit: TimeUnit::Ms };
        assert_eq!(per_unit.evaluate(&m), Some(4.0));
    }

    #[test]
    fn unfinished_runs_have_no_figure() {
        assert_eq!(Formula::MeanSpanSeconds(SpanId(1)).evaluate(&measured()), None);
        let none = Formula::QuantileSpanMs { span: SpanId(1), percent: 95 };
        assert_eq!(none.evaluate(&measured()), None);
        assert_eq!(Formula::LaterHalfMeanMs(SpanId(1)).evaluate(&measured()), None);
        assert_eq!(Formula::MakespanSeconds(SpanId(9)).evaluate(&measured()), None);
    }
}
