//! Runs and comparisons as JSON and back. The form is `result_file.rs`; field
//! order and formatting are fixed, so equal runs give equal bytes.

use crate::cells::Cell;
use crate::comparison::{Comparison, Sample, Verdict};
use crate::goals::JudgedGoal;
use crate::goals_json::GoalFile;
use crate::groups_json::GroupFile;
use crate::json_words::{JsonError, SCHEMA, backend_in, better_in, better_name, counters_in};
use crate::names::visible_json;
use crate::pairs::{Pairs, Value, texts, values};
use crate::parts_json::{Figure, JsonTask, Workload};
use crate::printed_json::{PrintedFile, callbacks_in, callbacks_out, printed_in};
use crate::ranking::Ranked;
use crate::result_file::{Buckets, Compared, Exit, File, Header, Run, Samples, Side, SubFile, Table};
use crate::trust::Trust;
use crate::trust_json::{AfterFile, ProvenanceFile, TaskWaits, TrustFile, ValidationFile, WarningFile};
use crate::units::unit;
use crate::waits_json::WaitsFile;
use crate::warning_lines::{each, merged};
use schedlab_base::DurationNs;
use schedlab_reproduction::{DocumentOutcome, Sensitivity};
use schedlab_stats::Moments;
use schedlab_trace::waits::Waits;
use schedlab_trace::{
    Bucket, Distribution, ExitKind, ExitRecord, RunRecord, SchedulerTable, Series, Standing, SubRecord,
    Warning, WarningKind,
};

/// What a result file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The runs, in the order in which they were asked for.
    pub runs: Vec<RunRecord>,
    /// What they say about each other.
    pub comparisons: Vec<Comparison>,
    /// The schedulers over several workloads, the best first.
    pub ranking: Vec<Ranked>,
    /// What they say about the goals of their workloads.
    pub goals: Vec<JudgedGoal>,
    /// Documents measured again.
    pub reproduction: Vec<DocumentOutcome>,
    /// What changing the machine does to them.
    pub sensitivity: Vec<Sensitivity>,
    /// Waits of tasks for each other on a machine.
    pub waits: Option<Waits>,
    /// What the runs together show; each run has its own as well.
    pub warnings: Vec<Warning>,
}

impl Document {
    /// What a page of it is called.
    pub fn title(&self) -> String {
        if !self.reproduction.is_empty() {
            return "Published figures, measured again".to_string();
        }
        let schedulers = listed(self.runs.iter().map(|run| run.scheduler.as_str()));
        let workloads = listed(self.runs.iter().map(|run| run.workload.name.as_str()));
        format!("{schedulers} under {workloads}")
    }

    /// All warnings: of the runs, with what ran, then of the runs together. Those that differ in seed, number of CPUs or task
    /// are one line with the number of runs.
    pub fn warnings(&self) -> Vec<String> {
        merged(&self.runs, &self.warnings, |_| true)
    }

    /// As [`Document::warnings`], with those of each run on lines of their own. The same words stand there once.
    pub fn each_warning(&self) -> Vec<String> {
        each(&self.runs, &self.warnings)
    }

    /// Those of the warnings that touch figures: a run's that make it suspect, and all of the runs together.
    pub fn doubts(&self) -> Vec<String> {
        let together = |warning: &Warning| warning.kind == WarningKind::SeedsChangeNothing;
        let wanted = |warning: &Warning| warning.kind.standing() != Standing::Valid || together(warning);
        merged(&self.runs, &self.warnings, wanted)
    }
}

/// The names, each once.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(", ")
}

/// Writes a result file, with a newline at its end.
pub fn to_json(document: &Document) -> String {
    let file = File {
        schedlab: Header::new(),
        runs: document.runs.iter().map(run_out).collect(),
        comparisons: document.comparisons.iter().map(comparison_out).collect(),
        ranking: document.ranking.clone(),
        goals: document.goals.iter().map(GoalFile::new).collect(),
        reproduction: document.reproduction.clone(),
        sensitivity: document.sensitivity.clone(),
        waits: document.waits.as_ref().map(WaitsFile::new),
        warnings: document.warnings.iter().map(WarningFile::new).collect(),
    };
    let mut text = visible_json(serde_json::to_string_pretty(&file).expect("plain data has a JSON form"));
    text.push('\n');
    text
}

