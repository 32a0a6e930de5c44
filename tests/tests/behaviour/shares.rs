//! Two hogs on one CPU under every scheduler: their shares are what the arithmetic of its rules says. A scheduler without a
//! row fails: the list is that of the objects. And what is charged to a task that is changed.

use std::collections::BTreeMap;

use schedlab_base::{DurationNs, Machine, Nice, Policy};
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config};
use schedlab_tests::shipped;
use schedlab_workload::{Attribute, ChangeId, Op, TaskRef};

use crate::behaviour::lab::{Lab, Load, forever, hogs, ms, near};

/// Nice values of the two hogs.
const PAIRS: [[i32; 2]; 7] = [[0, 0], [0, 5], [0, 10], [0, 19], [-5, 0], [-20, 0], [-10, 10]];

/// What a scheduler's arithmetic gives the two of each pair, in any unit.
struct Row {
    scheduler: &'static str,
    /// The quantity that shares are in proportion to.
    unit: &'static str,
    parts: [[f64; 2]; 7],
    /// Points that a share may be off: 2, and what the specification allows where it is a simulation itself.
    within: f64,
    length: DurationNs,
}

impl Row {
    const fn new(scheduler: &'static str, unit: &'static str, parts: [[f64; 2]; 7]) -> Row {
        Row { scheduler, unit, parts, within: 0.02, length: DurationNs::from_secs(20) }
    }
}

/// Linux 2.4's ticks of an epoch: (20 - nice) / 4 + 1.
const EPOCHS: [[f64; 2]; 7] =
    [[6.0, 6.0], [6.0, 4.0], [6.0, 3.0], [6.0, 1.0], [7.0, 6.0], [11.0, 6.0], [8.0, 3.0]];

const ROWS: &[Row] = &[
    Row::new(
        "eevdf",
        "weight (sched_prio_to_weight of Linux)",
        [
            [1024.0, 1024.0],
            [1024.0, 335.0],
            [1024.0, 110.0],
            [1024.0, 15.0],
            [3121.0, 1024.0],
            [88761.0, 1024.0],
            [9548.0, 110.0],
        ],
    ),
    Row::new("vanilla", "ticks of an epoch", EPOCHS),
    Row::new("libenzi", "ticks of an epoch", EPOCHS),
    Row::new(
        "hamq",
        "ticks of an epoch",
        [[3.0, 3.0], [3.0, 2.0], [3.0, 2.0], [3.0, 1.0], [4.0, 3.0], [6.0, 3.0], [5.0, 2.0]],
    ),
    Row::new(
        "o1",
        "ms of a slice",
        [
            [100.0, 100.0],
            [100.0, 75.0],
            [100.0, 50.0],
            [100.0, 5.0],
            [500.0, 100.0],
            [800.0, 100.0],
            [600.0, 50.0],
        ],
    ),
    Row::new(
        "staircase",
        "ms of a staircase",
        [
            [200.0, 200.0],
            [200.0, 150.0],
            [200.0, 100.0],
            [200.0, 10.0],
            [250.0, 200.0],
            [400.0, 200.0],
            [300.0, 100.0],
        ],
    ),
    Row::new(
        "ule",
        "ticks of a slice",
        [[18.0, 18.0], [18.0, 14.0], [18.0, 9.0], [18.0, 1.0], [18.0, 14.0], [18.0, 1.0], [18.0, 1.0]],
    ),
    Row {
        scheduler: "bsd4",
        unit: "share in a simulation of the source's rules",
        parts: [
            [0.5, 0.5],
            [0.577, 0.423],
            [0.617, 0.383],
            [0.723, 0.277],
            [0.577, 0.423],
            [0.735, 0.265],
            [0.735, 0.265],
        ],
        within: 0.05,
        // The load average, by which estcpu decays, takes a minute to rise.
        length: DurationNs::from_secs(200),
    },
];

/// Shares of the two hogs.
fn shares(name: &str, object: Option<&[u8]>, nice: [i32; 2], length: DurationNs) -> [f64; 2] {
    let machine = Machine::uniform("one", 1);
    let class = match object {
        None => Class::Fair,
        Some(bytes) => {
            let scheduler = BpfScheduler::load(name, bytes, &LoadOptions::default(), &machine);
            Class::Ext(scheduler.expect("a shipped object loads"))
        }
    };
    let scenario = hogs(ms(length.0 / 1_000_000), &nice).0;
    let result = run(&Config::new(machine, 1), &scenario, class).expect("a correct scenario");
    assert!(!result.exit.kind.is_ejection(), "{name}: {:?}", result.exit);
    [result.tasks[0].share, result.tasks[1].share]
}

#[test]
fn hogs_share_as_the_specifications_say() {
    let mut objects: BTreeMap<String, Option<Vec<u8>>> =
        shipped().into_iter().map(|(name, object)| (name, Some(object))).collect();
    objects.insert("eevdf".to_string(), None);
    let mut findings = Vec::new();
    for (name, object) in &objects {
        let Some(row) = ROWS.iter().find(|row| row.scheduler == name) else {
            findings.push(format!("{name} has no row in tests/tests/behaviour/shares.rs"));
            continue;
        };
        for (nice, parts) in PAIRS.into_iter().zip(row.parts) {
            let seen = shares(name, object.as_deref(), nice, row.length);
            let expected = parts[0] / (parts[0] + parts[1]);
            if (seen[0] - expected).abs() > row.within || (seen[1] - (1.0 - expected)).abs() > row.within {
                let [first, second] = seen;
                findings.push(format!(
                    "{name}, nice {nice:?}: {first:.3} and {second:.3}, not {expected:.3} by {}",
                    row.unit
                ));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Time in which another CPU changes a running task is that task's: the clock of its run queue stands still meanwhile.
#[test]
fn changes_take_no_run_time() {
    let mut load = Load::new(ms(20)).task(0, forever(&[Op::RunKernel(DurationNs(1))]));
    load.0.changes = [5, 10].map(|nice| Attribute::Nice(Nice::new(nice).expect("a nice value"))).to_vec();
    let set = |change| Op::Set { task: Some(TaskRef(0)), change: ChangeId(change) };
    let load = load.task(0, forever(&[set(0), set(1)])).policy(Policy::Fifo(99));
    let seen = Lab::new("bsd4").cpus(2).run(load);
    near(seen.share(0), 1.0, 0.01);
}
