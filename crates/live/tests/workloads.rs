//! Workloads as real processes on the machine that runs the tests, without privilege.
//!
//! Not under the usual harness: a task that replaces its process image becomes this program again.

use std::process::ExitCode;

use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Policy};
use schedlab_live::exec::{self, ExecError, ExecOptions, ExecOutcome};
use schedlab_workload::{
    Amount, Attribute, BarrierId, ChangeId, Channel, ChannelId, ChannelKind, ChildSpec, CondId, CounterId,
    Disk, DiskId, End, Identity, LockId, LockKind, Op, PollId, PollKind, PollSet, ProcessId, ProgramBuilder,
    ProgramId, Scenario, SemId, SemKind, Semaphore, SpanId, TaskRef, TaskSpec, TimerSlot, Watched, WordId,
    catalog,
};

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("chat_counts_every_message", chat_counts_every_message),
    ("hogs_share_and_end_on_time", hogs_share_and_end_on_time),
    ("becoming_a_task_is_no_part_of_the_run", becoming_a_task_is_no_part_of_the_run),
    ("forked_children_exec_and_go_on", forked_children_exec_and_go_on),
    ("a_task_keeps_spans_and_counters_over_exec", a_task_keeps_spans_and_counters_over_exec),
    ("conditions_barriers_timers_and_disks", conditions_barriers_timers_and_disks),
    ("a_web_server_answers_and_a_database_commits", a_web_server_answers_and_a_database_commits),
    ("builds_and_computing_loads_do_their_work", builds_and_computing_loads_do_their_work),
    ("benchmarks_of_today_run", benchmarks_of_today_run),
    ("cpu_time_in_the_kernel_is_told_apart", cpu_time_in_the_kernel_is_told_apart),
    ("every_mechanism_serves_its_client", every_mechanism_serves_its_client),
    ("the_fastest_server_serves", the_fastest_server_serves),
    ("what_was_polled_and_noted_survives_exec", what_was_polled_and_noted_survives_exec),
    ("readers_share_a_file_lock", readers_share_a_file_lock),
    ("the_caller_can_end_a_run", the_caller_can_end_a_run),
    ("attributes_change_while_tasks_run", attributes_change_while_tasks_run),
    ("failures_name_the_task", failures_name_the_task),
    ("nothing_is_left_behind", nothing_is_left_behind),
    ("tasks_are_whose_the_workload_says", tasks_are_whose_the_workload_says),
    (
        "groups_are_made_and_removed_or_refused_with_the_cure",
        groups_are_made_and_removed_or_refused_with_the_cure,
    ),
];

