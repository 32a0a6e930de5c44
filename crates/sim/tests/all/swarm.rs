//! Random small worlds under every class, with all checkers. Each seed draws the
//! machine, the tasks, their programs and the scheduler, and turns some features
//! off altogether.
#![allow(clippy::print_stdout, reason = "the last seed printed is the one that failed")]

use crate::common::*;
use schedlab_base::{Cpu, CpuId, DurationNs, Machine, Nice, Policy, Presence, Prng, TaskId, TimeNs};
use schedlab_sim::flags::*;
use schedlab_sim::{Change, Class, Config, run};
use schedlab_trace::ExitKind;
use schedlab_workload::{
    Amount, Attribute, ChangeId, Channel, ChannelKind, End, Op, Program, ProgramBuilder, Scenario, TaskRef,
};

fn machine(prng: &mut Prng) -> Machine {
    let cpus = 1 + prng.below(6) as usize;
    let mut machine = Machine::uniform("swarm", cpus);
    machine.hz = [100, 250, 1000][prng.below(3) as usize];
    let (smt, llcs, nodes) = (prng.chance(1, 2), 1 + prng.below(2) as u32, 1 + prng.below(2) as u32);
    for (number, cpu) in machine.cpus.iter_mut().enumerate() {
        let number = number as u32;
        let core = if smt { number / 2 } else { number };
        let node = if nodes == 1 {
            0
        } else {
            u32::from(core * 2 >= (cpus as u32).div_ceil(if smt { 2 } else { 1 }))
        };
        *cpu = Cpu { core, llc: if llcs == 1 { node } else { core % 2 * nodes + node }, node };
    }
    renumber(&mut machine);
    if prng.chance(1, 3) {
        machine.contention_permille = (0..cpus as u32).map(|n| 1000 + 100 * n).collect();
    }
    machine
}

/// Topology numbers are dense.
fn renumber(machine: &mut Machine) {
    let dense = |key: fn(&mut Cpu) -> &mut u32, machine: &mut Machine| {
        let mut seen = Vec::new();
        for cpu in &mut machine.cpus {
            let value = *key(cpu);
            let at = seen.iter().position(|&old| old == value).unwrap_or_else(|| {
                seen.push(value);
                seen.len() - 1
            });
            *key(cpu) = at as u32;
        }
    };
    dense(|cpu| &mut cpu.llc, machine);
    dense(|cpu| &mut cpu.node, machine);
}

fn op(prng: &mut Prng, features: u64, cpus: usize) -> Op {
    let span = |prng: &mut Prng, most: u64| DurationNs(prng.below(most) + 1);
    match prng.below(6) {
        0 | 1 => Op::Run(span(prng, 3_000_000)),
        2 if features & 1 != 0 => Op::Sleep(span(prng, 5_000_000)),
        3 if features & 2 != 0 => Op::Yield,
        4 if features & 4 != 0 => Op::Exec,
        5 if features & 2048 != 0 && cpus > 1 && prng.chance(1, 8) => {
            let cpu = CpuId(1 + prng.below(cpus as u64 - 1) as u32);
            Op::Hotplug { cpu, online: prng.chance(1, 2) }
        }
        5 if features & 1024 != 0 => {
            let task = prng.chance(1, 2).then_some(TaskRef(0));
            Op::Set { task, change: ChangeId(prng.below(CHANGES) as u32) }
        }
        _ => Op::Run(span(prng, 50_000)),
    }
}

fn random_program(prng: &mut Prng, features: u64, cpus: usize) -> Program {
    let times = if prng.chance(1, 4) { Amount::Forever } else { Amount::Times(1 + prng.below(40)) };
    let ops: Vec<Op> = (0..1 + prng.below(5)).map(|_| op(prng, features, cpus)).collect();
    let mut builder = ProgramBuilder::new();
    if features & 8 != 0 && prng.chance(1, 3) {
        let program = schedlab_workload::ProgramId(0);
        builder =
            builder.repeat(Amount::Times(prng.below(4)), |b| b.op(Op::Fork { program }).op(Op::WaitChild));
    }
    builder = builder.repeat(times, |b| ops.iter().fold(b, |b, &op| b.op(op)));
    builder.build().unwrap()
}

/// Changes that programs may make.
const CHANGES: u64 = 6;

fn scenario(prng: &mut Prng, cpus: usize) -> Scenario {
    let features = prng.next_u64();
    let mut scenario = Scenario::empty("swarm", End::After(ms(60)));
    scenario.changes = (0..CHANGES).map(|_| attribute(prng, cpus)).collect();
    scenario.child.working_set_kib = prng.below(64) as u32;
    // Program 0 is what children run: it forks no task and ends.
    scenario.programs.push(program(|b| b.op(Op::Run(us(20))).op(Op::Sleep(us(30))).op(Op::Run(us(10)))));
    let pairs = if features & 16 != 0 { prng.below(3) } else { 0 };
    for _ in 0..1 + prng.below(4) {
        scenario.programs.push(random_program(prng, features, cpus));
    }
    let plain = scenario.programs.len() as u64;
    for n in 0..1 + prng.below(12) as u32 {
        let program = 1 + prng.below(plain - 1) as u32;
        scenario.tasks.push(draw_task(prng, features, n, program, cpus));
    }
    for pair in 0..pairs as u32 {
        ping_pong(&mut scenario, pair);
    }
    scenario
}

