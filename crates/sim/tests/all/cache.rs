//! What caches and hardware threads cost a task, in CPU time and to the microsecond.

use crate::common::*;
use schedlab_base::{Cpu, CpuId, CpuMask, DurationNs, Machine, Policy, TaskId, TimeNs};
use schedlab_sim::{Change, Class, Config, RunResult, run};
use schedlab_workload::{Attribute, End, Op, Scenario};

/// `cpus` with 1000 KiB a core and 4000 KiB a domain; refilling a KiB takes 1 us, from memory 3 us.
fn machine(cpus: &[Cpu]) -> Machine {
    let mut machine = Machine::uniform("cache", 1);
    machine.cpus = cpus.to_vec();
    (machine.cache_kib, machine.llc_kib) = (1000, 4000);
    machine.costs.cache_refill_per_kib = us(1);
    machine.costs.memory_refill_per_kib = us(2);
    machine.costs.migration = DurationNs::ZERO;
    machine
}

const ONE_CPU: [Cpu; 1] = [Cpu { core: 0, llc: 0, node: 0 }];

fn go(machine: Machine, scenario: &Scenario, changes: Vec<Change>) -> RunResult<Minimal> {
    let config = Config { checkers: true, changes, ..Config::new(machine, 1) };
    run(&config, scenario, Class::Ext(Minimal::new())).unwrap()
}

/// CPU time of task `number` beyond that of the same scenario without working sets.
fn refill(machine: &Machine, scenario: &Scenario, changes: &[Change], number: usize) -> DurationNs {
    let mut dry = scenario.clone();
    dry.tasks.iter_mut().for_each(|task| task.working_set_kib = 0);
    let time = |scenario| go(machine.clone(), scenario, changes.to_vec()).tasks[number].cpu_time;
    time(scenario) - time(&dry)
}

#[track_caller]
fn about(found: DurationNs, wanted: DurationNs) {
    assert!(found.0.abs_diff(wanted.0) < 5_000, "{found}, not {wanted}");
}

/// A computes for 1 ms, sleeps for 20 ms and computes again; B computes in between.
fn pair(a_kib: u32, b_kib: u32) -> Scenario {
    let mut scenario = Scenario::empty("pair", End::AllExit);
    scenario.programs = vec![
        program(|b| b.op(Op::Run(ms(1))).op(Op::Sleep(ms(20))).op(Op::Run(ms(1)))),
        program(|b| b.op(Op::Sleep(ms(8))).op(Op::Run(ms(1)))),
    ];
    scenario.tasks = vec![task("a", 0, 0), task("b", 1, 1)];
    scenario.tasks[0].working_set_kib = a_kib;
    scenario.tasks[1].working_set_kib = b_kib;
    scenario
}

#[test]
fn what_another_task_displaces_is_refilled() {
    let machine = machine(&ONE_CPU);
    // Both fit: only the first load, from memory.
    about(refill(&machine, &pair(300, 700), &[], 0), us(900));
    // B takes the free 200 KiB and 400 of A's, which are still in the second level.
    about(refill(&machine, &pair(800, 600), &[], 0), us(2400 + 400));
    about(refill(&machine, &pair(800, 600), &[], 1), us(1800));
    // More than the cache holds is never warm and costs no more than the cache.
    about(refill(&machine, &pair(5000, 0), &[], 0), us(3000));
}

#[test]
fn a_migration_costs_by_what_the_cpus_share() {
    let cpu = |core, llc| Cpu { core, llc, node: 0 };
    // Two threads of a core, another core of their domain, a core of another domain.
    let mut machine = machine(&[cpu(0, 0), cpu(0, 0), cpu(1, 0), cpu(2, 1)]);
    let mut scenario = Scenario::empty("wanderer", End::AllExit);
    scenario.programs = vec![program(|b| b.op(Op::Run(ms(9))))];
    scenario.tasks = vec![task("a", 0, 0)];
    scenario.tasks[0].working_set_kib = 100;
    let only = |cpu: u32| {
        let mut mask = CpuMask::EMPTY;
        mask.set(CpuId(cpu));
        mask
    };
    scenario.tasks[0].affinity = Some(only(0).into());
    let to = |at, cpu| Change {
        at: TimeNs::ZERO + ms(at),
        task: TaskId(0),
        attribute: Attribute::Affinity(only(cpu)),
    };
    about(refill(&machine, &scenario, &[], 0), us(300));
    about(refill(&machine, &scenario, &[to(3, 1)], 0), us(300));
    about(refill(&machine, &scenario, &[to(3, 2)], 0), us(300 + 100));
    about(refill(&machine, &scenario, &[to(3, 3)], 0), us(300 + 300));
    about(refill(&machine, &scenario, &[to(3, 3), to(6, 2)], 0), us(300 + 300 + 300));
    machine.llc_kib = 0;
    about(refill(&machine, &scenario, &[to(3, 2)], 0), us(100 + 100));
}

#[test]
fn what_was_not_loaded_when_a_task_was_interrupted_stays_cold() {
    let machine = machine(&ONE_CPU);
    let mut scenario = Scenario::empty("interrupted", End::AllExit);
    scenario.programs =
        vec![program(|b| b.op(Op::Run(ms(5)))), program(|b| b.op(Op::Sleep(ms(1))).op(Op::Run(ms(1))))];
    scenario.tasks = vec![task("a", 0, 0), task("interrupter", 1, 1)];
    scenario.tasks[0].working_set_kib = 1000;
    scenario.tasks[1].policy = Policy::Fifo(1);
    about(refill(&machine, &scenario, &[], 0), us(3000));
    // Of the third that A has loaded after 1 ms, half is displaced; the rest still comes from memory.
    scenario.tasks[1].working_set_kib = 500;
    about(refill(&machine, &scenario, &[], 0), us(3000 + 167));
}

#[test]
fn threads_of_a_core_share_its_speed_while_both_are_busy() {
    let mut machine = machine(&[Cpu { core: 0, llc: 0, node: 0 }; 2]);
    machine.smt_speed_percent = 60;
    let mut scenario = Scenario::empty("threads", End::AllExit);
    scenario.programs = vec![program(|b| b.op(Op::Run(ms(1000)))), program(|b| b.op(Op::Run(ms(300))))];
    scenario.tasks = vec![task("long", 0, 0), task("short", 1, 1)];
    let result = go(machine.clone(), &scenario, Vec::new());
    // Both run at 60 % for 500 ms; of the long one's work 700 ms are left then.
    let near = |found: DurationNs, wanted: u64| found.0.abs_diff(wanted * 1_000_000) < 5_000_000;
    assert!(near(result.tasks[1].cpu_time, 500), "{}", result.tasks[1].cpu_time);
    assert!(near(result.duration, 1200), "{}", result.duration);
    // The short one starts when the long one is half done.
    scenario.programs[1] = program(|b| b.op(Op::Sleep(ms(500))).op(Op::Run(ms(300))));
    let result = go(machine, &scenario, Vec::new());
    assert!(near(result.duration, 1200), "{}", result.duration);
    assert!(near(result.tasks[1].cpu_time, 500), "{}", result.tasks[1].cpu_time);
}
