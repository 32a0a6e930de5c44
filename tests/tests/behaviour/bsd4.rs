//! `bsd4`: FreeBSD's 4BSD scheduler, as in 6.x (the default profile) and 5.x.

use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Policy};
use schedlab_workload::{Amount, Attribute, Op};

use crate::behaviour::lab::{
    Lab, Load, Seen, all_near, disk, forever, hog, hog_after, hogs, ms, near, program, us,
};
use crate::behaviour::probe::When;

fn bsd4() -> Lab {
    Lab::new("bsd4")
}

/// With the load average fixed.
fn at_load(load: u32) -> Lab {
    bsd4().set("fixed_load", &load.to_string())
}

/// The source's rule alone: neither the window of nice values nor help for starving tasks.
fn pure(lab: Lab) -> Lab {
    lab.set("nice_starve_window", "0").set("starvation_max_ns", "1000000000000")
}

/// Where `estcpu`, the member watched first, fell while the task computed: before and after.
fn decays(seen: &Seen, task: u32) -> Vec<(i64, i64)> {
    let course = seen.probe().course(task, 0);
    course.windows(2).filter(|pair| pair[1] < pair[0]).map(|pair| (pair[0], pair[1])).collect()
}

/// Behaviour bsd4.1.
#[test]
fn estcpu_of_a_lone_hog() {
    let seen = at_load(1).watch(&[".estcpu", ".prio"]).run(hogs(ms(6500), &[0]));
    let expected = [(128, 85), (213, 142), (270, 180), (295, 196), (295, 196), (295, 196)];
    assert_eq!(decays(&seen, 0), expected);
    let priorities = seen.probe().course(0, 1);
    let tail = &priorities[priorities.len() - 40..];
    assert_eq!((tail.iter().max(), tail.iter().min()), (Some(&216), Some(&204)));
}

/// Number of hogs, `estcpu` before and after a decay, and how far off it may be: quanta of three and more do not go
/// into a second evenly.
const STEADY: [(u32, f64, f64, f64); 5] = [
    (1, 295.0, 196.0, 0.0),
    (2, 295.0, 236.0, 0.0),
    (3, 288.0, 246.0, 6.0),
    (4, 280.0, 248.0, 6.0),
    (8, 256.0, 240.0, 6.0),
];

/// Behaviour bsd4.2.
#[test]
fn steady_estcpu_of_hogs() {
    for (tasks, peak, low, by) in STEADY {
        let lab = at_load(tasks).watch(&[".estcpu"]).hz(if tasks < 3 { 1000 } else { 250 });
        let decays =
            decays(&lab.run(hogs(ms(10_500 + 10_000 * u64::from(tasks)), &vec![0; tasks as usize])), 0);
        let last = &decays[decays.len() - 12..];
        let mean = |pick: fn(&(i64, i64)) -> i64| last.iter().map(pick).sum::<i64>() as f64 / 12.0;
        near(mean(|d| d.0), peak, by);
        near(mean(|d| d.1), low, by);
    }
    let seen = at_load(2).watch(&[".estcpu"]).run(hogs(ms(6500), &[0, 0]));
    let lows: Vec<i64> = decays(&seen, 0).iter().map(|(_, low)| *low).collect();
    for (low, expected) in lows.iter().zip([51, 92, 124, 150, 171, 188]) {
        assert!((low - expected).abs() <= 1, "{lows:?}");
    }
}

/// A task whose `estcpu` is at its limit at 3.99 s, whatever the load, then sleeps through some walks of schedcpu:
/// `estcpu` as it wakes up.
fn after_walks(load: u32, walks: u64) -> i64 {
    let sleep = Op::Sleep(ms(1000 * walks - 490));
    let ops = program(&[Op::RunFor(ms(3990)), sleep, Op::Run(ms(1))]);
    let seen = at_load(load).watch(&[".estcpu"]).run(Load::new(ms(4000 + 1000 * walks)).task(0, ops));
    seen.probe().of(0, When::Enqueue).last().expect("it woke up").1
}

