//! Runs in the simulator: schedulers that work, and how those that do not are ejected.

use crate::common;
use schedlab_base::{DurationNs, Machine};
use schedlab_scx::{BpfScheduler, EngineChoice, LoadOptions, run};
use schedlab_sim::{Class, Config, RunResult};
use schedlab_trace::ExitKind;
use schedlab_workload::catalog;

/// Runs on both engines, and on one after the other: all have to agree on the whole trace, its end and its costs.
fn simulate(bytes: &[u8], settings: &[(&str, &str)], cpus: usize, workload: &str) -> RunResult<BpfScheduler> {
    let engines = [EngineChoice::Compiled, EngineChoice::Patient, EngineChoice::Interpreted];
    let [compiled, patient, interpreted] = engines.map(|engine| {
        let machine = Machine::uniform("test", cpus);
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let options = LoadOptions { settings, engine, ..LoadOptions::default() };
        let scheduler = BpfScheduler::load("test.bpf.o", bytes, &options, &machine).unwrap();
        let scenario = catalog::build(workload, 1).unwrap();
        let config = Config { checkers: true, ..Config::new(machine, 1) };
        run(&config, &scenario, Class::Ext(scheduler)).unwrap()
    });
    for other in [patient, interpreted] {
        assert_eq!(compiled.trace_hash, other.trace_hash, "the engines agree");
        assert_eq!(compiled.costs, other.costs);
        assert_eq!(compiled.exit, other.exit);
    }
    compiled
}

fn lab(name: &str, workload: &str) -> Option<RunResult<BpfScheduler>> {
    Some(simulate(&common::object(name)?, &[], 2, workload))
}

/// The run was ended by the kernel with this kind; the message holds all of `words`.
fn ejected(result: &RunResult<BpfScheduler>, kind: ExitKind, words: &[&str]) {
    let exit = &result.exit;
    assert_eq!(exit.kind, kind, "{exit:?}");
    for word in words {
        assert!(exit.message.contains(word), "no {word:?} in {:?}", exit.message);
    }
}

const HOGS: &str = "cpuhog:ntasks=4,ttime=200ms";
const SLEEPERS: &str = "periodic:tasks=6,run=100us,sleep=300us,ttime=200ms";

#[test]
fn a_fifo_shares_the_cpus() {
    let Some(result) = lab("fifo", HOGS) else { return };
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    for task in &result.tasks {
        assert!((0.4..0.6).contains(&task.share), "{task:?}");
    }
    assert!(result.costs.bpf_insns > 0);
    let counters = result.scheduler.unwrap().counters();
    assert!(counters.iter().all(|(_, count)| *count > 0), "{counters:?}");
}

#[test]
fn variables_change_at_their_time() {
    let Some(bytes) = common::object("switched") else { return };
    let counts = |changes: &[&str]| {
        let changes = changes.iter().map(|text| text.parse().unwrap()).collect();
        let options = LoadOptions { changes, ..LoadOptions::default() };
        let mut machine = Machine::uniform("test", 2);
        // With slack, the length of a turn decides which timers are taken together, and so how many turns there are.
        machine.kernel.timer_slack = DurationNs::ZERO;
        let scheduler = BpfScheduler::load("switched", &bytes, &options, &machine).unwrap();
        let scenario = catalog::build(SLEEPERS, 1).unwrap();
        let result = run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler)).unwrap();
        let scheduler = result.scheduler.unwrap();
        (scheduler.variable("nr_slow").unwrap(), scheduler.variable("nr_fast").unwrap())
    };
    let (all, none) = counts(&[]);
    assert!(all > 500 && none == 0, "{all} and {none}");
    let (slow, fast) = counts(&["0s:mode=1"]);
    assert!(slow < 10 && fast > all - 10, "{slow} and {fast}: only the tasks' first turns come before");
    // In any order; of two at one time the later one counts. 50 ms of 200 are fast.
    let (slow, fast) = counts(&["150ms:mode=slow", "100ms:mode=slow", "100ms:mode=fast"]);
    assert_eq!(slow + fast, all);
    assert!((all / 5..all / 3).contains(&fast), "{fast} of {all}");
    let (_, weighted) = counts(&["100ms:mode=fast", "150ms:mode=slow", "10ms:weights[1]=3"]);
    assert_eq!(weighted, 3 * fast);
    assert_eq!(counts(&["300ms:mode=fast"]), (all, 0), "the run is over by then");
}

