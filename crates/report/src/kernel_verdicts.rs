//! Does the simulator say what the kernel says? Every pair of schedulers under every workload that was measured in both arms.

use crate::bars::{Bar, Bars};
use crate::fidelity::{Fidelity, FidelityCell, GROUP};
use crate::format::{number, signed};
use crate::names::visible_json;
use crate::table::table;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A difference counts from so many percent on, where the ranges of the runs do not overlap. Chosen: what users call a difference.
pub(crate) const LEAST_PERCENT: f64 = 5.0;

/// The figures that are judged, and how the table names them.
const FIGURES: [(&str, &str); 4] = [
    ("throughput", "throughput"),
    ("run_delay_ns_p95", "run delay p95"),
    ("wakeup_latency_ns_p50", "wakeup p50"),
    (GROUP, "share of a group"),
];

/// True for a cell of one of these figures: that of groups stands for all of theirs.
fn is_of(cell: &FidelityCell, figure: &str) -> bool {
    cell.figure == figure || figure == GROUP && cell.figure.starts_with(GROUP)
}

/// What the simulator's word on a pair is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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
    pub(crate) const ALL: [(Outcome, &str); 5] = [
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

    pub(crate) fn name(self) -> &'static str {
        Outcome::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }
}

/// Their names, for the schema.
fn outcomes() -> Vec<&'static str> {
    Outcome::ALL.map(|(_, name)| name).into()
}

/// One pair under one workload.
pub(crate) struct Pair<'a> {
    pub(crate) one: &'a FidelityCell,
    pub(crate) other: &'a FidelityCell,
    /// How many percent the second is above the first in each arm, the simulated one first.
    pub(crate) change: [f64; 2],
    /// By what factor the simulated change may differ from the kernel's, where that is known.
    pub(crate) bar: Option<f64>,
    pub(crate) outcome: Outcome,
}

/// The pairs of one figure on one number of CPUs.
pub(crate) struct Judged<'a> {
    pub(crate) cpus: usize,
    /// As people call the figure.
    pub(crate) name: &'static str,
    pub(crate) pairs: Vec<Pair<'a>>,
}

impl Judged<'_> {
    /// How many verdicts of a kind there are.
    fn count(&self, wanted: Outcome) -> usize {
        self.pairs.iter().filter(|pair| pair.outcome == wanted).count()
    }
}

/// What `schedlab fidelity --json` writes: the simulator's verdicts beside a real kernel's.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Verdicts")]
pub(crate) struct VerdictsFile<'a> {
    /// Release of the real kernel.
    kernel: &'a str,
    /// How it ran, for example `QEMU, 1 ns an instruction`.
    real: &'a str,
    /// The day of the measurement, as 2026-11-23.
    date: &'a str,
    /// The machine file of the simulated arm.
    machine: &'a str,
    /// Repetitions of each real run.
    phases: usize,
    /// A difference counts from so many percent on.
    least_percent: f64,
    /// One for each workload, number of CPUs, figure and pair of schedulers.
    verdicts: Vec<VerdictFile<'a>>,
}

/// A pair of schedulers in both arms.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PairVerdict")]
struct VerdictFile<'a> {
    /// Number of CPUs.
    cpus: usize,
    /// The workload as named on the command line.
    workload: &'a str,
    /// The figure: a metric's name, or `throughput`, the first that the workload itself measures.
    figure: &'a str,
    /// The one scheduler.
    from: &'a str,
    /// The other one.
    to: &'a str,
    /// Simulated change from the one to the other, in percent.
    simulated_percent: f64,
    /// The real kernel's change, in percent.
    real_percent: f64,
    /// By what factor the ratio may differ from a real kernel's; null where that is not known.
    bar_factor: Option<f64>,
    /// What the simulator's word is worth.
    #[schemars(extend("enum" = outcomes()))]
    verdict: &'static str,
}

impl<'a> VerdictFile<'a> {
    fn new(pair: &Pair<'a>) -> VerdictFile<'a> {
        let [simulated_percent, real_percent] = pair.change;
        VerdictFile {
            cpus: pair.one.cpus,
            workload: &pair.one.workload,
            figure: &pair.one.figure,
            from: &pair.one.scheduler,
            to: &pair.other.scheduler,
            simulated_percent,
            real_percent,
            bar_factor: pair.bar,
            verdict: pair.outcome.name(),
        }
    }
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
        let part = self.error_unit();
        [(self.simulated, self.simulated_spread * part), (self.real, self.spread * part)]
    }
}

