//! `ule` as in FreeBSD 6.x (the default profile) and 5.2.

use schedlab_base::{DurationNs, Policy};
use schedlab_workload::{Amount, Op, ProgramBuilder};

use crate::behaviour::lab::{Lab, Load, Seen, all_near, forever, hog, hogs, ms, near, program, us};
use crate::behaviour::probe::{Sample, When};

/// A tick of the statistics clock, in ms.
const TICK: f64 = 1000.0 / 128.0;

/// Run time, sleep time, and what follows of them.
const HISTORY: &[&str] = &[".run_time", ".sleep_time", ".user_pri"];

fn ule() -> Lab {
    Lab::new("ule")
}

fn ule_5_2() -> Lab {
    ule().set("profile", "5.2")
}

/// Ticks of 1 ms, so that run and sleep times are what the programs say.
fn fine_ticks() -> Lab {
    ule().set("tick_ns", "1000000").watch(HISTORY)
}

/// The score by the source's formula.
fn score(run: i64, sleep: i64) -> i64 {
    match run.cmp(&sleep) {
        std::cmp::Ordering::Greater => 100 - sleep / (run / 50).max(1),
        std::cmp::Ordering::Less => run / (sleep / 50).max(1),
        std::cmp::Ordering::Equal => 0,
    }
}

/// The samples of `task` at its wakeups.
fn wakeups(seen: &Seen, task: u32) -> Vec<&Sample> {
    let mine = |s: &&Sample| s.task.0 == task && s.caller == Some(s.task) && s.when == When::Enqueue;
    let woken = |s: &&Sample| seen.latencies(task).iter().any(|(time, _)| *time == s.time);
    seen.probe().samples.iter().filter(mine).filter(woken).collect()
}

/// Behaviour ule.1.
#[test]
fn scores_and_priorities() {
    // A millisecond more than needed: the clock may count one more of sleep.
    for (run, sleep, expected, priority) in [
        (1, 1000, 0, 160),
        (101, 1000, 5, 163),
        (202, 1000, 10, 166),
        (502, 1000, 25, 176),
        (591, 1000, 29, 178),
        (602, 1000, 30, 179),
        (902, 1000, 45, 188),
        (1000, 901, 55, 195),
        (1000, 501, 75, 208),
        (1000, 251, 88, 216),
        (1000, 101, 95, 220),
        (1000, 1, 100, 223),
    ] {
        let ops = program(&[Op::Run(ms(run)), Op::Sleep(ms(sleep)), Op::Run(ms(1))]);
        let seen = fine_ticks().run(Load::new(ms(3000)).task(0, ops));
        let samples = wakeups(&seen, 0);
        let values = &samples.last().expect("it woke up").values;
        assert_eq!(score(values[0], values[1]), expected, "run {run}, sleep {sleep}: {values:?}");
        assert_eq!(values[2], priority, "run {run}, sleep {sleep}: {values:?}");
    }
}

/// Behaviour ule.2.
#[test]
fn nice_moves_the_priority() {
    for (nice, priority) in [(0, 176), (10, 186), (-10, 166), (-20, 160), (19, 195)] {
        let ops = program(&[Op::Run(ms(502)), Op::Sleep(ms(1000)), Op::Run(ms(1))]);
        let seen = fine_ticks().run(Load::new(ms(2000)).task(nice, ops));
        assert_eq!(wakeups(&seen, 0).last().expect("it woke up").values[2], priority, "nice {nice}");
    }
    let seen = fine_ticks().run(hogs(ms(100), &[0, 19]));
    for (task, first) in [(0, 160), (1, 179)] {
        assert_eq!(seen.probe().course(task, 2), [first, 223], "never slept: 224 and more are too much");
    }
}

/// Behaviour ule.3.
#[test]
fn equality_is_interactive() {
    let ops = [999, 1000, 1001, 1002]
        .iter()
        .fold(ProgramBuilder::new(), |b, sleep| b.op(Op::Run(ms(1000))).op(Op::Sleep(ms(*sleep))));
    let seen = fine_ticks().set("slp_run_max_ns", "1000000000000").run(Load::new(ms(9000)).task(0, ops));
    let equal: Vec<i64> =
        wakeups(&seen, 0).iter().filter(|s| s.values[0] == s.values[1]).map(|s| s.values[2]).collect();
    assert!(!equal.is_empty() && equal.iter().all(|priority| *priority == 160), "{equal:?}");
}