#[allow(clippy::print_stdout, reason = "a test program reports")]
fn main() -> ExitCode {
    schedlab_live::enter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let exact = args.iter().any(|arg| arg == "--exact");
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    let asked = |name: &str| if exact { name == filter } else { name.contains(&filter) };
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| asked(name)) {
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    println!("test result: {}. {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(scenario: &Scenario) -> Result<ExecOutcome, ExecError> {
    exec::run(scenario, &ExecOptions::default(), &mut || true)
}

fn task(name: &str, program: u32, process: u32) -> TaskSpec {
    TaskSpec {
        name: name.to_string(),
        program: ProgramId(program),
        process: ProcessId(process),
        nice: Nice::ZERO,
        policy: Policy::Other,
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: false,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    }
}

fn scenario(programs: Vec<ProgramBuilder>, tasks: Vec<TaskSpec>) -> Scenario {
    Scenario {
        name: "test".to_string(),
        params: Vec::new(),
        programs: programs.into_iter().map(|p| p.build().unwrap()).collect(),
        channels: Vec::new(),
        semaphores: Vec::new(),
        locks: Vec::new(),
        conds: 0,
        barriers: Vec::new(),
        disks: Vec::new(),
        listeners: 0,
        changes: Vec::new(),
        groups: Vec::new(),
        group_changes: Vec::new(),
        tasks,
        polls: Vec::new(),
        words: 0,
        child: ChildSpec { working_set_kib: 0, reset_on_fork: false },
        counters: 1,
        spans: 1,
        end: End::AllExit,
        metrics: Vec::new(),
        series: Vec::new(),
        goals: Vec::new(),
    }
}

const COUNT: Op = Op::Count { counter: CounterId(0), units: 1 };

fn chat_counts_every_message() {
    let chat = catalog::build("chat:rooms=1,messages=5", 1).unwrap();
    let outcome = run(&chat).unwrap();
    // 20 users send 5 messages, each of which 19 others receive.
    assert_eq!(outcome.measurements.counters[0], 20 * 5 * 20);
    assert_eq!(outcome.tasks.len(), chat.tasks.len());
    assert!(outcome.tasks.iter().all(|t| t.cpu_time > DurationNs::ZERO));
}

fn hogs_share_and_end_on_time() {
    let busy =
        ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(Op::Run(DurationNs::from_ms(1))).op(COUNT));
    let mut hogs = scenario(vec![busy], vec![task("hog/0", 0, 0), task("hog/1", 0, 1)]);
    hogs.end = End::After(DurationNs::from_ms(500));
    let outcome = run(&hogs).unwrap();
    let elapsed = outcome.measurements.elapsed;
    assert!(elapsed >= DurationNs::from_ms(500), "{elapsed:?}");
    // How long that takes, and how much of it a hog gets, is up to what else the machine does. A hog's CPU time has its start
    // and its end in it, hence the half.
    for hog in &outcome.tasks {
        assert!(hog.cpu_time > DurationNs::from_ms(5) && hog.cpu_time <= elapsed * 3 / 2, "{hog:?}");
    }
    assert!(outcome.measurements.counters[0] > 5);
}

fn becoming_a_task_is_no_part_of_the_run() {
    // A task that does nothing but sleep uses less CPU time than its start takes: forking, a name, an affinity, a policy.
    let sleeper = ProgramBuilder::new().op(Op::Sleep(DurationNs::from_ms(20)));
    let spinner = ProgramBuilder::new().op(Op::RunKernel(DurationNs::from_ms(10)));
    let idle = run(&scenario(vec![sleeper], vec![task("idle", 0, 0)])).unwrap();
    assert!(idle.tasks[0].cpu_time < DurationNs::from_ms(2), "{:?}", idle.tasks[0]);
    for _ in 0..10 {
        // The span ends when the thread's whole CPU time says so, so that all of it is in the run.
        let outcome = run(&scenario(vec![spinner.clone()], vec![task("hog", 0, 0)])).unwrap();
        let (hog, elapsed) = (&outcome.tasks[0], outcome.measurements.elapsed);
        assert!(hog.cpu_time >= DurationNs::from_ms(10) && hog.cpu_time <= elapsed, "{hog:?} in {elapsed:?}");
    }
}

fn forked_children_exec_and_go_on() {
    let parent = ProgramBuilder::new().repeat(Amount::Times(3), |b| {
        b.op(Op::SpanBegin(SpanId(0)))
            .op(Op::Fork { program: ProgramId(1) })
            .op(Op::WaitChild)
            .op(Op::SpanEnd(SpanId(0)))
    });
    let child = ProgramBuilder::new().op(COUNT).op(Op::Exec).op(Op::Run(DurationNs::from_ms(2))).op(COUNT);
    let outcome = run(&scenario(vec![parent, child], vec![task("parent", 0, 0)])).unwrap();
    assert_eq!(outcome.measurements.counters[0], 6);
    assert_eq!(outcome.measurements.spans[0].count(), 3);
    let forked = outcome.tasks.last().unwrap();
    assert_eq!(forked.name, "(forked)");
    assert!(forked.cpu_time > DurationNs::from_ms(3), "{forked:?}");
}

