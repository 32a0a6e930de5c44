//! Makes a failing case small: takes away tasks, operations, settings, CPUs and time as long as the case fails in the
//! same way.

use schedlab_base::{CpuId, CpuMask, DurationNs, Machine, Nice, Policy};
use schedlab_workload::{
    Amount, Attribute, End, GroupChange, GroupSettings, Op, Program, ProgramId, Scenario, TaskRef,
};

use super::case::Case;
use super::mutate::fit;
use super::property::Trouble;

/// Runs that shrinking may take. Chosen: enough for the largest drawn case, a minute at most.
const BUDGET: usize = 600;

/// Other seeds that each smaller machine is tried with. Chosen: a time just below its bound is often above it with one of them.
const SEEDS: u64 = 3;

/// So many tasks are left away singly as CPUs are. Chosen: more would use up the runs.
const FEW_TASKS: usize = 6;

/// The smallest case found that `judge` finds the same kind of trouble with, and the trouble.
pub fn shrink(
    case: Case,
    trouble: Trouble,
    judge: &mut dyn FnMut(&Case) -> Option<Trouble>,
) -> (Case, Trouble) {
    let mut shrinker = Shrinker { case, trouble, judge, left: BUDGET };
    loop {
        let before = shrinker.case.clone();
        shrinker.presence();
        shrinker.settings();
        shrinker.groups();
        // Before tasks go that keep the others of a CPU busy, and after.
        shrinker.machine();
        shrinker.tasks();
        shrinker.machine();
        shrinker.attributes();
        shrinker.ops();
        shrinker.length();
        if shrinker.left == 0 || size(&before) == size(&shrinker.case) {
            return (shrinker.case, shrinker.trouble);
        }
    }
}

/// What shrinking makes smaller.
fn size(case: &Case) -> (usize, usize, usize, usize, usize, End) {
    let ops = case.scenario.programs.iter().map(|program| program.ops().len()).sum();
    let Scenario { tasks, groups, end, .. } = &case.scenario;
    (tasks.len(), ops, groups.len(), case.machine.cpu_count(), case.settings.len(), *end)
}

struct Shrinker<'a> {
    case: Case,
    trouble: Trouble,
    judge: &'a mut dyn FnMut(&Case) -> Option<Trouble>,
    left: usize,
}

