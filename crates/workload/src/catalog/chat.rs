//! `chat`: the chat-room server load that the Linux scalability effort's chat program simulates.
//! `volano`: the same with the work and the yields of a Java virtual machine (VolanoMark; Zheng and
//! Nieh 2004, section 5).
//!
//! Every user has a connection and four threads: client send, client receive,
//! server receive, server send. What one user sends, all others of the room
//! receive.

use schedlab_base::{Better, DurationNs, Nice};

use crate::measure::{CounterId, Formula, MetricSpec};
use crate::program::{Amount, ChannelId, Op, ProgramBuilder, SemId};
use crate::scenario::{ChannelKind, End, ProcessId, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};

/// Messages that one direction of a connection holds. Chosen.
const CAPACITY_MESSAGES: u32 = 160;

/// Most users of a scenario. Chosen: four threads each, so 80,000 tasks.
const MAX_USERS: u32 = 20_000;

/// Working set of a thread in KiB: the lines of its stack, the socket and the message
/// that it touches per turn. Chosen.
const WORKING_SET_KIB: u32 = 2;

const ROOMS: ParamInfo = ParamInfo::count("rooms", "10", (1, 1_000), "chat rooms");
const MESSAGES: ParamInfo =
    ParamInfo::count("messages", "100", (1, 1_000_000_000), "messages that each user sends");
const USERS: ParamInfo = ParamInfo::count("users", "20", (1, 200), "users per room, at least 2");
const SIZE: ParamInfo =
    ParamInfo { unit: "B", ..ParamInfo::count("size", "100", (1, 1 << 20), "bytes of a message") };
const HOGS: ParamInfo = ParamInfo {
    name: "hogs",
    default: "0",
    unit: "",
    about: "background tasks that only compute",
    kind: ParamKind::Count { min: 0, max: 10_000 },
};
const MEDIUM: ParamInfo = ParamInfo {
    name: "medium",
    default: "tcp",
    unit: "",
    about: "connections: tcp over loopback, or unix sockets",
    kind: ParamKind::Word(&["tcp", "unix"]),
};
const FANOUT: ParamInfo = ParamInfo {
    name: "fanout",
    default: "sender",
    unit: "",
    about: "who copies a message: one sender thread writes all, or every receiver's thread writes one",
    kind: ParamKind::Word(&["sender", "receiver"]),
};

const METRICS: &[(&str, &str)] = &[("throughput", "messages/s"), ("run_time", "s")];

pub(super) const CHAT: WorkloadInfo = WorkloadInfo {
    name: "chat",
    about: "chat rooms over loopback connections, four threads per user",
    params: &[ROOMS, MESSAGES, USERS, SIZE, HOGS, MEDIUM, FANOUT],
    metrics: METRICS,
    build: build_chat,
};

pub(super) const VOLANO: WorkloadInfo = WorkloadInfo {
    name: "volano",
    about: "chat with a virtual machine's work and yields, client at nice -20, against CPU hogs",
    params: &[
        ROOMS,
        MESSAGES,
        USERS,
        SIZE,
        HOGS,
        MEDIUM,
        ParamInfo {
            name: "client_nice",
            default: "-20",
            unit: "",
            about: "nice value of the client process",
            kind: ParamKind::NiceList,
        },
        ParamInfo {
            name: "client_work",
            // Inferred from 455 us of CPU time per published message, system calls taken off; the split is chosen.
            default: "225us",
            unit: "us",
            about: "CPU time of the client per message received",
            kind: ParamKind::Duration("us"),
        },
        ParamInfo {
            name: "server_work",
            default: "225us",
            unit: "us",
            about: "CPU time of the server per message delivered",
            kind: ParamKind::Duration("us"),
        },
        ParamInfo {
            name: "yields",
            default: "1",
            unit: "",
            about: "calls of sched_yield() by a client for each message received, and before each one sent",
            kind: ParamKind::Count { min: 0, max: 1_000 },
        },
        ParamInfo {
            name: "order",
            // The document: clients take turns.
            default: "turns",
            unit: "",
            about: "turns: a user sends when it has the message of the one before it; free: as fast as it can",
            kind: ParamKind::Word(&["turns", "free"]),
        },
    ],
    metrics: METRICS,
    build: build_volano,
};

/// What the two workloads differ in.
struct Shape {
    fanout_receiver: bool,
    client_nice: Nice,
    client_work: DurationNs,
    server_work: DurationNs,
    /// After each message received.
    client_yields: u64,
    turns: bool,
}

fn build_chat(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let shape = Shape {
        fanout_receiver: params.word("fanout") == "receiver",
        client_nice: Nice::ZERO,
        client_work: DurationNs::ZERO,
        server_work: DurationNs::ZERO,
        client_yields: 0,
        turns: false,
    };
    build("chat", params, &shape)
}

fn build_volano(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let shape = Shape {
        fanout_receiver: true,
        client_nice: params.nices("client_nice")[0],
        client_work: params.duration("client_work"),
        server_work: params.duration("server_work"),
        client_yields: params.count("yields"),
        turns: params.word("order") == "turns",
    };
    build("volano", params, &shape)
}

