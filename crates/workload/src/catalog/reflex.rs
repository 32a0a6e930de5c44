//! `reflex` and `lat-ctx`: tokens that travel around rings of pipes.
//!
//! Reflex stands for the program of that name in Kravetz's mail of 2002, whose source was not
//! found. It has rings of two, one token each, and a "round" is one hop of any token. For its
//! published figures fall below one context switch when eight CPUs work at once. `lat-ctx` follows
//! LMbench's program of that name.

use schedlab_base::Better;

use crate::measure::{CounterId, Formula, MetricSpec, SpanId};
use crate::program::{Amount, ChannelId, Op, ProgramBuilder};
use crate::scenario::{ChannelKind, End, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// Size of a token in bytes. Chosen; LMbench's tokens are one integer too.
const TOKEN: u32 = 4;

/// A pipe's capacity in bytes: 16 pages (pipe(7)).
const PIPE_CAPACITY: u32 = 65_536;

/// Working set of a token passer besides its array, KiB. Chosen.
const WORKING_SET_KIB: u32 = 1;

/// Uncounted hops at the start, as a fraction of all: 1 %.
const WARM_UP_DIVISOR: u64 = 100;

pub(super) const REFLEX: WorkloadInfo = WorkloadInfo {
    name: "reflex",
    about: "tokens passed around rings of pipes, any number of rings at once",
    params: &[
        ParamInfo::count("tasks", "16", (2, 100_000), "number of tasks (2 to 128 in the document)"),
        ParamInfo::count("group", "2", (2, 100_000), "tasks per ring"),
        ParamInfo::count("active", "1", (1, 100_000), "tokens per ring"),
        ParamInfo {
            name: "delay",
            default: "0us",
            unit: "us",
            about: "CPU time that a task spends on a token before it passes it on",
            kind: ParamKind::Duration("us"),
        },
        ParamInfo::count("rounds", "20000", (1, 1_000_000_000), "hops of each token"),
    ],
    metrics: &[("time_per_round", "us")],
    build: build_reflex,
};

pub(super) const LAT_CTX: WorkloadInfo = WorkloadInfo {
    name: "lat-ctx",
    about: "one token around a ring of processes, each walking an array (LMbench)",
    params: &[
        ParamInfo::count("procs", "2", (2, 10_000), "number of processes"),
        ParamInfo {
            unit: "kB",
            ..ParamInfo::count("size", "0", (0, 1 << 20), "array that each process walks")
        },
        ParamInfo::count("rounds", "10000", (1, 1_000_000_000), "rounds of the token"),
    ],
    metrics: &[("time_per_switch", "us")],
    build: build_lat_ctx,
};

fn build_reflex(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (tasks, group, active) = (params.count32("tasks"), params.count32("group"), params.count32("active"));
    if tasks % group != 0 {
        return Err(params.error("tasks", &format!("{tasks} is not a multiple of group={group}")));
    }
    if active > group {
        return Err(params.error("active", &format!("{active} tokens are more than group={group} tasks")));
    }
    // A token that makes `rounds` hops visits each task of its ring this often.
    let visits = (params.count("rounds") * u64::from(active)).div_ceil(u64::from(group));
    let mut draft = Draft::new("reflex", params, End::AllExit);
    let (hops, span) = (draft.counter(), draft.span());
    for ring in 0..tasks / group {
        let pipes: Vec<ChannelId> =
            (0..group).map(|_| draft.channel(ChannelKind::Pipe, PIPE_CAPACITY)).collect();
        for place in 0..group {
            let holds = holds_token(place, group, active);
            let next = pipes[((place + 1) % group) as usize];
            let body = passer(params, holds, (pipes[place as usize], next), visits, (hops, span));
            let program = draft.program(body);
            let process = draft.process();
            let task = draft.task(format!("ring/{ring}/{place}"), process, program);
            task.working_set_kib = WORKING_SET_KIB;
        }
    }
    draft.metric(MetricSpec {
        name: "time_per_round".into(),
        unit: "us",
        better: Better::Lower,
        formula: Formula::TimePerUnitUs { counter: hops, over: Some(span), times_cpus: false },
    });
    draft.finish()
}

/// True when one of the `active` evenly spaced tokens starts at `place`.
fn holds_token(place: u32, group: u32, active: u32) -> bool {
    (0..active).any(|token| u64::from(token) * u64::from(group) / u64::from(active) == u64::from(place))
}

/// One task of a ring. A holder sends first and receives then.
fn passer(
    params: &Params,
    holds: bool,
    (own, next): (ChannelId, ChannelId),
    visits: u64,
    (hops, span): (CounterId, SpanId),
) -> ProgramBuilder {
    let delay = params.duration("delay");
    let work = |b: ProgramBuilder| if delay.0 == 0 { b } else { b.op(Op::Run(delay)) };
    let receive = Op::Recv { channel: own, bytes: TOKEN };
    let send = Op::Send { channel: next, bytes: TOKEN };
    let visit = |b: ProgramBuilder| {
        if holds { work(b).op(send).op(receive) } else { work(b.op(receive)).op(send) }
    };
    let warm_up = visits / WARM_UP_DIVISOR;
    ProgramBuilder::new()
        .repeat(Amount::Times(warm_up), visit)
        .op(Op::SpanBegin(span))
        .repeat(Amount::Times(visits - warm_up), |b| visit(b).op(Op::Count { counter: hops, units: 1 }))
        .op(Op::SpanEnd(span))
}

fn build_lat_ctx(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let (procs, size, rounds) = (params.count32("procs"), params.count32("size"), params.count("rounds"));
    let mut draft = Draft::new("lat-ctx", params, End::AllExit);
    let (switches, span) = (draft.counter(), draft.span());
    let (alone, alone_span) = (draft.counter(), draft.span());
    let pipes: Vec<ChannelId> = (0..procs).map(|_| draft.channel(ChannelKind::Pipe, PIPE_CAPACITY)).collect();
    let touch = |b: ProgramBuilder| if size == 0 { b } else { b.op(Op::Touch { kib: size }) };
    let receive = |at: u32| Op::Recv { channel: pipes[at as usize], bytes: TOKEN };
    let send = |at: u32| Op::Send { channel: pipes[(at % procs) as usize], bytes: TOKEN };
    for at in 0..procs {
        let body = if at > 0 {
            ProgramBuilder::new().repeat(Amount::Times(rounds), |b| touch(b.op(receive(at))).op(send(at + 1)))
        } else {
            // The overhead first: a write, a read and a walk without a switch.
            ProgramBuilder::new()
                .op(Op::SpanBegin(alone_span))
                .repeat(Amount::Times(rounds.min(1_000)), |b| {
                    touch(b.op(send(0)).op(receive(0))).op(Op::Count { counter: alone, units: 1 })
                })
                .op(Op::SpanEnd(alone_span))
                .op(Op::SpanBegin(span))
                .repeat(Amount::Times(rounds), |b| {
                    touch(b.op(send(1)).op(receive(0))).op(Op::Count { counter: switches, units: procs })
                })
                .op(Op::SpanEnd(span))
        };
        let program = draft.program(body);
        let process = draft.process();
        draft.task(format!("proc/{at}"), process, program).working_set_kib = WORKING_SET_KIB + size;
    }
    draft.metric(MetricSpec {
        name: "time_per_switch".into(),
        unit: "us",
        better: Better::Lower,
        formula: Formula::TimePerUnitDifferenceUs { whole: (switches, span), part: (alone, alone_span) },
    });
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    /// Sends, receives and counted units of all tasks.
    fn totals(scenario: &Scenario) -> (u64, u64, u64) {
        let (mut sends, mut receives, mut counted) = (0, 0, 0);
        for task in &scenario.tasks {
            let program = &scenario.programs[task.program.index()];
            let mut cursor = Cursor::start();
            loop {
                match cursor.next(program) {
                    Op::Exit => break,
                    Op::Send { .. } => sends += 1,
                    Op::Recv { .. } => receives += 1,
                    Op::Count { units, .. } => counted += u64::from(units),
                    _ => {}
                }
            }
        }
        (sends, receives, counted)
    }

    #[test]
    fn every_token_makes_its_hops() {
        // 8 rings, one token each, 1000 hops, 1 % of them uncounted.
        let scenario = build("reflex:tasks=16,rounds=1000", 1).unwrap();
        assert_eq!(totals(&scenario), (8_000, 8_000, 8 * 990));
        // One ring of 4 with 2 tokens.
        let scenario = build("reflex:tasks=4,group=4,active=2,rounds=100,delay=5", 1).unwrap();
        assert_eq!(totals(&scenario), (200, 200, 200));
    }

    #[test]
    fn tokens_are_evenly_spaced() {
        let places =
            |group, active| (0..group).filter(|&p| holds_token(p, group, active)).collect::<Vec<_>>();
        assert_eq!(places(2, 1), [0]);
        assert_eq!(places(8, 2), [0, 4]);
        assert_eq!(places(3, 3), [0, 1, 2]);
    }

    #[test]
    fn impossible_rings_are_refused() {
        let error = |spec| build(spec, 1).unwrap_err().to_string();
        assert!(error("reflex:tasks=3").contains("not a multiple of group=2"));
        assert!(error("reflex:active=3").contains("more than group=2"));
    }

    #[test]
    fn lat_ctx_counts_switches_and_measures_its_overhead() {
        let scenario = build("lat-ctx:procs=4,rounds=10,size=8", 1).unwrap();
        assert_eq!(totals(&scenario), (4 * 10 + 10, 4 * 10 + 10, 4 * 10 + 10));
    }
}