fn a_task_keeps_spans_and_counters_over_exec() {
    let program = ProgramBuilder::new().op(Op::SpanBegin(SpanId(0))).repeat(Amount::Times(3), |b| {
        b.op(Op::Exec).op(COUNT).op(Op::Send { channel: ChannelId(0), bytes: 8 })
    });
    let program = program
        .op(Op::Recv { channel: ChannelId(0), bytes: 24 })
        .op(Op::SemPost { sem: SemId(0), units: 40_000 })
        .op(Op::SpanEnd(SpanId(0)));
    let mut one = scenario(vec![program], vec![task("self", 0, 0)]);
    one.channels = vec![Channel { kind: ChannelKind::Pipe, capacity: 4096, peer: None }];
    one.semaphores = vec![Semaphore { kind: SemKind::Sysv, initial: 0 }];
    // 40,000 units are more than one semaphore can hold, so the program must fail at the post.
    let error = run(&one).unwrap_err().to_string();
    assert!(error.contains("task self, using a semaphore"), "{error}");
    one.programs[0] = ProgramBuilder::new()
        .op(Op::SpanBegin(SpanId(0)))
        .repeat(Amount::Times(3), |b| {
            b.op(Op::Exec).op(COUNT).op(Op::Send { channel: ChannelId(0), bytes: 8 })
        })
        .op(Op::Recv { channel: ChannelId(0), bytes: 24 })
        .op(Op::SpanEnd(SpanId(0)))
        .build()
        .unwrap();
    let outcome = run(&one).unwrap();
    assert_eq!(outcome.measurements.counters[0], 3);
    assert_eq!(outcome.measurements.spans[0].count(), 1);
}

fn conditions_barriers_timers_and_disks() {
    let (cond, lock) = (CondId(0), LockId(0));
    // The lock is held from the waiter's ticket to its wait, so the signal cannot come too early:
    // the signaller passes the barrier only after the waiter has, and then needs the lock.
    let waiter = ProgramBuilder::new()
        .op(Op::Lock(lock))
        .op(Op::Barrier(BarrierId(0)))
        .op(Op::CondWait { cond, lock })
        .op(COUNT)
        .op(Op::Unlock(lock));
    let signaller = ProgramBuilder::new()
        .op(Op::Barrier(BarrierId(0)))
        .op(Op::Lock(lock))
        .op(Op::CondSignal(cond))
        .op(Op::Unlock(lock));
    let timer = TimerSlot(0);
    let wait = Op::TimerWait { timer, period: DurationNs::from_ms(10), absolute: true };
    let periodic = ProgramBuilder::new()
        .op(Op::SpanBegin(SpanId(0)))
        .repeat(Amount::Times(5), |b| b.op(wait))
        .repeat(Amount::Times(3), |b| b.op(Op::Io { disk: DiskId(0), service: DurationNs::from_ms(5) }))
        .op(Op::SpanEnd(SpanId(0)));
    let endless = ProgramBuilder::new().repeat(Amount::Forever, |b| b.op(Op::Sleep(DurationNs::from_ms(5))));
    let tasks =
        vec![task("waiter", 0, 0), task("signaller", 1, 0), task("periodic", 2, 1), task("idle", 3, 2)];
    let mut all = scenario(vec![waiter, signaller, periodic, endless], tasks);
    (all.conds, all.barriers, all.locks) = (1, vec![2], vec![LockKind::Futex]);
    all.disks = vec![Disk {}];
    all.tasks[3].background = true;
    all.end = End::ForegroundExit;
    let outcome = run(&all).unwrap();
    assert_eq!(outcome.measurements.counters[0], 1);
    let length = outcome.measurements.spans[0].samples()[0].length();
    // The disk takes its time; expiries that a busy machine has missed return at once.
    assert!(length >= DurationNs::from_ms(15), "{length:?}");
}

