//! A scenario as a workload file, for runs that others are to repeat. Figures (`[metrics]`) are left out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{groups, policy_text};
use crate::group::{DEFAULT_WEIGHT, GroupSettings, GroupSpec};
use crate::identity::Identity;
use crate::program::{
    Amount, BarrierId, ChannelId, CondId, DiskId, GroupId, ListenerId, LockId, Op, PollId, ProgramId, SemId,
    WordId,
};
use crate::scenario::{
    Attribute, ChannelKind, End, LockKind, PollKind, Scenario, SemKind, Semaphore, TaskSpec, Watched,
};
use schedlab_base::CpuMask;

/// The text of a workload file that [`super::parse`] makes the same tasks of, running the same programs. Programs and
/// objects that no task uses are left out, as are metrics; names of objects and programs are made up.
pub fn write(scenario: &Scenario) -> String {
    let programs = used_programs(scenario);
    let mut text = format!("name = {}\nend = {:?}\n", quoted(&scenario.name), end(scenario.end));
    if scenario.child.working_set_kib > 0 {
        text.push_str(&format!("child_working_set_kib = {}\n", scenario.child.working_set_kib));
    }
    if scenario.child.reset_on_fork {
        text.push_str("reset_on_fork = true\n");
    }
    let objects = objects(scenario, &programs);
    if !objects.is_empty() {
        text.push_str("\n[objects]\n");
        objects.iter().for_each(|object| text.push_str(object));
    }
    scenario.groups.iter().for_each(|group| text.push_str(&group_entry(group)));
    text.push_str("\n[programs]\n");
    for program in programs {
        text.push_str(&format!("{} = [\n", program_name(program)));
        let mut depth = 1;
        for op in scenario.programs[program.index()].ops() {
            depth -= usize::from(*op == Op::EndLoop);
            text.push_str(&format!("{:indent$}\"{}\",\n", "", line(scenario, op), indent = 2 * depth));
            depth += usize::from(matches!(op, Op::Loop(_)));
        }
        text.push_str("]\n");
    }
    for task in &scenario.tasks {
        text.push_str(&task_entry(scenario, task));
    }
    text
}

/// Programs of tasks and of what they fork.
fn used_programs(scenario: &Scenario) -> BTreeSet<ProgramId> {
    let mut pending: Vec<ProgramId> = scenario.tasks.iter().map(|task| task.program).collect();
    let mut used = BTreeSet::new();
    while let Some(program) = pending.pop() {
        if !used.insert(program) {
            continue;
        }
        pending.extend(scenario.programs[program.index()].ops().iter().filter_map(|op| match op {
            Op::Fork { program } => Some(*program),
            _ => None,
        }));
    }
    used
}

fn end(end: End) -> String {
    match end {
        End::AllExit => "all-exit".to_string(),
        End::ForegroundExit => "foreground-exit".to_string(),
        End::After(span) => span.to_string(),
    }
}

/// The declarations of all objects that the programs use. Numbers have leading zeros: files are read in order of names.
fn objects(scenario: &Scenario, programs: &BTreeSet<ProgramId>) -> BTreeSet<String> {
    let ops = programs.iter().flat_map(|program| scenario.programs[program.index()].ops());
    let mut found = BTreeSet::new();
    let named: Vec<Resource> = ops.flat_map(objects_of).collect();
    for object in named {
        add_object(scenario, object, &mut found);
    }
    found
}

/// An object that an operation names.
enum Resource {
    Channel(ChannelId),
    Semaphore(SemId),
    Lock(LockId),
    Cond(CondId),
    Barrier(BarrierId),
    Disk(DiskId),
    Listener(ListenerId),
    Poll(PollId),
    Word(WordId),
}