/// Behaviour bsd4.3.
#[test]
fn estcpu_decays_by_load() {
    for (load, expected) in [
        (1, [196, 130, 86, 57, 38, 25]),
        (2, [236, 188, 150, 120, 96, 76]),
        (4, [262, 232, 206, 183, 162, 144]),
        (10, [280, 266, 253, 240, 228, 217]),
    ] {
        let left = [1, 3, 4, 5, 6, 7].map(|walks| after_walks(load, walks));
        assert_eq!(left, expected, "load {load}");
    }
    assert_eq!((after_walks(1, 3), after_walks(1, 4), after_walks(1, 10)), (130, 86, 6));
    for (load, seconds) in [(1, 6), (2, 11), (4, 19), (10, 43)] {
        assert!(after_walks(load, seconds) > 29 && after_walks(load, seconds + 1) <= 29, "load {load}");
    }
}

/// Behaviour bsd4.4.
#[test]
fn estcpu_decays_while_waiting() {
    let lab = pure(at_load(1)).set("realtime_names", "task/1").watch(&[".estcpu"]);
    let seen = lab.run(Load::new(ms(9500)).task(0, hog()).task(0, hog_after(ms(3990))));
    let tail: Vec<i64> = decays(&seen, 0).iter().skip(3).map(|(_, low)| *low).collect();
    assert_eq!(tail, [196, 130, 86, 57, 38, 25]);
}

/// Behaviour bsd4.5.
#[test]
fn estcpu_saturates_after_2305_ms() {
    let seen = at_load(10_000).watch(&[".estcpu"]).run(hogs(ms(3000), &[0]));
    let full = seen.probe().samples.iter().find(|s| s.values[0] == 295).expect("it saturates");
    near(full.time.0 as f64 / 1e6, 2305.0, 20.0);
}

/// Behaviour bsd4.6.
#[test]
fn hogs_alternate_on_a_grid_of_100_ms() {
    for profile in ["5_x", "6_x"] {
        let seen = at_load(2).set("profile", profile).run(hogs(ms(6000), &[0, 0]));
        for task in 0..2 {
            all_near(&seen.lengths(task)[1..], 25, 100.0, 0.2);
        }
    }
    // The third joins within a quantum.
    let load = hogs(ms(3000), &[0, 0]).task(5, hog_after(ms(130)));
    let stints = pure(at_load(3)).set("wake_boost", "0").run(load).stints();
    assert!(
        stints.iter().skip(3).all(|stint| (stint.begin.0 + 1_000_000) % 100_000_000 < 2_000_000),
        "{stints:?}"
    );
}

/// Behaviour bsd4.7.
#[test]
fn shares_by_nice() {
    for (nice, expected, by) in [
        ([0, 0], 0.5, 0.02),
        ([0, 5], 0.577, 0.02),
        ([0, 10], 0.617, 0.02),
        ([0, 19], 0.723, 0.02),
        ([-5, 0], 0.577, 0.02),
        ([-20, 0], 0.735, 0.02),
        ([-10, 10], 0.735, 0.05),
        ([-20, 19], 0.976, 0.02),
    ] {
        let lab = pure(at_load(2)).hz(250).without_events();
        let seen = lab.run(hogs(ms(100_000), &nice));
        let (first, second) = (seen.share(0), seen.share(1));
        assert!((first - expected).abs() < by && first + second > 0.99, "{nice:?}: {first} and {second}");
    }
}

/// Behaviour bsd4.8.
#[test]
fn priorities_by_nice_and_estcpu() {
    let table = [(-20, 160, 196), (-10, 170, 206), (0, 180, 216), (10, 190, 223), (19, 199, 223)];
    for (nice, fresh, saturated) in table {
        let seen = at_load(1).watch(&[".prio"]).run(hogs(ms(4500), &[nice]));
        let priorities = seen.probe().course(0, 0);
        assert_eq!(priorities[0], fresh, "nice {nice}");
        assert_eq!(priorities.iter().max(), Some(&saturated), "nice {nice}");
    }
    // 80 points are worth 10 priorities.
    let seen = at_load(1).watch(&[".estcpu", ".prio"]).run(hogs(ms(700), &[0]));
    let found = seen.probe().samples.iter().find(|s| s.values[0] == 80).expect("it computes");
    assert_eq!(found.values[1], 190);
}

