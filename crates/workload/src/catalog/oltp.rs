//! `oltp`: the transactions of sysbench on a database server with row locks, a disk and a log
//! (Santosa 2005: sysbench, MySQL with InnoDB).
//!
//! Every client thread has a connection to a thread of the server. A transaction is a fixed sequence of
//! statements; which rows it writes and which statements read from the disk is drawn. Waiting commits
//! share one write of the log.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_base::{Better, DurationNs, Prng};

use crate::measure::{Formula, MetricSpec};
use crate::program::{Amount, ChannelId, DiskId, LockId, Op, ProgramBuilder, SemId};
use crate::scenario::{ChannelKind, End, LockKind, Scenario};

use super::WorkloadInfo;
use super::ab::length_formulas;
use super::draft::Draft;
use super::draws::exponential;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// Bytes of a statement and of its answer. Chosen.
const MESSAGE: u32 = 200;

/// Working set of a client in KiB: it writes statements. Chosen.
const CLIENT_KIB: u32 = 8;

/// Of a hundred rows written so many are among the first hundredth of the table (sysbench's "special"
/// distribution).
const HOT_PERCENT: u64 = 75;

/// Bytes of a row in the table's file. Inferred: sysbench's columns (key, number, 120 and 60 characters), the
/// engine's own fields, the index.
const ROW_BYTES: u64 = 260;

/// The document's threads, for which `miss` holds.
const USUAL_THREADS: u64 = 8;

/// Draws are in millionths.
const MILLION: u64 = 1_000_000;

/// A statement of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    Begin,
    Point,
    Range,
    /// Writes the row of this number; a deleted row is inserted again.
    Write(usize),
    Commit,
}

/// Rows that a transaction writes.
const ROWS_WRITTEN: usize = 3;

/// The "complex" transaction of sysbench 0.4: point selects, four kinds of range select, two updates, a
/// delete and an insert of the same row.
fn statements() -> impl Iterator<Item = Statement> {
    use Statement::{Begin, Commit, Point, Range, Write};
    let reads = std::iter::repeat_n(Point, 10).chain(std::iter::repeat_n(Range, 4));
    std::iter::once(Begin).chain(reads).chain([Write(0), Write(1), Write(2), Write(2), Commit])
}

pub(super) const OLTP: WorkloadInfo = WorkloadInfo {
    name: "oltp",
    about: "sysbench transactions on a database with row locks, a disk and a log",
    params: &[
        ParamInfo {
            name: "threads",
            // The document's; scalability with 2 to 256.
            default: "8",
            unit: "",
            about: "client threads, each with its connection and server thread",
            kind: ParamKind::Count { min: 1, max: 2_000 },
        },
        ParamInfo {
            name: "transactions",
            // The document's.
            default: "10000",
            unit: "",
            about: "transactions in all, divided evenly, at least one for each thread",
            kind: ParamKind::Count { min: 1, max: 100_000 },
        },
        ParamInfo {
            name: "rows",
            // The document's.
            default: "1000000",
            unit: "",
            about: "rows of the table",
            kind: ParamKind::Count { min: 100, max: 1_000_000_000 },
        },
        // Chosen; they add up to 6 ms per transaction.
        ParamInfo::time("point", "0.2ms", "ms", "CPU time of the server for a point select"),
        ParamInfo::time("range", "0.6ms", "ms", "CPU time of the server for a range select of 100 rows"),
        ParamInfo::time("write", "0.3ms", "ms", "CPU time of the server for an update, delete or insert"),
        ParamInfo::time("begin", "0.05ms", "ms", "CPU time of the server for BEGIN"),
        ParamInfo::time("commit", "0.3ms", "ms", "CPU time of the server for COMMIT"),
        ParamInfo::time("client", "0.06ms", "ms", "CPU time of a client for a statement"),
        ParamInfo {
            name: "miss",
            // Chosen.
            default: "4",
            unit: "%",
            about: "statements that read from the disk, with 8 threads",
            kind: ParamKind::Count { min: 0, max: 100 },
        },
        ParamInfo {
            name: "connection",
            // Chosen: stacks, buffers and handles of the server's thread and of the client's, sockets.
            default: "300",
            unit: "KiB",
            about: "memory of a thread: so much less of the table is cached, for rows that are not hot",
            kind: ParamKind::Count { min: 0, max: 1 << 20 },
        },
        ParamInfo {
            name: "inside",
            // The data base's of that time (innodb_thread_concurrency).
            default: "8",
            unit: "",
            about: "threads that may be in the storage engine at once, those that wait for rows aside",
            kind: ParamKind::Count { min: 1, max: 2_000 },
        },
        // Chosen.
        ParamInfo::time("read", "9ms", "ms", "mean service time of a read, exponentially distributed"),
        ParamInfo {
            name: "footprint",
            // Chosen: stack, buffers and the rows at hand. Text and upper pages of the index are the same
            // memory for all threads: each finds them in the cache.
            default: "16",
            unit: "KiB",
            about: "working set of a server's thread that no other one has",
            kind: ParamKind::Count { min: 0, max: 1 << 20 },
        },
        // Inferred: with it 8 threads take the document's 13.7 ms per transaction (O(1), its machine).
        ParamInfo::time("log", "23.5ms", "ms", "service time of a write of the log"),
    ],
    metrics: &[
        ("total_time", "s"),
        ("tps", "transactions/s"),
        ("avtr", "ms"),
        ("time_min", "ms"),
        ("time_median", "ms"),
        ("time_p95", "ms"),
        ("time_max", "ms"),
        ("max_minus_min", "ms"),
        ("p95_minus_min", "ms"),
    ],
    build,
};