/// Reads a result file. Fields that this version does not know are passed over.
///
/// # Errors
/// Broken JSON, another schema, a missing field or an unknown name, with its place.
pub fn from_json(text: &str) -> Result<Document, JsonError> {
    let file: File = serde_json::from_str(text).map_err(|error| JsonError(error.to_string()))?;
    if file.schedlab.schema != SCHEMA {
        return Err(JsonError(format!(
            "schema {} (written by schedlab {}), this version reads schema {SCHEMA}",
            file.schedlab.schema, file.schedlab.version
        )));
    }
    let runs = file.runs.into_iter().map(run_in).collect::<Result<_, _>>()?;
    let comparisons = file.comparisons.into_iter().map(comparison_in).collect::<Result<_, _>>()?;
    let goals = file.goals.into_iter().map(GoalFile::read).collect::<Result<_, _>>()?;
    let waits = file.waits.map(WaitsFile::read).transpose()?;
    let warnings = file.warnings.into_iter().map(WarningFile::read).collect::<Result<_, _>>()?;
    let File { ranking, reproduction, sensitivity, .. } = file;
    Ok(Document { runs, comparisons, ranking, goals, reproduction, sensitivity, waits, warnings })
}

fn exit_in(exit: Exit) -> Result<ExitRecord, JsonError> {
    let kind = ExitKind::ALL
        .into_iter()
        .find(|kind| kind.name() == exit.kind)
        .ok_or_else(|| JsonError(format!("unknown exit kind '{}'", exit.kind)))?;
    let after = exit.after_ns.map(DurationNs);
    Ok(ExitRecord { kind, reason: exit.reason, message: exit.message, dump: exit.dump, after })
}

fn exit_out(exit: &ExitRecord) -> Exit {
    Exit {
        kind: exit.kind.name().to_string(),
        reason: exit.reason.clone(),
        message: exit.message.clone(),
        dump: exit.dump.clone(),
        after_ns: exit.after.map(|after| after.0),
    }
}

fn sub_out(sub: &SubRecord) -> SubFile {
    SubFile {
        group: sub.group.clone(),
        scheduler: sub.scheduler.clone(),
        refused: sub.refused,
        exit: exit_out(&sub.exit),
    }
}

fn sub_in(sub: SubFile) -> Result<SubRecord, JsonError> {
    let SubFile { group, scheduler, refused, exit } = sub;
    Ok(SubRecord { group, scheduler, refused, exit: exit_in(exit)? })
}

fn run_out(run: &RunRecord) -> Run {
    let meant = run.counters.iter().filter(|counter| !counter.meaning.is_empty());
    Run {
        scheduler: run.scheduler.clone(),
        settings: values(&run.settings),
        workload: Workload::new(&run.workload),
        machine: run.machine.clone(),
        cpus: run.cpus,
        seed: run.seed,
        backend: run.backend.name().to_string(),
        duration_ns: run.duration.0,
        exit: exit_out(&run.exit),
        validation: run.validation.as_ref().map(ValidationFile::new),
        metrics: Figure::all(&run.metrics),
        histograms: Pairs(run.histograms.iter().map(|(name, d)| (name.clone(), buckets_out(d))).collect()),
        series: Pairs(run.series.iter().map(|series| (series.name.clone(), samples(series))).collect()),
        counters: Pairs(run.counters.iter().map(|c| (c.name.clone(), c.value)).collect()),
        counter_meanings: Pairs(meant.map(|c| (c.name.clone(), c.meaning.clone())).collect()),
        scheduler_tables: Pairs(run.tables.iter().map(|t| (t.name.clone(), table_out(t))).collect()),
        callbacks: callbacks_out(&run.callbacks),
        printed: run.printed.lines.iter().map(PrintedFile::new).collect(),
        printed_left_out: run.printed.left_out,
        loader_output: run.loader_output.clone(),
        tasks: run.tasks.iter().map(JsonTask::new).collect(),
        groups: run.groups.iter().map(GroupFile::new).collect(),
        sub_schedulers: run.subs.iter().map(sub_out).collect(),
        task_waits: run.task_waits.iter().map(TaskWaits::new).collect(),
        standing: run.standing().name().to_string(),
        standing_reasons: run.standing_reasons().into_iter().map(str::to_string).collect(),
        warnings: run.warnings.iter().map(WarningFile::new).collect(),
        after_ejection: run.after_ejection.as_ref().map(AfterFile::new),
        provenance: ProvenanceFile::new(&run.provenance),
        trace_hash: run.trace_hash.clone(),
        waits: run.waits.as_ref().map(WaitsFile::new),
    }
}