/// Behaviour bsd4.9.
#[test]
fn fork_copies_and_exit_adds() {
    for (parent_ms, child_ms) in [(235, 235), (1173, 392)] {
        let mut load = Load::new(ms(3000));
        let child = load.program(program(&[Op::Run(ms(child_ms))]));
        load.add(
            0,
            program(&[Op::Run(ms(parent_ms)), Op::Fork { program: child }, Op::WaitChild, Op::Run(ms(1))]),
        );
        let seen = at_load(10_000).watch(&[".estcpu"]).run(load);
        let samples = &seen.probe().samples;
        let born: Vec<i64> = samples
            .iter()
            .filter(|s| s.when == When::Init && s.caller.is_some_and(|c| c.0 == 1))
            .map(|s| s.values[0])
            .collect();
        assert_eq!(born.len(), 2);
        assert_eq!(born[0], born[1], "parent and child");
        let at =
            samples.iter().position(|s| s.when == When::ExitTask && s.task.0 == 0).expect("the child exits");
        let before =
            |task| samples[..at].iter().rev().find(|s| s.task.0 == task).expect("it lives").values[0];
        assert_eq!(samples[at].values[0], (before(0) + before(1)).min(295));
        near(before(1) as f64, (parent_ms + child_ms) as f64 / 7.8125, 3.0);
    }
}

/// A real-time task on one CPU wakes, 30 ms after a quantum began, one that is better than what the other CPU runs.
fn woken_by_a_better_one(lab: Lab, bound: bool) -> (Seen, DurationNs) {
    let mut load = Load::new(ms(1000));
    let pipe = load.pipe();
    let send = Op::Send { channel: pipe, bytes: 1 };
    load.add(0, program(&[Op::Run(ms(230)), send]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))));
    load.add(
        0,
        program(&[Op::Recv { channel: pipe, bytes: 1 }]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1)))),
    );
    if bound {
        load = load.on(1);
    }
    load = load.task(19, hog());
    let seen = lab.cpus(2).set("wake_boost", "0").set("realtime_names", "task/0").run(load);
    let latency = seen.latencies(1).last().expect("it woke up").1;
    (seen, latency)
}

/// Behaviour bsd4.10.
#[test]
fn a_wakeup_preempts_the_wakers_cpu_alone() {
    for profile in ["5_x", "6_x"] {
        let (_, latency) = woken_by_a_better_one(bsd4().set("profile", profile), false);
        near(latency.0 as f64 / 1e6, 70.0, 2.0);
    }
    // The exception in 6.x: the task may run nowhere else, so that CPU is notified.
    let (seen, latency) = woken_by_a_better_one(bsd4(), true);
    assert!(latency < us(100), "{latency}");
    assert!(seen.counter("nr_bound_picks") > 0);
}

/// Behaviour bsd4.11.
#[test]
fn much_nicer_tasks_do_not_run() {
    let strict = || at_load(2).set("starvation_max_ns", "1000000000000");
    near(strict().run(hogs(ms(20_000), &[-2, 19])).share(1), 0.0, 0.0);
    assert!(strict().run(hogs(ms(20_000), &[-1, 19])).share(1) > 0.1);
    assert!(pure(at_load(2)).run(hogs(ms(20_000), &[-2, 19])).share(1) > 0.1);
    // Where no other task wants to run they do.
    let seen = strict().cpus(2).run(hogs(ms(3000), &[-2, 19]));
    assert!(seen.share(1) > 0.99 && seen.counter("nr_barred_picks") > 0);
    // Another nice value changes that at once.
    let seen = strict().change(ms(5000), 1, Attribute::Nice(nice(19))).run(hogs(ms(15_000), &[-2, 18]));
    let last = seen.stints().iter().filter(|s| s.task.0 == 1).map(|s| s.begin.0).max();
    assert!(last.expect("it ran before") < ms(5200).0);
}

fn nice(value: i64) -> Nice {
    Nice::new(value).expect("a nice value")
}

/// Behaviour bsd4.12.
#[test]
fn nobody_starves_for_good() {
    let load = hogs(ms(35_000), &[-20, 19, 19]).policy(Policy::Idle);
    let seen = bsd4().run(load);
    // Each of the two every 5 s.
    assert_eq!(seen.counter("nr_rescued"), 12);
    for task in 1..3 {
        let lengths = seen.lengths(task);
        all_near(&lengths[lengths.len() - 3..], 3, 7.8, 0.9);
    }
}