fn objects_of(op: &Op) -> Vec<Resource> {
    match *op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => vec![Resource::Channel(channel)],
        Op::SemWait(sem) | Op::SemPost { sem, .. } | Op::SemDrain(sem) => vec![Resource::Semaphore(sem)],
        Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) => vec![Resource::Lock(lock)],
        Op::CondWait { cond, lock } => vec![Resource::Cond(cond), Resource::Lock(lock)],
        Op::CondSignal(cond) | Op::CondBroadcast(cond) => vec![Resource::Cond(cond)],
        Op::Barrier(barrier) => vec![Resource::Barrier(barrier)],
        Op::Io { disk, .. } | Op::Fsync { disk, .. } => vec![Resource::Disk(disk)],
        Op::Accept(listener) => vec![Resource::Listener(listener)],
        Op::Connect { listener, channel } => {
            channel.map(Resource::Channel).into_iter().chain([Resource::Listener(listener)]).collect()
        }
        Op::Age { channel, .. } => vec![Resource::Channel(channel)],
        Op::Poll(set) => vec![Resource::Poll(set)],
        Op::Store { word, .. }
        | Op::Advance(word)
        | Op::Await { word, .. }
        | Op::Note(word)
        | Op::RestartIfChanged(word) => vec![Resource::Word(word)],
        _ => Vec::new(),
    }
}

fn add_object(scenario: &Scenario, object: Resource, found: &mut BTreeSet<String>) {
    let entry = match object {
        Resource::Channel(channel) => {
            let peer = scenario.channels[channel.index()].peer;
            found.extend(peer.map(|peer| channel_entry(scenario, peer)));
            channel_entry(scenario, channel)
        }
        Resource::Semaphore(sem) => {
            let Semaphore { kind, initial } = scenario.semaphores[sem.index()];
            let kind = if kind == SemKind::EventFd { "eventfd" } else { "semaphore" };
            format!("sem-{:03} = {{ kind = \"{kind}\", initial = {initial} }}\n", sem.0)
        }
        Resource::Lock(lock) => {
            let kind = match scenario.lock_kind(lock) {
                LockKind::Futex => "mutex",
                LockKind::FutexPi => "pi-mutex",
                LockKind::Flock => "flock",
                LockKind::Fcntl => "fcntl",
            };
            format!("mutex-{:03} = {{ kind = \"{kind}\" }}\n", lock.0)
        }
        Resource::Cond(cond) => format!("cond-{:03} = {{ kind = \"cond\" }}\n", cond.0),
        Resource::Barrier(barrier) => {
            let parties = scenario.barriers[barrier.index()];
            format!("barrier-{:03} = {{ kind = \"barrier\", parties = {parties} }}\n", barrier.0)
        }
        Resource::Disk(disk) => format!("disk-{:03} = {{ kind = \"disk\" }}\n", disk.0),
        Resource::Listener(listener) => format!("{} = {{ kind = \"listener\" }}\n", listener_name(listener)),
        Resource::Poll(set) => poll_entry(scenario, set, found),
        Resource::Word(word) => format!("word-{:03} = {{ kind = \"word\" }}\n", word.0),
    };
    found.insert(entry);
}

/// A poll set; what it watches is found with it.
fn poll_entry(scenario: &Scenario, set: PollId, found: &mut BTreeSet<String>) -> String {
    let spec = &scenario.polls[set.index()];
    let kind = match spec.kind {
        PollKind::Select => "select",
        PollKind::Poll => "poll",
        PollKind::Epoll => "epoll",
    };
    let mut names = Vec::new();
    for watched in &spec.watched {
        let (object, name) = match *watched {
            Watched::Channel(channel) => (Resource::Channel(channel), channel_name(channel)),
            Watched::Semaphore(sem) => (Resource::Semaphore(sem), format!("sem-{:03}", sem.0)),
        };
        add_object(scenario, object, found);
        names.push(format!("{name:?}"));
    }
    format!("poll-{:03} = {{ kind = \"{kind}\", watch = [{}] }}\n", set.0, names.join(", "))
}

fn channel_entry(scenario: &Scenario, id: ChannelId) -> String {
    let channel = scenario.channels[id.index()];
    let kind = match channel.kind {
        ChannelKind::Pipe => "pipe",
        ChannelKind::Unix => "unix",
        ChannelKind::Tcp => "tcp",
        ChannelKind::Udp => "udp",
        ChannelKind::SysvQueue => "sysv-queue",
        ChannelKind::PosixQueue => "posix-queue",
    };
    let peer = channel.peer.map(|peer| format!(", peer = \"{}\"", channel_name(peer))).unwrap_or_default();
    format!("{} = {{ kind = \"{kind}\", capacity = {}{peer} }}\n", channel_name(id), channel.capacity)
}

