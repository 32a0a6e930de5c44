//! Within what bounds of a simulated figure the real kernel's lies, from measured cells. It is split conformal prediction on the
//! logarithm of simulated over real (Lei et al., "Distribution-free predictive inference for regression", 2018).
//!
//! The cells are those of the same machine and number of CPUs, under workloads with mechanisms of the same family (processes,
//! sockets, ...). Of a run with several families the widest bar counts. Schedulers are pooled: few workloads were measured under
//! each one. The bar of a change between two schedulers is made of pairs of cells of one workload, whose errors are alike in part.

use crate::cells::{cell_of, distinct};
use crate::comparison::Comparison;
use crate::fidelity::{FIGURES, Fidelity, FidelityCell};
use crate::format::number;
use crate::format::unit_text;
use schedlab_base::{Metric, counted};
use schedlab_trace::{Backend, RunRecord, Validation};
use std::collections::{BTreeMap, BTreeSet};

/// How many percent of the kernel's figures a bar covers.
pub const COVERAGE: f64 = 80.0;

/// The rank of the error that a bar is made of. Above [`COVERAGE`], since cells of one workload err alike: with a workload left
/// out, bars of this level cover that part of its cells.
const LEVEL: f64 = 0.85;

/// The bar of a figure: the kernel's value is the simulated one, divided or multiplied by at most a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The figure: a metric's name, or `throughput` for the first that the workload measures.
    pub figure: String,
    /// At least 1.
    pub factor: f64,
}

impl Bar {
    /// Between which values the kernel's lies.
    fn interval(&self, simulated: f64) -> [f64; 2] {
        [simulated / self.factor, simulated * self.factor]
    }
}

/// What measured cells say of runs of one machine, number of CPUs and kind of workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The real kernel without its build: `linux-7.3.4`.
    pub kernel: String,
    /// Workloads of the run's families of mechanisms, and cells of switches under them.
    pub workloads: usize,
    /// See `workloads`.
    pub cells: usize,
    /// For figures of a run.
    pub figures: Vec<Bar>,
    /// For the ratio of one scheduler's figure to another's.
    pub changes: Vec<Bar>,
    /// Half of the range of real runs, in percent, in the middle one of these cells: by figure.
    pub spreads: Vec<(String, f64)>,
}

/// Mechanisms whose errors are alike, by what the line calls them. Those that are in none (sleeping, nice values) are in most
/// workloads, and tell little.
const FAMILIES: [(&str, &[&str]); 6] = [
    ("processes", &["fork", "exec", "pages"]),
    ("sockets", &["unix", "tcp", "udp", "epoll", "poll", "listener"]),
    (
        "locks and pipes",
        &["pipe", "futex", "pi-futex", "semaphore", "eventfd", "message-queue", "file-lock", "signal"],
    ),
    ("real-time tasks", &["real-time", "deadline"]),
    ("yielding and affinity", &["yield", "affinity"]),
    ("devices", &["disk", "kernel-work", "hotplug"]),
];

/// The family of workloads that only compute and sleep.
const COMPUTING: &str = "computing";

/// The families of some mechanisms.
fn families(mechanisms: &[String]) -> Vec<&'static str> {
    let has = |names: &&[&str]| mechanisms.iter().any(|one| names.contains(&one.as_str()));
    let found: Vec<&str> = FAMILIES.iter().filter(|(_, names)| has(names)).map(|(name, _)| *name).collect();
    if found.is_empty() { vec![COMPUTING] } else { found }
}

/// The signed error of a cell: the logarithm of simulated over real, endless where one of them is nothing.
pub(crate) fn error(cell: &FidelityCell) -> f64 {
    match (cell.simulated > 0.0, cell.real > 0.0) {
        (true, true) => (cell.simulated / cell.real).ln(),
        (false, false) => 0.0,
        _ => f64::INFINITY,
    }
}

