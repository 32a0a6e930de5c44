//! CPUs that are turns of one processor, timers with slack, and wakeups that an idle CPU completes.

use crate::common::*;
use schedlab_base::{CpuId, CpuMask, DurationNs, Machine};
use schedlab_sim::{Class, Config, RunResult, run};
use schedlab_workload::{Channel, ChannelId, ChannelKind, End, Op, Scenario};

/// A machine on which nothing costs anything, with two CPUs.
fn free() -> Machine {
    free_of(2)
}

/// The same with this many CPUs.
fn free_of(cpus: usize) -> Machine {
    let mut machine = Machine::uniform("turns", cpus);
    machine.kernel.timer_slack = DurationNs::ZERO;
    let costs = &mut machine.costs;
    for cost in [
        &mut costs.schedule,
        &mut costs.context_switch,
        &mut costs.idle_switch,
        &mut costs.address_space_switch,
        &mut costs.wakeup,
        &mut costs.wakeup_queued,
        &mut costs.fair_wakeup,
        &mut costs.fair_switch,
        &mut costs.ipi_send,
        &mut costs.ipi_latency,
        &mut costs.idle_enter,
        &mut costs.idle_exit,
        &mut costs.interrupt,
        &mut costs.timer,
        &mut costs.tick,
        &mut costs.cache_refill_per_kib,
        &mut costs.memory_refill_per_kib,
        &mut costs.migration,
        &mut costs.syscall,
        &mut costs.pipe,
        &mut costs.lock,
        &mut costs.lock_transfer,
        &mut costs.exit,
    ] {
        *cost = DurationNs::ZERO;
    }
    machine
}

fn go(machine: Machine, scenario: &Scenario) -> RunResult<Minimal> {
    run(&Config { checkers: true, ..Config::new(machine, 1) }, scenario, Class::Fair).unwrap()
}

fn only(cpu: u32) -> Option<Box<CpuMask>> {
    let mut mask = CpuMask::EMPTY;
    mask.set(CpuId(cpu));
    Some(mask.into())
}

#[track_caller]
fn about(found: DurationNs, wanted: DurationNs) {
    assert!(found.0.abs_diff(wanted.0) < 3_000, "{found}, not {wanted}");
}

/// Two tasks, each with a CPU of its own.
fn apart(programs: [schedlab_workload::Program; 2]) -> Scenario {
    let mut scenario = Scenario::empty("apart", End::AllExit);
    scenario.programs = programs.to_vec();
    scenario.tasks = vec![task("a", 0, 0), task("b", 1, 1)];
    scenario.tasks[0].affinity = only(0);
    scenario.tasks[1].affinity = only(1);
    scenario
}

#[test]
fn cpus_that_share_a_processor_have_equal_parts_of_it_while_they_are_busy() {
    let mut machine = free();
    let scenario = apart([
        program(|b| b.op(Op::Run(ms(100)))),
        program(|b| b.op(Op::Sleep(ms(20))).op(Op::Run(ms(30)))),
    ]);
    about(go(machine.clone(), &scenario).duration, ms(100));
    machine.one_processor = true;
    let result = go(machine, &scenario);
    // Alone for 20 ms, half the speed for 60 ms, alone again for the last 50 ms.
    about(result.duration, ms(130));
    about(result.tasks[1].cpu_time, ms(60));
}

#[test]
fn kernel_paths_share_the_processor_too() {
    let mut machine = free();
    machine.one_processor = true;
    machine.costs.interrupt = us(200);
    let sleeper = program(|b| b.op(Op::Sleep(ms(10))));
    // The interrupt takes twice as long beside a task that computes, which loses as much.
    let beside = go(machine.clone(), &apart([program(|b| b.op(Op::Run(ms(40)))), sleeper.clone()]));
    about(beside.duration, ms(40) + us(200));
    let alone = go(machine, &apart([program(|b| b.op(Op::Run(us(1)))), sleeper]));
    about(alone.duration, ms(10) + us(200));
}

