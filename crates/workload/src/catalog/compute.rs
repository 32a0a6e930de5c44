//! Loads of one process, or one for each CPU, of the ULE against 4BSD article: `ubench`, `oggenc`, `openssl`,
//! `stream` and `cdparanoia`. A scheduler should not change them where there are CPUs enough.

use schedlab_base::{Better, DurationNs, Prng};

use crate::measure::{CounterId, Formula, MetricSpec, SpanId};
use crate::program::{Amount, Op, ProgramBuilder};
use crate::scenario::{End, Scenario};

use super::WorkloadInfo;
use super::draft::{Draft, TIMES};
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// CPU time between two looks at a counter or a file. Chosen.
const CHUNK: DurationNs = DurationNs::from_ms(1);
const ENCODED: DurationNs = DurationNs::from_ms(10);

/// Working set of an encoder, in KiB. Chosen.
const ENCODER_KIB: u32 = 256;

pub(super) const UBENCH: WorkloadInfo = WorkloadInfo {
    name: "ubench",
    about: "processes that do arithmetic for a fixed time; the score is the work done",
    params: &[
        ParamInfo {
            name: "procs",
            // Chosen: one for each CPU of the document's machine with two hardware threads.
            default: "2",
            unit: "",
            about: "processes; as many as there are CPUs is what the program does",
            kind: ParamKind::Count { min: 1, max: 100_000 },
        },
        ParamInfo::time("ttime", "30s", "s", "how long to compute"),
    ],
    metrics: &[("score", "loops/s")],
    build: build_ubench,
};

pub(super) const OGGENC: WorkloadInfo = WorkloadInfo {
    name: "oggenc",
    about: "one encoder reads and encodes the tracks of a disc, one after the other",
    params: &[
        ParamInfo {
            name: "files",
            // Chosen.
            default: "10",
            unit: "",
            about: "tracks of different lengths",
            kind: ParamKind::Count { min: 1, max: 10_000 },
        },
        // The article: 4BSD on the Athlon64 as i386.
        ParamInfo::time("user", "256.46s", "s", "CPU time in user space"),
        ParamInfo::time("system", "0.94s", "s", "CPU time in the kernel"),
        // Inferred: what of the real time is neither.
        ParamInfo::time("io", "1.14s", "s", "time that it waits for the disk, at the beginnings of tracks"),
    ],
    metrics: TIMES,
    build: build_oggenc,
};

/// What openssl measures: a cipher with a length, CPU time in ns for a call and for 1024 bytes, and whether it
/// is a public-key operation. Chosen: figures of the right order for 2 GHz.
const CIPHERS: [(&str, u64, u64, u64); 11] = [
    ("md5_16", 16, 600, 3_000),
    ("md5_1024", 1024, 600, 3_000),
    ("md5_8192", 8192, 600, 3_000),
    ("sha1_16", 16, 700, 5_000),
    ("sha1_1024", 1024, 700, 5_000),
    ("sha1_8192", 8192, 700, 5_000),
    ("aes128_16", 16, 100, 16_000),
    ("aes128_1024", 1024, 100, 16_000),
    ("aes128_8192", 8192, 100, 16_000),
    ("rsa1024_sign", 0, 1_200_000, 0),
    ("rsa1024_verify", 0, 60_000, 0),
];

pub(super) const OPENSSL: WorkloadInfo = WorkloadInfo {
    name: "openssl",
    about: "openssl speed: one process, one cipher after the other, each for a few seconds",
    params: &[
        // Its manual.
        ParamInfo::time("time", "3s", "s", "CPU time for each cipher and length"),
        ParamInfo::time("rsa_time", "10s", "s", "CPU time for each public-key operation"),
    ],
    metrics: &[
        ("md5_16", "kB/s"),
        ("md5_1024", "kB/s"),
        ("md5_8192", "kB/s"),
        ("sha1_16", "kB/s"),
        ("sha1_1024", "kB/s"),
        ("sha1_8192", "kB/s"),
        ("aes128_16", "kB/s"),
        ("aes128_1024", "kB/s"),
        ("aes128_8192", "kB/s"),
        ("rsa1024_sign", "ops/s"),
        ("rsa1024_verify", "ops/s"),
    ],
    build: build_openssl,
};

/// What STREAM measures: a loop, and how many of the three arrays it walks.
const LOOPS: [(&str, u32); 4] = [("copy", 2), ("scale", 2), ("add", 3), ("triad", 3)];

pub(super) const STREAM: WorkloadInfo = WorkloadInfo {
    name: "stream",
    about: "STREAM: one process walks arrays that no cache holds; the bandwidth of four loops",
    params: &[
        // STREAM's own: two million numbers of eight bytes, and ten passes.
        ParamInfo::count("array", "15625", (1, 1_000_000), "KiB of each of the three arrays"),
        ParamInfo::count("passes", "10", (1, 100_000), "walks of each loop, one after the other"),
    ],
    metrics: &[("copy", "kB/s"), ("scale", "kB/s"), ("add", "kB/s"), ("triad", "kB/s")],
    build: build_stream,
};

