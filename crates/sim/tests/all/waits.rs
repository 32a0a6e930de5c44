//! Waiting for each other through every kernel mechanism: the client-server workloads under the
//! fair class, and what each mechanism promises its waiters.

use crate::common::{self, config, ms, program, task, us};
use schedlab_base::{Nice, Policy};
use schedlab_sim::{Class, RunResult, run};
use schedlab_workload::{
    Amount, Channel, ChannelId, ChannelKind, CounterId, End, LockId, LockKind, Op, PollId, PollKind, PollSet,
    ProgramId, Scenario, SemId, SemKind, Semaphore, SpanId, TaskRef, Watched, catalog,
};

const MECHANISMS: &[&str] = &[
    "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "eventfd", "sig", "flock", "fcntl", "futex", "condvar",
    "select", "poll", "epoll", "wait", "broker",
];

fn fair(cpus: usize, scenario: &Scenario) -> RunResult<common::Minimal> {
    run(&config(cpus, 1), scenario, Class::Fair).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

fn metric(spec: &str, cpus: usize, name: &str) -> f64 {
    let scenario = catalog::build(spec, 1).unwrap();
    let result = fair(cpus, &scenario);
    let metric = scenario.metrics.iter().find(|metric| metric.name == name).unwrap();
    metric.evaluate(&result.measurements).unwrap_or_else(|| panic!("{spec}: no {name}")).value
}

#[test]
fn an_unloaded_iteration_takes_the_service_time() {
    for mechanism in MECHANISMS {
        for important in ["static", "fifo"] {
            let spec = format!("swap-{mechanism}:iterations=5,service=20ms,important={important}");
            let time = metric(&spec, 1, "iteration_time");
            assert!((18.5..21.5).contains(&time), "{spec}: {time} ms");
        }
    }
}

#[test]
fn a_loaded_iteration_takes_an_equal_share() {
    // Eleven tasks compute: 11 x 20 ms, and less where a fresh child or a sleeper has credit.
    for mechanism in MECHANISMS {
        let spec = format!("swap-{mechanism}:iterations=8,service=20ms,hogs=10");
        let time = metric(&spec, 1, "iteration_time");
        assert!((150.0..300.0).contains(&time), "{spec}: {time} ms");
    }
}

#[test]
fn the_fastest_server_is_slowed_by_the_others() {
    let spec = "swap-multi:iterations=4,unit=20ms";
    // 2 units, five servers with equal shares.
    let time = metric(spec, 1, "iteration_time");
    assert!((150.0..260.0).contains(&time), "{time} ms");
    // On CPUs of their own the others do not matter.
    let time = metric(spec, 6, "iteration_time_max");
    assert!((39.0..65.0).contains(&time), "{time} ms");
    let free = metric("swap-multi:iterations=20,unit=20ms,restart=no", 1, "iteration_time");
    // 1/2 + 2/5 + 2/10 = 1.1 increments per 100 units of each server's fifth: 5 x 20 / 1.1.
    assert!((80.0..105.0).contains(&free), "{free} ms");
}

#[test]
fn sessions_share_the_thin_client() {
    let frames = |sessions| metric(&format!("thin-client:frames=20,sessions={sessions}"), 1, "frame_rate");
    let alone = frames(0);
    assert!((18.0..19.0).contains(&alone), "{alone} frames/s of 53.4 ms");
    assert!(frames(10) < alone / 4.0, "{}", frames(10));
    let page = metric("thin-client:app=browser,pages=3", 1, "page_time");
    // 5 x (12 + 50) + 20 x 6 ms.
    assert!((0.42..0.45).contains(&page), "{page} s");
}

#[test]
fn an_inverted_priority_costs_more_with_every_hog() {
    let time = |spec: &str| metric(spec, 1, "iteration_time");
    assert!((18.0..22.0).contains(&time("inversion:iterations=4,hogs=0")));
    // The holder of nice 19 has weight 15 against 1024 of each hog.
    let (few, many) = (time("inversion:iterations=2,hogs=2"), time("inversion:iterations=2,hogs=4"));
    assert!(few > 1_000.0 && many > 1.5 * few, "{few} {many}");
    // A real-time client lends the holder its priority.
    let lent = time("inversion:iterations=4,hogs=4,important=fifo,protocol=pi");
    assert!((18.0..25.0).contains(&lent), "{lent}");
    // One of nice -20 has none to lend.
    let nothing = time("inversion:iterations=2,hogs=2,protocol=pi");
    assert!(nothing > 1_000.0, "{nothing}");
}

#[test]
fn a_posix_queue_serves_the_most_important_waiter() {
    // Three receivers wait before the first message comes; each writes down when it had one.
    let first = |kind| {
        let mut scenario = Scenario::empty("queue", End::AllExit);
        scenario.channels = vec![Channel { kind, capacity: 300, peer: None }];
        let channel = ChannelId(0);
        let receive = |span: u32| {
            program(|b| {
                b.op(Op::Sleep(us(100 + 100 * u64::from(span))))
                    .op(Op::SpanBegin(SpanId(span)))
                    .op(Op::Recv { channel, bytes: 100 })
                    .op(Op::SpanEnd(SpanId(span)))
            })
        };
        let send = program(|b| {
            b.repeat(Amount::Times(3), |b| b.op(Op::Sleep(ms(5))).op(Op::Send { channel, bytes: 100 }))
        });
        scenario.programs = vec![receive(0), receive(1), receive(2), send];
        scenario.spans = 3;
        scenario.tasks = (0..4).map(|n| task(&format!("t/{n}"), n, n)).collect();
        scenario.tasks[1].nice = Nice::MIN;
        let result = fair(1, &scenario);
        let spans = &result.measurements.spans;
        (0..3).min_by_key(|&span| spans[span].samples()[0].end).unwrap()
    };
    assert_eq!(first(ChannelKind::PosixQueue), 1);
    assert_eq!(first(ChannelKind::SysvQueue), 0);
}

#[test]
fn readers_share_a_file_lock() {
    for kind in [LockKind::Flock, LockKind::Fcntl] {
        let mut scenario = Scenario::empty("readers", End::AllExit);
        scenario.locks = vec![kind];
        let (lock, span) = (LockId(0), SpanId(0));
        let hold = |op| program(|b| b.op(op).op(Op::Sleep(ms(10))).op(Op::Unlock(lock)));
        let late = program(|b| {
            b.op(Op::Sleep(ms(1))).op(Op::SpanBegin(span)).op(Op::Lock(lock)).op(Op::SpanEnd(span))
        });
        scenario.programs = vec![hold(Op::LockShared(lock)), late];
        scenario.spans = 1;
        scenario.tasks = vec![task("r/0", 0, 0), task("r/1", 0, 1), task("w", 1, 2)];
        let waited = fair(1, &scenario).measurements.spans[0].samples()[0].length();
        assert!(waited > ms(8) && waited < ms(10), "{kind:?}: {waited:?}");
    }
}

#[test]
fn locks_on_files_end_with_their_holder() {
    let mut scenario = Scenario::empty("exit", End::AllExit);
    scenario.locks = vec![LockKind::Flock];
    let lock = LockId(0);
    scenario.programs = vec![
        program(|b| b.op(Op::Lock(lock)).op(Op::Sleep(ms(5)))),
        program(|b| b.op(Op::Sleep(ms(1))).op(Op::Lock(lock))),
    ];
    scenario.tasks = vec![task("holder", 0, 0), task("waiter", 1, 1)];
    assert!(fair(1, &scenario).duration < ms(6));
}

#[test]
fn signals_are_kept_but_not_counted() {
    let mut scenario = Scenario::empty("signals", End::AllExit);
    scenario.counters = 1;
    let count = Op::Count { counter: CounterId(0), units: 1 };
    let kill = Op::Kill(TaskRef(0));
    scenario.programs = vec![
        // Two signals come while the task sleeps; the third wait must be woken.
        program(|b| b.op(Op::Sleep(ms(2))).repeat(Amount::Times(2), |b| b.op(Op::SigWait).op(count))),
        program(|b| b.op(kill).op(kill).op(Op::Sleep(ms(5))).op(kill).op(Op::Sleep(ms(5))).op(kill)),
    ];
    scenario.tasks = vec![task("target", 0, 0), task("sender", 1, 1)];
    let result = fair(1, &scenario);
    assert_eq!(result.measurements.counters[0], 2);
    // The last signal finds no waiter.
    assert!(result.duration < ms(12));
}

/// A server of three connections answers each of its clients.
fn poll_server(kind: PollKind) -> Scenario {
    let mut scenario = Scenario::empty("server", End::ForegroundExit);
    let clients = 3;
    let mut watched = Vec::new();
    for client in 0..clients {
        let (request, reply) = (ChannelId(2 * client), ChannelId(2 * client + 1));
        let socket = |peer| Channel { kind: ChannelKind::Unix, capacity: 4096, peer: Some(peer) };
        scenario.channels.extend([socket(reply), socket(request)]);
        watched.push(Watched::Channel(request));
        scenario.programs.push(program(|b| {
            b.repeat(Amount::Times(20), |b| {
                b.op(Op::Send { channel: request, bytes: 10 })
                    .op(Op::Recv { channel: reply, bytes: 30 })
                    .op(Op::Count { counter: CounterId(0), units: 1 })
            })
        }));
        scenario.tasks.push(task(&format!("client/{client}"), client, client));
    }
    scenario.semaphores = vec![Semaphore { kind: SemKind::EventFd, initial: 1 }];
    watched.push(Watched::Semaphore(SemId(0)));
    scenario.polls = vec![PollSet { kind, watched }];
    scenario.counters = 1;
    scenario.programs.push(program(|b| {
        b.repeat(Amount::Forever, |b| {
            b.op(Op::Poll(PollId(0)))
                .op(Op::RecvReady { bytes: 10 })
                .op(Op::Run(us(100)))
                .op(Op::Answer { bytes: 30 })
        })
    }));
    scenario.tasks.push(task("server", clients, clients));
    scenario.tasks[3].background = true;
    scenario
}

/// `unix_write_space()` of Linux 7.3 wakes a reader of the socket whose packet was read; it finds nothing and sleeps again. Under
/// other kinds the only wakeup is that of the answer.
#[test]
fn reading_a_packet_wakes_who_reads_from_its_sender() {
    let wakeups = |kind: ChannelKind, peer: bool| {
        let mut scenario = Scenario::empty("asks", End::AllExit);
        let (asked, answered) = (ChannelId(0), ChannelId(1));
        let socket = |other| Channel { kind, capacity: 4096, peer: Some(other).filter(|_| peer) };
        scenario.channels = vec![socket(answered), socket(asked)];
        scenario.programs = vec![
            program(|b| {
                b.op(Op::Send { channel: asked, bytes: 8 }).op(Op::Recv { channel: answered, bytes: 8 })
            }),
            // The asker sleeps when the question is read, and long before the answer comes.
            program(|b| {
                b.op(Op::Run(ms(1)))
                    .op(Op::Recv { channel: asked, bytes: 8 })
                    .op(Op::Run(ms(2)))
                    .op(Op::Send { channel: answered, bytes: 8 })
            }),
        ];
        scenario.tasks = vec![task("asker", 0, 0), task("answerer", 1, 1)];
        let result = fair(2, &scenario);
        assert!(result.duration > ms(3) && result.duration < ms(4), "{kind:?}: {:?}", result.duration);
        let asker = result
            .waits
            .iter()
            .find(|waits| waits.name == "asker" && waits.scope == schedlab_trace::WaitScope::Task);
        asker.unwrap().wakeup_latency.as_ref().unwrap().count
    };
    // Its start is a wakeup, too.
    assert_eq!(wakeups(ChannelKind::Unix, true), 3);
    assert_eq!(wakeups(ChannelKind::Unix, false), 2);
    for kind in [ChannelKind::Pipe, ChannelKind::Tcp] {
        assert_eq!(wakeups(kind, false), 2, "{kind:?}");
    }
    assert_eq!(wakeups(ChannelKind::Tcp, true), 2);
}

#[test]
fn a_server_answers_whom_it_polled() {
    for kind in [PollKind::Select, PollKind::Poll, PollKind::Epoll] {
        for cpus in [1, 2] {
            let mut scenario = poll_server(kind);
            // The eventfd is readable once; what follows answers the connection read before, or none.
            scenario.polls[0].watched.truncate(3);
            let result = fair(cpus, &scenario);
            assert_eq!(result.measurements.counters[0], 60, "{kind:?} on {cpus}");
        }
    }
}

#[test]
fn children_of_the_important_are_not_important() {
    let scenario = catalog::build("swap-wait:iterations=2,service=30ms,hogs=1,important=fifo", 1).unwrap();
    let result = fair(1, &scenario);
    // With the client's real-time priority the child would not share.
    let time = scenario.metrics[0].evaluate(&result.measurements).unwrap().value;
    assert!(time > 45.0, "{time}");
    assert_eq!(scenario.tasks[0].policy, Policy::Fifo(1));
}

#[test]
fn impossible_uses_are_refused() {
    let refused = |change: &dyn Fn(&mut Scenario), text: &str| {
        let mut scenario = poll_server(PollKind::Poll);
        scenario.validate().unwrap();
        change(&mut scenario);
        let error = scenario.validate().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(&|s| s.semaphores[0].kind = SemKind::Sysv, "a System V semaphore cannot be polled");
    refused(&|s| s.polls[0].watched.clear(), "watches nothing");
    refused(&|s| s.channels[0].kind = ChannelKind::SysvQueue, "a System V message queue cannot be polled");
    refused(
        &|s| {
            s.channels.iter_mut().for_each(|channel| channel.kind = ChannelKind::Udp);
            s.programs[1] = program(|b| {
                b.op(Op::Send { channel: ChannelId(2), bytes: 10 })
                    .op(Op::Send { channel: ChannelId(2), bytes: 11 })
            });
        },
        "need one length",
    );
    refused(
        &|s| {
            s.locks = vec![LockKind::Futex];
            s.programs[0] = program(|b| b.op(Op::LockShared(LockId(0))));
        },
        "only file locks can be shared",
    );
    refused(
        &|s| {
            s.locks = vec![LockKind::Fcntl];
            s.programs[0] = program(|b| b.op(Op::Lock(LockId(0))));
            s.tasks[1].program = ProgramId(0);
            s.tasks[1].process = s.tasks[0].process;
        },
        "belongs to a process",
    );
}
