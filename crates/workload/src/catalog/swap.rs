//! `swap-*`: one client that waits for one server, through one kernel mechanism each, against
//! CPU hogs (Zheng and Nieh 2004, section 4: the priority inversion microbenchmarks; the
//! mechanisms of today besides). And `inversion`: the same with a mutex whose holder has
//! the lowest priority.
//!
//! Per iteration the server computes, then provides what the client waits for. Only the
//! client is important; without dependency tracking the server gets its equal share.

use schedlab_base::{Better, DurationNs, Nice, Policy};

use crate::measure::{Formula, MetricSpec, SpanId};
use crate::program::{Amount, BarrierId, CondId, LockId, Op, ProgramBuilder, TaskRef, WordId};
use crate::scenario::{ChannelKind, End, LockKind, PollKind, ProcessId, Scenario, SemKind, Watched};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// By what the client waits for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    /// The server sends messages.
    Transfer(ChannelKind),
    /// Two semaphores, full and empty.
    Semaphores(SemKind),
    /// Signals both ways.
    Signals,
    /// The server holds a lock that the client wants.
    Lock(LockKind),
    /// Two condition variables with one mutex.
    Conditions,
    /// The client polls two pipes, of which one is silent.
    Poll(PollKind),
    /// An epoll server of two connections, of which one is silent; the client polls its end.
    EpollServer,
    /// The server is a child of the client, which waits for its end.
    Child,
}

/// How long client and server sleep between two looks at whether the lock is held and
/// wanted. Chosen, small against `service`.
const LOOK: DurationNs = DurationNs::from_ms(1);

/// Capacity of a pipe.
const PAGE: u32 = 4096;
/// Length of a request. Chosen.
const REQUEST: u32 = 64;

pub(super) const HOGS: ParamInfo = ParamInfo {
    name: "hogs",
    default: "0",
    unit: "",
    // The paper: 0 and 10.
    about: "background tasks that only compute",
    kind: ParamKind::Count { min: 0, max: 10_000 },
};
pub(super) const ITERATIONS: ParamInfo = ParamInfo {
    name: "iterations",
    // The paper's number.
    default: "100",
    unit: "",
    about: "how often the client waits for the server",
    kind: ParamKind::Count { min: 1, max: 1_000_000 },
};
pub(super) const SERVICE: ParamInfo = ParamInfo {
    name: "service",
    // The paper: a bubble sort of about 100 ms on its machine.
    default: "100ms",
    unit: "ms",
    about: "CPU time of the server per iteration",
    kind: ParamKind::Duration("ms"),
};
pub(super) const IMPORTANT: ParamInfo = ParamInfo {
    name: "important",
    default: "static",
    unit: "",
    about: "what makes the client important: nice -20 (static), or SCHED_FIFO as published (fifo)",
    kind: ParamKind::Word(&["static", "fifo"]),
};
const PAYLOAD: ParamInfo = ParamInfo {
    name: "payload",
    // The paper: an array of 4096; one page, so a channel holds one message.
    default: "4096",
    unit: "B",
    about: "bytes of a message",
    kind: ParamKind::Count { min: 1, max: 8192 },
};
const SERVER_NICE: ParamInfo = ParamInfo {
    name: "server_nice",
    default: "0",
    unit: "",
    about: "nice value of the server",
    kind: ParamKind::NiceList,
};

const PARAMS: &[ParamInfo] = &[HOGS, ITERATIONS, SERVICE, IMPORTANT, SERVER_NICE];
const TRANSFER_PARAMS: &[ParamInfo] = &[HOGS, ITERATIONS, SERVICE, IMPORTANT, SERVER_NICE, PAYLOAD];

pub(super) const METRICS: &[(&str, &str)] = &[
    ("iteration_time", "ms"),
    ("iteration_time_first", "ms"),
    ("iteration_time_later", "ms"),
    ("iteration_time_p95", "ms"),
    ("iteration_time_max", "ms"),
];

/// One workload of the family.
macro_rules! swap {
    ($info:ident, $name:literal, $params:ident, $mechanism:expr, $about:literal) => {
        pub(super) const $info: WorkloadInfo = WorkloadInfo {
            name: $name,
            about: $about,
            params: $params,
            metrics: METRICS,
            build: |params, _seed| build($name, params, $mechanism),
        };
    };
}

