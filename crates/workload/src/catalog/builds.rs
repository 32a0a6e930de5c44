//! Builds on a machine whose disk is slow beside its CPU, as the ULE against 4BSD article measured
//! them. They are `buildworld` (parallel), `compile` (one process after the other) and `builds`
//! (several at once, in several terminals, beside a user that types).
//!
//! The job graph is that of `mkbench`, but for compiler and assembler, which work at the same time. Every object is
//! read from the disk, and part of the CPU time is spent in the kernel: real, user and system time are counted
//! apart, as `time` does.

use schedlab_base::{Better, CpuId, CpuMask, DurationNs, Prng};

use crate::measure::{Formula, MetricSpec, SpanId};
use crate::program::{Amount, ChannelId, DiskId, Op, ProgramBuilder, ProgramId, TimerSlot};
use crate::scenario::{ChannelKind, End, Scenario};

use super::WorkloadInfo;
use super::draft::{Draft, TIMES};
use super::draws::exponential;
use super::mkbench::{MAKE_KIB, Make, STAGE_KIB, shares};
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// CPU time of `make` before and after an object. Chosen.
const DISPATCH: DurationNs = DurationNs::from_us(400);
const REAP: DurationNs = DurationNs::from_us(100);

/// What the compiler writes, function by function: parts, their bytes, and what a pipe holds. Chosen: a
/// pipe of the time.
const PARTS: u64 = 8;
const PART: u32 = 8 * 1024;
const PIPE_BYTES: u32 = 16 * 1024;

/// CPU time of the clock's software interrupt. Chosen: it redraws what has changed of a screen that hardly does.
const SOFTCLOCK: DurationNs = DurationNs::from_us(5);
/// The thread's name, for schedulers that tell interrupt threads by theirs (`interrupt_names`).
const SOFTCLOCK_NAME: &str = "swi-clock";

/// Pipes of a build, which its objects use in turn: more than there are jobs at once. Chosen.
const PIPES: u64 = 64;

const IO_ABOUT: &str = "mean disk time per object: two reads, exponentially distributed";

const SCALE: ParamInfo = ParamInfo {
    name: "scale",
    default: "1",
    unit: "",
    about: "part of the build that is built: 1 is all of it; an object's times do not change",
    kind: ParamKind::Factor,
};

const CLOCK: ParamInfo = ParamInfo {
    name: "clock",
    // FreeBSD 5: the console's timer, hz / 25, is the most frequent one of a system that does nothing else.
    default: "40ms",
    unit: "ms",
    about: "period of the clock's software interrupt, a thread that preempts what the first CPU runs; 0 for none",
    kind: ParamKind::Duration("ms"),
};

pub(super) const BUILDWORLD: WorkloadInfo = WorkloadInfo {
    name: "buildworld",
    about: "make -j on a cold cache: chains of short processes that read and write",
    params: &[
        // The article: 2, 3 and 4.
        ParamInfo::count("jobs", "2", (1, 10_000), "jobs at once (make -j)"),
        SCALE,
        // Chosen.
        ParamInfo::count("objects", "5000", (1, 100_000), "objects at scale 1"),
        // The article: 4BSD on the Athlon64 as i386, -j2 (1421 s and 247 s), without the system calls and
        // refills of caches that the machine charges on top.
        ParamInfo::time("user", "1416s", "s", "CPU time in user space at scale 1"),
        ParamInfo::time("system", "230s", "s", "CPU time in the kernel at scale 1"),
        // Calibrated on the article's real time with 4BSD at -j2, as i386 (2290 s).
        ParamInfo::time("io", "242ms", "ms", IO_ABOUT),
        ParamInfo {
            name: "serial",
            // Chosen.
            default: "5",
            unit: "%",
            about: "part of the CPU time that nothing runs beside",
            kind: ParamKind::Count { min: 0, max: 100 },
        },
        CLOCK,
    ],
    metrics: TIMES,
    build: build_world,
};

