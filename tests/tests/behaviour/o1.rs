//! `o1` as in Linux 2.6.10 (the default profile).

use schedlab_base::{CpuMask, DurationNs, Nice};
use schedlab_workload::{Attribute, ChangeId, Op, ProgramBuilder};

use crate::behaviour::lab::{
    Lab, Load, Seen, Stint, all_near, disk, forever, hog, hog_after, hogs, ms, near, program, us,
};
use crate::behaviour::probe::When;

fn o1() -> Lab {
    Lab::new("o1")
}

/// A descriptor's `member` right after the last wakeup of task 0, which runs `ops`.
fn at_wakeup(nice: i32, ops: ProgramBuilder, member: &'static str) -> i64 {
    let seen = o1().watch(&[member]).run(Load::new(ms(3000)).task(nice, ops));
    seen.probe().of(0, When::Enqueue).last().expect("it woke up").1
}

fn sleep_once(op: Op) -> ProgramBuilder {
    program(&[Op::Run(us(1)), op, Op::Run(ms(1))])
}

/// Behaviour o1.1.
#[test]
fn slices_by_nice() {
    let table = [
        (-20, 800),
        (-19, 780),
        (-15, 700),
        (-10, 600),
        (-5, 500),
        (-1, 420),
        (0, 100),
        (1, 95),
        (5, 75),
        (10, 50),
        (15, 25),
        (19, 5),
    ];
    let nice: Vec<i32> = table.iter().map(|(nice, _)| *nice).collect();
    let seen = o1().watch(&[".time_slice"]).run(hogs(ms(1), &nice));
    for (task, (nice, ticks)) in table.iter().enumerate() {
        let slice = seen.probe().of(task as u32, When::Init)[0].1;
        assert_eq!(slice, *ticks, "nice {nice}");
    }
}

/// Behaviour o1.2.
#[test]
fn hogs_alternate_every_100_ms() {
    for seen in [
        o1().watch(&[".prio"]).run(hogs(ms(6000), &[0, 0])),
        o1().hz(100).watch(&[".prio"]).run(hogs(ms(6000), &[0, 0])),
    ] {
        for task in 0..2 {
            all_near(&seen.lengths(task)[1..], 25, 100.0, 0.2);
            assert_eq!(seen.probe().course(task, 0), [125]);
        }
    }
}

/// Behaviour o1.3.
#[test]
fn priorities_by_nice_and_bonus() {
    let full = |nice| at_wakeup(nice, sleep_once(Op::Sleep(ms(200))), ".prio");
    let none = |nice| at_wakeup(nice, program(&[Op::Run(ms(1))]), ".prio");
    assert_eq!((full(0), none(0)), (115, 125));
    assert_eq!((full(-20), none(-20)), (100, 105));
    assert_eq!((full(19), none(19)), (134, 139));
}

/// Behaviour o1.4.
#[test]
fn sleep_is_worth_up_to_ten_times_as_much() {
    let ms_after = |op| at_wakeup(0, sleep_once(op), ".sleep_avg") as f64 / 1e6;
    near(ms_after(Op::Sleep(ms(50))), 500.0, 1.0);
    near(ms_after(Op::Sleep(ms(101))), 1000.0, 0.0);
    near(ms_after(Op::Sleep(ms(800))), 900.0, 0.0);
    near(ms_after(disk(ms(100))), 799.0, 0.0);
}

/// How long after its wakeup a task with a full average computes until `holds`, in ms of CPU time.
fn until(seen: &Seen, holds: impl Fn(i64) -> bool) -> f64 {
    let woken = seen.latencies(0).last().expect("it woke up").0;
    let found = seen.probe().samples.iter().find(|s| s.time > woken && holds(s.values[0]));
    found.expect("its average shrinks").time.since(woken).0 as f64 / 1e6
}

/// Behaviour o1.5.
#[test]
fn an_average_shrinks_while_computing() {
    for (credit, below_7, nothing) in [("1", 301.0, 1000.0), ("0", 2401.0, 4600.0)] {
        let lab = o1().set("interactive_credit", credit).watch(&[".sleep_avg"]);
        let seen = lab.run(Load::new(ms(6000)).task(0, hog_after(ms(101))));
        near(until(&seen, |ns| ns < 700_000_000), below_7 + 50.0, 51.0);
        near(until(&seen, |ns| ns < 100_000_000), nothing - 50.0, 101.0);
        assert_eq!(seen.probe().course(0, 0).last(), Some(&0));
    }
}

/// Behaviour o1.6.
#[test]
fn one_sleep_of_70_ms_makes_interactive() {
    assert_eq!(at_wakeup(0, sleep_once(Op::Sleep(ms(71))), ".prio"), 118);
    assert_eq!(at_wakeup(0, sleep_once(Op::Sleep(ms(69))), ".prio"), 119);
}

