//! The result of a comparison in sentences: what the schedulers reach on the largest number of CPUs, and which of them gain or lose
//! on the way there. What is not compared is said with the reason. The verdicts are those of the table, with the same words.

use crate::absent::{Absent, absent};
use crate::cells::{Cell, cell_of, distinct, listed, main_metric, scheduler_label};
use crate::comparison::{Comparison, Verdict};
use crate::comparison_table::verdict_text;
use crate::extent::{extent, range};
use crate::ranking::is_main;
use crate::scaling::scaling;
use crate::scheduler_names::SchedulerNames;
use crate::workload_names::WorkloadNames;
use schedlab_base::{Better, counted};
use schedlab_trace::{RunRecord, Standing};
use std::cmp::Ordering;

/// Workloads with sentences of their own. Chosen: the table follows, and has all.
const WORKLOADS: usize = 4;

/// Schedulers that are each named. Chosen: of more, the best and the worst are.
const SCHEDULERS: usize = 3;

/// The sentences, one a line; nothing without runs. They are about the main metric of each workload, or the first one that is shown.
pub(crate) fn in_words(comparisons: &[Comparison], runs: &[RunRecord]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let workloads = WorkloadNames::of(runs.iter().map(|run| &run.workload));
    let names = SchedulerNames::of(runs);
    let places = distinct(runs.iter().map(|run| without_cpus(&cell_of(run))));
    let words: Vec<Words> =
        places.iter().map(|place| Words::of(place, (comparisons, runs), &workloads, &names)).collect();
    if comparisons.is_empty() {
        let why = missing(&words, |one| one.clause(&names));
        let why = match (why.is_empty(), distinct(runs.iter().map(scheduler_label)).len()) {
            (false, _) => why.join("; "),
            (true, 1) => "there is one scheduler".to_string(),
            (true, _) => "no metric that is shown has figures on both sides".to_string(),
        };
        return format!("Nothing is compared: {why}.\n");
    }
    let mut lines: Vec<String> = words.iter().take(WORKLOADS).flat_map(Words::largest).collect();
    if let Some(more) = words.len().checked_sub(WORKLOADS).filter(|more| *more > 0) {
        lines.push(format!("The table has {} more", counted(more, "workload")));
    }
    lines.extend(missing(&words, |one| one.sentence(&names)));
    if let [only] = &words[..] {
        lines.extend(only.scaling());
    }
    lines.iter().map(|line| capital(line) + ".\n").collect()
}

/// What is said of absent schedulers, once for all workloads of which it is true.
fn missing(words: &[Words], say: impl Fn(&Absent) -> String) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let all = words.iter().flat_map(|one| one.absent.iter().map(move |absent| (&one.workload, absent)));
    for (workload, absent) in all {
        let text = say(absent);
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, workloads)) => workloads.extend(workload.clone()),
            None => found.push((text, workload.iter().cloned().collect())),
        }
    }
    let told = |(text, workloads): (String, Vec<String>)| match workloads.is_empty() {
        true => format!("on {text}"),
        false => format!("under {} on {text}", listed(workloads.into_iter())),
    };
    found.into_iter().map(told).collect()
}

/// What the cells of one workload have in common.
fn without_cpus(cell: &Cell) -> Cell {
    Cell { cpus: 0, ..cell.clone() }
}

/// One metric under one workload.
struct Words<'a> {
    comparisons: Vec<&'a Comparison>,
    /// Labels of the schedulers that ran.
    schedulers: Vec<String>,
    absent: Vec<Absent>,
    names: &'a SchedulerNames,
    /// The workload's name where there are several.
    workload: Option<String>,
}