fn table_out(table: &SchedulerTable) -> Table {
    let row = |row: &Vec<String>| row.iter().map(|cell| Value::from_text(cell)).collect();
    Table {
        meaning: table.meaning.clone(),
        columns: table.columns.clone(),
        rows: table.rows.iter().map(row).collect(),
    }
}

fn table_in((name, table): (String, Table)) -> SchedulerTable {
    let row = |row: Vec<Value>| row.into_iter().map(Value::into_text).collect();
    let rows = table.rows.into_iter().map(row).collect();
    SchedulerTable { name, meaning: table.meaning, columns: table.columns, rows }
}

fn samples(series: &Series) -> Samples {
    Samples { unit: series.unit.to_string(), values: series.values.clone() }
}

fn buckets_out(distribution: &Distribution) -> Buckets {
    let buckets = distribution.buckets();
    Buckets {
        le: buckets.iter().map(|bucket| bucket.le.0).collect(),
        counts: buckets.iter().map(|bucket| bucket.count).collect(),
    }
}

fn buckets_in((name, buckets): (String, Buckets)) -> Result<(String, Distribution), JsonError> {
    let broken = |what: String| JsonError(format!("histogram '{name}': {what}"));
    let Buckets { le, counts } = buckets;
    if le.len() != counts.len() {
        return Err(broken(format!("{} values in le, {} in counts", le.len(), counts.len())));
    }
    let bucket = |(le, count)| Bucket { le: DurationNs(le), count };
    let distribution = Distribution::new(le.into_iter().zip(counts).map(bucket).collect());
    distribution.map_err(|error| broken(error.to_string())).map(|found| (name, found))
}

fn series_in(series: Pairs<Samples>) -> Vec<Series> {
    let one = |(name, samples): (String, Samples)| Series {
        name,
        unit: unit(&samples.unit),
        values: samples.values,
    };
    series.0.into_iter().map(one).collect()
}

fn run_in(run: Run) -> Result<RunRecord, JsonError> {
    Ok(RunRecord {
        scheduler: run.scheduler,
        settings: texts(run.settings),
        workload: run.workload.read(),
        machine: run.machine,
        cpus: run.cpus,
        seed: run.seed,
        backend: backend_in(&run.backend)?,
        duration: DurationNs(run.duration_ns),
        exit: exit_in(run.exit)?,
        validation: run.validation.map(ValidationFile::read),
        metrics: Figure::read_all(run.metrics)?,
        histograms: run.histograms.0.into_iter().map(buckets_in).collect::<Result<_, _>>()?,
        series: series_in(run.series),
        counters: counters_in(run.counters, run.counter_meanings),
        tables: run.scheduler_tables.0.into_iter().map(table_in).collect(),
        printed: printed_in(run.printed, run.printed_left_out),
        loader_output: run.loader_output,
        callbacks: callbacks_in(run.callbacks),
        tasks: run.tasks.into_iter().map(JsonTask::read).collect(),
        groups: run.groups.into_iter().map(GroupFile::read).collect(),
        subs: run.sub_schedulers.into_iter().map(sub_in).collect::<Result<_, _>>()?,
        task_waits: run.task_waits.into_iter().map(TaskWaits::read).collect::<Result<_, _>>()?,
        warnings: run.warnings.into_iter().map(WarningFile::read).collect::<Result<_, _>>()?,
        after_ejection: run.after_ejection.map(AfterFile::read).transpose()?,
        provenance: run.provenance.read(),
        trace_hash: run.trace_hash,
        priorities: Vec::new(),
        timeline: None,
        waits: run.waits.map(WaitsFile::read).transpose()?,
    })
}