fn draw_task(
    prng: &mut Prng,
    features: u64,
    n: u32,
    program: u32,
    cpus: usize,
) -> schedlab_workload::TaskSpec {
    let mut spec = task(&format!("t/{n}"), program, if features & 32 != 0 { n / 2 } else { n });
    if features & 64 != 0 {
        spec.nice = Nice::new(prng.below(40) as i64 - 20).unwrap();
    }
    if features & 128 != 0 && prng.chance(1, 2) {
        let first = prng.below(cpus as u64) as u32;
        spec.affinity = Some(mask(&[first, prng.below(cpus as u64) as u32]).into());
    }
    if features & 256 != 0 {
        spec.working_set_kib = prng.below(2000) as u32;
    }
    if features & 512 != 0 {
        let prio = 1 + prng.below(99) as u8;
        spec.policy = match prng.below(10) {
            0 => Policy::Fifo(prio),
            1 => Policy::Rr(prio),
            2 => Policy::Batch,
            3 => Policy::Idle,
            4 | 5 => Policy::Ext,
            _ => Policy::Other,
        };
    }
    spec
}

fn ping_pong(scenario: &mut Scenario, pair: u32) {
    let first = scenario.channels.len() as u32;
    let channel = Channel { kind: ChannelKind::Pipe, capacity: 4096, peer: None };
    scenario.channels.extend([channel, channel]);
    let (there, back) = (schedlab_workload::ChannelId(first), schedlab_workload::ChannelId(first + 1));
    let send = |channel| Op::Send { channel, bytes: 1 };
    let recv = |channel| Op::Recv { channel, bytes: 1 };
    scenario.programs.push(program(|b| b.repeat(Amount::Forever, |b| b.op(send(there)).op(recv(back)))));
    scenario.programs.push(program(|b| b.repeat(Amount::Forever, |b| b.op(recv(there)).op(send(back)))));
    for side in 0..2 {
        let program = scenario.programs.len() as u32 - 2 + side;
        scenario.tasks.push(task(&format!("pp/{pair}/{side}"), program, 100 + pair * 2 + side));
    }
}

fn attribute(prng: &mut Prng, cpus: usize) -> Attribute {
    let cpu = |prng: &mut Prng| prng.below(cpus as u64) as u32;
    match prng.below(7) {
        6 => Attribute::Policy(Policy::Ext),
        0 => Attribute::Nice(Nice::new(prng.below(40) as i64 - 20).unwrap()),
        1 => Attribute::Policy(Policy::Fifo(1 + prng.below(99) as u8)),
        2 => Attribute::Policy(Policy::Other),
        _ => Attribute::Affinity(mask(&[cpu(prng), cpu(prng)])),
    }
}

/// Attribute churn from outside, in half of the worlds.
fn changes(prng: &mut Prng, scenario: &Scenario, cpus: usize) -> Vec<Change> {
    let count = if prng.chance(1, 2) { prng.below(60) } else { 0 };
    let mut draw = || {
        let attribute = attribute(prng, cpus);
        let task = TaskId(prng.below(scenario.tasks.len() as u64 + 2) as u32);
        Change { at: TimeNs(prng.below(60_000_000)), task, attribute }
    };
    (0..count).map(|_| draw()).collect()
}

/// One world; what its trace hashes to.
fn world(seed: u64) -> String {
    let mut prng = Prng::new(seed);
    let machine = machine(&mut prng);
    let scenario = scenario(&mut prng, machine.cpu_count());
    let changes = changes(&mut prng, &scenario, machine.cpu_count());
    let mut config = Config { checkers: true, changes, ..Config::new(machine, seed) };
    let time = |prng: &mut Prng| prng.chance(1, 4).then(|| DurationNs(prng.below(60_000_000)));
    config.presence = Presence { attach: time(&mut prng), detach: time(&mut prng) };
    let twists = [Twist::Stall, Twist::BadDsq, Twist::Cpu0, Twist::Mixed, Twist::Exit];
    let mut simple = Simple::new(prng.chance(1, 2));
    let (kind, hash) = match prng.below(5) {
        0 => {
            let result = run::<Minimal>(&config, &scenario, Class::Fair).unwrap();
            (result.exit.kind, result.trace_hash)
        }
        1 => {
            let mut minimal = Minimal::new();
            minimal.0.flags = if prng.chance(1, 2) { SCX_OPS_SWITCH_PARTIAL } else { 0 };
            let result = run(&config, &scenario, Class::Ext(minimal)).unwrap();
            (result.exit.kind, result.trace_hash)
        }
        choice => {
            simple.twist = if choice == 2 { twists[prng.below(5) as usize] } else { Twist::None };
            simple.info.timeout = ms(25);
            simple.slice = [SCX_SLICE_DFL, 500_000, 3_000_000][prng.below(3) as usize];
            simple.info.flags =
                prng.next_u64() & (SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALWAYS_ENQ_IMMED);
            if prng.chance(1, 4) {
                simple.info.flags |= SCX_OPS_SWITCH_PARTIAL;
            }
            let result = run(&config, &scenario, Class::Ext(simple)).unwrap();
            let simple = result.scheduler.unwrap();
            assert_eq!(
                (simple.tasks, simple.exits),
                (0, u64::from(simple.loaded)),
                "every task was given back"
            );
            (result.exit.kind, result.trace_hash)
        }
    };
    format!("{kind:?} {hash}")
}

#[test]
fn random_worlds_keep_the_invariants() {
    let first = std::env::var("SIM_SWARM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0u64);
    let count = std::env::var("SIM_SWARM_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(120u64);
    let mut ejected = 0;
    for seed in first..first + count {
        println!("seed {seed}");
        let outcome = world(seed);
        ejected += u64::from(!outcome.starts_with(&format!("{:?}", ExitKind::None)));
        if seed % 10 == 0 {
            assert_eq!(outcome, world(seed), "seed {seed} is deterministic");
        }
    }
    assert!(ejected < count, "some schedulers stay");
}