pub(super) const CDPARANOIA: WorkloadInfo = WorkloadInfo {
    name: "cdparanoia",
    about: "one process reads an audio disc from a slow drive and compares what it has read",
    params: &[
        // The article: roughly 660 s.
        ParamInfo::time("time", "660s", "s", "how long it takes alone"),
        // Chosen: 74 minutes of sound in pieces of 64 KiB.
        ParamInfo::count("reads", "12000", (1, 1_000_000), "reads from the drive"),
        // Chosen: each piece is compared with what it overlaps.
        ParamInfo::time("user", "20s", "s", "CPU time in user space"),
        ParamInfo::time("system", "6s", "s", "CPU time in the kernel"),
    ],
    metrics: TIMES,
    build: build_cdparanoia,
};

fn build_ubench(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("ubench", params, End::After(params.duration("ttime")));
    let counter = draft.counter();
    let body = ProgramBuilder::new()
        .repeat(Amount::Forever, |b| b.op(Op::Run(CHUNK)).op(Op::Count { counter, units: 1 }));
    let program = draft.program(body);
    for number in 0..params.count32("procs") {
        let process = draft.process();
        draft.task(format!("ubench/{number}"), process, program);
    }
    let formula = Formula::Rate { counter, over: None };
    draft.metric(MetricSpec { name: "score".into(), unit: "loops/s", better: Better::Higher, formula });
    draft.finish()
}

fn build_oggenc(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("oggenc", params, End::ForegroundExit);
    let (span, disk, files) = (draft.span(), draft.disk(), params.count("files"));
    let (user, system) = (params.duration("user"), params.duration("system"));
    let chunks = (user.0 / ENCODED.0).max(1);
    let step = [system / chunks, user / chunks];
    let waits = (params.duration("io") / files).max(DurationNs(1));
    let mut body = ProgramBuilder::new().op(Op::SpanBegin(span));
    for chunks in tracks(chunks, files, &mut Prng::stream(seed, 0)) {
        body = body.op(Op::Io { disk, service: waits }).repeat(Amount::Times(chunks), |b| {
            // Reading ahead: what is read is there already.
            b.op(Op::RunKernel(step[0].max(DurationNs(1)))).op(Op::Run(step[1].max(DurationNs(1))))
        });
    }
    let (program, process) = (draft.program(body.op(Op::SpanEnd(span))), draft.process());
    draft.task("oggenc".into(), process, program).working_set_kib = ENCODER_KIB;
    // A daemon that looks once a second whether something must be written. Chosen.
    let daemon = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        b.op(Op::Sleep(DurationNs::from_secs(1))).op(Op::Run(DurationNs::from_us(50)))
    });
    let (program, process) = (draft.program(daemon), draft.process());
    draft.task("syncer".into(), process, program).background = true;
    draft.times(span);
    draft.finish()
}

/// Lengths of tracks in chunks: between a half and one and a half of their mean, and as many in all.
fn tracks(chunks: u64, files: u64, prng: &mut Prng) -> Vec<u64> {
    let draws: Vec<u64> = (0..files).map(|_| 500 + prng.below(1000)).collect();
    let (sum, mut done, mut reached) = (draws.iter().sum::<u64>(), 0, 0);
    draws
        .into_iter()
        .map(|draw| {
            done += draw;
            let end = DurationNs(chunks).scale(done, sum).0;
            let length = end - reached;
            reached = end;
            length
        })
        .collect()
}

/// The program measures for a fixed time. Here it does as many operations as take that time alone, so that the
/// work is the same under each scheduler.
fn build_openssl(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("openssl", params, End::AllExit);
    let mut body = ProgramBuilder::new();
    let mut measured: Vec<(CounterId, SpanId)> = Vec::new();
    for (_, bytes, call_ns, kib_ns) in CIPHERS {
        let (counter, span) = (draft.counter(), draft.span());
        let time = params.duration(if bytes == 0 { "rsa_time" } else { "time" });
        let one = DurationNs(call_ns + kib_ns * bytes / 1024);
        // Short operations are done many at a time.
        let together = (CHUNK.0 / one.0).max(1);
        let units = if bytes == 0 { together } else { together * bytes };
        body = body
            .op(Op::SpanBegin(span))
            .repeat(Amount::Times((time.0 / (one.0 * together)).max(1)), |b| {
                b.op(Op::Run(one * together)).op(Op::Count { counter, units: units as u32 })
            })
            .op(Op::SpanEnd(span));
        measured.push((counter, span));
    }
    let (program, process) = (draft.program(body), draft.process());
    draft.task("openssl".into(), process, program);
    for ((name, unit), (counter, span)) in OPENSSL.metrics.iter().zip(measured) {
        let over = Some(span);
        let formula = if *unit == "kB/s" {
            Formula::RateThousands { counter, over }
        } else {
            Formula::Rate { counter, over }
        };
        draft.metric(MetricSpec { name: (*name).into(), unit, better: Better::Higher, formula });
    }
    draft.finish()
}

