//! Runs under small schedulers and the fair class, with all checkers.

use crate::common::*;
use schedlab_base::{DurationNs, Machine, Nice, Policy};
use schedlab_sim::{Class, Config, run};
use schedlab_trace::ExitKind;
use schedlab_workload::{Amount, End, Op, ProgramId, Scenario};

#[test]
fn shares_are_complete_under_every_class() {
    let scenario = mixed(4, 4, ms(500));
    for (cpus, name) in [(1, "one"), (2, "two"), (4, "four")] {
        let fifo = ext(cpus, &scenario, Simple::new(false));
        let vtime = ext(cpus, &scenario, Simple::new(true));
        let minimal = ext(cpus, &scenario, Minimal::new());
        let fair = fair(cpus, &scenario);
        for (class, tasks, exit) in [
            ("fifo", fifo.tasks, fifo.exit),
            ("vtime", vtime.tasks, vtime.exit),
            ("minimal", minimal.tasks, minimal.exit),
            ("fair", fair.tasks, fair.exit),
        ] {
            assert_eq!(exit.kind, ExitKind::None, "{class} on {name}: {}", exit.message);
            let total: f64 = tasks.iter().map(|task| task.share).sum();
            assert!(total > cpus as f64 * 0.95 && total <= cpus as f64 + 1e-9, "{class} on {name}: {total}");
        }
    }
}

#[test]
fn runs_are_deterministic() {
    let scenario = mixed(5, 20, ms(200));
    let hash = |seed| {
        let config = config(4, seed);
        run(&config, &scenario, Class::Ext(Simple::new(true))).unwrap().trace_hash.to_string()
    };
    assert_eq!(hash(1), hash(1));
    let fair = || fair(4, &scenario).trace_hash.to_string();
    assert_eq!(fair(), fair());
    assert_ne!(fair(), hash(1));
}

#[test]
fn the_scheduler_sees_every_task_come_and_go() {
    let mut scenario = Scenario::empty("short", End::AllExit);
    scenario.programs =
        vec![program(|b| b.repeat(Amount::Times(3), |b| b.op(Op::Run(us(50))).op(Op::Sleep(us(50)))))];
    scenario.tasks = (0..20).map(|n| task(&format!("t/{n}"), 0, n)).collect();
    let result = ext(2, &scenario, Simple::new(false));
    assert_eq!(result.exit.kind, ExitKind::None);
    let scheduler = result.scheduler.unwrap();
    assert_eq!((scheduler.tasks, scheduler.exits), (0, 1));
    assert!(result.duration > us(250) && result.duration < ms(50), "{}", result.duration);
    assert!(result.costs.switches > 60);
}

#[test]
fn nice_values_divide_the_cpu() {
    let mut scenario = mixed(2, 0, DurationNs::from_secs(2));
    scenario.tasks[1].nice = Nice::new(5).unwrap();
    let fair = fair(1, &scenario);
    let ratio = fair.tasks[0].share / fair.tasks[1].share;
    assert!((2.9..3.3).contains(&ratio), "fair: {ratio}");
    // A task that uses its slice up is queued only after the next one is chosen, so
    // two tasks would alternate whatever their weights.
    let mut scenario = mixed(8, 0, DurationNs::from_secs(4));
    scenario.tasks[4..].iter_mut().for_each(|task| task.nice = Nice::new(5).unwrap());
    let vtime = ext(1, &scenario, Simple::new(true));
    let share = |tasks: &[schedlab_trace::TaskRecord]| tasks.iter().map(|task| task.share).sum::<f64>();
    let ratio = share(&vtime.tasks[..4]) / share(&vtime.tasks[4..]);
    assert!((2.6..3.5).contains(&ratio), "vtime: {ratio}");
}

