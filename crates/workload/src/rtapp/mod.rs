//! rt-app's JSON workload files as scenarios.
//!
//! Threads of one process run phases of events. What is not modelled (task
//! groups, utilisation clamps) is refused by name. Times are microseconds as in rt-app. `run` and `runtime` are the
//! same CPU work here unless the task is preempted: `run` is fixed work, `runtime`
//! fixed elapsed time. A file is read as one of two versions of rt-app does ([`Version`]); where the
//! other version takes it otherwise, a note says so.

mod events;
mod global;
mod identity;
mod json;
mod memory;
mod phases;
mod policy;
mod timers;
mod version;

pub use version::Version;

use schedlab_base::{Better, CpuId, CpuMask, DurationNs, MAX_CPUS, Nice, Policy, in_one_line};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::group::check_path;
use crate::identity::Identity;
use crate::measure::{CounterId, Formula, MetricSpec, SpanId};
use crate::program::{
    Amount, BarrierId, ChangeId, CondId, GroupId, LockId, Op, Program, ProgramBuilder, ProgramId, SemId,
    TimerSlot,
};
use crate::scenario::{
    Attribute, Disk, End, LONGEST_SLICE, LockKind, ProcessId, SHORTEST_SLICE, Scenario, SemKind, Semaphore,
    TaskSpec,
};
use global::{Global, read_global};
use json::{Node, Value};
use policy::{DlTimes, Named, named, ranked};

/// Why an rt-app file is refused: names file, line and JSON path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtAppError(pub String);

impl fmt::Display for RtAppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RtAppError {}

/// What is wrong at a place: its line, the path to it, and the words.
struct Fault {
    line: usize,
    path: String,
    text: String,
}

type Outcome<T> = Result<T, Fault>;

fn fault<T>(node: &Node, path: &str, text: impl Into<String>) -> Outcome<T> {
    Err(Fault { line: node.line, path: path.to_string(), text: text.into() })
}

/// Most instances of one task. Chosen.
const MAX_INSTANCES: i64 = 10_000;

/// Reads an rt-app file. `origin` names it in errors; `duration` is the caller's,
/// which goes before the file's. The run ends when all tasks have ended or after the
/// duration.
///
/// # Errors
/// Bad JSON, unknown or unmodelled keys, bad values, and endless tasks without
/// any duration; the message names file, line, JSON path and cure.
pub fn parse(text: &str, origin: &str, duration: Option<DurationNs>) -> Result<Scenario, RtAppError> {
    parse_merged(&[(origin.to_string(), text.to_string())], duration, Version::default())
        .map(|read| read.scenario)
}

/// A file, read.
#[derive(Clone, Debug, PartialEq)]
pub struct RtApp {
    /// What it does.
    pub scenario: Scenario,
    /// What the other version takes otherwise, and what is not as in rt-app: a sentence each, which names its place.
    pub notes: Vec<String>,
    /// The highest CPU that a `cpus` names, and where. rt-app ends with an error where a machine lacks it.
    pub highest_cpu: Option<(CpuId, String)>,
}

/// Reads several rt-app files, each with its name for errors, as one, as rt-app's `merge.py` puts them together. It
/// takes the sections of all, and of what two files have under one name the later file's.
///
/// # Errors
/// As of [`parse`].
pub fn parse_merged(
    files: &[(String, String)],
    duration: Option<DurationNs>,
    version: Version,
) -> Result<RtApp, RtAppError> {
    let mut merged = Node { line: 1, value: Value::Object(Vec::new()) };
    let mut first_line = 1;
    for (origin, text) in files {
        let mut document = json::parse(text, first_line)
            .map_err(|(line, text)| refused(format!("{origin}:{}: {text}", line + 1 - first_line)))?;
        json::unique_keys(&mut document);
        first_line += text.lines().count() + 1;
        match files.len() {
            1 => merged = document,
            _ => json::merge(&mut merged, document).map_err(|text| refused(format!("{origin}:1: {text}")))?,
        }
    }
    let origins: Vec<&str> = files.iter().map(|(origin, _)| origin.as_str()).collect();
    read(&merged, &origins.join("+"), duration, version).map_err(|fault| {
        let (origin, line) = place(files, fault.line);
        refused(format!("{origin}:{line}: {}: {}", fault.path, fault.text))
    })
}

/// An error whose words quote the file, where names may have line breaks.
fn refused(text: String) -> RtAppError {
    RtAppError(in_one_line(&text))
}

