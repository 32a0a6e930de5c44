//! `libenzi`: Davide Libenzi's multi-queue scheduler of October 2001, beside what it was to replace.

use schedlab_base::{DurationNs, TimeNs};
use schedlab_workload::Op;

use crate::behaviour::lab::{Lab, Load, Seen, hog, hogs, ms, near, program, us};
use crate::behaviour::probe::When;

fn libenzi() -> Lab {
    Lab::new("libenzi")
}

/// Behaviour libenzi.1.
#[test]
fn three_hogs_on_two_cpus_stay_where_they_are() {
    let published = 22.0 / 1.874;
    let vanilla = Lab::new("vanilla").cpus(2).run(hogs(ms(20_000), &[0, 0, 0]));
    let rate = vanilla.migrations_after(DurationNs::ZERO) as f64 / 20.0;
    near(rate, published, 0.2 * published);
    for settled in [libenzi(), Lab::new("o1")] {
        let seen = settled.clone().cpus(2).run(hogs(ms(20_000), &[0, 0, 0]));
        assert_eq!(seen.migrations_after(ms(1000)), 0, "{settled:?}");
        let mut shares: Vec<f64> = (0..3).map(|task| seen.share(task)).collect();
        shares.sort_by(f64::total_cmp);
        for (share, expected) in shares.into_iter().zip([0.5, 0.5, 1.0]) {
            near(share, expected, 0.02);
        }
    }
}

/// What the history of a task is worth at each of five switches to it and from it; it runs and sleeps in turns, in
/// ticks.
fn cycle(run: u64, sleep: u64, carry: &str) -> (Vec<i64>, Vec<i64>) {
    // 41 ticks for nice -20: no epoch ends within six turns.
    let ops = (1..=6).flat_map(|_| [Op::Run(ms(run * 10)), Op::Sleep(ms(sleep * 10) - us(50))]);
    let ops: Vec<Op> = [Op::Run(us(1)), Op::Sleep(ms(1000))].into_iter().chain(ops).collect();
    let lab =
        libenzi().set("history_carry", carry).set("scale_shift", "0").watch(&[".cpu_jtime", ".sched_jtime"]);
    let seen = lab.run(Load::new(ms(2000)).task(-20, program(&ops)));
    // The scheduler's clock does not begin with the run.
    let first = seen.probe().samples.iter().find(|s| s.when == When::Running).expect("it runs");
    let begin = first.values[1] - (first.time.0 / 10_000_000) as i64;
    let weight = |(time, until): (TimeNs, i64)| (until - begin - (time.0 / 10_000_000) as i64).max(0);
    let at = |when| seen.probe().of(0, when).into_iter().skip(1).take(5).map(weight).collect();
    (at(When::Running), at(When::Quiescent))
}

/// Behaviour libenzi.2.
#[test]
fn history_is_what_ran_last_less_the_time_since() {
    assert_eq!(cycle(6, 2, "50"), (vec![0, 4, 6, 7, 7], vec![6, 8, 9, 9, 9]));
    assert_eq!(cycle(6, 2, "0"), (vec![0, 4, 4, 4, 4], vec![6, 6, 6, 6, 6]));
}

/// Behaviour libenzi.3.
#[test]
fn history_fades_in_the_time_that_it_took() {
    assert_eq!(cycle(6, 6, "50"), (vec![0, 0, 0, 0, 0], vec![6, 6, 6, 6, 6]));
}

/// Behaviour libenzi.4.
#[test]
fn the_interrupted_hog_goes_on() {
    let after = |lab: Lab| {
        let key = program(&[Op::Run(us(1)), Op::Sleep(ms(275)), Op::Run(us(5))]);
        let seen = lab.run(Load::new(ms(700)).task(0, hog()).task(-5, key).thread().task(0, hog()));
        let stints = seen.stints();
        let at = stints.iter().position(|s| s.task.0 == 1 && s.begin.0 > ms(270).0).expect("the key comes");
        (stints[at - 1].task.0, stints[at + 1].task.0)
    };
    let (before, then) = after(libenzi());
    assert_eq!(before, then);
    let (before, then) = after(Lab::new("vanilla"));
    assert_ne!(before, then);
}

/// The part of the keys after which the interrupted hog continues.
fn undisturbed(seen: &Seen) -> f64 {
    let stints = seen.stints();
    let around = stints.windows(3).filter(|three| three[1].task.0 == 2 && three[2].task.0 != 2);
    let same: Vec<bool> = around.map(|three| three[0].task == three[2].task).collect();
    assert!(same.len() > 1500, "{} keys", same.len());
    same.iter().filter(|same| **same).count() as f64 / same.len() as f64
}

/// Behaviour libenzi.5.
#[test]
fn keys_leave_the_hog_in_place() {
    let rate = |lab: Lab, by: &str| {
        let lab = lab.hz(100).set("kernel_threads", "1").set("tick_sampling", "1");
        undisturbed(&lab.run_catalog(&format!("keyboard:ttime=60s,by={by}")))
    };
    near(rate(libenzi(), "kernel"), 8.0 / 9.0, 0.15);
    near(rate(libenzi(), "user"), 8.0 / 9.0, 0.15);
    near(rate(Lab::new("vanilla"), "kernel"), 3.0 / 6.0, 0.15);
    assert!(rate(Lab::new("vanilla"), "user") < 0.4);
}