#[test]
fn a_timer_with_slack_fires_at_another_interrupt_that_comes_first() {
    let mut machine = free();
    machine.kernel.timer_slack = ms(3);
    machine.hz = 1000;
    let sleeper = || program(|b| b.op(Op::Sleep(us(1_300))));
    let hog = |span| program(|b| b.op(Op::Run(span)));
    let late = |scenario: &Scenario| go(machine.clone(), scenario).duration;
    // An idle CPU has no tick: all of the slack.
    about(late(&apart([sleeper(), hog(us(1))])), us(1_300) + ms(3));
    // A busy one takes the timer at its tick, of which there is one in each millisecond.
    let mut busy = apart([sleeper(), hog(us(2_500))]);
    busy.tasks[1].affinity = only(0);
    let ended = late(&busy);
    assert!(ended < us(2_500) + us(10), "{ended}");
}

#[test]
fn an_idle_cpu_completes_the_wakeup_that_another_one_began() {
    let mut machine = free();
    machine.costs.wakeup = us(300);
    machine.costs.wakeup_queued = us(100);
    let channel = ChannelId(0);
    let mut scenario = apart([
        program(|b| b.op(Op::Sleep(ms(1))).op(Op::Send { channel, bytes: 1 }).op(Op::Run(us(50)))),
        program(|b| b.op(Op::Recv { channel, bytes: 1 })),
    ]);
    scenario.channels = vec![Channel { kind: ChannelKind::Pipe, capacity: 4096, peer: None }];
    let used = |scenario: &Scenario| go(machine.clone(), scenario).tasks[0].cpu_time;
    about(used(&scenario), us(150));
    // On the same CPU the waker does it all.
    scenario.tasks[1].affinity = only(0);
    about(used(&scenario), us(350));
}

/// A read of a page that comes later than the reader, or before it: the reader's CPU time.
fn reading(blocks: bool) -> DurationNs {
    let mut scenario = Scenario::empty("read", End::AllExit);
    scenario.channels = vec![Channel { kind: ChannelKind::Pipe, capacity: 65_536, peer: None }];
    let (channel, bytes) = (ChannelId(0), 4_096);
    let [early, late] = [ms(1), ms(2)];
    let [writes, reads] = if blocks { [late, early] } else { [early, late] };
    scenario.programs = vec![
        program(|b| b.op(Op::Sleep(writes)).op(Op::Send { channel, bytes })),
        program(|b| b.op(Op::Sleep(reads)).op(Op::Recv { channel, bytes })),
    ];
    scenario.tasks = vec![task("writer", 0, 0), task("reader", 1, 1)];
    let mut config = config(1, 1);
    config.machine.costs.copy_byte_ps = 1_000_000;
    run::<Minimal>(&config, &scenario, Class::Fair).unwrap().tasks[1].cpu_time
}

#[test]
fn a_read_that_blocks_copies_once() {
    let [waits, goes_on] = [true, false].map(reading);
    let copy = us(4_096);
    assert!(goes_on > copy && waits > goes_on && waits < goes_on + us(50), "{waits} and {goes_on}");
}

#[test]
fn a_wait_for_a_lock_ends_with_the_section_before() {
    let (cpus, hold) = (8, us(10));
    let mut machine = free_of(cpus);
    machine.one_processor = true;
    let mut scenario = Scenario::empty("hogs", End::After(ms(200)));
    scenario.programs = vec![program(|b| b.op(Op::Run(ms(1_000))))];
    scenario.tasks = (0..16).map(|n| task(&format!("hog{n}"), 0, n)).collect();
    let scheduler = Simple { hold, ..Simple::new(false) };
    let result = run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler)).unwrap();
    // Beside 7 CPUs that compute, a section takes 8 times as long. Whenever slices end, all CPUs want the lock at once.
    let sections = result.costs.lock_wait.0 / (hold.0 * 8);
    assert!(result.costs.switches > 50, "{} switches", result.costs.switches);
    assert!((50..50 * result.costs.switches).contains(&sections), "waited for {sections} sections");
}
