//! The schedulers' benchmarks of today, in the shapes that their sources and manuals give them:
//! `hackbench`, `pipe` (perf bench sched pipe), `schbench` and `cyclictest`.

use schedlab_base::{Better, DurationNs, Policy};

use crate::measure::{Formula, MetricSpec, SpanId};
use crate::program::{Amount, BarrierId, ChannelId, Op, ProgramBuilder, TimerSlot};
use crate::scenario::{ChannelKind, End, ProcessId, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// Messages that a socket of hackbench holds: the default buffer of 212992 bytes over the 768 bytes that a
/// packet of 100 is accounted with.
const SOCKET_MESSAGES: u32 = 277;

/// Bytes that a pipe holds (16 pages).
const PIPE_BYTES: u32 = 65_536;

/// Most tasks of a scenario here. Chosen.
const MAX_TASKS: u32 = 20_000;

/// Working set of a task that only passes messages, in KiB. Chosen.
const SMALL_KIB: u32 = 2;

/// CPU time of cyclictest for a sample, and how much longer each further thread's interval is (its default).
const SAMPLE: DurationNs = DurationNs::from_us(5);
const DISTANCE: DurationNs = DurationNs::from_us(500);

const AS: ParamInfo = ParamInfo {
    name: "as",
    default: "process",
    unit: "",
    about: "whether tasks are processes or threads of one",
    kind: ParamKind::Word(&["process", "thread"]),
};

pub(super) const HACKBENCH: WorkloadInfo = WorkloadInfo {
    name: "hackbench",
    about: "groups of senders that write to every receiver of their group",
    params: &[
        // Defaults of the program, as are all of these.
        ParamInfo::count("groups", "10", (1, 1_000), "groups (-g)"),
        ParamInfo::count("fds", "20", (1, 1_000), "senders of a group, and as many receivers (-f)"),
        ParamInfo::count(
            "loops",
            "100",
            (1, 1_000_000),
            "messages that a sender writes to each receiver (-l)",
        ),
        ParamInfo { unit: "B", ..ParamInfo::count("size", "100", (1, 65_536), "bytes of a message (-s)") },
        ParamInfo {
            name: "medium",
            default: "socket",
            unit: "",
            about: "unix sockets, or pipes (-p)",
            kind: ParamKind::Word(&["socket", "pipe"]),
        },
        AS,
    ],
    metrics: &[("time", "s"), ("messages_per_s", "messages/s")],
    build: build_hackbench,
};

pub(super) const PIPE: WorkloadInfo = WorkloadInfo {
    name: "pipe",
    about: "perf bench sched pipe: two tasks pass a token through two pipes",
    params: &[
        // Chosen: a tenth of the program's.
        ParamInfo::count("loops", "100000", (1, 1_000_000_000), "round trips (-l)"),
        AS,
    ],
    metrics: &[("time", "s"), ("usecs_per_op", "us"), ("ops_per_s", "ops/s")],
    build: build_pipe,
};

pub(super) const SCHBENCH: WorkloadInfo = WorkloadInfo {
    name: "schbench",
    about: "workers that message threads wake for short requests, and how late they run",
    params: &[
        // The program's.
        ParamInfo::count("messengers", "1", (1, 1_000), "message threads (-m)"),
        // Chosen; the program takes one for each CPU.
        ParamInfo::count("workers", "4", (1, 10_000), "workers of each message thread (-t)"),
        ParamInfo::time("ttime", "10s", "s", "how long to run (-r); the program's default is 30 s"),
        // The program's.
        ParamInfo::time("think", "100us", "us", "sleep of a request before it computes"),
        ParamInfo {
            name: "operations",
            default: "5",
            unit: "",
            about: "matrix multiplications of a request (-n)",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
        },
        // Inferred: 104 rows and columns fill 256 KiB three times, 1.1 million multiplications each.
        ParamInfo::time("work", "800us", "us", "CPU time of a multiplication, above 0"),
        ParamInfo::count("footprint", "256", (1, 1 << 20), "working set of a worker in KiB (-F)"),
    ],
    metrics: &[
        ("wake_p50", "us"),
        ("wake_p90", "us"),
        ("wake_p99", "us"),
        ("wake_p999", "us"),
        ("wake_max", "us"),
        ("request_p50", "us"),
        ("request_p90", "us"),
        ("request_p99", "us"),
        ("request_p999", "us"),
        ("request_max", "us"),
        ("rps", "requests/s"),
    ],
    build: build_schbench,
};

pub(super) const CYCLICTEST: WorkloadInfo = WorkloadInfo {
    name: "cyclictest",
    about: "threads that sleep until their deadlines, and how late they run",
    params: &[
        // Chosen; the program has one.
        ParamInfo::count(
            "threads",
            "4",
            (1, 1_000),
            "threads (-t); each one's interval is 500 us longer than the last one's",
        ),
        // The program's.
        ParamInfo::time("interval", "1ms", "us", "interval of the first thread (-i), above 0"),
        ParamInfo::time("ttime", "10s", "s", "how long to run (-D)"),
        ParamInfo {
            name: "policy",
            default: "other",
            unit: "",
            about: "other: the scheduler under test wakes them; fifo: real-time priorities above it, as is usual",
            kind: ParamKind::Word(&["other", "fifo"]),
        },
        ParamInfo {
            name: "priority",
            default: "80",
            unit: "",
            about: "real-time priority of the first thread (-p); each one's is one less than the last one's",
            kind: ParamKind::Count { min: 1, max: 99 },
        },
        ParamInfo {
            name: "hogs",
            default: "0",
            unit: "",
            about: "background tasks that only compute",
            kind: ParamKind::Count { min: 0, max: 10_000 },
        },
    ],
    metrics: &[
        ("latency_min", "us"),
        ("latency_avg", "us"),
        ("latency_p50", "us"),
        ("latency_p99", "us"),
        ("latency_max", "us"),
    ],
    build: build_cyclictest,
};

/// A process for each task, or one for all.
fn processes(draft: &mut Draft, params: &Params) -> impl Fn(&mut Draft) -> ProcessId + use<> {
    let one = (params.word("as") == "thread").then(|| draft.process());
    move |draft| one.unwrap_or_else(|| draft.process())
}

fn build_hackbench(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (groups, fds, size) = (params.count32("groups"), params.count32("fds"), params.count32("size"));
    if 2 * groups * fds > MAX_TASKS {
        return Err(
            params.error("groups", &format!("{groups} groups of 2 x {fds} tasks are over {MAX_TASKS}"))
        );
    }
    let mut draft = Draft::new("hackbench", params, End::AllExit);
    let (span, counter, start) = (draft.span(), draft.counter(), draft.barrier(2 * groups * fds));
    let process = processes(&mut draft, params);
    let loops = params.count("loops");
    for group in 0..groups {
        let receivers: Vec<ChannelId> = (0..fds)
            .map(|_| match params.word("medium") {
                "pipe" => draft.channel(ChannelKind::Pipe, PIPE_BYTES),
                _ => draft.channel(ChannelKind::Unix, SOCKET_MESSAGES * size),
            })
            .collect();
        let send = ProgramBuilder::new().repeat(Amount::Times(loops), |b| {
            receivers.iter().fold(b, |b, &channel| b.op(Op::Send { channel, bytes: size }))
        });
        // All senders of a group do the same.
        let send = draft.program(between(start, span, send));
        for number in 0..fds {
            let receive = ProgramBuilder::new().repeat(Amount::Times(u64::from(fds) * loops), |b| {
                b.op(Op::Recv { channel: receivers[number as usize], bytes: size })
                    .op(Op::Count { counter, units: 1 })
            });
            let receive = draft.program(between(start, span, receive));
            for (role, program) in [("recv", receive), ("send", send)] {
                let process = process(&mut draft);
                draft.task(format!("{role}/{group}/{number}"), process, program).working_set_kib = SMALL_KIB;
            }
        }
    }
    let rate = Formula::Rate { counter, over: Some(span) };
    for (name, unit, better, formula) in [
        ("time", "s", Better::Lower, Formula::MakespanSeconds(span)),
        ("messages_per_s", "messages/s", Better::Higher, rate),
    ] {
        draft.metric(MetricSpec { name: name.into(), unit, better, formula });
    }
    draft.finish()
}

/// A body after the common start, measured.
fn between(start: BarrierId, span: SpanId, body: ProgramBuilder) -> ProgramBuilder {
    ProgramBuilder::new().op(Op::Barrier(start)).op(Op::SpanBegin(span)).append(body).op(Op::SpanEnd(span))
}

fn build_pipe(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("pipe", params, End::AllExit);
    let (span, counter) = (draft.span(), draft.counter());
    let process = processes(&mut draft, params);
    let (there, back) =
        (draft.channel(ChannelKind::Pipe, PIPE_BYTES), draft.channel(ChannelKind::Pipe, PIPE_BYTES));
    let (write, read) = (|channel| Op::Send { channel, bytes: 4 }, |channel| Op::Recv { channel, bytes: 4 });
    let loops = Amount::Times(params.count("loops"));
    let first = ProgramBuilder::new()
        .op(Op::SpanBegin(span))
        .repeat(loops, |b| b.op(write(there)).op(read(back)).op(Op::Count { counter, units: 1 }))
        .op(Op::SpanEnd(span));
    let second = ProgramBuilder::new().repeat(loops, |b| b.op(read(there)).op(write(back)));
    for (name, body) in [("pipe/0", first), ("pipe/1", second)] {
        let (program, process) = (draft.program(body), process(&mut draft));
        draft.task(name.into(), process, program).working_set_kib = SMALL_KIB;
    }
    let over = Some(span);
    for (name, unit, better, formula) in [
        ("time", "s", Better::Lower, Formula::MakespanSeconds(span)),
        ("usecs_per_op", "us", Better::Lower, Formula::TimePerUnitUs { counter, over, times_cpus: false }),
        ("ops_per_s", "ops/s", Better::Higher, Formula::Rate { counter, over }),
    ] {
        draft.metric(MetricSpec { name: name.into(), unit, better, formula });
    }
    draft.finish()
}

/// A worker posts itself on its message thread's list, which is a listening socket here, and waits. The message
/// thread wakes all that are on the list. The program's spin lock for each CPU is left out (its option -L).
fn build_schbench(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let work = params.duration("work");
    if work == DurationNs::ZERO {
        return Err(params.error("work", "a request needs some CPU time"));
    }
    if params.count("messengers") * params.count("workers") > u64::from(MAX_TASKS) {
        return Err(params.error("workers", &format!("more than {MAX_TASKS} of all message threads")));
    }
    let mut draft = Draft::new("schbench", params, End::After(params.duration("ttime")));
    let (wake, request, served) = (draft.span(), draft.span(), draft.counter());
    let process = draft.process();
    for messenger in 0..params.count32("messengers") {
        let listener = draft.listener();
        let body = ProgramBuilder::new()
            .repeat(Amount::Forever, |b| b.op(Op::Accept(listener)).op(Op::Answer { bytes: 1 }));
        let program = draft.program(body);
        draft.task(format!("message/{messenger}"), process, program).working_set_kib = SMALL_KIB;
        for worker in 0..params.count32("workers") {
            let (post, woken) = draft.connection(ChannelKind::Unix, 4096);
            let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
                let b = b
                    .op(Op::Connect { listener, channel: Some(post) })
                    .op(Op::Recv { channel: woken, bytes: 1 })
                    .op(Op::Age { channel: woken, span: wake })
                    .op(Op::SpanBegin(request));
                let think = params.duration("think");
                let b = if think == DurationNs::ZERO { b } else { b.op(Op::Sleep(think)) };
                b.repeat(Amount::Times(params.count("operations")), |b| b.op(Op::Run(work)))
                    .op(Op::SpanEnd(request))
                    .op(Op::Count { counter: served, units: 1 })
            });
            let program = draft.program(body);
            let task = draft.task(format!("worker/{messenger}/{worker}"), process, program);
            task.working_set_kib = params.count32("footprint");
        }
    }
    let quantiles = [wake, request].into_iter().flat_map(|span| {
        [500, 900, 990, 999, 1000].map(|permille| Formula::QuantileSpanUs { span, permille })
    });
    let formulas: Vec<Formula> = quantiles.chain([Formula::Rate { counter: served, over: None }]).collect();
    for ((name, unit), formula) in SCHBENCH.metrics.iter().zip(formulas) {
        let better = if *name == "rps" { Better::Higher } else { Better::Lower };
        draft.metric(MetricSpec { name: (*name).into(), unit, better, formula });
    }
    draft.finish()
}