/// What the threads of one room share.
struct Room<'a> {
    number: u32,
    messages: u64,
    size: u32,
    c2s: Vec<ChannelId>,
    s2c: Vec<ChannelId>,
    broadcast: Vec<SemId>,
    /// By user: units are turns to send; empty where no user waits for one.
    turns: Vec<SemId>,
    gate: Gate,
    shape: &'a Shape,
}

#[derive(Clone, Copy)]
struct Gate {
    start: SemId,
    done: SemId,
    counted: CounterId,
    client: ProcessId,
    server: ProcessId,
}

fn build(name: &str, params: &Params, shape: &Shape) -> Result<Scenario, CatalogError> {
    let (rooms, users) = (params.count32("rooms"), params.count32("users"));
    if users < 2 {
        return Err(params.error("users", "a room needs at least 2 users"));
    }
    if rooms * users > MAX_USERS {
        return Err(
            params.error("rooms", &format!("{rooms} rooms of {users} users are over {MAX_USERS} users"))
        );
    }
    let kind = if params.word("medium") == "unix" { ChannelKind::Unix } else { ChannelKind::Tcp };
    let mut draft = Draft::new(name, params, End::ForegroundExit);
    let gate = Gate {
        start: draft.semaphore(0),
        done: draft.semaphore(0),
        counted: draft.counter(),
        client: draft.process(),
        server: draft.process(),
    };
    for number in 0..rooms {
        let size = params.count32("size");
        let connections: Vec<(ChannelId, ChannelId)> =
            (0..users).map(|_| draft.connection(kind, size * CAPACITY_MESSAGES)).collect();
        let room = Room {
            number,
            messages: params.count("messages"),
            size,
            c2s: connections.iter().map(|pair| pair.0).collect(),
            s2c: connections.iter().map(|pair| pair.1).collect(),
            broadcast: (0..users).map(|_| draft.semaphore(0)).collect(),
            // The first user begins.
            turns: (0..if shape.turns { users } else { 0 })
                .map(|user| draft.semaphore(u32::from(user == 0)))
                .collect(),
            gate,
            shape,
        };
        for user in 0..users as usize {
            add_user(&mut draft, &room, user);
        }
    }
    add_main(&mut draft, gate, u64::from(2 * users * rooms), shape.client_nice);
    draft.background_hogs(params.count32("hogs"));
    draft.finish()
}

/// The thread that opens the start gate, and waits for all client threads.
fn add_main(draft: &mut Draft, gate: Gate, client_threads: u64, nice: Nice) {
    let span = draft.span();
    let body = ProgramBuilder::new()
        .op(Op::SpanBegin(span))
        .repeat(Amount::Times(client_threads), |b| b.op(Op::SemPost { sem: gate.start, units: 1 }))
        .repeat(Amount::Times(client_threads), |b| b.op(Op::SemWait(gate.done)))
        .op(Op::SpanEnd(span));
    let program = draft.program(body);
    let task = draft.task("main".into(), gate.client, program);
    task.nice = nice;
    task.working_set_kib = WORKING_SET_KIB;
    draft.metric(MetricSpec {
        name: "throughput".into(),
        unit: "messages/s",
        better: Better::Higher,
        formula: Formula::Rate { counter: gate.counted, over: Some(span) },
    });
    draft.metric(MetricSpec {
        name: "run_time".into(),
        unit: "s",
        better: Better::Lower,
        formula: Formula::MakespanSeconds(span),
    });
}

fn add_user(draft: &mut Draft, room: &Room<'_>, user: usize) {
    let gate = room.gate;
    let threads = [
        ("csend", gate.client, client_send(room, user)),
        ("crecv", gate.client, client_receive(room, user)),
        ("srecv", gate.server, server_receive(room, user)),
        ("ssend", gate.server, server_send(room, user)),
    ];
    for (role, process, body) in threads {
        let program = draft.program(body);
        let task = draft.task(format!("{role}/{}/{user}", room.number), process, program);
        task.working_set_kib = WORKING_SET_KIB;
        if process == gate.client {
            task.nice = room.shape.client_nice;
        }
    }
}

/// `Run` unless it is nothing.
fn work(builder: ProgramBuilder, span: DurationNs) -> ProgramBuilder {
    if span == DurationNs::ZERO { builder } else { builder.op(Op::Run(span)) }
}

/// What a client thread does about the monitors that it shares with others.
fn yields(builder: ProgramBuilder, room: &Room<'_>) -> ProgramBuilder {
    match room.shape.client_yields {
        0 => builder,
        times => builder.repeat(Amount::Times(times), |b| b.op(Op::Yield)),
    }
}

fn client_send(room: &Room<'_>, user: usize) -> ProgramBuilder {
    let gate = room.gate;
    ProgramBuilder::new()
        .op(Op::SemWait(gate.start))
        .repeat(Amount::Times(room.messages), |b| {
            let b = match room.turns.get(user) {
                Some(&turn) => b.op(Op::SemWait(turn)),
                None => b,
            };
            yields(b, room)
                .op(Op::Send { channel: room.c2s[user], bytes: room.size })
                .op(Op::Count { counter: gate.counted, units: 1 })
        })
        .op(Op::SemPost { sem: gate.done, units: 1 })
}

