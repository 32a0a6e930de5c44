//! `mkbench`: several parallel builds at once (Kravetz 2002: kernel builds with
//! `make -j 8`, average build time).
//!
//! The model has a serial part before and after, and objects between. The objects' CPU times follow
//! the distribution of a real build of a Kbuild tree, rescaled so that they add up to the published
//! work exactly. An object is compiled by a chain of processes: driver, then tools, compiler and
//! assembler one after the other.

use schedlab_base::{Better, DurationNs, Prng};

use crate::measure::{Formula, MetricSpec, SpanId};
use crate::program::{Amount, DiskId, Op, ProgramBuilder, ProgramId};
use crate::scenario::{End, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::draws::{exponential, poisson};
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// CPU time of `make` before it starts an object. Chosen.
const DISPATCH: DurationNs = DurationNs(400_000);

/// CPU time of `make` after an object is done. Chosen.
const REAP: DurationNs = DurationNs(100_000);

/// Mean service time of a disk read of a cold build. Chosen: a seek of the time.
const READ: DurationNs = DurationNs::from_ms(4);

/// Mean number of disk reads of an object besides the first. Chosen.
const MORE_READS: u64 = 2;

/// Working sets in KiB. Chosen: a compiler fills a second-level cache of its time.
pub(super) const MAKE_KIB: u32 = 64;
pub(super) const STAGE_KIB: u32 = 256;

/// CPU time of a compilation over its mean, in thousandths, at quantiles in
/// thousandths: measured on 577 compilations of a default BusyBox 1.37 (gcc 12, warm cache).
const QUANTILES: [(u64, u64); 13] = [
    (0, 128),
    (10, 147),
    (50, 484),
    (100, 507),
    (250, 571),
    (500, 668),
    (750, 996),
    (900, 1643),
    (950, 2219),
    (980, 3391),
    (990, 5007),
    (995, 7968),
    (1000, 21580),
];

pub(super) const MKBENCH: WorkloadInfo = WorkloadInfo {
    name: "mkbench",
    about: "parallel builds: make starts chains of short processes, up to a number of jobs",
    params: &[
        ParamInfo {
            name: "makes",
            default: "1",
            unit: "",
            about: "builds at once (1 to 6 in the document)",
            kind: ParamKind::Count { min: 1, max: 1_000 },
        },
        ParamInfo {
            name: "jobs",
            default: "8",
            unit: "",
            about: "jobs of each build (make -j)",
            kind: ParamKind::Count { min: 1, max: 10_000 },
        },
        ParamInfo {
            name: "scale",
            default: "0.01",
            unit: "",
            about: "multiplies all CPU work; 1 is a kernel build on a 700 MHz CPU",
            kind: ParamKind::Factor,
        },
        ParamInfo {
            name: "cold",
            default: "0",
            unit: "",
            about: "1: every object first reads from the disk",
            kind: ParamKind::Count { min: 0, max: 1 },
        },
        ParamInfo {
            name: "objects",
            default: "1000",
            unit: "",
            about: "objects of a build",
            kind: ParamKind::Count { min: 1, max: 100_000 },
        },
        ParamInfo {
            name: "parallel_work",
            // Inferred: 4 x (188 s on 2 CPUs - 102 s on 4) of one vanilla build.
            default: "344s",
            unit: "s",
            about: "CPU time of all objects of a build at scale 1",
            kind: ParamKind::Duration("s"),
        },
        ParamInfo {
            name: "serial_work",
            // Inferred: 188 s - 344 s / 2; three eighths before, the rest after.
            default: "16s",
            unit: "s",
            about: "CPU time of a build that nothing runs beside, at scale 1",
            kind: ParamKind::Duration("s"),
        },
    ],
    metrics: &[
        ("build_time_avg", "s"),
        ("makespan", "s"),
        ("build_time_fastest", "s"),
        ("build_time_slowest", "s"),
    ],
    build,
};

fn build(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("mkbench", params, End::AllExit);
    draft.child_working_set(STAGE_KIB);
    let span = draft.span();
    let disk = (params.count("cold") == 1).then(|| draft.disk());
    let mut prng = Prng::stream(seed, 0);
    let total = scaled(params, params.duration("parallel_work"));
    let works = shares(total, params.count("objects"), &mut prng);
    let jobs: Vec<ProgramId> = works.iter().map(|&work| add_job(&mut draft, &mut prng, work, disk)).collect();
    let body = make(params, &jobs, span);
    let program = draft.program(body);
    for number in 0..params.count32("makes") {
        let process = draft.process();
        draft.task(format!("make/{number}"), process, program).working_set_kib = MAKE_KIB;
    }
    let formulas = [
        Formula::MeanSpanSeconds(span),
        Formula::MakespanSeconds(span),
        Formula::MinSpanSeconds(span),
        Formula::MaxSpanSeconds(span),
    ];
    for ((name, unit), formula) in MKBENCH.metrics.iter().zip(formulas) {
        draft.metric(MetricSpec { name: (*name).into(), unit, better: Better::Lower, formula });
    }
    draft.finish()
}

fn scaled(params: &Params, span: DurationNs) -> DurationNs {
    span.scale(params.factor_billionths("scale"), 1_000_000_000)
}

/// The distribution's value in thousandths of its mean at a uniform draw:
/// linear between the points, rounded down.
fn quantile(draw: u64) -> u64 {
    // Thousandths of a thousandth, so that interpolation keeps its digits.
    let at = ((u128::from(draw) * 1_000_000) >> 64) as u64;
    let upper = QUANTILES.iter().position(|&(u, _)| u * 1_000 > at).expect("draws end below the last point");
    let ((u0, q0), (u1, q1)) = (QUANTILES[upper - 1], QUANTILES[upper]);
    q0 + (q1 - q0) * (at - u0 * 1_000) / ((u1 - u0) * 1_000)
}

/// Divides work among objects as that distribution says. The shares add up to it exactly: they are
/// rounded down, the rest goes one nanosecond each to the first ones.
pub(super) fn shares(total: DurationNs, objects: u64, prng: &mut Prng) -> Vec<DurationNs> {
    let draws: Vec<u64> = (0..objects).map(|_| quantile(prng.next_u64())).collect();
    let sum: u64 = draws.iter().sum();
    let mut works: Vec<DurationNs> = draws.iter().map(|&draw| total.scale(draw, sum)).collect();
    let given = works.iter().fold(DurationNs::ZERO, |given, &work| given + work);
    let rest = (total - given).0 as usize;
    works.iter_mut().take(rest).for_each(|work| *work += DurationNs(1));
    works
}

/// The programs of one object: the driver and its three stages.
fn add_job(draft: &mut Draft, prng: &mut Prng, work: DurationNs, disk: Option<DiskId>) -> ProgramId {
    let (tools, assembler) = (work.scale(4, 100), work.scale(8, 100));
    let compiler = work - tools - assembler;
    let mut body = ProgramBuilder::new().op(Op::Exec);
    if let Some(disk) = disk {
        for _ in 0..1 + poisson(prng, MORE_READS) {
            body = body.op(Op::Io { disk, service: exponential(prng, READ) });
        }
    }
    for span in [tools, compiler, assembler] {
        let stage = draft.program(ProgramBuilder::new().op(Op::Exec).op(Op::Run(span)));
        body = body.op(Op::Fork { program: stage }).op(Op::WaitChild);
    }
    draft.program(body)
}

/// How `make` builds objects.
pub(super) struct Make<'a> {
    /// The programs that build one each.
    pub(super) jobs: &'a [ProgramId],
    /// How many of them run at once.
    pub(super) slots: u64,
    /// The CPU time of make before it starts one, and after one is done.
    pub(super) dispatch: DurationNs,
    pub(super) reap: DurationNs,
}

