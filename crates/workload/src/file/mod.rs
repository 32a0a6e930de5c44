//! The project's own workload files: TOML with kernel objects, programs, tasks and
//! metrics. The format is described in `docs/workload-files.md`.

mod goals;
mod groups;
mod identity;
mod metrics;
mod program;
mod write;

pub use write::write;

use schedlab_base::{CpuId, CpuMask, DurationNs, MAX_CPUS, Mistake, Nice, Policy, did_you_mean};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

use crate::group::GroupChange;
use crate::identity::Identity;
use crate::measure::{CounterId, SpanId};
use crate::program::{
    BarrierId, ChangeId, ChannelId, CondId, DiskId, GroupChangeId, GroupId, ListenerId, LockId, PollId,
    Program, ProgramId, SemId, TaskRef, WordId,
};
use crate::scenario::{
    Attribute, CHANGER, Channel, ChannelKind, ChildSpec, Disk, End, LONGEST_SLICE, LockKind, MOST_TASKS,
    PollKind, PollSet, ProcessId, SHORTEST_SLICE, Scenario, SemKind, Semaphore, TaskSpec, Watched,
};

/// Why a workload file is refused: names file, line and cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(pub String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileError {}

/// What is wrong, and the byte where.
struct Fault {
    at: usize,
    text: String,
}

type Outcome<T> = Result<T, Fault>;

fn fault<T>(at: usize, text: impl Into<String>) -> Outcome<T> {
    Err(Fault { at, text: text.into() })
}

/// A pipe's capacity where none is given: 16 pages (pipe(7)).
const DEFAULT_CAPACITY: u32 = 65_536;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    #[allow(dead_code, reason = "for people who read the file")]
    about: String,
    end: Option<Spanned<String>>,
    #[serde(default)]
    child_working_set_kib: u32,
    #[serde(default)]
    reset_on_fork: bool,
    #[serde(default)]
    changes: Vec<Spanned<String>>,
    #[serde(default)]
    objects: BTreeMap<String, Spanned<Resource>>,
    #[serde(default)]
    groups: Vec<Spanned<groups::GroupSection>>,
    programs: BTreeMap<String, Vec<Spanned<String>>>,
    tasks: Vec<Spanned<TaskSection>>,
    #[serde(default)]
    time_unit: metrics::Unit,
    #[serde(default)]
    metrics: BTreeMap<String, Spanned<metrics::Entry>>,
    #[serde(default)]
    goals: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Resource {
    Pipe {
        capacity: Option<u32>,
    },
    Unix {
        capacity: Option<u32>,
        peer: Option<String>,
    },
    Tcp {
        capacity: Option<u32>,
        peer: Option<String>,
    },
    Udp {
        capacity: Option<u32>,
        peer: Option<String>,
    },
    SysvQueue {
        capacity: Option<u32>,
    },
    PosixQueue {
        capacity: Option<u32>,
    },
    Semaphore {
        #[serde(default)]
        initial: u32,
    },
    Eventfd {
        #[serde(default)]
        initial: u32,
    },
    Mutex {},
    PiMutex {},
    Flock {},
    Fcntl {},
    Select {
        watch: Vec<String>,
    },
    Poll {
        watch: Vec<String>,
    },
    Epoll {
        watch: Vec<String>,
    },
    Word {},
    Cond {},
    Barrier {
        parties: u32,
    },
    Disk {},
    Listener {},
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskSection {
    name: String,
    program: Spanned<String>,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    nice: Vec<i64>,
    #[serde(default)]
    policy: String,
    slice: Option<String>,
    cpus: Option<Vec<u32>>,
    process: Option<String>,
    group: Option<String>,
    #[serde(default)]
    working_set_kib: u32,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    kernel_thread: bool,
    uid: Option<i64>,
    gid: Option<i64>,
    parent: Option<String>,
}

impl TaskSection {
    /// The name of the one with this number.
    fn name_of(&self, number: u32) -> String {
        if self.count == 1 { self.name.clone() } else { format!("{}/{number}", self.name) }
    }
}

fn one() -> u32 {
    1
}

/// The names of a file's objects, and the counters and spans that programs name.
#[derive(Default)]
struct Names {
    objects: BTreeMap<String, Named>,
    programs: BTreeMap<String, ProgramId>,
    counters: BTreeMap<String, CounterId>,
    spans: BTreeMap<String, SpanId>,
    tasks: BTreeMap<String, TaskRef>,
    groups: BTreeMap<String, GroupId>,
    changes: Vec<Attribute>,
    changes_known: BTreeMap<Attribute, ChangeId>,
    group_changes: Vec<GroupChange>,
    group_changes_known: BTreeMap<GroupChange, GroupChangeId>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Named {
    Channel(ChannelId),
    Semaphore(SemId),
    Mutex(LockId),
    Cond(CondId),
    Barrier(BarrierId),
    Disk(DiskId),
    Listener(ListenerId),
    Poll(PollId),
    Word(WordId),
}

/// Reads a workload file. `origin` names it in errors.
///
/// # Errors
/// Bad TOML, unknown keys, names and operations, and whatever
/// [`Scenario::validate`] refuses; the message names file, line and cure.
pub fn parse(text: &str, origin: &str) -> Result<Scenario, FileError> {
    let refused = |mistake: Mistake| FileError(format!("{origin}:{mistake}"));
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refused(Mistake::of_toml(text, at, error.message()))
    })?;
    build(&file).map_err(|fault| refused(Mistake::at(text, fault.at, fault.text)))
}

