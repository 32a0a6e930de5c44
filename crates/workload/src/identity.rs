//! The identity of tasks: user, group of users, and the parents of processes.

use crate::program::TaskRef;
use crate::scenario::{ProcessId, Scenario};
use std::collections::{BTreeMap, BTreeSet};

/// The highest user and group: `(uid_t)-1` means none.
pub const HIGHEST_ID: u32 = u32::MAX - 1;

/// What schedulers tell tasks apart by, besides name and group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user, at most [`HIGHEST_ID`]; threads of a process have the same one. 0 is root, and in a real run the user of the command.
    pub uid: u32,
    /// The group of users, as `uid`.
    pub gid: u32,
    /// A task whose process is the parent of the task's own process. Only the first task of a process has it.
    pub parent: Option<TaskRef>,
}

/// What a file says of a task's identity; a process takes the rest from its parent, and a thread from its process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) parent: Option<TaskRef>,
}

/// What is wrong with a task's identity: its number, and the words.
pub(crate) type Wrong = (usize, String);

/// A user or group as a file has it.
pub(crate) fn id(what: &str, number: i64) -> Result<u32, String> {
    let known = u32::try_from(number).ok().filter(|id| *id <= HIGHEST_ID);
    known.ok_or_else(|| format!("{what}: {number} is none of 0 to {HIGHEST_ID}"))
}

/// What is wrong with a process whose parents lead back to it.
pub(crate) const CIRCLE: &str =
    "a process is no ancestor of itself; leave out one of the parents in this circle";

/// A process, by its first task, that is its own ancestor.
pub(crate) fn circle(parents: &BTreeMap<usize, usize>) -> Option<usize> {
    // Those whose ancestors are known to end.
    let mut safe = BTreeSet::new();
    for &number in parents.keys() {
        let (mut line, mut at) = (BTreeSet::new(), Some(number));
        while let Some(next) = at.filter(|at| !safe.contains(at)) {
            if !line.insert(next) {
                return Some(next);
            }
            at = parents.get(&next).copied();
        }
        safe.extend(line);
    }
    None
}

impl Scenario {
    /// The first task of each process, which leads its threads.
    fn leaders(&self) -> BTreeMap<ProcessId, usize> {
        let mut leaders = BTreeMap::new();
        for (number, task) in self.tasks.iter().enumerate() {
            leaders.entry(task.process).or_insert(number);
        }
        leaders
    }

    /// By the first task of each process that has a parent among the tasks: the first task of the parent.
    #[must_use]
    pub fn parents(&self) -> BTreeMap<usize, usize> {
        let has_parent = |(number, task): (usize, &crate::TaskSpec)| Some((number, task.identity.parent?));
        let named: Vec<_> = self.tasks.iter().enumerate().filter_map(has_parent).collect();
        if named.is_empty() {
            return BTreeMap::new();
        }
        let leaders = self.leaders();
        let leader = |task: TaskRef| leaders.get(&self.tasks.get(task.index())?.process).copied();
        named.into_iter().filter_map(|(number, parent)| Some((number, leader(parent)?))).collect()
    }

    /// Gives the tasks what a file asks for, one entry a task.
    pub(crate) fn identify(&mut self, asked: &[Asked]) -> Result<(), Wrong> {
        debug_assert_eq!(asked.len(), self.tasks.len(), "an entry for each task");
        for (task, asked) in self.tasks.iter_mut().zip(asked) {
            task.identity.parent = asked.parent;
        }
        self.check_parents()?;
        let (parents, leaders) = (self.parents(), self.leaders());
        for number in 0..self.tasks.len() {
            let leader = leaders[&self.tasks[number].process];
            let from = if leader == number { parents.get(&number).copied() } else { Some(leader) };
            let inherited = from.map(|from| self.tasks[from].identity).unwrap_or_default();
            let identity = &mut self.tasks[number].identity;
            identity.uid = asked[number].uid.unwrap_or(inherited.uid);
            identity.gid = asked[number].gid.unwrap_or(inherited.gid);
        }
        Ok(())
    }

    /// Checks users, groups and parents.
    pub(crate) fn check_identities(&self) -> Result<(), Wrong> {
        if self.tasks.iter().all(|task| task.identity == Identity::default()) {
            return Ok(());
        }
        self.check_parents()?;
        let leaders = self.leaders();
        for (number, task) in self.tasks.iter().enumerate() {
            let Identity { uid, gid, .. } = task.identity;
            let first = &self.tasks[leaders[&task.process]];
            if uid.max(gid) > HIGHEST_ID {
                return Err((number, format!("a uid or gid is at most {HIGHEST_ID}")));
            }
            if (uid, gid) != (first.identity.uid, first.identity.gid) {
                let cure = format!("leave it to '{}', its first task", first.name);
                return Err((number, format!("threads of a process have one uid and one gid; {cure}")));
            }
            if task.kernel_thread && (uid, gid) != (0, 0) {
                let text = "a kernel thread is root's; leave out uid and gid, or that it is of the kernel";
                return Err((number, text.to_string()));
            }
        }
        Ok(())
    }

