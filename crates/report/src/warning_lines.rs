//! Warnings as lines for people. Lines of several runs that differ in seed, number of CPUs or task become one, which counts the
//! runs and has the words of the worst of them. Result files keep each warning.

use crate::cells::{cpus_text, distinct, scheduler_label};
use crate::workload_names::WorkloadNames;
use schedlab_base::counted;
use schedlab_trace::{RunRecord, Warning, WarningKind};
use std::collections::BTreeSet;

/// Words behind a task's name that tell what the warning says of it: `waited`, `got`, `never`.
const WORDS: usize = 2;

/// Each warning of each run, then those of the runs `together`. The same words stand there once.
pub(crate) fn each(runs: &[RunRecord], together: &[Warning]) -> Vec<String> {
    let places = Places::of(runs);
    let own = runs.iter().flat_map(|run| run.warnings.iter().map(move |warning| (run, warning)));
    let own = own.map(|(run, warning)| match is_about_the_run(warning.kind) {
        true => places.place(run) + &warning.text,
        false => warning.text.clone(),
    });
    once(own.chain(together.iter().map(|warning| warning.text.clone())))
}

/// The `wanted` warnings, those that are alike on one line, which stands where the first of them does.
pub(crate) fn merged(
    runs: &[RunRecord],
    together: &[Warning],
    wanted: impl Fn(&Warning) -> bool,
) -> Vec<String> {
    let places = Places::of(runs);
    let own = runs.iter().flat_map(|run| run.warnings.iter().map(move |warning| (run, warning)));
    let mut groups: Vec<Group> = Vec::new();
    for (run, warning) in own.filter(|(_, warning)| wanted(warning)) {
        let group = Group::begin(run, warning);
        match groups.iter_mut().find(|known| known.key == group.key) {
            Some(known) => known.warnings.push((run, warning)),
            None => groups.push(group),
        }
    }
    let texts = together.iter().filter(|warning| wanted(warning)).map(|warning| warning.text.as_str());
    once(groups.iter().map(|group| group.line(&places)).chain(without_cpus(texts)))
}

/// Whether a warning names the run. One about the scheduler or the command alone does not.
fn is_about_the_run(kind: WarningKind) -> bool {
    use WarningKind::*;
    !matches!(
        kind,
        Unconfigured
            | LeftOut
            | NotModelled
            | CommandFailed
            | CommandWrote
            | LoaderComputes
            | LoaderRefused
            | NothingToSchedule
            | NotReached
            | GroupsUnheard
            | SubScheduler
            | ProgramReturned
    )
}

/// The texts in their order, each once.
fn once(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// How the runs of some results are named.
struct Places<'a> {
    names: WorkloadNames<'a>,
    several: bool,
}

impl<'a> Places<'a> {
    fn of(runs: &'a [RunRecord]) -> Places<'a> {
        Places { names: WorkloadNames::of(runs.iter().map(|run| &run.workload)), several: runs.len() > 1 }
    }

    /// `o1, ` or `o1, chat, ` in front of the CPUs.
    fn head(&self, run: &RunRecord) -> String {
        let under = match self.names.are_several() {
            true => format!("{}, ", self.names.get(&run.workload)),
            false => String::new(),
        };
        format!("{}, {under}", scheduler_label(run))
    }

    /// `o1, 2 CPUs, seed 1: `; nothing for a single run.
    fn place(&self, run: &RunRecord) -> String {
        if !self.several {
            return String::new();
        }
        format!("{}{}, seed {}: ", self.head(run), counted(run.cpus, "CPU"), run.seed)
    }
}

/// Warnings that are alike.
struct Group<'a> {
    key: Key<'a>,
    warnings: Vec<(&'a RunRecord, &'a Warning)>,
}

/// What is the same in warnings that are alike.
#[derive(PartialEq)]
struct Key<'a> {
    /// Nothing for a warning that does not name the run.
    place: Option<(String, &'a schedlab_trace::WorkloadRecord)>,
    kind: WarningKind,
    words: String,
}

