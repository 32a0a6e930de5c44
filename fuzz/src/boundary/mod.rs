//! Object, link, kernel functions and simulator as one: well-typed hostile programs run as schedulers.
//!
//! The programs are scripts (`script`) for one object, the driver (`driver/driver.bpf.c`), which makes the calls that a script names. The function [`run`] keeps the loaded driver and goes back to its start for each input. The function [`run_whole`] writes the
//! script into the object file and loads that, on both engines, which have to agree.

mod script;

use schedlab_base::{DurationNs, Machine};
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, Start, run as simulate};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_workload::{Scenario, catalog};
use std::cell::RefCell;

/// The driver as a scheduler of CPUs and of cids.
static DRIVERS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/cpu.bpf.o")),
    include_bytes!(concat!(env!("OUT_DIR"), "/cid.bpf.o")),
];
/// What the script begins with in an object file.
const SCRIPT_MARK: [u8; 8] = 0x7363_6865_6466_6c62_u64.to_le_bytes();
/// Instructions that one callback may execute.
const BUDGET: u64 = 50_000;
/// Length of a run in the simulation.
const LIMIT: DurationNs = DurationNs::from_us(400);
/// What is scheduled: tasks that sleep and wake each other, and fork.
const WORKLOADS: [&str; 2] =
    ["periodic:tasks=3,run=30us,sleep=20us,ttime=1ms", "swap-pipe:hogs=1,iterations=2,service=1"];

/// A loaded driver and where it began.
struct House {
    scheduler: Option<BpfScheduler>,
    start: Start,
}

/// All that stays between executions.
struct Street {
    config: Config,
    scenarios: Vec<Scenario>,
    /// By form, compiled and interpreted; empty until the first visit.
    houses: [[Option<House>; 2]; 2],
}

fn machine() -> Machine {
    Machine::uniform("fuzz", 2)
}

fn load(bytes: &[u8], interpret: bool) -> BpfScheduler {
    let engine = if interpret { EngineChoice::Interpreted } else { EngineChoice::Compiled };
    let options = LoadOptions { budget: BUDGET, engine, check_contexts: false, ..LoadOptions::default() };
    BpfScheduler::load("driver", bytes, &options, &machine()).expect("the driver loads")
}

impl Street {
    fn new() -> Street {
        let config = Config { limit: Some(LIMIT), ..Config::new(machine(), 1) };
        let build = |name: &&str| catalog::build(name, 1).expect("a workload of the catalogue");
        Street { config, scenarios: WORKLOADS.iter().map(build).collect(), houses: Default::default() }
    }

    /// Runs a script in one of the houses.
    fn visit(
        &mut self,
        form: usize,
        interpret: bool,
        workload: usize,
        script: &[u8],
    ) -> RunResult<BpfScheduler> {
        let house = self.houses[form][usize::from(interpret)].get_or_insert_with(|| {
            let scheduler = load(DRIVERS[form], interpret);
            House { start: scheduler.keep(), scheduler: Some(scheduler) }
        });
        let mut scheduler = house.scheduler.take().expect("given back by the run before");
        scheduler.begin_again(&house.start);
        scheduler.write_variable("script", script).expect("the driver has a script");
        let class = Class::Ext(scheduler);
        let mut result = simulate(&self.config, &self.scenarios[workload], class).expect("the workload ends");
        house.scheduler = result.scheduler.take();
        result
    }
}

thread_local! {
    static STREET: RefCell<Option<Street>> = const { RefCell::new(None) };
}

/// What has to hold of every run.
fn is_sound(result: &RunResult<BpfScheduler>) {
    let exit = &result.exit;
    assert!(
        !exit.kind.is_ejection() || !exit.message.is_empty() || !exit.reason.is_empty(),
        "no reason: {exit:?}"
    );
}

/// The first byte chooses form, workload, checkers and whether both engines run it; the rest is the script.
fn split(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, &[]), |(first, rest)| (*first, rest))
}

/// Runs an input in a loaded driver.
///
/// # Panics
/// On a defect.
pub fn run(input: &[u8]) {
    let (choice, rest) = split(input);
    let script = script::of(rest);
    let (form, workload) = (usize::from(choice & 1), usize::from(choice >> 1 & 1));
    with_street(|here| {
        here.config.checkers = choice & 0x30 == 0x30;
        let result = here.visit(form, false, workload, &script);
        is_sound(&result);
        if choice & 0xc0 == 0xc0 {
            let again = here.visit(form, true, workload, &script);
            agree(&result, &again);
        }
    });
}

/// Calls a function with what this thread keeps.
fn with_street<T>(call: impl FnOnce(&mut Street) -> T) -> T {
    STREET.with_borrow_mut(|street| {
        // A panic in a run leaves a house empty, and the thread's next input needs one: the street goes with it.
        let mut here = street.take().unwrap_or_else(Street::new);
        let result = call(&mut here);
        *street = Some(here);
        result
    })
}

/// Two runs of one script gave the same.
fn agree(one: &RunResult<BpfScheduler>, other: &RunResult<BpfScheduler>) {
    assert_eq!(one.exit, other.exit, "the runs end differently");
    assert_eq!(one.costs, other.costs, "the runs cost different amounts");
    assert_eq!(one.trace_hash, other.trace_hash, "the runs have different traces");
}

/// Runs an input as an object file of its own. The script is written into the file's data, which passes through every
/// step from its bytes on, on both engines. A loaded driver that begins again must run it in the same way.
///
/// # Panics
/// On a defect.
pub fn run_whole(input: &[u8]) {
    let (choice, rest) = split(input);
    let (form, workload) = (usize::from(choice & 1), usize::from(choice >> 1 & 1));
    let mut object = DRIVERS[form].to_vec();
    let place = object.windows(8).position(|bytes| bytes == SCRIPT_MARK).expect("the driver has a script");
    let script = script::of(rest);
    object[place..place + script.len()].copy_from_slice(&script);
    let scenario = catalog::build(WORKLOADS[workload], 1).expect("a workload of the catalogue");
    let config = Config { limit: Some(LIMIT), checkers: choice & 0x30 == 0x30, ..Config::new(machine(), 1) };
    let [compiled, interpreted] = [false, true].map(|interpret| {
        simulate(&config, &scenario, Class::Ext(load(&object, interpret))).expect("the workload ends")
    });
    is_sound(&compiled);
    agree(&compiled, &interpreted);
    let kept = with_street(|here| {
        here.config.checkers = config.checkers;
        here.visit(form, false, workload, &script)
    });
    agree(&compiled, &kept);
}