impl Fidelity {
    /// All pairs, by number of CPUs and figure. The bar for a simulated change is made of the other workloads.
    pub(crate) fn judged(&self, bars: &BTreeMap<(&str, usize), Bars>) -> Vec<Judged<'_>> {
        let mut cpus: Vec<usize> = self.cells.iter().map(|cell| cell.cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let of = |cpus: usize| {
            FIGURES.map(|(figure, name)| Judged { cpus, name, pairs: self.pairs(figure, cpus, bars) })
        };
        // Few workloads have groups.
        let has_its_row = |judged: &Judged| judged.name != FIGURES[3].1 || !judged.pairs.is_empty();
        cpus.into_iter().flat_map(of).filter(has_its_row).collect()
    }

    fn pairs(&self, figure: &str, cpus: usize, bars: &BTreeMap<(&str, usize), Bars>) -> Vec<Pair<'_>> {
        let mut by_workload: BTreeMap<(&str, &str), Vec<&FidelityCell>> = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| is_of(cell, figure) && cell.cpus == cpus) {
            by_workload.entry((&cell.workload, &cell.figure)).or_default().push(cell);
        }
        let mut pairs = Vec::new();
        for ((workload, figure), cells) in by_workload {
            let changes = bars.get(&(workload, cpus)).map_or(&[] as &[Bar], |bars| &bars.changes);
            let bar = changes.iter().find(|bar| bar.figure == figure).map(|bar| bar.factor);
            for (at, &one) in cells.iter().enumerate() {
                pairs.extend(cells[at + 1..].iter().map(|&other| pair(one, other, bar)));
            }
        }
        pairs
    }

    /// How many verdicts of each kind there are, by number of CPUs and figure; each one that is not the kernel's, if all are wanted.
    pub fn verdicts(&self, all: bool) -> String {
        let judged = self.judged(&self.bars_without());
        let mut text = table(&count_columns(), &COUNT_NUMBERS, &count_rows(&judged));
        let pairs = judged.iter().flat_map(|judged| &judged.pairs);
        let told: Vec<Vec<String>> =
            pairs.filter(|pair| pair.outcome != Outcome::Same).map(Pair::row).collect();
        if all && !told.is_empty() {
            text.push_str(&format!("\n{}", table(&PAIR_COLUMNS, &PAIR_NUMBERS, &told)));
        }
        text
    }

    /// Every verdict as JSON.
    pub fn verdicts_json(&self) -> String {
        let judged = self.judged(&self.bars_without());
        let file = VerdictsFile {
            kernel: &self.kernel,
            real: &self.real,
            date: &self.date,
            machine: &self.machine,
            phases: self.phases,
            least_percent: LEAST_PERCENT,
            verdicts: judged.iter().flat_map(|judged| &judged.pairs).map(VerdictFile::new).collect(),
        };
        let text = serde_json::to_string_pretty(&file).expect("names and numbers are JSON");
        visible_json(text + "\n")
    }
}

/// The columns of [`count_rows`], and which have numbers.
pub(crate) fn count_columns() -> [&'static str; 7] {
    let [same, missed, invented, reversed, not_decided] = Outcome::ALL.map(|(_, name)| name);
    ["CPUs", "figure", same, missed, invented, reversed, not_decided]
}
pub(crate) const COUNT_NUMBERS: [usize; 6] = [0, 2, 3, 4, 5, 6];

/// A row for each number of CPUs and figure: how many verdicts of each kind there are.
pub(crate) fn count_rows(judged: &[Judged]) -> Vec<Vec<String>> {
    let row = |judged: &Judged| {
        let counts = Outcome::ALL.map(|(outcome, _)| judged.count(outcome).to_string());
        [judged.cpus.to_string(), judged.name.to_string()].into_iter().chain(counts).collect()
    };
    judged.iter().map(row).collect()
}

/// The columns of [`Pair::row`], and which have numbers.
pub(crate) const PAIR_COLUMNS: [&str; 9] =
    ["CPUs", "workload", "figure", "from", "to", "simulated", "real", "bar", "verdict"];
pub(crate) const PAIR_NUMBERS: [usize; 4] = [0, 5, 6, 7];