fn a_web_server_answers_and_a_database_commits() {
    let spec = "ab:concurrency=12,requests=60,workers=8,start=4,page=1ms";
    let outcome = run(&catalog::build(spec, 1).unwrap()).unwrap();
    assert_eq!(outcome.measurements.spans[1].count(), 60);
    assert_eq!(outcome.measurements.counters[0], 60);
    let spec = "oltp:threads=4,transactions=40,rows=100,log=2ms,read=1ms";
    let outcome = run(&catalog::build(spec, 1).unwrap()).unwrap();
    assert_eq!(outcome.measurements.spans[1].count(), 40);
    // Every commit waits for a write of the log.
    assert!(outcome.measurements.spans[1].samples().iter().all(|s| s.length() >= DurationNs::from_ms(2)));
}

fn builds_and_computing_loads_do_their_work() {
    let world = "buildworld:jobs=3,objects=10,user=60ms,system=20ms,io=3ms";
    let compile = "compile:objects=4,probes=6,probe=2ms,user=40ms,system=20ms,io=3ms";
    let builds = "builds:builds=2,objects=3,user=30ms,system=10ms,io=3ms";
    // Each forked process leaves its CPU time behind.
    for (spec, spans, cpu) in [(world, 1, 80), (compile, 1, 60), (builds, 2, 80)] {
        let outcome = run(&catalog::build(spec, 1).unwrap()).unwrap();
        let measured = &outcome.measurements;
        assert_eq!(measured.spans[0].count(), spans, "{spec}");
        assert!(measured.user + measured.system >= DurationNs::from_ms(cpu), "{spec}: {measured:?}");
    }
    let encoder = catalog::build("oggenc:files=2,user=40ms,system=2ms,io=4ms", 1).unwrap();
    assert_eq!(run(&encoder).unwrap().measurements.spans[0].count(), 1);
    let score = catalog::build("ubench:ttime=200ms", 1).unwrap();
    assert!(run(&score).unwrap().measurements.counters[0] > 5);
    let ciphers = run(&catalog::build("openssl:time=2ms,rsa_time=4ms", 1).unwrap()).unwrap();
    assert!(ciphers.measurements.spans.iter().all(|span| span.count() == 1));
}

fn benchmarks_of_today_run() {
    for medium in ["socket,as=process", "pipe,as=thread"] {
        let spec = format!("hackbench:groups=1,fds=4,loops=10,medium={medium}");
        let outcome = run(&catalog::build(&spec, 1).unwrap()).unwrap();
        assert_eq!(outcome.measurements.counters[0], 4 * 4 * 10, "{medium}");
    }
    let pipe = run(&catalog::build("pipe:loops=200", 1).unwrap()).unwrap();
    assert_eq!(pipe.measurements.counters[0], 200);
    let spec = "schbench:workers=2,ttime=300ms,work=100us";
    let schbench = run(&catalog::build(spec, 1).unwrap()).unwrap();
    assert!(schbench.measurements.counters[0] > 5);
    assert!(schbench.measurements.spans.iter().all(|span| span.count() > 5));
    let cyclic = run(&catalog::build("cyclictest:threads=2,ttime=300ms", 1).unwrap()).unwrap();
    assert!(cyclic.measurements.spans[0].count() > 10);
    let mut volano = catalog::build("volano:rooms=1,users=4,messages=3", 1).unwrap();
    // Negative nice values take root.
    volano.tasks.iter_mut().for_each(|task| task.nice = Nice::ZERO);
    assert_eq!(run(&volano).unwrap().measurements.counters[0], 4 * 3 * 4);
}