/// Behaviour bsd4.13.
#[test]
fn woken_tasks_are_boosted() {
    let wait = |lab: Lab, nice: i32, policy: Policy| {
        let sleeper = program(&[Op::Run(us(1)), Op::Sleep(ms(1030)), Op::Run(ms(1))]);
        let seen = lab.run(Load::new(ms(3000)).task(nice, sleeper).policy(policy).task(-1, hog_after(ms(5))));
        let late = seen.latencies(0).into_iter().find(|(woken, _)| woken.0 > ms(1000).0);
        late.map_or(ms(3000), |(_, latency)| latency)
    };
    let plain = || bsd4().set("wake_boost", "0");
    assert!(wait(bsd4(), 19, Policy::Other) < us(100));
    assert!(wait(plain(), 19, Policy::Other) > ms(60), "priority 199 against less");
    assert!(wait(plain(), -20, Policy::Other) < us(100), "priority 160 against more");
    assert!(wait(bsd4(), 19, Policy::Batch) > ms(60), "no boost");
    assert!(wait(bsd4(), -1, Policy::Idle) > ms(1000), "another class");
    let seen = bsd4().watch(&[".prio"]).run(Load::new(ms(300)).task(0, hog_after(ms(100))));
    let at = seen.probe().samples.iter().rposition(|s| s.when == When::Enqueue).expect("it woke up");
    assert_eq!(seen.probe().samples[at].values, [88]);
    assert_eq!(seen.probe().samples[at + 1].values, [180]);
}

/// Behaviour bsd4.14.
#[test]
fn the_real_time_class() {
    let lab = || bsd4().set("realtime_names", "task/");
    let seen = lab().watch(&[".prio"]).run(hogs(ms(3000), &[0, 0]));
    all_near(&seen.lengths(0)[1..], 10, 100.0, 0.2);
    assert_eq!(seen.probe().course(0, 0), [180, 143], "its name is read when it is first queued");
    let seen = lab().set("realtime_fifo", "1").run(hogs(ms(3000), &[0, 0]));
    near((seen.share(0) - seen.share(1)).abs(), 1.0, 0.001);
    let better = forever(&[Op::Run(ms(130)), Op::Sleep(ms(70))]);
    for fifo in ["0", "1"] {
        let seen = lab().set("realtime_fifo", fifo).run(hogs(ms(3000), &[0]).task(-20, better.clone()));
        near(seen.share(1), 0.65, 0.01);
        all_near(&seen.lengths(0)[1..], 10, 70.0, 0.5);
    }
    let seen = bsd4().set("realtime_names", "task/1").run(hogs(ms(3000), &[-20, 19]));
    assert!(seen.share(1) > 0.999, "and before all others");
}

/// Behaviour bsd4.15.
#[test]
fn the_idle_class() {
    let half = || forever(&[Op::Run(ms(10)), Op::Sleep(ms(10))]);
    for (lab, policy) in [(bsd4().set("idle_names", "task/1"), Policy::Other), (bsd4(), Policy::Idle)] {
        let lab = lab.watch(&[".prio"]);
        let seen = lab.run(Load::new(ms(4000)).task(19, half()).task(0, hog()).policy(policy));
        near(seen.share(0), 0.5, 0.01);
        near(seen.share(1), 0.5, 0.01);
        assert_eq!(seen.probe().course(1, 0).last(), Some(&239));
        let seen = lab.run(hogs(ms(4000), &[19, 0]).policy(policy));
        near(seen.share(1), 0.0, 0.0);
    }
    let seen = bsd4().change(ms(1000), 1, Attribute::Policy(Policy::Idle)).run(hogs(ms(5000), &[0, 0]));
    near(seen.share(1), 0.1, 0.03);
}

