//! The whole report of a run, as JSON, is the same in both cores: of loads by name and of random ones.
//!
//! `SCHEDLAB_LANE_COUNT` is the number of random runs (500), `SCHEDLAB_LANE_SEED` the first seed (1).

use super::test_object;
use schedlab_base::{DurationNs, Machine, Nice, Policy, Prng};
use schedlab_lab::hunt::{Case, tunables};
use schedlab_lab::run::simulation::{Simulation, Watch};
use schedlab_lab::scheduler::Scheduler;
use schedlab_lab::shipped::SCHEDULERS;
use schedlab_report::{Document, to_json};
use schedlab_scx::EngineChoice;
use schedlab_sim::Core;
use schedlab_tests::has_clang;
use schedlab_workload::{Op, ProgramId, Scenario};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: give a whole number"))
}

/// A test object of `scx`, as a command finds it.
fn own(name: &str) -> Scheduler {
    test_object(name);
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lane-{name}.bpf.o"));
    Scheduler::find(&object.display().to_string()).expect("it was just made")
}

/// The report of the run, or why there is none, and how many events were taken in the lane.
fn report(simulation: &Simulation, scenario: &Scenario) -> (String, u64) {
    match simulation.run_watched(scenario, Watch::default()) {
        Ok(watched) => {
            let document = Document { runs: vec![watched.record], ..Document::default() };
            (to_json(&document), watched.lane_events)
        }
        Err(failure) => (failure.to_string(), 0),
    }
}

/// Runs it in the general core, alone and under the checkers, and in the others; returns how many events the lane took, or what differs.
fn compare(simulation: &Simulation, scenario: &Scenario, every: u32) -> Result<u64, String> {
    let of = |core, checkers| {
        let engine = EngineChoice::Compiled;
        report(&Simulation { core, checkers, engine, ..simulation.clone() }, scenario)
    };
    let (general, _) = of(Core::General, false);
    let mut most = 0;
    for (core, checkers) in [(Core::Fast, false), (Core::Alternating(every), false), (Core::Fast, true)] {
        let (text, events) = of(core, checkers);
        most = events.max(most);
        if checkers && events > 0 {
            return Err(format!("{}: the lane takes no event that is checked", simulation.describe()));
        }
        if text != general {
            let lines = general.lines().zip(text.lines()).find(|(a, b)| a != b);
            let of = simulation.describe();
            return Err(format!("{of}, {core:?}, checkers {checkers}, general and lane: {lines:?}"));
        }
    }
    Ok(most)
}

#[test]
fn reports_are_the_same_in_both_cores() {
    if !has_clang() {
        return;
    }
    let loads =
        ["periodic:tasks=20,run=300us,sleep=1ms,ttime=60ms", "mixed:ttime=60ms", "chat:rooms=1,messages=5"];
    let shipped = ["eevdf", "o1", "ule", "vanilla"].map(|name| Scheduler::find(name).expect("it is shipped"));
    let mut taken = 0;
    for (number, scheduler) in ["simple", "fifo"].map(own).into_iter().chain(shipped).enumerate() {
        for (turn, load) in loads.into_iter().enumerate() {
            let machine = Machine::uniform("lane", [2, 4, 16][(number + turn) % 3]);
            let simulation = Simulation::new(scheduler.clone(), load, machine);
            let scenario = simulation.scenario().expect("a workload of the catalogue");
            taken += compare(&simulation, &scenario, 3).unwrap_or_else(|words| panic!("{words}"));
        }
    }
    assert!(taken > 0, "the lane took events");
}

/// The case with what the lane knows of its load alone; as it is if that is nothing.
fn tamed(case: Case) -> Case {
    let known = |program: ProgramId| {
        let ops = case.scenario.programs[program.index()].ops();
        ops.iter().all(|op| matches!(op, Op::Loop(_) | Op::EndLoop | Op::Run(_) | Op::Sleep(_)))
    };
    let mut scenario = case.scenario.clone();
    scenario.tasks.retain(|task| known(task.program));
    if scenario.tasks.is_empty() {
        return case;
    }
    scenario.programs.clear();
    for task in &mut scenario.tasks {
        let program = case.scenario.programs[task.program.index()].clone();
        task.program = ProgramId(scenario.programs.len() as u32);
        scenario.programs.push(program);
        (task.policy, task.affinity, task.working_set_kib) = (Policy::Other, None, 0);
        task.nice = if case.seed % 2 == 0 { Nice::ZERO } else { task.nice };
    }
    let cpus = case.machine.cpu_count().max(2);
    let machine = Machine { hz: case.machine.hz, ..Machine::uniform("swarm", cpus) };
    Case { scenario, machine, ..case }
}

/// The run of a seed: two of three are such as the lane knows.
fn drawn(seed: u64, fitting: &[Scheduler], all: &[Scheduler]) -> (Simulation, Scenario) {
    let mut prng = Prng::stream(seed, 0x6c61_6e65);
    let fits = seed % 3 != 0;
    let from = if fits { fitting } else { all };
    let scheduler = &from[prng.below(from.len() as u64) as usize];
    let drawn = Case::draw(seed, &tunables(scheduler).expect("an object"));
    let mut case = if fits { tamed(drawn) } else { drawn };
    // The rare long ones would take the time of all others.
    let length = case.length().min(DurationNs::from_ms(60));
    (case.checked, case.scenario.end) = (false, schedlab_workload::End::After(length));
    (case.simulation(scheduler).expect("its settings are of the scheduler"), case.scenario)
}

#[test]
fn random_runs_are_reported_the_same_in_both_cores() {
    if !has_clang() {
        return;
    }
    let (first, count) = (variable("SCHEDLAB_LANE_SEED", 1), variable("SCHEDLAB_LANE_COUNT", 500));
    let begin = std::time::Instant::now();
    let names = || ["eevdf"].into_iter().chain(SCHEDULERS.iter().map(|one| one.name));
    let next = AtomicU64::new(first);
    let own = ["simple", "fifo"].map(own);
    let work = || {
        let shipped = names().map(|name| Scheduler::find(name).expect("it is shipped"));
        let all: Vec<Scheduler> = own.iter().cloned().chain(shipped).collect();
        let (mut failed, mut in_lane) = (Vec::new(), 0u64);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return (failed, in_lane);
            }
            let (simulation, scenario) = drawn(seed, &own, &all);
            match compare(&simulation, &scenario, 1 + seed as u32 % 9) {
                Ok(events) => in_lane += u64::from(events > 0),
                Err(words) => failed.push(format!("seed {seed}: {words}")),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<(Vec<String>, u64)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().expect("what a run does is compared")).collect()
    });
    let in_lane: u64 = found.iter().map(|(_, in_lane)| in_lane).sum();
    let failed: Vec<String> = found.into_iter().flat_map(|(failed, _)| failed).collect();
    println!("{count} seeds from {first}, {in_lane} with the lane: {:.1} s", begin.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "\n{}\n", failed.iter().take(5).cloned().collect::<Vec<_>>().join("\n"));
    assert!(in_lane > count / 4, "the lane took part in {in_lane} of {count} runs alone");
}