/// Behaviour ule.4.
#[test]
fn interactive_below_three_eighths() {
    for (run, sleep, expected) in [(1, 9, 5), (3, 7, 21), (37, 63, 29), (38, 62, 30)] {
        let load = Load::new(ms(40_000)).task(0, forever(&[Op::Run(ms(run)), Op::Sleep(ms(sleep))]));
        let seen = ule().watch(HISTORY).run(load);
        let samples = wakeups(&seen, 0);
        let late: Vec<&&Sample> = samples.iter().filter(|s| s.time.0 > ms(20_000).0).collect();
        assert!(late.len() > 100);
        let scores: Vec<i64> = late.iter().map(|s| score(s.values[0], s.values[1])).collect();
        let usual = scores.iter().filter(|score| **score == expected).count();
        assert!(usual * 10 > scores.len() * 9, "{run}/{sleep}: {scores:?}");
    }
}

/// Behaviour ule.5.
#[test]
fn a_full_history_lasts_for_269_ticks() {
    for (lab, ticks) in [(ule().set("slice_max", "1"), 269), (ule_5_2(), 193)] {
        let ops = program(&[Op::Run(us(1)), Op::Sleep(ms(5100))]);
        let ops = ops.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))));
        let seen = lab.run(Load::new(ms(8000)).task(0, ops));
        assert_eq!(seen.counter("nr_full_sleeps"), 1);
        assert_eq!(seen.counter("nr_stayed_current"), ticks - 1);
    }
}

/// What a child of a parent that ran and slept for so long, ms, begins with; and its own program.
fn child_of(lab: &Lab, run: u64, sleep: u64, child: ProgramBuilder) -> Seen {
    let mut load = Load::new(ms(run + sleep + 2000));
    let child = load.program(child);
    let fork = Op::Fork { program: child };
    lab.run(load.task(0, program(&[Op::Run(ms(run)), Op::Sleep(ms(sleep)), fork, Op::WaitChild])))
}

/// Behaviour ule.6.
#[test]
fn a_child_inherits_half_a_second() {
    let seen = child_of(&fine_ticks(), 1000, 3000, program(&[Op::Run(ms(10))]));
    let born: Vec<&Sample> = seen.probe().samples.iter().filter(|s| s.when == When::Init).collect();
    let (parent, child) = (&born[born.len() - 2], &born[born.len() - 1]);
    assert_eq!((parent.task.0, child.task.0), (0, 1));
    near(child.values[0] as f64 / 1e6, 125.0, 1.0);
    near(child.values[1] as f64 / 1e6, 375.0, 1.0);
    near(parent.values[0] as f64 / 1e6, 1001.0, 1.0);

    let lab = ule().set("slice_max", "1").watch(&[".run_time", ".sleep_time", ".slice"]);
    let seen = child_of(&lab, 1, 5100, hog());
    let child = seen.probe().samples.iter().rfind(|s| s.when == When::Init).expect("it was born");
    near(child.values[1] as f64 / 1e6, 500.0, 1.0);
    assert_eq!((child.values[0] / 1_000_000, child.values[2]), (0, 1));
    // Every tick but the last, and once more when it has run exactly as long as it slept.
    assert_eq!(seen.counter("nr_stayed_current"), 38 + 1);
}

/// Behaviour ule.7.
#[test]
fn an_exit_gives_run_time_to_the_parent() {
    let ops = program(&[Op::Run(ms(200)), Op::Sleep(ms(300))]);
    let seen = child_of(&fine_ticks(), 100, 200, ops);
    let after = seen.probe().samples.iter().rfind(|s| s.when == When::ExitTask && s.task.0 == 0);
    let values = &after.expect("the child exits").values;
    // Run: its own 100 and a tick for the fork; of the child 100 inherited and 200. Sleep: its own, and for the child.
    near(values[0] as f64 / 1e6, 401.0, 2.0);
    near(values[1] as f64 / 1e6, 700.0, 3.0);
}

/// Behaviour ule.8.
#[test]
fn hogs_take_six_seconds_to_become_interactive() {
    let after = |sleeps: &[u64]| {
        let ops = sleeps.iter().fold(program(&[Op::Run(ms(4975))]), |b, sleep| b.op(Op::Sleep(ms(*sleep))));
        let seen = ule().watch(HISTORY).run(Load::new(ms(12_000)).task(0, ops.op(Op::Run(ms(1)))));
        wakeups(&seen, 0).iter().skip(1).map(|s| score(s.values[0], s.values[1])).collect::<Vec<_>>()
    };
    assert_eq!(after(&[1000; 6])[..], [90, 78, 62, 43, 30, 22]);
    assert_eq!(after(&[5000])[..], [0]);
}

