//! The lane beside the general core: every figure of a run and its trace are the same, whichever core takes which event.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod reports;
mod steps;

use schedlab_base::{DurationNs, Machine, Prng};
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config, Core, RunResult, SharedStates};
use schedlab_tests::{has_clang, root, shipped, shipped_with_swap};
use schedlab_workload::catalog;

/// A run of an object.
#[derive(Clone, Debug)]
struct Case {
    cpus: usize,
    seed: u64,
    workload: String,
    length: DurationNs,
    settings: Vec<(String, String)>,
}

/// Runs it in that core.
fn run_in(
    core: Core,
    name: &str,
    object: &[u8],
    case: &Case,
    states: Option<SharedStates>,
) -> RunResult<BpfScheduler> {
    let mut machine = Machine::uniform("lane", case.cpus);
    // A price of nothing would not show whether it is charged.
    let costs = &mut machine.costs;
    (costs.block, costs.switch_end, costs.idle_enter) = (DurationNs(41), DurationNs(53), DurationNs(67));
    (costs.dsq_enqueue, costs.lock_spinner) = (DurationNs(29), DurationNs(11));
    let options = LoadOptions { settings: case.settings.clone(), ..LoadOptions::default() };
    let scheduler = BpfScheduler::load(name, object, &options, &machine).expect("it loads");
    let scenario = catalog::build(&case.workload, case.seed).expect("a workload of the catalogue");
    let limit = Some(case.length);
    let config = Config { core, states, limit, outlive_exit: true, ..Config::new(machine, case.seed) };
    run(&config, &scenario, Class::Ext(scheduler)).expect("it runs")
}

/// All that a run gave, in words, and how many events were taken in the lane.
fn outcome(name: &str, object: &[u8], case: &Case, core: Core) -> (String, u64) {
    let result = run_in(core, name, object, case, None);
    let scheduler = result.scheduler.as_ref().expect("it is given back");
    let seen =
        (scheduler.callback_costs(), scheduler.counters(), scheduler.tables(), scheduler.changed_integers());
    let figures = (&result.duration, &result.exit, &result.measurements, &result.after, &result.summary);
    let rows = (&result.tasks, &result.waits, &result.warnings, &result.idle_beside, &result.events);
    let text = format!("{}\n{:?}\n{figures:?}\n{rows:?}\n{seen:?}", result.trace_hash, result.costs);
    (text, result.lane_events)
}

/// Runs it in both cores, and in turns of them; returns how many events the lane took.
fn compare(name: &str, object: &[u8], case: &Case) -> u64 {
    let (general, none) = outcome(name, object, case, Core::General);
    assert_eq!(none, 0, "{name}, {case:?}: the general core alone");
    let mut most = 0;
    for core in [Core::Fast, Core::Alternating(2), Core::Alternating(7)] {
        let (text, events) = outcome(name, object, case, core);
        let at = general.bytes().zip(text.bytes()).position(|(a, b)| a != b);
        let near = |text: &str| {
            at.map(|at| {
                text.get(at.saturating_sub(200)..).map(|rest| rest.chars().take(400).collect::<String>())
            })
        };
        assert!(general == text, "{name}, {core:?}, {case:?}:\n{:?}\n{:?}", near(&general), near(&text));
        most = events.max(most);
    }
    most
}

/// A number of `from` to `to`.
fn between(prng: &mut Prng, from: u64, to: u64) -> u64 {
    from + prng.below(to - from + 1)
}

/// A test object of `scx`, compiled.
fn test_object(name: &str) -> Vec<u8> {
    let object = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lane-{name}.bpf.o"));
    let source = root().join(format!("crates/scx/tests/objects/{name}.bpf.c"));
    schedlab_clang::compile(&source, &object, ["-Wall"]).expect("it compiles");
    std::fs::read(object).expect("it was written")
}

