//! What determines a simulated run: the key of its record.

use crate::failure::Failure;
use crate::files::input;
use crate::run::simulation::{Extras, Simulation};
use crate::scheduler::Scheduler;
use crate::scheduler::subs::Sub;
use crate::workload::files;
use schedlab_base::Presence;
use schedlab_loader::Command;
use schedlab_sweep::Key;
use std::path::Path;

/// The key of a run.
///
/// # Errors
/// A workload file that cannot be read.
pub(crate) fn key_of(simulation: &Simulation) -> Result<Key, Failure> {
    // Whatever is added to a run has to be thought about here.
    // Results do not depend on the engine and the core.
    let Simulation {
        scheduler,
        workload,
        machine,
        seed,
        limit,
        checkers,
        engine: _,
        core: _,
        guest_memory,
        after_ejection,
        sampling,
        pauses,
        extras,
    } = simulation;
    // The other two stand in no record: a command that keeps runs takes neither option.
    let Extras { waits, timeline: _, perfetto: _ } = extras;
    // The object's bytes stand for its place; the settings say whatever the own ones say.
    let Scheduler {
        name,
        given: _,
        read: _,
        spares: _,
        choice,
        object,
        loader,
        own: _,
        settings,
        values,
        changes,
        programs,
        timed_programs,
        presence,
        subs,
    } = scheduler;
    let mut key = Key::default();
    key.part("scheduler", name.clone());
    object.iter().for_each(|object| key.content("object", object));
    if let Some(loader) = loader {
        key.part("loader", format!("{:?}", loader.words));
        add_loader(&mut key, name, loader)?;
    }
    choice.iter().for_each(|choice| key.part("scheduler of the object", choice.clone()));
    key.part("settings", format!("{settings:?} {values:?} {changes:?}"));
    if !programs.is_empty() {
        key.part("programs", format!("{programs:?}"));
    }
    if !timed_programs.is_empty() || *presence != Presence::default() {
        key.part("meanwhile", format!("{timed_programs:?} {presence:?}"));
    }
    add_subs(&mut key, subs);
    pauses.iter().for_each(|pauses| key.part("pauses", format!("{pauses:?}")));
    key.part("workload", workload.clone());
    key.part("rt-app", crate::workload::followed().to_string());
    add_files(&mut key, workload)?;
    key.part("machine", machine.name.clone());
    key.content("machine", format!("{machine:?}").as_bytes());
    key.part("CPUs", machine.cpu_count().to_string());
    key.part("seed", seed.to_string());
    key.part("duration", limit.map_or("the workload's".to_string(), |limit| format!("{} ns", limit.0)));
    key.part("checkers", checkers.to_string());
    key.part("guest memory", format!("{}M", guest_memory >> 20));
    key.part("after an ejection", format!("{after_ejection:?}"));
    key.part("sampling", format!("{sampling:?}"));
    key.part("waits explained", waits.to_string());
    Ok(key)
}

/// Adds the sub-schedulers.
fn add_subs(key: &mut Key, subs: &[Sub]) {
    for sub in subs {
        key.part(
            "sub-scheduler",
            format!("{} {:?} {} {:?}", sub.group, sub.at, sub.scheduler.name, sub.scheduler.values),
        );
        if let Some(object) = &sub.scheduler.object {
            key.content("sub-scheduler's object", object);
        }
    }
}

/// Adds the program that loads the scheduler `name`, and each file that its arguments name.
fn add_loader(key: &mut Key, name: &str, loader: &Command) -> Result<(), Failure> {
    let given = loader.named_files().into_iter().enumerate();
    let given = given.map(|(number, file)| (format!("loader's file {}", number + 1), file));
    for (part, file) in std::iter::once(("loader".to_string(), loader.program.clone())).chain(given) {
        let bytes = input::bytes(&file)
            .map_err(|error| Failure::usage(format!("scheduler {name}: {}: {error}", file.display())))?;
        key.content(&part, &bytes);
    }
    Ok(())
}

/// Adds each file of a workload.
fn add_files(key: &mut Key, workload: &str) -> Result<(), Failure> {
    for (number, file) in files(workload).into_iter().enumerate() {
        if Path::new(file).is_file() {
            let text = input::bytes(file)
                .map_err(|error| Failure::usage(format!("workload file {file}: {error}")))?;
            key.content(&workload_part(number), &text);
        }
    }
    Ok(())
}

/// What a file of a workload is called.
fn workload_part(number: usize) -> String {
    match number {
        0 => "workload file".to_string(),
        _ => format!("workload file {}", number + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::simulation::AfterEjection;
    use crate::shipped;
    use schedlab_base::DurationNs;
    use schedlab_scx::EngineChoice;

    fn simulation() -> Simulation {
        let machine = shipped::machine(shipped::DEFAULT_MACHINE).unwrap().machine;
        Simulation::new(Scheduler::find("eevdf").unwrap(), "cpuhog:ttime=1ms", machine)
    }

    #[test]
    fn whatever_a_result_depends_on_changes_the_key() {
        let one = key_of(&simulation()).unwrap();
        type Change = (&'static str, fn(&mut Simulation));
        let changes: [Change; 9] = [
            ("scheduler", |run| run.scheduler = Scheduler::find("o1").unwrap()),
            ("tunable", |run| run.scheduler.values.push(("exit_weight".into(), "50".into()))),
            ("workload", |run| run.workload = "cpuhog:ttime=2ms".to_string()),
            ("seed", |run| run.seed = 2),
            ("duration", |run| run.limit = Some(DurationNs::from_ms(1))),
            ("checkers", |run| run.checkers = true),
            ("memory", |run| run.guest_memory = 1 << 20),
            ("ejection", |run| run.after_ejection = AfterEjection::Continue),
            ("waits", |run| run.extras.waits = true),
        ];
        let mut seen = vec![one.file_name()];
        for (what, change) in changes {
            let mut run = simulation();
            change(&mut run);
            let name = key_of(&run).unwrap().file_name();
            assert!(!seen.contains(&name), "{what}");
            seen.push(name);
        }
        let engine = Simulation { engine: EngineChoice::Interpreted, ..simulation() };
        assert_eq!(key_of(&engine).unwrap(), one);
    }
}
