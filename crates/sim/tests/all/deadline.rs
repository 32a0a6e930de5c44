//! `SCHED_DEADLINE`: constant bandwidth servers, earliest deadline first, and what the kernel refuses.

use crate::common::*;
use schedlab_base::{DurationNs, Nice, Policy, Prng, TaskId, TimeNs};
use schedlab_sim::{Change, Class, Config, RunResult, SimError, run};
use schedlab_workload::{Amount, Attribute, Op, ProgramId, Scenario};

fn deadline(reservation: &str) -> Policy {
    Policy::Deadline(reservation.parse().unwrap())
}

fn run_with(scenario: &Scenario, config: &Config) -> RunResult<Minimal> {
    run::<Minimal>(config, scenario, Class::Fair).unwrap()
}

/// The shares of the tasks under the fair class.
fn shares(cpus: usize, scenario: &Scenario) -> Vec<f64> {
    run_with(scenario, &config(cpus, 1)).tasks.iter().map(|task| task.share).collect()
}

fn refusal(cpus: usize, scenario: &Scenario, changes: Vec<Change>) -> String {
    let mut config = config(cpus, 1);
    config.changes = changes;
    match run::<Minimal>(&config, scenario, Class::Fair) {
        Err(SimError::Refused(text)) => text,
        other => panic!("{:?}", other.map(|result| result.tasks)),
    }
}

fn near(share: f64, wanted: f64) -> bool {
    (share - wanted).abs() < 0.004
}

#[test]
fn an_overrunning_task_has_its_bandwidth_before_everybody() {
    for other in [Policy::Other, Policy::Fifo(99), deadline("5ms/100ms")] {
        let shares = shares(1, &hogs(&[deadline("3ms/10ms"), other], ms(2_000)));
        assert!(near(shares[0], 0.3), "{other:?}: {shares:?}");
    }
    // No other task wants the CPU: it is throttled all the same.
    let alone = shares(1, &hogs(&[deadline("3ms/10ms")], ms(2_000)));
    assert!(near(alone[0], 0.3), "{alone:?}");
}

#[test]
fn without_hrtick_ticks_end_the_runtime_and_the_mean_stays() {
    let mut config = config(1, 1);
    (config.machine.hz, config.machine.kernel.hrtick) = (250, false);
    let scenario = hogs(&[deadline("3ms/10ms"), Policy::Other], ms(4_000));
    let result = run_with(&scenario, &config);
    assert!(near(result.tasks[0].share, 0.3), "{:?}", result.tasks);
}

#[test]
fn sched_ext_has_what_deadline_tasks_leave() {
    let scenario = hogs(&[deadline("3ms/10ms"), Policy::Other], ms(2_000));
    let tasks = ext(1, &scenario, Simple::new(false)).tasks;
    assert!(near(tasks[0].share, 0.3) && tasks[1].share > 0.68, "{tasks:?}");
}

/// `__push_dl_task()`: a replenished task waits behind whatever runs, and a CPU without deadline tasks is better. Linux 7.3.4 on two
/// CPUs: 59 migrations of such a task in 0.6 s.
#[test]
fn a_replenished_task_goes_to_a_cpu_without_deadline_tasks() {
    let scenario = hogs(&[deadline("3ms/10ms"), Policy::Other, Policy::Other], ms(600));
    let tasks = run_with(&scenario, &config(2, 1)).tasks;
    assert!(tasks[0].migrations >= 58 && near(tasks[0].share, 0.3), "{tasks:?}");
}

/// `push_rt_tasks()` behind the switch: the task that was preempted continues where nothing of its priority runs.
#[test]
fn a_real_time_task_that_is_preempted_goes_on_elsewhere() {
    let mut scenario = hogs(&[Policy::Fifo(1), Policy::Other, Policy::Fifo(50)], ms(600));
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(2))).op(Op::Sleep(ms(3))))));
    scenario.tasks[2].program = ProgramId(1);
    let tasks = run_with(&scenario, &config(2, 1)).tasks;
    assert!(tasks[0].share > 0.99, "{tasks:?}");
}

