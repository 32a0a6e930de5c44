//! Does the simulator say what the kernel says? Every pair of schedulers under every workload that was measured in both arms.

use crate::fidelity::{Fidelity, FidelityCell};
use crate::format::signed;
use crate::table::table;
use std::collections::BTreeMap;

/// A difference counts from so many percent on, where the ranges of the runs do not overlap. Chosen: what users call a difference.
const LEAST_PERCENT: f64 = 5.0;

/// The figures that are judged, and how the table names them.
const FIGURES: [(&str, &str); 3] = [
    ("throughput", "throughput"),
    ("run_delay_ns_p95", "run delay p95"),
    ("wakeup_latency_ns_p50", "wakeup p50"),
];

/// What the simulator's word on a pair is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// As the kernel.
    Same,
    /// The kernel has a difference, the simulator none.
    Missed,
    /// The simulator has a difference, the kernel none.
    Invented,
    /// They contradict each other.
    Reversed,
    /// The simulator has a difference that is inside its bar.
    NotDecided,
}

impl Outcome {
    const ALL: [(Outcome, &str); 5] = [
        (Outcome::Same, "same"),
        (Outcome::Missed, "missed"),
        (Outcome::Invented, "invented"),
        (Outcome::Reversed, "reversed"),
        (Outcome::NotDecided, "not decided"),
    ];

    /// Of the directions in both arms, and whether the simulated size is inside the bar.
    fn of(simulated: f64, real: f64, inside: bool) -> Outcome {
        match (simulated != 0.0, real != 0.0) {
            (true, _) if inside => Outcome::NotDecided,
            (true, true) if simulated * real < 0.0 => Outcome::Reversed,
            (true, false) => Outcome::Invented,
            (false, true) => Outcome::Missed,
            _ => Outcome::Same,
        }
    }

    fn name(self) -> &'static str {
        Outcome::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }
}

/// One pair under one workload.
struct Pair<'a> {
    one: &'a FidelityCell,
    other: &'a FidelityCell,
    /// How many percent the second is above the first in each arm.
    change: [f64; 2],
    outcome: Outcome,
}

/// A mean and half of the range of its runs.
type Range = (f64, f64);

/// The change from one to the other in percent, and its direction: 0 where it does not count.
fn change(one: Range, other: Range) -> (f64, f64) {
    let percent = if one.0 == 0.0 { 0.0 } else { 100.0 * (other.0 - one.0) / one.0.abs() };
    let apart = (one.0 - other.0).abs() > one.1 + other.1;
    (percent, if apart && percent.abs() >= LEAST_PERCENT { percent.signum() } else { 0.0 })
}

impl FidelityCell {
    fn ranges(&self) -> [Range; 2] {
        let part = self.real.abs() / 100.0;
        [(self.simulated, self.simulated_spread * part), (self.real, self.spread * part)]
    }
}

impl Fidelity {
    /// All pairs of a figure and a number of CPUs. The bar that a simulated change is held against is made of the other workloads.
    fn pairs(&self, figure: &str, cpus: usize) -> Vec<Pair<'_>> {
        let mut by_workload: BTreeMap<&str, Vec<&FidelityCell>> = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| cell.figure == figure && cell.cpus == cpus) {
            by_workload.entry(&cell.workload).or_default().push(cell);
        }
        let mut pairs = Vec::new();
        for (workload, cells) in by_workload {
            let factor = self.without(workload).change_factor(figure, cpus, self.mechanisms.get(workload));
            for (at, &one) in cells.iter().enumerate() {
                pairs.extend(cells[at + 1..].iter().map(|&other| pair(one, other, factor)));
            }
        }
        pairs
    }

    /// The same measurement without one workload.
    pub(crate) fn without(&self, workload: &str) -> Fidelity {
        let kept = self.cells.iter().filter(|cell| cell.workload != workload).cloned().collect();
        Fidelity { cells: kept, ..self.clone() }
    }

    fn change_factor(&self, figure: &str, cpus: usize, mechanisms: Option<&Vec<String>>) -> Option<f64> {
        let bars = self.bars(&self.machine, cpus, mechanisms.map(Vec::as_slice)).ok()?;
        bars.changes.iter().find(|bar| bar.figure == figure).map(|bar| bar.factor)
    }

    /// How many verdicts of each kind there are, by number of CPUs and figure; each one that is not the kernel's, if all are wanted.
    pub fn verdicts(&self, all: bool) -> String {
        let mut cpus: Vec<usize> = self.cells.iter().map(|cell| cell.cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let (mut rows, mut told) = (Vec::new(), Vec::new());
        for cpus in cpus {
            for (figure, name) in FIGURES {
                let pairs = self.pairs(figure, cpus);
                let count = |wanted| pairs.iter().filter(|pair| pair.outcome == wanted).count().to_string();
                let counts = Outcome::ALL.map(|(outcome, _)| count(outcome));
                rows.push([cpus.to_string(), name.to_string()].into_iter().chain(counts).collect());
                told.extend(pairs.iter().filter(|pair| pair.outcome != Outcome::Same).map(Pair::row));
            }
        }
        let header: Vec<&str> =
            ["CPUs", "figure"].into_iter().chain(Outcome::ALL.map(|(_, name)| name)).collect();
        let mut text = table(&header, &[0, 2, 3, 4, 5, 6], &rows);
        if all && !told.is_empty() {
            let header = ["CPUs", "workload", "figure", "from", "to", "simulated", "real", "verdict"];
            text.push_str(&format!("\n{}", table(&header, &[0, 5, 6], &told)));
        }
        text
    }
}

