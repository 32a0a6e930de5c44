//! `staircase`: version 10.5 for Linux 2.6.10.

use schedlab_base::{DurationNs, Nice};
use schedlab_workload::{Amount, Attribute, Op, ProgramBuilder};

use crate::behaviour::lab::{Lab, Load, Seen, disk, forever, hog, hogs, ms, near, program, us};
use crate::behaviour::probe::When;

fn staircase() -> Lab {
    Lab::new("staircase")
}

/// Runs 1 ms and sleeps 9 ms so many times, which earns as many bursts, then computes without end.
fn hog_with_burst(burst: u32) -> ProgramBuilder {
    let rest = |b: ProgramBuilder| b.op(Op::Run(ms(1))).op(Op::Sleep(ms(9)));
    let builder = if burst == 0 {
        ProgramBuilder::new()
    } else {
        ProgramBuilder::new().repeat(Amount::Times(burst.into()), rest)
    };
    builder.repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))))
}

/// The priority of task 0 in the middle of each of so many steps of `step` after its last wakeup.
fn stairs(seen: &Seen, step: DurationNs, steps: u64) -> Vec<i64> {
    let begin = seen.latencies(0).last().map_or(0, |(woken, _)| woken.0);
    let middle = |n| DurationNs(begin + n * step.0 + step.0 / 2);
    (0..steps).map(|n| seen.probe().at(0, middle(n)).values[0]).collect()
}

/// The stairs of a task alone that begins with so many bursts.
fn walk(lab: Lab, nice: i32, burst: u32, steps: u64) -> Vec<i64> {
    let length = ms(u64::from(burst) * 10 + steps * 10 + 20);
    let seen = lab.watch(&[".prio"]).run(Load::new(length).task(nice, hog_with_burst(burst)));
    stairs(&seen, ms(10), steps)
}

/// Steps down from `top`, where `first` are made, to the end of the staircase.
fn descent(top: i64, first: usize, steps: usize) -> Vec<i64> {
    (0..steps).map(|step| top + (step + 1).saturating_sub(first) as i64).collect()
}

/// Behaviour staircase.1.
#[test]
fn stairs_of_nice_0() {
    let twice = [descent(120, 1, 20), descent(120, 1, 20)].concat();
    assert_eq!(walk(staircase(), 0, 0, 40), twice);
    assert_eq!(walk(staircase().hz(250), 0, 0, 40), twice);
}

/// Behaviour staircase.2.
#[test]
fn bursts_are_steps_at_the_top() {
    let five = descent(120, 6, 20);
    assert_eq!((five[5], five[6], five[19]), (120, 121, 134));
    assert_eq!(walk(staircase(), 0, 5, 20), five);
    assert_eq!(walk(staircase(), 0, 19, 20), [120; 20]);
    assert_eq!(walk(staircase(), 0, 30, 20), [120; 20], "19 is the most");
}

/// Behaviour staircase.3.
#[test]
fn stairs_by_nice() {
    assert_eq!(walk(staircase(), -20, 0, 80), [descent(100, 1, 40), descent(100, 1, 40)].concat());
    assert_eq!(walk(staircase(), 10, 0, 20), [descent(130, 1, 10), descent(130, 1, 10)].concat());
    assert_eq!(walk(staircase(), 19, 0, 20), [139; 20]);
    assert_eq!(walk(staircase(), 10, 3, 10), [130, 130, 130, 130, 131, 132, 133, 134, 135, 136]);
}

/// Behaviour staircase.4.
#[test]
fn switches() {
    let seen = staircase().set("compute", "true").watch(&[".prio"]).run(hogs(ms(4020), &[0]));
    assert_eq!(stairs(&seen, ms(100), 40), [descent(120, 1, 20), descent(120, 1, 20)].concat());
    assert_eq!(walk(staircase().set("interactive", "false"), 0, 5, 20), descent(120, 1, 20));
    assert_eq!(walk(staircase().set("rr_interval_ns", "20000000"), 0, 0, 4), [120, 120, 121, 121]);
}