/// The rows that each transaction of a thread writes, in ascending order.
type Transactions = Vec<[u64; ROWS_WRITTEN]>;

fn build(params: &Params, seed: u64) -> Result<Scenario, CatalogError> {
    let (threads, total) = (params.count("threads"), params.count("transactions"));
    if total < threads {
        return Err(params.error("transactions", "there are fewer than threads"));
    }
    let mut draft = Draft::new("oltp", params, End::AllExit);
    let (all, one, done) = (draft.span(), draft.span(), draft.counter());
    let (sysbench, mysqld) = (draft.process(), draft.process());
    let disk = draft.disk();
    let mut prngs: Vec<Prng> = (0..threads).map(|thread| Prng::stream(seed, thread)).collect();
    let written: Vec<Transactions> = (0..threads)
        .map(|thread| {
            let share = total / threads + u64::from(thread < total % threads);
            (0..share).map(|_| draw_rows(&mut prngs[thread as usize], params.count("rows"))).collect()
        })
        .collect();
    let locks = row_locks(&mut draft, &written);
    let (inside, missing) = (params.count32("inside"), missing(params));
    let inside = (threads > inside.into()).then(|| draft.semaphore(inside));
    for (thread, (transactions, prng)) in written.iter().zip(&mut prngs).enumerate() {
        let (request, answer) = draft.connection(ChannelKind::Unix, MESSAGE);
        let session = Session { request, answer, disk, locks: &locks, inside, missing };
        let body = serve(params, &session, transactions, prng);
        let program = draft.program(body);
        draft.task(format!("mysqld/{thread}"), mysqld, program).working_set_kib = params.count32("footprint");
        let statement = [
            Op::Run(params.duration("client")),
            Op::Send { channel: request, bytes: MESSAGE },
            Op::Recv { channel: answer, bytes: MESSAGE },
        ];
        let body = ProgramBuilder::new()
            .op(Op::SpanBegin(all))
            .repeat(Amount::Times(transactions.len() as u64), |b| {
                b.op(Op::SpanBegin(one))
                    .repeat(Amount::Times(statements().count() as u64), |b| {
                        statement.into_iter().fold(b, ProgramBuilder::op)
                    })
                    .op(Op::SpanEnd(one))
                    .op(Op::Count { counter: done, units: 1 })
            })
            .op(Op::SpanEnd(all));
        let program = draft.program(body);
        draft.task(format!("sysbench/{thread}"), sysbench, program).working_set_kib = CLIENT_KIB;
    }
    let rate = Formula::Rate { counter: done, over: Some(all) };
    let totals = [
        ("total_time", "s", Better::Lower, Formula::MakespanSeconds(all)),
        ("tps", "transactions/s", Better::Higher, rate),
        ("avtr", "ms", Better::Lower, Formula::MeanSpanMs(one)),
    ];
    let lengths = length_formulas(one).map(|(name, formula)| (name, "ms", Better::Lower, formula));
    for (name, unit, better, formula) in totals.into_iter().chain(lengths) {
        draft.metric(MetricSpec { name: name.into(), unit, better, formula });
    }
    draft.finish()
}

