//! `vanilla`: the goodness scheduler of 2.4.18, one list and one lock.

use schedlab_base::{DurationNs, Nice, Policy};
use schedlab_workload::{Amount, Attribute, Op, ProgramBuilder};

use crate::behaviour::lab::{Lab, Load, all_near, hog, hogs, ms, near, program, us};
use crate::behaviour::probe::When;

fn vanilla() -> Lab {
    Lab::new("vanilla")
}

/// Behaviour vanilla.1.
#[test]
fn hogs_alternate_every_60_ms() {
    let threads = || hogs(ms(6000), &[0, 0]).thread();
    for seen in [
        vanilla().run(threads()),
        vanilla().hz(100).run(threads()),
        vanilla().set("mm_bonus", "0").run(hogs(ms(6000), &[0, 0])),
    ] {
        let lengths = [seen.lengths(0), seen.lengths(1)];
        all_near(&lengths[0][1..], 45, 60.0, 0.2);
        all_near(&lengths[1][1..], 45, 60.0, 0.2);
        near(seen.counter("nr_recalcs") as f64, 6000.0 / 120.0, 1.0);
    }
}

/// Behaviour vanilla.2.
#[test]
fn a_sleepers_counter_grows_every_epoch() {
    let asleep = || program(&[Op::Run(us(1)), Op::Sleep(ms(5000))]);
    let load =
        Load::new(ms(3000)).task(0, asleep()).task(-20, asleep()).task(10, asleep()).task(19, asleep());
    let seen = vanilla().watch(&[".counter"]).run(load.task(0, hog()));
    let course = |task| seen.probe().course(task, 0);
    assert_eq!(course(0), [6, 9, 10, 11]);
    assert_eq!(course(1), [11, 16, 19, 20, 21]);
    assert_eq!(course(2), [3, 4, 5]);
    assert_eq!(course(3), [1]);
}

/// Behaviour vanilla.3.
#[test]
fn a_sleeper_preempts_by_its_counter() {
    let sleeper = |span| program(&[Op::Run(us(1)), Op::Sleep(span), Op::Run(ms(1))]);
    let latency = |span, length| {
        let seen =
            vanilla().watch(&[".counter"]).run(Load::new(length).task(0, hog()).task(0, sleeper(span)));
        let counter = seen.probe().of(1, When::Enqueue).last().expect("it woke up").1;
        let (_, latency) = *seen.latencies(1).last().expect("it ran");
        (counter, latency)
    };
    let (counter, wait) = latency(ms(1000), ms(2000));
    assert_eq!(counter, 11);
    assert!(wait < us(100), "waited for {wait}");
    let (counter, wait) = latency(ms(5), ms(2000));
    assert_eq!(counter, 6);
    assert!(wait > ms(50), "waited for {wait}");
}

/// Behaviour vanilla.4.
#[test]
fn a_sleeper_does_not_preempt_far_from_its_cache() {
    // CPU 1 is the sleeper's last one; there a hog of nice -20 (66) beats it, on CPU 0 one of nice 0 is at 42 or less.
    let wait = |penalty: &str| {
        let long = Op::Run(ms(20));
        let sleeper = program(&[Op::Sleep(ms(50)), long, Op::Sleep(ms(1000)), Op::Run(ms(1))]);
        let late = program(&[Op::Sleep(ms(500))]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))));
        let load = Load::new(ms(2000)).task(0, hog()).on(0).task(-20, late).on(1).task(0, sleeper);
        let seen = vanilla().cpus(2).set("proc_change_penalty", penalty).run(load);
        let before =
            seen.stints().into_iter().rfind(|s| s.task.0 == 2 && s.begin.0 < ms(1000).0).expect("it ran");
        assert_eq!(before.cpu.0, 1, "the sleeper was on the idle CPU");
        seen.latencies(2).last().expect("it ran again").1
    };
    assert!(wait("0") < us(100));
    assert!(wait("15") > ms(5));
}

/// Behaviour vanilla.5.
#[test]
fn a_fork_splits_the_counter() {
    let splits = |before: DurationNs| {
        let mut load = Load::new(ms(1000));
        let child = load.program(program(&[Op::Run(ms(1))]));
        let fork = Op::Fork { program: child };
        let parent = program(&[Op::Run(before), fork, fork, fork, Op::Run(ms(1)), Op::WaitChild]);
        let seen = vanilla().watch(&[".counter"]).run(load.task(0, parent));
        let at_fork =
            |task| seen.probe().samples.iter().filter(move |s| s.when == When::Init && s.task.0 == task);
        let child = |n: u32| at_fork(n).find(|s| s.caller == Some(s.task)).expect("forked").values[0];
        let parent: Vec<i64> =
            at_fork(0).filter(|s| s.caller.is_some_and(|c| c.0 > 0)).map(|s| s.values[0]).collect();
        [(child(1), parent[0]), (child(2), parent[1]), (child(3), parent[2])]
    };
    assert_eq!(splits(us(100)), [(3, 3), (2, 1), (1, 0)]);
    assert_eq!(splits(ms(15)), [(3, 2), (1, 1), (1, 0)]);
}