/// Behaviour bsd4.16.
#[test]
fn the_interrupt_class() {
    let interrupts = forever(&[Op::Run(us(100)), Op::Sleep(ms(7))]);
    for (profile, goes_on) in [("5_x", false), ("6_x", true)] {
        let lab = bsd4().set("profile", profile).set("interrupt_names", "task/2");
        let seen = lab.run(hogs(ms(2000), &[0, 0]).task(0, interrupts.clone()));
        assert!(seen.latencies(2).iter().all(|(_, latency)| *latency < us(100)));
        let order: Vec<u32> = seen.stints().iter().map(|stint| stint.task.0).collect();
        let around: Vec<bool> = order.windows(3).filter(|w| w[1] == 2).map(|w| w[0] == w[2]).collect();
        let kept = around.iter().filter(|kept| **kept).count();
        assert!(around.len() > 200);
        assert!(
            if goes_on { kept > around.len() * 9 / 10 } else { kept < around.len() / 10 },
            "{profile}: {kept}"
        );
    }
}

/// Behaviour bsd4.17.
#[test]
fn a_yield_goes_to_list_55() {
    let yields = forever(&[Op::Run(us(10)), Op::Yield]);
    let seen = bsd4().watch(&[".prio"]).run(Load::new(ms(5500)).task(0, yields).task(0, hog()));
    let course = seen.probe().course(0, 0);
    assert!(course.contains(&223), "{course:?}");
    let mine = seen.stints().iter().filter(|s| s.task.0 == 0).count();
    assert!((3..20).contains(&mine), "{mine} times");
}

/// Behaviour bsd4.18.
#[test]
fn the_load_average_rises_slowly() {
    let seen = bsd4().without_events().run(hogs(ms(60_500), &[0, 0]));
    let samples = seen.counter("nr_load_samples");
    assert!((10..=15).contains(&samples), "{samples}");
    let expected = (0..samples).fold(0, |average, _| (1884 * average + 2 * 2048 * 164) >> 11);
    let rq = seen.counter("rqs");
    let average = seen.probe().inner.arena_member("rq", rq, ".ldavg").expect("the queue is in the arena");
    assert_eq!(average, expected);
}

/// Behaviour bsd4.19.
#[test]
fn schedcpu_walks_over_all_tasks() {
    let mut load = hogs(ms(10_500), &[0]);
    for _ in 0..20 {
        load.add(0, program(&[Op::Run(us(1)), Op::Sleep(ms(60_000))]));
    }
    let seen = bsd4().run(load);
    assert_eq!(seen.counter("nr_schedcpus"), 10);
    assert_eq!(seen.counter("nr_walked"), 210);
    assert_eq!(seen.counter("nr_frozen"), 20 * 8);
}

/// Behaviour bsd4.20.
#[test]
fn profiles_on_several_cpus() {
    for (profile, limit) in [("5_x", 295), ("6_x", 591)] {
        let lab = at_load(2).set("profile", profile).cpus(2).watch(&[".estcpu", ".prio"]);
        let seen = lab.run(hogs(ms(12_500), &[0, 0]));
        assert_eq!(seen.probe().course(0, 0).iter().max(), Some(&limit));
        assert_eq!(seen.probe().course(0, 1).iter().max(), Some(&216));
    }
    let kicks_per_wakeup = |lab: Lab| {
        let mut load = Load::new(ms(200));
        let pipe = load.pipe();
        load.add(0, forever(&[Op::Run(ms(1)), Op::Send { channel: pipe, bytes: 1 }]));
        load.add(0, forever(&[Op::Recv { channel: pipe, bytes: 1 }]));
        let seen = lab.cpus(8).run(load);
        assert!(seen.counter("nr_idle_elsewhere") > 150);
        seen.counter("nr_idle_kicks") as f64 / seen.counter("nr_idle_elsewhere") as f64
    };
    near(kicks_per_wakeup(bsd4()), 7.0, 0.5);
    assert!(kicks_per_wakeup(bsd4().set("wake_one_cpu", "1")) < 1.5);
    assert!(kicks_per_wakeup(bsd4().set("profile", "5_x").set("idle_halts", "0")) < 1.5);
}