/// Behaviour staircase.5.
#[test]
fn compute_changes_while_it_runs() {
    let lab = staircase().set_at("55ms:compute=true").set_at("1000ms:compute=false").watch(&[".prio"]);
    let seen = lab.run(hogs(ms(1250), &[0]));
    let prio = |at| seen.probe().at(0, ms(at)).values[0];
    assert_eq!([prio(5), prio(45), prio(54)], [120, 124, 125]);
    let slow: Vec<i64> = (2..10).map(|n| prio(n * 100)).collect();
    let begun = slow.iter().filter(|prio| **prio != slow[0]).count();
    assert!(begun >= 6 && slow.windows(2).all(|pair| (0..=1).contains(&(pair[1] - pair[0]))), "{slow:?}");
    let fast: Vec<i64> = (0..20).map(|n| prio(1006 + n * 10)).collect();
    assert_eq!(fast[0], prio(999), "a step ends where it is");
    assert_eq!(fast[1..], descent(120, 1, 20)[1..]);
    assert_eq!(staircase().set_at("1ms:interactive=0").run(hogs(ms(5), &[0])).counter("interactive"), 0);
}

/// Behaviour staircase.6.
#[test]
fn a_lift_costs_a_burst() {
    let stairs = walk(staircase(), 0, 2, 80);
    let expected = [descent(120, 3, 20), descent(120, 2, 20), descent(120, 1, 20), descent(120, 1, 20)];
    assert_eq!(stairs, expected.concat());
}

/// Behaviour staircase.7.
#[test]
fn a_sleeper_stays_at_the_top() {
    let sleeper = forever(&[Op::Run(ms(1)), Op::Sleep(ms(9))]);
    let load = Load::new(ms(600)).task(0, sleeper).task(0, hog());
    let seen = staircase().watch(&[".burst", ".prio"]).run(load);
    let bursts = seen.probe().of(0, When::Enqueue);
    assert_eq!(bursts.iter().skip(1).map(|(_, burst)| *burst).take(25).collect::<Vec<_>>(), {
        (1..=25).map(|wakeup: i64| wakeup.min(19)).collect::<Vec<_>>()
    });
    assert_eq!(seen.probe().course(0, 1), [120]);
    let below = |time: schedlab_base::TimeNs| seen.probe().at(1, DurationNs(time.0)).values[1] > 120;
    let waits = seen.latencies(0);
    let quick: Vec<_> = waits.iter().filter(|(woken, _)| below(*woken)).collect();
    assert!(quick.len() > 40);
    assert!(quick.iter().all(|(_, wait)| *wait < us(100)), "{quick:?}");
}

/// How long each task ran in turn, in steps of 10 ms.
fn turns(seen: &Seen) -> Vec<(u32, u64)> {
    let stints = seen.stints();
    stints.iter().map(|stint| (stint.task.0, (stint.length.0 + 5_000_000) / 10_000_000)).collect()
}

/// Behaviour staircase.8.
#[test]
fn two_hogs_interleave_and_then_lock_into_blocks() {
    let turns = turns(&staircase().run(hogs(ms(2500), &[0, 0])));
    let steps: Vec<_> = (0..38).map(|n| (n % 2, 1)).collect();
    assert_eq!(turns[..38], steps);
    let blocks: Vec<_> = (0..turns.len() as u32 - 38).map(|n| (n % 2, 20)).collect();
    assert!(blocks.len() >= 9);
    assert_eq!(turns[38..], blocks);
}

/// Behaviour staircase.9.
#[test]
fn a_nice_hog_has_its_turn() {
    let seen = staircase().run(hogs(ms(4000), &[0, 0, 19]));
    let begins = seen.stints().into_iter().filter(|s| s.task.0 == 2).map(|s| s.begin.0);
    let nice: Vec<u64> = begins.map(|ns| (ns + 500_000) / 1_000_000).collect();
    assert_eq!(nice, (0..9).map(|n| 380 + 410 * n).collect::<Vec<u64>>());
    assert!(turns(&seen).iter().filter(|turn| turn.0 == 2).all(|turn| turn.1 == 1));
}