#[test]
fn members_of_tasks_are_what_the_kernel_has_whether_looked_at_before_or_not() {
    let Some(bytes) = common::object("seen") else { return };
    for early in ["0", "1"] {
        let result = simulate(&bytes, &[("early", early)], 2, SLEEPERS);
        assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
        let scheduler = result.scheduler.unwrap();
        let value = |name: &str| scheduler.variable(name).unwrap();
        for name in ["state", "vtime", "place", "flags", "time", "slice", "sleep"] {
            assert_eq!(value(&format!("nr_bad_{name}")), 0, "{name}, early {early}");
        }
        assert!(value("nr_stopped") > 500 && value("nr_enqueued") > value("nr_stopped") / 2);
    }
}

#[test]
fn runs_repeat_exactly() {
    let Some(bytes) = common::object("parts") else { return };
    let hash = || simulate(&bytes, &[], 2, SLEEPERS).trace_hash.to_string();
    assert_eq!(hash(), hash());
}

#[test]
fn a_scheduler_that_begins_again_runs_as_it_did() {
    let Some(bytes) = common::object("parts") else { return };
    let machine = Machine::uniform("test", 2);
    let mut scheduler = BpfScheduler::load("parts", &bytes, &LoadOptions::default(), &machine).unwrap();
    let start = scheduler.keep();
    let config = Config::new(machine, 1);
    let mut runs = Vec::new();
    for workload in [SLEEPERS, HOGS, SLEEPERS] {
        let scenario = catalog::build(workload, 1).unwrap();
        let mut result = run(&config, &scenario, Class::Ext(scheduler)).unwrap();
        scheduler = result.scheduler.take().unwrap();
        runs.push((result.trace_hash.to_string(), result.exit, scheduler.counters()));
        scheduler.begin_again(&start);
    }
    assert_eq!(runs[0], runs[2]);
    assert_ne!(runs[0], runs[1]);
    assert!(scheduler.write_variable("no such thing", &[1]).unwrap_err().contains("no variable"));
}

#[test]
fn a_null_pointer_ends_the_scheduler() {
    let Some(result) = lab("null_deref", SLEEPERS) else { return };
    ejected(&result, ExitKind::Error, &["lab_enqueue", "NULL", "instruction"]);
}

#[test]
fn an_endless_loop_ends_the_scheduler() {
    let Some(result) = lab("endless", SLEEPERS) else { return };
    ejected(&result, ExitKind::Error, &["ran too long", "lab_enqueue"]);
}

#[test]
fn an_unknown_queue_ends_the_scheduler() {
    let Some(result) = lab("bad_dsq", SLEEPERS) else { return };
    // The kernel finds it when the program has returned; the program's call is to blame.
    ejected(
        &result,
        ExitKind::Error,
        &["non-existent DSQ 0x4d; BPF program lab_enqueue: bad_dsq.bpf.c:4: SCHEDULER"],
    );
}

#[test]
fn a_forgotten_task_is_found_by_the_watchdog() {
    let Some(result) = lab("stall", "periodic:tasks=6,run=100us,sleep=300us,ttime=5s") else { return };
    ejected(&result, ExitKind::ErrorStall, &["failed to run for"]);
}

#[test]
fn a_store_to_a_kernel_field_ends_the_scheduler() {
    let Some(result) = lab("write_field", SLEEPERS) else { return };
    ejected(&result, ExitKind::Error, &["task_struct.static_prio", "lab_enqueue"]);
}

