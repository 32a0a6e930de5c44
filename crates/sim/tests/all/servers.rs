//! Server workloads under the fair class, against what arithmetic says of them.

use crate::common::{self, fair, ms, program, task, us};
use schedlab_sim::RunResult;
use schedlab_workload::{
    Channel, ChannelId, ChannelKind, Disk, DiskId, End, ListenerId, Op, Scenario, SpanId, TimerSlot, catalog,
};

fn simulated(cpus: usize, spec: &str) -> (Scenario, RunResult<common::Minimal>) {
    let scenario = catalog::build(spec, 1).unwrap();
    let result = fair(cpus, &scenario);
    (scenario, result)
}

fn metric(of: &(Scenario, RunResult<common::Minimal>), name: &str) -> f64 {
    let spec = of.0.metrics.iter().find(|metric| metric.name == name).unwrap();
    spec.evaluate(&of.1.measurements).unwrap_or_else(|| panic!("{name} has a value")).value
}

#[test]
fn every_request_of_ab_is_answered() {
    for concurrency in [1, 9, 40] {
        let run =
            simulated(1, &format!("ab:concurrency={concurrency},requests=200,workers=30,start=4,page=1ms"));
        assert_eq!(run.1.measurements.spans[1].count(), 200);
        let ttf = metric(&run, "ttf");
        // One CPU does all the work: 1.74 ms, 0.35 us for each connection, and the system calls of a request.
        assert!((0.348..0.45).contains(&ttf), "{concurrency}: {ttf} s");
        // The time that a connection takes is that of all which were opened before it was answered.
        let mean: f64 = run.1.measurements.spans[1]
            .samples()
            .iter()
            .map(|sample| sample.length().as_secs_f64())
            .sum::<f64>()
            / 200.0;
        let law = ttf * f64::from(concurrency) / 200.0;
        assert!((mean / law - 1.0).abs() < 0.15 + 1.0 / f64::from(concurrency), "{mean} s, {law} s");
    }
}

#[test]
fn oltp_alone_takes_what_its_parts_take() {
    let run = simulated(2, "oltp:threads=1,transactions=50,miss=0");
    // 5.95 ms of the server, 20 x 0.06 ms of the client, 23 ms for the log.
    let each = metric(&run, "avtr");
    assert!((30.15..31.5).contains(&each), "{each} ms");
    let all = metric(&run, "total_time");
    assert!((all * 1e3 / 50.0 - each).abs() < 0.01, "{all} s");
}

#[test]
fn commits_share_log_writes() {
    // Next to no computing: those that come back during a write wait for the next one. Half of the
    // threads are in each of two writes that alternate.
    let spec = "oltp:threads=8,transactions=400,miss=0,point=1us,range=1us,write=1us,begin=1us,commit=1us,\
                client=1us";
    let run = simulated(8, spec);
    let tps = metric(&run, "tps");
    assert!((8.0 / 0.046 * 0.85..8.0 / 0.046 * 1.1).contains(&tps), "{tps} per s");
    // The closed loop's law.
    let law = metric(&run, "total_time") * 8.0 / 400.0 * 1e3;
    assert!((metric(&run, "avtr") / law - 1.0).abs() < 0.05);
}

#[test]
fn builds_of_one_job_take_the_sum_of_their_parts() {
    let run = simulated(2, "buildworld:jobs=1,objects=40,user=2s,system=500ms,io=20ms");
    let disk: f64 = (run.0.programs.iter().flat_map(|program| program.ops()))
        .filter_map(|op| match op {
            Op::Io { service, .. } => Some(service.as_secs_f64()),
            _ => None,
        })
        .sum();
    // Nothing overlaps but make and the assembler. Make starts an object while the parent of the last one is reaped. The
    // assembler has 8 % of the CPU time and works beside the compiler.
    let (real, parts) = (metric(&run, "real"), metric(&run, "user") + metric(&run, "sys") + disk);
    assert!(real <= parts * 1.01 && real > parts * 0.9, "{real} s, {parts} s");
    assert!((2.0..2.05).contains(&metric(&run, "user")) && (0.5..0.6).contains(&metric(&run, "sys")));
    // With more jobs the disk works beside the CPU.
    let parallel = simulated(2, "buildworld:jobs=4,objects=40,user=2s,system=500ms,io=20ms");
    assert!(metric(&parallel, "real") < 0.75 * real);
}

