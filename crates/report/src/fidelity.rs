//! How far simulated figures are from those of a real kernel. The same object and workload run in both arms. The
//! result is a table cell by cell, data that are kept, and the words that stand beside a simulated figure.

use crate::format::number;
use crate::table::table;
use memchr::{memchr, memmem, memrchr};
use schedlab_trace::{Bucket, Distribution, RunRecord, TaskRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The figures that have bars.
pub(crate) const FIGURES: [&str; 6] = [
    "context_switches",
    "throughput",
    "run_delay_ns_p50",
    "run_delay_ns_p95",
    "wakeup_latency_ns_p50",
    "wakeup_latency_ns_p95",
];

/// A comparison of the two arms over schedulers, workloads and numbers of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fidelity {
    /// Release of the real kernel.
    pub kernel: String,
    /// How it ran, for example `QEMU, 1 ns an instruction`.
    pub real: String,
    /// The day of the measurement, as 2026-11-23.
    pub date: String,
    /// The machine file of the simulated arm.
    pub machine: String,
    /// Repetitions of each real run.
    pub phases: usize,
    /// What each workload uses of the kernel, by its name in the cells.
    #[serde(default)]
    pub mechanisms: BTreeMap<String, Vec<String>>,
    /// One for each scheduler, workload, number of CPUs and figure.
    pub cells: Vec<FidelityCell>,
    /// Runs that one of the arms did not finish, with the reason.
    pub missing: Vec<String>,
}

/// One figure of one case in both arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FidelityCell {
    /// The scheduler as in results.
    pub scheduler: String,
    /// The workload as the user named it.
    pub workload: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// The figure: a metric's name, `cpu_share`, a percentile by time, or `group_PATH`, a group's part of the group above.
    pub figure: String,
    /// Mean of the simulated runs, in the metric's unit.
    pub simulated: f64,
    /// Mean of the real runs, in the metric's unit.
    pub real: f64,
    /// Simulated less real: in percent of the real one, shares in percentage points.
    pub error: f64,
    /// Half of the range of the real runs, in the unit of `error`.
    pub spread: f64,
    /// Half of the range of the simulated runs, in the unit of `error`.
    #[serde(default)]
    pub simulated_spread: f64,
}

/// Figures and the largest error, in percent (of `cpu_share` in points), that counts as agreement.
const BOUNDS: &[(&str, f64)] = &[
    ("cpu_share", 1.0),
    ("context_switches", 5.0),
    ("throughput", 5.0),
    ("run_delay_ns_p50", 10.0),
    ("run_delay_ns_p95", 10.0),
    ("run_delay_ns_p99", 10.0),
    ("run_delay_by_time_p50", 10.0),
    ("run_delay_by_time_p95", 10.0),
    ("wakeup_latency_ns_p50", 20.0),
    ("wakeup_latency_ns_p95", 20.0),
    ("wakeup_latency_ns_p99", 20.0),
    ("migrations", 20.0),
];

/// What the figure of a callback's calls begins with: `calls_enqueue`. In percent, as for switches.
const CALLS: &str = "calls_";
const CALLS_BOUND: f64 = 5.0;
/// Callbacks that are called less often in a run are none of its figures. Chosen: a few are of its end.
const FEW_CALLS: f64 = 20.0;

/// What the figure of a group's share begins with, before its path: the group's CPU time as a part of that of the group above. The bound is
/// in percentage points.
pub(crate) const GROUP: &str = "group_";
const GROUP_BOUND: f64 = 2.0;

/// The figures that the table shows; data have all of them.
const SHOWN: [(&str, &str); 7] = [
    ("cpu_share", "share"),
    ("context_switches", "switches"),
    ("throughput", "throughput"),
    ("run_delay_ns_p50", "delay p50"),
    ("run_delay_ns_p95", "delay p95"),
    ("wakeup_latency_ns_p50", "wakeup p50"),
    ("migrations", "migrations"),
];

/// What stands before and behind the cells of the data as text.
const CELLS: &str = "  \"cells\": [\n";
const END: &str = "\n  ]\n}\n";

impl FidelityCell {
    /// The largest error that counts as agreement here; the spread of the real runs is not told from one.
    pub fn bound(&self) -> f64 {
        let listed =
            || BOUNDS.iter().find(|(figure, _)| *figure == self.figure).map_or(0.0, |(_, bound)| *bound);
        let bound = match &self.figure {
            calls if calls.starts_with(CALLS) => CALLS_BOUND,
            group if group.starts_with(GROUP) => GROUP_BOUND,
            _ => listed(),
        };
        bound.max(self.spread)
    }