fn side_out(sample: &Sample) -> Side {
    Side {
        scheduler: sample.scheduler.clone(),
        runs: sample.moments.count,
        mean: sample.moments.mean,
        sd: sample.moments.known_sd(),
        half_width: sample.half_width,
        values: sample.values.clone(),
        seeds: sample.seeds.clone(),
        trust: TrustFile::new(&sample.trust),
    }
}

fn side_in(side: Side) -> Result<Sample, JsonError> {
    Ok(Sample {
        scheduler: side.scheduler,
        moments: Moments { count: side.runs, mean: side.mean, sd: side.sd.unwrap_or(0.0) },
        half_width: side.half_width,
        values: side.values,
        seeds: side.seeds,
        trust: side.trust.read()?,
    })
}

fn comparison_out(comparison: &Comparison) -> Compared {
    let trust = comparison.trust();
    Compared {
        workload: Workload::new(&comparison.cell.workload),
        machine: comparison.cell.machine.clone(),
        cpus: comparison.cell.cpus,
        backend: comparison.cell.backend.name().to_string(),
        metric: comparison.metric.clone(),
        unit: comparison.unit.to_string(),
        better: better_name(comparison.better).to_string(),
        confidence_percent: comparison.level_percent,
        baseline: side_out(&comparison.baseline),
        candidate: side_out(&comparison.candidate),
        difference: comparison.difference,
        difference_half_width: comparison.half_width,
        at_least_percent: comparison.at_least_percent,
        seeds_change_nothing: comparison.seeds_change_nothing,
        paired: comparison.paired,
        runs_needed: comparison.runs_needed,
        difference_percent: comparison.percent,
        difference_percent_low: comparison.percent_interval.map(|[low, _]| low),
        difference_percent_high: comparison.percent_interval.map(|[_, high]| high),
        p_paired: comparison.p_paired,
        p_welch: comparison.p_welch,
        p_permutation: comparison.p_permutation,
        hedges_g: comparison.effect,
        kernel_factor: comparison.kernel_factor,
        kernel_spread_percent: comparison.kernel_spread_percent,
        verdict: trust.mark(comparison.verdict.name()),
        standing: trust.standing.name().to_string(),
        standing_reasons: trust.reasons,
    }
}