/// Behaviour ule.9.
#[test]
fn hogs_take_turns() {
    for (nice, ticks) in [([0, 0], [18, 18]), ([0, 10], [18, 9]), ([0, 18], [18, 1])] {
        let seen = ule().run(hogs(ms(10_000), &nice));
        for (task, ticks) in [(0, ticks[0]), (1, ticks[1])] {
            // The kernel's ticks of 1 ms round each of them.
            all_near(&seen.lengths(task)[1..], 30, f64::from(ticks) * TICK, 1.1);
        }
        assert!(seen.counter("nr_queue_swaps") >= 35);
    }
}

/// Behaviour ule.10.
#[test]
fn slices_by_nice() {
    let slices = |lab: &Lab, nicer: i32| {
        let seen = lab.clone().watch(&[".slice"]).run(hogs(ms(3000), &[-20, -20 + nicer]));
        // Right after its first tick, which is all that its first slice is.
        seen.probe().course(1, 0).get(1).copied().unwrap_or(1)
    };
    let table = [18, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1];
    for (nicer, slice) in table.into_iter().enumerate() {
        assert_eq!(slices(&ule(), nicer as i32), slice, "{nicer} nicer");
    }
    assert_eq!(slices(&ule(), 19), 0);
    assert_eq!(slices(&ule(), 20), 1);
    for (nicer, slice) in [(0, 14), (5, 11), (10, 7), (15, 3), (18, 1)] {
        assert_eq!(slices(&ule_5_2(), nicer), slice, "5.2, {nicer} nicer");
    }
}

/// Behaviour ule.11.
#[test]
fn nice_window() {
    for nice in [[0, 19], [-20, 0], [-10, 19]] {
        let seen = ule_5_2().run(hogs(ms(4500), &nice));
        assert!(seen.share(1) < 0.002, "{nice:?}: {}", seen.share(1));
        assert!(seen.counter("nr_window") > 10);
    }
    let seen = ule_5_2().run(hogs(ms(4500), &[0, 18]));
    near(seen.share(1), 1.0 / 15.0, 0.02);
    let open = ule_5_2().set("nice_window", "0").run(hogs(ms(4500), &[-10, 19]));
    near(open.share(1), 1.0 / 15.0, 0.02);
    // Alone on its CPU it has a whole slice.
    let mut load = Load::new(ms(3000)).task(0, program(&[Op::Run(ms(1000))]));
    load.add(19, hog());
    near(ule_5_2().run(load).share(1), 2.0 / 3.0, 0.01);
}

/// Behaviour ule.12.
#[test]
fn nobody_waits_for_more_than_a_round() {
    let nice = [-10, -5, 0, 5, 10, 19];
    let seen = ule().run(hogs(ms(30_000), &nice));
    for task in 0..nice.len() as u32 {
        let mine: Vec<_> = seen.stints().into_iter().filter(|s| s.task.0 == task).collect();
        assert!(mine.len() > 30);
        for pair in mine.windows(2) {
            let waited = pair[1].begin.since(pair[0].begin).0 - pair[0].length.0;
            let round = (nice.len() - 1) as f64 * 18.0 * TICK;
            assert!((waited as f64 / 1e6) < round + 6.0, "nice {}: {waited} ns", nice[task as usize]);
        }
    }
}

/// Four hogs on CPU 0; CPU 1 is busy for the first 900 ms.
fn four_and_none(length: DurationNs) -> Load {
    let mut load = Load::new(length).task(0, program(&[Op::Run(ms(900))])).on(1);
    let child = load.program(hog());
    let fork = Op::Fork { program: child };
    load.add(
        0,
        program(&[Op::Sleep(ms(10)), fork, fork, fork]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))),
    );
    load
}

/// Behaviour ule.13.
#[test]
fn pull_and_push() {
    let used = |seen: &Seen| seen.result.tasks.iter().map(|task| task.share).sum::<f64>();
    let moves = |seen: &Seen| (seen.counter("nr_pulls"), seen.counter("nr_pushes"), seen.counter("nr_moves"));
    let pull = ule_5_2().set("push_period_ns", "100000000000").cpus(2).run(four_and_none(ms(1500)));
    assert_eq!(moves(&pull), (1, 0, 1));
    near(used(&pull), 2.0, 0.01);
    let push = ule().set("push_period_ns", "1000000000").cpus(2);
    assert_eq!(moves(&push.run(four_and_none(ms(990)))), (0, 0, 0));
    let seen = push.run(four_and_none(ms(1500)));
    assert_eq!(moves(&seen), (0, 1, 2));
    near(used(&seen), (1.5 + 0.9 + 0.5) / 1.5, 0.01);
}

