//! Cases made of cases: what a search tries once random ones reach nothing new.

use super::case::Case;
use super::draw::{presence, small_machine};
use super::tunables::Tunable;
use schedlab_base::{CpuId, CpuMask, DurationNs, Nice, Prng};
use schedlab_workload::{
    BarrierId, ChangeId, ChannelId, DiskId, End, GroupChange, LockId, Op, Program, ProgramId, Scenario,
    SemId, TaskRef,
};

/// Tasks that a case of a hunt has at most. Chosen: runs stay short.
const MOST_TASKS: usize = 48;

/// Longest run that a change makes.
const LONGEST: DurationNs = DurationNs::from_secs(40);

/// A case like `case`, with a few changes; `other` lends its tasks.
pub(crate) fn mutate(case: &Case, other: &Case, tunables: &[Tunable], prng: &mut Prng) -> Case {
    let mut new = case.clone();
    for _ in 0..1 + prng.below(4) {
        let before = new.clone();
        change(&mut new, other, tunables, prng);
        if new.scenario.validate().is_err() || new.scenario.tasks.is_empty() {
            new = before;
        }
    }
    // Pauses are of one run: a changed case has others.
    interleaved(new, prng)
}

/// The longest run with interleaved callbacks. Chosen: such a case is run several times, and a task that is lost early still starves for more than 1 s.
const INTERLEAVED: DurationNs = DurationNs::from_secs(2);

/// The case with interleaved callbacks, by a seed, or without: half of the cases each.
pub(crate) fn interleaved(mut case: Case, prng: &mut Prng) -> Case {
    case.interleave = prng.chance(1, 2).then(|| prng.next_u64() >> 32);
    if case.interleave.is_some() {
        case.scenario.end = End::After(case.length().min(INTERLEAVED));
        fit(&mut case);
    }
    case
}

fn change(case: &mut Case, other: &Case, tunables: &[Tunable], prng: &mut Prng) {
    match prng.below(12) {
        0 => splice(&mut case.scenario, &other.scenario),
        1..=4 => number(&mut case.scenario, prng),
        5 => attribute(case, prng),
        6 => double(&mut case.scenario, prng),
        7 => case.seed = prng.next_u64() >> 32,
        8 => case.machine = small_machine(prng),
        9 => length(case, prng),
        10 if !tunables.is_empty() => {
            let tunable = &tunables[prng.below(tunables.len() as u64) as usize];
            case.settings.retain(|(name, _)| *name != tunable.name);
            case.settings.push((tunable.name.clone(), tunable.draw(prng)));
        }
        // A scheduler that is always there has none.
        _ if case.presence.attach.is_some() || other.presence.attach.is_some() => {
            case.presence = presence(prng, case.length());
        }
        _ => number(&mut case.scenario, prng),
    }
    fit(case);
}

/// One span becomes longer or shorter by up to eight times, or is nudged by a few microseconds.
fn number(scenario: &mut Scenario, prng: &mut Prng) {
    let program = prng.below(scenario.programs.len().max(1) as u64) as usize;
    let Some(found) = scenario.programs.get(program) else { return };
    let mut ops = found.ops().to_vec();
    let spans: Vec<&mut DurationNs> = ops.iter_mut().filter_map(span_of).collect();
    let count = spans.len() as u64;
    if let Some(span) = spans.into_iter().nth(prng.below(count.max(1)) as usize) {
        let new = match prng.below(3) {
            0 => span.0.saturating_mul(1 + prng.below(8)),
            1 => span.0 / (1 + prng.below(8)),
            _ => (span.0 + prng.below(20_000)).saturating_sub(10_000),
        };
        *span = DurationNs(new.clamp(1_000, 5_000_000_000));
    }
    if let Ok(program_) = Program::new(ops) {
        scenario.programs[program] = program_;
    }
}

fn span_of(op: &mut Op) -> Option<&mut DurationNs> {
    match op {
        Op::Run(span) | Op::RunKernel(span) | Op::Sleep(span) => Some(span),
        Op::Io { service, .. } | Op::Fsync { service, .. } => Some(service),
        Op::TimerWait { period, .. } => Some(period),
        _ => None,
    }
}

/// A task gets another nice value or affinity, or loses its own.
fn attribute(case: &mut Case, prng: &mut Prng) {
    let cpus = case.machine.cpu_count() as u64;
    let at = prng.below(case.scenario.tasks.len() as u64) as usize;
    let task = &mut case.scenario.tasks[at];
    match prng.below(4) {
        0 => task.nice = Nice::new(prng.below(40) as i64 - 20).expect("in range"),
        1 => task.affinity = None,
        2 => task.affinity = Some(Box::new(CpuMask::single(CpuId(prng.below(cpus) as u32)))),
        _ => task.nice = Nice::ZERO,
    }
}

/// A task has a double, or one goes that no operation names.
fn double(scenario: &mut Scenario, prng: &mut Prng) {
    let at = prng.below(scenario.tasks.len() as u64) as usize;
    if scenario.tasks.len() >= MOST_TASKS {
        return;
    }
    let mut task = scenario.tasks[at].clone();
    task.name = fresh_name(scenario, &task.name);
    task.process.0 = scenario.tasks.iter().map(|task| task.process.0).max().unwrap_or(0) + 1;
    scenario.tasks.push(task);
}

fn fresh_name(scenario: &Scenario, name: &str) -> String {
    let stem = name.split('/').next().unwrap_or(name);
    let mut number = scenario.tasks.len();
    loop {
        let name = format!("{stem}/{number}");
        if scenario.tasks.iter().all(|task| task.name != name) {
            return name;
        }
        number += 1;
    }
}