    /// What one in the unit of `error` is in that of the values.
    pub(crate) fn error_unit(&self) -> f64 {
        let is_share = self.figure == BOUNDS[0].0 || self.figure.starts_with(GROUP);
        if is_share { 0.01 } else { self.real.abs() / 100.0 }
    }

    /// The arms agree.
    pub fn holds(&self) -> bool {
        self.error.abs() <= self.bound()
    }
}

/// The value at a rank of `percent` of the waited time, where the wait of each length counts with its length. In ns.
fn by_time(distribution: &Distribution, percent: f64) -> Option<f64> {
    let time = |bucket: &Bucket| bucket.le.0 as f64 * bucket.count as f64;
    let total: f64 = distribution.buckets().iter().map(time).sum();
    let mut passed = 0.0;
    distribution.buckets().iter().find_map(|bucket| {
        passed += time(bucket);
        (passed >= total * percent / 100.0).then_some(bucket.le.0 as f64)
    })
}

/// A figure of a run; `throughput` is the first that the workload itself measures.
fn figure(run: &RunRecord, name: &str) -> Option<f64> {
    match name {
        "throughput" => run.metrics.first().filter(|first| first.name != "context_switches").map(|m| m.value),
        "run_delay_by_time_p50" => by_time(run.histogram("run_delay_ns")?, 50.0),
        "run_delay_by_time_p95" => by_time(run.histogram("run_delay_ns")?, 95.0),
        name => run.metric(name),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn half_range(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most - least) / 2.0
}

/// The calls of each callback in each run.
fn calls(runs: &[RunRecord]) -> BTreeMap<&str, Vec<f64>> {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|run| &run.callbacks).map(|callback| callback.name.as_str()).collect();
    let of = |run: &RunRecord, name: &str| {
        run.callbacks
            .iter()
            .find(|callback| callback.name == name)
            .map_or(0.0, |callback| callback.calls as f64)
    };
    names.into_iter().map(|name| (name, runs.iter().map(|run| of(run, name)).collect())).collect()
}

/// The cells of one case: runs of the same scheduler, workload and number of CPUs in both arms, at least one of each, and
/// real ones with their callbacks counted.
pub fn fidelity_cells(
    workload: &str,
    simulated: &[RunRecord],
    real: &[RunRecord],
    counted: &[RunRecord],
) -> Vec<FidelityCell> {
    let Some(first) = simulated.first().filter(|_| !real.is_empty()) else { return Vec::new() };
    let cell = |figure: &str, [simulated, real]: [f64; 2], error: f64, spreads: [f64; 2]| FidelityCell {
        scheduler: first.scheduler.clone(),
        workload: workload.to_string(),
        cpus: first.cpus,
        figure: figure.to_string(),
        simulated,
        real,
        error,
        spread: spreads[1],
        simulated_spread: spreads[0],
    };
    let mut cells: Vec<FidelityCell> = share(simulated, real)
        .map(|(ours, theirs, spread)| {
            cell("cpu_share", [ours, theirs], 100.0 * (ours - theirs), spread.map(|half| 100.0 * half))
        })
        .into_iter()
        .collect();
    for (name, _) in &BOUNDS[1..] {
        let all =
            |runs: &[RunRecord]| -> Option<Vec<f64>> { runs.iter().map(|run| figure(run, name)).collect() };
        let (Some(ours), Some(theirs)) = (all(simulated), all(real)) else { continue };
        let (our, their) = (mean(&ours), mean(&theirs));
        if their == 0.0 {
            continue;
        }
        let percent = 100.0 / their.abs();
        let spreads = [&ours, &theirs].map(|values| percent * half_range(values));
        cells.push(cell(name, [our, their], percent * (our - their), spreads));
    }
    cells.extend(group_shares(simulated, real).map(|(path, [ours, theirs])| {
        let values = [mean(&ours), mean(&theirs)];
        let spreads = [&ours, &theirs].map(|shares| 100.0 * half_range(shares));
        cell(&format!("{GROUP}{path}"), values, 100.0 * (values[0] - values[1]), spreads)
    }));
    cells.extend(call_counts(simulated, counted).into_iter().map(|(name, our, theirs)| {
        let percent = 100.0 / mean(&theirs).max(1.0);
        let error = percent * (our - mean(&theirs));
        cell(&format!("{CALLS}{name}"), [our, mean(&theirs)], error, [0.0, percent * half_range(&theirs)])
    }));
    cells
}