/// The two cells of one workload, and what the simulator's word on them is worth.
fn pair<'a>(one: &'a FidelityCell, other: &'a FidelityCell, bar: Option<f64>) -> Pair<'a> {
    let ([our_one, their_one], [our_other, their_other]) = (one.ranges(), other.ranges());
    let (ours, theirs) = (change(our_one, our_other), change(their_one, their_other));
    let size = (other.simulated / one.simulated).ln().abs();
    let inside = bar.is_some_and(|factor| size <= factor.ln());
    Pair { one, other, change: [ours.0, theirs.0], bar, outcome: Outcome::of(ours.1, theirs.1, inside) }
}

impl Pair<'_> {
    /// A line of a table.
    pub(crate) fn row(&self) -> Vec<String> {
        let percent = |value: f64| format!("{} %", signed(value));
        vec![
            self.one.cpus.to_string(),
            self.one.workload.clone(),
            self.one.figure.clone(),
            self.one.scheduler.clone(),
            self.other.scheduler.clone(),
            percent(self.change[0]),
            percent(self.change[1]),
            factor_text(self.bar),
            self.outcome.name().to_string(),
        ]
    }
}

/// The factor of a bar, where there is one.
pub(crate) fn factor_text(bar: Option<f64>) -> String {
    bar.map_or_else(|| "-".to_string(), |factor| format!("x {}", number(factor)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cell(scheduler: &str, simulated: f64, real: f64, spread: f64) -> FidelityCell {
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

    /// Three schedulers, of which the simulator has the second one on the wrong side.
    pub(crate) fn three() -> Fidelity {
        let cells =
            vec![cell("a", 100.0, 100.0, 0.0), cell("b", 116.0, 86.0, 0.0), cell("c", 100.0, 100.0, 0.0)];
        Fidelity { machine: "m".into(), cells, ..Fidelity::default() }
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
    fn the_share_of_each_group_is_judged_on_its_own() {
        let group = |scheduler: &str, path: &str, simulated: f64, real: f64| FidelityCell {
            figure: format!("{GROUP}{path}"),
            ..cell(scheduler, simulated, real, 1.0)
        };
        let cells = vec![
            group("a", "x", 0.75, 0.74),
            group("b", "x", 0.50, 0.52),
            group("a", "y", 0.25, 0.20),
            group("b", "y", 0.20, 0.25),
        ];
        let judged = Fidelity { cells, ..Fidelity::default() };
        let judged = judged.judged(&BTreeMap::new());
        let groups = judged.iter().find(|judged| judged.name == "share of a group").unwrap();
        assert_eq!((groups.count(Outcome::Same), groups.count(Outcome::Reversed)), (1, 1));
        let empty = three();
        let none = empty.judged(&BTreeMap::new());
        assert!(none.iter().all(|judged| judged.name != "share of a group"));
    }

    #[test]
    fn a_difference_inside_the_bar_is_not_decided() {
        let (one, other) = (cell("a", 100.0, 100.0, 0.0), cell("b", 116.0, 86.0, 0.0));
        assert_eq!(pair(&one, &other, Some(1.2)).outcome, Outcome::NotDecided);
        assert_eq!(pair(&one, &other, Some(1.1)).outcome, Outcome::Reversed);
    }

    #[test]
    fn the_table_counts_each_pair() {
        let fidelity = three();
        let text = fidelity.verdicts(true);
        assert!(text.contains("reversed") && text.contains("+16"), "{text}");
        let row = text.lines().find(|line| line.contains("throughput")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["2", "throughput", "1", "0", "0", "2", "0"]);
    }

    #[test]
    fn every_pair_is_data() {
        let file: serde_json::Value = serde_json::from_str(&three().verdicts_json()).unwrap();
        let verdicts = file["verdicts"].as_array().unwrap();
        assert_eq!((file["least_percent"].as_f64(), verdicts.len()), (Some(5.0), 3));
        let told = |name: &str| verdicts.iter().map(|one| one[name].to_string()).collect::<Vec<_>>();
        assert_eq!(told("verdict"), ["\"reversed\"", "\"same\"", "\"reversed\""]);
        assert_eq!((verdicts[0]["from"].as_str(), verdicts[0]["to"].as_str()), (Some("a"), Some("b")));
        assert!(verdicts[0]["bar_factor"].is_null() && verdicts[0]["real_percent"] == -14.0, "{file}");
    }
}