fn comparison_in(compared: Compared) -> Result<Comparison, JsonError> {
    let verdict = Verdict::from_name(Trust::unmark(&compared.verdict))
        .ok_or_else(|| JsonError(format!("unknown verdict '{}'", compared.verdict)))?;
    Ok(Comparison {
        cell: Cell {
            workload: compared.workload.read(),
            machine: compared.machine,
            cpus: compared.cpus,
            backend: backend_in(&compared.backend)?,
        },
        metric: compared.metric,
        unit: unit(&compared.unit),
        better: better_in(&compared.better)?,
        level_percent: compared.confidence_percent,
        baseline: side_in(compared.baseline)?,
        candidate: side_in(compared.candidate)?,
        difference: compared.difference,
        half_width: compared.difference_half_width,
        at_least_percent: compared.at_least_percent,
        seeds_change_nothing: compared.seeds_change_nothing,
        paired: compared.paired,
        runs_needed: compared.runs_needed,
        percent: compared.difference_percent,
        percent_interval: compared
            .difference_percent_low
            .zip(compared.difference_percent_high)
            .map(<[f64; 2]>::from),
        p_paired: compared.p_paired,
        p_welch: compared.p_welch,
        p_permutation: compared.p_permutation,
        effect: compared.hedges_g,
        kernel_factor: compared.kernel_factor,
        kernel_spread_percent: compared.kernel_spread_percent,
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::run;
    use crate::ranking::ranking;
    use schedlab_stats::Level;

    fn document() -> Document {
        let mut runs =
            vec![run("vanilla", 1, 10.5), run("vanilla", 2, 11.0), run("o1", 1, 20.0), run("o1", 2, 0.1)];
        let reproduction = vec![crate::reproduction::tests::outcome()];
        let comparisons = compare(&runs, Level::P95, 1.0);
        let goals = crate::goals::tests::judged(&runs, 10.7);
        runs[3].exit.kind = ExitKind::Error;
        runs[3].exit.after = Some(DurationNs(1_500));
        let mut other = runs.clone();
        other.iter_mut().for_each(|run| run.workload.name = "reflex".to_string());
        let all = [&runs[..], &other[..]].concat();
        let ranking = ranking(&compare(&all, Level::P95, 1.0), &all);
        Document { comparisons, runs, ranking, goals, reproduction, ..Document::default() }
    }

    #[test]
    fn documents_survive_the_round_trip() {
        let document = document();
        let text = to_json(&document);
        assert_eq!(from_json(&text).unwrap(), document);
        assert_eq!(to_json(&from_json(&text).unwrap()), text);
    }

    #[test]
    fn the_contract_names_are_there() {
        let text = to_json(&document());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schedlab"]["schema"], 1);
        let run = &value["runs"][0];
        assert_eq!(run["workload"]["params"]["rooms"], 3);
        assert_eq!(run["workload"]["params"]["fanout"], "a<b");
        assert_eq!(run["metrics"]["throughput"]["unit"], "messages/s");
        assert_eq!(run["metrics"]["throughput"]["better"], "higher");
        assert_eq!(run["tasks"][0]["share"], 0.4);
        assert_eq!((&run["exit"]["kind"], run["exit"].get("after_ns")), (&"none".into(), None));
        assert_eq!(value["runs"][3]["exit"]["after_ns"], 1_500);
        assert_eq!(run["duration_ns"], 5_000_000);
        let goals = &value["goals"];
        assert_eq!((&goals[0]["verdict"], &goals[1]["verdict"]), (&"met".into(), &"missed".into()));
        assert_eq!(goals[0]["missed_seeds"][0], 1);
        let ranked = value["ranking"].as_array().unwrap();
        assert!(ranked.len() == 2 && ranked.iter().all(|one| one["missing"] == 0));
    }

    #[test]
    fn histograms_stand_on_two_lines_and_may_be_missing() {
        let text = to_json(&document());
        let le = text.lines().find(|line| line.contains("\"le\"")).unwrap();
        assert_eq!(le.trim(), "\"le\": [0,992,1000],");
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for run in value["runs"].as_array_mut().unwrap() {
            run.as_object_mut().unwrap().remove("histograms").unwrap();
        }
        let old = from_json(&value.to_string()).unwrap();
        assert!(old.runs.iter().all(|run| run.histograms.is_empty()));
        assert!(!to_json(&old).contains("histograms"));
        for (from, to, why) in [
            ("[0,992,1000]", "[0,992]", "'run_delay_ns': 2 values in le, 3 in counts"),
            ("[0,992,1000]", "[0,992,992]", "'run_delay_ns': bound 2"),
            ("[3,4,1]", "[3,0,1]", "'run_delay_ns': count 1"),
        ] {
            let error = from_json(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn broken_files_are_refused_with_their_place() {
        let error = |text: &str| from_json(text).unwrap_err().to_string();
        assert!(error("{").contains("line 1"));
        assert!(error("{\"schedlab\":{\"version\":\"9\",\"schema\":9}}").contains("schema 9"));
        let text = to_json(&document()).replace("\"sim\"", "\"moon\"");
        assert!(error(&text).contains("backend 'moon'"));
        for (from, to) in [("\">=\"", "\"~\""), ("\"missed\"", "\"lost\"")] {
            let broken = to_json(&document()).replace(from, to);
            assert!(error(&broken).contains("of a goal"));
        }
        assert!(
            error("{\"schedlab\":{\"version\":\"1\",\"schema\":1},\"runs\":[{}]}").contains("missing field")
        );
    }
}
