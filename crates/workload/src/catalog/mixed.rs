//! `mixed`: much at once, for tests of endurance. It has a chat that does not end, hogs of three nice values, tasks
//! that fork and wait, and a real-time task. Another task moves tasks between CPUs and changes their nice values.

use schedlab_base::{Better, CpuId, CpuMask, DurationNs, Nice, Policy};

use super::WorkloadInfo;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};
use crate::identity::Identity;
use crate::measure::{CounterId, Formula, MetricSpec};
use crate::program::{Amount, ChangeId, Op, ProgramBuilder, ProgramId, TaskRef};
use crate::scenario::{Attribute, End, ProcessId, Scenario, TaskSpec};

pub(super) const MIXED: WorkloadInfo = WorkloadInfo {
    name: "mixed",
    about: "chat, hogs, forks, a FIFO task and changes of CPUs and nice values at once",
    params: &[ParamInfo {
        name: "ttime",
        default: "60s",
        unit: "s",
        about: "how long to run",
        kind: ParamKind::Duration("s"),
    }],
    metrics: &[("messages", "messages"), ("work", "loops"), ("forks", "forks"), ("changes", "changes")],
    build,
};

/// Nice values of the hogs; chosen, one of each kind.
const HOGS: [i64; 3] = [0, 5, 19];

fn build(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    // As many messages as a System V semaphore can count (32767), which is more than a minute's work.
    let mut scenario = super::build("chat:rooms=1,messages=30000", seed)?;
    (scenario.name, scenario.params) = ("mixed".to_string(), params.effective());
    scenario.end = End::After(params.duration("ttime"));
    scenario.metrics.clear();
    // What chat counts.
    metric(&mut scenario, "messages", "messages", CounterId(0));
    let work = counter(&mut scenario, "work", "loops");
    let forks = counter(&mut scenario, "forks", "forks");
    let changes = counter(&mut scenario, "changes", "changes");
    let one = |counter| Op::Count { counter, units: 1 };
    let run = |ms| Op::Run(DurationNs::from_ms(ms));
    let sleep = |ms| Op::Sleep(DurationNs::from_ms(ms));
    let hog = program(&mut scenario, forever(&[run(2), one(work)]));
    let child = program(&mut scenario, ProgramBuilder::new().op(Op::Exec).op(run(2)));
    let forker = [Op::Fork { program: child }, Op::WaitChild, Op::Yield, one(forks)];
    let forker = program(&mut scenario, forever(&forker));
    let regular = program(&mut scenario, forever(&[run(1), sleep(9)]));
    let first_hog = scenario.tasks.len() as u32;
    for (number, nice) in HOGS.into_iter().enumerate() {
        let task = task(&mut scenario, format!("hog/{number}"), hog);
        task.nice = Nice::new(nice).expect("a nice value");
    }
    for number in 0..2 {
        task(&mut scenario, format!("fork/{number}"), forker);
    }
    task(&mut scenario, "fifo".to_string(), regular).policy = Policy::Fifo(10);
    let hand = hand(&mut scenario, first_hog, sleep(20), one(changes));
    let hand = program(&mut scenario, hand);
    task(&mut scenario, "hand".to_string(), hand).policy = Policy::Fifo(50);
    scenario.validate().map_err(|error| CatalogError(error.to_string()))?;
    Ok(scenario)
}

/// Moves two hogs and a chat thread to CPU 0, to CPU 1 and back to all, and makes a hog nicer for a while.
fn hand(scenario: &mut Scenario, first_hog: u32, pause: Op, count: Op) -> ProgramBuilder {
    let only = |cpu| Attribute::Affinity(CpuMask::single(CpuId(cpu)));
    let all = Attribute::Affinity(CpuMask::first(schedlab_base::MAX_CPUS));
    let nice = |value| Attribute::Nice(Nice::new(value).expect("a nice value"));
    scenario.changes = vec![only(0), only(1), all, nice(-5), nice(10)];
    let set = |task: u32, change: u32| Op::Set { task: Some(TaskRef(task)), change: ChangeId(change) };
    let steps = [(0, 0), (first_hog, 0), (first_hog + 1, 1), (first_hog, 3), (0, 1), (first_hog, 1)];
    let back = [(first_hog, 4), (first_hog + 1, 2), (0, 2), (first_hog, 2)];
    let ops: Vec<Op> =
        steps.into_iter().chain(back).flat_map(|(task, change)| [pause, set(task, change), count]).collect();
    forever(&ops)
}

fn forever(ops: &[Op]) -> ProgramBuilder {
    ProgramBuilder::new().repeat(Amount::Forever, |b| ops.iter().fold(b, |b, op| b.op(*op)))
}

fn program(scenario: &mut Scenario, builder: ProgramBuilder) -> ProgramId {
    scenario.programs.push(builder.build().expect("the catalogue writes well-formed programs"));
    ProgramId(scenario.programs.len() as u32 - 1)
}

fn counter(scenario: &mut Scenario, name: &str, unit: &'static str) -> CounterId {
    scenario.counters += 1;
    let counter = CounterId(scenario.counters - 1);
    metric(scenario, name, unit, counter);
    counter
}

fn metric(scenario: &mut Scenario, name: &str, unit: &'static str, counter: CounterId) {
    let formula = Formula::Count(counter);
    scenario.metrics.push(MetricSpec { name: name.into(), unit, better: Better::Higher, formula });
}

/// A process of its own.
fn task(scenario: &mut Scenario, name: String, program: ProgramId) -> &mut TaskSpec {
    let process = scenario.tasks.iter().map(|task| task.process.0 + 1).max().unwrap_or(0);
    scenario.tasks.push(TaskSpec {
        name,
        program,
        process: ProcessId(process),
        nice: Nice::ZERO,
        policy: Policy::Other,
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: false,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    });
    scenario.tasks.last_mut().expect("just pushed")
}
