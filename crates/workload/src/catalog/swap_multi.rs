//! `swap-multi`: a client that one of several servers can serve, each at its own speed (Zheng and
//! Nieh 2004, section 4.3). What is shown is how fast a dependency tracker finds out which task
//! serves first.

use crate::program::{Amount, Op, ProgramBuilder};
use crate::scenario::{End, Scenario};
use schedlab_base::DurationNs;

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};
use super::swap::{HOGS, IMPORTANT, ITERATIONS, METRICS, iteration_metrics, make_important};

pub(super) const SWAP_MULTI: WorkloadInfo = WorkloadInfo {
    name: "swap-multi",
    about: "a client waits for the first of several servers: System V semaphores",
    params: &[
        HOGS,
        // The paper shows 15.
        ParamInfo { default: "15", about: "how often the client waits for a server", ..ITERATIONS },
        ParamInfo {
            name: "servers",
            // The paper's numbers of sorts.
            default: "2/5/5/10/10",
            unit: "",
            about: "units of work that each server needs to serve, one number per server",
            kind: ParamKind::CountList { max: 1_000_000 },
        },
        ParamInfo {
            name: "unit",
            default: "100ms",
            unit: "ms",
            about: "CPU time of one unit of work",
            kind: ParamKind::Duration("ms"),
        },
        IMPORTANT,
        ParamInfo {
            name: "restart",
            // Inferred: only so do the paper's 0.8 to 1.4 s per iteration come about.
            default: "yes",
            unit: "",
            about: "servers abandon what they do when the client has been served and start afresh",
            kind: ParamKind::Word(&["yes", "no"]),
        },
        ParamInfo {
            name: "known",
            default: "no",
            unit: "",
            // The paper takes each task that has touched the semaphore for one that may post it.
            about: "every server has used the semaphore before the first iteration",
            kind: ParamKind::Word(&["yes", "no"]),
        },
    ],
    metrics: METRICS,
    build,
};

fn build(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    if params.duration("unit") == DurationNs::ZERO {
        return Err(params.error("unit", "a unit of work needs some CPU time"));
    }
    let mut draft = Draft::new("swap-multi", params, End::ForegroundExit);
    let (span, full, generation) = (draft.span(), draft.semaphore(0), draft.word());
    let restart = params.word("restart") == "yes";
    let starts: Vec<_> = params.counts("servers").iter().map(|_| draft.semaphore(0)).collect();
    let known = (params.word("known") == "yes").then(|| draft.barrier(starts.len() as u32 + 1));
    // What a task does before the first iteration, in which the client takes back what the servers post here.
    let before = |ops: &[Op]| {
        let builder = ProgramBuilder::new();
        let Some(barrier) = known else { return builder };
        ops.iter().fold(builder, |b, op| b.op(*op)).op(Op::Barrier(barrier))
    };
    let client = before(&[]).repeat(Amount::Times(params.count("iterations")), |b| {
        let b = if restart {
            let b = b.op(Op::Advance(generation)).op(Op::SemDrain(full));
            starts.iter().fold(b, |b, &sem| b.op(Op::SemPost { sem, units: 1 }))
        } else {
            b.op(Op::SemDrain(full))
        };
        b.op(Op::SpanBegin(span)).op(Op::SemWait(full)).op(Op::SpanEnd(span))
    });
    let client = draft.program(client);
    let process = draft.process();
    make_important(draft.task("client".into(), process, client), params);
    let run = Op::Run(params.duration("unit"));
    for (number, (&units, &start)) in params.counts("servers").iter().zip(&starts).enumerate() {
        let body = before(&[Op::SemPost { sem: full, units: 1 }]).repeat(Amount::Forever, |b| {
            let b = if restart {
                // One start is enough, however often the client has asked meanwhile.
                b.op(Op::SemWait(start)).op(Op::SemDrain(start)).op(Op::Note(generation))
            } else {
                b
            };
            b.repeat(Amount::Times(units), |b| {
                let b = b.op(run);
                if restart { b.op(Op::RestartIfChanged(generation)) } else { b }
            })
            .op(Op::SemPost { sem: full, units: 1 })
        });
        let program = draft.program(body);
        let process = draft.process();
        draft.task(format!("server/{number}"), process, program).background = true;
    }
    draft.background_hogs(params.count32("hogs"));
    iteration_metrics(&mut draft, span);
    draft.series("iteration_time", span);
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;

    #[test]
    fn there_is_a_server_for_each_number() {
        let scenario = build("swap-multi:servers=1/2/3,hogs=2", 1).unwrap();
        let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["client", "server/0", "server/1", "server/2", "hog/0", "hog/1"]);
        assert_eq!(scenario.semaphores.len(), 4);
        let error = build("swap-multi:servers=2/0", 1).unwrap_err().to_string();
        assert!(error.contains("whole numbers from 1"), "{error}");
    }
}