    /// Every parent is another process of user space, and none is its own ancestor.
    fn check_parents(&self) -> Result<(), Wrong> {
        let (leaders, parents) = (self.leaders(), self.parents());
        if let Some(number) = circle(&parents) {
            return Err((number, CIRCLE.to_string()));
        }
        for (number, task) in self.tasks.iter().enumerate() {
            let Some(parent) = task.identity.parent else { continue };
            let wrong = |text: String| Err((number, text));
            let Some(named) = self.tasks.get(parent.index()) else {
                return wrong("its parent is no task".to_string());
            };
            let first = leaders[&task.process];
            if first != number {
                let first = &self.tasks[first].name;
                return wrong(format!("a thread has its process's parent; give parent to '{first}' alone"));
            }
            if task.kernel_thread || named.kernel_thread {
                return wrong(format!(
                    "parent '{}': a kernel thread is no process and no parent of one; leave out parent",
                    named.name
                ));
            }
            if parents[&number] > number {
                return wrong(format!(
                    "parent '{}' stands behind it; put parents before children",
                    named.name
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    /// A file whose tasks have these names and keys.
    fn file(tasks: &[(&str, &str)]) -> String {
        let head = "name = \"who\"\nend = \"1s\"\n[programs]\nhog = [ \"run 1ms\" ]\n".to_string();
        tasks.iter().fold(head, |text, (name, keys)| {
            let keys = keys.replace(", ", "\n");
            text + &format!("[[tasks]]\nname = \"{name}\"\nprogram = \"hog\"\n{keys}\n")
        })
    }

    fn read(tasks: &[(&str, &str)]) -> Scenario {
        parse(&file(tasks), "w.toml").unwrap()
    }

    #[test]
    fn processes_inherit_of_parents_and_threads_of_processes() {
        let scenario = read(&[
            ("shell", "uid = 1000, gid = 100, process = \"p\""),
            ("child", "parent = \"thread\""),
            ("own", "parent = \"child\", uid = 0, gid = 7"),
            ("thread", "process = \"p\""),
            ("other", ""),
        ]);
        let ids: Vec<_> = scenario.tasks.iter().map(|task| (task.identity.uid, task.identity.gid)).collect();
        assert_eq!(ids, [(1000, 100), (1000, 100), (0, 7), (1000, 100), (0, 0)]);
        assert_eq!(scenario.parents(), BTreeMap::from([(1, 0), (2, 1)]));
        let again = parse(&crate::file::write(&scenario), "again.toml").unwrap();
        let identities = |scenario: &Scenario| scenario.tasks.iter().map(|t| t.identity).collect::<Vec<_>>();
        assert_eq!(identities(&again), identities(&scenario));
    }

    #[test]
    fn what_no_process_can_be_is_refused_with_its_line() {
        for (tasks, line, words) in [
            (&[("a", "uid = -1")][..], 5, "task a: uid: -1 is none of 0 to 4294967294"),
            (&[("a", "gid = 4294967295")], 5, "task a: gid: 4294967295 is none of"),
            (&[("a", "parent = \"b\"")], 5, "task a: no task 'b'; there are: a"),
            (&[("a", "parent = \"a\"")], 5, "task a: a process is no ancestor of itself"),
            (
                &[("a", "parent = \"b\""), ("b", "")],
                5,
                "parent 'b' stands behind it; put parents before children",
            ),
            (&[("a", "parent = \"b\""), ("b", "parent = \"a\"")], 5, "the parents in this circle"),
            (
                &[("a", ""), ("b", "process = \"p\""), ("c", "process = \"p\", parent = \"a\"")],
                13,
                "task c: a thread has its process's parent; give parent to 'b' alone",
            ),
            (
                &[("a", "process = \"p\", uid = 5"), ("b", "process = \"p\", uid = 6")],
                10,
                "task b: threads of a process have one uid and one gid; leave it to 'a'",
            ),
            (
                &[("k", "kernel_thread = true, uid = 5")],
                5,
                "task k: a kernel thread is root's; leave out uid",
            ),
            (
                &[("k", "kernel_thread = true"), ("b", "parent = \"k\"")],
                9,
                "task b: parent 'k': a kernel thread",
            ),
        ] {
            let error = parse(&file(tasks), "w.toml").unwrap_err().to_string();
            assert!(error.starts_with(&format!("w.toml:{line}: ")) && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_scenario_made_otherwise_is_checked_too() {
        let wrong = |change: fn(&mut Scenario)| {
            let mut scenario = read(&[("a", ""), ("b", "")]);
            change(&mut scenario);
            scenario.validate().unwrap_err().to_string()
        };
        assert!(wrong(|s| s.tasks[0].identity.parent = Some(TaskRef(2))).contains("is no task"));
        assert!(wrong(|s| s.tasks[0].identity.gid = u32::MAX).contains("at most"));
    }
}
