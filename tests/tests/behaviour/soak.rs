//! Up to a minute of everything at once, with the simulator's checkers on: nobody is lost, nobody starves.
//! `SCHEDLAB_SOAK_SECONDS` changes the length.

use schedlab_base::{CpuId, CpuMask, DurationNs};
use schedlab_workload::{Attribute, Op};

use crate::lab::{Lab, Load, forever, hog, hog_after, ms, us};

/// 60 hogs of mixed nice values, two pairs that pass a byte to and fro, tasks that sleep, and tasks that fork all
/// the time.
fn storm(length: DurationNs) -> Load {
    let mut load = Load::new(length);
    for number in 0..60 {
        load.add([0, 5, 10, 19, -5, 0][number % 6], hog());
    }
    for _ in 0..2 {
        let (there, back) = (load.pipe(), load.pipe());
        let send = |channel| Op::Send { channel, bytes: 1 };
        let recv = |channel| Op::Recv { channel, bytes: 1 };
        load.add(0, forever(&[send(there), recv(back), Op::Run(us(200))]));
        load.add(0, forever(&[recv(there), Op::Run(us(200)), send(back)]));
    }
    for sleep in [1, 7, 30, 100, 900] {
        load.add(0, forever(&[Op::Run(ms(1)), Op::Sleep(ms(sleep))]));
    }
    let child = load.program(crate::lab::program(&[Op::Exec, Op::Run(ms(2))]));
    for _ in 0..2 {
        load.add(0, forever(&[Op::Fork { program: child }, Op::WaitChild, Op::Yield]));
    }
    load
}

/// Nobody waits for a CPU as long as the kernel's watchdog would bear (30 s), and everybody runs.
fn check(scheduler: &'static str, profile: &str, seconds: u64) {
    let lab = Lab::new(scheduler);
    let lab = if profile.is_empty() { lab } else { lab.set("profile", profile) };
    soak(scheduler, profile, lab, seconds);
}

fn soak(scheduler: &str, profile: &str, lab: Lab, seconds: u64) {
    let seconds =
        std::env::var("SCHEDLAB_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seconds);
    let lab = lab.cpus(2).hz(250).without_events();
    let seen = lab.run(storm(DurationNs::from_secs(seconds)));
    let longest = seen.result.summary.run_delay.quantile(1000).expect("somebody waited");
    assert!(longest < DurationNs::from_secs(25), "{scheduler} {profile}: somebody waited for {longest}");
    for task in &seen.result.tasks {
        assert!(task.cpu_time > DurationNs::ZERO, "{scheduler} {profile}: {task:?}");
    }
}

#[test]
fn vanilla_2_4() {
    check("vanilla", "2_4", 20);
}

#[test]
fn vanilla_tsss() {
    check("vanilla", "tsss", 20);
}

#[test]
fn hamq() {
    check("hamq", "", 20);
}

#[test]
fn libenzi() {
    check("libenzi", "", 20);
}

#[test]
fn o1_d1() {
    check("o1", "d1", 60);
}

#[test]
fn o1_rh8() {
    check("o1", "rh8", 60);
}

#[test]
fn o1_2_6_10() {
    check("o1", "2_6_10", 60);
}

#[test]
fn ule_5_2() {
    check("ule", "5_2", 60);
}

#[test]
fn ule_6_x() {
    check("ule", "6_x", 60);
}

#[test]
fn bsd4_5_x() {
    check("bsd4", "5_x", 60);
}

#[test]
fn bsd4_6_x() {
    check("bsd4", "6_x", 60);
}

#[test]
fn staircase() {
    check("staircase", "", 60);
}

#[test]
fn staircase_compute() {
    soak("staircase", "compute", Lab::new("staircase").set("compute", "true"), 60);
}

/// A hog that is moved five times a second has its turns, while tasks that sleep most of the time keep both CPUs
/// busy. The other hogs have theirs at different times, so that one of them always has waited for longer than the
/// one that arrives.
fn moved_hog_runs(scheduler: &'static str) {
    let mut load = Load::new(ms(30_000)).task(0, hog());
    for other in 1..5 {
        load = load.task(0, hog_after(ms(1100 * u64::from(other)))).on(other % 2);
    }
    for _ in 0..16 {
        load.add(0, forever(&[Op::Run(ms(1)), Op::Sleep(ms(4))]));
    }
    let lab = (1..150).fold(Lab::new(scheduler).cpus(2), |lab, step| {
        lab.change(ms(200 * step), 0, Attribute::Affinity(CpuMask::single(CpuId(step as u32 % 2))))
    });
    let seen = lab.run(load);
    let begins: Vec<u64> = seen.stints().iter().filter(|s| s.task.0 == 0).map(|s| s.begin.0).collect();
    let longest = begins.windows(2).map(|two| two[1] - two[0]).max().expect("the hog runs");
    assert!(begins.len() > 3 && longest < ms(12_000).0, "{} turns, {longest} ns apart", begins.len());
}

#[test]
fn moved_hog_runs_under_bsd4() {
    moved_hog_runs("bsd4");
}

#[test]
fn moved_hog_runs_under_o1() {
    moved_hog_runs("o1");
}

#[test]
fn moved_hog_runs_under_staircase() {
    moved_hog_runs("staircase");
}

#[test]
fn moved_hog_runs_under_ule() {
    moved_hog_runs("ule");
}