fn cpu_time_in_the_kernel_is_told_apart() {
    let (user, system) = (DurationNs::from_ms(30), DurationNs::from_ms(400));
    let program = ProgramBuilder::new().op(Op::Run(user)).op(Op::Exec).op(Op::RunKernel(system));
    // The kernel divides CPU time by what it sees at clock ticks; on a busy machine they can all meet the same half.
    let seen = (0..5).any(|_| {
        let outcome = run(&scenario(vec![program.clone()], vec![task("both", 0, 0)])).unwrap();
        let measured = &outcome.measurements;
        assert!(measured.user + measured.system >= user + system, "{measured:?}");
        measured.system > DurationNs::from_ms(4)
    });
    assert!(seen, "no time in the kernel in five runs");
}

fn every_mechanism_serves_its_client() {
    let mechanisms = [
        "pipe", "sock", "tcp", "udp", "msg", "mq", "sem", "eventfd", "sig", "flock", "fcntl", "futex",
        "condvar", "select", "poll", "epoll", "wait", "broker",
    ];
    for mechanism in mechanisms {
        let mut scenario = catalog::build(&format!("swap-{mechanism}:iterations=3,service=2ms"), 1).unwrap();
        // Negative nice values take root.
        scenario.tasks[0].nice = Nice::ZERO;
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        assert_eq!(outcome.measurements.spans[0].count(), 3, "{mechanism}");
        let server = if mechanism == "wait" { "(forked)" } else { "server" };
        let server = outcome.tasks.iter().find(|task| task.name == server).unwrap();
        assert!(server.cpu_time >= DurationNs::from_ms(5), "{mechanism}: {server:?}");
    }
    for protocol in ["none", "pi"] {
        let spec = format!("inversion:iterations=3,service=2ms,protocol={protocol},server_nice=0");
        let mut scenario = catalog::build(&spec, 1).unwrap();
        scenario.tasks[0].nice = Nice::ZERO;
        assert_eq!(run(&scenario).unwrap().measurements.spans[0].count(), 3, "{protocol}");
    }
}

fn the_fastest_server_serves() {
    let mut multi = catalog::build("swap-multi:iterations=3,unit=2ms,servers=1/50", 1).unwrap();
    multi.tasks[0].nice = Nice::ZERO;
    let outcome = run(&multi).unwrap();
    assert_eq!(outcome.measurements.spans[0].count(), 3);
    // The slow one starts afresh each time and never gets to its end.
    let slow = outcome.tasks.iter().find(|task| task.name == "server/1").expect("it was started");
    assert!(slow.cpu_time < DurationNs::from_ms(250), "{slow:?}");
}

fn what_was_polled_and_noted_survives_exec() {
    let (request, reply, word) = (ChannelId(0), ChannelId(1), WordId(0));
    let server = ProgramBuilder::new().repeat(Amount::Times(2), |b| {
        b.op(Op::Note(word))
            .op(Op::Poll(PollId(0)))
            .op(Op::Exec)
            .op(Op::RecvReady { bytes: 4 })
            .op(Op::Exec)
            .op(Op::Answer { bytes: 8 })
            // The client has changed it in the first pass alone.
            .op(Op::RestartIfChanged(word))
            .op(COUNT)
    });
    let client = ProgramBuilder::new()
        .op(Op::Advance(word))
        .op(Op::Send { channel: request, bytes: 4 })
        .op(Op::Recv { channel: reply, bytes: 8 })
        .op(Op::Send { channel: request, bytes: 4 })
        .op(Op::Recv { channel: reply, bytes: 8 });
    let wait = ProgramBuilder::new().op(Op::Sleep(DurationNs::from_ms(30)));
    let client = wait.build().unwrap().ops().iter().chain(client.build().unwrap().ops()).copied().collect();
    let mut both = scenario(vec![server], vec![task("server", 0, 0), task("client", 1, 1)]);
    both.programs.push(schedlab_workload::Program::new(client).unwrap());
    let socket = |peer| Channel { kind: ChannelKind::Unix, capacity: 4096, peer: Some(peer) };
    both.channels = vec![socket(reply), socket(request)];
    both.polls = vec![PollSet { kind: PollKind::Epoll, watched: vec![Watched::Channel(request)] }];
    both.words = 1;
    assert_eq!(run(&both).unwrap().measurements.counters[0], 1);
}

