//! What a version of the kernel changes.

use crate::common::*;
use schedlab_base::{DurationNs, KernelVersion, Policy};
use schedlab_sim::{Class, RunResult, SimError, run};
use schedlab_workload::{Amount, Op, ProgramId, Scenario};

fn under(version: &str, cpus: usize, scenario: &Scenario) -> RunResult<Minimal> {
    let mut config = config(cpus, 1);
    config.machine.kernel = version.parse::<KernelVersion>().unwrap().features();
    run(&config, scenario, Class::Fair).unwrap()
}

fn shares(result: &RunResult<Minimal>) -> Vec<f64> {
    result.tasks.iter().map(|task| task.share).collect()
}

#[test]
fn real_time_tasks_are_throttled_where_there_are_no_servers() {
    // 950 ms of each second, whatever else there is.
    let both = hogs(&[Policy::Fifo(50), Policy::Other], DurationNs::from_secs(5));
    let found = shares(&under("6.8", 1, &both));
    assert!((found[0] - 0.95).abs() < 0.002 && (found[1] - 0.05).abs() < 0.002, "{found:?}");
    // No other task: the CPU idles, where servers would leave it to the task.
    let alone = hogs(&[Policy::Rr(1)], DurationNs::from_secs(5));
    let found = [shares(&under("6.11", 1, &alone)), shares(&under("6.12", 1, &alone))];
    assert!((found[0][0] - 0.95).abs() < 0.002 && found[1][0] > 0.998, "{found:?}");
    // Several share it, on each CPU apart; the normal task has but one CPU when both are free of them.
    let three = hogs(&[Policy::Rr(1), Policy::Rr(1), Policy::Rr(1), Policy::Other], DurationNs::from_secs(5));
    let found = shares(&under("6.6", 2, &three));
    let total: f64 = found[..3].iter().sum();
    assert!((total - 1.9).abs() < 0.01 && (found[3] - 0.05).abs() < 0.01, "{found:?}");
}

#[test]
fn real_time_tasks_below_the_bound_are_not_throttled() {
    let mut scenario = hogs(&[Policy::Fifo(50), Policy::Other], DurationNs::from_secs(5));
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(9))).op(Op::Sleep(ms(1))))));
    scenario.tasks[0].program = ProgramId(1);
    let [old, new] = ["6.8", "7.3"].map(|version| shares(&under(version, 1, &scenario)));
    assert!((old[0] - new[0]).abs() < 0.001 && old[0] > 0.88, "{old:?} {new:?}");
}

#[test]
fn real_time_tasks_that_come_and_go_while_they_are_throttled_are_counted() {
    let mut scenario = hogs(&[Policy::Fifo(50), Policy::Fifo(50), Policy::Other], DurationNs::from_secs(4));
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(400))).op(Op::Sleep(ms(560))))));
    scenario.tasks[1].program = ProgramId(1);
    for cpus in [1, 2] {
        let found = shares(&under("6.8", cpus, &scenario));
        assert!(found.iter().sum::<f64>() <= cpus as f64 + 0.001, "{found:?}");
    }
}

#[test]
fn older_kernels_have_no_sched_ext() {
    let mut config = config(1, 1);
    config.machine.kernel = "6.11".parse::<KernelVersion>().unwrap().features();
    let refused =
        run(&config, &hogs(&[Policy::Other], DurationNs::from_secs(1)), Class::Ext(Simple::new(false)));
    match refused {
        Err(SimError::Refused(text)) => {
            assert!(text.contains("Linux 6.11 has no sched_ext, which came with 6.12"), "{text}");
        }
        _ => panic!("a scheduler was loaded"),
    }
}

#[test]
fn a_wakeup_does_not_cut_a_slice_short_before_6_17() {
    // Two hogs and a sleeper on one CPU: with protection up to the deadline, slices are whole.
    let mut scenario = hogs(&[Policy::Other, Policy::Other, Policy::Other], DurationNs::from_secs(2));
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(100))).op(Op::Sleep(us(700))))));
    scenario.tasks[2].program = ProgramId(1);
    let switches = |version: &str| under(version, 1, &scenario).summary.context_switches;
    assert!(switches("6.16") < switches("7.3"), "{} {}", switches("6.16"), switches("7.3"));
}

#[test]
fn slices_are_asked_for_since_6_12() {
    let mut scenario = hogs(&[Policy::Other, Policy::Other], DurationNs::from_secs(2));
    scenario.tasks.iter_mut().for_each(|task| task.slice = Some(ms(20)));
    let switches = |version: &str| under(version, 1, &scenario).summary.context_switches;
    let (old, new) = (switches("6.11"), switches("6.12"));
    assert!(old > 5 * new, "{old} {new}");
}