fn build_stream(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("stream", params, End::AllExit);
    let array = params.count32("array");
    let measured = LOOPS.map(|(_, arrays)| (arrays * array, draft.counter(), draft.span()));
    let mut body = ProgramBuilder::new();
    for (kib, counter, span) in measured {
        let walk = |b: ProgramBuilder| b.op(Op::Touch { kib }).op(Op::Count { counter, units: kib * 1024 });
        let passes = Amount::Times(params.count("passes"));
        body = body.op(Op::SpanBegin(span)).repeat(passes, walk).op(Op::SpanEnd(span));
    }
    let (program, process) = (draft.program(body), draft.process());
    draft.task("stream".into(), process, program).working_set_kib = 3 * array;
    for (&(name, unit), (_, counter, span)) in STREAM.metrics.iter().zip(measured) {
        let formula = Formula::RateThousands { counter, over: Some(span) };
        draft.metric(MetricSpec { name: name.into(), unit, better: Better::Higher, formula });
    }
    draft.finish()
}

fn build_cdparanoia(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("cdparanoia", params, End::AllExit);
    let (span, disk, reads) = (draft.span(), draft.disk(), params.count("reads"));
    let (user, system) = (params.duration("user"), params.duration("system"));
    let service = params.duration("time").saturating_sub(user + system) / reads;
    if service == DurationNs::ZERO {
        return Err(params.error("time", "the CPU time leaves none for the drive"));
    }
    let step = [system / reads, user / reads].map(|span| span.max(DurationNs(1)));
    let body = ProgramBuilder::new().op(Op::SpanBegin(span)).repeat(Amount::Times(reads), |b| {
        b.op(Op::Io { disk, service }).op(Op::RunKernel(step[0])).op(Op::Run(step[1]))
    });
    let (program, process) = (draft.program(body.op(Op::SpanEnd(span))), draft.process());
    draft.task("cdparanoia".into(), process, program);
    draft.times(span);
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    /// What the first task does, one operation after the other.
    fn ops(spec: &str) -> Vec<Op> {
        let scenario = build(spec, 4).unwrap();
        let program = &scenario.programs[scenario.tasks[0].program.index()];
        let mut cursor = Cursor::start();
        std::iter::from_fn(|| Some(cursor.next(program)).filter(|op| *op != Op::Exit)).collect()
    }

    fn sums(spec: &str) -> (DurationNs, DurationNs, DurationNs) {
        let (mut user, mut system, mut disk) = Default::default();
        for op in ops(spec) {
            match op {
                Op::Run(span) => user += span,
                Op::RunKernel(span) => system += span,
                Op::Io { service, .. } => disk += service,
                _ => {}
            }
        }
        (user, system, disk)
    }

    #[test]
    fn encoding_adds_up() {
        let (user, system, disk) = sums("oggenc");
        assert!(user.0.abs_diff(256_460_000_000) < 1_000_000, "{user}");
        assert!(system.0.abs_diff(940_000_000) < 1_000_000, "{system}");
        assert_eq!(disk, DurationNs::from_ms(1140));
        let lengths = tracks(1000, 10, &mut Prng::new(1));
        assert_eq!((lengths.len(), lengths.iter().sum::<u64>()), (10, 1000));
        assert!(lengths.iter().all(|length| (40..200).contains(length)), "{lengths:?}");
    }

    #[test]
    fn ciphers_are_reported_in_their_order_for_their_time() {
        let names = CIPHERS.map(|cipher| cipher.0);
        assert!(OPENSSL.metrics.iter().map(|metric| metric.0).eq(names));
        let (cpu, ..) = sums("openssl:time=2s,rsa_time=5s");
        let wanted = DurationNs::from_secs(9 * 2 + 2 * 5);
        assert!(cpu <= wanted && cpu >= wanted.scale(99, 100), "{cpu}");
    }

    #[test]
    fn ripping_adds_up() {
        let sums = sums("cdparanoia:time=10s,reads=100,user=1s,system=500ms");
        assert_eq!(sums, (DurationNs::from_secs(1), DurationNs::from_ms(500), DurationNs::from_ms(8500)));
        let refused = build("cdparanoia:time=10s,user=10s", 1).unwrap_err().to_string();
        assert!(refused.contains("parameter time"), "{refused}");
    }

    #[test]
    fn loops_are_reported_in_their_order() {
        assert!(STREAM.metrics.iter().map(|metric| metric.0).eq(LOOPS.map(|(name, _)| name)));
        let walk = |op: Op| if let Op::Touch { kib } = op { Some(kib) } else { None };
        let walked: Vec<u32> = ops("stream:array=100,passes=3").into_iter().filter_map(walk).collect();
        assert_eq!(walked, [200, 200, 200, 200, 200, 200, 300, 300, 300, 300, 300, 300]);
    }

    #[test]
    fn a_score_needs_processes() {
        assert!(build("ubench:procs=0", 1).unwrap_err().to_string().contains("parameter procs"));
        assert_eq!(build("ubench:procs=3", 1).unwrap().tasks.len(), 3);
    }
}
