//! Samples of `schedule()`: one record for each pass through the scheduler, as Libenzi's
//! LatSched patch and its collector `schedcnt` took them, and what can be read off them.
//!
//! A record's start and end are the values of a cycle counter at entry and exit. Its *run* lasts
//! from its start to the start of the next record of the same CPU. So the chosen task's time on the
//! CPU includes the pass that chose it.

use std::collections::BTreeMap;

/// One pass through `schedule()`. Times and spans are in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedSample {
    /// The CPU.
    pub cpu: u32,
    /// The record's place among those of the CPU.
    pub seq: u64,
    /// Cycle counter at entry (`CYSTART`).
    pub start: u64,
    /// Cycle counter at exit (`CYEND`).
    pub end: u64,
    /// What the pass took (`SCHCY`).
    pub cost: u64,
    /// The task chosen (`PID`); 0 is the idle task.
    pub pid: u64,
    /// From this start to the next one on this CPU (`PRUN`).
    pub run: u64,
    /// A pass that did something rare and dear: in the historic traces, recalculated
    /// the counters of all tasks.
    pub mark: bool,
}

impl SchedSample {
    /// When the next pass began; saturates.
    pub fn next_start(&self) -> u64 {
        self.start.saturating_add(self.run)
    }
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The cost is not end minus start.
    Cost,
    /// The next record of the CPU does not start when this one's run is over.
    Run,
    /// The task still ran on that CPU.
    TwoCpus(u32),
}

/// The cost of passes: a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostFigures {
    /// Number of passes.
    pub count: usize,
    /// Smallest cost in cycles.
    pub min: u64,
    /// Median in cycles; of an even number the mean of the middle two.
    pub median: f64,
    /// Mean in cycles.
    pub mean: f64,
    /// Largest cost in cycles.
    pub max: u64,
}

/// The records of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuFigures {
    /// The CPU's number.
    pub cpu: u32,
    /// Number of records.
    pub rows: usize,
    /// From the first start to the end of the last run, in cycles.
    pub span: u64,
    /// Cost of passes without a mark.
    pub plain: CostFigures,
    /// Cost of passes with one.
    pub marked: CostFigures,
    /// Runs of a disturbing task between two others.
    pub disturbances: u32,
    /// After how many of them the task from before continued.
    pub resumed: u32,
}

/// One task in all records.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFigures {
    /// The task's PID.
    pub pid: u64,
    /// Time on CPUs in cycles.
    pub time: u64,
    /// Consecutive appearances on different CPUs.
    pub migrations: u32,
    /// Lengths of its stints in cycles, ascending: how long it was on one CPU without
    /// another task in between. The first and the last one of a trace may be cut off.
    pub stints: Vec<u64>,
    /// The task had a CPU for at least a hundredth of the trace: a hog.
    pub hog: bool,
}

/// What the records say.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleFigures {
    /// Broken records, by index into the records that were given.
    pub violations: Vec<(usize, Violation)>,
    /// By CPU number.
    pub cpus: Vec<CpuFigures>,
    /// By PID, without the idle task.
    pub tasks: Vec<TaskFigures>,
    /// From the first start to the end of the last run of all CPUs, in cycles.
    pub span: u64,
}

impl SampleFigures {
    /// Migrations of all hogs.
    pub fn hog_migrations(&self) -> u32 {
        self.tasks.iter().filter(|task| task.hog).map(|task| task.migrations).sum()
    }

    /// The stints of all hogs in cycles, ascending.
    pub fn hog_stints(&self) -> Vec<u64> {
        let hogs = self.tasks.iter().filter(|task| task.hog);
        let mut stints: Vec<u64> = hogs.flat_map(|task| task.stints.iter().copied()).collect();
        stints.sort_unstable();
        stints
    }
}

/// Figures that [`SampleFigures::named`] knows and that make sense for any samples: name and unit.
pub const NAMED: [(&str, &str); 13] = [
    ("rows", "1"),
    ("span", "ms"),
    ("migrations_total", "1"),
    ("migrations_per_second", "1/s"),
    ("hog_migrations_min", "1"),
    ("hog_stint_median", "ms"),
    ("hog_stint_max", "ms"),
    ("schcy_median_without_recalc", "cycles"),
    ("schcy_mean_without_recalc", "cycles"),
    ("schcy_mean_recalc", "cycles"),
    ("keventd_interruptions", "1"),
    ("same_hog_resumes_after_keventd", "1"),
    ("resumed_part", "1"),
];