/// The conformal quantile of sizes of errors, as a factor; nothing where there are too few.
fn factor(mut sizes: Vec<f64>) -> Option<f64> {
    sizes.sort_by(f64::total_cmp);
    let rank = ((sizes.len() + 1) as f64 * LEVEL).ceil() as usize;
    sizes.get(rank.checked_sub(1)?).filter(|size| size.is_finite()).map(|size| size.exp())
}

/// Sizes of the errors of changes: of each pair of schedulers under one workload.
fn pair_errors(cells: &[&FidelityCell]) -> Vec<f64> {
    let mut by_workload: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for cell in cells {
        by_workload.entry(&cell.workload).or_default().push(error(cell));
    }
    let pairs = |errors: &Vec<f64>| -> Vec<f64> {
        let others = |at: usize| errors[at + 1..].iter();
        let sizes =
            errors.iter().enumerate().flat_map(|(at, one)| others(at).map(move |other| (one - other).abs()));
        sizes.map(|size| if size.is_nan() { f64::INFINITY } else { size }).collect()
    };
    by_workload.values().flat_map(pairs).collect()
}

impl Fidelity {
    /// The bars for runs on a machine with so many CPUs, under a workload with these mechanisms.
    ///
    /// # Errors
    /// Why these cells say nothing of such a run.
    pub fn bars(&self, machine: &str, cpus: usize, mechanisms: Option<&[String]>) -> Result<Bars, String> {
        if machine != self.machine {
            return Err(format!(
                "prices and kernel of {machine} were never held against a real one, those of {} were",
                self.machine
            ));
        }
        let mechanisms = mechanisms.ok_or("what the workload uses of the kernel is not known")?;
        let here: Vec<&FidelityCell> = self.cells.iter().filter(|cell| cell.cpus == cpus).collect();
        if here.is_empty() {
            let measured: BTreeSet<usize> = self.cells.iter().map(|cell| cell.cpus).collect();
            let measured: Vec<String> = measured.iter().map(usize::to_string).collect();
            return Err(format!("{} were not measured, {} were", counted(cpus, "CPU"), measured.join(", ")));
        }
        let of = |workload: &str| self.mechanisms.get(workload).map_or(&[] as &[String], Vec::as_slice);
        let missing: Vec<&str> = mechanisms
            .iter()
            .filter(|wanted| !here.iter().any(|cell| of(&cell.workload).contains(wanted)))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let verb = if missing.len() == 1 { "was" } else { "were" };
            return Err(format!("{} {verb} not measured on {}", missing.join(", "), counted(cpus, "CPU")));
        }
        let of_families = |wanted: &[&str]| {
            let near = |cell: &&&FidelityCell| {
                families(of(&cell.workload)).iter().any(|family| wanted.contains(family))
            };
            let told = || {
                format!("too few runs with {} were measured on {}", wanted.join(", "), counted(cpus, "CPU"))
            };
            self.bars_of(&here.iter().filter(near).copied().collect::<Vec<_>>()).ok_or_else(told)
        };
        let families = families(mechanisms);
        // A workload with several of the families is counted once.
        let together = of_families(&families);
        let each = families.iter().map(|family| of_families(&[*family])).collect::<Result<Vec<_>, _>>()?;
        Ok(each.iter().fold(together?, Bars::wider))
    }

    /// The bars of each workload and number of CPUs, made without that workload, where there are any: what was measured is compared
    /// with them.
    pub(crate) fn bars_without(&self) -> BTreeMap<(&str, usize), Bars> {
        let cases: BTreeSet<(&str, usize)> =
            self.cells.iter().map(|cell| (cell.workload.as_str(), cell.cpus)).collect();
        let of = |(workload, cpus): (&'_ str, usize)| {
            let uses = self.mechanisms.get(workload).map(Vec::as_slice);
            let kept = self.cells.iter().filter(|cell| cell.workload != workload).cloned().collect();
            let others = Fidelity { cells: kept, ..self.clone() };
            others.bars(&self.machine, cpus, uses).ok()
        };
        cases.into_iter().filter_map(|case| Some((case, of(case)?))).collect()
    }

    /// How many of the kernel's figures lie inside bars that are made without their workload, and how many have such bars. The second
    /// pair is of changes from one scheduler to another.
    pub fn coverage(&self) -> [(usize, usize); 2] {
        let mut counts = [(0, 0); 2];
        for ((workload, cpus), bars) in self.bars_without() {
            let cells = |figure: &str| -> Vec<&FidelityCell> {
                let here = |cell: &&FidelityCell| cell.workload == workload && cell.cpus == cpus;
                self.cells.iter().filter(here).filter(|cell| cell.figure == figure).collect()
            };
            let sizes = |bar: &Bar| cells(&bar.figure).into_iter().map(|cell| error(cell).abs()).collect();
            let changes = |bar: &Bar| pair_errors(&cells(&bar.figure));
            let all: [Vec<(f64, Vec<f64>)>; 2] = [
                bars.figures.iter().map(|bar| (bar.factor, sizes(bar))).collect(),
                bars.changes.iter().map(|bar| (bar.factor, changes(bar))).collect(),
            ];
            for (count, kinds) in counts.iter_mut().zip(&all) {
                for (factor, sizes) in kinds {
                    count.0 += sizes.iter().filter(|size| **size <= factor.ln()).count();
                    count.1 += sizes.len();
                }
            }
        }
        counts
    }

    fn bars_of(&self, cells: &[&FidelityCell]) -> Option<Bars> {
        let of = |figure: &str| -> Vec<&FidelityCell> {
            cells.iter().filter(|cell| cell.figure == figure).copied().collect()
        };
        let named = |figure: &str, factor: f64| Bar { figure: figure.to_string(), factor };
        let single = |&figure: &&str| {
            let sizes = of(figure).into_iter().map(|cell| error(cell).abs()).collect();
            Some(named(figure, factor(sizes)?))
        };
        let change = |&figure: &&str| Some(named(figure, factor(pair_errors(&of(figure)))?));
        let spread = |&figure: &&str| {
            let mut spreads: Vec<f64> = of(figure).into_iter().map(|cell| cell.spread).collect();
            spreads.sort_by(f64::total_cmp);
            Some((figure.to_string(), *spreads.get(spreads.len() / 2)?))
        };
        let workloads: BTreeSet<&str> = cells.iter().map(|cell| cell.workload.as_str()).collect();
        let figures: Vec<Bar> = FIGURES.iter().filter_map(single).collect();
        (!figures.is_empty()).then(|| Bars {
            kernel: self.kernel_name().to_string(),
            workloads: workloads.len(),
            cells: of("context_switches").len(),
            figures,
            changes: FIGURES.iter().filter_map(change).collect(),
            spreads: FIGURES.iter().filter_map(spread).collect(),
        })
    }
}

