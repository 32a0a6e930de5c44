//! The older generations: `vanilla` as in 2.5.2-pre9 (tsss), `o1` as in 2.5.2-pre10 (d1) and in Red Hat 8.0 (rh8).

use schedlab_workload::Op;

use crate::behaviour::lab::{Lab, Load, all_near, forever, hog, hogs, ms, near, program, us};
use crate::behaviour::probe::When;

fn profile(scheduler: &'static str, profile: &str) -> Lab {
    Lab::new(scheduler).set("profile", profile)
}

/// A member of tasks with these nice values as they begin.
fn at_begin(lab: Lab, member: &'static str, nice: &[i32]) -> Vec<i64> {
    let seen = lab.watch(&[member]).run(hogs(ms(1), nice));
    (0..nice.len()).map(|task| seen.probe().of(task as u32, When::Init)[0].1).collect()
}

/// Behaviour vanilla.14.
#[test]
fn tsss_slices() {
    assert_eq!(at_begin(profile("vanilla", "tsss"), ".counter", &[-20, -10, 0, 10, 19]), [6, 5, 3, 2, 1]);
    let wide = profile("vanilla", "tsss").set("max_slice_us", "90000");
    assert_eq!(at_begin(wide, ".counter", &[-20, -10, 0, 10, 19]), [8, 6, 4, 2, 1]);
    for (nice, ticks) in [([0, 0], [3, 3]), ([0, 19], [3, 1]), ([-20, 0], [6, 3])] {
        let seen = profile("vanilla", "tsss").run(hogs(ms(10_000), &nice));
        near(seen.share(0), f64::from(ticks[0]) / f64::from(ticks[0] + ticks[1]), 0.02);
    }
    let threads = profile("vanilla", "tsss").run(hogs(ms(3000), &[0, 0]).thread());
    all_near(&threads.lengths(0)[1..], 40, 30.0, 0.2);
}

/// Behaviour vanilla.15.
#[test]
fn tsss_sleepers_earn_a_point_per_epoch() {
    // Alone, a hog of nice 0 ends an epoch every 30 ms.
    for (sleep, points) in [(375, 12), (2000, 40)] {
        let sleeper = program(&[Op::Run(us(1)), Op::Sleep(ms(sleep)), Op::Run(ms(1))]);
        let lab = profile("vanilla", "tsss").watch(&[".dyn_prio"]);
        let seen = lab.run(Load::new(ms(2500)).task(0, hog()).task(0, sleeper));
        assert_eq!(seen.probe().of(1, When::Enqueue).last().expect("it woke up").1, points);
        assert!(seen.latencies(1).last().expect("it ran").1 < us(100));
    }
}

/// Behaviour o1.20.
#[test]
fn d1_hogs() {
    let seen = profile("o1", "d1").watch(&[".prio"]).run(hogs(ms(10_000), &[0, 0]));
    assert_eq!(seen.probe().course(0, 0).last(), Some(&133));
    let lengths = seen.lengths(0);
    all_near(&lengths[lengths.len() / 2..], 40, 40.0, 0.2);
}

/// Behaviour o1.21.
#[test]
fn d1_priorities_by_sleep() {
    for (run, sleep, prio) in [(1, 999, 120), (100, 300, 123), (200, 200, 126), (300, 100, 129)] {
        let ops = forever(&[Op::Run(ms(run)), Op::Sleep(ms(sleep))]);
        let seen = profile("o1", "d1").watch(&[".prio"]).run(Load::new(ms(20_000)).task(0, ops));
        let late: Vec<f64> = seen
            .probe()
            .of(0, When::Enqueue)
            .into_iter()
            .filter(|(time, _)| time.0 > ms(6000).0)
            .map(|(_, prio)| prio as f64)
            .collect();
        all_near(&late, 10, f64::from(prio), 1.0);
    }
}

/// Behaviour o1.22.
#[test]
fn rh8_slices() {
    assert_eq!(at_begin(profile("o1", "rh8"), ".time_slice", &[-20, -10, 0, 10, 19]), [30, 22, 15, 7, 1]);
    let seen = profile("o1", "rh8").run(hogs(ms(6000), &[0, 0]));
    all_near(&seen.lengths(0)[1..], 15, 150.0, 0.2);
    for (nice, ticks) in [([0, 10], [15, 7]), ([0, 19], [15, 1]), ([-20, 0], [30, 15])] {
        let seen = profile("o1", "rh8").run(hogs(ms(20_000), &nice));
        near(seen.share(0), f64::from(ticks[0]) / f64::from(ticks[0] + ticks[1]), 0.02);
    }
}

/// Behaviour o1.23.
#[test]
fn rh8_average() {
    for (sleep, prio) in [(100, 125), (500, 123), (1010, 120), (2010, 115), (4000, 115)] {
        let ops = program(&[Op::Run(us(1)), Op::Sleep(ms(sleep)), Op::Run(ms(3000))]);
        let seen = profile("o1", "rh8").watch(&[".prio", ".sleep_avg"]).run(Load::new(ms(7500)).task(0, ops));
        assert_eq!(seen.probe().of(0, When::Enqueue).last().expect("it woke up").1, prio, "{sleep} ms");
        let (woken, _) = *seen.latencies(0).last().expect("it ran");
        let left = |after| seen.probe().at(0, ms(after + woken.0 / 1_000_000)).values[1] as f64 / 1e6;
        near(left(50), sleep.min(2000) as f64 - 50.0, 11.0);
        near(left(2100), 0.0, 0.0);
    }
}

/// Behaviour o1.24.
#[test]
fn older_yields_alternate() {
    for name in ["rh8", "d1"] {
        let yields = || forever(&[Op::Run(us(100)), Op::Yield]);
        let seen = profile("o1", name).run(Load::new(ms(200)).task(0, yields()).task(0, yields()));
        let stints = seen.stints();
        assert!(stints.len() > 1500, "{name}: {} stints", stints.len());
        assert!(stints.windows(2).all(|pair| pair[0].task != pair[1].task), "{name}");
    }
}

/// Behaviour o1.25.
#[test]
fn a_synchronous_wakeup_migrates_in_rh8_only() {
    let run = |name| {
        let mut load = Load::new(ms(500));
        let pipe = load.pipe();
        load.add(0, forever(&[Op::Recv { channel: pipe, bytes: 1 }, Op::Run(us(100))]));
        let load = load.task(0, forever(&[Op::Sleep(ms(5)), Op::Send { channel: pipe, bytes: 1 }])).on(1);
        let seen = profile("o1", name).cpus(2).run(load);
        let late = seen.stints().into_iter().filter(|s| s.task.0 == 0 && s.begin.0 > ms(20).0);
        let cpus: Vec<u32> = late.map(|s| s.cpu.0).collect();
        assert!(cpus.len() > 80 && cpus.iter().all(|cpu| *cpu == cpus[0]), "{name}: {cpus:?}");
        (cpus[0], seen.counter("nr_wake_affine") > 0)
    };
    assert_eq!(run("rh8"), (1, true));
    assert_eq!(run("d1"), (0, false));
}