fn length(case: &mut Case, prng: &mut Prng) {
    let now = case.length();
    let new = if prng.chance(1, 2) { now.0 * 2 } else { now.0 / 2 };
    case.scenario.end = End::After(DurationNs(new.clamp(50_000_000, LONGEST.0)));
}

/// Adds the tasks of another scenario with all that they use. Operations that no drawn load has stop it.
fn splice(scenario: &mut Scenario, other: &Scenario) {
    if scenario.tasks.len() + other.tasks.len() > MOST_TASKS {
        return;
    }
    let base = Base {
        program: scenario.programs.len() as u32,
        channel: scenario.channels.len() as u32,
        semaphore: scenario.semaphores.len() as u32,
        lock: scenario.locks.len() as u32,
        barrier: scenario.barriers.len() as u32,
        disk: scenario.disks.len() as u32,
        change: scenario.changes.len() as u32,
        task: scenario.tasks.len() as u32,
    };
    let moved = |program: &Program| -> Option<Program> {
        let ops: Option<Vec<Op>> = program.ops().iter().map(|op| base.moved(*op)).collect();
        Program::new(ops?).ok()
    };
    let Some(programs) = other.programs.iter().map(moved).collect::<Option<Vec<_>>>() else { return };
    scenario.programs.extend(programs);
    scenario.channels.extend(other.channels.iter().map(|channel| {
        let mut channel = *channel;
        channel.peer = channel.peer.map(|peer| ChannelId(peer.0 + base.channel));
        channel
    }));
    scenario.semaphores.extend(other.semaphores.iter().cloned());
    scenario.locks.extend_from_slice(&other.locks);
    scenario.barriers.extend_from_slice(&other.barriers);
    scenario.disks.extend(other.disks.iter().cloned());
    scenario.changes.extend(other.changes.iter().cloned());
    let processes = scenario.tasks.iter().map(|task| task.process.0).max().unwrap_or(0) + 1;
    for task in &other.tasks {
        let mut task = task.clone();
        task.name = fresh_name(scenario, &task.name);
        task.program = ProgramId(task.program.0 + base.program);
        task.process.0 += processes;
        scenario.tasks.push(task);
    }
}

/// How many objects of each kind come before those of a spliced scenario.
#[derive(Clone, Copy)]
struct Base {
    program: u32,
    channel: u32,
    semaphore: u32,
    lock: u32,
    barrier: u32,
    disk: u32,
    change: u32,
    task: u32,
}

impl Base {
    /// The operation with its objects behind those that were there.
    fn moved(self, op: Op) -> Option<Op> {
        Some(match op {
            Op::Loop(_)
            | Op::EndLoop
            | Op::Run(_)
            | Op::RunKernel(_)
            | Op::Sleep(_)
            | Op::Yield
            | Op::Exec
            | Op::Exit
            | Op::WaitChild
            | Op::Hotplug { .. }
            | Op::TimerWait { .. } => op,
            Op::Fork { program } => Op::Fork { program: ProgramId(program.0 + self.program) },
            Op::Send { channel, bytes } => Op::Send { channel: ChannelId(channel.0 + self.channel), bytes },
            Op::Recv { channel, bytes } => Op::Recv { channel: ChannelId(channel.0 + self.channel), bytes },
            Op::SemWait(sem) => Op::SemWait(SemId(sem.0 + self.semaphore)),
            Op::SemPost { sem, units } => Op::SemPost { sem: SemId(sem.0 + self.semaphore), units },
            Op::Lock(lock) => Op::Lock(LockId(lock.0 + self.lock)),
            Op::Unlock(lock) => Op::Unlock(LockId(lock.0 + self.lock)),
            Op::Barrier(barrier) => Op::Barrier(BarrierId(barrier.0 + self.barrier)),
            Op::Io { disk, service } => Op::Io { disk: DiskId(disk.0 + self.disk), service },
            Op::Fsync { disk, service } => Op::Fsync { disk: DiskId(disk.0 + self.disk), service },
            Op::Set { task, change } => Op::Set {
                task: task.map(|task| TaskRef(task.0 + self.task)),
                change: ChangeId(change.0 + self.change),
            },
            _ => return None,
        })
    }
}

/// Affinities without a CPU of the machine are dropped, and changes of CPUs that it lacks. A scheduler is detached after it was
/// attached.
pub(crate) fn fit(case: &mut Case) {
    let all = case.machine.all_cpus();
    for task in &mut case.scenario.tasks {
        let mask = task.affinity.take().map(|mask| mask.and(&all));
        task.affinity = mask.filter(|mask| !mask.is_empty()).map(Box::new);
    }
    for group in &mut case.scenario.groups {
        group.cpus = group.cpus.map(|mask| mask.and(&all)).filter(|mask| !mask.is_empty());
    }
    for change in &mut case.scenario.group_changes {
        if let GroupChange::Cpus(mask) = change {
            let there = mask.and(&all);
            *mask = if there.is_empty() { all } else { there };
        }
    }
    let cpus = all.count();
    for program in &mut case.scenario.programs {
        let is_there = |op: &&Op| !matches!(op, Op::Hotplug { cpu, .. } if cpu.index() >= cpus);
        if program.ops().iter().all(|op| is_there(&op)) {
            continue;
        }
        let left: Vec<Op> = program.ops().iter().filter(is_there).copied().collect();
        if let Ok(left) = Program::new(left) {
            *program = left;
        }
    }
    let length = case.length();
    case.presence.attach = case.presence.attach.filter(|at| *at < length);
    let attach = case.presence.attach.unwrap_or(DurationNs::ZERO);
    case.presence.detach = case.presence.detach.filter(|at| *at > attach && *at < length);
}