fn build(file: &File) -> Outcome<Scenario> {
    let mut scenario = Scenario::empty(&file.name, end_of(file)?);
    scenario.child =
        ChildSpec { working_set_kib: file.child_working_set_kib, reset_on_fork: file.reset_on_fork };
    check_count(file)?;
    let mut names = Names::default();
    for (number, name) in file.programs.keys().enumerate() {
        names.programs.insert(name.clone(), ProgramId(number as u32));
    }
    let tasks =
        file.tasks.iter().flat_map(|task| (0..task.get_ref().count).map(|n| task.get_ref().name_of(n)));
    names.tasks = tasks.zip(0..).map(|(name, number)| (name, TaskRef(number))).collect();
    groups::add(&file.groups, &mut scenario, &mut names)?;
    add_objects(file, &mut scenario, &mut names)?;
    for (name, lines) in &file.programs {
        let program = program::parse(name, lines, &mut names)?;
        scenario.programs.push(program);
    }
    let timed = program::timed_changes(&file.changes, &mut names)?;
    scenario.counters = names.counters.len() as u32;
    scenario.spans = names.spans.len() as u32;
    scenario.changes.clone_from(&names.changes);
    scenario.group_changes.clone_from(&names.group_changes);
    add_tasks(file, &mut scenario, &names)?;
    identity::add(&file.tasks, &mut scenario, &names)?;
    if let Some(program) = timed {
        add_changer(&mut scenario, program);
    }
    scenario.metrics = metrics::read(&file.metrics, file.time_unit, &names)?;
    scenario.goals = goals::read(&file.goals, &scenario.metrics)?;
    check_ops(file, &scenario)?;
    scenario.validate().or_else(|error| fault(0, error.to_string()))?;
    Ok(scenario)
}

/// Refuses more tasks than a run can have, before they are made.
fn check_count(file: &File) -> Outcome<()> {
    let mut count = 0;
    for task in &file.tasks {
        count += u64::from(task.get_ref().count);
        if count > MOST_TASKS {
            return fault(task.span().start, format!("{count} tasks, at most {MOST_TASKS} are supported"));
        }
    }
    Ok(())
}

/// Refuses operations that do not go with the objects that they name, with their lines.
fn check_ops(file: &File, scenario: &Scenario) -> Outcome<()> {
    let inner = scenario.inner_groups();
    for (lines, program) in file.programs.values().zip(&scenario.programs) {
        let written = lines.iter().filter(|line| !line.get_ref().trim().is_empty());
        for (line, op) in written.zip(program.ops()) {
            let refused =
                |text| Fault { at: line.span().start, text: format!("'{}': {text}", line.get_ref().trim()) };
            scenario.check_op(op).and_then(|()| scenario.check_group_op(op, &inner)).map_err(refused)?;
        }
    }
    Ok(())
}

