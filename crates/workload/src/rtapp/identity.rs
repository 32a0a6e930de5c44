//! The identity of tasks, in the keys with which rt-app++ extends rt-app: `thread_of`, `parent`, `uid`, `gid`, `kthread`.
//!
//! Without any of them in a file, all its tasks are threads of one process, as rt-app makes them. With one, each task is a
//! process of its own unless it says whose thread it is.

use super::global::boolean;
use super::{Node, Outcome, Shared, fault, integer, object, text};
use crate::identity::{Asked, CIRCLE, circle, id};
use crate::program::TaskRef;
use crate::scenario::ProcessId;
use schedlab_base::did_you_mean;
use std::collections::BTreeMap;

/// The keys.
pub(super) const KEYS: &[&str] = &["thread_of", "parent", "uid", "gid", "kthread"];

/// What one task says; names with the places where they stand.
#[derive(Default)]
struct Said<'a> {
    thread_of: Option<(&'a Node, &'a str)>,
    parent: Option<(&'a Node, &'a str)>,
    uid: Option<u32>,
    gid: Option<u32>,
    kernel_thread: bool,
}

/// Gives the tasks of a file, of which each entry has this many, their processes and identities.
pub(super) fn read(shared: &mut Shared, tasks: &Node, instances: &[u32]) -> Outcome<()> {
    let entries = object(tasks, "tasks")?;
    let says = |(_, node): &(String, Node)| {
        object(node, "").is_ok_and(|keys| keys.iter().any(|(key, _)| KEYS.contains(&key.as_str())))
    };
    if !entries.iter().any(says) {
        return Ok(());
    }
    let said: Vec<Said> = entries.iter().map(|(name, node)| said(name, node)).collect::<Outcome<_>>()?;
    let firsts: Vec<u32> = instances
        .iter()
        .scan(0, |next, count| {
            *next += count;
            Some(*next - count)
        })
        .collect();
    let leaders = leaders(entries, &said, instances)?;
    let (mut asked, mut of_task) = (Vec::new(), Vec::new());
    for (number, said) in said.iter().enumerate() {
        let parent = match said.parent {
            Some(named) => Some(TaskRef(firsts[one_of(entries, instances, number, ("parent", named))?])),
            None => None,
        };
        for instance in 0..instances[number] {
            let task = &mut shared.scenario.tasks[(firsts[number] + instance) as usize];
            task.kernel_thread = said.kernel_thread;
            let leads = leaders[number] == number;
            task.process = ProcessId(firsts[leaders[number]] + if leads { instance } else { 0 });
            asked.push(Asked { uid: said.uid, gid: said.gid, parent });
            of_task.push(number);
        }
    }
    let wrong = |task: usize, text: String| {
        let (name, node) = &entries[of_task[task]];
        fault(node, &format!("tasks.{name}"), text)
    };
    let order = match makers_first(shared, &mut asked) {
        Ok(order) => order,
        Err(task) => return wrong(task, CIRCLE.to_string()),
    };
    let done = shared.scenario.identify(&asked).and_then(|()| shared.scenario.check_identities());
    done.or_else(|(task, text)| wrong(order[task], text))
}

fn said<'a>(name: &str, node: &'a Node) -> Outcome<Said<'a>> {
    let mut said = Said::default();
    for (key, value) in object(node, name)? {
        let path = format!("tasks.{name}.{key}");
        let number = |value: &Node| {
            integer(value, &path).and_then(|number| id(key, number).or_else(|text| fault(value, &path, text)))
        };
        match key.as_str() {
            "thread_of" => said.thread_of = Some((value, text(value, &path)?)),
            "parent" => said.parent = Some((value, text(value, &path)?)),
            "uid" => said.uid = Some(number(value)?),
            "gid" => said.gid = Some(number(value)?),
            "kthread" => said.kernel_thread = boolean(value, &path)?,
            _ => {}
        }
    }
    let path = format!("tasks.{name}");
    if said.thread_of.is_some() && said.parent.is_some() {
        let cure = "a thread has its process's parent; leave out one of them";
        return fault(node, &path, format!("thread_of with parent: {cure}"));
    }
    if said.kernel_thread && (said.uid.is_some() || said.gid.is_some()) {
        return fault(
            node,
            &path,
            "kthread with uid or gid: a kernel thread is root's; leave out one of them",
        );
    }
    if said.kernel_thread && said.thread_of.is_some() {
        let cure = "a kernel thread is in no process of user space; leave out one of them";
        return fault(node, &path, format!("kthread with thread_of: {cure}"));
    }
    Ok(said)
}

