//! The built-in workloads under the fair class: they end, are deterministic, wake as
//! a kernel would, and use memory that does not depend on how long they run.

use crate::common::Minimal;
use schedlab_base::{DurationNs, Machine};
use schedlab_sim::{Class, Config, RunResult, SimError, run};
use schedlab_trace::{Event, EventKind, Sink};
use schedlab_workload::{End, Scenario, catalog};
use std::cell::RefCell;
use std::rc::Rc;

/// Counts the wakeups that tasks caused.
#[derive(Default)]
struct Wakeups(u64);

impl Sink for Wakeups {
    fn event(&mut self, event: &Event) {
        self.0 += u64::from(matches!(event.kind, EventKind::SchedWakeup { waker: Some(_), .. }));
    }
}

fn try_on(cpus: usize, scenario: &Scenario) -> Result<RunResult<Minimal>, SimError> {
    let mut config = Config::new(Machine::uniform("test", cpus), 1);
    config.checkers = true;
    run(&config, scenario, Class::<Minimal>::Fair)
}

fn on(cpus: usize, spec: &str) -> (Scenario, RunResult<Minimal>) {
    let scenario = catalog::build(spec, 1).unwrap();
    let result = try_on(cpus, &scenario).unwrap_or_else(|error| panic!("{spec} on {cpus}: {error}"));
    (scenario, result)
}

fn wakeups_of(cpus: usize, spec: &str) -> (Scenario, RunResult<Minimal>, u64) {
    let scenario = catalog::build(spec, 1).unwrap();
    let sink = Rc::new(RefCell::new(Wakeups::default()));
    let mut config = Config::new(Machine::uniform("test", cpus), 1);
    config.sinks.push(sink.clone());
    let result = run(&config, &scenario, Class::<Minimal>::Fair).unwrap();
    let count = sink.borrow().0;
    (scenario, result, count)
}

fn metric(scenario: &Scenario, result: &RunResult<Minimal>, name: &str) -> f64 {
    let spec = scenario.metrics.iter().find(|metric| metric.name == name).unwrap();
    spec.evaluate(&result.measurements).unwrap_or_else(|| panic!("{name} has a value")).value
}

const SMALL: &[&str] = &[
    "cpuhog:ntasks=3,ttime=300ms",
    "cpuhog:ntasks=2,size=64,ttime=100ms",
    "lat-sched:ntasks=4,ttime=5ms",
    "lat-ctx:procs=4,rounds=200,size=16",
    "reflex:tasks=8,rounds=500",
    "reflex:tasks=6,group=3,active=2,rounds=100,delay=10",
    "chat:rooms=1,messages=2",
    "chat:rooms=1,users=8,messages=5,fanout=receiver,medium=unix",
    "volano:rooms=1,users=6,messages=2,hogs=2",
    "mkbench:makes=2,jobs=3,objects=40,scale=0.001",
    "mkbench:objects=30,scale=0.001,cold=1",
    "periodic:tasks=3,ttime=200ms",
];

#[test]
fn every_workload_ends_on_any_number_of_cpus() {
    for spec in SMALL {
        for cpus in [1, 2, 5] {
            let (scenario, result) = on(cpus, spec);
            for metric in &scenario.metrics {
                let value = metric.evaluate(&result.measurements).map(|metric| metric.value);
                assert!(value.is_some_and(|v| v > 0.0), "{spec} on {cpus}: {} = {value:?}", metric.name);
            }
        }
    }
}

#[test]
fn runs_are_deterministic() {
    for spec in SMALL {
        let hash = || on(3, spec).1.trace_hash.to_string();
        assert_eq!(hash(), hash(), "{spec}");
    }
}

#[test]
fn hogs_share_by_weight() {
    let (_, result) = on(1, "cpuhog:ntasks=2,nice=0/5,ttime=10s");
    let ratio = result.tasks[0].share / result.tasks[1].share;
    // 1024 : 335.
    assert!((ratio / (1024.0 / 335.0) - 1.0).abs() < 0.05, "{ratio}");
    assert!(result.tasks[0].share + result.tasks[1].share > 0.98);
}

#[test]
fn three_hogs_take_turns_on_two_cpus() {
    let (_, result) = on(2, "cpuhog:ntasks=3,ttime=10s");
    for task in &result.tasks {
        assert!((0.60..0.74).contains(&task.share), "{} has {}", task.name, task.share);
    }
}

#[test]
fn a_hop_is_one_wakeup() {
    for cpus in [1, 2] {
        let (scenario, result, wakeups) = wakeups_of(cpus, "reflex:tasks=2,rounds=2000");
        // 2000 hops; a reader that is late finds its token without a wakeup.
        assert!((1990..=2000).contains(&wakeups), "{wakeups} wakeups on {cpus}");
        let round = metric(&scenario, &result, "time_per_round");
        assert!((1.0..8.0).contains(&round), "{round} us on {cpus}");
    }
}

#[test]
fn chat_wakes_at_most_once_per_operation() {
    for cpus in [1, 4] {
        let (_, _, wakeups) = wakeups_of(cpus, "chat:rooms=2,messages=20");
        let user_messages = 2 * 20 * 20;
        // And 160 at the gates besides.
        assert!(wakeups <= 21 * user_messages + 160, "{wakeups} on {cpus}");
        assert!(wakeups >= user_messages / 4, "{wakeups} on {cpus}");
    }
}

#[test]
fn builds_take_the_time_of_their_work() {
    let (scenario, result) = on(2, "mkbench:scale=0.01,objects=200");
    let time = metric(&scenario, &result, "build_time_avg");
    // 0.16 + 3.44 / 2 s, and 1600 processes of 350 us on two CPUs.
    assert!((1.85..2.35).contains(&time), "{time} s");
    let makespan = metric(&scenario, &result, "makespan");
    assert!((makespan - time).abs() < 1e-9, "{makespan} {time}");
}

#[test]
fn yields_and_switches_have_plausible_costs() {
    let (scenario, result) = on(1, "lat-sched:ntasks=4,ttime=100ms");
    let time = metric(&scenario, &result, "time_per_yield");
    assert!((0.3..3.0).contains(&time), "{time} us");
    let (scenario, result) = on(1, "lat-ctx:procs=4,rounds=1000");
    let time = metric(&scenario, &result, "time_per_switch");
    assert!((0.3..5.0).contains(&time), "{time} us");
}

#[test]
fn sleeps_take_their_time() {
    let (scenario, result) = on(4, "periodic:tasks=4,run=1ms,sleep=9ms,ttime=1s");
    let turns = metric(&scenario, &result, "turns");
    assert!((390.0..=400.0).contains(&turns), "{turns}");
}

#[test]
fn a_run_with_background_load_ends_with_the_foreground() {
    let (scenario, result) = on(2, "chat:rooms=1,messages=3,hogs=3");
    assert_eq!(scenario.end, End::ForegroundExit);
    assert!(result.duration < DurationNs::from_secs(5));
}
