//! Users, groups of users and parents of a file's tasks.

use super::{Names, Outcome, TaskSection, fault, listed};
use crate::identity::{Asked, id};
use crate::scenario::Scenario;
use toml::Spanned;

/// Gives the scenario's tasks, which are the file's, their identities.
pub(super) fn add(tasks: &[Spanned<TaskSection>], scenario: &mut Scenario, names: &Names) -> Outcome<()> {
    let (mut asked, mut places) = (Vec::new(), Vec::new());
    for entry in tasks {
        let (task, at) = (entry.get_ref(), entry.span().start);
        let read = read(task, names).or_else(|text| fault(at, format!("task {}: {text}", task.name)))?;
        for number in 0..task.count {
            // Of several threads the first one stands for their process.
            let leads = number == 0 || task.process.is_none();
            asked.push(if leads { read } else { Asked { parent: None, ..read } });
            places.push(at);
        }
    }
    let done = scenario.identify(&asked).and_then(|()| scenario.check_identities());
    done.or_else(|(number, text)| {
        fault(places[number], format!("task {}: {text}", scenario.tasks[number].name))
    })
}

fn read(task: &TaskSection, names: &Names) -> Result<Asked, String> {
    let parent = |name: &String| {
        let found = names.tasks.get(name).copied();
        found.ok_or_else(|| format!("no task '{name}'; there are: {}", listed(name, &names.tasks)))
    };
    Ok(Asked {
        uid: task.uid.map(|uid| id("uid", uid)).transpose()?,
        gid: task.gid.map(|gid| id("gid", gid)).transpose()?,
        parent: task.parent.as_ref().map(parent).transpose()?,
    })
}
