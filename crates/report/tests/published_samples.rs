//! The traces that Libenzi printed, read and analysed: every fact of
//! `published/libenzi_trace_facts.csv`, which was worked out apart from this program, has
//! to come out, to the last digit that stands there.

use schedlab_report::read_samples;
use schedlab_trace::samples::{SampleFigures, analyse, median};
use std::path::{Path, PathBuf};

/// The kernel thread of the keyboard (keventd).
const KEVENTD: u64 = 2;

fn published(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The figures of trace 1 to 4, and the clock of its machine in cycles a millisecond.
fn trace(number: usize) -> (SampleFigures, f64) {
    let (name, clock) = [
        ("libenzi_trace1_up_current.csv", 1e6),
        ("libenzi_trace2_up_proposed.csv", 1e6),
        ("libenzi_trace3_smp_current.csv", 733e3),
        ("libenzi_trace4_smp_proposed.csv", 733e3),
    ][number - 1];
    let (path, text) = published(name);
    let file = read_samples(&text, &path.display().to_string()).unwrap();
    (analyse(&file.rows, &[KEVENTD]), clock)
}

/// The figure behind a fact's name.
fn figure(figures: &SampleFigures, per_ms: f64, cpu: &str, metric: &str) -> f64 {
    if cpu == "all" {
        return match metric {
            "migrations_total" => f64::from(figures.hog_migrations()),
            "migrations_per_second" => {
                f64::from(figures.hog_migrations()) * per_ms * 1e3 / figures.span as f64
            }
            "hog_stint_median" => median(&figures.hog_stints()) / per_ms,
            "hog_stint_max" => *figures.hog_stints().last().unwrap() as f64 / per_ms,
            "span" => figures.span as f64 / per_ms,
            _ => {
                let pid: u64 = metric.strip_prefix("migrations_pid_").unwrap().parse().unwrap();
                f64::from(figures.tasks.iter().find(|task| task.pid == pid).unwrap().migrations)
            }
        };
    }
    let cpu = figures.cpus[cpu.parse::<usize>().unwrap()];
    match metric {
        "rows" => cpu.rows as f64,
        "schcy_median_without_recalc" => cpu.plain.median,
        "schcy_mean_without_recalc" => cpu.plain.mean,
        "schcy_mean_recalc" => cpu.marked.mean,
        "span" => cpu.span as f64 / per_ms,
        "keventd_interruptions" => f64::from(cpu.disturbances),
        "same_hog_resumes_after_keventd" => f64::from(cpu.resumed),
        "other_hog_runs_after_keventd" => f64::from(cpu.disturbances - cpu.resumed),
        other => panic!("a fact that nobody computes: {other}"),
    }
}

#[test]
fn every_fact_comes_out() {
    let traces: Vec<(SampleFigures, f64)> = (1..=4).map(trace).collect();
    let (_, facts) = published("libenzi_trace_facts.csv");
    let mut checked = 0;
    for line in facts.lines().skip(1) {
        let fields: Vec<&str> = line.splitn(8, ',').collect();
        let (number, cpu, metric, printed) = (fields[0], fields[3], fields[4], fields[6]);
        let (figures, per_ms) = &traces[number.parse::<usize>().unwrap() - 1];
        let found = figure(figures, *per_ms, cpu, metric);
        let digits = printed.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let unit = 0.1f64.powi(digits as i32);
        let wanted: f64 = printed.parse().unwrap();
        assert!((found - wanted).abs() <= unit / 2.0 + 1e-9, "{line}: found {found}");
        checked += 1;
    }
    assert_eq!(checked, 48);
}

#[test]
fn the_traces_are_consistent_and_the_specified_results_come_out() {
    let (one, two, three, four) = (trace(1).0, trace(2).0, trace(3).0, trace(4).0);
    for figures in [&one, &two, &three, &four] {
        assert_eq!(figures.violations, []);
    }
    let migrations = |figures: &SampleFigures| figures.tasks.iter().map(|task| task.migrations).sum::<u32>();
    assert_eq!([&one, &two, &three, &four].map(migrations), [0, 0, 22, 0]);
    let disturbed = |figures: &SampleFigures| (figures.cpus[0].resumed, figures.cpus[0].disturbances);
    assert_eq!((disturbed(&one), disturbed(&two)), ((3, 6), (8, 9)));
}