fn channel_name(channel: ChannelId) -> String {
    format!("channel-{:03}", channel.0)
}

fn listener_name(listener: ListenerId) -> String {
    format!("listener-{:03}", listener.0)
}

fn program_name(program: ProgramId) -> String {
    format!("program-{:03}", program.0)
}

/// An operation as its line.
fn line(scenario: &Scenario, op: &Op) -> String {
    match *op {
        Op::Loop(Amount::Times(times)) => format!("repeat {times}"),
        Op::Loop(Amount::Forever) => "repeat forever".to_string(),
        Op::EndLoop => "done".to_string(),
        Op::Run(span) => format!("run {span}"),
        Op::RunFor(span) => format!("run-for {span}"),
        Op::RunKernel(span) => format!("run-kernel {span}"),
        Op::Touch { kib } => format!("touch {kib}"),
        Op::Sleep(span) => format!("sleep {span}"),
        Op::Io { disk, service } => format!("io disk-{:03} {service}", disk.0),
        Op::Fsync { disk, service } => format!("fsync disk-{:03} {service}", disk.0),
        Op::Send { channel, bytes } => format!("send {} {bytes}", channel_name(channel)),
        Op::Recv { channel, bytes } => format!("recv {} {bytes}", channel_name(channel)),
        Op::SemWait(sem) => format!("wait sem-{:03}", sem.0),
        Op::SemPost { sem, units } => format!("post sem-{:03} {units}", sem.0),
        Op::Lock(lock) => format!("lock mutex-{:03}", lock.0),
        Op::Unlock(lock) => format!("unlock mutex-{:03}", lock.0),
        Op::CondWait { cond, lock } => format!("cond-wait cond-{:03} mutex-{:03}", cond.0, lock.0),
        Op::CondSignal(cond) => format!("signal cond-{:03}", cond.0),
        Op::CondBroadcast(cond) => format!("broadcast cond-{:03}", cond.0),
        Op::Barrier(barrier) => format!("barrier barrier-{:03}", barrier.0),
        Op::TimerWait { timer, period, absolute } => {
            format!("timer {} {period}{}", timer.0, if absolute { " absolute" } else { "" })
        }
        Op::Yield => "yield".to_string(),
        Op::Fork { program } => format!("fork {}", program_name(program)),
        Op::Set { task, change } => {
            let task = task.map_or("self", |task| &scenario.tasks[task.index()].name);
            match scenario.changes[change.index()] {
                Attribute::Nice(nice) => format!("nice {task} {}", nice.get()),
                Attribute::Policy(policy) => format!("policy {task} {}", policy_text(policy)),
                Attribute::Affinity(mask) => format!("cpus {task} {}", cpus(&mask, ",")),
                Attribute::Group(group) => format!("group {task} {}", path(scenario, group)),
            }
        }
        Op::SetGroup { group, change } => {
            let change = &scenario.group_changes[change.index()];
            let change = groups::change_text(change, |mask| cpus(mask, ","));
            format!("cgroup {} {change}", path(scenario, Some(group)))
        }
        Op::Hotplug { cpu, online } => format!("cpu {} {}", cpu.0, if online { "online" } else { "offline" }),
        Op::Exec => "exec".to_string(),
        Op::WaitChild => "wait-child".to_string(),
        Op::Exit => "exit".to_string(),
        Op::Count { counter, units } => format!("count counter-{:03} {units}", counter.0),
        Op::SpanBegin(span) => format!("begin span-{:03}", span.0),
        Op::SpanEnd(span) => format!("end span-{:03}", span.0),
        ref op => line_of_wait(scenario, op),
    }
}