fn end_of(file: &File) -> Outcome<End> {
    let Some(end) = &file.end else { return Ok(End::AllExit) };
    match (end.get_ref().as_str(), end.get_ref().parse::<DurationNs>()) {
        ("all-exit", _) => Ok(End::AllExit),
        ("foreground-exit", _) => Ok(End::ForegroundExit),
        (_, Ok(span)) if span > DurationNs::ZERO => Ok(End::After(span)),
        (text, Err(error)) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            fault(end.span().start, format!("end: {error}"))
        }
        (other, _) => fault(
            end.span().start,
            format!("end: '{other}' is none of all-exit, foreground-exit and a duration such as 10s"),
        ),
    }
}

fn add_objects(file: &File, scenario: &mut Scenario, names: &mut Names) -> Outcome<()> {
    for (name, object) in &file.objects {
        let named = add_object(object.get_ref(), scenario);
        names.objects.insert(name.clone(), named);
    }
    for (name, object) in &file.objects {
        let at = object.span().start;
        let peer = match object.get_ref() {
            Resource::Unix { peer: Some(peer), .. }
            | Resource::Tcp { peer: Some(peer), .. }
            | Resource::Udp { peer: Some(peer), .. } => peer,
            Resource::Select { watch } | Resource::Poll { watch } | Resource::Epoll { watch } => {
                watch_objects(name, watch, scenario, names)
                    .or_else(|text| fault(at, format!("objects.{name}: {text}")))?;
                continue;
            }
            _ => continue,
        };
        match (names.objects[name], names.objects.get(peer)) {
            (Named::Channel(one), Some(&Named::Channel(other)))
                if one != other
                    && scenario.channels[one.index()].kind == scenario.channels[other.index()].kind =>
            {
                for (this, that) in [(one, other), (other, one)] {
                    let known = scenario.channels[this.index()].peer.replace(that);
                    if known.is_some_and(|known| known != that) {
                        return fault(at, format!("objects.{name}: a channel has one peer only"));
                    }
                }
            }
            _ => {
                let text = format!("objects.{name}: peer '{peer}' is no other channel of the same kind");
                return fault(at, text);
            }
        }
    }
    Ok(())
}

fn add_object(object: &Resource, scenario: &mut Scenario) -> Named {
    let last = |len: usize| len as u32 - 1;
    match *object {
        Resource::Pipe { capacity } => add_channel(scenario, ChannelKind::Pipe, capacity),
        Resource::Unix { capacity, .. } => add_channel(scenario, ChannelKind::Unix, capacity),
        Resource::Tcp { capacity, .. } => add_channel(scenario, ChannelKind::Tcp, capacity),
        Resource::Udp { capacity, .. } => add_channel(scenario, ChannelKind::Udp, capacity),
        Resource::SysvQueue { capacity } => add_channel(scenario, ChannelKind::SysvQueue, capacity),
        Resource::PosixQueue { capacity } => add_channel(scenario, ChannelKind::PosixQueue, capacity),
        Resource::Semaphore { initial } => add_semaphore(scenario, SemKind::Sysv, initial),
        Resource::Eventfd { initial } => add_semaphore(scenario, SemKind::EventFd, initial),
        Resource::Mutex {} => add_lock(scenario, LockKind::Futex),
        Resource::PiMutex {} => add_lock(scenario, LockKind::FutexPi),
        Resource::Flock {} => add_lock(scenario, LockKind::Flock),
        Resource::Fcntl {} => add_lock(scenario, LockKind::Fcntl),
        Resource::Select { .. } => add_poll(scenario, PollKind::Select),
        Resource::Poll { .. } => add_poll(scenario, PollKind::Poll),
        Resource::Epoll { .. } => add_poll(scenario, PollKind::Epoll),
        Resource::Word {} => {
            scenario.words += 1;
            Named::Word(WordId(scenario.words - 1))
        }
        Resource::Cond {} => {
            scenario.conds += 1;
            Named::Cond(CondId(scenario.conds - 1))
        }
        Resource::Barrier { parties } => {
            scenario.barriers.push(parties);
            Named::Barrier(BarrierId(last(scenario.barriers.len())))
        }
        Resource::Disk {} => {
            scenario.disks.push(Disk {});
            Named::Disk(DiskId(last(scenario.disks.len())))
        }
        Resource::Listener {} => {
            scenario.listeners += 1;
            Named::Listener(ListenerId(scenario.listeners - 1))
        }
    }
}