/// The file and the line in it of a line of all files together.
fn place(files: &[(String, String)], mut line: usize) -> (&str, usize) {
    for (origin, text) in files {
        let lines = text.lines().count() + 1;
        if line <= lines {
            return (origin, line);
        }
        line -= lines;
    }
    files.last().map_or(("", line), |(origin, _)| (origin, line))
}

/// What the tasks of a file share.
struct Shared {
    scenario: Scenario,
    groups: BTreeMap<String, GroupId>,
    locks: BTreeMap<String, LockId>,
    conds: BTreeMap<String, CondId>,
    barriers: BTreeMap<String, BarrierId>,
    semaphores: BTreeMap<String, SemId>,
    /// Buffers of `memrun` that tasks share.
    buffers: BTreeMap<(String, memory::Kind), memory::Shape>,
    loops: CounterId,
    loop_span: SpanId,
    /// Tasks of the file by name.
    programs: BTreeMap<String, ProgramId>,
    /// Some task never ends by itself.
    endless: bool,
    version: Version,
    notes: Vec<String>,
    timers: timers::Timers,
    /// `pi_enabled`: mutexes have priority inheritance.
    inherits: bool,
    /// Locks that events name.
    locked: BTreeSet<LockId>,
    /// `io_device` is `/dev/null`, rt-app's default.
    no_device: bool,
    /// The longest single event that keeps its thread from looking at the end.
    longest: Option<(DurationNs, String)>,
    highest_cpu: Option<(CpuId, String)>,
}

impl Shared {
    /// Tells what a place means in each version.
    fn differs(&mut self, path: &str, old: &str, head: &str) {
        let version = self.version;
        self.notes
            .push(format!("{path}: rt-app 1.0 {old}, head {head}; this run follows {version} (--rt-app)"));
    }

    /// Keeps the highest CPU of a list.
    fn saw_cpus(&mut self, mask: &CpuMask, path: &str) {
        let highest = (0..MAX_CPUS as u32).rev().map(CpuId).find(|cpu| mask.contains(*cpu));
        if let Some(cpu) = highest
            && self.highest_cpu.as_ref().is_none_or(|(known, _)| cpu > *known)
        {
            self.highest_cpu = Some((cpu, path.to_string()));
        }
    }

    fn lock(&mut self, name: &str) -> LockId {
        let locks = &mut self.scenario.locks;
        *self.locks.entry(name.to_string()).or_insert_with(|| {
            locks.push(LockKind::Futex);
            LockId(locks.len() as u32 - 1)
        })
    }

    fn semaphore(&mut self, name: &str) -> SemId {
        let semaphores = &mut self.scenario.semaphores;
        *self.semaphores.entry(name.to_string()).or_insert_with(|| {
            semaphores.push(Semaphore { kind: SemKind::Sysv, initial: 0 });
            SemId(semaphores.len() as u32 - 1)
        })
    }

    fn cond(&mut self, name: &str) -> CondId {
        let conds = &mut self.scenario.conds;
        *self.conds.entry(name.to_string()).or_insert_with(|| {
            *conds += 1;
            CondId(*conds - 1)
        })
    }

    fn barrier(&mut self, name: &str) -> BarrierId {
        let barriers = &mut self.scenario.barriers;
        *self.barriers.entry(name.to_string()).or_insert_with(|| {
            barriers.push(0);
            BarrierId(barriers.len() as u32 - 1)
        })
    }

    fn disk(&mut self) -> crate::program::DiskId {
        if self.scenario.disks.is_empty() {
            self.scenario.disks.push(Disk {});
        }
        crate::program::DiskId(0)
    }
}

fn object<'a>(node: &'a Node, path: &str) -> Outcome<&'a [(String, Node)]> {
    match &node.value {
        Value::Object(entries) => Ok(entries),
        _ => fault(node, path, "an object { ... } is expected"),
    }
}

fn integer(node: &Node, path: &str) -> Outcome<i64> {
    if let Value::Number(text) = &node.value
        && let Ok(number) = text.parse()
    {
        return Ok(number);
    }
    fault(node, path, "a whole number is expected")
}

fn text<'a>(node: &'a Node, path: &str) -> Outcome<&'a str> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => fault(node, path, "a string is expected"),
    }
}

/// Microseconds, at most [`DurationNs::LONGEST`].
fn micros(node: &Node, path: &str) -> Outcome<DurationNs> {
    const MOST: i64 = (DurationNs::LONGEST.0 / 1_000) as i64;
    match integer(node, path)? {
        us @ 0..=MOST => Ok(DurationNs::from_us(us as u64)),
        _ => fault(node, path, "microseconds from 0 to 30 days are expected"),
    }
}