/// Behaviour o1.7.
#[test]
fn interactive_tasks_stay_active() {
    for (nice, stays) in [(0, true), (10, true), (15, false), (16, false), (19, false)] {
        let seen = o1().run(Load::new(ms(3000)).task(nice, hog_after(ms(500))).task(nice, hog()));
        assert_eq!(seen.counter("nr_stayed_active") > 0, stays, "nice {nice}");
    }
    // At nice 15 a bonus of 10 is needed, which a slice of 25 ms is enough to lose.
    assert_eq!(at_wakeup(15, sleep_once(Op::Sleep(ms(101))), ".prio"), 130);
}

/// Behaviour o1.8.
#[test]
fn expired_tasks_do_not_starve_for_ever() {
    let run = |limit: &str| {
        let load = Load::new(ms(350)).task(0, hog_after(ms(101))).task(0, hog());
        o1().set("starvation_limit_ns", limit).run(load)
    };
    let count = |limit| {
        let seen = run(limit);
        (seen.counter("nr_stayed_active"), seen.counter("nr_starving"))
    };
    assert_eq!(count("45000000"), (1, 1));
    assert_eq!(count("55000000"), (2, 0));
}

/// Behaviour o1.9.
#[test]
fn a_fork_splits_the_slice() {
    let mut load = Load::new(ms(1000));
    let child = load.program(program(&[Op::Run(ms(10))]));
    let parent = program(&[Op::Fork { program: child }, Op::WaitChild, Op::Run(ms(20))]);
    let seen = o1().watch(&[".time_slice"]).run(load.task(0, parent));
    let samples = &seen.probe().samples;
    let fork: Vec<i64> = samples
        .iter()
        .filter(|s| s.when == When::Init && s.caller.is_some_and(|c| c.0 == 1))
        .map(|s| s.values[0])
        .collect();
    assert_eq!(fork, [50, 50]);
    let after = samples.iter().find(|s| s.when == When::ExitTask && s.task.0 == 0).expect("the child exits");
    near(after.values[0] as f64, 90.0, 1.0);
    let order: Vec<u32> = seen.stints().iter().map(|stint| stint.task.0).collect();
    assert_eq!(order[..3], [0, 1, 0]);
    assert_eq!(seen.counter("nr_child_first"), 1);
}

/// Behaviour o1.10.
#[test]
fn three_hogs_stay_two_and_one() {
    let seen = o1().cpus(2).run(hogs(ms(20_000), &[0, 0, 0]));
    assert_eq!(seen.migrations_after(ms(1000)), 0);
    let mut shares: Vec<f64> = (0..3).map(|task| seen.share(task)).collect();
    shares.sort_by(f64::total_cmp);
    near(shares[0], 0.5, 0.02);
    near(shares[1], 0.5, 0.02);
    near(shares[2], 1.0, 0.02);
}

/// Behaviour o1.11.
#[test]
fn a_yield_goes_to_the_expired_array() {
    let seen = o1().run(Load::new(ms(3000)).task(0, forever(&[Op::Run(us(10)), Op::Yield])).task(0, hog()));
    all_near(&seen.lengths(1)[1..], 25, 100.0, 0.2);
    assert!(seen.share(0) < 0.001);
}

/// Behaviour o1.12.
#[test]
fn interactive_tasks_take_turns() {
    let first = |lab: Lab| {
        let seen = lab.run(Load::new(ms(400)).task(0, hog_after(ms(101))).task(0, hog_after(ms(101))));
        assert!(seen.counter("nr_round_robins") > 0);
        let stints = seen.stints();
        let from = stints.iter().position(|s| s.begin.0 > ms(100).0).expect("they wake up");
        stints[from..from + 6].iter().map(|s| s.length.0 as f64 / 1e6).collect::<Vec<_>>()
    };
    all_near(&first(o1()), 6, 5.0, 0.2);
    all_near(&first(o1().set("granularity_ns", "10000000")), 6, 10.0, 0.2);
}

/// Behaviour o1.13.
#[test]
fn a_wakeup_preempts_by_priority() {
    let wait = |sleep: DurationNs| {
        let seen = o1().run(Load::new(ms(3000)).task(0, sleep_once(Op::Sleep(sleep))).task(0, hog()));
        seen.latencies(0).last().expect("it woke up").1
    };
    assert!(wait(ms(15)) < us(100), "bonus 1: 124 against 125");
    assert!(wait(ms(9)) > ms(50), "bonus 0: equal");
}

