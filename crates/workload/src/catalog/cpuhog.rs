//! `cpuhog`: tasks that compute and never block (Libenzi 2001; the background load of Zheng and
//! Nieh 2004). `keyboard`: such tasks while a key repeats, "the couple of CPU bound tasks with the
//! keyboard ticking" of Libenzi's text.

use schedlab_base::{Better, DurationNs, Nice};

use crate::measure::{CounterId, Formula, MetricSpec};
use crate::program::{Amount, Op, ProgramBuilder, TimerSlot};
use crate::scenario::{End, MOST_TASKS, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

pub(super) const CPUHOG: WorkloadInfo = WorkloadInfo {
    name: "cpuhog",
    about: "tasks that compute for a fixed time and never block",
    params: &[
        ParamInfo {
            name: "ntasks",
            // Libenzi's traces: 2 on one CPU, 3 on two.
            default: "3",
            unit: "",
            about: "number of tasks, one process each",
            kind: ParamKind::Count { min: 1, max: MOST_TASKS },
        },
        ParamInfo {
            name: "nice",
            default: "0",
            unit: "",
            about: "nice values, used cyclically (0/5)",
            kind: ParamKind::NiceList,
        },
        ParamInfo {
            name: "size",
            default: "0",
            unit: "kB",
            about: "buffer that each task walks; 0 only spins",
            kind: ParamKind::Count { min: 0, max: 1 << 20 },
        },
        ParamInfo {
            name: "ttime",
            // The shorter of Libenzi's two run lengths.
            default: "8s",
            unit: "s",
            about: "how long to run",
            kind: ParamKind::Duration("s"),
        },
    ],
    metrics: &[("work", "loops")],
    build,
};

pub(super) const KEYBOARD: WorkloadInfo = WorkloadInfo {
    name: "keyboard",
    about: "tasks that compute while a short task wakes at the rate of a held key",
    params: &[
        ParamInfo {
            name: "ntasks",
            // The document's command line.
            default: "2",
            unit: "",
            about: "number of computing tasks, one process each",
            kind: ParamKind::Count { min: 1, max: 100_000 },
        },
        ParamInfo {
            name: "period",
            // The document's trace 1: the kernel thread of the keyboard runs every 35.0 to 36.6 ms at 1 GHz.
            default: "35.8ms",
            unit: "ms",
            about: "time from one key to the next, above 0",
            kind: ParamKind::Duration("ms"),
        },
        ParamInfo {
            name: "run",
            // The same rows: 4.1 to 8.5 us from switch to switch, scheduling included.
            default: "4us",
            unit: "us",
            about: "CPU time for a key, above 0",
            kind: ParamKind::Duration("us"),
        },
        ParamInfo {
            name: "by",
            // The document's trace: process 2, keventd.
            default: "kernel",
            unit: "",
            about: "who serves the key: a kernel thread or a user's task",
            kind: ParamKind::Word(&["kernel", "user"]),
        },
        ParamInfo {
            name: "ttime",
            default: "8s",
            unit: "s",
            about: "how long to run",
            kind: ParamKind::Duration("s"),
        },
    ],
    metrics: &[("work", "loops"), ("keys", "keys")],
    build: build_keyboard,
};

fn build(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("cpuhog", params, End::After(params.duration("ttime")));
    add_hogs(&mut draft, params.count32("ntasks"), params.nices("nice"), params.count32("size"));
    draft.finish()
}

/// Adds hogs and the figure of what they did.
fn add_hogs(draft: &mut Draft, count: u32, nices: &[Nice], size: u32) {
    let loops = draft.counter();
    let work = if size == 0 { Op::Run(DurationNs::from_ms(1)) } else { Op::Touch { kib: size } };
    let body = ProgramBuilder::new()
        .repeat(Amount::Forever, |b| b.op(work).op(Op::Count { counter: loops, units: 1 }));
    let program = draft.program(body);
    for number in 0..count {
        let process = draft.process();
        let task = draft.task(format!("hog/{number}"), process, program);
        task.nice = nices[number as usize % nices.len()];
        task.working_set_kib = size;
    }
    draft.metric(counted("work", "loops", loops));
}

fn counted(name: &str, unit: &'static str, counter: CounterId) -> MetricSpec {
    MetricSpec { name: name.into(), unit, better: Better::Higher, formula: Formula::Count(counter) }
}

/// What the document's key wakes is a kernel thread. A shipped policy has a say in those only with
/// `kernel_threads=1`.
fn build_keyboard(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (period, run) = (params.duration("period"), params.duration("run"));
    for (name, span) in [("period", period), ("run", run)] {
        if span == DurationNs::ZERO {
            return Err(params.error(name, "a key needs some time"));
        }
    }
    let mut draft = Draft::new("keyboard", params, End::After(params.duration("ttime")));
    add_hogs(&mut draft, params.count32("ntasks"), &[Nice::ZERO], 0);
    let keys = draft.counter();
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        b.op(Op::TimerWait { timer: TimerSlot(0), period, absolute: true })
            .op(Op::Run(run))
            .op(Op::Count { counter: keys, units: 1 })
    });
    let (program, process) = (draft.program(body), draft.process());
    draft.task("keyboard".into(), process, program).kernel_thread = params.word("by") == "kernel";
    draft.metric(counted("keys", "keys", keys));
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn nice_values_are_used_cyclically() {
        let scenario = build("cpuhog:ntasks=3,nice=0/5,ttime=2s", 1).unwrap();
        let nices: Vec<i32> = scenario.tasks.iter().map(|task| task.nice.get()).collect();
        assert_eq!(nices, [0, 5, 0]);
        assert_eq!(scenario.end, End::After(DurationNs::from_secs(2)));
        assert_eq!(scenario.tasks[1].name, "hog/1");
    }

    #[test]
    fn a_size_is_walked() {
        let scenario = build("cpuhog:size=64", 1).unwrap();
        assert!(scenario.programs[0].ops().contains(&Op::Touch { kib: 64 }));
        assert_eq!(scenario.tasks[0].working_set_kib, 64);
    }

    #[test]
    fn the_key_comes_after_the_hogs_and_repeats() {
        let scenario = build("keyboard", 1).unwrap();
        let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["hog/0", "hog/1", "keyboard"]);
        let period = DurationNs::from_us(35_800);
        let wait = Op::TimerWait { timer: TimerSlot(0), period, absolute: true };
        assert!(scenario.programs[1].ops().contains(&wait));
        assert!(build("keyboard:run=0", 1).unwrap_err().to_string().contains("parameter run"));
    }
}
