//! Makes a failing case small: takes away tasks, operations, settings, CPUs and time as long as the case fails in the
//! same way.

use schedlab_base::{DurationNs, Machine, Nice, Policy};
use schedlab_workload::{End, Op, Program, Scenario, TaskRef};

use crate::draw::Case;
use crate::judge::Trouble;

/// Runs that shrinking may take. Chosen: enough for the largest drawn case, a minute at most.
const BUDGET: usize = 600;

/// The smallest case found that `judge` finds the same kind of trouble with, and the trouble.
pub(crate) fn shrink(
    case: Case,
    trouble: Trouble,
    judge: &mut dyn FnMut(&Case) -> Option<Trouble>,
) -> (Case, Trouble) {
    let mut shrinker = Shrinker { case, trouble, judge, left: BUDGET };
    loop {
        let before = shrinker.case.clone();
        shrinker.settings();
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
fn size(case: &Case) -> (usize, usize, usize, usize, End) {
    let ops = case.scenario.programs.iter().map(|program| program.ops().len()).sum();
    let Scenario { tasks, end, .. } = &case.scenario;
    (tasks.len(), ops, case.machine.cpu_count(), case.settings.len(), *end)
}

struct Shrinker<'a> {
    case: Case,
    trouble: Trouble,
    judge: &'a mut dyn FnMut(&Case) -> Option<Trouble>,
    left: usize,
}

impl Shrinker<'_> {
    /// Keeps a smaller case if it fails in the same way.
    fn try_case(&mut self, case: Case) -> bool {
        if self.left == 0 || case.scenario.validate().is_err() {
            return false;
        }
        self.left -= 1;
        match (self.judge)(&case) {
            Some(trouble) if trouble.kind == self.trouble.kind => {
                (self.case, self.trouble) = (case, trouble);
                true
            }
            _ => false,
        }
    }

    fn with(&self, change: impl FnOnce(&mut Case)) -> Case {
        let mut case = self.case.clone();
        change(&mut case);
        case
    }

    fn settings(&mut self) {
        for at in (0..self.case.settings.len()).rev() {
            let case = self.with(|case| drop(case.settings.remove(at)));
            self.try_case(case);
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
            if cpus < self.case.machine.cpu_count() {
                let plain = self.with(|case| {
                    let hz = case.machine.hz;
                    case.machine = Machine { hz, ..Machine::uniform("swarm", cpus) };
                    fit_affinities(case);
                });
                if self.try_case(plain) {
                    break;
                }
            }
        }
        let plain = self.with(|case| case.machine = Machine::uniform("swarm", case.machine.cpu_count()));
        if plain.machine != self.case.machine {
            self.try_case(plain);
        }
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
                let smaller = ops.and_then(|ops| Program::new(ops).ok());
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

fn forks(op: &Op, program: usize) -> bool {
    matches!(op, Op::Fork { program: forked } if forked.index() == program)
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

/// Affinities without a CPU of the machine are dropped.
fn fit_affinities(case: &mut Case) {
    let all = case.machine.all_cpus();
    for task in &mut case.scenario.tasks {
        let mask = task.affinity.take().map(|mask| mask.and(&all));
        task.affinity = mask.filter(|mask| !mask.is_empty()).map(Box::new);
    }
}