/// Of a million statements so many read from the disk. What the memory of further threads takes from the
/// cache is missing whenever a row is drawn that is not hot.
fn missing(params: &Params) -> u64 {
    let table = (params.count("rows") * ROW_BYTES / 1024).max(1);
    let memory = |threads: u64| (threads * params.count("connection")).min(table);
    let lost = |threads: u64| (100 - HOT_PERCENT) * MILLION / 100 * memory(threads) / table;
    let usual = params.count("miss") * MILLION / 100;
    (usual + lost(params.count("threads"))).saturating_sub(lost(USUAL_THREADS)).min(MILLION)
}

/// Ascending: tasks that take locks in one order cannot wait for each other.
fn draw_rows(prng: &mut Prng, rows: u64) -> [u64; ROWS_WRITTEN] {
    let mut drawn = [0; ROWS_WRITTEN];
    for row in &mut drawn {
        let among = if prng.below(100) < HOT_PERCENT { rows / 100 } else { rows };
        *row = prng.below(among);
    }
    drawn.sort_unstable();
    drawn
}

/// A lock for every row that several threads write; threads cannot meet at the others.
fn row_locks(draft: &mut Draft, written: &[Transactions]) -> BTreeMap<u64, LockId> {
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for transactions in written {
        let rows: BTreeSet<u64> = transactions.iter().flatten().copied().collect();
        shared.extend(rows.iter().filter(|row| !seen.insert(**row)));
    }
    shared.into_iter().map(|row| (row, draft.lock(LockKind::Futex))).collect()
}

/// What a server thread uses.
struct Session<'a> {
    request: ChannelId,
    answer: ChannelId,
    disk: DiskId,
    locks: &'a BTreeMap<u64, LockId>,
    /// What limits the threads in the storage engine, if there are more.
    inside: Option<SemId>,
    /// Of a million statements so many read from the disk.
    missing: u64,
}