fn read(document: &Node, origin: &str, duration: Option<DurationNs>, version: Version) -> Outcome<RtApp> {
    let mut shared = Shared {
        scenario: Scenario::empty("rt-app", End::AllExit),
        locks: BTreeMap::new(),
        groups: BTreeMap::new(),
        conds: BTreeMap::new(),
        barriers: BTreeMap::new(),
        semaphores: BTreeMap::new(),
        buffers: BTreeMap::new(),
        loops: CounterId(0),
        loop_span: SpanId(0),
        programs: BTreeMap::new(),
        endless: false,
        version,
        notes: Vec::new(),
        timers: timers::Timers::default(),
        inherits: false,
        locked: BTreeSet::new(),
        no_device: true,
        longest: None,
        highest_cpu: None,
    };
    shared.scenario.counters = 1;
    shared.scenario.spans = 1;
    shared.scenario.params = vec![("file".into(), origin.into())];
    if version != Version::default() {
        shared.scenario.params.push(("rt-app".into(), version.to_string()));
    }
    let mut global = Global::default();
    let mut tasks = None;
    for (key, node) in object(document, "document")? {
        match key.as_str() {
            "global" => global = read_global(node)?,
            "tasks" => tasks = Some(node),
            // Every name that is used exists; the section only declares types.
            "resources" => {}
            _ => return fault(node, key, "unknown section; there are: global, tasks, resources"),
        }
    }
    let Some(tasks) = tasks else { return fault(document, "tasks", "the section is missing") };
    (shared.inherits, shared.no_device) = (global.inherits, global.no_device);
    shared.timers = timers::Timers::of(tasks);
    read_tasks(&mut shared, tasks, global.policy)?;
    shared.scenario.end = match duration.or(global.duration) {
        Some(limit) => End::After(limit),
        None if shared.endless => {
            return fault(
                tasks,
                "global.duration",
                "a task without end needs a duration: set it in the \
                file (seconds) or give --duration",
            );
        }
        None => End::AllExit,
    };
    finish(shared, tasks)
}

fn finish(mut shared: Shared, tasks: &Node) -> Outcome<RtApp> {
    inherit(&mut shared, tasks)?;
    if let (End::After(limit), Some((span, path))) = (shared.scenario.end, &shared.longest)
        && span.0 >= limit.0 / 10
    {
        shared.notes.push(format!(
            "{path}: at the duration rt-app finishes an event that runs; this run ends at the duration, so that \
             {span} of work can be cut short"
        ));
    }
    let (loops, span) = (shared.loops, shared.loop_span);
    let metric = |name: &str, unit, better, formula| MetricSpec { name: name.into(), unit, better, formula };
    shared.scenario.metrics = vec![
        metric("loop_time", "ms", Better::Lower, Formula::MeanSpanMs(span)),
        metric("loops", "loops", Better::Higher, Formula::Count(loops)),
    ];
    match shared.scenario.validate() {
        Ok(()) => {
            Ok(RtApp { scenario: shared.scenario, notes: shared.notes, highest_cpu: shared.highest_cpu })
        }
        Err(error) => fault(tasks, "tasks", error.to_string()),
    }
}

/// Gives mutexes priority inheritance where `pi_enabled` asks for it. The mutex of a `suspend` is held for
/// an instant and stays plain.
fn inherit(shared: &mut Shared, tasks: &Node) -> Outcome<()> {
    if !shared.inherits {
        return Ok(());
    }
    let waited: BTreeSet<LockId> = (shared.scenario.programs.iter())
        .flat_map(Program::ops)
        .filter_map(|op| if let Op::CondWait { lock, .. } = op { Some(*lock) } else { None })
        .collect();
    for (name, lock) in &shared.locks {
        if waited.contains(lock) && shared.locked.contains(lock) {
            return fault(
                tasks,
                "global.pi_enabled",
                format!(
                    "priority inheritance of the mutex '{name}', with which a task waits for a condition, is not \
                     modelled; give the condition a mutex of its own, or set pi_enabled to false"
                ),
            );
        }
        if !waited.contains(lock) {
            shared.scenario.locks[lock.index()] = LockKind::FutexPi;
        }
    }
    Ok(())
}

/// The part of a task's object that is no event.
struct Settings {
    instances: u32,
    policy: Policy,
    nice: Nice,
    /// What `dl-runtime` asks the fair class for.
    slice: Option<DurationNs>,
    affinity: Option<CpuMask>,
    group: Option<GroupId>,
    delay: DurationNs,
    amount: Amount,
}