pub(super) const COMPILE: WorkloadInfo = WorkloadInfo {
    name: "compile",
    about: "configure and make of a program, one process after the other",
    params: &[
        SCALE,
        // Chosen.
        ParamInfo::count("objects", "400", (1, 100_000), "objects at scale 1"),
        ParamInfo::count("probes", "3000", (1, 100_000), "processes that configure starts at scale 1"),
        ParamInfo {
            name: "probe",
            default: "10ms",
            unit: "ms",
            about: "mean CPU time of one of them",
            kind: ParamKind::Duration("ms"),
        },
        // The article: Apache 2 with 4BSD on the Athlon64 as AMD64 (79 s and 51 s), less the same.
        ParamInfo::time("user", "77.8s", "s", "CPU time in user space at scale 1"),
        ParamInfo::time("system", "48s", "s", "CPU time in the kernel at scale 1"),
        // Inferred: 8 s of the article's real time are neither.
        ParamInfo::time("io", "20ms", "ms", IO_ABOUT),
        CLOCK,
    ],
    metrics: TIMES,
    build: build_compile,
};

pub(super) const BUILDS: WorkloadInfo = WorkloadInfo {
    name: "builds",
    about: "several builds at once, beside a terminal and an editor that have to answer",
    params: &[
        // Chosen: the article says "several".
        ParamInfo::count("builds", "4", (1, 1_000), "builds at once, each in its own terminal"),
        ParamInfo::count("jobs", "2", (1, 1_000), "jobs of each build (make -j)"),
        ParamInfo::count("objects", "100", (1, 100_000), "objects of a build"),
        ParamInfo::time("user", "28s", "s", "CPU time of a build in user space"),
        ParamInfo::time("system", "5s", "s", "CPU time of a build in the kernel"),
        ParamInfo::time("io", "242ms", "ms", IO_ABOUT),
        CLOCK,
    ],
    metrics: &[
        ("build_time_avg", "s"),
        ("build_time_fastest", "s"),
        ("build_time_slowest", "s"),
        ("slowest_over_fastest", ""),
        ("terminal_delay_p50", "ms"),
        ("terminal_delay_p99", "ms"),
        ("terminal_delay_max", "ms"),
        ("editor_delay_p50", "ms"),
        ("editor_delay_p99", "ms"),
        ("editor_delay_max", "ms"),
    ],
    build: build_many,
};

/// CPU time, divided between user space and kernel.
#[derive(Clone, Copy)]
struct Cpu {
    user: DurationNs,
    system: DurationNs,
}

impl Cpu {
    fn total(self) -> DurationNs {
        self.user + self.system
    }

    /// Work of that length with the same division, as two operations. Pages are mapped and files read first.
    fn work(self, b: ProgramBuilder, span: DurationNs) -> ProgramBuilder {
        let system = span.scale(self.system.0, self.total().0.max(1));
        let b = if system > DurationNs::ZERO { b.op(Op::RunKernel(system)) } else { b };
        if span > system { b.op(Op::Run(span - system)) } else { b }
    }
}

/// What a build consists of.
struct Tree {
    objects: u64,
    jobs: u64,
    cpu: Cpu,
    /// Of the CPU time: what make does alone.
    serial: DurationNs,
    io: DurationNs,
}

impl Tree {
    fn of(params: &Params, objects: u64, jobs: u64) -> Tree {
        Tree {
            objects,
            jobs,
            cpu: Cpu { user: params.duration("user"), system: params.duration("system") },
            serial: DurationNs::ZERO,
            io: params.duration("io"),
        }
    }

    /// A program that builds it, written down with all its children.
    fn make(&self, draft: &mut Draft, prng: &mut Prng, disk: DiskId) -> ProgramBuilder {
        let own = self.serial + (DISPATCH + REAP) * self.objects;
        let works = shares(self.cpu.total().saturating_sub(own), self.objects, prng);
        let pipes: Vec<ChannelId> =
            (0..self.objects.min(PIPES)).map(|_| draft.channel(ChannelKind::Pipe, PIPE_BYTES)).collect();
        let jobs = works.iter().zip(pipes.iter().cycle());
        let jobs: Vec<ProgramId> =
            jobs.map(|(&work, &pipe)| self.job(draft, prng, work, (disk, pipe))).collect();
        let before = self.serial / 2;
        let make = Make { jobs: &jobs, slots: self.jobs, dispatch: DISPATCH, reap: REAP };
        let body = make.run(self.cpu.work(ProgramBuilder::new(), before));
        self.cpu.work(body, self.serial - before)
    }

