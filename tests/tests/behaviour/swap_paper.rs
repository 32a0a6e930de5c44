//! SWAP's detection from the arguments of system calls, and the rules of its paper.

use crate::behaviour::lab::{Lab, Load, Seen, ms, near, program, us};
use crate::behaviour::probe::When;
use schedlab_base::DurationNs;
use schedlab_sim::FIRST_PID;
use schedlab_workload::{ChannelId, LockId, LockKind, Op, ProgramBuilder, SemId, SemKind, Semaphore};

/// Everything that a client of the catalogue can wait for a server through.
const MECHANISMS: [&str; 17] = [
    "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "sig", "flock", "fcntl", "futex", "condvar", "eventfd",
    "select", "poll", "epoll", "wait",
];

/// Once the server is known, a client waits as long as without hogs, through whatever it waits; by both ways to know.
#[test]
fn both_detections_find_the_server_through_every_mechanism() {
    let mut findings = Vec::new();
    for detect in ["waker", "paper"] {
        for mechanism in MECHANISMS {
            let spec = format!("swap-{mechanism}:hogs=10,iterations=8,service=40ms");
            let seen = Lab::new("o1+swap").set("detect", detect).run_catalog(&spec);
            let times = seen.iterations();
            assert_eq!(times.len(), 8, "{detect}, {mechanism}");
            if times[3..].iter().any(|time| *time > 44.0) {
                findings.push(format!("{detect}, {mechanism}: {times:?}"));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// What the layer tells at the end about the providers of pipes' content: task and confidence, in order of tasks.
fn trusted_writers(seen: &Seen) -> Vec<(u64, u64)> {
    let cell = |row: usize, column: &str| seen.probe().variable(&format!("swap_trusted[{row}].{column}"));
    let rows = (0..512).filter(|&row| cell(row, "pid") != 0);
    let writers = rows.filter(|&row| cell(row, "type") == 1 && cell(row, "side") == 1);
    let first = FIRST_PID as u64;
    let mut found: Vec<_> = writers.map(|row| (cell(row, "pid") - first, cell(row, "confidence"))).collect();
    found.sort_unstable();
    found
}

fn send(channel: ChannelId) -> Op {
    Op::Send { channel, bytes: 1 }
}

fn receive(channel: ChannelId) -> Op {
    Op::Recv { channel, bytes: 1 }
}

/// Sleeps until `at`, then does `ops`.
fn at(at: DurationNs, ops: &[Op]) -> ProgramBuilder {
    ops.iter().fold(program(&[Op::Run(us(1)), Op::Sleep(at)]), |builder, op| builder.op(*op))
}

/// When every task has written once, so is known, and the waits have begun.
const BEGIN: DurationNs = DurationNs(10_000_000);

/// The paper's figure 1, tasks 0 to 4 being P1 to P5: P1 waits for R1, of P2 and P3; P3 for R2, of P4 and P5. P4 needs
/// 40 ms, then P3 20 ms; P2 and P5 compute for nothing.
fn worked_example(length: DurationNs) -> Load {
    let mut load = Load::new(length);
    let (r1, r2) = (load.pipe(), load.pipe());
    let idle = |first: u64, pipe| {
        at(ms(first), &[send(pipe), Op::Sleep(DurationNs(BEGIN.0 - first * 1_000_000)), Op::Run(ms(2000))])
    };
    load.add(-20, at(ms(5), &[receive(r1), receive(r1), Op::Sleep(ms(2)), receive(r1)]));
    load.add(0, idle(1, r1));
    let wait_then_provide =
        [receive(r2), receive(r2), receive(r2), Op::Run(ms(20)), send(r1), Op::Sleep(ms(2000))];
    load.add(0, wait_then_provide.iter().fold(at(ms(2), &[send(r1), Op::Sleep(ms(4))]), |b, op| b.op(*op)));
    load.add(0, at(ms(3), &[send(r2), Op::Sleep(ms(7)), Op::Run(ms(40)), send(r2), Op::Run(ms(2000))]));
    load.add(0, idle(4, r2));
    load
}

fn paper() -> Lab {
    Lab::new("o1+swap").set("detect", "paper")
}

/// How many ms each task ran from [`BEGIN`] on, stints of one task in a row taken together.
fn courses(seen: &Seen) -> Vec<(u32, f64)> {
    let mut courses: Vec<(u32, f64)> = Vec::new();
    for stint in seen.stints().into_iter().filter(|stint| stint.begin.0 >= BEGIN.0) {
        let length = stint.length.0 as f64 / 1e6;
        match courses.last_mut() {
            Some((task, sum)) if *task == stint.task.0 => *sum += length,
            _ => courses.push((stint.task.0, length)),
        }
    }
    courses
}

/// Order, times and confidences of the paper's example: P2 100 ms, P4 40 ms, P3 20 ms, then P1.
#[test]
fn the_papers_example_comes_out_as_published() {
    let seen = paper().set("swap_quantum_ns", "100000000").run(worked_example(ms(175)));
    let courses = courses(&seen);
    let order: Vec<u32> = courses.iter().map(|(task, _)| *task).take(4).collect();
    assert_eq!(order, [1, 3, 2, 0], "{courses:?}");
    for ((_, length), expected) in courses.iter().zip([100.0, 40.0, 20.0]) {
        near(*length, expected, 1.1);
    }
    assert_eq!(trusted_writers(&seen), [(1, 19), (2, 21), (3, 21), (4, 20)]);
}

/// A new provider takes the place of the one that is trusted least, and of equal ones of the oldest.
#[test]
fn a_new_provider_displaces_the_least_trusted() {
    let mut load = worked_example(ms(400));
    load.add(-20, at(ms(300), &[send(ChannelId(0))]));
    let seen = paper().set("swap_quantum_ns", "100000000").set("swap_providers", "2").run(load);
    assert_eq!(trusted_writers(&seen), [(2, 21), (3, 21), (4, 20), (5, 20)], "task 1 was at 19");

    let mut load = Load::new(ms(100));
    let pipe = load.pipe();
    for writer in 0..21 {
        load.add(0, at(ms(1 + writer), &[send(pipe)]).op(Op::Sleep(ms(1000))));
    }
    let seen = paper().run(load);
    assert_eq!(trusted_writers(&seen), (1..21).map(|task| (task, 20)).collect::<Vec<_>>());
}

/// The provider pays with its own slice: after 40 ms in its client's place it has 40 ms less of 150. The client's
/// slice, of which it has used next to nothing, is whole.
#[test]
fn who_stands_in_pays_for_it() {
    let mut load = Load::new(ms(80));
    let pipe = load.pipe();
    load.add(-20, at(ms(10), &[receive(pipe), receive(pipe), Op::Sleep(ms(1))]));
    load.add(0, at(ms(5), &[send(pipe), Op::Sleep(ms(15)), Op::Run(ms(40)), send(pipe), Op::Sleep(ms(100))]));
    let lab = paper().set("profile", "rh8").watch(&[".time_slice"]);
    let seen = lab.run(load);
    let slices = |task| {
        let probe = seen.probe();
        let first = probe.of(task, When::Init)[0].1 as f64;
        (first, probe.of(task, When::Quiescent).last().expect("it sleeps at last").1 as f64)
    };
    let ((_, client), (whole, server)) = (slices(0), slices(1));
    assert!(seen.counter("nr_swap_stand_ins") > 0, "the server stood in");
    near(server / whole, 110.0 / 150.0, 0.03);
    near(client, slices(0).0, 1.0);
}

/// A task that is known to post a semaphore and waits for it itself is no provider for itself.
#[test]
fn nobody_stands_in_for_itself() {
    let mut load = Load::new(ms(100));
    load.0.semaphores.push(Semaphore { kind: SemKind::Sysv, initial: 1 });
    load.add(-20, at(ms(1), &[Op::SemWait(SemId(0)), Op::SemWait(SemId(0))]));
    load.add(0, program(&[Op::Run(ms(200))]));
    let seen = paper().run(load);
    assert_eq!((seen.counter("nr_swap_virtual"), seen.counter("nr_swap_stand_ins")), (0, 0));
    assert!(seen.counter("nr_swap_blocked") > 0, "it is a requester");
}

/// A task that wants a lock for itself waits for those that share it and for its holder; one that wants to share it
/// waits for its holder.
#[test]
fn exclusive_requests_wait_for_both_kinds_of_holders() {
    for (kind, op, requests) in [
        (LockKind::Flock, Op::Lock(LockId(0)), 2),
        (LockKind::Flock, Op::LockShared(LockId(0)), 1),
        (LockKind::Fcntl, Op::Lock(LockId(0)), 2),
        (LockKind::Fcntl, Op::LockShared(LockId(0)), 1),
    ] {
        let mut load = Load::new(ms(100));
        load.0.locks.push(kind);
        load.add(0, program(&[Op::Lock(LockId(0)), Op::Run(ms(50)), Op::Unlock(LockId(0))]));
        load.add(-20, at(ms(10), &[op, Op::Unlock(LockId(0))]));
        let seen = paper().watch(&[".base.swap.nr_requests"]).run(load);
        let most = seen.probe().of(1, When::Quiescent).iter().map(|(_, requests)| *requests).max();
        assert_eq!(most, Some(requests), "{kind:?} {op:?}");
    }
}

/// A released lock has no provider any more.
#[test]
fn who_unlocks_or_exits_is_no_provider() {
    let mut load = Load::new(ms(60));
    load.0.locks.push(LockKind::Flock);
    let pipe = load.pipe();
    load.add(0, program(&[Op::Lock(LockId(0)), Op::Unlock(LockId(0)), Op::Run(ms(100))]));
    load.add(0, at(ms(1), &[send(pipe)]));
    load.add(-20, at(ms(10), &[receive(pipe), receive(pipe)]));
    let seen = paper().run(load);
    assert_eq!(seen.counter("nr_swap_withdrawn"), 1);
    assert_eq!(seen.counter("nr_swap_stand_ins"), 0, "the only writer has exited");
}

/// Excluded tasks and types of waits are left alone, by both detections.
#[test]
fn scope_can_be_restricted() {
    for detect in ["waker", "paper"] {
        // Bits of the tunable: 1 pipes, 2 sockets.
        for (setting, value) in
            [("swap_types", "4"), ("swap_exclude", "nobody,server"), ("swap_exclude", "client")]
        {
            let lab = Lab::new("o1+swap").set("detect", detect).set(setting, value);
            let seen = lab.run_catalog("swap-pipe:hogs=2,iterations=4,service=20ms");
            assert_eq!(seen.counter("nr_swap_stand_ins"), 0, "{detect}, {setting}={value}");
        }
        for (setting, value) in [("swap_types", "2"), ("swap_exclude", "serve,clients")] {
            let lab = Lab::new("o1+swap").set("detect", detect).set(setting, value);
            let seen = lab.run_catalog("swap-pipe:hogs=2,iterations=4,service=20ms");
            assert!(seen.counter("nr_swap_stand_ins") > 0, "{detect}, {setting}={value}");
        }
    }
}