#[test]
fn real_time_tasks_win() {
    let mut scenario = mixed(2, 1, ms(300));
    scenario.tasks[2].policy = Policy::Fifo(50);
    for tasks in [fair(1, &scenario).tasks, ext(1, &scenario, Simple::new(false)).tasks] {
        assert!(tasks[2].share > 0.22, "{:?}", tasks[2]);
    }
    let mut two = mixed(2, 0, ms(1000));
    two.tasks.iter_mut().for_each(|task| task.policy = Policy::Rr(10));
    let shares: Vec<f64> = fair(1, &two).tasks.iter().map(|task| task.share).collect();
    assert!(shares.iter().all(|share| (0.4..0.6).contains(share)), "{shares:?}");
}

#[test]
fn deadline_servers_keep_a_twentieth_for_normal_tasks() {
    for normal in [1_usize, 3] {
        let mut scenario = mixed(normal as u32 + 1, 0, DurationNs::from_secs(5));
        scenario.tasks[normal].policy = Policy::Fifo(50);
        for tasks in [fair(1, &scenario).tasks, ext(1, &scenario, Simple::new(false)).tasks] {
            let share: f64 = tasks[..normal].iter().map(|task| task.share).sum();
            assert!((0.049..0.055).contains(&share), "{tasks:?}");
            assert!(tasks[..normal].iter().all(|task| task.share > 0.04 / normal as f64), "{tasks:?}");
        }
    }
}

#[test]
fn deadline_servers_serve_tasks_that_come_after_idle_time() {
    let late = |wait: u64| {
        let asleep = Op::Sleep(DurationNs::from_secs(wait));
        program(|b| b.op(asleep).repeat(Amount::Forever, |b| b.op(Op::Run(ms(3)))))
    };
    let mut scenario = mixed(2, 0, DurationNs::from_secs(8));
    scenario.programs = vec![late(3), late(5)];
    for (number, task) in scenario.tasks.iter_mut().enumerate() {
        task.program = ProgramId(number as u32);
    }
    scenario.tasks[1].policy = Policy::Fifo(50);
    for tasks in [fair(1, &scenario).tasks, ext(1, &scenario, Simple::new(false)).tasks] {
        // 2 s alone, then a twentieth of 3 s.
        assert!((0.265..0.275).contains(&tasks[0].share), "{tasks:?}");
    }
}

#[test]
fn affinity_is_kept() {
    let mut scenario = mixed(4, 4, ms(200));
    for task in &mut scenario.tasks {
        task.affinity = Some(mask(&[1]).into());
    }
    let result = ext(3, &scenario, Simple::new(false));
    let total: f64 = result.tasks.iter().map(|task| task.share).sum();
    assert!(total <= 1.0 && total > 0.9, "{total}");
    let fair = fair(3, &scenario);
    assert!(fair.tasks.iter().all(|task| task.migrations == 0));
}

#[test]
fn impossible_things_are_refused() {
    let mut scenario = mixed(1, 0, ms(10));
    scenario.tasks[0].affinity = Some(mask(&[7]).into());
    let error = run(&config(2, 1), &scenario, Class::Ext(Minimal::new())).unwrap_err().to_string();
    assert!(error.contains("hog/0") && error.contains("2 CPUs"), "{error}");
    let bad = Config::new(Machine::uniform("none", 0), 1);
    let error = run(&bad, &mixed(1, 0, ms(1)), Class::Ext(Minimal::new())).unwrap_err().to_string();
    assert!(error.contains("at least one CPU"), "{error}");
}

#[test]
fn a_global_lock_collapses_with_cpus() {
    let work = |cpus: usize| {
        let mut simple = Simple::new(false);
        simple.hold = us(100);
        let result = ext(cpus, &mixed(0, 8 * cpus as u32, ms(100)), simple);
        let busy: f64 = result.tasks.iter().map(|task| task.share).sum();
        (result.costs.switches as f64 / cpus as f64, result.costs.lock_wait, busy / cpus as f64)
    };
    let (one, eight) = (work(1), work(8));
    assert!(one.0 > 3.0 * eight.0, "switches per CPU: {one:?} {eight:?}");
    assert!(eight.1 > ms(100), "CPUs wait for each other: {eight:?}");
}