/// Behaviour vanilla.6.
#[test]
fn three_hogs_rotate_over_two_cpus() {
    let seen = vanilla().cpus(2).run(hogs(ms(12_000), &[0, 0, 0]));
    for task in 0..3 {
        near(seen.share(task), 2.0 / 3.0, 0.02);
        let stints = seen.stints();
        let on = |cpu| stints.iter().filter(|s| s.task.0 == task as u32 && s.cpu.0 == cpu).count();
        assert!(on(0) > 10 && on(1) > 10, "task {task}: {} and {} stints", on(0), on(1));
    }
    let per_60_ms = seen.migrations_after(DurationNs::ZERO) as f64 / 200.0;
    assert!((0.6..1.4).contains(&per_60_ms), "{per_60_ms} migrations per 60 ms");
}

/// Behaviour vanilla.7.
#[test]
fn yields_need_somebody_to_yield_to() {
    let yields = || ProgramBuilder::new().repeat(Amount::Times(100), |b| b.op(Op::Run(us(10))).op(Op::Yield));
    let alone = vanilla().run(Load::new(ms(100)).task(0, yields()));
    assert_eq!((alone.counter("nr_yields"), alone.counter("nr_yields_ignored")), (100, 100));
    assert!(alone.stints().len() < 5, "{:?}", alone.stints());
    let two = vanilla().run(Load::new(ms(100)).task(0, yields()).task(0, yields()));
    assert!(two.counter("nr_yields_ignored") < 110);
    assert!(two.stints().len() > 150, "{} stints", two.stints().len());
}

/// Behaviour vanilla.8.
#[test]
fn a_pick_evaluates_every_task() {
    for tasks in [2, 10, 50] {
        let lab = vanilla().watch_picks(&["nr_goodness", "nr_recalcs"]);
        let seen = lab.run(hogs(ms(5000), &vec![0; tasks]));
        let picks = &seen.probe().picks;
        // Of the first pick and the last ones (tasks leave) nothing is known.
        let from = picks.iter().position(|pick| pick.time.0 > ms(100).0).expect("picks go on");
        assert!(picks.len() > from + 50);
        for pair in picks[from..].windows(2).filter(|pair| pair[1].time.0 < ms(4990).0) {
            let (evaluated, ended) =
                (pair[1].values[0] - pair[0].values[0], pair[1].values[1] - pair[0].values[1]);
            assert_eq!(evaluated, tasks as i64 * (1 + ended), "at {:?}", pair[1].time);
        }
    }
}

/// Behaviour vanilla.9.
#[test]
fn a_switch_costs_what_there_are_tasks() {
    let insns = |tasks| {
        let seen = vanilla().run_catalog(&format!("lat-sched:ntasks={tasks},ttime=100ms"));
        seen.result.costs.bpf_insns as f64 / seen.result.costs.switches as f64
    };
    let (few, many) = (insns(10), insns(1000));
    assert!(many >= 20.0 * few, "{few} and {many} instructions per switch");
}

/// Behaviour vanilla.10.
#[test]
fn an_exit_gives_ticks_back() {
    let after = |sleep: DurationNs| {
        let mut load = Load::new(ms(4000));
        let child = load.program(program(&[Op::Sleep(sleep)]));
        let parent = program(&[Op::Run(us(1)), Op::Fork { program: child }, Op::WaitChild]);
        load.add(0, parent);
        if sleep > ms(1) {
            // Ends epochs meanwhile.
            load.add(0, hog());
        }
        let seen = vanilla().watch(&[".counter"]).run(load);
        let exit = seen.probe().samples.iter().find(|s| s.when == When::ExitTask && s.task.0 == 0);
        exit.expect("the child exits").values[0]
    };
    assert_eq!(after(ms(1)), 6);
    assert_eq!(after(ms(2000)), 20, "11 and 11");
}

/// Behaviour vanilla.11.
#[test]
fn the_running_task_can_win_ties() {
    let lab = vanilla().set("mm_bonus", "0").set("prev_wins_ties", "1");
    let seen = lab.run(hogs(ms(6000), &[0, 0]));
    for task in 0..2 {
        all_near(&seen.lengths(task)[1..], 20, 120.0, 0.3);
    }
}

/// Behaviour vanilla.12.
#[test]
fn nice_counts_from_the_next_epoch() {
    let nice = Attribute::Nice(Nice::new(19).expect("a nice value"));
    let seen = vanilla().watch(&[".counter"]).change(ms(5000), 1, nice).run(hogs(ms(10_000), &[0, 0]));
    near(seen.share(1), (0.5 + 1.0 / 7.0) / 2.0, 0.02);
    let at = |time| seen.probe().at(1, ms(time)).values[0];
    assert!(at(5001) <= 6 && at(5001) >= at(5000) - 1, "the counter is left alone");
}

/// Behaviour vanilla.13.
#[test]
fn real_time_is_another_class() {
    let policy = Attribute::Policy;
    let lab =
        vanilla().change(ms(2000), 1, policy(Policy::Fifo(50))).change(ms(4000), 1, policy(Policy::Other));
    let seen = lab.run(hogs(ms(6000), &[0, 0]));
    let part = |from, to| {
        let stints = seen.stints();
        let mine = stints.iter().filter(|s| s.task.0 == 0 && s.begin.0 >= ms(from).0 && s.begin.0 < ms(to).0);
        mine.map(|s| s.length.0).sum::<u64>() as f64 / (ms(to).0 - ms(from).0) as f64
    };
    near(part(0, 2000), 0.5, 0.05);
    assert!(part(2100, 3900) < 0.06, "real time may leave it 5 %: {}", part(2100, 3900));
    near(part(4000, 5900), 0.5, 0.08);
}