/// Behaviour ule.14.
#[test]
fn interactive_tasks_preempt() {
    let waits = |run, sleep| {
        let load = Load::new(ms(10_000)).task(0, forever(&[Op::Run(ms(run)), Op::Sleep(ms(sleep))]));
        let seen = ule().run(load.task(0, hog()));
        seen.latencies(0).split_off(20).into_iter().map(|(_, waited)| waited).max().expect("it woke up")
    };
    assert!(waits(1, 9) < us(100));
    assert!(waits(60, 40) > ms(50));
}

/// Behaviour ule.15.
#[test]
fn interrupted_tasks_keep_their_place() {
    let sleeper = || forever(&[Op::Run(us(100)), Op::Sleep(ms(7))]);
    for lab in [ule(), ule_5_2()] {
        let seen = lab.run(hogs(ms(20_000), &[0, 10]).task(0, sleeper()));
        assert!(seen.counter("nr_preemptions") > 1000);
        near(seen.share(0) / seen.share(1), 2.0, 0.1);
        assert_eq!(seen.counter("nr_gave_way"), 0);
    }
}

/// Behaviour ule.16.
#[test]
fn wakers_lose_their_place() {
    // On CPU 0; the one that is woken may use CPU 1 as well, which has a hog of its own.
    let run = |lab: Lab| {
        let mut load = Load::new(ms(10_000));
        let pipe = load.pipe();
        let (send, recv) = (Op::Send { channel: pipe, bytes: 1 }, Op::Recv { channel: pipe, bytes: 1 });
        let load = load.task(0, forever(&[recv, Op::Run(us(10))]));
        let load = load.task(0, forever(&[Op::Run(ms(20)), send])).on(0).task(0, hog()).on(0);
        let seen = lab.cpus(2).run(load.task(0, hog()).on(1));
        (seen.counter("nr_gave_way"), seen.share(1))
    };
    let (gave_way, share) = run(ule());
    assert!(gave_way > 50);
    near(share, 20.0 / 160.0, 0.02);
    let (gave_way, share) = run(ule_5_2());
    assert_eq!(gave_way, 0);
    near(share, 0.5, 0.05);
}

/// Behaviour ule.17.
#[test]
fn classes_preempt() {
    let waits = |lab: &Lab, policy| {
        let mut load = Load::new(ms(5000)).task(0, forever(&[Op::Run(ms(60)), Op::Sleep(ms(40))]));
        load.add(0, hog());
        load.0.tasks[1].policy = policy;
        let seen = lab.run(load);
        seen.latencies(0).split_off(10).into_iter().map(|(_, waited)| waited).max().expect("it woke up")
    };
    assert!(waits(&ule(), Policy::Idle) < us(100));
    assert!(waits(&ule(), Policy::Other) > ms(50));
    assert!(waits(&ule().set("realtime_names", "task/0"), Policy::Other) < us(100));
}

/// Behaviour ule.18.
#[test]
fn classes_share_by_rank() {
    let mut load = hogs(ms(4500), &[0, 0, 0]);
    load.0.tasks[1].policy = Policy::Idle;
    load.0.tasks[2].policy = Policy::Idle;
    let seen = ule().run(load);
    assert!(seen.share(0) > 0.998);
    let mut load = hogs(ms(3000), &[0, 0]);
    for task in &mut load.0.tasks {
        task.policy = Policy::Idle;
    }
    let seen = ule().run(load);
    near(seen.share(0), 0.5, 0.01);
    let seen = ule().set("realtime_names", "task/0").run(hogs(ms(25_000), &[19, -20, 0]));
    assert_eq!(seen.counter("nr_rescued"), 8);
    for task in 1..3 {
        all_near(&seen.lengths(task), 4, TICK, 0.5);
    }
}

/// Behaviour ule.19.
#[test]
fn batch_tasks_are_not_interactive() {
    let mut load = Load::new(ms(5000)).task(0, forever(&[Op::Run(ms(1)), Op::Sleep(ms(50))])).task(0, hog());
    load.0.tasks[0].policy = Policy::Batch;
    let seen = ule().run(load);
    assert!(seen.latencies(0).into_iter().any(|(_, waited)| waited > ms(50)));
}

/// Behaviour ule.20.
#[test]
fn woken_tasks_of_5_2_preempt() {
    let waits = |boost| {
        let load = Load::new(ms(10_000)).task(0, forever(&[Op::Run(ms(60)), Op::Sleep(ms(40))]));
        let seen = ule_5_2().set("wake_boost", boost).run(load.task(0, hog()));
        seen.latencies(0).split_off(20).into_iter().map(|(_, waited)| waited).max().expect("it woke up")
    };
    assert!(waits("1") < us(100));
    assert!(waits("0") > ms(50));
}

