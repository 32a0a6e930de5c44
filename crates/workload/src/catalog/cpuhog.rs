//! `cpuhog`: tasks that compute and never block (Libenzi 2001; the background
//! load of Zheng and Nieh 2004).

use schedlab_base::{Better, DurationNs};

use crate::measure::{Formula, MetricSpec};
use crate::program::{Amount, Op, ProgramBuilder};
use crate::scenario::{End, Scenario};

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
            kind: ParamKind::Count { min: 1, max: 100_000 },
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

fn build(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (nices, size) = (params.nices("nice"), params.count32("size"));
    let mut draft = Draft::new("cpuhog", params, End::After(params.duration("ttime")));
    let loops = draft.counter();
    let work = if size == 0 { Op::Run(DurationNs::from_ms(1)) } else { Op::Touch { kib: size } };
    let body = ProgramBuilder::new()
        .repeat(Amount::Forever, |b| b.op(work).op(Op::Count { counter: loops, units: 1 }));
    let program = draft.program(body);
    for number in 0..params.count32("ntasks") {
        let process = draft.process();
        let task = draft.task(format!("hog/{number}"), process, program);
        task.nice = nices[number as usize % nices.len()];
        task.working_set_kib = size;
    }
    draft.metric(MetricSpec {
        name: "work".into(),
        unit: "loops",
        better: Better::Higher,
        formula: Formula::Count(loops),
    });
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
}