/// The figure of a metric: the first one that a workload measures is its throughput.
fn figure_of<'a>(metric: &'a str, first: Option<&str>) -> &'a str {
    if first == Some(metric) && metric != "context_switches" { "throughput" } else { metric }
}

impl Bars {
    /// With the wider one of each bar of both; a figure that has none in one of them has none.
    fn wider(self, other: &Bars) -> Bars {
        let each = |ours: &[Bar], theirs: &[Bar]| -> Vec<Bar> {
            let wider = |bar: &Bar| {
                let other = theirs.iter().find(|other| other.figure == bar.figure)?;
                Some(Bar { figure: bar.figure.clone(), factor: bar.factor.max(other.factor) })
            };
            ours.iter().filter_map(wider).collect()
        };
        Bars {
            figures: each(&self.figures, &other.figures),
            changes: each(&self.changes, &other.changes),
            ..self
        }
    }

    /// The bar of a metric of a run whose first metric is `first`.
    fn of_metric(&self, metric: &str, first: Option<&str>) -> Option<&Bar> {
        let figure = figure_of(metric, first);
        self.figures.iter().find(|bar| bar.figure == figure)
    }

    /// The bar of the ratio of two schedulers' figures.
    fn of_change(&self, metric: &str, first: Option<&str>) -> Option<&Bar> {
        let figure = figure_of(metric, first);
        self.changes.iter().find(|bar| bar.figure == figure)
    }