/// Behaviour staircase.10.
#[test]
fn compute_delays_preemption() {
    let late = |sleep| program(&[Op::Run(us(1)), Op::Sleep(sleep), Op::Run(ms(1))]);
    let wait = |compute: &str| {
        // The first sleeper's switches begin the delay, the second one comes 3 ms into it.
        let load = Load::new(ms(600)).task(0, late(ms(500))).task(-5, late(ms(504))).task(0, hog());
        let seen = staircase().set("compute", compute).run(load);
        let (first, quick) = *seen.latencies(0).last().expect("it woke up");
        let (second, wait) = *seen.latencies(1).last().expect("it woke up");
        assert!(quick < us(100), "the last switch was long ago");
        (second.0 + wait.0 - first.0, wait, seen.counter("nr_delayed"))
    };
    let (_, at_once, delayed) = wait("false");
    assert!(at_once < us(100) && delayed == 0);
    let (after, _, delayed) = wait("true");
    assert!((11_000_000..12_100_000).contains(&after), "1 ms of work, then {after} ns");
    assert_eq!(delayed, 1);
}

/// Behaviour staircase.11.
#[test]
fn a_yield_waits_for_everybody() {
    let yields = program(&[Op::Run(us(10)), Op::Yield]).repeat(Amount::Forever, |b| b.op(Op::Run(ms(1))));
    let seen = staircase().watch(&[".prio"]).run(Load::new(ms(400)).task(0, yields).task(0, hog()));
    let again = seen.stints().into_iter().filter(|stint| stint.task.0 == 0).nth(1).expect("it runs again");
    near(again.begin.0 as f64 / 1e6, 190.0, 1.0);
    assert_eq!(seen.probe().at(0, DurationNs(again.begin.0 + 100)).values[0], 120);
    assert_eq!((seen.counter("nr_yields"), seen.counter("nr_yields_over")), (1, 1));
}