fn build_cyclictest(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let interval = params.duration("interval");
    if interval == DurationNs::ZERO {
        return Err(params.error("interval", "a thread needs time between its deadlines"));
    }
    let mut draft = Draft::new("cyclictest", params, End::After(params.duration("ttime")));
    let (span, process, timer) = (draft.span(), draft.process(), TimerSlot(0));
    for number in 0..params.count32("threads") {
        let period = interval + DISTANCE * u64::from(number);
        let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
            b.op(Op::TimerWait { timer, period, absolute: true })
                .op(Op::Late { timer, span })
                .op(Op::Run(SAMPLE))
        });
        let program = draft.program(body);
        let task = draft.task(format!("cyclic/{number}"), process, program);
        task.working_set_kib = SMALL_KIB;
        if params.word("policy") == "fifo" {
            let priority = params.count("priority").saturating_sub(number.into()).max(1);
            task.policy = Policy::Fifo(priority as u8);
        }
    }
    draft.background_hogs(params.count32("hogs"));
    let quantile = |permille| Formula::QuantileSpanUs { span, permille };
    let formulas = [quantile(0), Formula::MeanSpanUs(span), quantile(500), quantile(990), quantile(1000)];
    for ((name, unit), formula) in CYCLICTEST.metrics.iter().zip(formulas) {
        draft.metric(MetricSpec { name: (*name).into(), unit, better: Better::Lower, formula });
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    #[test]
    fn hackbench_messages_add_up() {
        for spec in
            ["hackbench:groups=2,fds=3,loops=4", "hackbench:groups=2,fds=3,loops=4,medium=pipe,as=thread"]
        {
            let scenario = build(spec, 1).unwrap();
            assert_eq!((scenario.tasks.len(), scenario.barriers[0]), (12, 12));
            let (mut sent, mut received) = (vec![0; 6], vec![0; 6]);
            for task in &scenario.tasks {
                let mut cursor = Cursor::start();
                loop {
                    match cursor.next(&scenario.programs[task.program.index()]) {
                        Op::Exit => break,
                        Op::Send { channel, .. } => sent[channel.index()] += 1,
                        Op::Recv { channel, .. } => received[channel.index()] += 1,
                        _ => {}
                    }
                }
            }
            assert_eq!((&sent, &received), (&vec![3 * 4; 6], &vec![3 * 4; 6]), "{spec}");
            let mut processes: Vec<ProcessId> = scenario.tasks.iter().map(|task| task.process).collect();
            processes.dedup();
            assert_eq!(processes.len(), if spec.contains("thread") { 1 } else { 12 });
        }
        let error = build("hackbench:groups=1000,fds=20", 1).unwrap_err().to_string();
        assert!(error.contains("parameter groups"), "{error}");
    }

    #[test]
    fn every_worker_has_its_connection() {
        let scenario = build("schbench:messengers=2,workers=3", 1).unwrap();
        assert_eq!((scenario.tasks.len(), scenario.listeners, scenario.channels.len()), (8, 2, 12));
        assert!(build("schbench:work=0", 1).unwrap_err().to_string().contains("parameter work"));
    }

    #[test]
    fn cyclic_threads_have_their_own_intervals_and_priorities() {
        let scenario = build("cyclictest:threads=3,policy=fifo,priority=2,hogs=1", 1).unwrap();
        let policies: Vec<Policy> = scenario.tasks.iter().map(|task| task.policy).collect();
        assert_eq!(policies, [Policy::Fifo(2), Policy::Fifo(1), Policy::Fifo(1), Policy::Other]);
        let wait = Op::TimerWait { timer: TimerSlot(0), period: DurationNs::from_ms(2), absolute: true };
        assert!(scenario.programs[2].ops().contains(&wait));
        assert!(build("cyclictest:interval=0", 1).unwrap_err().to_string().contains("parameter interval"));
        assert!(build("cyclictest:policy=rr", 1).unwrap_err().to_string().contains("one of other, fifo"));
    }
}
