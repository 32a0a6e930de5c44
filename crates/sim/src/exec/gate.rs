//! The beginning of a run as a real one has it. A leader forks the tasks one after the other, they wait at a gate, and the
//! leader opens it when all are there.
//!
//! What the tasks inherit from the leader, and what they do on their way, is part of what a scheduler knows of them.

use super::{Phase, Step, burst, call, state};
use crate::state::group::GroupIx;
use crate::state::ops::SchedExt;
use crate::state::sim::{Sim, WakeFlags};
use crate::state::task::{NewTask, RunState};
use schedlab_base::{CpuId, DurationNs, Policy, Prng, TaskId, TimeNs};
use schedlab_trace::EventKind;
use schedlab_workload::{STARTERS, Scenario};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long the leader sleeps from one look at the gate to the next, as that of the real arm does (`wait_until_ready`).
const LOOK: DurationNs = DurationNs::from_ms(2);
/// The leader's policy from the opening on, as in the real arm (`become_punctual`).
const PUNCTUAL: Policy = Policy::Fifo(99);
/// Where in the period of a tick a run begins is chance, which is drawn: up to the longest tick that policies have.
const LONGEST_TICK: DurationNs = DurationNs::from_ms(10);
/// What a fork of the beginning takes, in thousandths of its price. Chosen: medians of 100 forks in the VM were 280 to 346 us, by
/// what else their process had.
const FORK_PERMILLE: [u64; 2] = [800, 1300];
/// The stream of random numbers for all that.
const STREAM: u64 = 0x6761_7465;

/// A gate that is shut.
#[derive(Debug)]
pub(crate) struct Gate {
    /// What the leader forks, in order: the one that measures, the anchor of the group, the first task of each process.
    births: Vec<TaskId>,
    /// Of each of the workload's tasks that leads a process, what it makes first: a process of which it is the parent, or a thread.
    first_made: Vec<Option<TaskId>>,
    /// Of each of the workload's tasks, what the one that makes it makes next.
    next_made: Vec<Option<TaskId>>,
    /// The workload's tasks that have not come yet.
    missing: u32,
    /// From the scheduler's attachment to the beginning of all this.
    delay: DurationNs,
    /// What differs between two real beginnings.
    prng: Prng,
}

impl Gate {
    /// For a scenario whose tasks from number `own` on are not the workload's, and which the [`STARTERS`] before number
    /// `end` start.
    fn new(scenario: &Scenario, (own, end): (u32, u32), seed: u64) -> Gate {
        let mut births: Vec<TaskId> = (end - STARTERS as u32 + 2..end).map(TaskId).collect();
        let parents = scenario.parents();
        let mut leaders: BTreeMap<_, usize> = BTreeMap::new();
        let (mut children, mut threads) = (Vec::new(), Vec::new());
        for (number, task) in scenario.tasks.iter().enumerate().take(own as usize) {
            match (leaders.entry(task.process).or_insert(number), parents.get(&number)) {
                (leader, _) if *leader != number => threads.push((*leader, number)),
                (_, Some(parent)) => children.push((*parent, number)),
                _ => births.push(TaskId(number as u32)),
            }
        }
        let mut first_made = vec![None; own as usize];
        let mut next_made = vec![None; own as usize];
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        // As in the real arm a process is forked while it has one thread.
        for (maker, made) in children.into_iter().chain(threads) {
            match last.insert(maker, made) {
                None => first_made[maker] = Some(TaskId(made as u32)),
                Some(before) => next_made[before] = Some(TaskId(made as u32)),
            }
        }
        let mut prng = Prng::stream(seed, STREAM);
        let delay = DurationNs(prng.below(LONGEST_TICK.0));
        Gate { births, first_made, next_made, missing: own, delay, prng }
    }
}

/// What the leader does next, or the command before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// The command sleeps until it is time.
    Command,
    /// The command forks the leader.
    Leader,
    /// Begins to fork its child of this rank, if there are so many.
    Begin(u32),
    /// Has paid for it.
    Fork(u32),
    /// Looks whether all are at the gate.
    Look,
}