impl SampleFigures {
    /// A figure by its name in `published/libenzi_trace_facts.csv`; without `cpu` of all CPUs
    /// together, or of the first one where it is a figure of one CPU. Spans are in ms. Besides
    /// those: `resumed_part`, the part of the disturbances after which the task from before
    /// continues, and `hog_migrations_min`, the migrations of the hog that has the fewest. Nothing for an unknown
    /// name, or where there is nothing to count.
    pub fn named(&self, name: &str, cpu: Option<u32>, clock_mhz: u32) -> Option<f64> {
        let per_ms = f64::from(clock_mhz) * 1e3;
        match name {
            "migrations_total" => return Some(f64::from(self.hog_migrations())),
            "migrations_per_second" => {
                let seconds = self.span as f64 / per_ms / 1e3;
                return (seconds > 0.0).then(|| f64::from(self.hog_migrations()) / seconds);
            }
            "hog_migrations_min" => {
                let hogs = self.tasks.iter().filter(|task| task.hog);
                return hogs.map(|task| f64::from(task.migrations)).reduce(f64::min);
            }
            "hog_stint_median" => return Some(median(&self.hog_stints()) / per_ms),
            "hog_stint_max" => return self.hog_stints().last().map(|&stint| stint as f64 / per_ms),
            "span" if cpu.is_none() => return Some(self.span as f64 / per_ms),
            _ => {}
        }
        if let Some(pid) = name.strip_prefix("migrations_pid_") {
            let pid: u64 = pid.parse().ok()?;
            return self.tasks.iter().find(|task| task.pid == pid).map(|task| f64::from(task.migrations));
        }
        let cpu = self.cpus.iter().find(|figures| cpu.is_none_or(|cpu| figures.cpu == cpu))?;
        let counted = |costs: &CostFigures, value: f64| (costs.count > 0).then_some(value);
        match name {
            "rows" => Some(cpu.rows as f64),
            "span" => Some(cpu.span as f64 / per_ms),
            "schcy_median_without_recalc" => counted(&cpu.plain, cpu.plain.median),
            "schcy_mean_without_recalc" => counted(&cpu.plain, cpu.plain.mean),
            "schcy_mean_recalc" => counted(&cpu.marked, cpu.marked.mean),
            "keventd_interruptions" => Some(f64::from(cpu.disturbances)),
            "same_hog_resumes_after_keventd" => Some(f64::from(cpu.resumed)),
            "other_hog_runs_after_keventd" => Some(f64::from(cpu.disturbances - cpu.resumed)),
            "resumed_part" => {
                (cpu.disturbances > 0).then(|| f64::from(cpu.resumed) / f64::from(cpu.disturbances))
            }
            _ => None,
        }
    }
}

/// The middle of ascending values; of an even number the mean of the middle two; 0 of none.
pub fn median(sorted: &[u64]) -> f64 {
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(low), sorted.get(high)) {
        (Some(&low), Some(&high)) => (low as f64 + high as f64) / 2.0,
        _ => 0.0,
    }
}

/// Reads off what `samples`, in any order, say. A run of one of the `disturbers` between
/// two other tasks is a disturbance; in the historic traces that is the kernel thread
/// with PID 2.
pub fn analyse(samples: &[SchedSample], disturbers: &[u64]) -> SampleFigures {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|&at| (samples[at].cpu, samples[at].seq, at));
    let mut violations = Vec::new();
    let mut cpus = Vec::new();
    // Time and stints by PID.
    let mut stays: BTreeMap<u64, (u128, Vec<u64>)> = BTreeMap::new();
    for of_cpu in order.chunk_by(|&a, &b| samples[a].cpu == samples[b].cpu) {
        let rows: Vec<SchedSample> = of_cpu.iter().map(|&at| samples[at]).collect();
        for (place, row) in rows.iter().enumerate() {
            if row.end.checked_sub(row.start) != Some(row.cost) {
                violations.push((of_cpu[place], Violation::Cost));
            }
            if rows.get(place + 1).is_some_and(|next| next.start != row.next_start()) {
                violations.push((of_cpu[place], Violation::Run));
            }
        }
        for stint in rows.chunk_by(|a, b| a.pid == b.pid) {
            let length = stint[stint.len() - 1].next_start().saturating_sub(stint[0].start);
            let stay = stays.entry(stint[0].pid).or_default();
            stay.0 += u128::from(length);
            stay.1.push(length);
        }
        cpus.push(cpu_figures(&rows, disturbers));
    }
    let migrations = follow(samples, &mut violations);
    violations.sort_by_key(|&(at, _)| at);
    let span = span(samples);
    let tasks = stays.into_iter().filter(|&(pid, _)| pid != 0).map(|(pid, (time, mut stints))| {
        stints.sort_unstable();
        let hog = time > 0 && time * 100 >= u128::from(span);
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        TaskFigures { pid, time, migrations: migrations.get(&pid).copied().unwrap_or(0), stints, hog }
    });
    let tasks = tasks.collect();
    SampleFigures { violations, cpus, tasks, span }
}

fn span(rows: &[SchedSample]) -> u64 {
    let first = rows.iter().map(|row| row.start).min().unwrap_or(0);
    let last = rows.iter().map(SchedSample::next_start).max().unwrap_or(0);
    last - first.min(last)
}

