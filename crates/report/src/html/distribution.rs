//! How a latency is distributed: the share of the waits that last longer than a time, over the time, with the
//! percentiles as a table.

use super::plot::{Axis, Course, Plot, Point, Series, told};
use super::table;
use crate::cells::scheduler_label;
use crate::format::number;
use crate::workload_names::workload_text;
use schedlab_base::{DurationNs, counted};
use schedlab_trace::{Distribution, RunRecord};

/// The quantiles that are marked, where there are values beyond them: name, so many of so many.
const MARKED: [(&str, u64, u64); 5] =
    [("p50", 1, 2), ("p95", 19, 20), ("p99", 99, 100), ("p99.9", 999, 1000), ("p99.99", 9999, 10_000)];

/// Times so many times shorter than the shortest median are not in the picture. Chosen: most of them are waits
/// for an idle CPU, of nanoseconds, and would take half of the axis.
const BELOW_MEDIAN: f64 = 10.0;

/// A time in us. One of 0 has no place among factors: the clock's resolution stands for it.
pub(super) fn us(time: DurationNs) -> f64 {
    time.0.max(1) as f64 / 1e3
}

/// The schedulers of some runs, in their order.
pub(super) fn schedulers(runs: &[&RunRecord]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in runs.iter().map(|run| scheduler_label(run)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Where a run took place, for a title.
pub(super) fn place(run: &RunRecord) -> String {
    format!("{} on {} of {}", workload_text(&run.workload), counted(run.cpus, "CPU"), run.machine)
}

/// All waits under one scheduler.
struct Pooled {
    scheduler: String,
    runs: usize,
    all: Distribution,
}

impl Pooled {
    fn new(scheduler: String, cell: &[&RunRecord], metric: &str) -> Pooled {
        let runs = cell.iter().filter(|run| scheduler_label(run) == scheduler);
        let found: Vec<&Distribution> = runs.filter_map(|run| run.histogram(metric)).collect();
        Pooled { scheduler, runs: found.len(), all: Distribution::pooled(found.iter().copied()) }
    }

    fn series(&self, from: f64) -> Series {
        let (scheduler, count) = (&self.scheduler, self.all.count());
        let about = format!("{scheduler}: {} in {}", counted(count, "wait"), counted(self.runs, "run"));
        let point = |(name, time, share): (&str, DurationNs, f64)| {
            let about = format!("{scheduler}, {name}: {}", told(time.0 as f64 / 1e3, None, "us"));
            Point { x: us(time), y: share, interval: None, about }
        };
        Series {
            name: scheduler.clone(),
            points: marks(&self.all).into_iter().map(point).collect(),
            course: Some(Course { corners: steps(&self.all, from), about }),
        }
    }

    /// The row of the table.
    fn row(&self) -> Vec<String> {
        let marks = marks(&self.all);
        let cell = |name| {
            let mark = marks.iter().find(|(known, ..)| *known == name);
            mark.map_or_else(String::new, |(_, time, _)| number(time.0 as f64 / 1e3))
        };
        let names = MARKED.iter().map(|(name, ..)| *name).chain(["max"]);
        std::iter::once(self.scheduler.clone()).chain(names.map(cell)).collect()
    }
}

/// The plot of the latency `metric` in the runs of a cell, those of a scheduler together. Nothing where a run has
/// the metrics of the latency and not its distribution.
pub(super) fn distributions(cell: &[&RunRecord], metric: &str, words: &str) -> Option<String> {
    let max = format!("{metric}_max");
    if cell.iter().any(|run| run.metric(&max).is_some() && run.histogram(metric).is_none()) {
        return None;
    }
    let pooled = schedulers(cell).into_iter().map(|scheduler| Pooled::new(scheduler, cell, metric));
    let pooled: Vec<Pooled> = pooled.filter(|pooled| pooled.all.count() > 0).collect();
    let medians = pooled.iter().filter_map(|pooled| pooled.all.quantile(1, 2)).map(us);
    let from = medians.fold(f64::INFINITY, f64::min) / BELOW_MEDIAN;
    let plot = Plot {
        title: format!("{words}: {}", place(cell[0])),
        x_label: "us (marks: p50, p95, p99, p99.9, p99.99, max)".into(),
        y_label: "share that waits longer".into(),
        x: Axis::Factors,
        y: Axis::Factors,
        lines: true,
        series: pooled.iter().map(|pooled| pooled.series(from)).collect(),
    };
    let header = ["in us", "p50", "p95", "p99", "p99.9", "p99.99", "max"];
    let rows: Vec<Vec<String>> = pooled.iter().map(Pooled::row).collect();
    Some(format!("<div>\n{}{}</div>\n", plot.html()?, table(&header, &[1, 2, 3, 4, 5, 6], &rows)))
}

/// The corners of the share of larger values, from a time on: it falls at the bound of each bucket, and ends where
/// the last one would take it to 0.
fn steps(distribution: &Distribution, from: f64) -> Vec<(f64, f64)> {
    let all = distribution.count();
    let share = |left: u64| left as f64 / all as f64;
    let mut left = all;
    let mut corners = Vec::new();
    for bucket in distribution.buckets() {
        let x = us(bucket.le);
        if x >= from {
            if corners.is_empty() && left < all {
                corners.push((from, share(left)));
            }
            corners.push((x, share(left)));
        }
        left = left.saturating_sub(bucket.count);
        if x >= from && left > 0 {
            corners.push((x, share(left)));
        }
    }
    corners
}

/// The marked quantiles that have values beyond them, and the largest value: name, time, share. They lie on the
/// [`steps`].
fn marks(distribution: &Distribution) -> Vec<(&'static str, DurationNs, f64)> {
    let Some(last) = distribution.buckets().last() else { return Vec::new() };
    let all = distribution.count() as f64;
    let end = last.count as f64 / all;
    let mark = |&(name, part, whole): &(&'static str, u64, u64)| {
        let share = (whole - part) as f64 / whole as f64;
        (all * share >= 1.0).then_some((name, distribution.quantile(part, whole)?, share.max(end)))
    };
    MARKED.iter().filter_map(mark).chain([("max", last.le, end)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::{distribution, run};

    #[test]
    fn distributions_of_all_runs_together_are_plotted() {
        let mut runs = [run("a", 1, 1.0), run("a", 2, 1.0), run("b", 1, 1.0)];
        runs[0].histograms = vec![("run_delay_ns".into(), distribution(&[(0, 1), (1007, 8), (5000, 1)]))];
        runs[1].histograms = vec![("run_delay_ns".into(), distribution(&[(1007, 9), (9000, 1)]))];
        runs[2].histograms.clear();
        let plot = distributions(&runs.each_ref(), "run_delay_ns", "run delay").unwrap();
        assert!(plot.contains("a: 20 waits in 2 runs") && plot.contains("a, p50: 1.007 us"), "{plot}");
        assert!(plot.contains("a, p95: 5.055 us") && plot.contains("a, max: 9 us"), "{plot}");
        // 20 values have no 99th percentile but the largest one; a scheduler that never waited has no line.
        assert!(!plot.contains("a, p99") && plot.contains("></td>") && !plot.contains(">b<"), "{plot}");
        assert_eq!(distributions(&runs.each_ref(), "wakeup_latency_ns", "wakeup latency"), None);
    }

    #[test]
    fn marks_lie_on_the_steps() {
        // A thousand values of different sizes, and a hundred that are all the largest.
        let sizes = (1..=100).map(|at| (at * at, 10)).chain([(20_000, 100)]);
        let whole = distribution(&sizes.collect::<Vec<_>>());
        let steps = steps(&whole, 1e-3);
        assert_eq!((steps[0], steps[steps.len() - 1].0), ((1e-3, 1.0), 20.0));
        let marks = marks(&whole);
        let shares: Vec<f64> = marks.iter().map(|(.., share)| *share).collect();
        assert_eq!(marks.len(), 5, "1100 values have no p99.99");
        let end = 100.0 / 1100.0;
        assert!(shares[0].total_cmp(&0.5).is_eq() && shares[1..].iter().all(|s| s.total_cmp(&end).is_eq()));
        for (name, time, share) in marks {
            let here = steps.iter().filter(|(x, _)| x.total_cmp(&us(time)).is_eq()).map(|(_, y)| *y);
            let (low, high) = here.fold((1.0f64, 0.0f64), |(low, high), y| (low.min(y), high.max(y)));
            assert!((low..=high).contains(&share), "{name}: {share} between {low} and {high}");
        }
    }

    #[test]
    fn what_is_left_of_the_picture_comes_in_at_its_edge() {
        let corners = steps(&distribution(&[(1, 5), (1000, 3), (3000, 2)]), 0.1);
        assert_eq!(corners, [(0.1, 0.5), (1.0, 0.5), (1.0, 0.2), (3.0, 0.2)]);
    }
}
