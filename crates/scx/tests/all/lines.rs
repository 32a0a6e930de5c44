//! Cache lines of a scheduler's memory: what makes them move between CPUs, what it costs, and that engines agree on
//! it.

use crate::common;
use schedlab_base::{DurationNs, Machine};
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_workload::catalog;

/// A machine with two cores whose lines have 64 bytes.
fn machine() -> Machine {
    Machine { line_bytes: 64, ..Machine::uniform("test", 2) }
}

/// Runs on both engines, which have to agree.
fn simulate(machine: &Machine, padded: bool) -> Option<RunResult<BpfScheduler>> {
    let bytes = common::object("counted")?;
    let [compiled, interpreted] = [EngineChoice::Compiled, EngineChoice::Interpreted].map(|engine| {
        let settings = vec![("padded".to_string(), padded.to_string())];
        let options = LoadOptions { settings, engine, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load("counted", &bytes, &options, machine).unwrap();
        let scenario = catalog::build("periodic:tasks=6,run=100us,sleep=300us,ttime=200ms", 1).unwrap();
        run(&Config::new(machine.clone(), 1), &scenario, Class::Ext(scheduler)).unwrap()
    });
    assert_eq!((compiled.trace_hash, compiled.costs), (interpreted.trace_hash, interpreted.costs));
    let tables = |result: &RunResult<BpfScheduler>| {
        let loaded = result.scheduler.as_ref().unwrap();
        (loaded.lines_by_symbol(1), loaded.line_profile(1))
    };
    assert_eq!(tables(&compiled), tables(&interpreted));
    Some(compiled)
}

/// Transfers by symbol, with what the symbol's line that moved most holds.
fn symbols(result: &RunResult<BpfScheduler>) -> Vec<(String, String, u64)> {
    let table = result.scheduler.as_ref().unwrap().lines_by_symbol(result.costs.switches).unwrap();
    table.rows.iter().map(|row| (row[0].clone(), row[1].clone(), row[3].parse().unwrap())).collect()
}

#[test]
fn a_shared_counter_bounces_and_padded_ones_do_not() {
    let Some(shared) = simulate(&machine(), false) else { return };
    let found = symbols(&shared);
    let (_, holds, moved) = found.iter().find(|(symbol, ..)| symbol == "shared").expect("it moves");
    assert!(*moved > 200, "{found:?}");
    assert_eq!(holds, "shared.before to .sum");
    let profile = shared.scheduler.as_ref().unwrap().line_profile(1);
    let sources: Vec<&String> = profile[1].rows.iter().map(|row| &row[1]).collect();
    assert!(sources.iter().any(|source| source.contains("counted.bpf.c")), "{sources:?}");

    let padded = simulate(&machine(), true).unwrap();
    let found = symbols(&padded);
    assert!(!found.iter().any(|(symbol, ..)| symbol.starts_with("counters")), "{found:?}");
    let all: u64 = found.iter().map(|(.., moved)| moved).sum();
    let before_the_run = all.checked_sub(padded.costs.lines).expect("all that cost something have a symbol");
    assert!(
        before_the_run < 20,
        "what moves while the scheduler is attached costs nothing: {before_the_run}"
    );
}

#[test]
fn lines_cost_what_the_machine_says_and_nothing_where_it_has_none() {
    let priced = |line_transfer| {
        let mut machine = machine();
        machine.costs.line_transfer = DurationNs(line_transfer);
        machine
    };
    let Some(free) = simulate(&priced(0), false) else { return };
    let dear = simulate(&priced(1_000), false).unwrap();
    assert!(dear.costs.sched_cost > free.costs.sched_cost + DurationNs(500) * dear.costs.lines);
    let none = simulate(&Machine::uniform("test", 2), false).unwrap();
    assert_eq!((none.costs.lines, none.trace_hash), (0, free.trace_hash));
    assert_eq!(none.scheduler.unwrap().lines_by_symbol(1), None);
}

#[test]
fn the_threads_of_a_core_share_its_lines() {
    let mut threads = machine();
    threads.cpus[1].core = 0;
    let Some(result) = simulate(&threads, false) else { return };
    assert_eq!(result.costs.lines, 0);
}