    /// The shell of an object, the compiler's driver, and compiler and assembler, which work at the same time
    /// with a pipe between them (`-pipe`). What they write the kernel brings to the disk later.
    fn job(
        &self,
        draft: &mut Draft,
        prng: &mut Prng,
        work: DurationNs,
        (disk, pipe): (DiskId, ChannelId),
    ) -> ProgramId {
        let [shell, driver, assembler] = [1, 3, 8].map(|percent| work.scale(percent, 100));
        let compiler = work - shell - driver - assembler;
        let start = || ProgramBuilder::new().op(Op::Exec);
        let mut reads = [0; 2].map(|_| exponential(prng, self.io / 2)).into_iter();
        let mut read = |b: ProgramBuilder| match reads.next() {
            None | Some(DurationNs::ZERO) => b,
            Some(service) => b.op(Op::Io { disk, service }),
        };
        let part = |span: DurationNs, number: u64| span.scale(number + 1, PARTS) - span.scale(number, PARTS);
        let (mut compile, mut assemble) = (start(), start());
        for number in 0..PARTS {
            if number == 0 || number == PARTS / 2 {
                compile = read(compile);
            }
            compile =
                self.cpu.work(compile, part(compiler, number)).op(Op::Send { channel: pipe, bytes: PART });
            assemble = assemble.op(Op::Recv { channel: pipe, bytes: PART });
            assemble = self.cpu.work(assemble, part(assembler, number));
        }
        let [compile, assemble] = [compile, assemble].map(|body| draft.program(body));
        let driver = self.cpu.work(start(), driver);
        let driver = driver.op(Op::Fork { program: compile }).op(Op::Fork { program: assemble });
        let driver = draft.program(driver.op(Op::WaitChild).op(Op::WaitChild));
        let shell = self.cpu.work(start(), shell).op(Op::Fork { program: driver }).op(Op::WaitChild);
        draft.program(shell)
    }
}

fn scaled(params: &Params, value: u64) -> u64 {
    DurationNs(value).scale(params.factor_billionths("scale"), 1_000_000_000).0
}

fn scaled_cpu(params: &Params) -> Cpu {
    let of = |name: &str| DurationNs(scaled(params, params.duration(name).0));
    Cpu { user: of("user"), system: of("system") }
}

/// One process that runs `body` alone, measured as `time` does.
fn timed(
    mut draft: Draft,
    params: &Params,
    body: ProgramBuilder,
    span: SpanId,
) -> Result<Scenario, CatalogError> {
    let (program, process) = (draft.program(body.op(Op::SpanEnd(span))), draft.process());
    draft.task("make".into(), process, program).working_set_kib = MAKE_KIB;
    softclock(&mut draft, params);
    draft.times(span);
    draft.finish()
}

fn build_world(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("buildworld", params, End::ForegroundExit);
    draft.child_working_set(STAGE_KIB);
    let (span, disk) = (draft.span(), draft.disk());
    let objects = scaled(params, params.count("objects")).max(1);
    let cpu = scaled_cpu(params);
    let serial = cpu.total().scale(params.count("serial"), 100);
    let tree = Tree { cpu, serial, ..Tree::of(params, objects, params.count("jobs")) };
    let body = tree.make(&mut draft, &mut Prng::stream(seed, 0), disk);
    let body = ProgramBuilder::new().op(Op::SpanBegin(span)).append(body);
    timed(draft, params, body, span)
}

fn build_compile(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("compile", params, End::ForegroundExit);
    draft.child_working_set(STAGE_KIB);
    let (span, disk) = (draft.span(), draft.disk());
    let cpu = scaled_cpu(params);
    let probes = scaled(params, params.count("probes"));
    let configure = params.duration("probe") * probes;
    if configure >= cpu.total() {
        return Err(params.error("probe", "configure would need all the CPU time of the build"));
    }
    let mut prng = Prng::stream(seed, 0);
    let mut body = ProgramBuilder::new().op(Op::SpanBegin(span));
    for work in shares(configure, probes, &mut prng) {
        let probe = draft.program(cpu.work(ProgramBuilder::new().op(Op::Exec), work));
        body = body.op(Op::Fork { program: probe }).op(Op::WaitChild);
    }
    let rest = configure.scale(cpu.system.0, cpu.total().0.max(1));
    let rest = Cpu { user: cpu.user - (configure - rest), system: cpu.system - rest };
    let objects = scaled(params, params.count("objects")).max(1);
    let tree = Tree { cpu: rest, ..Tree::of(params, objects, 1) };
    let body = body.append(tree.make(&mut draft, &mut prng, disk));
    timed(draft, params, body, span)
}