/// The entry that a task names, of which there must be one instance.
fn one_of(
    entries: &[(String, Node)],
    instances: &[u32],
    own: usize,
    (key, (node, name)): (&str, (&Node, &str)),
) -> Outcome<usize> {
    let path = format!("tasks.{}.{key}", entries[own].0);
    let names = || entries.iter().map(|(name, _)| name.as_str());
    let Some(found) = names().position(|known| known == name) else {
        let all = names().collect::<Vec<_>>().join(", ");
        let text = format!("no task '{name}'; there are: {all}{}", did_you_mean(name, names()));
        return fault(node, &path, text);
    };
    match instances[found] {
        1 => Ok(found),
        count => {
            let text = format!("'{name}' has {count} instances; name a task that has one");
            fault(node, &path, text)
        }
    }
}

/// By entry: the one whose task leads its process.
fn leaders(entries: &[(String, Node)], said: &[Said<'_>], instances: &[u32]) -> Outcome<Vec<usize>> {
    let mut named = BTreeMap::new();
    for (number, said) in said.iter().enumerate() {
        if let Some(thread_of) = said.thread_of {
            named.insert(number, one_of(entries, instances, number, ("thread_of", thread_of))?);
        }
    }
    let mut leaders = Vec::new();
    for number in 0..said.len() {
        let mut line = std::iter::successors(Some(number), |at| named.get(at).copied());
        let Some(leader) = line.by_ref().take(said.len()).find(|at| !named.contains_key(at)) else {
            let (name, node) = &entries[number];
            let text = "a task leads each process; leave out one of the thread_of in this circle";
            return fault(node, &format!("tasks.{name}.thread_of"), text);
        };
        if leader != number && said[leader].kernel_thread {
            let (name, node) = &entries[number];
            let text = format!(
                "'{}' is a kernel thread, which has no threads; name another task",
                entries[leader].0
            );
            return fault(node, &format!("tasks.{name}.thread_of"), text);
        }
        leaders.push(leader);
    }
    Ok(leaders)
}

/// Brings tasks behind those that lead their processes, and processes behind their parents; says where each one was.
fn makers_first(shared: &mut Shared, asked: &mut Vec<Asked>) -> Result<Vec<usize>, usize> {
    let tasks = &mut shared.scenario.tasks;
    // A process has the number of the task that leads it.
    let leader = |at: usize| tasks[at].process.0 as usize;
    let parents =
        asked.iter().enumerate().filter_map(|(at, asked)| Some((at, leader(asked.parent?.index()))));
    let parents: BTreeMap<usize, usize> = parents.collect();
    if let Some(at) = circle(&parents) {
        return Err(at);
    }
    let maker = |at: usize| if leader(at) == at { parents.get(&at).copied() } else { Some(leader(at)) };
    let (mut order, mut place) = (Vec::new(), vec![None; tasks.len()]);
    for number in 0..tasks.len() {
        let unmade = |at: &usize| place[*at].is_none();
        let first = Some(number).filter(unmade);
        let line: Vec<usize> = std::iter::successors(first, |at| maker(*at).filter(unmade)).collect();
        for at in line.into_iter().rev() {
            place[at] = Some(TaskRef(order.len() as u32));
            order.push(at);
        }
    }
    *tasks = order.iter().map(|before| tasks[*before].clone()).collect();
    *asked = order.iter().map(|before| asked[*before]).collect();
    asked.iter_mut().for_each(|asked| asked.parent = asked.parent.and_then(|parent| place[parent.index()]));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::super::{Version, parse, parse_merged};
    use crate::Scenario;

    /// A file whose tasks have these names and keys.
    fn file(tasks: &[(&str, &str)]) -> String {
        let task = |(name, keys): &(&str, &str)| format!("\"{name}\": {{ \"run\": 1000, {keys} }}");
        let tasks = tasks.iter().map(task).collect::<Vec<_>>().join(",\n");
        format!("{{ \"global\": {{ \"duration\": 1 }}, \"tasks\": {{\n{tasks}\n}} }}")
    }

    /// Name, process, user, group of users, parent, and whether it is a kernel thread.
    type Shown<'a> = (&'a str, u32, u32, u32, Option<u32>, bool);

    fn shown(scenario: &Scenario) -> Vec<Shown<'_>> {
        let of = |task: &'_ crate::TaskSpec| {
            let crate::Identity { uid, gid, parent } = task.identity;
            (task.process.0, uid, gid, parent.map(|parent| parent.0), task.kernel_thread)
        };
        let shown = scenario.tasks.iter().map(|task| {
            let (process, uid, gid, parent, kernel) = of(task);
            (task.name.as_str(), process, uid, gid, parent, kernel)
        });
        shown.collect()
    }

    #[test]
    fn processes_threads_and_users_are_read() {
        let text = file(&[
            ("early", "\"thread_of\": \"web\""),
            ("web", "\"parent\": \"shell\""),
            ("late", "\"thread_of\": \"early\", \"instance\": 2"),
            ("shell", "\"uid\": 1000, \"gid\": 100"),
            ("kworker", "\"kthread\": true"),
            ("plain", "\"instance\": 2"),
        ]);
        for version in [Version::V1_0, Version::Head] {
            let read = parse_merged(&[("w.json".into(), text.clone())], None, version).unwrap();
            let expected = [
                ("shell", 4, 1000, 100, None, false),
                ("web", 1, 1000, 100, Some(0), false),
                ("early", 1, 1000, 100, None, false),
                ("late/0", 1, 1000, 100, None, false),
                ("late/1", 1, 1000, 100, None, false),
                ("kworker", 5, 0, 0, None, true),
                ("plain/0", 6, 0, 0, None, false),
                ("plain/1", 7, 0, 0, None, false),
            ];
            assert_eq!(shown(&read.scenario), expected);
        }
        let plain = parse(&file(&[("a", "\"loop\": 1"), ("b", "\"loop\": 1")]), "w.json", None).unwrap();
        assert!(plain.tasks.iter().all(|task| task.process.0 == 0), "threads of rt-app's process");
    }

    #[test]
    fn what_no_process_can_be_is_refused_with_its_place() {
        let two = |first: &str, second: &str| file(&[("a", first), ("b", second)]);
        let free = "\"loop\": 1";
        for (text, place, words) in [
            (two("\"uid\": -1", free), "w.json:2: tasks.a.uid", "uid: -1 is none of 0 to 4294967294"),
            (two("\"gid\": \"x\"", free), "w.json:2: tasks.a.gid", "a whole number"),
            (two("\"kthread\": 1", free), "w.json:2: tasks.a.kthread", "true or false"),
            (
                two("\"thread_of\": \"c\"", free),
                "w.json:2: tasks.a.thread_of",
                "no task 'c'; there are: a, b",
            ),
            (two(free, "\"parent\": \"c\""), "w.json:3: tasks.b.parent", "no task 'c'; there are: a, b"),
            (
                two("\"thread_of\": \"b\"", "\"thread_of\": \"a\""),
                "w.json:2: tasks.a.thread_of",
                "in this circle",
            ),
            (
                two("\"parent\": \"b\"", "\"parent\": \"a\""),
                "w.json:2: tasks.a",
                "the parents in this circle",
            ),
            (two("\"thread_of\": \"b\"", "\"parent\": \"a\""), "w.json:3: tasks.b", "no ancestor of itself"),
            (
                two("\"thread_of\": \"b\", \"parent\": \"b\"", free),
                "w.json:2: tasks.a",
                "thread_of with parent",
            ),
            (two("\"kthread\": true, \"uid\": 1", free), "w.json:2: tasks.a", "kthread with uid or gid"),
            (
                two("\"kthread\": true, \"thread_of\": \"b\"", free),
                "w.json:2: tasks.a",
                "kthread with thread_of",
            ),
            (
                two("\"kthread\": true, \"parent\": \"b\"", free),
                "w.json:2: tasks.a",
                "a kernel thread is no process",
            ),
            (
                two("\"kthread\": true", "\"thread_of\": \"a\""),
                "w.json:3: tasks.b.thread_of",
                "'a' is a kernel thread",
            ),
            (two("\"instance\": 2", "\"parent\": \"a\""), "w.json:3: tasks.b.parent", "'a' has 2 instances"),
            (
                two("\"uid\": 5", "\"thread_of\": \"a\", \"uid\": 6"),
                "w.json:3: tasks.b",
                "one uid and one gid",
            ),
            (two("\"uid\": 5, \"uid\": 6", free), "w.json:2: tasks.a.uid1", "'uid' stands twice"),
        ] {
            let error = parse(&text, "w.json", None).unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(words), "{text}: {error}");
        }
    }
}