/// The line of an operation for ways to wait that few programs use.
fn line_of_wait(scenario: &Scenario, op: &Op) -> String {
    let word_name = |word: WordId| format!("word-{:03}", word.0);
    match *op {
        Op::SemDrain(sem) => format!("drain sem-{:03}", sem.0),
        Op::LockShared(lock) => format!("lock-shared mutex-{:03}", lock.0),
        Op::Poll(set) => format!("poll poll-{:03}", set.0),
        Op::RecvReady { bytes } => format!("recv-ready {bytes}"),
        Op::Answer { bytes } => format!("answer {bytes}"),
        Op::Connect { listener, channel } => {
            let channel = channel.map(|channel| format!(" {}", channel_name(channel))).unwrap_or_default();
            format!("connect {}{channel}", listener_name(listener))
        }
        Op::Accept(listener) => format!("accept {}", listener_name(listener)),
        Op::Close(span) => format!("close span-{:03}", span.0),
        Op::Late { timer, span } => format!("late {} span-{:03}", timer.0, span.0),
        Op::Age { channel, span } => format!("age {} span-{:03}", channel_name(channel), span.0),
        Op::Kill(task) => format!("kill {}", scenario.tasks[task.index()].name),
        Op::SigWait => "signal-wait".to_string(),
        Op::Store { word, value } => format!("store {} {value}", word_name(word)),
        Op::Advance(word) => format!("advance {}", word_name(word)),
        Op::Await { word, value, step } => format!("await {} {value} {step}", word_name(word)),
        Op::Note(word) => format!("note {}", word_name(word)),
        Op::RestartIfChanged(word) => format!("restart-if-changed {}", word_name(word)),
        op => unreachable!("{op:?} has its own line"),
    }
}

fn cpus(mask: &CpuMask, separator: &str) -> String {
    let numbers: Vec<String> = mask.iter().map(|cpu| cpu.0.to_string()).collect();
    numbers.join(separator)
}

/// A text as TOML has it, which knows fewer escapes than Rust.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            _ if char.is_control() => {
                write!(quoted, "\\u{:04x}", u32::from(char)).expect("a string takes all")
            }
            _ => quoted.push(char),
        }
    }
    quoted + "\""
}

/// The path of a group as operations name it.
fn path(scenario: &Scenario, group: Option<GroupId>) -> &str {
    group.map_or("/", |group| &scenario.groups[group.index()].path)
}

fn group_entry(group: &GroupSpec) -> String {
    let mut text = format!("\n[[groups]]\nname = {}\n", quoted(&group.path));
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}").expect("a string takes all");
    let GroupSettings { weight, nice, quota, burst, idle } = group.settings;
    if let Some(nice) = nice {
        line("cpu_weight_nice", nice.get().to_string());
    } else if weight != DEFAULT_WEIGHT {
        line("cpu_weight", weight.to_string());
    }
    if let Some(quota) = quota {
        line("cpu_max", format!("\"{quota}\""));
    }
    if burst.0 > 0 {
        line("cpu_max_burst", format!("\"{burst}\""));
    }
    if idle {
        line("cpu_idle", "true".to_string());
    }
    if let Some(mask) = &group.cpus {
        line("cpus", format!("[{}]", cpus(mask, ", ")));
    }
    if group.later {
        line("later", "true".to_string());
    }
    text
}

fn task_entry(scenario: &Scenario, task: &TaskSpec) -> String {
    let mut text = format!("\n[[tasks]]\nname = {}\n", quoted(&task.name));
    let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}").expect("a string takes all");
    line("program", format!("{:?}", program_name(task.program)));
    if task.nice.get() != 0 {
        line("nice", format!("[{}]", task.nice.get()));
    }
    if policy_text(task.policy) != "other" {
        line("policy", format!("{:?}", policy_text(task.policy)));
    }
    if let Some(slice) = task.slice {
        line("slice", format!("\"{}ns\"", slice.0));
    }
    if let Some(mask) = &task.affinity {
        line("cpus", format!("[{}]", cpus(mask, ", ")));
    }
    if scenario.tasks.iter().filter(|other| other.process == task.process).count() > 1 {
        line("process", format!("\"process-{:03}\"", task.process.0));
    }
    if task.group.is_some() {
        line("group", quoted(path(scenario, task.group)));
    }
    if task.working_set_kib > 0 {
        line("working_set_kib", task.working_set_kib.to_string());
    }
    if task.background {
        line("background", "true".to_string());
    }
    if task.kernel_thread {
        line("kernel_thread", "true".to_string());
    }
    let Identity { uid, gid, parent } = task.identity;
    // A process without ids of its own has its parent's.
    for (key, id) in [("uid", uid), ("gid", gid)] {
        if id != 0 || parent.is_some() {
            line(key, id.to_string());
        }
    }
    if let Some(parent) = parent {
        line("parent", quoted(&scenario.tasks[parent.index()].name));
    }
    text
}
