//! Tests of the sentences, by the shape of a comparison.

use super::*;
use crate::comparison::compare;
use crate::made_up::run;
use schedlab_stats::Level;
use schedlab_trace::{ExitKind, Warning, WarningKind};

fn on(scheduler: &str, cpus: usize, values: &[f64]) -> Vec<RunRecord> {
    let at = |(seed, value): (usize, &f64)| {
        let mut run = run(scheduler, seed as u64, *value);
        run.cpus = cpus;
        run
    };
    values.iter().enumerate().map(at).collect()
}

fn words(runs: &[RunRecord]) -> String {
    in_words(&compare(runs, Level::P95, 1.0), runs)
}

const FEW: [f64; 3] = [100.0, 101.0, 102.5];
const MANY: [f64; 3] = [505.0, 514.0, 531.0];

/// Two schedulers on 4 and 8 CPUs: one collapses, the other scales.
fn collapse() -> Vec<RunRecord> {
    let vanilla = [on("vanilla", 4, &[160.0, 163.0, 164.0]), on("vanilla", 8, &FEW)];
    let o1 = [on("o1", 4, &[420.0, 425.0, 424.0]), on("o1", 8, &MANY)];
    let [fewer, more] = vanilla;
    let [fewer_o1, more_o1] = o1;
    [fewer, fewer_o1, more, more_o1].concat()
}

#[test]
fn two_schedulers_on_several_numbers_of_cpus() {
    assert_eq!(
        words(&collapse()),
        "On 8 CPUs, throughput of o1 is 5.1 times (4.9 to 5.3, 95 % interval) that of vanilla: better.\n\
         In throughput, from 4 to 8 CPUs vanilla loses 37.7 % (36.9 to 38.4, 95 % interval); o1 gains 22 % (15 to 29).\n"
    );
    // The settings tell schedulers of one name apart, and are left out elsewhere.
    let mut runs = collapse();
    runs.iter_mut().for_each(|run| run.settings.push(("profile".into(), run.scheduler.clone())));
    assert!(words(&runs).starts_with("On 8 CPUs, throughput of o1 is "), "{}", words(&runs));
    runs.iter_mut().for_each(|run| run.scheduler = "one".into());
    assert!(words(&runs).contains("of one[profile=o1] is 5.1 times"), "{}", words(&runs));
}

#[test]
fn lower_is_better_and_one_number_of_cpus() {
    let mut runs = [on("a", 1, &[10.0, 10.1, 10.2]), on("b", 1, &[5.0, 5.02, 5.1])].concat();
    for run in &mut runs {
        run.metrics[0].name = "build_time".into();
        run.metrics[0].better = Better::Lower;
    }
    assert_eq!(
        words(&runs),
        "On 1 CPU, build_time of b is 50.1 % (49.7 to 50.5, 95 % interval) lower than that of a: better.\n"
    );
    let mut more = runs.clone();
    for run in &mut more {
        run.cpus = 2;
        run.metrics[0].value *= if run.scheduler == "a" { 1.5 } else { 0.5 };
    }
    runs.extend(more);
    let text = words(&runs);
    assert!(
        text.contains("from 1 to 2 CPUs a has 50 %") && text.contains(" more: worse; b has 50"),
        "{text}"
    );
    assert!(text.ends_with(" less: better.\n"), "{text}");
}

#[test]
fn three_schedulers_and_more() {
    let mut runs = [on("a", 2, &FEW), on("b", 2, &MANY), on("c", 2, &[50.0, 50.5, 51.0])].concat();
    let text = words(&runs);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("On 2 CPUs, throughput of b is 5.1 times"), "{text}");
    assert!(
        lines[1].contains("throughput of c is 50.1 %") && lines[1].ends_with("lower than that of a: worse.")
    );
    runs.extend(on("d", 2, &FEW));
    let mut more = runs.clone();
    more.iter_mut().for_each(|run| run.cpus = 4);
    more.iter_mut().filter(|run| run.scheduler == "c").for_each(|run| run.metrics[0].value *= 0.5);
    runs.extend(more);
    let text = words(&runs);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "On 4 CPUs, of 3 schedulers against a, 1 is better, 1 has no difference that matters, 1 is worse in throughput."
    );
    assert!(lines[1].contains(" of b is ") && lines[2].contains(" of c is ") && lines.len() == 4, "{text}");
    assert_eq!(
        lines[3],
        "In throughput, from 2 to 4 CPUs, of 4 schedulers, 3 have no change that matters, 1 is worse: a has no \
         change that matters; c loses 50 %."
    );
}