/// Shuts the gate, makes the kernel's own tasks and the command, which sees to the rest; the first `own` tasks are the
/// workload's.
pub(crate) fn prepare<S: SchedExt>(sim: &mut Sim<S>, own: u32, seed: u64) {
    let all = sim.exec.scenario.tasks.len() as u32;
    let user_space = sim.exec.user_space().map(|number| TaskId(number as u32));
    let end = user_space.map_or(all, |task| task.0);
    let command = TaskId(end - STARTERS as u32);
    sim.exec.gate = Some(Gate::new(&sim.exec.scenario, (own, end), seed));
    sim.k.silent = true;
    // Those that the workload forks come behind all of the beginning.
    sim.k.tasks_made = all;
    for id in user_space.into_iter().chain((own..=command.0).map(TaskId)) {
        make(sim, id, None);
    }
    state(sim, command).phase = Phase::Lead(Lead::Command);
}

/// Makes the scenario's task of that number.
fn make<S: SchedExt>(sim: &mut Sim<S>, id: TaskId, parent: Option<TaskId>) {
    let spec = sim.spec_of(id.0 as usize);
    sim.fork_as(id, parent, spec);
    sim.count_child(id);
}

/// The leader continues, or the command.
pub(super) fn lead<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, leader: TaskId, at: Lead) -> Option<Step> {
    // The gate has been opened without it.
    let gate = sim.exec.gate.as_ref()?;
    match at {
        Lead::Command => {
            let begin = sim.k.ctx.now + gate.delay;
            Some(sleep(sim, cpu, leader, (begin, Lead::Leader)))
        }
        Lead::Leader => {
            let (command, leader) = (leader, TaskId(leader.0 + 1));
            make(sim, leader, Some(command));
            state(sim, leader).phase = Phase::Lead(Lead::Begin(0));
            None
        }
        Lead::Begin(rank) if (rank as usize) < gate.births.len() => {
            state(sim, leader).phase = Phase::Lead(Lead::Fork(rank));
            Some(fork(sim))
        }
        Lead::Fork(rank) => {
            let child = gate.births[rank as usize];
            make(sim, child, Some(leader));
            let exec = state(sim, leader);
            exec.phase = Phase::Lead(Lead::Begin(rank + 1));
            // The one that measures is waited for.
            (rank == 0).then(|| {
                state(sim, leader).waits_for_child = true;
                sim.block(cpu, true);
                Step::Blocked
            })
        }
        Lead::Look if gate.missing == 0 => {
            sim.set_policy(leader, PUNCTUAL);
            open(sim);
            None
        }
        Lead::Begin(_) | Lead::Look => {
            let until = sim.k.ctx.now + LOOK + call::timer_slack(sim, leader);
            Some(sleep(sim, cpu, leader, (until, Lead::Look)))
        }
    }
}

/// The task sleeps until the time `until`, and continues with the step `then`.
fn sleep<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId, task: TaskId, (until, then): (TimeNs, Lead)) -> Step {
    state(sim, task).phase = Phase::Lead(then);
    sim.block(cpu, true);
    sim.wake_at(until, cpu, task);
    Step::Blocked
}

/// A new task makes its processes' and its own threads, if it leads a process, then prepares itself: its memory, its name, its
/// attributes. What is not the workload's does neither, nor does it wait.
pub(super) fn arrive<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> Option<Step> {
    let gate = sim.exec.gate.as_ref()?;
    let next = *gate.first_made.get(task.0 as usize)?;
    Some(prepare_or_clone(sim, task, next))
}

/// The first task of a process has paid for `made`, a thread or a child.
pub(super) fn clone_thread<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, made: TaskId) -> Option<Step> {
    make(sim, made, Some(task));
    let gate = sim.exec.gate.as_ref();
    let next = gate.and_then(|gate| gate.next_made[made.0 as usize]);
    Some(prepare_or_clone(sim, task, next))
}

/// Either takes what making it took.
fn prepare_or_clone<S: SchedExt>(sim: &mut Sim<S>, task: TaskId, next: Option<TaskId>) -> Step {
    state(sim, task).phase = next.map_or(Phase::AtGate, Phase::Clone);
    fork(sim)
}

