//! `ab`: ApacheBench against a prefork web server with a PHP page (Santosa 2005).
//!
//! One client process keeps a number of connections open at once, each for one request. Worker
//! processes accept them from one listening socket. The server starts with a few workers and adds
//! more every second while requests wait, as Apache does that has just been started. Everything
//! computes on the same machine, so the load measures how the scheduler treats many equal workers
//! that one client wakes.

use schedlab_base::{Better, DurationNs, Prng};

use crate::measure::{Formula, MetricSpec, SpanId};
use crate::program::{Amount, ChannelId, ListenerId, Op, PollId, ProgramBuilder, ProgramId};
use crate::scenario::{ChannelKind, End, PollKind, Scenario, Watched};

use super::WorkloadInfo;
use super::draft::Draft;
use super::draws::shuffle;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// Bytes of a request. Chosen: ab's headers.
const REQUEST: u32 = 120;

/// Working set of the client in KiB. Chosen: it keeps statistics.
const CLIENT_KIB: u32 = 32;

/// How Apache's parent adds workers: idle ones that it wants to have, the most that it starts at once, and how
/// often it looks (Apache 2.0: MinSpareServers, MAX_SPAWN_RATE, a second).
const SPARE: u32 = 5;
const SPAWN_MOST: u32 = 32;
const SPAWN_PERIOD: DurationNs = DurationNs::from_secs(1);

/// Different times of the page. Chosen.
const PAGE_TIMES: u64 = 20;

pub(super) const AB: WorkloadInfo = WorkloadInfo {
    name: "ab",
    about: "ApacheBench: one client, a prefork web server, a page in PHP",
    params: &[
        ParamInfo {
            name: "concurrency",
            // The document's; scalability with 4 to 512.
            default: "150",
            unit: "",
            about: "connections open at once (ab -c)",
            kind: ParamKind::Count { min: 1, max: 2_000 },
        },
        ParamInfo {
            name: "requests",
            // The document's.
            default: "4000",
            unit: "",
            about: "requests in all (ab -n), not below the concurrency",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
        },
        ParamInfo {
            name: "workers",
            // Apache 2.0's default for MaxClients.
            default: "150",
            unit: "",
            about: "server processes at most",
            kind: ParamKind::Count { min: 1, max: 2_000 },
        },
        ParamInfo {
            name: "start",
            // Fedora's configuration (StartServers); the document's machine was rebooted before each run.
            default: "8",
            unit: "",
            about: "server processes at the start; 1, 2, 4, ... up to 32 a second are added while all are busy",
            kind: ParamKind::Count { min: 1, max: 2_000 },
        },
        // Together inferred: 16.356 s / 4000 on a busy CPU, system calls, switches and refills of caches
        // (O(1) on the document's machine) taken off. The split is chosen.
        ParamInfo::time("client", "0.2ms", "ms", "CPU time of the client per request"),
        // Chosen: `poll` asks each socket, and ab goes through all answers; 50 us with the document's 150.
        ParamInfo::time(
            "look",
            "0.35us",
            "ms",
            "CPU time of the client for each connection when it looks who has answered",
        ),
        ParamInfo::time("accept", "0.25ms", "ms", "CPU time of a worker to accept and read a request"),
        ParamInfo::time("page", "3.25ms", "ms", "CPU time of the page, 10 % more or less"),
        ParamInfo::time("finish", "0.29ms", "ms", "CPU time of a worker after the answer (log, close)"),
        ParamInfo {
            name: "response",
            // Chosen: Apache collects up to 8000 bytes before it writes.
            default: "8192",
            unit: "B",
            about: "bytes of the answer, written at once",
            kind: ParamKind::Count { min: 1, max: 1 << 20 },
        },
        ParamInfo {
            name: "footprint",
            // Chosen: stack, page and the part of the script that runs. The interpreter's text, and what the
            // parent has set up, are the same memory in all workers: each finds them in the cache.
            default: "16",
            unit: "KiB",
            about: "working set of a worker that no other one has",
            kind: ParamKind::Count { min: 0, max: 1 << 20 },
        },
    ],
    metrics: &[
        ("ttf", "s"),
        ("requests_per_s", "requests/s"),
        ("time_min", "ms"),
        ("time_median", "ms"),
        ("time_p95", "ms"),
        ("time_max", "ms"),
        ("max_minus_min", "ms"),
        ("p95_minus_min", "ms"),
    ],
    build,
};