    /// The kernel's own spread of a metric, in percent.
    fn spread(&self, metric: &str, first: Option<&str>) -> Option<f64> {
        let figure = figure_of(metric, first);
        self.spreads.iter().find(|(name, _)| name == figure).map(|(_, spread)| *spread)
    }

    /// Takes back a verdict whose size is inside the bar.
    fn judge(&self, comparison: &mut Comparison, first: Option<&str>) {
        comparison.kernel_spread_percent = self.spread(&comparison.metric, first);
        if let Some(bar) = self.of_change(&comparison.metric, first) {
            comparison.heed_factor(bar.factor);
        }
    }

    /// Between which values the kernel's figures of a run lie.
    pub fn validation(&self, metrics: &[Metric]) -> Validation {
        let first = metrics.first().map(|metric| metric.name.as_str());
        let interval = |metric: &Metric| {
            let bar = self.of_metric(&metric.name, first)?;
            Some((metric.name.clone(), bar.interval(metric.value)))
        };
        Validation::Intervals {
            kernel: self.kernel.clone(),
            coverage_percent: COVERAGE,
            measured: self.cells,
            workloads: self.workloads,
            intervals: metrics.iter().filter_map(interval).collect(),
        }
    }
}

/// A line on a simulated run's figures: between which values the kernel's lie, or why that is not known. Nothing for a real run.
pub fn validation_text(run: &RunRecord) -> String {
    match &run.validation {
        None => String::new(),
        Some(Validation::None(why)) => format!("real kernel: not validated: {why}\n"),
        Some(Validation::Intervals { kernel, coverage_percent, measured, workloads, intervals }) => {
            let told = |(name, [low, high]): &(String, [f64; 2])| {
                let unit =
                    run.metrics.iter().find(|metric| metric.name == *name).map_or("", |metric| metric.unit);
                format!("{name} {} to {} {}", number(*low), number(*high), unit_text(unit))
                    .trim_end()
                    .to_string()
            };
            let told: Vec<String> = intervals.iter().map(told).collect();
            format!(
                "real kernel ({kernel}), {coverage_percent:.0} % of figures, by {} of {}: {}\n",
                counted(*measured, "measured run"),
                counted(*workloads, "workload"),
                told.join(", ")
            )
        }
    }
}

/// Why verdicts on simulated runs are not validated, once for each reason, and which metrics have no bars where others do.
pub fn validations_text(runs: &[RunRecord], comparisons: &[Comparison]) -> String {
    let has_bar = |one: &&Comparison| one.kernel_factor.is_some();
    let barred: Vec<_> = distinct(comparisons.iter().filter(has_bar).map(|one| one.cell.clone()));
    let bare = comparisons.iter().filter(|one| one.kernel_factor.is_none() && barred.contains(&one.cell));
    let bare = distinct(bare.map(|one| one.metric.clone())).join(", ");
    let bare = if bare.is_empty() { bare } else { format!("\nreal kernel: no bars for {bare}\n") };
    let reason = |run: &RunRecord| match &run.validation {
        Some(Validation::None(why)) => Some(format!("\nreal kernel: not validated: {why}\n")),
        _ => None,
    };
    distinct(runs.iter().filter_map(reason)).concat() + &bare
}