fn readers_share_a_file_lock() {
    for kind in [LockKind::Flock, LockKind::Fcntl] {
        let (lock, both) = (LockId(0), Op::Barrier(BarrierId(0)));
        // Both readers are inside at once, or the barrier would never open.
        let reader = ProgramBuilder::new().op(Op::LockShared(lock)).op(both).op(COUNT).op(Op::Unlock(lock));
        let mut readers = scenario(vec![reader], vec![task("r/0", 0, 0), task("r/1", 0, 1)]);
        (readers.locks, readers.barriers) = (vec![kind], vec![2]);
        assert_eq!(run(&readers).unwrap().measurements.counters[0], 2, "{kind:?}");
    }
}

fn the_caller_can_end_a_run() {
    let sleeper = ProgramBuilder::new().op(Op::Sleep(DurationNs::from_secs(100)));
    let outcome =
        exec::run(&scenario(vec![sleeper], vec![task("s", 0, 0)]), &ExecOptions::default(), &mut || false)
            .unwrap();
    assert!(outcome.stopped_early);
    assert!(outcome.measurements.elapsed < DurationNs::from_secs(20));
}

fn attributes_change_while_tasks_run() {
    let (alone, meek) =
        (Attribute::Affinity(CpuMask::single(CpuId(0))), Attribute::Nice(Nice::new(19).unwrap()));
    let elsewhere = Attribute::Affinity(CpuMask::single(CpuId(900)));
    let set = |task: u32, change: u32| Op::Set { task: Some(TaskRef(task)), change: ChangeId(change) };
    // The changes reach the tasks through an exec too.
    let hand = [Op::Exec, set(0, 0), set(1, 0), set(1, 1), set(1, 2)];
    let hand = hand.into_iter().fold(ProgramBuilder::new(), ProgramBuilder::op);
    let hog =
        ProgramBuilder::new().op(Op::Sleep(DurationNs::from_ms(50))).op(Op::RunFor(DurationNs::from_ms(400)));
    let mut pair = scenario(vec![hog, hand], vec![task("a", 0, 0), task("b", 0, 1), task("hand", 1, 2)]);
    pair.changes = vec![alone, meek, elsewhere];
    let outcome = run(&pair).unwrap();
    let (strong, weak) = (outcome.tasks[0].cpu_time, outcome.tasks[1].cpu_time);
    assert!(strong.0 > 4 * weak.0, "{strong:?} against {weak:?} of nice 19 on the same CPU");
}

fn failures_name_the_task() {
    let bad = ProgramBuilder::new().op(Op::Run(DurationNs::from_ms(1)));
    let mut one = scenario(vec![bad], vec![task("far", 0, 0)]);
    one.tasks[0].affinity = Some(schedlab_base::CpuMask::single(schedlab_base::CpuId(900)).into());
    let error = run(&one).unwrap_err().to_string();
    assert!(error.contains("task far, setting the affinity"), "{error}");
    let exec = ProgramBuilder::new().op(Op::Exec);
    let two = scenario(vec![exec], vec![task("a", 0, 0), task("b", 0, 0)]);
    assert!(matches!(run(&two), Err(ExecError::NotPossible { .. })));
}

/// Name, process id, that of the parent, user and group of the processes whose name begins so, out of `/proc`.
fn processes(prefix: &str) -> Vec<(String, [u32; 2], String, String)> {
    let texts = std::fs::read_dir("/proc").unwrap().flatten();
    let texts = texts.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    let of = |text: String| {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = line("Name:").filter(|name| name.starts_with(prefix))?;
        let ids = |key: &str| line(key).map(|ids| ids.split_whitespace().collect::<Vec<_>>().join(" "));
        let numbers = [line("Pid:")?.parse().ok()?, line("PPid:")?.parse().ok()?];
        Some((name.to_string(), numbers, ids("Uid:")?, ids("Gid:")?))
    };
    texts.filter_map(of).collect()
}