/// Behaviour ule.21.
#[test]
fn wakeups_choose_a_cpu() {
    // The waker on CPU 0, the wakee anywhere, and a hog on CPU 0.
    let wakes = |lab: Lab, with_hog: bool| {
        let mut load = Load::new(ms(2000));
        let pipe = load.pipe();
        let (send, recv) = (Op::Send { channel: pipe, bytes: 1 }, Op::Recv { channel: pipe, bytes: 1 });
        load.add(0, forever(&[recv, Op::Run(us(100))]));
        load.add(0, forever(&[Op::Run(us(100)), Op::Sleep(ms(5)), send]));
        let mut load = load.on(0);
        if with_hog {
            load = load.task(0, hog()).on(0);
        }
        let seen = lab.cpus(2).run(load);
        let cpus: Vec<u32> = seen.stints().iter().filter(|s| s.task.0 == 0).map(|s| s.cpu.0).collect();
        (seen.counter("nr_wake_idle"), cpus.iter().filter(|cpu| **cpu == 1).count())
    };
    assert_eq!(wakes(ule(), false), (0, 0));
    let (idle, elsewhere) = wakes(ule(), true);
    assert!(idle > 300 && elsewhere > 300, "{idle} {elsewhere}");
    let (idle, elsewhere) = wakes(ule_5_2(), true);
    assert!(idle == 1 && elsewhere > 300, "{idle} {elsewhere}");
}

/// Behaviour ule.22.
#[test]
fn cpu_usage_of_a_hog() {
    let seen = ule().watch(&[".cpu_ticks"]).without_events().run(hogs(ms(40_000), &[0]));
    let late = seen.probe().samples.iter().filter(|s| s.time.0 > ms(12_000).0);
    let (least, most) =
        late.fold((i64::MAX, 0), |(least, most), s| (least.min(s.values[0]), most.max(s.values[0])));
    near(least as f64, 1280.0, 15.0);
    near(most as f64, 1408.0, 15.0);
}

/// Behaviour ule.23.
#[test]
fn a_switch_costs_the_same_with_many_tasks() {
    let insns = |tasks| {
        let seen = ule().run_catalog(&format!("lat-sched:ntasks={tasks},ttime=100ms"));
        seen.result.costs.bpf_insns as f64 / seen.result.costs.switches as f64
    };
    let (few, many) = (insns(10), insns(1000));
    assert!(many <= 1.2 * few && few <= 1.2 * many, "{few} and {many} instructions per switch");
}
/// Behaviour ule.24.
#[test]
fn interactive_tasks_do_not_starve_hogs() {
    let hog_runs = |limit: &str| {
        let mut load = Load::new(ms(20_000)).task(0, hog());
        for _ in 0..4 {
            load.add(0, forever(&[Op::Run(ms(3)), Op::Sleep(ms(7))]));
        }
        let seen = ule().set("starvation_max_ns", limit).run(load);
        let late = seen.stints().into_iter().filter(|s| s.task.0 == 0 && s.begin.0 > ms(2000).0);
        (seen.counter("nr_rescued"), late.map(|s| s.length.0 as f64 / 1e6).collect::<Vec<_>>())
    };
    let (rescues, lengths) = hog_runs("8000000000");
    assert_eq!(rescues, 2);
    // Less what it had of a tick already; the kernel looks every millisecond.
    assert!(lengths.len() == 2 && lengths.iter().all(|length| *length < TICK + 1.0), "{lengths:?}");
    assert_eq!(hog_runs("100000000000"), (0, Vec::new()));
}

/// Behaviour ule.25.
#[test]
fn a_rising_score_stays_current_in_5_2() {
    let run = |lab: Lab| {
        let late = program(&[Op::Sleep(ms(1000))]).append(hog());
        lab.run(Load::new(ms(3000)).task(0, hog()).task(0, late))
    };
    let (old, new) = (run(ule_5_2()), run(ule()));
    assert!(old.counter("nr_changed") > 10 && old.share(0) < 0.36, "{}", old.share(0));
    assert_eq!(new.counter("nr_changed"), 0);
    assert!(new.share(0) > 0.5, "{}", new.share(0));
}

/// Behaviour ule.26.
#[test]
fn idle_cpus_are_handed_tasks_in_5_2() {
    let seen = ule_5_2().cpus(2).run(hogs(ms(500), &[0, 0]));
    assert!(seen.counter("nr_wake_idle") > 0 && seen.counter("nr_pushes") == 0);
    assert!(seen.share(0) > 0.999 && seen.share(1) > 0.999);
}
