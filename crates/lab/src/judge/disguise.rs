//! A scenario under drawn names, in a drawn order, with drawn process ids: what it does stays the same.

use schedlab_base::{DurationNs, Nice, Policy, Prng};
use schedlab_workload::{Identity, Op, ProcessId, Program, ProgramId, Scenario, TaskRef, TaskSpec};
use std::collections::BTreeMap;

/// Most tasks that exit at once, which move the process ids of the others. Chosen.
const MOST_PASSERS: u64 = 24;

/// What such a task computes before it exits.
const PASSING: DurationNs = DurationNs::from_us(20);

/// A scenario that a scheduler does not know again.
#[derive(Clone, Debug)]
pub(super) struct Disguised {
    /// What runs.
    pub(super) scenario: Scenario,
    /// By the task's place: its name in the workload; nothing for a task that is there to pass.
    pub(super) names: Vec<Option<String>>,
}

impl Disguised {
    /// A text about drawn names with those of the workload.
    pub(super) fn in_own_names(&self, text: &str) -> String {
        let mut tasks: Vec<_> = self.scenario.tasks.iter().zip(&self.names).collect();
        // A name may begin another one.
        tasks.sort_by_key(|(task, _)| std::cmp::Reverse(task.name.len()));
        let mut text = text.to_string();
        for (task, own) in tasks {
            text = text.replace(&task.name, own.as_deref().unwrap_or("(another task)"));
        }
        text
    }
}

/// Draws order, names and process ids.
///
/// # Errors
/// A program that cannot be written again.
pub(super) fn disguise(scenario: &Scenario, prng: &mut Prng) -> Result<Disguised, String> {
    let mut scenario = scenario.clone();
    let mut names: Vec<Option<String>> = scenario.tasks.iter().map(|task| Some(task.name.clone())).collect();
    add_passers(&mut scenario, &mut names, prng)?;
    let order = order(&scenario.tasks, prng);
    // By the place of a task before: its place now.
    let mut place = vec![0; order.len()];
    for (now, before) in order.iter().enumerate() {
        place[*before] = now;
    }
    scenario.tasks = order.iter().map(|before| scenario.tasks[*before].clone()).collect();
    let names: Vec<Option<String>> = order.iter().map(|before| names[*before].clone()).collect();
    let moved = |program: &Program| {
        let ops = program.ops().iter().map(|op| moved(*op, &place)).collect();
        Program::new(ops).map_err(|error| error.to_string())
    };
    scenario.programs = scenario.programs.iter().map(moved).collect::<Result<_, String>>()?;
    for task in &mut scenario.tasks {
        let parent = &mut task.identity.parent;
        *parent = parent.map(|parent| TaskRef(place[parent.index()] as u32));
    }
    rename(&mut scenario.tasks, prng);
    scenario.validate().map_err(|error| error.to_string())?;
    Ok(Disguised { scenario, names })
}

/// Adds tasks that exit at once.
fn add_passers(
    scenario: &mut Scenario,
    names: &mut Vec<Option<String>>,
    prng: &mut Prng,
) -> Result<(), String> {
    let program = ProgramId(scenario.programs.len() as u32);
    let passes = Program::new(vec![Op::Run(PASSING)]).map_err(|error| error.to_string())?;
    scenario.programs.push(passes);
    let free = scenario.tasks.iter().map(|task| task.process.0 + 1).max().unwrap_or(0);
    for number in 0..prng.below(MOST_PASSERS + 1) as u32 {
        names.push(None);
        scenario.tasks.push(TaskSpec {
            name: format!("passer/{number}"),
            program,
            process: ProcessId(free + number),
            nice: Nice::default(),
            policy: Policy::Other,
            slice: None,
            affinity: None,
            working_set_kib: 0,
            background: true,
            group: None,
            kernel_thread: false,
            identity: Identity::default(),
        });
    }
    Ok(())
}