use Mechanism as M;
swap!(
    PIPE,
    "swap-pipe",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::Pipe),
    "a client waits for a server: pipe"
);
swap!(
    SOCK,
    "swap-sock",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::Unix),
    "a client waits for a server: Unix socket"
);
swap!(
    TCP,
    "swap-tcp",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::Tcp),
    "a client waits for a server: TCP over loopback"
);
swap!(
    UDP,
    "swap-udp",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::Udp),
    "a client waits for a server: UDP over loopback"
);
swap!(
    MSG,
    "swap-msg",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::SysvQueue),
    "a client waits for a server: System V message queue"
);
swap!(
    MQ,
    "swap-mq",
    TRANSFER_PARAMS,
    M::Transfer(ChannelKind::PosixQueue),
    "a client waits for a server: POSIX message queue"
);
swap!(
    SEM,
    "swap-sem",
    PARAMS,
    M::Semaphores(SemKind::Sysv),
    "a client waits for a server: System V semaphores"
);
swap!(
    EVENTFD,
    "swap-eventfd",
    PARAMS,
    M::Semaphores(SemKind::EventFd),
    "a client waits for a server: eventfds"
);
swap!(SIG, "swap-sig", PARAMS, M::Signals, "a client waits for a server: signals");
swap!(FLOCK, "swap-flock", PARAMS, M::Lock(LockKind::Flock), "a client waits for a server: flock");
swap!(
    FCNTL,
    "swap-fcntl",
    PARAMS,
    M::Lock(LockKind::Fcntl),
    "a client waits for a server: record lock of fcntl"
);
swap!(
    FUTEX,
    "swap-futex",
    PARAMS,
    M::Lock(LockKind::Futex),
    "a client waits for a server: mutex, two threads"
);
swap!(
    CONDVAR,
    "swap-condvar",
    PARAMS,
    M::Conditions,
    "a client waits for a server: condition variable, two threads"
);
swap!(
    SELECT,
    "swap-select",
    TRANSFER_PARAMS,
    M::Poll(PollKind::Select),
    "a client waits for a server: select on two pipes"
);
swap!(
    POLL,
    "swap-poll",
    TRANSFER_PARAMS,
    M::Poll(PollKind::Poll),
    "a client waits for a server: poll on two pipes"
);
swap!(
    EPOLL,
    "swap-epoll",
    TRANSFER_PARAMS,
    M::EpollServer,
    "a client waits for a server of two connections: epoll on both sides"
);
swap!(WAIT, "swap-wait", PARAMS, M::Child, "a client waits for a server: the end of one of its children");

pub(super) const INVERSION: WorkloadInfo = WorkloadInfo {
    name: "inversion",
    about: "a mutex held by a task of nice 19, wanted by one of nice -20, against hogs of nice 0",
    params: &[
        // Without hogs nothing is inverted; so many keep the CPUs of the default machine busy.
        ParamInfo { default: "8", ..HOGS },
        ParamInfo { default: "10", ..ITERATIONS },
        ParamInfo { default: "20ms", about: "CPU time while the mutex is held", ..SERVICE },
        IMPORTANT,
        ParamInfo { default: "19", about: "nice value of the holder", ..SERVER_NICE },
        ParamInfo {
            name: "protocol",
            default: "none",
            unit: "",
            about: "of the mutex: none, or priority inheritance (pi)",
            kind: ParamKind::Word(&["none", "pi"]),
        },
    ],
    metrics: METRICS,
    build: |params, _seed| {
        let kind = if params.word("protocol") == "pi" { LockKind::FutexPi } else { LockKind::Futex };
        build("inversion", params, Mechanism::Lock(kind))
    },
};

/// What client and server do, and where.
struct Roles {
    client: ProgramBuilder,
    /// Without one the client makes its own.
    server: Option<ProgramBuilder>,
    /// Threads of one process instead of two processes.
    threads: bool,
}

fn build(name: &str, params: &Params, mechanism: Mechanism) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new(name, params, End::ForegroundExit);
    let span = draft.span();
    let roles = roles(&mut draft, params, mechanism, span);
    let client = draft.program(roles.client);
    let process = draft.process();
    make_important(draft.task("client".into(), process, client), params);
    if let Some(server) = roles.server {
        let server = draft.program(server);
        let process = if roles.threads { process } else { draft.process() };
        let task = draft.task("server".into(), process, server);
        task.nice = params.nices("server_nice")[0];
        task.background = true;
    }
    draft.background_hogs(params.count32("hogs"));
    iteration_metrics(&mut draft, span);
    draft.finish()
}

