//! What SWAP costs: BPF instructions beyond those of the same policy without it. They are counted per system call that does
//! not block, and per iteration in which a client blocks and is woken up. Prints the tables of `docs/swap.md`, "What it
//! costs".
//!
//! `cargo run -p schedlab-tests --example swap_cost`
#![allow(clippy::print_stdout, reason = "a command's result")]

use schedlab_base::{DurationNs, Machine, Nice, Policy};
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config};
use schedlab_tests::{shipped, shipped_with_swap};
use schedlab_workload::{
    Amount, Channel, ChannelId, ChannelKind, End, Identity, LockId, LockKind, Op, ProcessId, ProgramBuilder,
    ProgramId, Scenario, SemId, SemKind, Semaphore, TaskSpec, catalog,
};

/// The policy that is measured.
const POLICY: &str = "o1";
/// Rounds of the shorter and the longer run, whose difference is free of what happens once.
const ROUNDS: [u64; 2] = [200, 1200];

/// What a run took in all.
struct Cost {
    insns: f64,
    switches: f64,
}

fn object(objects: Vec<(String, Vec<u8>)>, name: &str) -> Vec<u8> {
    objects.into_iter().find(|object| object.0 == name).expect("it is shipped").1
}

fn cost(object: &[u8], detect: Option<&str>, scenario: &Scenario) -> Cost {
    let machine = Machine::uniform("one", 1);
    let settings = detect.map(|detect| ("detect".to_string(), detect.to_string())).into_iter().collect();
    let options = LoadOptions { settings, ..LoadOptions::default() };
    let scheduler = BpfScheduler::load(POLICY, object, &options, &machine).expect("it loads");
    let result = run(&Config::new(machine, 1), scenario, Class::Ext(scheduler)).expect("it runs");
    assert!(!result.exit.kind.is_ejection(), "{:?}", result.exit);
    Cost { insns: result.costs.bpf_insns as f64, switches: result.costs.switches as f64 }
}

/// What one more round takes.
fn per_round(object: &[u8], detect: Option<&str>, scenario: impl Fn(u64) -> Scenario) -> Cost {
    let [short, long] = ROUNDS.map(|rounds| cost(object, detect, &scenario(rounds)));
    let more = (ROUNDS[1] - ROUNDS[0]) as f64;
    Cost { insns: (long.insns - short.insns) / more, switches: (long.switches - short.switches) / more }
}

/// One task that makes two calls a round, neither of which blocks.
fn calls(name: &str, rounds: u64) -> Scenario {
    let mut scenario = Scenario::empty("calls", End::AllExit);
    let channel = |kind, peer| Channel { kind, capacity: 4096, peer };
    let (send, receive) =
        (Op::Send { channel: ChannelId(0), bytes: 1 }, Op::Recv { channel: ChannelId(0), bytes: 1 });
    let mut through = |kind: ChannelKind| {
        let peer = kind.is_socket();
        scenario.channels.push(channel(kind, peer.then_some(ChannelId(1))));
        if peer {
            scenario.channels.push(channel(kind, Some(ChannelId(0))));
        }
        [send, receive]
    };
    let ops = match name {
        "pipe" => through(ChannelKind::Pipe),
        "Unix socket" => through(ChannelKind::Unix),
        "TCP socket" => through(ChannelKind::Tcp),
        "`msgsnd`, `msgrcv`" => through(ChannelKind::SysvQueue),
        "POSIX queue" => through(ChannelKind::PosixQueue),
        "`semop`" | "eventfd" => {
            let kind = if name == "eventfd" { SemKind::EventFd } else { SemKind::Sysv };
            scenario.semaphores.push(Semaphore { kind, initial: 0 });
            [Op::SemPost { sem: SemId(0), units: 1 }, Op::SemWait(SemId(0))]
        }
        "`flock`" | "`fcntl`" => {
            let kind = if name == "`flock`" { LockKind::Flock } else { LockKind::Fcntl };
            scenario.locks.push(kind);
            [Op::Lock(LockId(0)), Op::Unlock(LockId(0))]
        }
        _ => [Op::RunKernel(DurationNs(1000)); 2],
    };
    let program = ProgramBuilder::new()
        .op(Op::Run(DurationNs(1000)))
        .repeat(Amount::Times(rounds), |b| ops.iter().fold(b, |b, op| b.op(*op)));
    scenario.programs.push(program.build().expect("a correct program"));
    scenario.tasks.push(TaskSpec {
        name: "caller".into(),
        program: ProgramId(0),
        process: ProcessId(0),
        nice: Nice::new(0).expect("a nice value"),
        policy: Policy::Other,
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: false,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    });
    scenario
}

fn main() {
    let plain = object(shipped(), POLICY);
    let swap = object(shipped_with_swap(), &format!("{POLICY}+swap"));
    println!("| call that does not block, `detect=paper` | instructions |\n|---|---|");
    for name in [
        "of no interest",
        "`semop`",
        "`msgsnd`, `msgrcv`",
        "pipe",
        "POSIX queue",
        "eventfd",
        "Unix socket",
        "TCP socket",
        "`flock`",
        "`fcntl`",
    ] {
        let without = per_round(&plain, None, |rounds| calls(name, rounds));
        let with = per_round(&swap, Some("paper"), |rounds| calls(name, rounds));
        println!("| {name} | {:.0} |", (with.insns - without.insns) / 2.0);
    }
    println!(
        "\n| iteration in which the client blocks and is woken up | switches | waker | paper |\n|---|---|---|---|"
    );
    for mechanism in [
        "msg", "sig", "pipe", "mq", "sock", "tcp", "udp", "sem", "eventfd", "epoll", "poll", "select",
        "futex", "flock", "fcntl", "condvar", "wait",
    ] {
        let spec = |rounds: u64| {
            let spec = format!("swap-{mechanism}:hogs=0,iterations={rounds},service=100us");
            catalog::build(&spec, 1).expect("a workload of the catalogue")
        };
        let without = per_round(&plain, None, spec);
        let [waker, paper] = ["waker", "paper"].map(|detect| per_round(&swap, Some(detect), spec));
        println!(
            "| `swap-{mechanism}` | {:.0} | {:.0} | {:.0} |",
            paper.switches,
            waker.insns - without.insns,
            paper.insns - without.insns
        );
    }
}