/// Takes back the verdicts on simulated runs whose size is inside the bar of a change. `bars` are those of a run, where there are.
pub fn heed_bars(
    comparisons: &mut [Comparison],
    runs: &[RunRecord],
    bars: impl Fn(&RunRecord) -> Option<Bars>,
) {
    let simulated = comparisons.iter().filter(|one| one.cell.backend == Backend::Sim);
    for cell in distinct(simulated.map(|one| one.cell.clone())) {
        let same = |run: &&RunRecord| cell_of(run) == cell && !run.is_void();
        let Some(run) = runs.iter().find(same) else { continue };
        let Some(bars) = bars(run) else { continue };
        let first = run.metrics.first().map(|metric| metric.name.as_str());
        comparisons.iter_mut().filter(|one| one.cell == cell).for_each(|one| bars.judge(one, first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(workload: &str, scheduler: &str, simulated: f64, real: f64) -> FidelityCell {
        FidelityCell {
            scheduler: scheduler.into(),
            workload: workload.into(),
            cpus: 2,
            figure: "context_switches".into(),
            simulated,
            real,
            error: 100.0 * (simulated - real) / real,
            spread: 3.0,
            simulated_spread: 0.0,
        }
    }

    fn measured() -> Fidelity {
        let errors = [1.0, 1.02, 0.97, 1.1, 0.9, 1.3, 0.8, 1.5];
        let cells = errors
            .iter()
            .enumerate()
            .map(|(at, error)| cell(if at < 4 { "a" } else { "b" }, &format!("s{at}"), 100.0 * error, 100.0));
        Fidelity {
            kernel: "linux-7.3.4+deb".into(),
            machine: "m".into(),
            mechanisms: BTreeMap::from([
                ("a".to_string(), vec!["pipe".to_string(), "nice".to_string()]),
                ("b".to_string(), vec!["futex".to_string(), "sleep".to_string()]),
                ("c".to_string(), vec!["tcp".to_string()]),
            ]),
            cells: cells.chain([cell("c", "s0", 50.0, 100.0)]).collect(),
            ..Fidelity::default()
        }
    }

    fn uses(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_bar_is_a_rank_of_the_errors_of_near_workloads() {
        let bars = measured().bars("m", 2, Some(&uses(&["pipe", "nice"]))).unwrap();
        // Rank 8 of 8.
        assert!((bars.figures[0].factor - 1.5).abs() < 1e-9, "{bars:?}");
        assert_eq!((bars.workloads, bars.cells, bars.kernel.as_str()), (2, 8, "linux-7.3.4"));
        let [low, high] = bars.figures[0].interval(300.0);
        assert!((low - 200.0).abs() < 1e-9 && (high - 450.0).abs() < 1e-9);
        assert_eq!(bars.spread("context_switches", Some("turns")), Some(3.0));
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let measured = measured();
        let why =
            |machine: &str, cpus, uses: Option<&[String]>| measured.bars(machine, cpus, uses).unwrap_err();
        assert!(why("modern", 2, Some(&[])).contains("those of m were"));
        assert_eq!(why("m", 3, Some(&[])), "3 CPUs were not measured, 2 were");
        assert_eq!(
            why("m", 2, Some(&uses(&["fork", "pipe", "exec"]))),
            "fork, exec were not measured on 2 CPUs"
        );
        assert!(why("m", 2, None).contains("not known"));
        // One cell is too few for that level, also beside a family that has enough.
        for mechanisms in [&["tcp"][..], &["pipe", "tcp"]] {
            let why = why("m", 2, Some(&uses(mechanisms)));
            assert_eq!(why, "too few runs with sockets were measured on 2 CPUs");
        }
        assert!(why("m", 2, Some(&[])).contains("too few runs with computing"));
    }

    #[test]
    fn a_change_errs_by_what_the_two_schedulers_do_not_share() {
        let both = [cell("a", "x", 200.0, 100.0), cell("a", "y", 220.0, 100.0), cell("b", "x", 9.0, 0.0)];
        let sizes = pair_errors(&both.iter().collect::<Vec<_>>());
        assert!(sizes.len() == 1 && (sizes[0] - 1.1f64.ln()).abs() < 1e-9, "{sizes:?}");
        assert!(error(&both[2]).is_infinite());
    }
}