fn tasks_are_whose_the_workload_says() {
    // The parent ends first; its child still does what takes root, and executes.
    let brief = ProgramBuilder::new().op(Op::Sleep(DurationNs::from_ms(350)));
    let change = Op::Set { task: None, change: ChangeId(0) };
    let long = ProgramBuilder::new()
        .op(Op::Sleep(DurationNs::from_ms(600)))
        .op(change)
        .op(Op::Exec)
        .op(change)
        .op(COUNT);
    let mut pair = scenario(vec![brief, long], vec![task("who-parent", 0, 0), task("who-child", 1, 1)]);
    pair.changes = vec![Attribute::Nice(Nice::new(-5).unwrap())];
    pair.tasks[0].identity = Identity { uid: 1234, gid: 77, parent: None };
    pair.tasks[1].identity = Identity { uid: 1234, gid: 78, parent: Some(TaskRef(0)) };
    let mut seen = Vec::new();
    let result = exec::run(&pair, &ExecOptions::default(), &mut || {
        seen.push(processes("who-"));
        true
    });
    // SAFETY: plain system call.
    if unsafe { libc::geteuid() } != 0 {
        assert!(
            result.unwrap_err().to_string().contains("a uid or gid takes root; run as root or in the VM")
        );
        return;
    }
    assert_eq!(result.unwrap().measurements.counters[0], 1, "what it did after it executed");
    let both = seen.iter().find(|seen| seen.len() == 2 && seen.iter().all(|p| p.2.starts_with("1234")));
    let mut both = both.expect("they ran side by side").clone();
    both.sort();
    assert_eq!((both[0].2.as_str(), both[0].3.as_str()), ("1234 1234 1234 1234", "78 78 78 78"));
    assert_eq!(both[1].3, "77 77 77 77");
    assert_eq!(both[0].1[1], both[1].1[0], "the child's parent: {both:?}");
    assert!(processes("who-").is_empty(), "the child is gone with the run");
}

fn nothing_is_left_behind() {
    let child = ProgramBuilder::new().op(Op::Sleep(DurationNs::from_secs(100)));
    let parent = ProgramBuilder::new()
        .op(Op::Fork { program: ProgramId(1) })
        .op(Op::Fork { program: ProgramId(1) })
        .op(Op::Run(DurationNs::from_ms(50)));
    let mut orphans = scenario(vec![parent, child], vec![task("leftover-parent", 0, 0)]);
    orphans.end = End::ForegroundExit;
    run(&orphans).unwrap();
    let left = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim() == "leftover-parent")
    });
    assert!(!left, "a forked task outlives its run");
}

fn groups_are_made_and_removed_or_refused_with_the_cure() {
    let text = r#"name = "tree"
end = "200ms"
changes = [ "50ms cgroup late make", "60ms group hog late", "100ms cgroup late remove", "120ms group hog /" ]
[[groups]]
name = "a/b"
cpu_weight = 300
[[groups]]
name = "late"
later = true
[programs]
hog = [ "repeat forever", "run 1ms", "done" ]
[[tasks]]
name = "hog"
program = "hog"
group = "a/b"
"#;
    let scenario = schedlab_workload::file::parse(text, "tree.toml").unwrap();
    match run(&scenario) {
        Ok(outcome) => assert!(outcome.tasks[0].cpu_time > DurationNs::ZERO),
        Err(ExecError::Groups(text)) => {
            assert!(text.contains("cgroup v") || text.contains("Delegate=yes"), "{text}");
        }
        Err(other) => panic!("{other}"),
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    for place in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        let own = std::path::Path::new(place).join(format!("schedlab.{}", std::process::id()));
        assert!(!own.exists(), "{}", own.display());
    }
}
