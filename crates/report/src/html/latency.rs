//! How latencies are distributed, and what a decision costs by how many tasks wait for it.

use super::distribution::{distributions, place, schedulers, us};
use super::plot::{Axis, Plot, Point, Series, told};
use crate::cells::scheduler_label;
use schedlab_base::DurationNs;
use schedlab_trace::RunRecord;

/// The percentiles that a run knows, as its metrics end.
const PERCENTILES: [&str; 4] = ["p50", "p95", "p99", "max"];

/// Latencies of every run: name of the metrics without percentile, words.
const LATENCIES: [(&str, &str); 2] = [("wakeup_latency_ns", "wakeup latency"), ("run_delay_ns", "run delay")];

/// The metrics of a decision's cost and of the tasks that wait.
const COST: &str = "sched_cost_ns_per_switch";
const LENGTH: &str = "run_queue_length_mean";

/// Different lengths of the run queue are worth a plot from this factor on. Chosen.
const APART: f64 = 1.5;

/// Runs that have all in common but scheduler and seed.
fn cells(runs: &[RunRecord]) -> Vec<Vec<&RunRecord>> {
    let mut cells: Vec<Vec<&RunRecord>> = Vec::new();
    for run in runs.iter().filter(|run| !run.is_void()) {
        let key = |run: &RunRecord| (run.cpus, run.backend.name(), run.machine.clone(), run.workload.clone());
        match cells.iter_mut().find(|cell| key(cell[0]) == key(run)) {
            Some(cell) => cell.push(run),
            None => cells.push(vec![run]),
        }
    }
    cells
}

/// A plot a cell and latency: its distribution, or its percentiles where runs have no more.
pub(super) fn plots(runs: &[RunRecord]) -> Vec<String> {
    let mut plots = Vec::new();
    for cell in cells(runs) {
        let plot = |&(metric, words): &(&str, &str)| {
            distributions(&cell, metric, words).or_else(|| percentiles(&cell, metric, words))
        };
        plots.extend(LATENCIES.iter().filter_map(plot));
    }
    plots
}

/// The mean over the runs of each percentile.
fn percentiles(cell: &[&RunRecord], metric: &str, words: &str) -> Option<String> {
    let point = |runs: &[&&RunRecord], at: usize, scheduler: &str| {
        let name = format!("{metric}_{}", PERCENTILES[at]);
        let values: Vec<f64> = runs.iter().filter_map(|run| run.metric(&name)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64 / 1e3;
        let about = format!("{scheduler}, {}: {}", PERCENTILES[at], told(mean, None, "us"));
        let y = mean.max(us(DurationNs::ZERO));
        (!values.is_empty()).then_some(Point { x: at as f64, y, interval: None, about })
    };
    let series = schedulers(cell).into_iter().map(|scheduler| {
        let runs: Vec<&&RunRecord> = cell.iter().filter(|run| scheduler_label(run) == scheduler).collect();
        let points = (0..PERCENTILES.len()).filter_map(|at| point(&runs, at, &scheduler)).collect();
        Series::new(scheduler, points)
    });
    Plot {
        title: format!("{words}: {}", place(cell[0])),
        x_label: "percentile".into(),
        y_label: "us".into(),
        x: Axis::Names(PERCENTILES.map(String::from).to_vec()),
        y: Axis::Factors,
        lines: true,
        series: series.collect(),
    }
    .html()
}

/// A plot a machine: a point a run, its cost of a decision over the mean length of its run queues; where the
/// lengths differ.
pub(super) fn costs(runs: &[RunRecord]) -> Vec<String> {
    let known =
        |run: &&RunRecord| !run.is_void() && run.metric(COST).is_some() && run.metric(LENGTH).is_some();
    let mut machines: Vec<Vec<&RunRecord>> = Vec::new();
    for run in runs.iter().filter(known) {
        match machines.iter_mut().find(|machine| machine[0].machine == run.machine) {
            Some(machine) => machine.push(run),
            None => machines.push(vec![run]),
        }
    }
    machines.iter().filter_map(|runs| cost(runs)).collect()
}

fn cost(runs: &[&RunRecord]) -> Option<String> {
    let lengths = || runs.iter().filter_map(|run| run.metric(LENGTH));
    let (least, most) = (lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max));
    if most < 1.0 || most < least * APART {
        return None;
    }
    let point = |run: &&RunRecord| {
        let (x, y) = (run.metric(LENGTH)?, run.metric(COST)?);
        let about = format!(
            "{}, {}, seed {}: {} at {} waiting tasks a CPU",
            scheduler_label(run),
            place(run),
            run.seed,
            told(y, None, "ns"),
            told(x, None, "1")
        );
        Some(Point { x, y, interval: None, about })
    };
    let series = schedulers(runs).into_iter().map(|name| {
        let points = runs.iter().filter(|run| scheduler_label(run) == name).filter_map(point).collect();
        Series::new(name, points)
    });
    Plot {
        title: format!("cost of a decision against run queue length on {}", runs[0].machine),
        x_label: "tasks that wait, mean of a CPU".into(),
        y_label: "ns a switch".into(),
        x: Axis::Factors,
        y: Axis::Factors,
        lines: false,
        series: series.collect(),
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::{Better, Metric};

    fn with(scheduler: &str, metrics: &[(&str, f64)]) -> RunRecord {
        let mut run = run(scheduler, 1, 1.0);
        run.metrics
            .extend(metrics.iter().map(|(name, value)| Metric::new(name, *value, "ns", Better::Lower)));
        run
    }

    #[test]
    fn percentiles_stand_in_where_a_run_has_no_distribution() {
        let latency = |p50, max| [("run_delay_ns_p50", p50), ("run_delay_ns_max", max)];
        let mut runs = [with("a", &latency(1000.0, 9000.0)), with("a", &latency(3000.0, 11_000.0))];
        runs[1].histograms.clear();
        let plots = plots(&runs);
        assert_eq!(plots.len(), 1);
        assert!(plots[0].contains("a, p50: 2 us") && plots[0].contains("a, max: 10 us"), "{}", plots[0]);
    }

    #[test]
    fn costs_are_plotted_where_run_queues_differ() {
        let run = |scheduler, length, cost| with(scheduler, &[(LENGTH, length), (COST, cost)]);
        let runs = [run("a", 1.0, 100.0), run("a", 50.0, 900.0), run("b", 50.0, 120.0)];
        let plots = costs(&runs);
        assert_eq!(plots.len(), 1);
        assert!(plots[0].contains("900 ns at 50 waiting tasks a CPU"), "{}", plots[0]);
        assert!(costs(&runs[1..]).is_empty() && costs(&[]).is_empty());
    }
}