fn read_tasks(shared: &mut Shared, tasks: &Node, default_policy: Named) -> Outcome<()> {
    let entries = object(tasks, "tasks")?;
    for (number, (name, _)) in entries.iter().enumerate() {
        shared.programs.insert(name.clone(), ProgramId(number as u32));
    }
    let mut instances = Vec::new();
    for (number, (name, node)) in entries.iter().enumerate() {
        let path = format!("tasks.{name}");
        let settings = settings(shared, node, &path, default_policy)?;
        let before = shared.scenario.barriers.clone();
        let program = task_program(shared, (name, node), &path, &settings)?;
        shared.scenario.programs.push(program);
        events::count_parties(shared, &before, number, settings.instances);
        for instance in 0..settings.instances {
            shared.scenario.tasks.push(TaskSpec {
                name: if settings.instances == 1 { name.clone() } else { format!("{name}/{instance}") },
                program: ProgramId(number as u32),
                process: ProcessId(0),
                nice: settings.nice,
                policy: settings.policy,
                slice: settings.slice,
                affinity: settings.affinity.map(Box::new),
                working_set_kib: 0,
                background: false,
                group: settings.group,
                kernel_thread: false,
                identity: Identity::default(),
            });
        }
        instances.push(settings.instances);
    }
    identity::read(shared, tasks, &instances)
}

fn settings(shared: &mut Shared, node: &Node, path: &str, default_policy: Named) -> Outcome<Settings> {
    let mut settings = Settings {
        instances: 1,
        policy: Policy::Other,
        nice: Nice::ZERO,
        slice: None,
        affinity: None,
        group: None,
        delay: DurationNs::ZERO,
        amount: Amount::Forever,
    };
    let (mut policy, mut priority, mut times) = (default_policy, None, DlTimes::default());
    let entries = object(node, path)?;
    let phased = entries.iter().any(|(key, _)| key == "phases");
    for (key, node) in entries {
        let path = format!("{path}.{key}");
        match key.as_str() {
            "instance" => match integer(node, &path)? {
                count @ 0..=MAX_INSTANCES => settings.instances = count as u32,
                _ => return fault(node, &path, format!("0 to {MAX_INSTANCES} instances are supported")),
            },
            "loop" if phased => settings.amount = passes(node, &path)?,
            "loop" => settings.amount = flat_loop(shared, node, &path)?,
            "policy" => policy = known_policy(shared, node, &path)?,
            "priority" => priority = Some((node, path, integer(node, "priority")?)),
            "cpus" => {
                let mask = cpus(node, &path)?;
                shared.saw_cpus(&mask, &path);
                settings.affinity = Some(mask);
            }
            "taskgroup" if shared.version == Version::Head => settings.group = group(shared, node, &path)?,
            "delay" => settings.delay = micros(node, &path)?,
            key if DlTimes::KEYS.contains(&key) => times.take(key, node, &path)?,
            _ => {}
        }
    }
    settings.policy = times.policy(policy, node, path, shared.version)?;
    if let Some((node, path, value)) = priority {
        (settings.policy, settings.nice) = ranked(settings.policy, node, &path, value)?;
    }
    // rt-app asks for it under these policies alone; the kernel brings it into its range.
    if matches!(settings.policy, Policy::Other | Policy::Batch) {
        settings.slice = slice(shared, path, &times);
    }
    Ok(settings)
}

/// A group by its path from the root; the root itself is `/` or nothing.
fn group(shared: &mut Shared, node: &Node, path: &str) -> Outcome<Option<GroupId>> {
    let name = text(node, path)?;
    if name.is_empty() || name == "/" {
        return Ok(None);
    }
    let Some(name) = name.strip_prefix('/') else {
        return fault(node, path, format!("'{name}' is no path from the root, such as /a/b"));
    };
    check_path(name).or_else(|why| fault(node, path, why))?;
    Ok(Some(shared.scenario.group_at(name, &mut shared.groups)))
}

/// The slice that a task of the fair class asks for, which is what `dl-runtime` or the event `runtime` sets.
fn slice(shared: &mut Shared, path: &str, times: &DlTimes) -> Option<DurationNs> {
    let (key, asked) = times.slice()?;
    let slice = asked.clamp(SHORTEST_SLICE, LONGEST_SLICE);
    let head = format!("makes it the task's slice too ({slice}, by sched_setattr() of Linux 6.12)");
    shared.differs(&format!("{path}.{key}"), "leaves the task its slice", &head);
    (shared.version == Version::Head).then_some(slice)
}