/// The client's priority: by the parameter `important`.
pub(super) fn make_important(task: &mut crate::scenario::TaskSpec, params: &Params) {
    match params.word("important") {
        // The paper says SCHED_FIFO; the level is chosen, nothing else has one.
        "fifo" => task.policy = Policy::Fifo(1),
        _ => task.nice = Nice::MIN,
    }
}

/// The figures of the span that is one iteration.
pub(super) fn iteration_metrics(draft: &mut Draft, span: SpanId) {
    let formulas = [
        Formula::MeanSpanMs(span),
        Formula::FirstSpanMs(span),
        // When a scheduler that learns from earlier iterations has learnt.
        Formula::LaterHalfMeanMs(span),
        Formula::QuantileSpanMs { span, percent: 95 },
        Formula::QuantileSpanMs { span, percent: 100 },
    ];
    for ((name, unit), formula) in METRICS.iter().zip(formulas) {
        draft.metric(MetricSpec { name: (*name).into(), unit, better: Better::Lower, formula });
    }
}

fn roles(draft: &mut Draft, params: &Params, mechanism: Mechanism, span: SpanId) -> Roles {
    let iterations = Amount::Times(params.count("iterations"));
    let run = Op::Run(params.duration("service"));
    // The client's iterations, with `ops` timed.
    let timed = |ops: &[Op]| {
        ProgramBuilder::new().repeat(iterations, |b| {
            let b = b.op(Op::SpanBegin(span));
            ops.iter().fold(b, |b, op| b.op(*op)).op(Op::SpanEnd(span))
        })
    };
    let forever =
        |ops: &[Op]| ProgramBuilder::new().repeat(Amount::Forever, |b| ops.iter().fold(b, |b, op| b.op(*op)));
    let two = |client: ProgramBuilder, server: ProgramBuilder| Roles {
        client,
        server: Some(server),
        threads: false,
    };
    match mechanism {
        Mechanism::Transfer(kind) => {
            let bytes = params.count32("payload");
            // One message, so that the server does not run ahead. What overflows a datagram
            // socket is lost.
            let channel = if kind.is_socket() {
                draft.connection(kind, if kind == ChannelKind::Udp { 16 * bytes } else { bytes }).0
            } else {
                draft.channel(kind, bytes)
            };
            two(timed(&[Op::Recv { channel, bytes }]), forever(&[run, Op::Send { channel, bytes }]))
        }
        Mechanism::Semaphores(kind) => {
            let (empty, full) = (draft.semaphore_of(kind, 1), draft.semaphore_of(kind, 0));
            let post = |sem| Op::SemPost { sem, units: 1 };
            two(timed(&[Op::SemWait(full), post(empty)]), forever(&[Op::SemWait(empty), run, post(full)]))
        }
        Mechanism::Signals => {
            let (client, server) = (TaskRef(0), TaskRef(1));
            two(timed(&[Op::Kill(server), Op::SigWait]), forever(&[Op::SigWait, run, Op::Kill(client)]))
        }
        Mechanism::Lock(kind) => {
            let (lock, words) = (draft.lock(kind), (draft.word(), draft.word()));
            let (client, server) = take_turns(lock, words, run, iterations, span);
            Roles { threads: !kind.is_file(), ..two(client, server) }
        }
        Mechanism::Conditions => {
            let (asked, done, lock) = (draft.cond(), draft.cond(), draft.lock(LockKind::Futex));
            let start = draft.barrier(2);
            let (client, server) = ask_and_wait((asked, done), lock, start, run, iterations, span);
            Roles { threads: true, ..two(client, server) }
        }
        Mechanism::Poll(kind) => {
            let (client, server) = poll_two_pipes(draft, kind, params.count32("payload"), run);
            two(timed(&client), forever(&server))
        }
        Mechanism::EpollServer => {
            let (client, server) = serve_two_connections(draft, params.count32("payload"), run);
            two(timed(&client), forever(&server))
        }
        Mechanism::Child => {
            // The child of an important client is not important.
            draft.reset_on_fork();
            let client = wait_for_children(draft, run, params.count("iterations"), span);
            Roles { client, server: None, threads: false }
        }
    }
}