fn add_channel(scenario: &mut Scenario, kind: ChannelKind, capacity: Option<u32>) -> Named {
    scenario.channels.push(Channel { kind, capacity: capacity.unwrap_or(DEFAULT_CAPACITY), peer: None });
    Named::Channel(ChannelId(scenario.channels.len() as u32 - 1))
}

fn add_semaphore(scenario: &mut Scenario, kind: SemKind, initial: u32) -> Named {
    scenario.semaphores.push(Semaphore { kind, initial });
    Named::Semaphore(SemId(scenario.semaphores.len() as u32 - 1))
}

fn add_lock(scenario: &mut Scenario, kind: LockKind) -> Named {
    scenario.locks.push(kind);
    Named::Mutex(LockId(scenario.locks.len() as u32 - 1))
}

fn add_poll(scenario: &mut Scenario, kind: PollKind) -> Named {
    scenario.polls.push(PollSet { kind, watched: Vec::new() });
    Named::Poll(PollId(scenario.polls.len() as u32 - 1))
}

/// Fills in what the set `name` watches, now that all names are known.
fn watch_objects(name: &str, watch: &[String], scenario: &mut Scenario, names: &Names) -> Result<(), String> {
    let Some(&Named::Poll(set)) = names.objects.get(name) else { return Ok(()) };
    if watch.is_empty() {
        return Err("it watches nothing".to_string());
    }
    for object in watch {
        let watched = match names.objects.get(object) {
            Some(&Named::Channel(channel)) => Watched::Channel(channel),
            Some(&Named::Semaphore(sem)) => Watched::Semaphore(sem),
            _ => return Err(format!("'{object}' is no channel and no eventfd")),
        };
        scenario.polls[set.index()].watched.push(watched);
    }
    Ok(())
}

fn add_tasks(file: &File, scenario: &mut Scenario, names: &Names) -> Outcome<()> {
    let mut processes: BTreeMap<&str, ProcessId> = BTreeMap::new();
    let mut next = 0;
    let mut new_process = || {
        next += 1;
        ProcessId(next - 1)
    };
    for entry in &file.tasks {
        let (task, at) = (entry.get_ref(), entry.span().start);
        let name = task.program.get_ref();
        let Some(&program) = names.programs.get(name) else {
            return fault(
                task.program.span().start,
                format!("no program '{name}'; there are: {}", listed(name, &names.programs)),
            );
        };
        let group = task.group.as_deref().map_or(Ok(None), |group| groups::named(group, names));
        let group = group.or_else(|text| fault(at, format!("task {}: {text}", task.name)))?;
        let (nices, affinity) = (nices(task, at)?, affinity(task, at)?);
        let policy = policy(&task.policy).or_else(|text| fault(at, format!("task {}: {text}", task.name)))?;
        let slice = task.slice.as_deref().map(slice).transpose();
        let slice = slice.or_else(|text| fault(at, format!("task {}: {text}", task.name)))?;
        for number in 0..task.count {
            let process = match &task.process {
                Some(process) => *processes.entry(process).or_insert_with(&mut new_process),
                None => new_process(),
            };
            scenario.tasks.push(TaskSpec {
                name: task.name_of(number),
                program,
                process,
                nice: nices[number as usize % nices.len()],
                policy,
                slice,
                affinity: affinity.map(Box::new),
                working_set_kib: task.working_set_kib,
                background: task.background,
                group,
                kernel_thread: task.kernel_thread,
                identity: Identity::default(),
            });
        }
    }
    Ok(())
}