/// What `member` of task 0 is after its last wakeup, which ends `sleep`, after it ran for `ran`.
fn after_sleep(lab: Lab, ran: DurationNs, sleep: Op, members: &[&'static str]) -> Vec<i64> {
    let ops = program(&[Op::Run(ran), sleep, Op::Run(ms(1))]);
    let seen = lab.watch(members).run(Load::new(ms(2000)).task(0, ops));
    let woken = seen.latencies(0).last().expect("it woke up").0;
    seen.probe().at(0, DurationNs(woken.0)).values.clone()
}

/// Behaviour staircase.12.
#[test]
fn sleep_is_weighed_against_run_time() {
    let members = [".prio", ".burst", ".slice", ".time_slice"];
    let after = |ran, sleep| after_sleep(staircase(), ms(ran), sleep, &members);
    assert_eq!(after(30, Op::Sleep(ms(31))), [120, 1, 200, 10]);
    // 30 ms less 4: 26 of 200 are used.
    assert_eq!(after(30, Op::Sleep(us(4500)))[..2], [122, 0]);
    assert_eq!(after(30, Op::Sleep(us(4500)))[2..], [175, 5]);
    // More than a whole slice of run time is left over.
    assert_eq!(after(450, Op::Sleep(ms(5)))[..2], [124, 0], "the last lift settled the 400 ms before it");
    assert_eq!(after(30, disk(ms(40)))[..2], [120, 0], "waiting for a disk earns nothing");
}

/// Behaviour staircase.13.
#[test]
fn older_rules_of_sleep() {
    let members = [".prio", ".burst"];
    let after = |lab: Lab, ran, sleep| after_sleep(lab, ran, Op::Sleep(sleep), &members);
    let v7 = || staircase().set("burst_rule", "v7");
    assert_eq!(after(v7(), ms(30), ms(1)), [120, 1]);
    assert_eq!(after(v7(), ms(4), ms(5)), [120, 0]);
    assert_eq!(after(v7(), ms(4), us(6100)), [120, 1]);
    let server = || staircase().set("interactive", "0");
    assert_eq!(after(server(), ms(30), ms(1)), [120, 0]);
    assert_eq!(after_sleep(v7(), ms(30), disk(ms(10)), &members), [121, 1]);
}

/// Behaviour staircase.14.
#[test]
fn a_fork_shares_nothing() {
    let mut load = Load::new(ms(1000));
    let child = load.program(program(&[Op::Run(ms(30))]));
    let parent = program(&[Op::Run(ms(5)), Op::Fork { program: child }, Op::WaitChild, Op::Run(ms(50))]);
    let seen = staircase().watch(&[".slice", ".burst"]).run(load.task(0, parent));
    let samples = &seen.probe().samples;
    let fork = samples.iter().filter(|s| s.when == When::Init && s.caller.is_some_and(|c| c.0 == 1));
    let slices: Vec<i64> = fork.map(|s| s.values[0]).collect();
    assert_eq!(slices, [195, 200]);
    let order: Vec<u32> = seen.stints().iter().map(|stint| stint.task.0).collect();
    assert_eq!(order[..3], [0, 1, 0]);
    let woken = seen.latencies(0).last().expect("it waited").0;
    assert_eq!(seen.probe().at(0, DurationNs(woken.0)).values, [195, 0]);
    assert_eq!((seen.counter("nr_child_first"), seen.counter("nr_forkers")), (1, 1));
}

/// Behaviour staircase.15.
#[test]
fn equal_priority_preempts_as_an_option() {
    let wait = |option: &str| {
        // At 804 ms the hog is in the first step of its fifth slice.
        let sleeper = program(&[Op::Run(us(1)), Op::Sleep(ms(804)), Op::Run(ms(1))]);
        let lab = staircase().set("equal_prio_preempt", option);
        lab.run(Load::new(ms(900)).task(0, sleeper).task(0, hog())).latencies(0).last().expect("it woke up").1
    };
    assert!(wait("0") > ms(5));
    assert!(wait("1") < us(100));
}

/// Behaviour staircase.16.
#[test]
fn nice_changes_while_it_runs() {
    let to = |nice| Attribute::Nice(Nice::new(nice).expect("a nice value"));
    let after = |nice, steps| {
        let seen = staircase().watch(&[".prio"]).change(ms(45), 0, to(nice)).run(hogs(ms(600), &[0]));
        (0..steps).map(|n| seen.probe().at(0, ms(46 + n * 10)).values[0]).collect::<Vec<i64>>()
    };
    // 155 ms are left, which is half of the stairs of nice -10, and more than those of nice 10.
    assert_eq!(after(-10, 46), [descent(124, 1, 16), descent(110, 1, 30)].concat());
    // The present step ends in 5 ms.
    assert_eq!(after(10, 20), [vec![130], descent(130, 1, 9), descent(130, 1, 10)].concat());
    // A task that runs and gets worse than the next one makes way at once.
    let seen = staircase().change(ms(45), 0, to(10)).run(hogs(ms(100), &[0, 0]));
    let short = seen.stints().into_iter().find(|s| s.length < ms(9)).expect("a step is cut short");
    assert_eq!(short.task.0, 0);
    near((short.begin.0 + short.length.0) as f64 / 1e6, 45.0, 0.2);
}

/// Behaviour staircase.17.
#[test]
fn nobody_starves_for_ever() {
    let mut load = hogs(ms(5000), &[0, 0]);
    let (there, back) = (load.pipe(), load.pipe());
    let send = |channel| Op::Send { channel, bytes: 1 };
    let recv = |channel| Op::Recv { channel, bytes: 1 };
    load.add(0, forever(&[send(there), recv(back), Op::Run(us(200))]));
    load.add(0, forever(&[recv(there), Op::Run(us(200)), send(back)]));
    let seen = staircase().set("starvation_max_ns", "1000000000").run(load);
    assert!(seen.counter("nr_rescued") >= 6);
    for task in 0..2 {
        let begins: Vec<u64> =
            seen.stints().iter().filter(|s| s.task.0 == task).map(|s| s.begin.0 / 1_000_000).collect();
        let gaps = begins.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(gaps.is_some_and(|gap| gap < 1200), "{begins:?}");
    }
}

/// Behaviour staircase.18.
#[test]
fn a_switch_costs_the_same_with_many_tasks() {
    let insns = |tasks| {
        let seen = staircase().without_events().run_catalog(&format!("lat-sched:ntasks={tasks},ttime=100ms"));
        seen.result.costs.bpf_insns as f64 / seen.result.costs.switches as f64
    };
    let (few, many) = (insns(10), insns(5000));
    assert!(many <= 1.2 * few && few <= 1.2 * many, "{few} and {many} instructions per switch");
}