impl<'a> Words<'a> {
    fn of(
        place: &Cell,
        (comparisons, runs): (&'a [Comparison], &'a [RunRecord]),
        workloads: &WorkloadNames,
        names: &'a SchedulerNames,
    ) -> Words<'a> {
        let inside = || comparisons.iter().filter(|c| without_cpus(&c.cell) == *place);
        let main = inside().find(|c| is_main(c, runs)).or_else(|| inside().next());
        let metric = main.map(|c| c.metric.as_str()).or_else(|| main_metric(runs, &place.workload));
        let own: Vec<&RunRecord> = runs.iter().filter(|run| without_cpus(&cell_of(run)) == *place).collect();
        Words {
            comparisons: inside().filter(|c| Some(c.metric.as_str()) == metric).collect(),
            schedulers: distinct(own.iter().map(|run| scheduler_label(run))),
            absent: absent(&own, &inside().collect::<Vec<_>>(), metric),
            names,
            workload: workloads.are_several().then(|| workloads.get(&place.workload).to_string()),
        }
    }

    fn metric(&self) -> &str {
        &self.comparisons[0].metric
    }

    fn on(&self, cpus: usize) -> String {
        let under = self.workload.as_ref().map(|name| format!("under {name} ")).unwrap_or_default();
        format!("{under}on {}", counted(cpus, "CPU"))
    }

    /// Each scheduler against the baseline on the largest number of CPUs; of many, the best, the worst, and those whose verdict is the
    /// opposite elsewhere.
    fn largest(&self) -> Vec<String> {
        let Some(cpus) = self.comparisons.iter().map(|c| c.cell.cpus).max() else { return Vec::new() };
        let here: Vec<&Comparison> =
            self.comparisons.iter().copied().filter(|c| c.cell.cpus == cpus).collect();
        let many = here.len() >= SCHEDULERS;
        let mut lines = Vec::new();
        if many {
            let base = self.names.get(&here[0].baseline.scheduler);
            let (of, told) = (counted(here.len(), "scheduler"), verdicts(&here, "difference"));
            lines.push(format!("{}, of {of} against {base}, {told} in {}", self.on(cpus), self.metric()));
        }
        let shown = if many { extremes(&here) } else { here.clone() };
        let clause = |c: &Comparison| self.elsewhere(c).map(|told| format!("; it is {told}"));
        lines.extend(shown.iter().map(|c| self.against(c) + &clause(c).unwrap_or_default()));
        let others = here.iter().filter(|c| !shown.iter().any(|known| known.candidate == c.candidate));
        let told = others.filter_map(|c| {
            let name = self.names.get(&c.candidate.scheduler);
            Some(format!("{}, {name} is {}, and {}", self.on(cpus), marked(c), self.elsewhere(c)?))
        });
        lines.extend(told);
        lines
    }

    /// `better on 1 CPU (+12.6 %)`: where the verdict is the opposite.
    fn elsewhere(&self, c: &Comparison) -> Option<String> {
        let opposite = match c.verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            _ => return None,
        };
        let is_opposite = |other: &&&Comparison| {
            other.verdict == opposite && other.candidate.scheduler == c.candidate.scheduler
        };
        let told = |other: &&Comparison| {
            let sign = if other.difference < 0.0 { '-' } else { '+' };
            let (size, cpus) = (extent(other), counted(other.cell.cpus, "CPU"));
            let sign = if size.times() { String::new() } else { sign.to_string() };
            let suspect = if other.trust().standing == Standing::Valid { "" } else { ", suspect" };
            format!("{cpus} ({sign}{}{suspect})", size.value(other))
        };
        let places: Vec<String> = self.comparisons.iter().filter(is_opposite).map(told).collect();
        let verdict = opposite.name();
        (!places.is_empty()).then(|| format!("{verdict} on {}", listed(places.into_iter())))
    }

    /// `On 8 CPUs, throughput of o1 is 5.2 times (4.9 to 5.6, 95 % interval) that of vanilla: better`.
    fn against(&self, c: &Comparison) -> String {
        let (on, metric) = (self.on(c.cell.cpus), self.metric());
        let (own, base) = (self.names.get(&c.candidate.scheduler), self.names.get(&c.baseline.scheduler));
        if is_open(c.verdict) {
            let (name, remarks) = (c.verdict.name(), remarks(c));
            return format!(
                "{on}, there is {name} in {metric} between {own} and {base}{}{remarks}",
                range(c, true)
            );
        }
        let extent = extent(c);
        let size = extent.with_interval(c, true);
        let relation = match extent.times() {
            _ if c.difference.abs() <= 0.0 => "the same as that of".to_string(),
            true => format!("{size} that of"),
            false if c.difference > 0.0 => format!("{size} higher than that of"),
            false => format!("{size} lower than that of"),
        };
        format!("{on}, {metric} of {own} is {relation} {base}: {}", verdict_text(c))
    }

    /// `in throughput, from 4 to 8 CPUs vanilla loses 38 % (35 to 41, 95 % interval); o1 gains 20 % (15 to 25)`.
    fn scaling(&self) -> Option<String> {
        let steps = scaling(&self.comparisons);
        let steps: Vec<&Comparison> = steps.iter().collect();
        let mut counts: Vec<usize> = distinct(self.comparisons.iter().map(|c| c.cell.cpus));
        counts.sort_unstable();
        let (Some(_), [.., fewer, more]) = (steps.first(), &counts[..]) else { return None };
        let mut text = format!("in {}, from {fewer} to {more} CPUs", self.metric());
        let many = steps.len() > SCHEDULERS;
        if many {
            let (of, told) = (counted(steps.len(), "scheduler"), verdicts(&steps, "change"));
            text.push_str(&format!(", of {of}, {told}:"));
        }
        let has_step = |name: &&String| steps.iter().any(|step| step.candidate.scheduler == **name);
        let left: Vec<String> = self
            .schedulers
            .iter()
            .filter(|name| !has_step(name))
            .map(|name| self.names.get(name).to_string())
            .collect();
        let shown = if many { extremes(&steps) } else { steps };
        let mut told: Vec<String> =
            shown.iter().enumerate().map(|(at, step)| self.step(step, at == 0)).collect();
        if !left.is_empty() {
            let is = if left.len() == 1 { "is" } else { "are" };
            told.push(format!("{} {is} left out for lack of figures", listed(left.into_iter())));
        }
        Some(format!("{text} {}", told.join("; ")))
    }

    /// `vanilla loses 38 % (35 to 41)`; the first one names the level of the intervals.
    fn step(&self, step: &Comparison, first: bool) -> String {
        let (name, notes) = (self.names.get(&step.candidate.scheduler), remarks(step));
        let few = step.verdict == Verdict::TooFewRuns;
        let not_decided = step.verdict == Verdict::NotDecided;
        if is_open(step.verdict) || not_decided || few && step.difference.abs() <= 0.0 {
            let word = match step.verdict {
                Verdict::NoneThatMatters => "that matters",
                Verdict::NotDecided => "decided by this simulator",
                _ => "shown",
            };
            return format!("{name} has no change {word}{}{notes}", range(step, first));
        }
        let extent = extent(step);
        let size = extent.with_interval(step, first);
        let verdict = if few || step.better == Better::Neither {
            notes.clone()
        } else {
            format!(": {}", verdict_text(step))
        };
        match (extent.times(), step.better, step.difference > 0.0) {
            (true, ..) => format!("{name} reaches {size} as much{verdict}"),
            (_, Better::Higher, true) => format!("{name} gains {size}{notes}"),
            (_, Better::Higher, false) => format!("{name} loses {size}{notes}"),
            (.., true) => format!("{name} has {size} more{verdict}"),
            (.., false) => format!("{name} has {size} less{verdict}"),
        }
    }
}