/// Adds the task that makes the changes of `changes`. It is in the way of no task's policy, and no
/// run lasts longer for it.
fn add_changer(scenario: &mut Scenario, program: Program) {
    if scenario.end == End::AllExit {
        scenario.end = End::ForegroundExit;
        scenario.tasks.iter_mut().for_each(|task| task.background = false);
    }
    let process = scenario.tasks.iter().map(|task| task.process.0 + 1).max().unwrap_or(0);
    scenario.programs.push(program);
    scenario.tasks.push(TaskSpec {
        name: CHANGER.into(),
        program: ProgramId(scenario.programs.len() as u32 - 1),
        process: ProcessId(process),
        nice: Nice::ZERO,
        policy: Policy::Fifo(99),
        slice: None,
        affinity: None,
        working_set_kib: 0,
        background: true,
        group: None,
        kernel_thread: false,
        identity: Identity::default(),
    });
}

fn nices(task: &TaskSection, at: usize) -> Outcome<Vec<Nice>> {
    let nices: Option<Vec<Nice>> = task.nice.iter().map(|&value| Nice::new(value)).collect();
    match nices {
        Some(nices) if nices.is_empty() => Ok(vec![Nice::ZERO]),
        Some(nices) => Ok(nices),
        None => fault(at, format!("task {}: nice values are -20 to 19", task.name)),
    }
}

/// A slice as it is written, of those that the kernel takes.
fn slice(text: &str) -> Result<DurationNs, String> {
    let range = SHORTEST_SLICE..=LONGEST_SLICE;
    let found = text.parse().ok().filter(|slice| range.contains(slice));
    found.ok_or_else(|| format!("slice: '{text}' is no time from 100us to 100ms"))
}

/// A policy as it is written: `other`, `fifo:50`, `deadline:3ms/10ms`.
fn policy(text: &str) -> Result<Policy, String> {
    if let Some(reservation) = text.strip_prefix("deadline:") {
        let read = reservation.parse().map(Policy::Deadline);
        return read.map_err(|why| format!("policy '{text}': {why}"));
    }
    let (name, priority) = text.split_once(':').unwrap_or((text, "10"));
    let priority = priority.parse().ok().filter(|prio| (1..=99).contains(prio));
    match (name, priority) {
        ("" | "other", _) => Ok(Policy::Other),
        ("batch", _) => Ok(Policy::Batch),
        ("idle", _) => Ok(Policy::Idle),
        ("ext", _) => Ok(Policy::Ext),
        ("fifo", Some(priority)) => Ok(Policy::Fifo(priority)),
        ("rr", Some(priority)) => Ok(Policy::Rr(priority)),
        _ => Err(format!(
            "policy '{text}' is none of other, batch, idle, ext, fifo:PRIORITY, rr:PRIORITY (1 to 99), deadline:RUNTIME/DEADLINE[/PERIOD]"
        )),
    }
}

/// A policy as [`policy`] reads it.
fn policy_text(policy: Policy) -> String {
    match policy {
        Policy::Other => "other".to_string(),
        Policy::Batch => "batch".to_string(),
        Policy::Idle => "idle".to_string(),
        Policy::Ext => "ext".to_string(),
        Policy::Fifo(priority) => format!("fifo:{priority}"),
        Policy::Rr(priority) => format!("rr:{priority}"),
        Policy::Deadline(reservation) => format!("deadline:{reservation}"),
    }
}

fn affinity(task: &TaskSection, at: usize) -> Outcome<Option<CpuMask>> {
    let Some(cpus) = &task.cpus else { return Ok(None) };
    cpu_mask(cpus).map(Some).or_else(|text| fault(at, format!("task {}: {text}", task.name)))
}

fn cpu_mask(cpus: &[u32]) -> Result<CpuMask, String> {
    if cpus.is_empty() || cpus.iter().any(|&cpu| cpu as usize >= MAX_CPUS) {
        return Err(format!("cpus needs one or more of 0 to {}", MAX_CPUS - 1));
    }
    let mut mask = CpuMask::EMPTY;
    cpus.iter().for_each(|&cpu| mask.set(CpuId(cpu)));
    Ok(mask)
}

/// The names that there are, and the one nearest to a name that is none of them.
fn listed<T>(wanted: &str, table: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = table.keys().map(String::as_str).collect();
    let all = if names.is_empty() { "none".into() } else { names.join(", ") };
    all + &did_you_mean(wanted, names)
}

#[cfg(test)]
mod groups_tests;
#[cfg(test)]
mod tests;