/// Behaviour o1.14.
#[test]
fn arrays_swap_when_the_active_one_is_empty() {
    let alone = o1().run(hogs(ms(5050), &[0]));
    assert_eq!((alone.counter("nr_expired"), alone.counter("nr_array_switches")), (50, 50));
    let two = o1().run(hogs(ms(5050), &[0, 0]));
    assert_eq!((two.counter("nr_expired"), two.counter("nr_array_switches")), (50, 25));
}

fn to(nice: i64) -> Attribute {
    Attribute::Nice(Nice::new(nice).expect("a nice value"))
}

/// Behaviour o1.15.
#[test]
fn granularity_by_bonus() {
    let turns = [
        (0, 10, 5.0),
        (0, 9, 5.0),
        (0, 8, 10.0),
        (0, 7, 20.0),
        (-20, 6, 40.0),
        (-20, 5, 80.0),
        (-20, 3, 320.0),
    ];
    for (nice, bonus, turn) in turns {
        // Counted tenfold, as nothing was slept before.
        let sleep = ms(10 * bonus + 1);
        let load = Load::new(ms(500)).task(nice, hog_after(sleep)).task(nice, hog_after(sleep));
        let stints = o1().run(load).stints();
        let first = stints.iter().find(|s| s.begin.0 > sleep.0).expect("they wake up");
        near(first.length.0 as f64 / 1e6, turn, 0.2);
    }
}

/// Behaviour o1.16.
#[test]
fn what_a_child_leaves_is_bounded() {
    let mut load = Load::new(ms(2000));
    load.0.changes.push(to(10));
    let worse = Op::Set { task: None, change: ChangeId(load.0.changes.len() as u32 - 1) };
    let child = load.program(program(&[worse, Op::Run(us(100))]));
    let parent = program(&[Op::Fork { program: child }, Op::WaitChild, Op::Run(ms(20))]);
    let seen = o1().watch(&[".time_slice"]).run(load.task(0, parent));
    let after = seen.probe().samples.iter().find(|s| s.when == When::ExitTask && s.task.0 == 0);
    assert_eq!(after.expect("the child exits").values[0], 50);

    let mut load = Load::new(ms(2000));
    let child = load.program(program(&[Op::Run(ms(200))]));
    let parent = program(&[
        Op::Run(us(1)),
        Op::Sleep(ms(101)),
        Op::Fork { program: child },
        Op::WaitChild,
        Op::Run(ms(20)),
    ]);
    let seen = o1().watch(&[".sleep_avg"]).run(load.task(0, parent));
    let after = seen.probe().samples.iter().find(|s| s.when == When::ExitTask && s.task.0 == 0);
    // The parent's average is 1000 ms, the child's 900 less the 200 that it ran.
    near(after.expect("the child exits").values[0] as f64 / 1e6, (3.0 * 1000.0 + 700.0) / 4.0, 1.0);
}

/// Behaviour o1.17.
#[test]
fn nice_changes_while_it_runs() {
    for (task, nice, prios) in [(0, 10, [135, 125]), (1, -5, [125, 120])] {
        let lab = o1().watch(&[".prio"]).change(ms(50), task, to(nice));
        let seen = lab.run(hogs(ms(200), &[0, 0]));
        let prio = |task| seen.probe().at(task, ms(52)).values[0];
        assert_eq!([prio(0), prio(1)], prios);
        let first = seen.stints()[0];
        assert_eq!(first.task.0, 0);
        near(first.length.0 as f64 / 1e6, 50.0, 0.2);
    }
}

/// Behaviour o1.18.
#[test]
fn a_running_task_makes_way_to_be_pulled() {
    let everywhere = Attribute::Affinity(CpuMask::first(2));
    let load = hogs(ms(300), &[0]).on(0).task(0, hog()).on(0);
    let seen = o1().cpus(2).change(ms(30), 0, everywhere).run(load);
    let moved = seen.stints().into_iter().find(|s| s.cpu.0 == 1).or_else(|| {
        // It runs there to the end, which is no stint.
        let last = seen.stints().into_iter().rfind(|s| s.task.0 == 0)?;
        Some(Stint { begin: last.begin + last.length, ..last })
    });
    let begin = moved.expect("it moves").begin.0;
    assert!((ms(30).0..ms(50).0).contains(&begin), "moved at {begin} ns");
    assert_eq!(seen.counter("nr_active_pushes"), 1);
    assert!(seen.share(0) > 0.85 && seen.share(1) > 0.85);
}

/// Behaviour o1.19.
#[test]
fn a_switch_costs_the_same_with_many_tasks() {
    let insns = |tasks| {
        let seen = o1().run_catalog(&format!("lat-sched:ntasks={tasks},ttime=100ms"));
        seen.result.costs.bpf_insns as f64 / seen.result.costs.switches as f64
    };
    let (few, many) = (insns(10), insns(1000));
    assert!(many <= 1.2 * few && few <= 1.2 * many, "{few} and {many} instructions per switch");
}