/// Behaviour bsd4.21.
#[test]
fn halted_cpus_look_when_a_clock_ticks() {
    let mut load = Load::new(ms(1000));
    let pipe = load.pipe();
    load.add(0, forever(&[Op::Run(ms(1)), Op::Send { channel: pipe, bytes: 1 }]));
    load.add(0, forever(&[Op::Recv { channel: pipe, bytes: 1 }]));
    let seen = bsd4().set("profile", "5_x").cpus(2).run(load);
    assert_eq!(seen.counter("nr_idle_elsewhere"), 0);
    let looks = seen.counter("nr_clock_looks");
    assert!((200..=228).contains(&looks) && seen.counter("nr_idle_kicks") == looks, "{looks}");
    // A child is ready on its parent's CPU; the other one comes for it at its next tick, and not before.
    let share = |halts| {
        let mut load = Load::new(ms(1000));
        let child = load.program(hog());
        load.add(0, program(&[Op::Run(ms(21)), Op::Fork { program: child }]).append(hog()));
        bsd4().set("profile", "5_x").set("idle_halts", halts).cpus(2).run(load).share(1)
    };
    let lost = share("0") - share("1");
    assert!((0.001..0.0079).contains(&lost), "{lost}");
}

/// Behaviour bsd4.22.
#[test]
fn runq_fuzz_spares_migrations() {
    let run = |fuzz| bsd4().cpus(2).set("runq_fuzz", fuzz).run(hogs(ms(5000), &[0; 5]));
    let (first, warm) = (run("1"), run("5"));
    assert_eq!(first.counter("nr_fuzzy_picks"), 0);
    assert!(warm.counter("nr_fuzzy_picks") > 20);
    assert!(warm.migrations_after(ms(0)) * 2 < first.migrations_after(ms(0)));
}

/// Behaviour bsd4.23.
#[test]
fn tasks_are_bound_and_freed_at_run_time() {
    for profile in ["5_x", "6_x"] {
        let only = |cpu| Attribute::Affinity(CpuMask::single(CpuId(cpu)));
        let both = Attribute::Affinity(CpuMask::first(2));
        let lab = bsd4().set("profile", profile).cpus(2);
        let lab = lab.change(ms(1050), 0, only(0)).change(ms(2050), 0, only(1)).change(ms(3050), 0, both);
        let seen = lab.run(hogs(ms(5000), &[0, 0, 0]));
        let ran_on = |from: u64, to: u64| {
            let mine = |s: &&crate::behaviour::lab::Stint| {
                s.task.0 == 0 && s.begin.0 > ms(from).0 && s.begin.0 < ms(to).0
            };
            let mut cpus: Vec<u32> = seen.stints().iter().filter(mine).map(|s| s.cpu.0).collect();
            cpus.sort_unstable();
            cpus.dedup();
            cpus
        };
        assert_eq!(ran_on(1060, 2040), [0], "{profile}");
        assert_eq!(ran_on(2060, 3040), [1], "{profile}");
        assert!(!ran_on(3060, 5000).is_empty(), "{profile}");
        assert!(seen.share(0) > 0.4, "{profile}: {}", seen.share(0));
    }
}

/// Behaviour bsd4.24.
#[test]
fn nice_changes_at_run_time() {
    let lab = at_load(2).change(ms(20_000), 1, Attribute::Nice(nice(19))).hz(250);
    let seen = lab.run(hogs(ms(60_000), &[0, 0]));
    let after: f64 = seen
        .stints()
        .iter()
        .filter(|s| s.begin.0 > ms(20_000).0 && s.task.0 == 0)
        .map(|s| s.length.0 as f64)
        .sum();
    near(after / 40e9, 0.723, 0.03);
}

/// Behaviour bsd4.25.
#[test]
fn a_switch_costs_the_same_with_many_tasks() {
    let insns = |tasks| {
        let seen = bsd4().run_catalog(&format!("lat-sched:ntasks={tasks},ttime=100ms"));
        seen.result.costs.bpf_insns as f64 / seen.result.costs.switches as f64
    };
    let (few, many) = (insns(10), insns(1000));
    assert!(many <= 1.2 * few && few <= 1.2 * many, "{few} and {many} instructions per switch");
}

/// Behaviour bsd4.26.
#[test]
fn disk_waits_are_sleeps() {
    let seen = bsd4().run(hogs(ms(2000), &[0]).task(0, forever(&[disk(ms(5)), Op::Run(us(100))])));
    assert!(seen.counter("nr_boosts") > 300);
}