/// The sentence with a capital letter.
fn capital(line: &str) -> String {
    let mut rest = line.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).collect::<String>() + rest.as_str()
}

/// Whether a verdict says that there is nothing to be seen.
fn is_open(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NoDifference | Verdict::NoneThatMatters)
}

/// What the table says behind the verdict: ` (suspect: starved)`.
fn remarks(c: &Comparison) -> String {
    let text = verdict_text(c);
    text.strip_prefix(c.verdict.name()).unwrap_or_default().to_string()
}

/// `better (suspect)`.
fn marked(c: &Comparison) -> String {
    c.trust().mark(c.verdict.name())
}

/// `3 are better, 1 is worse (suspect)`, the best first.
fn verdicts(comparisons: &[&Comparison], noun: &str) -> String {
    let sorted = sorted(comparisons);
    let kinds = distinct(sorted.iter().map(|c| (c.verdict, marked(c))));
    let told = kinds.iter().map(|(verdict, mark)| {
        let count = sorted.iter().filter(|c| marked(c) == *mark).count();
        let (is, has) = if count == 1 { ("is", "has") } else { ("are", "have") };
        let mark = mark.strip_prefix(verdict.name()).unwrap_or_default();
        match verdict {
            Verdict::NoDifference => format!("{count} {has} no {noun} shown{mark}"),
            Verdict::NoneThatMatters => format!("{count} {has} no {noun} that matters{mark}"),
            Verdict::TooFewRuns => format!("{count} {has} too few runs{mark}"),
            _ => format!("{count} {is} {}{mark}", verdict.name()),
        }
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The best and the worst.
fn extremes<'a>(comparisons: &[&'a Comparison]) -> Vec<&'a Comparison> {
    let sorted = sorted(comparisons);
    match sorted[..] {
        [best, .., worst] => vec![best, worst],
        _ => sorted,
    }
}

/// The best first: by verdict, of which those of valid runs stand at the ends, then by the ratio of the means. Those without a ratio
/// stand behind the others, by their difference.
fn sorted<'a>(comparisons: &[&'a Comparison]) -> Vec<&'a Comparison> {
    let class = |c: &Comparison| match (c.verdict, c.trust().standing == Standing::Valid) {
        (Verdict::Better, true) => 0,
        (Verdict::Better, false) => 1,
        (Verdict::Worse, false) => 3,
        (Verdict::Worse, true) => 4,
        _ => 2,
    };
    let gain = |c: &Comparison| {
        let size = c.percent.unwrap_or(c.difference);
        if c.better == Better::Lower { -size } else { size }
    };
    let order = |a: &&Comparison, b: &&Comparison| -> Ordering {
        let classes = (class(a), a.percent.is_none()).cmp(&(class(b), b.percent.is_none()));
        classes.then(gain(b).total_cmp(&gain(a)))
    };
    let mut all = comparisons.to_vec();
    all.sort_by(order);
    all
}

#[cfg(test)]
mod tests;