fn cpu_figures(rows: &[SchedSample], disturbers: &[u64]) -> CpuFigures {
    let costs = |mark: bool| {
        let mut costs: Vec<u64> = rows.iter().filter(|row| row.mark == mark).map(|row| row.cost).collect();
        costs.sort_unstable();
        let sum: u128 = costs.iter().map(|&cost| u128::from(cost)).sum();
        CostFigures {
            count: costs.len(),
            min: costs.first().copied().unwrap_or(0),
            median: median(&costs),
            mean: if costs.is_empty() { 0.0 } else { sum as f64 / costs.len() as f64 },
            max: costs.last().copied().unwrap_or(0),
        }
    };
    let disturbs = |row: &SchedSample| disturbers.contains(&row.pid);
    let (mut disturbances, mut resumed) = (0, 0);
    let mut before: Option<&SchedSample> = None;
    let mut disturbed = false;
    for row in rows {
        if disturbs(row) {
            disturbed = before.is_some_and(|before| before.pid != 0);
            continue;
        }
        if std::mem::take(&mut disturbed) {
            disturbances += 1;
            resumed += u32::from(before.is_some_and(|before| before.pid == row.pid));
        }
        before = Some(row);
    }
    CpuFigures {
        cpu: rows[0].cpu,
        rows: rows.len(),
        span: span(rows),
        plain: costs(false),
        marked: costs(true),
        disturbances,
        resumed,
    }
}

/// Follows each task over the CPUs by start and counts its migrations. Adds a violation where it is
/// chosen (at a record's end) on one CPU before its run on another is over.
fn follow(samples: &[SchedSample], violations: &mut Vec<(usize, Violation)>) -> BTreeMap<u64, u32> {
    let mut order: Vec<usize> = (0..samples.len()).filter(|&at| samples[at].pid != 0).collect();
    order.sort_by_key(|&at| (samples[at].start, at));
    let mut last: BTreeMap<u64, SchedSample> = BTreeMap::new();
    let mut migrations = BTreeMap::new();
    for at in order {
        let row = samples[at];
        let Some(before) = last.insert(row.pid, row) else { continue };
        if before.cpu != row.cpu {
            *migrations.entry(row.pid).or_insert(0) += 1;
            if before.next_start() > row.end {
                violations.push((at, Violation::TwoCpus(before.cpu)));
            }
        }
    }
    migrations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cpu: u32, seq: u64, start: u64, pid: u64, run: u64) -> SchedSample {
        SchedSample { cpu, seq, start, end: start + 2, cost: 2, pid, run, mark: false }
    }

    #[test]
    fn each_violation_is_found_and_placed() {
        let good = [row(0, 1, 0, 7, 100), row(0, 2, 100, 8, 50), row(1, 1, 110, 7, 60)];
        assert_eq!(analyse(&good, &[]).violations, []);
        let mut bad = good;
        bad[1].cost = 3;
        bad[0].run = 99;
        bad[2].start = 60;
        bad[2].end = 62;
        let found = analyse(&bad, &[]).violations;
        assert_eq!(found, [(0, Violation::Run), (1, Violation::Cost), (2, Violation::TwoCpus(0))]);
    }

    #[test]
    fn stints_and_migrations() {
        let rows =
            [row(0, 2, 100, 7, 50), row(0, 1, 0, 7, 100), row(0, 3, 150, 8, 50), row(1, 1, 160, 7, 500)];
        let figures = analyse(&rows, &[]);
        let seven = &figures.tasks[0];
        assert_eq!((seven.pid, seven.time, seven.migrations), (7, 650, 1));
        assert_eq!(seven.stints, [150, 500]);
        assert_eq!((figures.span, figures.hog_migrations()), (660, 1));
    }

    #[test]
    fn a_disturbance_needs_a_task_before_and_after() {
        let pids = [2, 7, 2, 7, 2, 2, 8, 0, 2, 8, 2];
        let rows: Vec<SchedSample> =
            pids.iter().enumerate().map(|(at, &pid)| row(0, at as u64, at as u64 * 10, pid, 10)).collect();
        let figures = analyse(&rows, &[2]);
        assert_eq!((figures.cpus[0].disturbances, figures.cpus[0].resumed), (2, 1));
    }

    #[test]
    fn nothing_panics_on_odd_records() {
        assert_eq!(analyse(&[], &[]).span, 0);
        let wild = SchedSample {
            cpu: 0,
            seq: 0,
            start: u64::MAX,
            end: 0,
            cost: 1,
            pid: 1,
            run: u64::MAX,
            mark: true,
        };
        assert_eq!(analyse(&[wild, wild], &[1]).violations.len(), 2);
        assert_eq!((median(&[]), median(&[1, 2]), median(&[1, 2, 9])), (0.0, 1.5, 2.0));
    }
}