fn build_many(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("builds", params, End::ForegroundExit);
    draft.child_working_set(STAGE_KIB);
    let (build, disk) = (draft.span(), draft.disk());
    for number in 0..params.count32("builds") {
        let tree = Tree::of(params, params.count("objects"), params.count("jobs"));
        let body = tree.make(&mut draft, &mut Prng::stream(seed, number.into()), disk);
        let make = draft.program(ProgramBuilder::new().op(Op::Exec).append(body));
        let shell = ProgramBuilder::new()
            .op(Op::SpanBegin(build))
            .op(Op::Fork { program: make })
            .op(Op::WaitChild)
            .op(Op::SpanEnd(build));
        let (program, process) = (draft.program(shell), draft.process());
        draft.task(format!("sh/{number}"), process, program).working_set_kib = MAKE_KIB;
    }
    softclock(&mut draft, params);
    // Chosen: a terminal that shows something ten times a second, and keys every 200 to 600 ms.
    let terminal = probe(&mut draft, "terminal", &[DurationNs::from_ms(100)], DurationNs::from_ms(2));
    let mut prng = Prng::stream(seed, u64::MAX);
    let keys: Vec<DurationNs> = (0..64).map(|_| DurationNs::from_us(200_000 + prng.below(400_001))).collect();
    let editor = probe(&mut draft, "editor", &keys, DurationNs::from_ms(5));
    let quantile = |span, percent| Formula::QuantileSpanMs { span, percent };
    let formulas = [
        Formula::MeanSpanSeconds(build),
        Formula::MinSpanSeconds(build),
        Formula::MaxSpanSeconds(build),
        Formula::LongestOverShortest(build),
        quantile(terminal, 50),
        quantile(terminal, 99),
        quantile(terminal, 100),
        quantile(editor, 50),
        quantile(editor, 99),
        quantile(editor, 100),
    ];
    for ((name, unit), formula) in BUILDS.metrics.iter().zip(formulas) {
        draft.metric(MetricSpec { name: (*name).into(), unit, better: Better::Lower, formula });
    }
    draft.finish()
}

/// The thread that does what is due by the clock, on the CPU that the clock interrupts. In FreeBSD 5 it takes the CPU at
/// once, and the task that it interrupts goes behind its equals.
fn softclock(draft: &mut Draft, params: &Params) {
    let period = params.duration("clock");
    if period == DurationNs::ZERO {
        return;
    }
    let timer = TimerSlot(0);
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        b.op(Op::TimerWait { timer, period, absolute: true }).op(Op::RunKernel(SOFTCLOCK))
    });
    let (program, process) = (draft.program(body), draft.process());
    let task = draft.task(SOFTCLOCK_NAME.into(), process, program);
    task.background = true;
    task.affinity = Some(CpuMask::single(CpuId(0)).into());
}