/// A policy that this version knows.
fn known_policy(shared: &Shared, node: &Node, path: &str) -> Outcome<Named> {
    if shared.version == Version::V1_0
        && let Value::Text(name) = &node.value
        && version::POLICIES_OF_HEAD.contains(&name.as_str())
    {
        let cure = "follow rt-app's head (--rt-app head), or take SCHED_OTHER";
        return fault(node, path, format!("rt-app 1.0 does not know {name} and ends with an error; {cure}"));
    }
    named(node, path)
}

/// How often a task passes its phases: not at all for 0, and endlessly below.
fn passes(node: &Node, path: &str) -> Outcome<Amount> {
    Ok(u64::try_from(integer(node, path)?).map_or(Amount::Forever, Amount::Times))
}

/// How often a phase passes its events: rt-app counts up to the number, so that one below 1 is endless.
fn amount(node: &Node, path: &str) -> Outcome<Amount> {
    match integer(node, path)? {
        times @ 1.. => Ok(Amount::Times(times as u64)),
        _ => Ok(Amount::Forever),
    }
}

/// `loop` of a task without phases, which 1.0 takes for that of its only phase and repeats without end.
fn flat_loop(shared: &mut Shared, node: &Node, path: &str) -> Outcome<Amount> {
    let amount = amount(node, path)?;
    let Amount::Times(times) = amount else { return Ok(amount) };
    let head = format!("ends the task after {times}");
    shared.differs(path, "repeats a task without phases for ever whatever its loop", &head);
    Ok(if shared.version == Version::V1_0 { Amount::Forever } else { amount })
}

fn cpus(node: &Node, path: &str) -> Outcome<CpuMask> {
    let Value::List(items) = &node.value else { return fault(node, path, "a list [0, 1] is expected") };
    let mut mask = CpuMask::EMPTY;
    for item in items {
        let cpu = integer(item, path)?;
        if !(0..MAX_CPUS as i64).contains(&cpu) {
            return fault(item, path, format!("CPU {cpu} is outside 0..{}", MAX_CPUS - 1));
        }
        mask.set(CpuId(cpu as u32));
    }
    if mask.is_empty() { fault(node, path, "at least one CPU is needed") } else { Ok(mask) }
}

/// Keys of a task that [`settings`] has read, or that only a task may have.
const TASK_KEYS: &[&str] = &[
    "instance",
    "loop",
    "policy",
    "priority",
    "cpus",
    "delay",
    "phases",
    "dl-runtime",
    "dl-deadline",
    "dl-period",
    "deadline",
    "period",
];

fn task_program(
    shared: &mut Shared,
    (name, node): (&str, &Node),
    path: &str,
    settings: &Settings,
) -> Outcome<Program> {
    let entries = object(node, path)?;
    let phases = entries.iter().find(|(key, _)| key == "phases").map(|(_, node)| node);
    // Beside phases `runtime` is a parameter alone.
    let is_setting = |key: &str| {
        TASK_KEYS.contains(&key) || identity::KEYS.contains(&key) || key == "runtime" && phases.is_some()
    };
    let mut events: Vec<&(String, Node)> = entries.iter().filter(|(key, _)| !is_setting(key)).collect();
    let alone = phases.is_none() && !entries.iter().any(|(key, _)| events::is_event(key));
    for (key, node) in entries.iter().filter(|(key, _)| !is_setting(key)) {
        if phases::accepted(shared, key, node, &format!("{path}.{key}"), alone)? {
            events.retain(|(event, _)| event != key);
        }
    }
    let mut reader = events::Reader { shared, task: name, timers: BTreeMap::new(), ops: Vec::new() };
    match phases {
        None => reader.events(&events, path)?,
        Some(phases) if events.is_empty() => {
            phases::phases(&mut reader, phases, &format!("{path}.phases"), settings)?;
        }
        Some(_) => return fault(node, path, "a task has either events or one object of phases"),
    }
    let body = reader.ops;
    shared.endless |= settings.instances > 0
        && (settings.amount == Amount::Forever || body.contains(&Op::Loop(Amount::Forever)));
    let (loops, span) = (shared.loops, shared.loop_span);
    let mut builder = ProgramBuilder::new();
    if settings.delay > DurationNs::ZERO {
        builder = builder.op(Op::Sleep(settings.delay));
    }
    let builder = builder.repeat(settings.amount, |b| {
        let b = body.into_iter().fold(b.op(Op::SpanBegin(span)), ProgramBuilder::op);
        b.op(Op::SpanEnd(span)).op(Op::Count { counter: loops, units: 1 })
    });
    builder.build().or_else(|error| fault(node, path, error.to_string()))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod version_tests;