/// Linux before 7.1 finds it when the call is made.
#[test]
fn a_function_in_the_wrong_callback_ends_the_scheduler_of_an_older_kernel() {
    let Some(bytes) = common::object("forbidden") else { return };
    let mut machine = Machine::uniform("test", 2);
    machine.kernel.version = "7.0".parse().unwrap();
    let settings = vec![("what".to_string(), "ENQUEUE_MOVES".to_string())];
    let options = LoadOptions { settings, ..LoadOptions::default() };
    let scheduler = BpfScheduler::load("test.bpf.o", &bytes, &options, &machine).unwrap();
    let scenario = catalog::build(SLEEPERS, 1).unwrap();
    let result = run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler)).unwrap();
    let words = "calling kernel function scx_bpf_dsq_move_to_local is not allowed from ops.enqueue()";
    ejected(&result, ExitKind::Error, &[words]);
}

#[test]
fn a_scheduler_can_give_up_with_a_message() {
    let Some(result) = lab("says_error", SLEEPERS) else { return };
    ejected(
        &result,
        ExitKind::ErrorBpf,
        &["enough of periodic/", "5 times beef%; BPF program lab_enqueue: says_error.bpf.c:"],
    );
    let scheduler = result.scheduler.unwrap();
    assert_eq!(scheduler.variable("exit_kind"), Ok(1025), "ops.exit() sees the kind");
}

#[test]
fn under_a_lock_hardly_anything_may_be_called() {
    let Some(bytes) = common::object("locked") else { return };
    let run = |what: &str| simulate(&bytes, &[("what", what)], 2, SLEEPERS);
    for allowed in ["NOTHING", "EXCHANGE", "NUMBERS", "RESILIENT"] {
        let result = run(allowed);
        assert_eq!(result.exit.kind, ExitKind::None, "{allowed}: {:?}", result.exit);
        assert!(result.scheduler.unwrap().variable("nr_done").unwrap() > 100, "{allowed}");
    }
    // The first two are answered in line by compiled code where no lock is held.
    for (what, words) in [
        ("LOOKUP", "calls bpf_map_lookup_elem() while it holds a lock"),
        ("CPU", "calls bpf_get_smp_processor_id() while it holds a lock"),
        ("CLOCK", "calls bpf_ktime_get_ns() while it holds a lock"),
        ("RCU", "calls bpf_rcu_read_lock() while it holds a lock"),
        ("KFUNC", "calls scx_bpf_task_cpu() while it holds a lock"),
        ("NESTED", "calls bpf_map_lookup_elem() while it holds a lock"),
        ("ORDER", "which it took later"),
        ("OTHER_KIND", "was taken by the function of another kind of lock"),
    ] {
        let result = run(what);
        ejected(&result, ExitKind::Error, &[words, "lab_enqueue"]);
        assert_eq!(result.scheduler.unwrap().variable("nr_done").unwrap(), 0, "{what}");
    }
}

#[test]
fn all_parts_work_together() {
    let Some(bytes) = common::object("parts") else { return };
    let result = simulate(&bytes, &[("weights[0]", "2"), ("period_ns", "2000000")], 2, SLEEPERS);
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let value = |name: &str| scheduler.variable(name).unwrap();
    assert_eq!(value("nr_weight"), 20);
    assert_eq!(value("nr_seen_cpus"), 2);
    assert_eq!(value("nr_noted"), value("nr_enqueued"));
    assert!((90..=101).contains(&value("nr_fired")), "{}", value("nr_fired"));
    assert!(value("nr_noted") > 10, "{}", value("nr_noted"));
    assert_eq!(value("nr_pulled"), 2 * value("nr_noted"));
    assert_ne!(value("nr_random"), 0);
}

#[test]
fn the_shipped_schedulers_run() {
    for name in ["vanilla", "o1"] {
        let Some(bytes) = common::shipped(name) else { return };
        for workload in [HOGS, SLEEPERS, "chat:rooms=2,messages=5"] {
            let result = simulate(&bytes, &[], 2, workload);
            assert_eq!(result.exit.kind, ExitKind::None, "{name} {workload}: {:?}", result.exit);
        }
    }
}

