//! `hamq`: Mike Kravetz's multi-queue scheduler of January 2002, as reconstructed.

use schedlab_base::CpuMask;
use schedlab_workload::{Attribute, Op};

use crate::behaviour::lab::{Lab, Load, Seen, hog, ms, near, program, us};

fn hamq() -> Lab {
    Lab::new("hamq")
}

/// Behaviour hamq.1.
#[test]
fn two_tasks_wake_each_other_across_cpus() {
    let run = |lab: Lab| lab.cpus(4).run_catalog("reflex:tasks=2,rounds=300");
    let seen = run(hamq());
    let cpus: Vec<u32> = seen.stints().iter().skip(10).map(|s| s.cpu.0).collect();
    assert!(cpus.windows(2).filter(|two| two[0] != two[1]).count() > cpus.len() * 9 / 10, "{cpus:?}");
    assert_eq!(seen.counter("nr_steals"), 0);
}

/// The time in which a CPU is idle while another one has a task waiting, from the begin of one such time on; in ns,
/// the longest.
fn longest_idle_with_waiters(seen: &Seen, cpus: usize, tasks: usize) -> u64 {
    let mut edges: Vec<(u64, i32)> = Vec::new();
    for stint in seen.stints() {
        edges.push((stint.begin.0, 1));
        edges.push((stint.begin.0 + stint.length.0, -1));
    }
    edges.sort_unstable();
    let (mut busy, mut since, mut longest) = (0, None, 0);
    for (time, edge) in edges {
        busy += edge;
        let idle = (busy as usize) < cpus.min(tasks);
        match (idle, since) {
            (true, None) => since = Some(time),
            (false, Some(begin)) => {
                longest = longest.max(time - begin);
                since = None;
            }
            _ => {}
        }
    }
    longest
}

/// Behaviour hamq.2.
#[test]
fn no_cpu_is_idle_while_tasks_wait() {
    let mut load = Load::new(ms(2000));
    for number in 0..12 {
        load.add(0, program(&[Op::Run(ms(20 + 17 * number))]));
    }
    for _ in 0..4 {
        load.add(0, program(&[Op::Run(ms(1500))]));
    }
    let seen = hamq().cpus(4).run(load);
    assert!(seen.counter("nr_steals") > 3);
    assert!(longest_idle_with_waiters(&seen, 4, 4) < us(100).0);
}

/// CPUs 0 and 1.
fn both() -> Attribute {
    Attribute::Affinity(CpuMask::first(2))
}

/// Behaviour hamq.3.
#[test]
fn busy_cpus_do_not_balance() {
    let mut load = Load::new(ms(9000));
    let mut lab = hamq().cpus(2);
    for task in 0..9 {
        load = load.task(0, hog()).on(0);
        lab = lab.change(ms(100), task, both());
    }
    let seen = lab.run(load.task(0, hog()).on(1));
    for task in 0..9 {
        near(seen.share(task), 1.0 / 9.0, 0.01);
    }
    near(seen.share(9), 1.0, 0.01);
    assert_eq!(seen.migrations_after(ms(0)), 0);
}

/// Behaviour hamq.4.
#[test]
fn epochs_are_per_cpu() {
    let load = (0..3).fold(Load::new(ms(3000)), |load, _| load.task(0, hog()).on(0)).task(0, hog()).on(1);
    let seen = hamq().cpus(2).watch(&[".epoch"]).run(load);
    for (task, epochs) in [(0, 20.0), (3, 60.0)] {
        near(seen.probe().at(task, ms(1810)).values[0] as f64, epochs, 1.0);
    }
}

/// Behaviour hamq.5.
#[test]
fn an_idle_cpu_is_chosen_once() {
    let mut load = Load::new(ms(200));
    let pipes = [load.pipe(), load.pipe()];
    let receiver = |channel| program(&[Op::Recv { channel, bytes: 1 }, Op::Run(ms(5))]);
    let send = |channel| Op::Send { channel, bytes: 1 };
    let sender = program(&[Op::Sleep(ms(100)), send(pipes[0]), send(pipes[1]), Op::Run(ms(50))]);
    let load = load.task(0, receiver(pipes[0])).on(0).task(0, receiver(pipes[1])).on(1);
    let load = load.task(0, sender).on(0).task(0, hog()).on(1);
    let all = Attribute::Affinity(CpuMask::first(3));
    let lab = hamq().cpus(3).change(ms(50), 0, all).change(ms(50), 1, all);
    let seen = lab.run(load);
    let after = |task| {
        let stints = seen.stints();
        stints.iter().find(|s| s.task.0 == task && s.begin.0 > ms(100).0).expect("it was woken").cpu.0
    };
    assert_eq!((after(0), after(1)), (2, 1));
}

/// Behaviour hamq.6.
#[test]
fn an_idle_cpu_takes_the_best_waiting_task() {
    let stolen = |name: &str, value: &str| {
        let load = Load::new(ms(250)).task(-20, hog()).on(0).task(0, program(&[Op::Run(ms(80))])).on(0);
        let load =
            load.task(10, program(&[Op::Run(ms(80))])).on(0).task(0, program(&[Op::Run(ms(30))])).on(1);
        let lab = hamq().cpus(2).change(ms(20), 1, both()).change(ms(20), 2, both());
        let seen = lab.set(name, value).run(load);
        seen.stints().iter().filter(|s| s.cpu.0 == 1 && s.begin.0 > ms(29).0).map(|s| s.task.0).next()
    };
    assert_eq!(stolen("steal_pick", "best"), Some(1));
    assert_eq!(stolen("steal_pick", "head"), Some(2));
    assert_eq!(stolen("steal_min", "3"), None);
}

/// Behaviour hamq.7.
#[test]
fn idle_cpus_look_around_every_tick() {
    let load = Load::new(ms(400)).task(0, hog()).on(0).task(0, program(&[Op::Run(ms(150))])).on(0);
    let seen = hamq().cpus(2).change(ms(101), 1, both()).run(load);
    let stints = seen.stints();
    let moved = stints.iter().position(|s| s.task.0 == 1 && s.cpu.0 == 1).expect("it moves to CPU 1");
    let before = stints[..moved].iter().rfind(|s| s.task.0 == 1).expect("it ran on CPU 0");
    let waiting = (before.begin.0 + before.length.0).max(ms(101).0);
    let begin = stints[moved].begin.0;
    assert!((waiting..waiting + ms(11).0).contains(&begin), "waits from {waiting}, runs from {begin}");
    assert!(seen.counter("nr_idle_polls") > 0);
}

/// Behaviour hamq.8.
#[test]
fn the_search_for_idle_cpus_can_be_left_out() {
    let wakes = |search: &str| {
        let sleeper = program(&[Op::Run(us(1)), Op::Sleep(ms(5)), Op::Run(ms(1))]);
        let load = Load::new(ms(100)).task(0, sleeper).task(0, hog()).on(0);
        let seen = hamq().cpus(2).set("wake_idle_search", search).run(load);
        (seen.counter("nr_wake_idle") + seen.counter("nr_wake_prev") > 0, seen.counter("nr_wake_busy") > 0)
    };
    assert!(wakes("1").0);
    assert_eq!(wakes("0"), (false, false));
}