impl<'a> Group<'a> {
    fn begin(run: &'a RunRecord, warning: &'a Warning) -> Group<'a> {
        let about_run = is_about_the_run(warning.kind);
        let place = about_run.then(|| (scheduler_label(run), &run.workload));
        let words = match (about_run, &warning.worst) {
            (false, _) => warning.text.clone(),
            (true, None) => without_figures(&warning.text),
            (true, Some(worst)) => {
                let text = without_figures(&warning.text.replacen(&worst.task, "", 1));
                text.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ")
            }
        };
        Group { key: Key { place, kind: warning.kind, words }, warnings: vec![(run, warning)] }
    }

    fn line(&self, places: &Places) -> String {
        let (first, warning) = self.warnings[0];
        if self.key.place.is_none() {
            return warning.text.clone();
        }
        let worse = |a: (&'a RunRecord, &'a Warning), b: (&'a RunRecord, &'a Warning)| {
            let graver = gravity(b.1).total_cmp(&gravity(a.1)).then(b.1.count.cmp(&a.1.count));
            if graver.is_gt() { b } else { a }
        };
        let (run, shown) = self.warnings.iter().copied().fold((first, warning), worse);
        let runs = distinct(self.warnings.iter().map(|(run, _)| (run.cpus, run.seed)));
        if runs.len() == 1 {
            return places.place(run) + &shown.text;
        }
        let head = format!(
            "{}{}, {}",
            places.head(run),
            cpus_text(runs.iter().map(|(cpus, _)| *cpus)),
            counted(runs.len(), "run")
        );
        if self.warnings.iter().all(|(_, one)| one.text == shown.text) {
            return format!("{head}: {}", shown.text);
        }
        let which = if shown.worst.is_some() { "the worst" } else { "the first" };
        format!("{head}; {which} on {}, seed {}: {}", counted(run.cpus, "CPU"), run.seed, shown.text)
    }
}

/// How grave a warning is among those alike. It grows with the share of time that CPUs idled, and falls with the share of CPU time
/// that the task got. Others go by the length of the wait.
fn gravity(warning: &Warning) -> f64 {
    let Some(worst) = &warning.worst else { return 0.0 };
    let text = warning.text.replacen(&worst.task, "", 1);
    let percent = |verb: &str| {
        let (number, _) = text.split_once(verb)?.1.split_once(" %")?;
        number.parse::<f64>().ok()
    };
    let got = || percent(" got ").map(|got| -got);
    percent(" idled ").or_else(got).unwrap_or(worst.length.0 as f64)
}

/// The text with a mark for each number.
fn without_figures(text: &str) -> String {
    let mut shape = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if !shape.ends_with('#') => shape.push('#'),
            '0'..='9' => {}
            c => shape.push(c),
        }
    }
    shape
}

/// Texts of which those that differ in the number of CPUs are one.
fn without_cpus<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<(&str, Vec<usize>, &str)> = Vec::new();
    for text in texts {
        let (head, cpus, tail) = split_at_cpus(text);
        match found.iter_mut().find(|known| !cpus.is_empty() && (known.0, known.2) == (head, tail)) {
            Some(known) => known.1.extend(cpus),
            None => found.push((head, cpus, tail)),
        }
    }
    let text = |(head, cpus, tail): (&str, Vec<usize>, &str)| match cpus.is_empty() {
        true => head.to_string(),
        false => format!("{head}{}{tail}", cpus_text(cpus.into_iter())),
    };
    found.into_iter().map(text).collect()
}