/// A drawn order; the threads of a process keep theirs, since the first one is its leader. Where processes have parents, all tasks do:
/// a parent comes first.
fn order(tasks: &[TaskSpec], prng: &mut Prng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    if tasks.iter().any(|task| task.identity.parent.is_some()) {
        return order;
    }
    for at in (1..order.len()).rev() {
        order.swap(at, prng.below(at as u64 + 1) as usize);
    }
    let mut of_process: BTreeMap<ProcessId, Vec<usize>> = BTreeMap::new();
    for (at, task) in tasks.iter().enumerate().rev() {
        of_process.entry(task.process).or_default().push(at);
    }
    for slot in &mut order {
        let next = of_process.get_mut(&tasks[*slot].process).and_then(Vec::pop);
        *slot = next.unwrap_or(*slot);
    }
    order
}

/// The operation with the places of tasks as they are now.
fn moved(op: Op, place: &[usize]) -> Op {
    let now = |task: TaskRef| TaskRef(place[task.index()] as u32);
    match op {
        Op::Kill(task) => Op::Kill(now(task)),
        Op::Set { task, change } => Op::Set { task: task.map(now), change },
        other => other,
    }
}

/// Gives each group of tasks a name of drawn letters. Its members keep a number, as they would have one in the workload.
fn rename(tasks: &mut [TaskSpec], prng: &mut Prng) {
    let mut drawn: BTreeMap<String, (String, u32)> = BTreeMap::new();
    let mut taken: Vec<String> = Vec::new();
    for task in tasks {
        let stem = task.name.split('/').next().unwrap_or_default().to_string();
        let (name, number) = drawn.entry(stem).or_insert_with(|| {
            let mut name = letters(prng);
            while taken.contains(&name) {
                name = letters(prng);
            }
            taken.push(name.clone());
            (name, 0)
        });
        task.name = format!("{name}/{number}");
        *number += 1;
    }
}

/// Six to nine small letters.
fn letters(prng: &mut Prng) -> String {
    let count = 6 + prng.below(4);
    (0..count).map(|_| char::from(b'a' + prng.below(26) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::catalog;

    #[test]
    fn what_runs_is_the_same_and_names_are_not() {
        let scenario = catalog::build("chat:rooms=1,messages=5", 1).unwrap();
        let once = disguise(&scenario, &mut Prng::new(1)).unwrap();
        let again = disguise(&scenario, &mut Prng::new(1)).unwrap();
        assert_eq!(once.scenario, again.scenario);
        let other = disguise(&scenario, &mut Prng::new(2)).unwrap();
        assert_ne!(once.scenario.tasks, other.scenario.tasks);
        for task in &scenario.tasks {
            assert!(once.scenario.tasks.iter().all(|drawn| drawn.name != task.name));
            let at = once.names.iter().position(|name| name.as_ref() == Some(&task.name)).unwrap();
            let drawn = &once.scenario.tasks[at];
            assert_eq!((drawn.program, drawn.nice, drawn.process), (task.program, task.nice, task.process));
        }
    }

    #[test]
    fn operations_follow_their_tasks() {
        let scenario = catalog::build("swap-sig:hogs=3,iterations=3", 1).unwrap();
        let drawn = disguise(&scenario, &mut Prng::new(5)).unwrap();
        let targets = |scenario: &Scenario, name: &dyn Fn(usize) -> Option<String>| -> Vec<Option<String>> {
            let ops = scenario.programs.iter().flat_map(|program| program.ops().to_vec());
            let killed = ops.filter_map(|op| match op {
                Op::Kill(task) => Some(task.index()),
                _ => None,
            });
            killed.map(name).collect()
        };
        let before = targets(&scenario, &|at| Some(scenario.tasks[at].name.clone()));
        assert!(!before.is_empty());
        assert_eq!(before, targets(&drawn.scenario, &|at| drawn.names[at].clone()));
    }

    #[test]
    fn texts_have_the_workloads_names() {
        let scenario = catalog::build("cpuhog:ntasks=2", 1).unwrap();
        let drawn = disguise(&scenario, &mut Prng::new(5)).unwrap();
        let at = drawn.names.iter().position(|name| name.as_deref() == Some("hog/1")).unwrap();
        let text = format!("task {} waited", drawn.scenario.tasks[at].name);
        assert_eq!(drawn.in_own_names(&text), "task hog/1 waited");
    }
}
