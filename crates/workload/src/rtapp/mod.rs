//! rt-app's JSON workload files as scenarios.
//!
//! Threads of one process run phases of events. What is not modelled (task
//! groups, utilisation clamps) is refused by name. Times are microseconds as in rt-app. `run` and `runtime` are the
//! same CPU work here unless the task is preempted: `run` is fixed work, `runtime`
//! fixed elapsed time. Timers belong to a task each, also where several tasks name the same
//! one.

mod events;
mod json;
mod memory;
mod phases;
mod policy;

use schedlab_base::{Better, CpuId, CpuMask, DurationNs, MAX_CPUS, Nice, Policy, in_one_line};
use std::collections::BTreeMap;
use std::fmt;

use crate::measure::{CounterId, Formula, MetricSpec, SpanId};
use crate::program::{
    Amount, BarrierId, ChangeId, CondId, LockId, Op, Program, ProgramBuilder, ProgramId, SemId, TimerSlot,
};
use crate::scenario::{
    Attribute, Disk, End, LONGEST_SLICE, LockKind, ProcessId, SHORTEST_SLICE, Scenario, SemKind, Semaphore,
    TaskSpec,
};
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
    parse_merged(&[(origin.to_string(), text.to_string())], duration)
}

/// Reads several rt-app files, each with its name for errors, as one, as rt-app's `merge.py` puts them together. It
/// takes the sections of all, and of what two files have under one name the later file's.
///
/// # Errors
/// As of [`parse`].
pub fn parse_merged(
    files: &[(String, String)],
    duration: Option<DurationNs>,
) -> Result<Scenario, RtAppError> {
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
    read(&merged, &origins.join("+"), duration).map_err(|fault| {
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
}

impl Shared {
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

/// Keys of `global` that change nothing that is modelled.
const IGNORED_GLOBAL: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "logsize",
    "gnuplot",
    "ftrace",
    "frag",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "pi_enabled",
];

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

fn read(document: &Node, origin: &str, duration: Option<DurationNs>) -> Outcome<Scenario> {
    let mut shared = Shared {
        scenario: Scenario::empty("rt-app", End::AllExit),
        locks: BTreeMap::new(),
        conds: BTreeMap::new(),
        barriers: BTreeMap::new(),
        semaphores: BTreeMap::new(),
        buffers: BTreeMap::new(),
        loops: CounterId(0),
        loop_span: SpanId(0),
        programs: BTreeMap::new(),
        endless: false,
    };
    shared.scenario.counters = 1;
    shared.scenario.spans = 1;
    shared.scenario.params = vec![("file".into(), origin.into())];
    let mut default_policy = Named::Plain(Policy::Other);
    let mut file_duration = None;
    let mut tasks = None;
    for (key, node) in object(document, "document")? {
        match key.as_str() {
            "global" => (file_duration, default_policy) = global(node)?,
            "tasks" => tasks = Some(node),
            // Every name that is used exists; the section only declares types.
            "resources" => {}
            _ => return fault(node, key, "unknown section; there are: global, tasks, resources"),
        }
    }
    let Some(tasks) = tasks else { return fault(document, "tasks", "the section is missing") };
    read_tasks(&mut shared, tasks, default_policy)?;
    shared.scenario.end = match duration.or(file_duration) {
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

fn finish(mut shared: Shared, tasks: &Node) -> Outcome<Scenario> {
    let (loops, span) = (shared.loops, shared.loop_span);
    let metric = |name: &str, unit, better, formula| MetricSpec { name: name.into(), unit, better, formula };
    shared.scenario.metrics = vec![
        metric("loop_time", "ms", Better::Lower, Formula::MeanSpanMs(span)),
        metric("loops", "loops", Better::Higher, Formula::Count(loops)),
    ];
    match shared.scenario.validate() {
        Ok(()) => Ok(shared.scenario),
        Err(error) => fault(tasks, "tasks", error.to_string()),
    }
}

/// The duration (none when endless) and the default policy.
fn global(node: &Node) -> Outcome<(Option<DurationNs>, Named)> {
    let (mut duration, mut policy) = (None, Named::Plain(Policy::Other));
    for (key, node) in object(node, "global")? {
        let path = format!("global.{key}");
        match key.as_str() {
            "duration" => {
                const MOST: i64 = (DurationNs::LONGEST.0 / 1_000_000_000) as i64;
                duration = match integer(node, &path)? {
                    -1 => None,
                    seconds @ 1..=MOST => Some(DurationNs::from_secs(seconds as u64)),
                    _ => {
                        return fault(
                            node,
                            &path,
                            format!("seconds from 1 to {MOST} (30 days), or -1, are expected"),
                        );
                    }
                }
            }
            "default_policy" => policy = named(node, &path)?,
            _ if IGNORED_GLOBAL.contains(&key.as_str()) => {}
            _ => {
                return fault(
                    node,
                    &path,
                    format!(
                        "unknown or not modelled; there are: duration, default_policy, and ignored: {}",
                        IGNORED_GLOBAL.join(", ")
                    ),
                );
            }
        }
    }
    Ok((duration, policy))
}

/// The part of a task's object that is no event.
struct Settings {
    instances: u32,
    policy: Policy,
    nice: Nice,
    /// What `dl-runtime` asks the fair class for.
    slice: Option<DurationNs>,
    affinity: Option<CpuMask>,
    delay: DurationNs,
    amount: Amount,
}

fn read_tasks(shared: &mut Shared, tasks: &Node, default_policy: Named) -> Outcome<()> {
    let entries = object(tasks, "tasks")?;
    for (number, (name, _)) in entries.iter().enumerate() {
        shared.programs.insert(name.clone(), ProgramId(number as u32));
    }
    for (number, (name, node)) in entries.iter().enumerate() {
        let path = format!("tasks.{name}");
        let settings = settings(node, &path, default_policy)?;
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
                kernel_thread: false,
            });
        }
    }
    Ok(())
}

fn settings(node: &Node, path: &str, default_policy: Named) -> Outcome<Settings> {
    let mut settings = Settings {
        instances: 1,
        policy: Policy::Other,
        nice: Nice::ZERO,
        slice: None,
        affinity: None,
        delay: DurationNs::ZERO,
        amount: Amount::Forever,
    };
    let (mut policy, mut priority, mut times) = (default_policy, None, DlTimes::default());
    for (key, node) in object(node, path)? {
        let path = format!("{path}.{key}");
        match key.as_str() {
            "instance" => match integer(node, &path)? {
                count @ 0..=MAX_INSTANCES => settings.instances = count as u32,
                _ => return fault(node, &path, format!("0 to {MAX_INSTANCES} instances are supported")),
            },
            "loop" => settings.amount = amount(node, &path)?,
            "policy" => policy = named(node, &path)?,
            "priority" => priority = Some((node, path, integer(node, "priority")?)),
            "cpus" => settings.affinity = Some(cpus(node, &path)?),
            "delay" => settings.delay = micros(node, &path)?,
            key if DlTimes::KEYS.contains(&key) => times.take(key, node, &path)?,
            _ => {}
        }
    }
    settings.policy = times.policy(policy, node, path)?;
    if let Some((node, path, value)) = priority {
        (settings.policy, settings.nice) = ranked(settings.policy, node, &path, value)?;
    }
    // rt-app asks for it under these policies alone; the kernel brings it into its range.
    if matches!(settings.policy, Policy::Other | Policy::Batch) {
        let slice = times.runtime.filter(|slice| *slice > DurationNs::ZERO);
        settings.slice = slice.map(|slice| slice.clamp(SHORTEST_SLICE, LONGEST_SLICE));
    }
    Ok(settings)
}

/// A loop count; -1 is endless.
fn amount(node: &Node, path: &str) -> Outcome<Amount> {
    match integer(node, path)? {
        -1 => Ok(Amount::Forever),
        times @ 0.. => Ok(Amount::Times(times as u64)),
        _ => fault(node, path, "a count, or -1 for endless, is expected"),
    }
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
];

fn task_program(
    shared: &mut Shared,
    (name, node): (&str, &Node),
    path: &str,
    settings: &Settings,
) -> Outcome<Program> {
    let entries = object(node, path)?;
    let phases = entries.iter().find(|(key, _)| key == "phases").map(|(_, node)| node);
    let mut events: Vec<&(String, Node)> =
        entries.iter().filter(|(key, _)| !TASK_KEYS.contains(&key.as_str())).collect();
    let alone = phases.is_none() && !entries.iter().any(|(key, _)| events::is_event(key));
    for (key, node) in entries.iter().filter(|(key, _)| !TASK_KEYS.contains(&key.as_str())) {
        if phases::accepted(key, node, &format!("{path}.{key}"), alone)? {
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