/// A task of the background that is woken after each of these periods, over and over, and computes for a
/// while; the span of its delays.
fn probe(draft: &mut Draft, name: &str, periods: &[DurationNs], work: DurationNs) -> SpanId {
    let (span, timer) = (draft.span(), TimerSlot(0));
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        periods.iter().fold(b, |b, &period| {
            b.op(Op::TimerWait { timer, period, absolute: true })
                .op(Op::Late { timer, span })
                .op(Op::Run(work))
        })
    });
    let (program, process) = (draft.program(body), draft.process());
    draft.task(name.into(), process, program).background = true;
    span
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    #[derive(Default)]
    struct Totals {
        user: DurationNs,
        system: DurationNs,
        disk: DurationNs,
        forks: u64,
        waits: u64,
        written: u64,
        read: u64,
    }

    fn add(scenario: &Scenario, program: ProgramId, totals: &mut Totals) {
        let mut cursor = Cursor::start();
        loop {
            match cursor.next(&scenario.programs[program.index()]) {
                Op::Exit => return,
                Op::Run(span) => totals.user += span,
                Op::RunKernel(span) => totals.system += span,
                Op::Io { service, .. } => totals.disk += service,
                Op::WaitChild => totals.waits += 1,
                Op::Send { bytes, .. } => totals.written += u64::from(bytes),
                Op::Recv { bytes, .. } => totals.read += u64::from(bytes),
                Op::Fork { program } => {
                    totals.forks += 1;
                    add(scenario, program, totals);
                }
                _ => {}
            }
        }
    }

    fn totals(spec: &str) -> Totals {
        let (scenario, mut totals) = (build(spec, 3).unwrap(), Totals::default());
        let first = scenario.tasks.iter().find(|task| !task.background).unwrap();
        add(&scenario, first.program, &mut totals);
        totals
    }

    /// The work of make itself is user time.
    fn near(found: DurationNs, wanted: DurationNs, slack: DurationNs) -> bool {
        found.0.abs_diff(wanted.0) <= slack.0
    }

    #[test]
    fn a_world_has_its_work_and_its_reads() {
        for (spec, part) in [("buildworld:jobs=3", 1), ("buildworld:scale=0.01", 100)] {
            let sum = totals(spec);
            let slack = DurationNs::from_ms(2_000 / part);
            assert_eq!(sum.user + sum.system, DurationNs::from_secs(1646) / part, "{spec}");
            assert!(near(sum.system, DurationNs::from_secs(230) / part, slack), "{spec}: {}", sum.system);
            assert_eq!((sum.forks, sum.waits), (20_000 / part, 20_000 / part));
            // The assembler reads all that the compiler writes.
            assert_eq!((sum.written, sum.read), (5_000 / part * PARTS * u64::from(PART), sum.written));
            let disk = sum.disk.as_secs_f64() * part as f64;
            assert!((disk / (5_000.0 * 0.242) - 1.0).abs() < if part == 1 { 0.05 } else { 0.4 }, "{disk}");
        }
    }

    #[test]
    fn a_compile_is_sequential() {
        let sum = totals("compile");
        assert_eq!(sum.user + sum.system, DurationNs::from_ms(125_800));
        assert!(near(sum.system, DurationNs::from_secs(48), DurationNs::from_ms(500)), "{}", sum.system);
        assert_eq!((sum.forks, sum.waits), (3000 + 1600, 3000 + 1600));
        let scenario = build("compile", 3).unwrap();
        let (mut children, mut cursor) = (0, Cursor::start());
        loop {
            match cursor.next(&scenario.programs[scenario.tasks[0].program.index()]) {
                Op::Exit => break,
                Op::Fork { .. } => children += 1,
                Op::WaitChild => children -= 1,
                _ => {}
            }
            assert!(children <= 1);
        }
        let error = build("compile:probe=1s", 1).unwrap_err().to_string();
        assert!(error.contains("parameter probe"), "{error}");
    }

    /// All tasks but the builds themselves leave the end of the run to these.
    #[test]
    fn the_clock_interrupts_unless_it_is_not_to() {
        for name in ["buildworld", "compile", "builds"] {
            let clocks = |spec: String| {
                let scenario = build(&spec, 1).unwrap();
                assert_eq!(scenario.end, End::ForegroundExit, "{spec}");
                scenario.tasks.into_iter().filter(|task| task.name == SOFTCLOCK_NAME).collect::<Vec<_>>()
            };
            let there = clocks(name.into());
            assert_eq!(there.len(), 1, "{name}");
            assert!(
                there[0].background && there[0].affinity.as_deref() == Some(&CpuMask::single(CpuId(0))),
                "{name}"
            );
            assert!(clocks(format!("{name}:clock=0ms")).is_empty(), "{name}");
        }
    }

    #[test]
    fn every_terminal_has_its_build() {
        let scenario = build("builds:builds=3", 1).unwrap();
        let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["sh/0", "sh/1", "sh/2", "swi-clock", "terminal", "editor"]);
        let sum = totals("builds");
        assert_eq!(sum.user + sum.system, DurationNs::from_secs(33));
        assert_eq!(sum.forks, 1 + 4 * 100);
    }
}