/// Messages of a room that takes turns come in the order of its users.
fn client_receive(room: &Room<'_>, user: usize) -> ProgramBuilder {
    let gate = room.gate;
    let users = room.s2c.len();
    let receive = |b: ProgramBuilder| {
        let b = b
            .op(Op::Recv { channel: room.s2c[user], bytes: room.size })
            .op(Op::Count { counter: gate.counted, units: 1 });
        let b = work(b, room.shape.client_work);
        yields(b, room)
    };
    let b = ProgramBuilder::new().op(Op::SemWait(gate.start));
    let b = match room.turns.get(user) {
        None => b.repeat(Amount::Times((users as u64 - 1) * room.messages), receive),
        Some(&turn) => {
            // Those before this user in a round, whose last one gives it the turn, and those after it. The
            // first user has the turn at the end of a round.
            let (before, after) =
                if user == 0 { (users as u64 - 1, 0) } else { (user as u64, users as u64 - 1 - user as u64) };
            b.repeat(Amount::Times(room.messages), |b| {
                b.repeat(Amount::Times(before), receive)
                    .op(Op::SemPost { sem: turn, units: 1 })
                    .repeat(Amount::Times(after), receive)
            })
        }
    };
    b.op(Op::SemPost { sem: gate.done, units: 1 })
}

fn server_receive(room: &Room<'_>, user: usize) -> ProgramBuilder {
    ProgramBuilder::new().repeat(Amount::Times(room.messages), |b| {
        let b = b.op(Op::Recv { channel: room.c2s[user], bytes: room.size });
        if room.shape.fanout_receiver {
            others(room, user).fold(b, |b, other| b.op(Op::SemPost { sem: room.broadcast[other], units: 1 }))
        } else {
            b.op(Op::SemPost { sem: room.broadcast[user], units: 1 })
        }
    })
}

fn server_send(room: &Room<'_>, user: usize) -> ProgramBuilder {
    let wait = Op::SemWait(room.broadcast[user]);
    let send = |b: ProgramBuilder, to: usize| {
        work(b, room.shape.server_work).op(Op::Send { channel: room.s2c[to], bytes: room.size })
    };
    if room.shape.fanout_receiver {
        let deliveries = (room.s2c.len() as u64 - 1) * room.messages;
        ProgramBuilder::new().repeat(Amount::Times(deliveries), |b| send(b.op(wait), user))
    } else {
        ProgramBuilder::new()
            .repeat(Amount::Times(room.messages), |b| others(room, user).fold(b.op(wait), send))
    }
}

/// The other users of the room in index order.
fn others(room: &Room<'_>, user: usize) -> impl Iterator<Item = usize> {
    (0..room.s2c.len()).filter(move |&other| other != user)
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::cursor::Cursor;

    /// What walking all programs to their ends adds up to.
    fn totals(scenario: &Scenario) -> (u64, u64, u64, u64) {
        let (mut sends, mut receives, mut counted, mut balance) = (0u64, 0u64, 0u64, 0i64);
        for task in scenario.tasks.iter().filter(|task| !task.background) {
            let program = &scenario.programs[task.program.index()];
            let mut cursor = Cursor::start();
            loop {
                match cursor.next(program) {
                    Op::Exit => break,
                    Op::Send { .. } => sends += 1,
                    Op::Recv { .. } => receives += 1,
                    Op::Count { units, .. } => counted += u64::from(units),
                    Op::SemPost { units, .. } => balance += i64::from(units),
                    Op::SemWait(_) => balance -= 1,
                    _ => {}
                }
            }
        }
        (sends, receives, counted, balance.unsigned_abs())
    }

    #[test]
    fn messages_add_up() {
        for spec in ["chat:rooms=2,messages=3", "chat:rooms=2,messages=3,fanout=receiver,medium=unix"] {
            let scenario = build(spec, 1).unwrap();
            assert_eq!(scenario.tasks.len(), 2 * 80 + 1);
            let user_messages = 2 * 20 * 3;
            // One send and 19 deliveries each, every one of them received.
            let moved = user_messages * 20;
            assert_eq!(totals(&scenario), (moved, moved, moved, 0), "{spec}");
        }
    }

    #[test]
    fn volano_has_hogs_in_the_background() {
        let scenario = build("volano:rooms=1,messages=1,hogs=4", 1).unwrap();
        assert_eq!(scenario.tasks.iter().filter(|task| task.background).count(), 4);
        assert_eq!(scenario.tasks[0].nice.get(), -20);
        assert_eq!(scenario.tasks[2].nice.get(), 0);
        // The first user is given a turn after the last message.
        assert_eq!(totals(&scenario), (400, 400, 400, 0));
    }

    #[test]
    fn one_user_cannot_chat() {
        assert!(build("chat:users=1", 1).unwrap_err().to_string().contains("at least 2 users"));
    }
}