/// The two cells of one workload, and what the simulator's word on them is worth.
fn pair<'a>(one: &'a FidelityCell, other: &'a FidelityCell, factor: Option<f64>) -> Pair<'a> {
    let ([our_one, their_one], [our_other, their_other]) = (one.ranges(), other.ranges());
    let (ours, theirs) = (change(our_one, our_other), change(their_one, their_other));
    let size = (other.simulated / one.simulated).ln().abs();
    let inside = factor.is_some_and(|factor| size <= factor.ln());
    Pair { one, other, change: [ours.0, theirs.0], outcome: Outcome::of(ours.1, theirs.1, inside) }
}

impl Pair<'_> {
    fn row(&self) -> Vec<String> {
        let percent = |value: f64| format!("{} %", signed(value));
        vec![
            self.one.cpus.to_string(),
            self.one.workload.clone(),
            self.one.figure.clone(),
            self.one.scheduler.clone(),
            self.other.scheduler.clone(),
            percent(self.change[0]),
            percent(self.change[1]),
            self.outcome.name().to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(scheduler: &str, simulated: f64, real: f64, spread: f64) -> FidelityCell {
        FidelityCell {
            scheduler: scheduler.into(),
            workload: "w".into(),
            cpus: 2,
            figure: "throughput".into(),
            simulated,
            real,
            error: 0.0,
            spread,
            simulated_spread: 0.0,
        }
    }

    fn outcome(one: (f64, f64), other: (f64, f64, f64)) -> Outcome {
        let (one, other) = (cell("a", one.0, one.1, 0.0), cell("b", other.0, other.1, other.2));
        pair(&one, &other, None).outcome
    }

    #[test]
    fn a_pair_is_judged_by_direction_from_five_percent_on() {
        assert_eq!(outcome((100.0, 100.0), (116.0, 110.0, 1.0)), Outcome::Same);
        assert_eq!(outcome((100.0, 100.0), (103.0, 96.0, 1.0)), Outcome::Same);
        assert_eq!(outcome((100.0, 100.0), (103.0, 110.0, 1.0)), Outcome::Missed);
        assert_eq!(outcome((100.0, 100.0), (116.0, 102.0, 1.0)), Outcome::Invented);
        assert_eq!(outcome((100.0, 100.0), (116.0, 86.0, 1.0)), Outcome::Reversed);
        // The ranges of the real runs overlap.
        assert_eq!(outcome((100.0, 100.0), (116.0, 110.0, 20.0)), Outcome::Invented);
    }

    #[test]
    fn a_difference_inside_the_bar_is_not_decided() {
        let (one, other) = (cell("a", 100.0, 100.0, 0.0), cell("b", 116.0, 86.0, 0.0));
        assert_eq!(pair(&one, &other, Some(1.2)).outcome, Outcome::NotDecided);
        assert_eq!(pair(&one, &other, Some(1.1)).outcome, Outcome::Reversed);
    }

    #[test]
    fn the_table_counts_each_pair() {
        let cells =
            vec![cell("a", 100.0, 100.0, 0.0), cell("b", 116.0, 86.0, 0.0), cell("c", 100.0, 100.0, 0.0)];
        let fidelity = Fidelity { machine: "m".into(), cells, ..Fidelity::default() };
        let text = fidelity.verdicts(true);
        assert!(text.contains("reversed") && text.contains("+16"), "{text}");
        let row = text.lines().find(|line| line.contains("throughput")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["2", "throughput", "1", "0", "0", "2", "0"]);
    }
}
