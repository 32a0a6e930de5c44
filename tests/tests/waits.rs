//! Waits of tasks for each other, on the kernel that runs the tests. A client waits for a server
//! through each mechanism, as real processes, and `schedlab deps` runs beside them.
//!
//! Takes root and a kernel with BTF; says "skipped" with the reason without.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use schedlab_report::from_json;
use schedlab_tests::Schedlab;
use schedlab_trace::waits::{CONFIDENCE_DEFAULT, Mechanism, WaitPair, Waits};

/// Far more than anything here takes on a busy host.
const LIMIT: Duration = Duration::from_secs(120);

/// Workloads, and through what their clients wait.
const WORKLOADS: [(&str, Mechanism); 17] = [
    ("swap-pipe", Mechanism::Pipe),
    ("swap-sock", Mechanism::Unix),
    ("swap-tcp", Mechanism::Tcp),
    ("swap-udp", Mechanism::Udp),
    ("swap-sem", Mechanism::Semaphore),
    ("swap-msg", Mechanism::Message),
    ("swap-mq", Mechanism::PosixMessage),
    ("swap-sig", Mechanism::Signal),
    ("swap-flock", Mechanism::Flock),
    ("swap-fcntl", Mechanism::Fcntl),
    ("swap-futex", Mechanism::Futex),
    ("swap-condvar", Mechanism::Futex),
    ("swap-eventfd", Mechanism::Eventfd),
    ("swap-poll", Mechanism::Poll),
    ("swap-select", Mechanism::Select),
    ("swap-epoll", Mechanism::Epoll),
    ("swap-wait", Mechanism::Child),
];

/// A workload that runs, and the tasks that belong to it.
struct Running {
    name: &'static str,
    through: Mechanism,
    leader: Child,
    /// Processes and threads that were seen.
    members: BTreeSet<i32>,
}