/// The share of each group of a workload in the simulated and in the real runs.
fn group_shares<'a>(
    simulated: &'a [RunRecord],
    real: &'a [RunRecord],
) -> impl Iterator<Item = (&'a str, [Vec<f64>; 2])> {
    let groups = simulated.first().map_or(&[][..], |run| &run.groups);
    groups.iter().filter_map(move |group| {
        let share = |run: &RunRecord| Some(run.groups.iter().find(|one| one.name == group.name)?.share);
        let of = |runs: &[RunRecord]| runs.iter().map(share).collect::<Option<Vec<f64>>>();
        Some((group.name.as_str(), [of(simulated)?, of(real)?]))
    })
}

/// The callbacks that were called often in one of the arms: the mean of the simulated runs, and the calls in each real one;
/// nothing where these were not counted.
fn call_counts<'a>(simulated: &'a [RunRecord], counted: &'a [RunRecord]) -> Vec<(&'a str, f64, Vec<f64>)> {
    if counted.is_empty() {
        return Vec::new();
    }
    let (ours, theirs) = (calls(simulated), calls(counted));
    let names: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    let of = |counts: &BTreeMap<&str, Vec<f64>>, name: &str| counts.get(name).cloned().unwrap_or(vec![0.0]);
    // The kernel counts no programs of timers, and those at trace points are no callbacks.
    let both = names.into_iter().filter(|name| !["timer", "tracing"].contains(name));
    let both = both.map(|name| (name, mean(&of(&ours, name)), of(&theirs, name)));
    both.filter(|(_, our, theirs)| our.max(mean(theirs)) >= FEW_CALLS).collect()
}

/// The shares of a run's tasks. Tasks of one kind (`hog/0`, `hog/1`) are in order of their shares: which of them has which is chance.
fn shares_of(run: &RunRecord) -> Vec<f64> {
    let kind = |task: &TaskRecord| {
        let name = task.name.rsplit_once('/').filter(|(_, number)| number.parse::<u32>().is_ok());
        (name.map_or(task.name.clone(), |(name, _)| name.to_string()), task.nice)
    };
    let mut by_kind: BTreeMap<(String, i32), Vec<f64>> = BTreeMap::new();
    for task in &run.tasks {
        by_kind.entry(kind(task)).or_default().push(task.share);
    }
    by_kind.values_mut().for_each(|shares| shares.sort_by(f64::total_cmp));
    run.tasks.iter().map(|task| by_kind.get_mut(&kind(task)).and_then(Vec::pop).unwrap_or_default()).collect()
}

/// The CPU share of the task that differs most: simulated, real, half of both ranges.
fn share(simulated: &[RunRecord], real: &[RunRecord]) -> Option<(f64, f64, [f64; 2])> {
    let [our_shares, their_shares] =
        [simulated, real].map(|runs| runs.iter().map(shares_of).collect::<Vec<_>>());
    let shares = |runs: &[Vec<f64>], at: usize| -> Option<Vec<f64>> {
        runs.iter().map(|shares| shares.get(at).copied()).collect()
    };
    let tasks = simulated.first()?.tasks.len();
    let both = (0..tasks).filter_map(|at| Some((shares(&our_shares, at)?, shares(&their_shares, at)?)));
    let means =
        both.map(|(ours, theirs)| (mean(&ours), mean(&theirs), [half_range(&ours), half_range(&theirs)]));
    means.max_by(|a, b| (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs()))
}

/// A value on one line.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and numbers are JSON")
}

/// The median of the sizes of some errors.
fn median(mut sizes: Vec<f64>) -> Option<f64> {
    sizes.sort_by(f64::total_cmp);
    let (low, high) = (sizes.get(sizes.len().checked_sub(1)? / 2)?, sizes.get(sizes.len() / 2)?);
    Some((low + high) / 2.0)
}

