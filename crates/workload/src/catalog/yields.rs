//! `lat-sched`: tasks that do nothing but yield (Libenzi 2001), and `periodic`:
//! tasks that run a little and sleep a little.

use schedlab_base::Better;

use crate::measure::{Formula, MetricSpec};
use crate::program::{Amount, Op, ProgramBuilder};
use crate::scenario::{End, MOST_TASKS, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

pub(super) const LAT_SCHED: WorkloadInfo = WorkloadInfo {
    name: "lat-sched",
    about: "tasks of one address space that call sched_yield all the time",
    params: &[
        ParamInfo {
            name: "ntasks",
            default: "4",
            unit: "",
            about: "number of tasks",
            kind: ParamKind::Count { min: 1, max: 100_000 },
        },
        ParamInfo {
            name: "size",
            default: "0",
            unit: "kB",
            about: "buffer that a task walks between two yields",
            kind: ParamKind::Count { min: 0, max: 1 << 20 },
        },
        // The document samples 12 s of 20 s; without its noise less is enough.
        ParamInfo::time("ttime", "2s", "s", "how long to run"),
    ],
    metrics: &[("time_per_yield", "us"), ("yields", "yields")],
    build: build_lat_sched,
};

pub(super) const PERIODIC: WorkloadInfo = WorkloadInfo {
    name: "periodic",
    about: "tasks that compute for a while, sleep for a while, and so on",
    params: &[
        ParamInfo {
            name: "tasks",
            default: "4",
            unit: "",
            about: "number of tasks, one process each",
            kind: ParamKind::Count { min: 1, max: MOST_TASKS },
        },
        ParamInfo::time("run", "1ms", "us", "CPU time per turn, above 0"),
        ParamInfo::time("sleep", "9ms", "us", "sleep between two turns"),
        ParamInfo::time("ttime", "5s", "s", "how long to run"),
    ],
    metrics: &[("turn_time", "ms"), ("turns", "turns")],
    build: build_periodic,
};

fn build_lat_sched(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let size = params.count32("size");
    let mut draft = Draft::new("lat-sched", params, End::After(params.duration("ttime")));
    let yields = draft.counter();
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        let b = b.op(Op::Yield).op(Op::Count { counter: yields, units: 1 });
        if size == 0 { b } else { b.op(Op::Touch { kib: size }) }
    });
    let program = draft.program(body);
    let process = draft.process();
    for number in 0..params.count32("ntasks") {
        draft.task(format!("yield/{number}"), process, program).working_set_kib = size;
    }
    draft.metric(MetricSpec {
        name: "time_per_yield".into(),
        unit: "us",
        better: Better::Lower,
        formula: Formula::TimePerUnitUs { counter: yields, over: None, times_cpus: true },
    });
    draft.metric(MetricSpec {
        name: "yields".into(),
        unit: "yields",
        better: Better::Higher,
        formula: Formula::Count(yields),
    });
    draft.finish()
}

fn build_periodic(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (run, sleep) = (params.duration("run"), params.duration("sleep"));
    if run.0 == 0 {
        return Err(params.error("run", "a turn needs some CPU time"));
    }
    let mut draft = Draft::new("periodic", params, End::After(params.duration("ttime")));
    let (turns, span) = (draft.counter(), draft.span());
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        let b = b
            .op(Op::SpanBegin(span))
            .op(Op::Run(run))
            .op(Op::SpanEnd(span))
            .op(Op::Count { counter: turns, units: 1 });
        if sleep.0 == 0 { b } else { b.op(Op::Sleep(sleep)) }
    });
    let program = draft.program(body);
    for number in 0..params.count32("tasks") {
        let process = draft.process();
        draft.task(format!("periodic/{number}"), process, program);
    }
    draft.metric(MetricSpec {
        name: "turn_time".into(),
        unit: "ms",
        better: Better::Lower,
        formula: Formula::MeanSpanMs(span),
    });
    draft.metric(MetricSpec {
        name: "turns".into(),
        unit: "turns",
        better: Better::Higher,
        formula: Formula::Count(turns),
    });
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use schedlab_base::DurationNs;

    #[test]
    fn yielders_share_a_process() {
        let scenario = build("lat-sched:ntasks=8,ttime=1", 1).unwrap();
        assert!(scenario.tasks.iter().all(|task| task.process == scenario.tasks[0].process));
        assert_eq!(scenario.end, End::After(DurationNs::from_secs(1)));
    }

    #[test]
    fn a_turn_needs_cpu_time() {
        assert!(build("periodic:run=0", 1).unwrap_err().to_string().contains("parameter run"));
        assert_eq!(build("periodic:tasks=3,run=200,sleep=1ms", 1).unwrap().tasks.len(), 3);
    }
}