#[test]
fn trace_points_and_registers_are_seen() {
    let Some(result) = lab("trace", SLEEPERS) else { return };
    assert_eq!(result.exit.kind, ExitKind::None, "{:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let value = |name: &str| scheduler.variable(name).unwrap();
    assert_eq!(value("nr_switches"), result.costs.switches);
    assert!(value("nr_wakings") > 100 && value("nr_blocked") > 100);
    assert_eq!(value("nr_odd_calls"), 0);
    // A timer's interrupt wakes, on top of whatever runs: only programs that look at preempt_count know.
    assert!(value("nr_woken_by_tasks") < value("nr_wakings"));
    assert!(value("nr_calls") >= value("nr_returns"));
    assert_eq!(value("last_call"), 230, "clock_nanosleep on x86-64");
}

/// Variables of `files.bpf.o` after a short client-server run.
fn found(bytes: &[u8], workload: &str) -> impl Fn(&str) -> u64 + use<> {
    let result = simulate(bytes, &[], 1, workload);
    assert_eq!(result.exit.kind, ExitKind::None, "{workload}: {:?}", result.exit);
    let scheduler = result.scheduler.unwrap();
    let workload = workload.to_string();
    move |name| scheduler.variable(name).unwrap_or_else(|error| panic!("{workload}, {name}: {error}"))
}

#[test]
fn descriptors_lead_to_what_they_stand_for() {
    let Some(bytes) = common::object("files") else { return };
    let find = |mechanism: &str| found(&bytes, &format!("swap-{mechanism}:iterations=3,service=1ms"));
    let pipe = find("pipe");
    assert!(pipe("nr_fifo") > 5 && pipe("nr_sockets") == 0);
    // Both ends are one inode of the pipes' file system.
    assert_eq!(pipe("first_inode"), pipe("last_inode"));
    assert_eq!(pipe("last_magic"), 0x5049_5045);
    // The client blocks in a read, the server in a write once the client has had enough.
    assert!([3, 4].contains(&pipe("blocked_di")));
    let sock = find("sock");
    assert!(sock("nr_sockets") > 5 && sock("last_magic") == 0x534f_434b);
    assert!(sock("last_peer") != sock("last_inode") && sock("last_peer") > 10_000);
    let tcp = find("tcp");
    let (own, peer) = (tcp("last_ports") as u16, (tcp("last_ports") >> 16) as u16);
    assert_eq!(own.abs_diff(peer.swap_bytes()), 1, "{own} {peer}");
    let flock = find("flock");
    assert!(flock("nr_regular") > 5 && flock("first_inode") == flock("last_inode"));
    assert_eq!(find("mq")("last_magic"), 0x1980_0202);
    let eventfd = find("eventfd");
    assert!(eventfd("last_magic") == 0x0904_1934 && eventfd("last_private") > 0);
    // The server's instance has two connections, the client's one.
    assert!(find("epoll")("nr_epoll_items") > 6);
    assert_eq!(pipe("files_of_others"), 0);
}

#[test]
fn arguments_in_user_memory_can_be_read() {
    let Some(bytes) = common::object("files") else { return };
    let find = |spec: &str| found(&bytes, &format!("{spec}:iterations=3,service=1ms"));
    // The read end of the first pipe that is polled.
    assert_eq!(find("swap-poll")("last_user"), 3);
    // F_WRLCK or F_UNLCK.
    assert!([1, 2].contains(&find("swap-fcntl")("last_user")));
    // { 0, +1 } or { 0, -1 }.
    assert!([0x1_0000, 0xffff_0000].contains(&find("swap-sem")("last_user")));
    // Held and waited for.
    assert_eq!(find("swap-futex")("last_user"), 2);
    // A holder's thread id, with or without waiters.
    let found = found(&bytes, "inversion:iterations=3,service=1ms,protocol=pi");
    assert!((1001..1010).contains(&(found("last_user") & 0x3fff_ffff)), "{:#x}", found("last_user"));
}