#[test]
fn loads_that_compute_are_as_fast_as_they_can() {
    let score = metric(&simulated(2, "ubench:procs=2,ttime=1s"), "score");
    assert!((1_990.0..=2_000.0).contains(&score), "{score} per s");
    let track = simulated(1, "oggenc:files=3,user=900ms,system=10ms,io=30ms");
    assert!((0.94..0.945).contains(&metric(&track, "real")), "{} s", metric(&track, "real"));
    let speed = simulated(1, "openssl:time=200ms,rsa_time=200ms");
    // 600 ns for a call and 3000 for each of 8 kB.
    let md5 = metric(&speed, "md5_8192");
    assert!((md5 / (8192.0 / 24.6e-6 / 1e3) - 1.0).abs() < 0.01, "{md5} kB/s");
}

#[test]
fn benchmarks_of_today_measure_what_they_should() {
    let hack = simulated(4, "hackbench:groups=2,fds=4,loops=5");
    assert_eq!(hack.1.measurements.counters[0], 2 * 4 * 4 * 5);
    let pipe = simulated(2, "pipe:loops=500");
    let (each, all) = (metric(&pipe, "usecs_per_op"), metric(&pipe, "time"));
    assert!(
        (each * 500e-6 / all - 1.0).abs() < 1e-9 && (metric(&pipe, "ops_per_s") * all - 500.0).abs() < 1e-6
    );
    // Workers that have a CPU each: a request sleeps 100 us, with 50 us of timer slack, and computes 5 x 200 us.
    let alone = simulated(8, "schbench:workers=3,ttime=200ms,work=200us,footprint=1");
    let request = metric(&alone, "request_p50");
    assert!((1_150.0..1_170.0).contains(&request), "{request} us");
    assert!(metric(&alone, "wake_p99") < 50.0 && metric(&alone, "rps") > 3.0 / 1.2e-3);
    // More of them than CPUs wait for each other.
    let crowd = simulated(1, "schbench:workers=3,ttime=200ms,work=200us,footprint=1");
    assert!((0.9..1.01).contains(&(metric(&crowd, "rps") * 1e-3)), "{}", metric(&crowd, "rps"));
    let quiet = simulated(2, "cyclictest:threads=2,ttime=100ms");
    // 99 expiries of 1 ms, 66 of 1.5 ms.
    assert_eq!(quiet.1.measurements.spans[0].count(), 99 + 66);
    // Timers of tasks that are not real-time may be 50 us late.
    assert!(metric(&quiet, "latency_min") >= 50.0);
    assert!(metric(&quiet, "latency_max") < 70.0, "{} us", metric(&quiet, "latency_max"));
}

#[test]
fn chats_that_take_turns_end() {
    let run = simulated(2, "volano:rooms=2,users=4,messages=5,hogs=1");
    assert_eq!(run.1.measurements.counters[0], 2 * 4 * 5 * 4);
}

#[test]
fn cpu_time_is_told_apart() {
    let mut scenario = Scenario::empty("split", End::AllExit);
    scenario.disks = vec![Disk {}];
    let ops = [Op::Run(ms(10)), Op::RunKernel(ms(5)), Op::Fsync { disk: DiskId(0), service: ms(50) }];
    scenario.programs = vec![
        program(|b| {
            ops.into_iter()
                .fold(b, |b, op| b.op(op))
                .op(Op::Fork { program: schedlab_workload::ProgramId(1) })
        }),
        program(|b| b.op(Op::Run(ms(3)))),
    ];
    scenario.tasks = vec![task("one", 0, 0), task("two", 0, 1)];
    let result = fair(1, &scenario);
    let (user, system) = (result.measurements.user, result.measurements.system);
    assert!(user >= ms(26) && user < ms(26) + us(100), "{user}");
    assert!(system >= ms(10) && system < ms(12), "{system}");
    let used = result.tasks.iter().fold(us(0), |sum, task| sum + task.cpu_time);
    assert!(used.0.abs_diff((user + system).0) < 50_000, "{used} of {user} and {system}");
}