#[test]
fn the_earliest_deadline_runs_first() {
    // Both wake at 0 and take turns by their deadlines: the short one never waits for the long one.
    let mut scenario = hogs(&[deadline("40ms/100ms"), deadline("1ms/5ms")], ms(1_000));
    scenario
        .programs
        .push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(us(500))).op(Op::Sleep(us(4_500))))));
    scenario.tasks[1].program = ProgramId(1);
    let result = run_with(&scenario, &config(1, 1));
    let waits =
        result.waits.iter().find(|wait| wait.name == "hog/1").and_then(|wait| wait.run_delay.as_ref());
    assert!(waits.is_none_or(|waits| waits.worst.length < us(50)), "{waits:?}");
    assert!(near(result.tasks[0].share, 0.4), "{:?}", result.tasks);
}

#[test]
fn who_yields_waits_for_the_next_period() {
    let mut scenario = hogs(&[deadline("5ms/10ms"), Policy::Other], ms(1_000));
    scenario.programs.push(program(|b| b.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))).op(Op::Yield))));
    scenario.tasks[0].program = ProgramId(1);
    let shares = shares(1, &scenario);
    assert!(near(shares[0], 0.1), "{shares:?}");
}

#[test]
fn a_constrained_deadline_is_no_higher_bandwidth() {
    let shares = shares(1, &hogs(&[deadline("2ms/4ms/10ms"), Policy::Other], ms(2_000)));
    assert!(near(shares[0], 0.2), "{shares:?}");
}

#[test]
fn deadline_tasks_go_where_there_is_room() {
    // Three of 60 % have no two on a CPU for long.
    let shares = shares(3, &hogs(&[deadline("6ms/10ms"); 3], ms(2_000)));
    assert!(shares.iter().all(|share| near(*share, 0.6)), "{shares:?}");
    let all = [deadline("6ms/10ms"), deadline("6ms/10ms"), Policy::Fifo(1), Policy::Other];
    let shares = self::shares(2, &hogs(&all, ms(2_000)));
    assert!(near(shares[0], 0.6) && near(shares[1], 0.6), "{shares:?}");
}

#[test]
fn more_than_the_cpus_have_is_refused() {
    let scenario = hogs(&[deadline("6ms/10ms"), deadline("6ms/10ms")], ms(100));
    let text = refusal(1, &scenario, Vec::new());
    assert!(text.contains("task hog/1: sched_setattr() of deadline:6ms/10ms: EBUSY"), "{text}");
    assert!(text.contains("asks for 60.0 % of a CPU, deadline tasks have 60.0 % of 95.0 %"), "{text}");
    // The servers' 5 % are no task's, 95 % are.
    assert!(refusal(1, &hogs(&[deadline("96ms/100ms")], ms(100)), Vec::new()).contains("EBUSY"));
    assert!(near(shares(1, &hogs(&[deadline("95ms/100ms")], ms(1_000)))[0], 0.95));
    assert_eq!(shares(2, &scenario).len(), 2);
}

#[test]
fn bandwidth_of_a_task_that_leaves_is_free_when_it_would_have_used_it() {
    let change =
        |at, policy| Change { at: TimeNs(ms(at).0), task: TaskId(0), attribute: Attribute::Policy(policy) };
    let take = |at| Change { task: TaskId(1), ..change(at, deadline("60ms/100ms")) };
    let scenario = hogs(&[deadline("60ms/100ms"), Policy::Other], ms(500));
    // At 10 ms it has 50 of 60 ms left: they would last 83 ms of the 90 to its deadline.
    let text = refusal(1, &scenario, vec![change(10, Policy::Other), take(12)]);
    assert!(text.contains("task hog/1") && text.contains("EBUSY"), "{text}");
    let mut config = config(1, 1);
    config.changes = vec![change(10, Policy::Other), take(30)];
    let shares: Vec<f64> = run_with(&scenario, &config).tasks.iter().map(|task| task.share).collect();
    assert!(shares[1] > 0.5, "{shares:?}");
}