/// A row is locked from its first write to the end of the transaction.
fn serve(
    params: &Params,
    session: &Session<'_>,
    transactions: &Transactions,
    prng: &mut Prng,
) -> ProgramBuilder {
    let [begin, point, range, write, commit] =
        ["begin", "point", "range", "write", "commit"].map(|name| params.duration(name));
    let mut body = ProgramBuilder::new();
    for rows in transactions {
        let mut held = Vec::new();
        for statement in statements() {
            body = body.op(Op::Recv { channel: session.request, bytes: MESSAGE });
            if let Statement::Write(number) = statement
                && let Some(lock) = session.locks.get(&rows[number]).filter(|lock| !held.contains(*lock))
            {
                held.push(*lock);
                body = body.op(Op::Lock(*lock));
            }
            let enters = !matches!(statement, Statement::Begin | Statement::Commit);
            let gate = session.inside.filter(|_| enters);
            body = gate.into_iter().fold(body, |body, gate| body.op(Op::SemWait(gate)));
            body = body.op(Op::Run(match statement {
                Statement::Begin => begin,
                Statement::Point => point,
                Statement::Range => range,
                Statement::Write(_) => write,
                Statement::Commit => commit,
            }));
            if statement == Statement::Commit {
                body = body.op(Op::Fsync { disk: session.disk, service: params.duration("log") });
                body = held.drain(..).fold(body, |body, lock| body.op(Op::Unlock(lock)));
            } else if enters && prng.below(MILLION) < session.missing {
                let service = exponential(prng, params.duration("read")).max(DurationNs(1));
                body = body.op(Op::Io { disk: session.disk, service });
            }
            body = gate.into_iter().fold(body, |body, gate| body.op(Op::SemPost { sem: gate, units: 1 }));
            body = body.op(Op::Send { channel: session.answer, bytes: MESSAGE });
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    /// By server thread: statements, CPU time, reads, commits; and locks taken in all.
    fn walk(scenario: &Scenario) -> (Vec<(u64, DurationNs, u64, u64)>, u64) {
        let mut locked = 0;
        let sessions = scenario.tasks.iter().filter(|task| task.name.starts_with("mysqld"));
        let sums = sessions.map(|task| {
            let mut sum = (0, DurationNs::ZERO, 0, 0);
            let (mut held, mut cursor) = (Vec::new(), Cursor::start());
            loop {
                match cursor.next(&scenario.programs[task.program.index()]) {
                    Op::Exit => break,
                    Op::Recv { .. } => sum.0 += 1,
                    Op::Run(span) => sum.1 += span,
                    Op::Io { .. } => sum.2 += 1,
                    Op::Fsync { .. } => sum.3 += 1,
                    Op::Lock(lock) => {
                        assert!(held.last().is_none_or(|last| *last < lock), "ascending");
                        held.push(lock);
                        locked += 1;
                    }
                    Op::Unlock(lock) => held.retain(|other| *other != lock),
                    _ => {}
                }
            }
            assert!(held.is_empty());
            sum
        });
        (sums.collect(), locked)
    }

    #[test]
    fn transactions_add_up() {
        let scenario = build("oltp:threads=3,transactions=100", 1).unwrap();
        let (sums, _) = walk(&scenario);
        let transactions: Vec<u64> = sums.iter().map(|sum| sum.3).collect();
        assert_eq!(transactions, [34, 33, 33]);
        for (statements, cpu, _, commits) in sums {
            assert_eq!(statements, 20 * commits);
            assert_eq!(cpu, DurationNs::from_us(5_950) * commits);
        }
    }

    #[test]
    fn reads_and_conflicts_are_as_frequent_as_drawn() {
        let (sums, locked) = walk(&build("oltp:threads=8,transactions=4000", 2).unwrap());
        let reads: u64 = sums.iter().map(|sum| sum.2).sum();
        // 18 statements that may read, 4 % of them do.
        assert!((2_700..3_060).contains(&reads), "{reads}");
        // Three quarters of the rows written are among 10,000, where 8 threads meet sooner or later.
        assert!((3_000..9_000).contains(&locked), "{locked}");
        let (_, alone) = walk(&build("oltp:threads=1,transactions=100", 2).unwrap());
        assert_eq!(alone, 0);
    }

    #[test]
    fn more_threads_read_more_and_queue_before_the_engine() {
        let reads = |spec: &str| walk(&build(spec, 1).unwrap()).0.iter().map(|sum| sum.2).sum::<u64>();
        // 4 % of 18 statements; with 248 further threads of 300 KiB a quarter of 29 % of the table on top.
        let (few, many) = (reads("oltp:transactions=4096"), reads("oltp:threads=256,transactions=4096"));
        assert!((2_750..3_150).contains(&few) && (7_900..8_700).contains(&many), "{few}, {many}");
        assert_eq!(few, reads("oltp:transactions=4096,connection=0"));
        let gates = |spec: &str| {
            let scenario = build(spec, 1).unwrap();
            let ops = |gate: fn(&Op) -> bool| {
                let programs = scenario.programs.iter();
                programs.flat_map(|program| program.ops()).filter(|op| gate(op)).count()
            };
            let (entered, left) =
                (ops(|op| matches!(op, Op::SemWait(_))), ops(|op| matches!(op, Op::SemPost { .. })));
            assert_eq!(entered, left);
            (scenario.semaphores.iter().map(|gate| gate.initial).sum::<u32>(), entered)
        };
        assert_eq!(gates("oltp:threads=9,transactions=90"), (8, 90 * 18));
        assert_eq!(gates("oltp:threads=8,transactions=90"), (0, 0));
    }

    #[test]
    fn fewer_transactions_than_threads_are_refused() {
        let error = build("oltp:transactions=4", 1).unwrap_err().to_string();
        assert!(error.contains("parameter transactions"), "{error}");
    }
}