/// Figures about the lengths of a span in milliseconds that both workloads of the document report.
pub(super) fn length_formulas(span: SpanId) -> [(&'static str, Formula); 6] {
    let quantile = |percent| Formula::QuantileSpanMs { span, percent };
    let above = |percent| Formula::QuantileAboveShortestMs { span, percent };
    [
        ("time_min", quantile(0)),
        ("time_median", quantile(50)),
        ("time_p95", quantile(95)),
        ("time_max", quantile(100)),
        ("max_minus_min", above(100)),
        ("p95_minus_min", above(95)),
    ]
}

/// What client and workers share.
struct Server {
    listener: ListenerId,
    /// The client's directions of the connections.
    connections: Vec<ChannelId>,
    answers: PollId,
    response: u32,
}

fn build(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let (concurrency, requests) = (params.count32("concurrency"), params.count("requests"));
    if u64::from(concurrency) > requests {
        return Err(params.error("requests", "there are fewer than connections at once (concurrency)"));
    }
    let mut draft = Draft::new("ab", params, End::ForegroundExit);
    let (all, life, counter) = (draft.span(), draft.span(), draft.counter());
    let response = params.count32("response");
    let pairs: Vec<(ChannelId, ChannelId)> =
        (0..concurrency).map(|_| draft.connection(ChannelKind::Tcp, response.max(REQUEST))).collect();
    let server = Server {
        listener: draft.listener(),
        connections: pairs.iter().map(|pair| pair.0).collect(),
        answers: draft.poll_set(PollKind::Epoll, pairs.iter().map(|pair| Watched::Channel(pair.1)).collect()),
        response,
    };
    add_workers(&mut draft, params, &server, seed);
    let body =
        client(params, &server, (all, life)).op(Op::Count { counter, units: params.count32("requests") });
    let (program, process) = (draft.program(body), draft.process());
    draft.task("ab".into(), process, program).working_set_kib = CLIENT_KIB;
    let totals = [
        ("ttf", "s", Better::Lower, Formula::MakespanSeconds(all)),
        ("requests_per_s", "requests/s", Better::Higher, Formula::Rate { counter, over: Some(all) }),
    ];
    let lengths = length_formulas(life).map(|(name, formula)| (name, "ms", Better::Lower, formula));
    for (name, unit, better, formula) in totals.into_iter().chain(lengths) {
        draft.metric(MetricSpec { name: name.into(), unit, better, formula });
    }
    draft.finish()
}

/// The workers that exist at the start, and the parent of the others. All of them are busy while more
/// connections are open than there are workers, so that it is known beforehand when it adds some.
fn add_workers(draft: &mut Draft, params: &Params, server: &Server, seed: u64) {
    let most = params.count32("workers").min(params.count32("concurrency") + SPARE);
    let start = params.count32("start").min(params.count32("workers"));
    let programs: Vec<ProgramId> = (0..most.max(start))
        .map(|number| {
            let body = worker(params, server, &mut Prng::stream(seed, number.into()));
            draft.program(body)
        })
        .collect();
    draft.child_working_set(params.count32("footprint"));
    let (first, later) = programs.split_at(start as usize);
    for (number, &program) in first.iter().enumerate() {
        let process = draft.process();
        let task = draft.task(format!("httpd/{number}"), process, program);
        (task.working_set_kib, task.background) = (params.count32("footprint"), true);
    }
    let (mut left, mut rate, mut body) = (later, 1, ProgramBuilder::new());
    while !left.is_empty() {
        let (now, rest) = left.split_at(left.len().min(rate));
        body = now.iter().fold(body.op(Op::Sleep(SPAWN_PERIOD)), |b, &program| b.op(Op::Fork { program }));
        (left, rate) = (rest, SPAWN_MOST.min(2 * rate as u32) as usize);
    }
    let body = body.repeat(Amount::Forever, |b| b.op(Op::Sleep(SPAWN_PERIOD)));
    let (program, process) = (draft.program(body), draft.process());
    draft.task("httpd".into(), process, program).background = true;
}

/// An event loop: connects as often as there may be connections at once, then again for each one that is
/// answered.
fn client(params: &Params, server: &Server, (all, life): (SpanId, SpanId)) -> ProgramBuilder {
    let work = params.duration("client");
    let look = params.duration("look") * params.count("concurrency");
    let (before, after) = (work / 3, look + work - work / 3);
    let (requests, at_once) = (params.count("requests"), server.connections.len() as u64);
    let finish = |b: ProgramBuilder| {
        b.op(Op::Poll(server.answers))
            .op(Op::RecvReady { bytes: server.response })
            .op(Op::Run(after))
            .op(Op::Close(life))
    };
    let start = ProgramBuilder::new().op(Op::SpanBegin(all));
    let open = server.connections.iter().fold(start, |b, &channel| {
        b.op(Op::Run(before))
            .op(Op::Connect { listener: server.listener, channel: Some(channel) })
            .op(Op::Send { channel, bytes: REQUEST })
    });
    open.repeat(Amount::Times(requests - at_once), |b| {
        finish(b)
            .op(Op::Run(before))
            .op(Op::Connect { listener: server.listener, channel: None })
            .op(Op::Answer { bytes: REQUEST })
    })
    .repeat(Amount::Times(at_once), finish)
    .op(Op::SpanEnd(all))
}

/// A worker's pages take times evenly spread around their mean. Each one above it is followed by one as far
/// below: whichever worker serves how many requests, the sum is nearly the same.
fn worker(params: &Params, server: &Server, prng: &mut Prng) -> ProgramBuilder {
    let page = params.duration("page");
    let mut steps: Vec<u64> = (0..PAGE_TIMES / 2).collect();
    shuffle(prng, &mut steps);
    let times = steps.into_iter().flat_map(|step| {
        let off = page.scale(2 * step + 1, 10 * PAGE_TIMES);
        let (longer, shorter) = (page + off, page - off);
        if prng.below(2) == 0 { [longer, shorter] } else { [shorter, longer] }
    });
    let times: Vec<DurationNs> = times.collect();
    ProgramBuilder::new().repeat(Amount::Forever, |b| {
        times.iter().fold(b, |b, &time| {
            b.op(Op::Accept(server.listener))
                .op(Op::Run(params.duration("accept")))
                .op(Op::RecvReady { bytes: REQUEST })
                .op(Op::Run(time))
                .op(Op::Answer { bytes: server.response })
                .op(Op::Run(params.duration("finish")))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    #[test]
    fn every_request_is_connected_answered_and_closed_once() {
        let scenario = build("ab:concurrency=7,requests=100,workers=3", 1).unwrap();
        let client = scenario.tasks.last().unwrap();
        let (mut opened, mut sent, mut answered, mut closed) = (0, 0, 0, 0);
        let mut cursor = Cursor::start();
        loop {
            match cursor.next(&scenario.programs[client.program.index()]) {
                Op::Exit => break,
                Op::Connect { .. } => opened += 1,
                Op::Send { .. } | Op::Answer { .. } => sent += 1,
                Op::RecvReady { .. } => answered += 1,
                Op::Close(_) => closed += 1,
                _ => {}
            }
            assert!(opened - closed <= 7);
        }
        assert_eq!((opened, sent, answered, closed), (100, 100, 100, 100));
        // The workers and their parent.
        assert_eq!(scenario.tasks.iter().filter(|task| task.background).count(), 3 + 1);
    }

    #[test]
    fn the_client_computes_more_with_more_connections() {
        let work = |spec: &str| {
            let scenario = build(spec, 1).unwrap();
            let (mut cursor, mut sum) = (Cursor::start(), DurationNs::ZERO);
            loop {
                match cursor.next(&scenario.programs[scenario.tasks.last().unwrap().program.index()]) {
                    Op::Exit => return sum,
                    Op::Run(span) => sum += span,
                    _ => {}
                }
            }
        };
        assert_eq!(work("ab:concurrency=4,requests=600"), DurationNs(600 * (200_000 + 4 * 350)));
        assert_eq!(work("ab:concurrency=300,requests=600"), DurationNs(600 * (200_000 + 300 * 350)));
    }

    #[test]
    fn workers_are_added_faster_and_faster() {
        let forks = |spec: &str| -> Vec<usize> {
            let scenario = build(spec, 1).unwrap();
            let parent = scenario.tasks.iter().find(|task| task.name == "httpd").unwrap();
            let ops = scenario.programs[parent.program.index()].ops();
            let seconds = ops.split(|op| *op == Op::Sleep(SPAWN_PERIOD)).skip(1);
            seconds.map(|ops| ops.iter().filter(|op| matches!(op, Op::Fork { .. })).count()).collect()
        };
        assert_eq!(forks("ab")[..9], [1, 2, 4, 8, 16, 32, 32, 32, 15]);
        // With four connections, 8 workers are more than enough.
        assert_eq!(forks("ab:concurrency=4").iter().sum::<usize>(), 9 - 8);
        assert_eq!(forks("ab:concurrency=2").iter().sum::<usize>(), 0);
    }

    #[test]
    fn pages_are_evenly_spread_around_their_mean() {
        let scenario = build("ab:accept=1us,finish=1us", 3).unwrap();
        let page = DurationNs::from_us(3250);
        let pages: Vec<DurationNs> = scenario.programs[0]
            .ops()
            .iter()
            .filter_map(|op| match op {
                Op::Run(span) if *span > DurationNs::from_ms(1) => Some(*span),
                _ => None,
            })
            .collect();
        assert_eq!(pages.len() as u64, PAGE_TIMES);
        assert!(pages.chunks(2).all(|pair| pair[0] + pair[1] == page * 2));
        let (least, most) = (pages.iter().min().unwrap(), pages.iter().max().unwrap());
        assert_eq!((*least, *most), (page.scale(905, 1000), page.scale(1095, 1000)));
        assert_ne!(scenario.programs[0], scenario.programs[1]);
    }

    #[test]
    fn fewer_requests_than_connections_are_refused() {
        let error = build("ab:requests=100", 1).unwrap_err().to_string();
        assert!(error.contains("parameter requests") && error.contains("concurrency"), "{error}");
    }
}