#[test]
fn what_deadline_tasks_may_not_do_is_refused() {
    let mut pinned = hogs(&[deadline("3ms/10ms")], ms(100));
    pinned.tasks[0].affinity = Some(mask(&[0]).into());
    assert!(refusal(2, &pinned, Vec::new()).contains("EPERM"));
    let scenario = hogs(&[deadline("3ms/10ms")], ms(100));
    let narrow = Attribute::Affinity(mask(&[1]));
    let change = Change { at: TimeNs(ms(10).0), task: TaskId(0), attribute: narrow };
    assert!(refusal(2, &scenario, vec![change]).contains("sched_setaffinity(): EBUSY"));
    let mut forks = hogs(&[deadline("3ms/10ms")], ms(100));
    forks.programs.push(program(|b| b.op(Op::Fork { program: ProgramId(0) })));
    forks.tasks[0].program = ProgramId(1);
    assert!(refusal(1, &forks, Vec::new()).contains("fork(): EAGAIN"));
    // Children that start afresh are normal tasks.
    forks.child.reset_on_fork = true;
    assert_eq!(shares(1, &forks).len(), 2);
    let mut unplugged = hogs(&[deadline("9ms/10ms"), deadline("9ms/10ms")], ms(100));
    unplugged.programs.push(program(|b| b.op(Op::Hotplug { cpu: schedlab_base::CpuId(1), online: false })));
    unplugged.tasks.push(task("hand", 1, 2));
    assert!(refusal(2, &unplugged, Vec::new()).contains("offline: EBUSY"));
}

#[test]
fn policies_change_in_every_direction() {
    let policies = [
        Policy::Other,
        deadline("3ms/10ms"),
        Policy::Fifo(5),
        deadline("1ms/5ms"),
        deadline("2ms/5ms/9ms"),
        Policy::Batch,
        deadline("1ms/100ms"),
    ];
    let mut config = config(2, 1);
    for (number, policy) in (0_u64..60).zip(policies.iter().cycle()) {
        let at = TimeNs(us(1_700 * number + 900).0);
        config.changes.push(Change {
            at,
            task: TaskId((number % 3) as u32),
            attribute: Attribute::Policy(*policy),
        });
    }
    let mut scenario = hogs(&[Policy::Other; 3], ms(300));
    scenario.tasks[1].nice = Nice::new(5).unwrap();
    scenario.programs.push(program(|b| {
        b.repeat(Amount::Forever, |b| b.op(Op::Run(us(700))).op(Op::Sleep(us(900))).op(Op::Yield))
    }));
    scenario.tasks[2].program = ProgramId(1);
    let result = run_with(&scenario, &config);
    assert_eq!(result.duration, DurationNs::from_ms(300));
}

/// What the checkers know holds for tasks of all kinds that come, sleep, yield and change on several CPUs. No task has
/// more than it was promised.
#[test]
fn random_deadline_tasks_keep_the_rules() {
    for seed in 0..60 {
        let mut prng = Prng::stream(seed, 7);
        let cpus = 1 + prng.below(4) as usize;
        let mut scenario = hogs(&[], ms(200));
        scenario.programs.clear();
        for number in 0..2 + prng.below(3 * cpus as u64) as u32 {
            let (work, pause) = (us(50 + prng.below(3_000)), us(1 + prng.below(9_000)));
            let yields = prng.chance(1, 3);
            scenario.programs.push(program(|b| {
                b.repeat(Amount::Forever, |b| {
                    let b = b.op(Op::Run(work));
                    if yields { b.op(Op::Yield) } else { b.op(Op::Sleep(pause)) }
                })
            }));
            let mut task = task(&format!("t/{number}"), number, number);
            let period = 2_000 + prng.below(20_000);
            let deadline = period / 2 + prng.below(period / 2);
            let runtime = period / 20 + prng.below(period / 10);
            task.policy = match prng.below(4) {
                0 => Policy::Other,
                1 => Policy::Fifo(3),
                _ => self::deadline(&format!("{runtime}us/{deadline}us/{period}us")),
            };
            scenario.tasks.push(task);
        }
        let mut config = config(cpus, seed);
        config.machine.kernel.hrtick = prng.chance(1, 2);
        let result = match run::<Minimal>(&config, &scenario, Class::Fair) {
            Ok(result) => result,
            Err(SimError::Refused(text)) if text.contains("EBUSY") => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        for (record, task) in result.tasks.iter().zip(&scenario.tasks) {
            let Some(reservation) = task.policy.reservation() else { continue };
            let promised = reservation.runtime().0 as f64 / reservation.period().0 as f64;
            // One instance more, and a tick more where ticks end it.
            let more = (reservation.runtime().0 + 1_200_000) as f64 / 200e6;
            assert!(record.share < promised + more, "seed {seed}: {record:?} {reservation}");
        }
    }
}