impl Running {
    fn start(lab: &Schedlab, (name, through): (&'static str, Mechanism)) -> Running {
        let load = format!("{name}:iterations=1000000,service=1ms");
        let mut command = Command::new(lab.binary());
        command.args(["run", "-q", "-s", "eevdf", "-w", &load, "--duration", "300s"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir(&lab.folder);
        Running { name, through, leader: command.spawn().expect("it starts"), members: BTreeSet::new() }
    }

    /// Looks which tasks belong to it now; true when client and server are there.
    fn look(&mut self, parents: &BTreeMap<i32, i32>) -> bool {
        let leader = self.leader.id().cast_signed();
        let mut found = vec![leader];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        let threads: Vec<i32> = found.iter().flat_map(|pid| threads(*pid)).collect();
        let named = |wanted: &str| threads.iter().any(|thread| comm(*thread) == wanted);
        let complete = named("client") && (named("server") || self.through == Mechanism::Child);
        self.members.extend(found.into_iter().chain(threads));
        complete
    }

    fn has(&self, pair: &WaitPair, side: impl Fn(&WaitPair) -> (i32, i32)) -> bool {
        let (thread, process) = side(pair);
        self.members.contains(&thread) || self.members.contains(&process)
    }

    /// What is wrong with what was seen of it.
    fn findings(&self, waits: &Waits) -> Vec<String> {
        let requests = |pair: &&WaitPair| self.has(pair, |p| (p.requester.thread, p.requester.process));
        // Children that the workload forks come and go.
        let provides = |pair: &WaitPair| {
            self.has(pair, |p| (p.provider.thread, p.provider.process)) || pair.mechanism == Mechanism::Child
        };
        let server = if self.through == Mechanism::Child { "client" } else { "server" };
        let is_right = |pair: &WaitPair| {
            provides(pair) && pair.provider.name == server && pair.mechanism == self.through
        };
        let sure: Vec<&WaitPair> =
            waits.pairs.iter().filter(requests).filter(|pair| pair.confidence > CONFIDENCE_DEFAULT).collect();
        let clients = || sure.iter().filter(|pair| pair.requester.name == "client");
        let mut findings = Vec::new();
        if !clients().any(|pair| is_right(pair) && pair.waits > 1) {
            findings.push(format!("{}: the client's wait is not there", self.name));
        }
        let false_pairs =
            sure.iter().filter(|pair| !provides(pair) || pair.requester.name == "client" && !is_right(pair));
        findings.extend(false_pairs.map(|pair| format!("{}: {pair:?}", self.name)));
        findings
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Every process with its parent.
fn parents() -> BTreeMap<i32, i32> {
    let ids = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
    .collect()
}

fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn comm(thread: i32) -> String {
    fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default().trim().to_string()
}

/// Why this machine cannot be watched, if so.
fn obstacle(lab: &Schedlab) -> Option<String> {
    let tried = lab.run(&["deps", "-q", "--duration", "10ms", "--json", "-"], LIMIT);
    (tried.code == 5).then(|| tried.err.trim().to_string())
}

/// The simulator's own knowledge says the same of the same workloads, and asking for it changes nothing.
#[test]
fn the_simulator_explains_every_mechanism() {
    let lab = Schedlab::new("waits-simulated");
    let mut findings = Vec::new();
    for (name, through) in WORKLOADS {
        let load = format!("{name}:iterations=4,service=2ms,hogs=2");
        let run = |more: &[&str]| {
            let line = [&["sim", "-q", "-s", "eevdf", "-w", &load, "-c", "1", "--json", "-"], more].concat();
            let ended = lab.run(&line, LIMIT);
            assert_eq!(ended.code, 0, "{name}: {}", ended.err);
            from_json(&ended.out).expect("it is a result file").runs.remove(0)
        };
        let explained = run(&["--explain-waits"]);
        if explained.trace_hash != run(&[]).trace_hash {
            findings.push(format!("{name}: the run is another one when it is explained"));
        }
        let waits = explained.waits.expect("it was asked for");
        let server = if through == Mechanism::Child { "client" } else { "server" };
        let is_right = |pair: &WaitPair| {
            (pair.requester.name.as_str(), pair.provider.name.as_str()) == ("client", server)
                && (pair.mechanism, pair.waits > 1) == (through, true)
                && pair.confidence > CONFIDENCE_DEFAULT
        };
        if !waits.pairs.iter().any(is_right) {
            findings.push(format!("{name}: the client's wait is not among {:?}", waits.pairs));
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Of a client's waits for a server among hogs, all but what the server computes is inversion: the hogs are worse than
/// the client, and the server could have run.
#[test]
fn what_hogs_take_from_a_server_is_inversion() {
    let lab = Schedlab::new("waits-inversion");
    let waits = |hogs: u32| {
        let load = format!("swap-pipe:iterations=10,service=20ms,hogs={hogs}");
        let line = ["sim", "-q", "-s", "eevdf", "-w", &load, "-c", "1", "--explain-waits", "--json", "-"];
        let ended = lab.run(&line, LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.err);
        let run = from_json(&ended.out).expect("it is a result file").runs.remove(0);
        run.waits.expect("it was asked for").pairs.into_iter().find(|pair| pair.requester.name == "client")
    };
    let alone = waits(0).expect("the client waits");
    assert_eq!(alone.inversion.0, 0, "nobody is in the way");
    let crowded = waits(4).expect("the client waits");
    let (waited, served) = (crowded.time.0 as f64 / 1e6, 200.0);
    assert!(waited > 3.0 * served, "{waited} ms: the hogs are in the way");
    let lost = crowded.inversion.0 as f64 / 1e6;
    assert!((lost - (waited - served)).abs() < 0.05 * waited, "{lost} ms of {waited} ms");
}

#[test]
fn every_mechanism_is_seen_and_nobody_else() {
    let lab = Schedlab::new("waits");
    if let Some(reason) = obstacle(&lab) {
        println!("skipped: {reason}");
        return;
    }
    let mut running: Vec<Running> = WORKLOADS.into_iter().map(|load| Running::start(&lab, load)).collect();
    let begin = Instant::now();
    loop {
        let parents = parents();
        let missing: Vec<&str> =
            running.iter_mut().filter_map(|load| (!load.look(&parents)).then_some(load.name)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "these workloads do not start: {missing:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = lab.run(&["deps", "-q", "--duration", "5s", "--min-confidence", "0", "--json", "-"], LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let waits = from_json(&ended.out).expect("it is a result file").waits.expect("it has the waits");
    let parents = parents();
    for load in &mut running {
        load.look(&parents);
    }
    let findings: Vec<String> = running.iter().flat_map(|load| load.findings(&waits)).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