#[test]
fn lateness_and_age_are_measured() {
    let mut scenario = Scenario::empty("late", End::AllExit);
    scenario.channels = vec![Channel { kind: ChannelKind::Pipe, capacity: 4096, peer: None }];
    scenario.spans = 2;
    let (timer, channel) = (TimerSlot(0), ChannelId(0));
    let periodic = program(|b| {
        b.op(Op::TimerWait { timer, period: ms(10), absolute: true })
            .op(Op::Late { timer, span: SpanId(0) })
            .op(Op::Run(ms(15)))
            // The expiry at 20 ms has passed.
            .op(Op::TimerWait { timer, period: ms(10), absolute: true })
            .op(Op::Late { timer, span: SpanId(0) })
            .op(Op::Send { channel, bytes: 4 })
    });
    let reader = program(|b| {
        b.op(Op::Recv { channel, bytes: 4 }).op(Op::Run(ms(7))).op(Op::Age { channel, span: SpanId(1) })
    });
    scenario.programs = vec![periodic, reader];
    scenario.tasks = vec![task("periodic", 0, 0), task("reader", 1, 1)];
    let result = fair(2, &scenario);
    let lengths = |span: usize| -> Vec<u64> {
        result.measurements.spans[span].samples().iter().map(|sample| sample.length().0 / 1_000_000).collect()
    };
    assert_eq!((lengths(0), lengths(1)), (vec![0, 5], vec![7]));
}

#[test]
fn a_connection_goes_to_the_worker_that_waits_longest() {
    let mut scenario = Scenario::empty("listen", End::AllExit);
    let socket = |peer| Channel { kind: ChannelKind::Tcp, capacity: 4096, peer: Some(ChannelId(peer)) };
    scenario.channels = vec![socket(1), socket(0)];
    (scenario.listeners, scenario.spans) = (1, 1);
    let listener = ListenerId(0);
    let worker = |after| {
        program(|b| {
            b.op(Op::Sleep(after))
                .op(Op::Accept(listener))
                .op(Op::RecvReady { bytes: 10 })
                .op(Op::Run(ms(1)))
                .op(Op::Answer { bytes: 20 })
        })
    };
    let client = program(|b| {
        b.op(Op::Sleep(ms(5)))
            .op(Op::Connect { listener, channel: Some(ChannelId(0)) })
            .op(Op::Send { channel: ChannelId(0), bytes: 10 })
            .op(Op::Recv { channel: ChannelId(1), bytes: 20 })
            .op(Op::Sleep(ms(5)))
            .op(Op::Connect { listener, channel: Some(ChannelId(0)) })
            .op(Op::Send { channel: ChannelId(0), bytes: 10 })
            .op(Op::Recv { channel: ChannelId(1), bytes: 20 })
    });
    scenario.programs = vec![worker(ms(2)), worker(ms(1)), client];
    scenario.tasks = vec![task("late", 0, 0), task("early", 1, 1), task("client", 2, 2)];
    let sink = std::rc::Rc::new(std::cell::RefCell::new(Exits::default()));
    let mut config = common::config(2, 1);
    config.sinks.push(sink.clone());
    let class = schedlab_sim::Class::<common::Minimal>::Fair;
    schedlab_sim::run(&config, &scenario, class).unwrap();
    assert_eq!(sink.borrow().0[0], 1, "the worker that waited first was served first");
}

/// The tasks in the order of their ends.
#[derive(Default)]
struct Exits(Vec<u32>);

impl schedlab_trace::Sink for Exits {
    fn event(&mut self, event: &schedlab_trace::Event) {
        if let schedlab_trace::EventKind::Exit { task } = event.kind {
            self.0.push(task.0);
        }
    }
}