#[test]
fn one_run_has_no_interval() {
    let text = words(&[on("a", 2, &[10.0]), on("b", 2, &[30.0])].concat());
    assert_eq!(
        text,
        "On 2 CPUs, throughput of b is 3.0 times (no interval: 1 run) that of a: too few runs.\n"
    );
    let two = [on("a", 2, &[10.0]), on("b", 2, &[10.0]), on("a", 4, &[12.0]), on("b", 4, &[10.0])].concat();
    assert_eq!(
        words(&two),
        "On 4 CPUs, throughput of b is 17 % (no interval: 1 run) lower than that of a: too few runs.\n\
         In throughput, from 2 to 4 CPUs a gains 20 % (no interval: 1 run); b has no change shown.\n"
    );
    let same = words(&two[..2]);
    assert_eq!(same, "On 2 CPUs, throughput of b is the same as that of a: too few runs.\n");
}

#[test]
fn no_difference_is_said_with_its_interval() {
    let wide = words(&[on("a", 2, &[10.0, 15.0, 20.0]), on("b", 2, &[11.0, 16.0, 18.0])].concat());
    assert!(
        wide.starts_with("On 2 CPUs, there is no difference shown in throughput between b and a (-1")
            && wide.ends_with(" %, 95 % interval).\n"),
        "{wide}"
    );
    let equal = words(&[on("a", 2, &[5.0; 3]), on("b", 2, &[5.0; 3])].concat());
    assert_eq!(
        equal,
        "On 2 CPUs, there is no difference that matters in throughput between b and a (the seeds change nothing).\n"
    );
}

#[test]
fn a_baseline_of_0_has_differences_in_the_unit() {
    let text = words(&[on("a", 2, &[0.0; 3]), on("b", 2, &[7.0, 8.0, 9.0])].concat());
    assert_eq!(
        text,
        "On 2 CPUs, throughput of b is 8 messages/s (5.516 to 10.484, 95 % interval) higher than that of a: better.\n"
    );
    let unclear = words(&[on("a", 2, &[0.0; 3]), on("b", 2, &[-1.0, 8.0, 0.0])].concat());
    assert!(unclear.contains("no difference shown") && unclear.contains(" messages/s, 95 %"), "{unclear}");
}

#[test]
fn suspect_and_void_runs_are_told_as_in_the_table() {
    let mut runs = collapse();
    let kind = WarningKind::Starved;
    let last = runs.len() - 1;
    runs[last].warnings.push(Warning { kind, text: "hog".into(), count: 1, worst: None });
    let text = words(&runs);
    assert!(text.contains("that of vanilla: better (suspect: starved).\n"), "{text}");
    assert!(text.ends_with("interval); o1 gains 22 % (15 to 29) (suspect: starved).\n"), "{text}");
    let eject = |runs: &mut Vec<RunRecord>, name: &str| {
        let own = runs.iter_mut().filter(|run| run.cpus == 8 && run.scheduler == name);
        own.for_each(|run| run.exit.kind = ExitKind::Error);
    };
    eject(&mut runs, "o1");
    let text = words(&runs);
    assert!(text.starts_with("On 4 CPUs, throughput of o1 is 2.61 times"), "{text}");
    assert!(
        text.contains("\nOn 8 CPUs there is no verdict on o1: its runs are void (ejected, starved).\n"),
        "{text}"
    );
    let mut runs = collapse();
    eject(&mut runs, "vanilla");
    let text = words(&runs);
    assert!(
        text.contains(
            "\nOn 8 CPUs nothing is compared: the runs of vanilla, the baseline, are void (ejected)"
        ),
        "{text}"
    );
}

#[test]
fn several_workloads_have_a_sentence_each() {
    let mut runs = Vec::new();
    for name in ["chat", "build", "pipe", "tree", "mix"] {
        let mut own = collapse();
        own.iter_mut().for_each(|run| run.workload.name = name.into());
        runs.extend(own);
    }
    let text = words(&runs);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), WORKLOADS + 1, "{text}");
    assert!(lines[0].starts_with("Under chat on 8 CPUs, throughput of o1 is 5.1 times"), "{text}");
    assert_eq!(lines[WORKLOADS], "The table has 1 workload more.");
    assert_eq!(in_words(&[], &[]), "");
}

/// Ejects the runs of `bad` under a workload.
fn eject_bad(runs: &mut [RunRecord], workload: &str) {
    let own = runs.iter_mut().filter(|run| run.scheduler == "bad" && run.workload.name == workload);
    own.for_each(|run| run.exit.kind = ExitKind::Error);
}

