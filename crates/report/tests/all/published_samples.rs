//! The traces that Libenzi printed, read and analysed. Every fact of
//! `published/libenzi_trace_facts.csv` was worked out apart from this program. Each has to come
//! out, to the last digit that stands there.

use schedlab_report::read_samples;
use schedlab_trace::samples::{SampleFigures, analyse};
use std::path::{Path, PathBuf};

/// The kernel thread of the keyboard (keventd).
const KEVENTD: u64 = 2;

fn published(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The figures of trace 1 to 4, and the clock of its machine in MHz.
fn trace(number: usize) -> (SampleFigures, u32) {
    let (name, clock) = [
        ("libenzi_trace1_up_current.csv", 1000),
        ("libenzi_trace2_up_proposed.csv", 1000),
        ("libenzi_trace3_smp_current.csv", 733),
        ("libenzi_trace4_smp_proposed.csv", 733),
    ][number - 1];
    let (path, text) = published(name);
    let file = read_samples(&text, &path.display().to_string()).unwrap();
    (analyse(&file.rows, &[KEVENTD]), clock)
}

#[test]
fn every_fact_comes_out() {
    let traces: Vec<(SampleFigures, u32)> = (1..=4).map(trace).collect();
    let (_, facts) = published("libenzi_trace_facts.csv");
    let mut checked = 0;
    for line in facts.lines().skip(1) {
        let fields: Vec<&str> = line.splitn(8, ',').collect();
        let (number, cpu, metric, printed) = (fields[0], fields[3], fields[4], fields[6]);
        let (figures, mhz) = &traces[number.parse::<usize>().unwrap() - 1];
        let found = figures.named(metric, cpu.parse().ok(), *mhz).unwrap();
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