impl Make<'_> {
    /// Which child ends first does not matter to it, so the loop over free slots unrolls.
    pub(super) fn run(&self, mut body: ProgramBuilder) -> ProgramBuilder {
        let slots = self.slots.min(self.jobs.len() as u64);
        for (number, &job) in self.jobs.iter().enumerate() {
            if number as u64 >= slots {
                body = body.op(Op::WaitChild).op(Op::Run(self.reap));
            }
            body = body.op(Op::Run(self.dispatch)).op(Op::Fork { program: job });
        }
        body.repeat(Amount::Times(slots), |b| b.op(Op::WaitChild).op(Op::Run(self.reap)))
    }
}

/// The program of a build.
fn make(params: &Params, jobs: &[ProgramId], span: SpanId) -> ProgramBuilder {
    let serial = scaled(params, params.duration("serial_work"));
    let before = serial.scale(3, 8);
    let (dispatch, reap) = (scaled(params, DISPATCH), scaled(params, REAP));
    let make = Make { jobs, slots: params.count("jobs"), dispatch, reap };
    make.run(ProgramBuilder::new().op(Op::SpanBegin(span)).op(Op::Run(before)))
        .op(Op::Run(serial - before))
        .op(Op::SpanEnd(span))
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    /// CPU time, forks, waits and disk requests of a program and all its children.
    fn totals(scenario: &Scenario, program: ProgramId) -> (DurationNs, u64, u64, u64) {
        let mut sum = (DurationNs::ZERO, 0, 0, 0);
        let mut cursor = Cursor::start();
        loop {
            match cursor.next(&scenario.programs[program.index()]) {
                Op::Exit => return sum,
                Op::Run(span) => sum.0 += span,
                Op::WaitChild => sum.2 += 1,
                Op::Io { .. } => sum.3 += 1,
                Op::Fork { program } => {
                    let child = totals(scenario, program);
                    sum = (sum.0 + child.0, sum.1 + 1 + child.1, sum.2 + child.2, sum.3 + child.3);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn work_is_exact() {
        for (scale, objects) in [(1_u64, 1000_u64), (1, 37)] {
            let spec = format!("mkbench:scale={scale},objects={objects}");
            let scenario = build(&spec, 5).unwrap();
            let (cpu, forks, waits, reads) = totals(&scenario, scenario.tasks[0].program);
            assert_eq!(cpu, DurationNs::from_secs(344 + 16) + (DISPATCH + REAP) * objects);
            assert_eq!((forks, waits, reads), (4 * objects, 4 * objects, 0));
        }
    }

    #[test]
    fn never_more_children_than_jobs() {
        let scenario = build("mkbench:jobs=3,objects=20", 1).unwrap();
        let (mut children, mut most) = (0, 0);
        let mut cursor = Cursor::start();
        loop {
            match cursor.next(&scenario.programs[scenario.tasks[0].program.index()]) {
                Op::Exit => break,
                Op::Fork { .. } => children += 1,
                Op::WaitChild => children -= 1,
                _ => {}
            }
            most = most.max(children);
        }
        assert_eq!((children, most), (0, 3));
    }

    #[test]
    fn cold_builds_read_three_times_per_object() {
        let scenario = build("mkbench:cold=1", 1).unwrap();
        let reads = totals(&scenario, scenario.tasks[0].program).3;
        assert!((2_800..3_200).contains(&reads), "{reads}");
    }

    #[test]
    fn objects_differ_as_measured_and_by_seed() {
        let scenario = build("mkbench:scale=1,objects=10000", 1).unwrap();
        assert_ne!(scenario, build("mkbench:scale=1,objects=10000", 2).unwrap());
        let mut prng = Prng::new(1);
        let mut draws: Vec<u64> = (0..10_000).map(|_| quantile(prng.next_u64())).collect();
        draws.sort_unstable();
        let average = draws.iter().sum::<u64>() / 10_000;
        assert!((980..1_040).contains(&average), "{average} thousandths");
        assert!((655..680).contains(&draws[5_000]));
    }
}