/// One fork of the beginning. What it takes differs from one to the next.
fn fork<S: SchedExt>(sim: &mut Sim<S>) -> Step {
    let price = sim.k.machine.costs.fork;
    let drawn = sim.exec.gate.as_mut().map_or(FORK_PERMILLE[0], |gate| {
        FORK_PERMILLE[0] + gate.prng.below(FORK_PERMILLE[1] - FORK_PERMILLE[0])
    });
    burst(DurationNs(price.0 * drawn / 1000))
}

/// The current task of `cpu` has come to the gate.
pub(super) fn wait<S: SchedExt>(sim: &mut Sim<S>, cpu: CpuId) -> Option<Step> {
    sim.exec.gate.as_mut()?.missing -= 1;
    sim.block(cpu, true);
    Some(Step::Blocked)
}

/// The run begins: observers get the tasks that are there, then those at the gate are woken in order.
pub(crate) fn open<S: SchedExt>(sim: &mut Sim<S>) {
    sim.exec.gate = None;
    sim.k.silent = false;
    sim.k.origin = sim.k.ctx.now;
    sim.k.totals = Default::default();
    sim.k.begin_pressure();
    if let Some(ops) = &mut sim.ops {
        ops.run_begins();
    }
    let own = |task: &&crate::Task| !task.exec.background;
    sim.exec.used_before =
        sim.k.live_tasks().filter(own).fold(DurationNs::ZERO, |sum, task| sum + task.sum_exec_runtime);
    let mut here = Vec::new();
    for child in (0..sim.k.tasks_made).map(TaskId) {
        // Of those that have ended too: ids have no gaps.
        sim.k.emit(EventKind::Fork { parent: None, child });
        if sim.k.get_task(child).is_some() {
            sim.k.tell_priority(child);
            here.push(child);
        }
    }
    let woken: Vec<TaskId> = here.into_iter().filter(|&task| tell(sim, task)).collect();
    for task in woken {
        sim.wake(task, WakeFlags::default());
    }
}

/// Tells of a task that does not sleep; true for one that waits at the gate.
fn tell<S: SchedExt>(sim: &mut Sim<S>, task: TaskId) -> bool {
    let entry = sim.k.task(task);
    let (cpu, queued, running, state) = (entry.cpu, entry.on_rq, entry.on_cpu, entry.state);
    if state == RunState::Runnable && queued {
        sim.k.emit(EventKind::SchedWakeup { task, cpu, waker: None });
    }
    if running {
        let prev_state = schedlab_trace::TaskState::Runnable;
        sim.k.emit_on(cpu, EventKind::SchedSwitch { prev: None, prev_state, next: Some(task) });
    }
    state.is_blocked() && !sim.k.is_own_thread(task)
}

impl<S: SchedExt> Sim<S> {
    /// A process that has been made is a child of the one that the scenario names, if it names one.
    pub(crate) fn count_child(&mut self, child: TaskId) {
        if self.exec.scenario.tasks[child.0 as usize].identity.parent.is_none() {
            return;
        }
        if let Some(parent) = self.k.task(child).parent.filter(|parent| self.k.get_task(*parent).is_some()) {
            state(self, parent).children += 1;
        }
    }

    /// What the scenario says of a task at the start.
    pub(crate) fn spec_of(&mut self, number: usize) -> NewTask {
        let task = self.exec.scenario.tasks[number].clone();
        let group = GroupIx::from(task.group);
        let user_cpus = task.affinity.map(|mask| Arc::new(*mask));
        NewTask {
            process: task.process,
            nice: task.nice,
            policy: task.policy,
            slice: task.slice,
            cpus_allowed: self.k.cpus_for(group, user_cpus.as_deref()),
            user_cpus,
            working_set_kib: task.working_set_kib,
            group,
            kernel_thread: task.kernel_thread,
            uid: task.identity.uid,
            gid: task.identity.gid,
            exec: self.exec.start_task(number),
            name: task.name,
        }
    }
}