impl Shrinker<'_> {
    /// Keeps a smaller case if it fails in the same way.
    fn try_case(&mut self, mut case: Case) -> bool {
        fit(&mut case);
        if self.left == 0 || case.scenario.validate().is_err() {
            return false;
        }
        // Pauses are of one run: a smaller case has others, of which some show the same.
        let more = case.interleave.map_or(0, |_| SEEDS);
        for at in 0..=more {
            let mut case = case.clone();
            case.interleave = case.interleave.map(|seed| seed + at);
            self.left = self.left.saturating_sub(1);
            match (self.judge)(&case) {
                Some(trouble) if trouble.is_like(&self.trouble) => {
                    (self.case, self.trouble) = (case, trouble);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn with(&self, change: impl FnOnce(&mut Case)) -> Case {
        let mut case = self.case.clone();
        change(&mut case);
        case
    }

    /// A scheduler that is there from start to end, and callbacks that run one after the other.
    fn presence(&mut self) {
        let whole: [fn(&mut Case); 3] = [
            |case| case.presence.attach = None,
            |case| case.presence.detach = None,
            |case| case.interleave = None,
        ];
        for change in whole {
            let case = self.with(change);
            if case != self.case {
                self.try_case(case);
            }
        }
    }

    fn settings(&mut self) {
        for at in (0..self.case.settings.len()).rev() {
            let case = self.with(|case| drop(case.settings.remove(at)));
            self.try_case(case);
        }
    }

    /// No groups at all; else tasks in the root, groups as new ones are, and none that nothing names.
    fn groups(&mut self) {
        if self.case.scenario.groups.is_empty() {
            return;
        }
        let none = self.with(|case| without_groups(&mut case.scenario));
        if self.try_case(none) {
            return;
        }
        for at in 0..self.case.scenario.tasks.len() {
            if self.case.scenario.tasks[at].group.is_some() {
                let case = self.with(|case| case.scenario.tasks[at].group = None);
                self.try_case(case);
            }
        }
        for at in (0..self.case.scenario.groups.len()).rev() {
            let last = at + 1 == self.case.scenario.groups.len();
            if last && !is_named(&self.case.scenario, at) {
                let case = self.with(|case| drop(case.scenario.groups.pop()));
                if self.try_case(case) {
                    continue;
                }
            }
            let plain = self.with(|case| {
                let group = &mut case.scenario.groups[at];
                (group.settings, group.cpus) = (GroupSettings::default(), None);
            });
            if plain != self.case {
                self.try_case(plain);
            }
        }
    }

    /// Halves, quarters, ... single tasks.
    fn tasks(&mut self) {
        let mut chunk = self.case.scenario.tasks.len() / 2;
        while chunk > 0 {
            let mut at = 0;
            while at < self.case.scenario.tasks.len() && self.case.scenario.tasks.len() > 1 {
                let end = (at + chunk).min(self.case.scenario.tasks.len());
                let case = self.with(|case| remove_tasks(&mut case.scenario, at, end));
                if !self.try_case(case) {
                    at = end;
                }
            }
            chunk /= 2;
        }
    }

    fn machine(&mut self) {
        for cpus in [1, 2, 3, 4, 8, 16, 32] {
            if cpus >= self.case.machine.cpu_count() {
                break;
            }
            if self.on_cpus(cpus) {
                break;
            }
        }
        let plain =
            self.with(|case| case.machine = Machine::uniform(&case.machine.name, case.machine.cpu_count()));
        if plain != self.case {
            self.try_case(plain);
        }
    }

    /// The case on so many CPUs: as it is, with another seed, or with fewer tasks. What is measured in time may depend on all.
    fn on_cpus(&mut self, cpus: usize) -> bool {
        let shrunk = |folds: bool, case: &mut Case| {
            let hz = case.machine.hz;
            case.machine = Machine { hz, ..Machine::uniform(&case.machine.name, cpus) };
            if folds {
                fold(case, cpus);
            }
            fit(case);
        };
        let both = [false, true].map(|folds| self.with(|case| shrunk(folds, case)));
        let mut cases = Vec::new();
        for case in &both {
            cases.push(case.clone());
            let seeds = (1..=SEEDS).map(|more| Case { seed: case.seed + more, ..case.clone() });
            cases.extend(seeds);
        }
        let tasks = self.case.scenario.tasks.len();
        if (2..=FEW_TASKS).contains(&tasks) {
            for (case, at) in both.iter().flat_map(|case| (0..tasks).map(move |at| (case, at))) {
                let (mut without, mut done) = (case.clone(), case.clone());
                remove_tasks(&mut without.scenario, at, at + 1);
                at_once(&mut done.scenario, at);
                cases.extend([without, done]);
            }
            let mut free = both[0].clone();
            free.scenario.tasks.iter_mut().for_each(|task| task.affinity = None);
            cases.extend((0..tasks).map(|at| {
                let mut done = free.clone();
                at_once(&mut done.scenario, at);
                done
            }));
        }
        cases.dedup();
        cases.into_iter().any(|case| self.try_case(case))
    }

    /// Every task as ordinary as can be.
    fn attributes(&mut self) {
        for at in 0..self.case.scenario.tasks.len() {
            let task = &self.case.scenario.tasks[at];
            let mut changes: Vec<fn(&mut schedlab_workload::TaskSpec)> = Vec::new();
            if task.nice != Nice::ZERO {
                changes.push(|task| task.nice = Nice::ZERO);
            }
            if task.policy != Policy::Other {
                changes.push(|task| task.policy = Policy::Other);
            }
            if task.affinity.is_some() {
                changes.push(|task| task.affinity = None);
            }
            if task.working_set_kib > 0 {
                changes.push(|task| task.working_set_kib = 0);
            }
            for change in changes {
                let case = self.with(|case| change(&mut case.scenario.tasks[at]));
                self.try_case(case);
            }
        }
    }

    /// One operation at a time, whole loops first.
    fn ops(&mut self) {
        for program in 0..self.case.scenario.programs.len() {
            let used = self.case.scenario.tasks.iter().any(|task| task.program.index() == program)
                || self.case.scenario.programs.iter().any(|p| p.ops().iter().any(|op| forks(op, program)));
            let mut at = 0;
            while used && at < self.case.scenario.programs[program].ops().len() {
                let ops = without(self.case.scenario.programs[program].ops(), at);
                let smaller = ops.filter(|ops| takes_time(ops)).and_then(|ops| Program::new(ops).ok());
                let kept = smaller.is_some_and(|smaller| {
                    let case = self.with(|case| case.scenario.programs[program] = smaller);
                    self.try_case(case)
                });
                at += usize::from(!kept);
            }
        }
    }

    fn length(&mut self) {
        while let End::After(span) = self.case.scenario.end {
            let half = DurationNs::from_ms(span.0 / 2_000_000);
            let case = self.with(|case| case.scenario.end = End::After(half));
            if half == DurationNs::ZERO || !self.try_case(case) {
                return;
            }
        }
    }
}

/// Takes out all groups, with what changes them and what moves tasks.
fn without_groups(scenario: &mut Scenario) {
    scenario.groups.clear();
    scenario.tasks.iter_mut().for_each(|task| task.group = None);
    let changes = &scenario.changes;
    for program in &mut scenario.programs {
        let stays = |op: &&Op| match op {
            Op::SetGroup { .. } => false,
            Op::Set { change, .. } => !matches!(changes[change.index()], Attribute::Group(Some(_))),
            _ => true,
        };
        let left: Vec<Op> = program.ops().iter().filter(stays).copied().collect();
        *program =
            Program::new(left).unwrap_or_else(|_| Program::new(Vec::new()).expect("nothing is a program"));
    }
    // A change that no operation makes names nothing either.
    for change in &mut scenario.changes {
        if matches!(change, Attribute::Group(_)) {
            *change = Attribute::Group(None);
        }
    }
}

/// True if a task, a group or an operation names the group.
fn is_named(scenario: &Scenario, group: usize) -> bool {
    let is = |named: schedlab_workload::GroupId| named.index() == group;
    let names = |op: &Op| match *op {
        Op::SetGroup { group, .. } => is(group),
        _ => false,
    };
    scenario.tasks.iter().any(|task| task.group.is_some_and(is))
        || scenario.groups.iter().any(|group| group.parent.is_some_and(is))
        || scenario.changes.iter().any(|change| matches!(change, Attribute::Group(Some(group)) if is(*group)))
        || scenario.programs.iter().any(|program| program.ops().iter().any(names))
}

/// The task ends as soon as it has the CPU.
fn at_once(scenario: &mut Scenario, at: usize) {
    scenario.tasks[at].program = ProgramId(scenario.programs.len() as u32);
    scenario.programs.push(Program::new(Vec::new()).expect("nothing is a program"));
}

fn forks(op: &Op, program: usize) -> bool {
    matches!(op, Op::Fork { program: forked } if forked.index() == program)
}

/// What names a CPU that the machine lacks names its last one.
fn fold(case: &mut Case, cpus: usize) {
    let last = CpuId(cpus as u32 - 1);
    let folded = |mask: &CpuMask| {
        let mut new = CpuMask::EMPTY;
        mask.iter().for_each(|cpu| new.set(cpu.min(last)));
        new
    };
    for task in &mut case.scenario.tasks {
        task.affinity = task.affinity.take().map(|mask| Box::new(folded(&mask)));
    }
    for change in &mut case.scenario.changes {
        if let Attribute::Affinity(mask) = change {
            *mask = folded(mask);
        }
    }
    for group in &mut case.scenario.groups {
        group.cpus = group.cpus.as_ref().map(folded);
    }
    for change in &mut case.scenario.group_changes {
        if let GroupChange::Cpus(mask) = change {
            *mask = folded(mask);
        }
    }
    for program in &mut case.scenario.programs {
        let ops = program.ops().iter().map(|op| match *op {
            Op::Hotplug { cpu, online } if cpu > last && cpus > 1 => Op::Hotplug { cpu: last, online },
            op => op,
        });
        if let Ok(new) = Program::new(ops.collect()) {
            *program = new;
        }
    }
}

/// False for endless loops in which nothing computes or blocks: they make a run long for no reason.
fn takes_time(ops: &[Op]) -> bool {
    let is_free = |op: &Op| {
        matches!(
            op,
            Op::Loop(_)
                | Op::EndLoop
                | Op::Set { .. }
                | Op::SetGroup { .. }
                | Op::Hotplug { .. }
                | Op::Yield
                | Op::SemPost { .. }
        ) || matches!(op, Op::Unlock(_) | Op::Exec | Op::Fork { .. })
    };
    !ops.contains(&Op::Loop(Amount::Forever)) || ops.iter().any(|op| !is_free(op))
}

/// The operations without the one at `at`; a loop goes with its body, or keeps it where it has just become empty.
fn without(ops: &[Op], at: usize) -> Option<Vec<Op>> {
    let end = match ops[at] {
        Op::EndLoop => return None,
        Op::Loop(_) => {
            let mut depth = 0;
            let end = ops[at..].iter().position(|op| {
                depth += i32::from(matches!(op, Op::Loop(_))) - i32::from(*op == Op::EndLoop);
                depth == 0
            })?;
            at + end + 1
        }
        _ => at + 1,
    };
    Some([&ops[..at], &ops[end..]].concat())
}

/// Takes tasks out; changes of theirs go, changes of later ones keep their task.
fn remove_tasks(scenario: &mut Scenario, from: usize, to: usize) {
    scenario.tasks.drain(from..to);
    let gone = |task: TaskRef| (from..to).contains(&task.index());
    for program in &mut scenario.programs {
        let ops =
            program.ops().iter().filter(|op| !matches!(op, Op::Set { task: Some(task), .. } if gone(*task)));
        let moved = ops.map(|op| match *op {
            Op::Set { task: Some(task), change } if task.index() >= to => {
                Op::Set { task: Some(TaskRef(task.0 - (to - from) as u32)), change }
            }
            op => op,
        });
        // A loop that only changed them has to take some time still.
        let moved: Vec<Op> = moved.collect();
        *program =
            Program::new(moved).unwrap_or_else(|_| Program::new(Vec::new()).expect("nothing is a program"));
    }
}