/// What the client does in an iteration, and what the server does again and again.
type Parts = (Vec<Op>, Vec<Op>);

/// The server writes into one of two pipes that the client polls.
fn poll_two_pipes(draft: &mut Draft, kind: PollKind, bytes: u32, run: Op) -> Parts {
    let silent = draft.channel(ChannelKind::Pipe, bytes);
    let channel = draft.channel(ChannelKind::Pipe, bytes);
    let set = draft.poll_set(kind, vec![Watched::Channel(silent), Watched::Channel(channel)]);
    (vec![Op::Poll(set), Op::Recv { channel, bytes }], vec![run, Op::Send { channel, bytes }])
}

/// The server has two connections, of which one is silent.
fn serve_two_connections(draft: &mut Draft, bytes: u32, run: Op) -> Parts {
    let (silent, _) = draft.connection(ChannelKind::Unix, bytes.max(REQUEST));
    let (request, reply) = draft.connection(ChannelKind::Unix, bytes.max(REQUEST));
    let watched = vec![Watched::Channel(silent), Watched::Channel(request)];
    let server_set = draft.poll_set(PollKind::Epoll, watched);
    let client_set = draft.poll_set(PollKind::Epoll, vec![Watched::Channel(reply)]);
    let ask = Op::Send { channel: request, bytes: REQUEST };
    (
        vec![ask, Op::Poll(client_set), Op::Recv { channel: reply, bytes }],
        vec![Op::Poll(server_set), Op::RecvReady { bytes: REQUEST }, run, Op::Answer { bytes }],
    )
}

/// The server holds a lock while it computes; the client wants it as soon as it is held.
/// Nothing is timed while it is free: a client that took it again and again would keep the
/// server from it. The server gives the lock up when it is wanted, and continues when the
/// client has had it; where the client preempts the server, it never sleeps for that.
fn take_turns(
    lock: LockId,
    (held, wanted): (WordId, WordId),
    run: Op,
    iterations: Amount,
    span: SpanId,
) -> (ProgramBuilder, ProgramBuilder) {
    let client = ProgramBuilder::new().repeat(iterations, |b| {
        b.op(Op::Await { word: held, value: 1, step: LOOK })
            .op(Op::Store { word: wanted, value: 1 })
            .op(Op::SpanBegin(span))
            .op(Op::Lock(lock))
            .op(Op::SpanEnd(span))
            .op(Op::Store { word: wanted, value: 0 })
            .op(Op::Unlock(lock))
    });
    let server = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        b.op(Op::Lock(lock))
            .op(Op::Store { word: held, value: 1 })
            .op(run)
            .op(Op::Await { word: wanted, value: 1, step: LOOK })
            .op(Op::Store { word: held, value: 0 })
            .op(Op::Unlock(lock))
            .op(Op::Await { word: wanted, value: 0, step: LOOK })
    });
    (client, server)
}

/// Children that stand ready at a time. Chosen; no more than SWAP remembers providers of a resource (20).
const BROOD: u64 = 10;

/// The client has a child compute and waits for its end. It forks several ahead, untimed. Most policies of old take a
/// child's first slice from its parent, so that a client which forks among hogs waits for its own turn before long.
fn wait_for_children(draft: &mut Draft, run: Op, iterations: u64, span: SpanId) -> ProgramBuilder {
    let begin = draft.channel(ChannelKind::Pipe, PAGE);
    let program = draft.program(ProgramBuilder::new().op(Op::Recv { channel: begin, bytes: 1 }).op(run));
    let brood = |b: ProgramBuilder, children: u64| {
        b.repeat(Amount::Times(children), |b| b.op(Op::Fork { program })).repeat(
            Amount::Times(children),
            |b| {
                b.op(Op::SpanBegin(span))
                    .op(Op::Send { channel: begin, bytes: 1 })
                    .op(Op::WaitChild)
                    .op(Op::SpanEnd(span))
            },
        )
    };
    let (broods, rest) = (iterations / BROOD, iterations % BROOD);
    let client = ProgramBuilder::new().repeat(Amount::Times(broods), |b| brood(b, BROOD));
    if rest == 0 { client } else { brood(client, rest) }
}