/// Behaviour libenzi.6.
#[test]
fn kernel_threads_run_beside_the_policy_as_a_rule() {
    let rate = |lab: Lab| undisturbed(&lab.hz(100).run_catalog("keyboard:ttime=60s"));
    near(rate(libenzi()), 1.0, 0.0);
    near(rate(Lab::new("vanilla")), 1.0, 0.0);
}

/// Behaviour libenzi.7.
#[test]
fn children_go_to_the_least_loaded_cpu() {
    let placed = |balance: &str| {
        let mut load = Load::new(ms(300));
        let child = load.program(program(&[Op::Sleep(ms(250))]));
        let fork = [Op::Fork { program: child }, Op::Run(ms(5))];
        let ops: Vec<Op> = [Op::Sleep(ms(10))].into_iter().chain(fork.repeat(8)).collect();
        let seen = libenzi().cpus(4).set("fork_balance", balance).run(load.task(0, program(&ops)));
        let first = |task| {
            let stints = seen.stints();
            stints.iter().find(|s| s.task.0 == task).expect("the child ran").cpu.0
        };
        (1..=8).map(first).collect::<Vec<u32>>()
    };
    assert_eq!(placed("1"), [1, 2, 3, 1, 2, 3, 1, 2]);
    assert_eq!(placed("0"), [0; 8]);
}

/// A hog on CPU 0, a task that runs for 100 ms on CPU 1, and perhaps another hog on CPU 0.
fn idle_after_100_ms(lab: Lab, another: bool) -> Seen {
    let long = || program(&[Op::Run(ms(250))]);
    let load = Load::new(ms(600)).task(0, long()).task(0, program(&[Op::Run(ms(100))]));
    lab.cpus(2).run(if another { load.task(0, long()) } else { load })
}

/// Behaviour libenzi.8.
#[test]
fn a_marked_task_moves_when_it_is_picked() {
    let seen = idle_after_100_ms(libenzi(), true);
    assert_eq!((seen.counter("nr_marks"), seen.counter("nr_sent"), seen.counter("nr_moves")), (1, 1, 1));
    let stints = seen.stints();
    let waits = stints.iter().rfind(|s| s.cpu.0 == 0 && s.begin.0 < ms(100).0).expect("a hog runs on CPU 0");
    let runs = seen.migrations();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_ne!(runs[0].task, waits.task, "who waits is marked");
    // It is picked where the other one's ticks end, which may be in the next epoch.
    let after = runs[0].begin.since(waits.begin).0 as f64 / 60e6;
    near(after, after.round(), 0.01);
    let alone = idle_after_100_ms(libenzi(), false);
    assert_eq!((alone.counter("nr_marks"), alone.counter("nr_moves")), (0, 0));
    assert!(alone.counter("nr_balanced") > 0);
    let high = idle_after_100_ms(libenzi().set("steal_threshold", "2"), true);
    assert_eq!(high.counter("nr_marks"), 0);
    let lowest = idle_after_100_ms(libenzi().set("steal_threshold", "0"), false);
    assert_eq!(lowest.counter("nr_marks"), 0, "a list's only task is left alone");
    let off = idle_after_100_ms(libenzi().set("idle_balance", "0"), true);
    assert_eq!((off.counter("nr_marks"), off.counter("nr_balanced")), (0, 0));
}

/// Behaviour libenzi.9.
#[test]
fn a_woken_task_stays_on_its_busy_cpu() {
    let sleeper = program(&[Op::Run(us(1)), Op::Sleep(ms(5)), Op::Run(ms(1)), Op::Sleep(ms(1000))]);
    let late = program(&[Op::Sleep(ms(1)), Op::Run(ms(300))]);
    let idle = program(&[Op::Run(us(1)), Op::Sleep(ms(1000))]);
    let seen = libenzi().cpus(2).run(Load::new(ms(400)).task(0, sleeper).task(0, idle).task(0, late));
    let (_, wait) = *seen.latencies(0).last().expect("it wakes up");
    let cpus: Vec<u32> = seen.stints().iter().filter(|s| s.task.0 == 0).map(|s| s.cpu.0).collect();
    assert!(cpus.windows(2).all(|two| two[0] == two[1]), "{cpus:?}");
    assert!(wait > ms(40), "waited for {wait}");
}

/// Behaviour libenzi.10.
#[test]
fn a_pick_looks_at_its_own_list() {
    let seen = libenzi().cpus(4).watch_picks(&["nr_goodness", "nr_recalcs"]).run(hogs(ms(3000), &[0; 8]));
    let picks = &seen.probe().picks;
    let settled = picks.windows(2).filter(|two| two[0].time.0 > ms(200).0 && two[1].time.0 < ms(2990).0);
    let looks: Vec<(i64, i64)> = settled
        .map(|two| (two[1].values[0] - two[0].values[0], two[1].values[1] - two[0].values[1]))
        .collect();
    assert!(looks.len() > 100, "{} picks", looks.len());
    assert!(looks.iter().all(|(looked, ended)| *looked == 2 * (1 + ended)), "{looks:?}");
}