#[test]
fn tasks_that_run_and_sleep_give_the_same_in_both_cores() {
    if !has_clang() {
        return;
    }
    let objects = ["simple", "fifo"].map(|name| (name, test_object(name)));
    let mut prng = Prng::stream(1, 0x6c61_6e65);
    for round in 0..60 {
        let simple = round % 3 != 2;
        let (name, object) = &objects[usize::from(!simple)];
        let tasks = between(&mut prng, 1, 500);
        let (run, sleep) = (between(&mut prng, 1, 400), between(&mut prng, 1, 12_000));
        let mut settings = Vec::new();
        if simple {
            let slice = [20_000_000, 1_000_000, 60_000, 7_000][prng.below(4) as usize];
            let odd = [0, 0, 3, 40][prng.below(4) as usize];
            for (name, value) in [("fifo", prng.below(2)), ("slice", slice), ("odd", odd)] {
                settings.push((name.to_string(), value.to_string()));
            }
        }
        let case = Case {
            cpus: between(&mut prng, 2, 64) as usize,
            seed: prng.below(1000),
            workload: format!("periodic:tasks={tasks},run={run}us,sleep={sleep}us,ttime=1s"),
            length: DurationNs::from_us(between(&mut prng, 2_000, 40_000)),
            settings,
        };
        let events = compare(name, object, &case);
        assert!(events > 0, "{name}, {case:?}: the lane took no event");
    }
}

#[test]
fn what_the_lane_does_not_know_is_the_general_cores() {
    if !has_clang() {
        return;
    }
    let workloads = [
        "mixed:ttime=100ms",
        "chat:rooms=1,messages=5",
        "swap-futex:hogs=2,iterations=3",
        "swap-pipe:hogs=1,iterations=3",
        "cpuhog:ntasks=5,ttime=100ms",
        "mkbench:makes=1,jobs=3",
        "reflex:tasks=12,rounds=3",
    ];
    let mut taken = 0;
    let fitting = ["simple", "fifo"].map(|name| (name.to_string(), test_object(name)));
    let objects = fitting.into_iter().chain(shipped()).chain(shipped_with_swap());
    for (round, (name, object)) in objects.enumerate() {
        for (number, workload) in workloads.iter().enumerate() {
            let cpus = [1, 2, 5, 16][(round + number) % 4];
            let length = DurationNs::from_ms(60);
            let workload = (*workload).into();
            let case = Case { cpus, seed: round as u64, workload, length, settings: Vec::new() };
            taken += compare(&name, &object, &case);
        }
    }
    assert!(taken > 0, "the lane took events");
}

/// What callbacks call: iterators, kicks, locks, maps, tasks by their numbers, inserts for other CPUs.
#[test]
fn what_callbacks_call_gives_the_same_in_both_cores() {
    if !has_clang() {
        return;
    }
    let mut prng = Prng::stream(1, 0x6361_6c6c);
    for name in ["walk", "parts", "locked", "seen"] {
        let object = test_object(name);
        for cpus in [1, 2, 6, 16] {
            let (tasks, run) = (between(&mut prng, 2, 120), between(&mut prng, 20, 6_000));
            let mut settings = Vec::new();
            if name == "walk" {
                let slice = [20_000_000, 500_000][prng.below(2) as usize];
                settings = vec![("nr_cpus".into(), cpus.to_string()), ("slice".into(), slice.to_string())];
            }
            let case = Case {
                cpus,
                seed: prng.below(1000),
                workload: format!("periodic:tasks={tasks},run={run}us,sleep=700us,ttime=1s"),
                length: DurationNs::from_ms(30),
                settings,
            };
            let events = compare(name, &object, &case);
            assert!(events > 0, "{name}, {case:?}: the lane took no event");
        }
    }
}

/// A watchdog's exit, bad dispatches, faults and the fair class behind them.
#[test]
fn ejections_are_the_same_in_both_cores() {
    if !has_clang() {
        return;
    }
    for name in ["bad_dsq", "endless", "null_deref", "stall", "says_error", "forbidden", "write_field"] {
        let length = if name == "stall" { 12_000 } else { 50 };
        let case = Case {
            cpus: 3,
            seed: 5,
            workload: "periodic:tasks=9,run=1ms,sleep=300us,ttime=12s".into(),
            length: DurationNs::from_ms(length),
            settings: Vec::new(),
        };
        let object = test_object(name);
        let machine = Machine::uniform("lane", case.cpus);
        if BpfScheduler::load(name, &object, &LoadOptions::default(), &machine).is_ok() {
            compare(name, &object, &case);
        }
    }
}