impl Fidelity {
    /// The cells of a scheduler, a figure and a number of CPUs.
    fn of<'a>(
        &'a self,
        scheduler: &'a str,
        cpus: usize,
        figure: &'a str,
    ) -> impl Iterator<Item = &'a FidelityCell> {
        let same = move |cell: &&FidelityCell| {
            cell.scheduler == scheduler && cell.cpus == cpus && cell.figure == figure
        };
        self.cells.iter().filter(same)
    }

    /// Schedulers and numbers of CPUs in the order of the cells.
    fn cases(&self) -> Vec<(&str, usize)> {
        let mut cases: Vec<(&str, usize)> = Vec::new();
        for cell in &self.cells {
            let case = (cell.scheduler.as_str(), cell.cpus);
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases.sort_by_key(|(_, cpus)| *cpus);
        cases
    }

    /// A row for each scheduler and number of CPUs: the median of the errors' sizes over the workloads, the worst one, and
    /// in how many cells the arms agree.
    pub fn overview(&self) -> String {
        let header: Vec<&str> =
            ["CPUs", "scheduler"].into_iter().chain(SHOWN.map(|(_, title)| title)).chain(["agree"]).collect();
        let right: Vec<usize> = (0..header.len()).filter(|&at| at != 1).collect();
        let rows: Vec<Vec<String>> = self.cases().into_iter().map(|case| self.row(case)).collect();
        table(&header, &right, &rows)
    }

    fn row(&self, (scheduler, cpus): (&str, usize)) -> Vec<String> {
        let shown = SHOWN.map(|(figure, _)| {
            let cells: Vec<&FidelityCell> = self.of(scheduler, cpus, figure).collect();
            let middle = median(cells.iter().map(|cell| cell.error.abs()).collect());
            let worst = cells.iter().map(|cell| cell.error).max_by(|a, b| a.abs().total_cmp(&b.abs()));
            match (middle, worst) {
                (Some(middle), Some(worst)) => {
                    format!("{} / {}", number(middle), crate::format::signed(worst))
                }
                _ => "-".to_string(),
            }
        });
        let here = || self.cells.iter().filter(|cell| cell.scheduler == scheduler && cell.cpus == cpus);
        let agree = format!("{}/{}", here().filter(|cell| cell.holds()).count(), here().count());
        [cpus.to_string(), scheduler.to_string()].into_iter().chain(shown).chain([agree]).collect()
    }

    /// A row for each cell in which the arms disagree, the largest error first.
    pub fn disagreements(&self) -> String {
        let mut cells: Vec<&FidelityCell> = self.cells.iter().filter(|cell| !cell.holds()).collect();
        cells.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        let rows: Vec<Vec<String>> = cells.into_iter().map(FidelityCell::row).collect();
        let header =
            ["scheduler", "CPUs", "workload", "figure", "simulated", "real", "error", "spread", "bound"];
        table(&header, &[1, 4, 5, 6, 7, 8], &rows)
    }

    /// The real kernel without its build: `linux-7.3.4`.
    pub fn kernel_name(&self) -> &str {
        self.kernel.split('+').next().unwrap_or_default()
    }

    /// The data as text, one cell a line.
    pub fn to_json(&self) -> String {
        let mut text = String::from("{\n");
        let head = [
            ("kernel", json(&self.kernel)),
            ("real", json(&self.real)),
            ("date", json(&self.date)),
            ("machine", json(&self.machine)),
            ("phases", json(&self.phases)),
            ("missing", json(&self.missing)),
            ("mechanisms", json(&self.mechanisms)),
        ];
        for (key, value) in head {
            text.push_str(&format!("  \"{key}\": {value},\n"));
        }
        let cells: Vec<String> = self.cells.iter().map(|cell| format!("    {}", json(cell))).collect();
        text.push_str(&format!("{CELLS}{}{END}", cells.join(",\n")));
        text
    }

    /// Reads what [`Fidelity::to_json`] wrote.
    ///
    /// # Errors
    /// The place and what is wrong there.
    pub fn from_json(text: &str) -> Result<Fidelity, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The part of such a text, one cell a line, that [`Fidelity::bars`] looks at for so many CPUs, and a cell of each other number
    /// of them. Reading the whole would take longer than a short run.
    ///
    /// # Errors
    /// As [`Fidelity::from_json`].
    pub fn part(text: &str, cpus: usize) -> Result<Fidelity, String> {
        let (head, cells) = text.split_once(CELLS).ok_or("there are no cells")?;
        let (mut others, mut found) = (BTreeSet::new(), Vec::new());
        let key = memmem::Finder::new("\"cpus\":");
        for at in key.find_iter(cells.as_bytes()) {
            // As the cells are written, the number stands before the figure.
            let behind = &cells[at + key.needle().len()..];
            let (number, rest) = behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count());
            let figure = rest.strip_prefix(",\"figure\":\"");
            let figure = figure.ok_or("a cell has no figure behind its number of CPUs")?;
            let wanted = match number.parse::<usize>() {
                Ok(number) if number == cpus => {
                    figure.split('"').next().is_some_and(|name| FIGURES.contains(&name))
                }
                Ok(number) => others.insert(number),
                Err(_) => return Err(format!("{number} is no number of CPUs")),
            };
            if wanted {
                let start = memrchr(b'\n', &cells.as_bytes()[..at]).map_or(0, |before| before + 1);
                let end = memchr(b'\n', &cells.as_bytes()[at..]).map_or(cells.len(), |behind| at + behind);
                found.push(cells[start..end].trim_end_matches(','));
            }
        }
        Fidelity::from_json(&format!("{head}{CELLS}{}{END}", found.join(",\n")))
    }

    /// In how many cells the arms agree, and how many there are.
    pub fn agreed(&self) -> (usize, usize) {
        (self.cells.iter().filter(|cell| cell.holds()).count(), self.cells.len())
    }

    /// How many cells agree, by figure, and how many there are.
    pub fn agreement(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for cell in &self.cells {
            let count = counts.entry(cell.figure.as_str()).or_default();
            count.0 += usize::from(cell.holds());
            count.1 += 1;
        }
        counts
    }
}