#[test]
fn a_workload_without_a_verdict_is_named() {
    let mut runs = Vec::new();
    for name in ["chat", "hackbench"] {
        let mut own = [on("vanilla", 2, &FEW), on("bad", 2, &MANY)].concat();
        own.iter_mut().for_each(|run| run.workload.name = name.into());
        runs.extend(own);
    }
    eject_bad(&mut runs, "chat");
    assert_eq!(
        words(&runs),
        "Under hackbench on 2 CPUs, throughput of bad is 5.1 times (4.9 to 5.3, 95 % interval) that of vanilla: better.\n\
         Under chat on 2 CPUs there is no verdict on bad: its runs are void (ejected).\n"
    );
    eject_bad(&mut runs, "hackbench");
    assert_eq!(
        words(&runs),
        "Nothing is compared: under chat and hackbench on 2 CPUs the runs of bad are void (ejected).\n"
    );
    assert_eq!(words(&runs[..3]), "Nothing is compared: there is one scheduler.\n");
}

#[test]
fn void_runs_on_fewer_cpus_are_told_and_left_out_of_the_change() {
    let mut runs = Vec::new();
    for cpus in [1, 2, 4] {
        runs.extend([on("vanilla", cpus, &FEW), on("bad", cpus, &MANY), on("o1", cpus, &MANY)].concat());
    }
    let own = runs.iter_mut().filter(|run| run.scheduler == "bad" && run.cpus < 4);
    own.for_each(|run| run.exit.kind = ExitKind::Error);
    let text = words(&runs);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[2], "On 1 and 2 CPUs there is no verdict on bad: its runs are void (ejected).",
        "{text}"
    );
    assert!(lines[3].starts_with("In throughput, from 2 to 4 CPUs vanilla has no change"), "{text}");
    assert!(lines[3].ends_with("; bad is left out for lack of figures.") && lines.len() == 4, "{text}");
}

#[test]
fn the_opposite_verdict_on_another_number_of_cpus_is_told() {
    let mut runs = [on("a", 1, &FEW), on("b", 1, &FEW), on("a", 8, &FEW), on("b", 8, &FEW)].concat();
    for run in runs.iter_mut().filter(|run| run.scheduler == "b") {
        run.metrics[0].value *= if run.cpus == 1 { 1.126 } else { 0.5 };
    }
    let text = words(&runs);
    assert!(text.contains(" lower than that of a: worse; it is better on 1 CPU (+13 %).\n"), "{text}");
    // One that is neither the best nor the worst is named too.
    for (name, factor) in [("c", 0.4), ("d", 2.0)] {
        for cpus in [1, 8] {
            let mut more = on(name, cpus, &FEW);
            more.iter_mut().for_each(|run| run.metrics[0].value *= factor);
            runs.extend(more);
        }
    }
    let text = words(&runs);
    assert!(text.contains("\nOn 8 CPUs, b is worse, and better on 1 CPU (+13 %).\n"), "{text}");
}

#[test]
fn the_best_is_so_by_its_verdict() {
    let mut runs = [on("base", 2, &FEW), on("valid", 2, &[120.0, 121.0, 122.0])].concat();
    runs.extend([on("suspect", 2, &MANY), on("wide", 2, &[20.0, 400.0, 900.0])].concat());
    let suspect = Warning { kind: WarningKind::Starved, text: "hog".into(), count: 1, worst: None };
    runs.iter_mut()
        .filter(|run| run.scheduler == "suspect")
        .for_each(|run| run.warnings.push(suspect.clone()));
    let compared = compare(&runs, Level::P95, 1.0);
    let own: Vec<&Comparison> = compared.iter().filter(|c| c.metric == "throughput").collect();
    let order = |all: &[&Comparison]| {
        sorted(all).iter().map(|c| c.candidate.scheduler.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(&own), "valid suspect wide");
    assert_eq!(verdicts(&own, "difference"), "1 is better, 1 is better (suspect), 1 has no difference shown");
    // Without a ratio, and without a number, there is an order.
    let mut odd: Vec<Comparison> = own.into_iter().cloned().collect();
    odd.iter_mut().for_each(|c| c.verdict = Verdict::TooFewRuns);
    odd[0].percent = None;
    odd[0].difference = f64::NAN;
    odd[2].percent = Some(1e9);
    assert_eq!(order(&odd.iter().collect::<Vec<_>>()), "wide suspect valid");
}

#[test]
fn the_simulator_decides_no_change_inside_its_bar() {
    let runs = collapse();
    let mut compared = compare(&runs, Level::P95, 1.0);
    compared.iter_mut().filter(|c| c.metric == "throughput").for_each(|c| c.heed_factor(1.8));
    let text = in_words(&compared, &runs);
    let line = text.lines().last().unwrap();
    assert!(
        line.contains("vanilla has no change decided by this simulator (-38 to -37 %, 95 % interval) (it errs by up to 80 %); o1 has no change decided"),
        "{text}"
    );
}