/// The client signals one condition and waits for the other. The task that signals holds the mutex
/// until it waits itself, so no signal comes too early; for the first one there is the barrier.
fn ask_and_wait(
    (asked, done): (CondId, CondId),
    lock: LockId,
    start: BarrierId,
    run: Op,
    iterations: Amount,
    span: SpanId,
) -> (ProgramBuilder, ProgramBuilder) {
    let client = ProgramBuilder::new().op(Op::Barrier(start)).op(Op::Lock(lock)).repeat(iterations, |b| {
        b.op(Op::SpanBegin(span))
            .op(Op::CondSignal(asked))
            .op(Op::CondWait { cond: done, lock })
            .op(Op::SpanEnd(span))
    });
    let server =
        ProgramBuilder::new().op(Op::Lock(lock)).op(Op::Barrier(start)).repeat(Amount::Forever, |b| {
            b.op(Op::CondWait { cond: asked, lock })
                .op(Op::Unlock(lock))
                .op(run)
                .op(Op::Lock(lock))
                .op(Op::CondSignal(done))
        });
    (client.op(Op::Unlock(lock)), server)
}

/// `swap-broker`: the same over a chain of three processes.
pub(super) const BROKER: WorkloadInfo = WorkloadInfo {
    name: "swap-broker",
    about: "a client waits for a server behind a broker: three processes, Unix sockets",
    params: &[
        HOGS,
        ITERATIONS,
        SERVICE,
        IMPORTANT,
        SERVER_NICE,
        ParamInfo {
            name: "relay",
            // Chosen: what a message bus needs to look at a message.
            default: "100us",
            unit: "us",
            about: "CPU time of the broker per message",
            kind: ParamKind::Duration("us"),
        },
    ],
    metrics: METRICS,
    build: build_broker,
};

fn build_broker(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("swap-broker", params, End::ForegroundExit);
    let span = draft.span();
    let (ask, answer) = draft.connection(ChannelKind::Unix, REQUEST);
    let (call, result) = draft.connection(ChannelKind::Unix, REQUEST);
    let send = |channel| Op::Send { channel, bytes: REQUEST };
    let recv = |channel| Op::Recv { channel, bytes: REQUEST };
    let relay = Op::Run(params.duration("relay"));
    let client = ProgramBuilder::new().repeat(Amount::Times(params.count("iterations")), |b| {
        b.op(Op::SpanBegin(span)).op(send(ask)).op(recv(answer)).op(Op::SpanEnd(span))
    });
    let broker = [recv(ask), relay, send(call), recv(result), relay, send(answer)];
    let server = [recv(call), Op::Run(params.duration("service")), send(result)];
    let client = draft.program(client);
    let process = draft.process();
    make_important(draft.task("client".into(), process, client), params);
    for (name, ops) in [("broker", &broker[..]), ("server", &server[..])] {
        let body = ProgramBuilder::new().repeat(Amount::Forever, |b| ops.iter().fold(b, |b, op| b.op(*op)));
        let program = draft.program(body);
        let process: ProcessId = draft.process();
        let task = draft.task(name.into(), process, program);
        task.nice = params.nices("server_nice")[0];
        task.background = true;
    }
    draft.background_hogs(params.count32("hogs"));
    iteration_metrics(&mut draft, span);
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn only_the_client_is_important() {
        for (spec, policy, nice) in
            [("swap-pipe:hogs=3", Policy::Other, -20), ("swap-sem:hogs=3,important=fifo", Policy::Fifo(1), 0)]
        {
            let scenario = build(spec, 1).unwrap();
            let client = &scenario.tasks[0];
            assert_eq!((client.policy, client.nice.get()), (policy, nice));
            assert_eq!(scenario.tasks.len(), 5);
            assert!(
                scenario.tasks[1..].iter().all(|task| {
                    task.background && task.nice == Nice::ZERO && task.policy == Policy::Other
                })
            );
        }
    }

    #[test]
    fn mutexes_are_shared_by_threads_and_files_by_processes() {
        let same = |spec| {
            let tasks = build(spec, 1).unwrap().tasks;
            tasks[0].process == tasks[1].process
        };
        assert!(same("swap-futex") && same("swap-condvar") && same("inversion"));
        assert!(!same("swap-flock") && !same("swap-pipe"));
        assert_eq!(build("inversion:protocol=pi", 1).unwrap().locks, [LockKind::FutexPi]);
        assert_eq!(build("inversion", 1).unwrap().tasks[1].nice.get(), 19);
    }
}