impl FidelityCell {
    fn row(&self) -> Vec<String> {
        let unit = if self.figure == "cpu_share" { "points" } else { "%" };
        vec![
            self.scheduler.clone(),
            self.cpus.to_string(),
            self.workload.clone(),
            self.figure.clone(),
            number(self.simulated),
            number(self.real),
            format!("{} {unit}", crate::format::signed(self.error)),
            number(self.spread),
            number(self.bound()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(figure: &str, error: f64, spread: f64) -> FidelityCell {
        FidelityCell {
            scheduler: "o1".into(),
            workload: format!("w{error}"),
            cpus: 1,
            figure: figure.into(),
            simulated: 100.0 + error,
            real: 100.0,
            error,
            spread,
            simulated_spread: 0.0,
        }
    }

    fn some() -> Fidelity {
        let cells = vec![
            cell("context_switches", 4.0, 0.5),
            cell("context_switches", -8.0, 0.5),
            cell("context_switches", 30.0, 40.0),
            cell("run_delay_ns_p50", 2.0, 0.0),
        ];
        Fidelity { kernel: "linux-7.3.4+deb13".into(), phases: 2, cells, ..Fidelity::default() }
    }

    #[test]
    fn a_cell_holds_within_its_bound_or_the_real_spread() {
        let holds: Vec<bool> = some().cells.iter().map(FidelityCell::holds).collect();
        assert_eq!(holds, [true, false, true, true]);
        assert!(some().disagreements().contains("-8") && !some().disagreements().contains("w30"));
        assert_eq!(some().agreement()["context_switches"], (2, 3));
    }

    #[test]
    fn the_overview_has_medians_and_the_worst() {
        let text = some().overview();
        assert!(text.contains("8 / +30") && text.contains("3/4"), "{text}");
        assert_eq!(some().kernel_name(), "linux-7.3.4");
    }

    #[test]
    fn tasks_of_one_kind_that_swap_names_are_no_error() {
        let task = |name: &str, share: f64| TaskRecord {
            name: name.into(),
            nice: 0,
            cpu_time: schedlab_base::DurationNs(1),
            share,
            switches: 1,
            migrations: 0,
        };
        let run = |shares: [f64; 2]| {
            let mut run = crate::made_up::run("o1", 1, 1.0);
            run.tasks = vec![task("hog/0", shares[0]), task("other", 0.1), task("hog/1", shares[1])];
            run
        };
        let (one, other) = (run([0.2, 0.7]), run([0.7, 0.2]));
        assert_eq!(shares_of(&one), [0.7, 0.1, 0.2]);
        assert_eq!(share(&[one], &[other]).map(|(ours, theirs, _)| ours - theirs), Some(0.0));
    }

    #[test]
    fn data_survive_the_file() {
        assert_eq!(Fidelity::from_json(&some().to_json()).unwrap(), some());
        assert!(Fidelity::from_json("{\"kernel\": 3}").is_err());
    }

    #[test]
    fn waits_by_time_are_those_that_most_of_the_time_is_in() {
        let le = |ns: u64, count: u64| Bucket { le: schedlab_base::DurationNs(ns), count };
        let waits = Distribution::new(vec![le(10, 90), le(1_000, 10)]).unwrap();
        assert_eq!((by_time(&waits, 5.0), by_time(&waits, 50.0)), (Some(10.0), Some(1_000.0)));
    }
}