/// What stands before and behind ` on 2 CPUs`, and the number; the text as a whole where there is none.
fn split_at_cpus(text: &str) -> (&str, Vec<usize>, &str) {
    for (at, _) in text.match_indices(" on ") {
        let (head, rest) = text.split_at(at + " on ".len());
        let Some((number, tail)) = rest.split_once(" CPU") else { continue };
        if let Ok(count) = number.parse() {
            return (head, vec![count], tail.strip_prefix('s').unwrap_or(tail));
        }
    }
    (text, Vec::new(), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use schedlab_base::DurationNs;

    /// A run of a scheduler with a warning about a task that waited so many milliseconds.
    fn waited(scheduler: &str, cpus: usize, seed: u64, task: u32, ms: u64) -> RunRecord {
        let mut run = run(scheduler, seed, 1.0);
        run.cpus = cpus;
        let one = &mut run.warnings[0];
        one.kind = WarningKind::Starved;
        one.text = format!("task client/{task} waited {ms} ms for a CPU");
        let worst = one.worst.as_mut().unwrap();
        worst.task = format!("client/{task}");
        worst.length = DurationNs::from_ms(ms);
        run
    }

    #[test]
    fn runs_that_are_alike_are_one_line_with_a_count() {
        let mut runs = Vec::new();
        for cpus in [2, 4, 8] {
            runs.extend([1, 2, 3].map(|seed| waited("vanilla", cpus, seed, seed as u32, 100 * seed)));
        }
        runs.push(waited("o1", 2, 1, 7, 50));
        assert_eq!(
            merged(&runs, &[], |_| true),
            [
                "vanilla, 2, 4 and 8 CPUs, 9 runs; the worst on 2 CPUs, seed 3: task client/3 waited 300 ms for a CPU",
                "o1, 2 CPUs, seed 1: task client/7 waited 50 ms for a CPU"
            ]
        );
        assert_eq!(each(&runs, &[]).len(), 10);
        assert_eq!(merged(&runs[..1], &[], |_| true), ["task client/1 waited 100 ms for a CPU"]);
        assert!(merged(&runs, &[], |_| false).is_empty());
    }

    #[test]
    fn what_differs_in_words_stays_apart() {
        let mut runs = [waited("o1", 2, 1, 1, 10), waited("o1", 2, 2, 1, 10), waited("o1", 2, 3, 1, 10)];
        runs[1].warnings[0].text = "task client/1 got 0.10 % of the CPU time".into();
        let lines = merged(&runs, &[], |_| true);
        assert_eq!(
            lines,
            [
                "o1, 2 CPUs, 2 runs: task client/1 waited 10 ms for a CPU",
                "o1, 2 CPUs, seed 2: task client/1 got 0.10 % of the CPU time"
            ]
        );
        // One about the scheduler alone names no run, and its numbers are facts.
        for (run, text) in runs.iter_mut().zip(["map 1", "map 2", "map 1"]) {
            run.warnings[0].kind = WarningKind::Unconfigured;
            run.warnings[0].text = text.into();
        }
        assert_eq!(merged(&runs, &[], |_| true), ["map 1", "map 2"]);
    }

    #[test]
    fn the_worst_is_the_one_with_the_gravest_figure() {
        let worst = |texts: [(&str, u64); 3]| {
            let mut runs = [1, 2, 3].map(|seed| waited("o1", 2, seed, 1, 1000 - seed));
            for (run, (text, count)) in runs.iter_mut().zip(texts) {
                run.warnings[0].text = text.into();
                run.warnings[0].count = count;
            }
            merged(&runs, &[], |_| true).concat()
        };
        let idle = worst([
            ("CPUs idled 5.0 % of the machine's time", 9),
            ("CPUs idled 30.2 % of the machine's time", 1),
            ("CPUs idled 9.0 % of the machine's time", 1),
        ]);
        assert!(idle.contains("the worst on 2 CPUs, seed 2: CPUs idled 30.2 %"), "{idle}");
        let poor = worst([
            ("task client/1 got 2.00 % of the CPU time", 1),
            ("task client/1 got 10.00 % of the CPU time", 1),
            ("task client/1 got 0.50 % of the CPU time", 1),
        ]);
        assert!(poor.contains("seed 3: task client/1 got 0.50 %"), "{poor}");
        let mut runs = [1, 2].map(|seed| waited("o1", 2, seed, 1, 50));
        runs[1].warnings[0].text.push_str("; 4 more tasks likewise");
        runs[1].warnings[0].count = 5;
        let more = merged(&runs, &[], |_| true).concat();
        assert!(more.contains("seed 2: task client/1 waited 50 ms for a CPU; 4 more"), "{more}");
    }

    #[test]
    fn warnings_of_runs_together_differ_in_cpus_alone() {
        let of = |text: &str| Warning {
            kind: WarningKind::SeedsChangeNothing,
            text: text.into(),
            count: 1,
            worst: None,
        };
        let all = [
            of("nothing on day on 1 CPU under a"),
            of("other"),
            of("nothing on day on 2 CPUs under a"),
            of("nothing on day on 4 CPUs under a, b"),
            of("nothing on day on 8 CPUs under a"),
        ];
        let lines =
            ["nothing on day on 1, 2 and 8 CPUs under a", "other", "nothing on day on 4 CPUs under a, b"];
        assert_eq!(merged(&[], &all, |_| true), lines);
        assert_eq!(merged(&[], &all[..1], |_| true), ["nothing on day on 1 CPU under a"]);
    }
}
