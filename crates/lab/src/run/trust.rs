//! What makes a result one to rely on: what it was made of, and warnings that can fail a command.

use crate::failure::Failure;
use crate::scheduler::Scheduler;
use crate::shipped;
use schedlab_base::{Machine, counted};
use schedlab_report::{Document, JudgedGoal};
use schedlab_scx::LeftToLoader;
use schedlab_trace::{Provenance, Warning, WarningKind};
use schedlab_workload::Scenario;
use sha2::{Digest, Sha256};
use std::fmt::{self, Debug, Write};

/// Version and hash of the sources of this command, see `build.rs`.
pub(crate) fn build_id() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), env!("SCHEDLAB_BUILD"))
}

/// Takes text as it is written.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of everything that a value consists of.
fn of_content(value: &impl Debug) -> String {
    let mut hasher = Hasher(Sha256::new());
    write!(hasher, "{value:?}").expect("a hash takes all");
    hex(hasher.0)
}

/// The hash of an object file.
pub(crate) fn of_object(bytes: &[u8]) -> String {
    shipped::hash_of(bytes).map_or_else(|| hex(Sha256::new_with_prefix(bytes)), str::to_string)
}

/// What a run is made of. `workload` is nothing for a command, `machine` for a real one.
pub fn provenance(
    scheduler: &Scheduler,
    workload: Option<&Scenario>,
    machine: Option<&Machine>,
) -> Provenance {
    let mechanisms = workload.map(|workload| workload.mechanisms().into_iter().map(str::to_string).collect());
    // Goals judge a run and are no part of what was run.
    let workload = workload.map(|workload| Scenario { goals: Vec::new(), ..workload.clone() });
    Provenance {
        object: scheduler.object.as_deref().map(of_object),
        workload: workload.as_ref().map(of_content),
        machine: machine.map(of_content),
        build: Some(build_id()),
        mechanisms,
        pauses: None,
    }
}

/// Names that are listed of those that a loader may have set. Chosen: what fits a line.
const LISTED: usize = 6;

/// A warning that results are those of a scheduler whose own loader did not take part; nothing for a shipped one, which needs
/// none, and the kernel's own class.
pub(crate) fn unconfigured(scheduler: &Scheduler) -> Option<Warning> {
    let left = scheduler.left_to_loader()?;
    let text = format!(
        "{}: {}; results are those of an unconfigured scheduler (docs/foreign-objects.md)",
        scheduler.given,
        left_words(&left)
    );
    let count = (left.constants.len() + left.programs.len()) as u64;
    Some(Warning { kind: WarningKind::Unconfigured, text, count, worst: None })
}

/// Warnings that the simulator does without programs of the object: those that only report or never run, and those at interrupts.
pub fn left_out(scheduler: &Scheduler) -> impl Iterator<Item = Warning> {
    let [harmless, at_interrupts] = scheduler.left_out();
    let given = scheduler.given.clone();
    let warning = move |(kind, which, left): (WarningKind, &str, Vec<String>)| {
        let text = format!("{given}: programs that {which} are left out: {}", listed(&left));
        let count = left.len() as u64;
        (count > 0).then_some(Warning { kind, text, count, worst: None })
    };
    let decides = "stand at interrupts, and may decide by what they see on a real kernel,";
    let both = [
        (WarningKind::LeftOut, "only report or never run", harmless),
        (WarningKind::NotModelled, decides, at_interrupts),
    ];
    both.into_iter().filter_map(warning)
}

/// A warning that the scheduler's own program did not get what it asked for, and so may decide otherwise than on a real kernel.
pub(crate) fn loader_refused(scheduler: &Scheduler, refused: &[String]) -> Option<Warning> {
    let text = format!(
        "{}: its program was refused what a real kernel may give it, and may decide otherwise there: {} (check lists them)",
        scheduler.given,
        listed(refused)
    );
    let count = refused.len() as u64;
    (count > 0).then_some(Warning { kind: WarningKind::LoaderRefused, text, count, worst: None })
}

/// A warning about a program that was run while the scheduler was attached and has not returned 0.
pub(crate) fn program_returned(name: &str, value: i32) -> Option<Warning> {
    let text = format!("--run-prog-at: the program {name} returned {value}");
    (value != 0).then_some(Warning { kind: WarningKind::ProgramReturned, text, count: 1, worst: None })
}

/// What is left to a loader, in words, with the cure.
pub fn left_words(left: &LeftToLoader) -> String {
    let mut parts = Vec::new();
    if !left.constants.is_empty() {
        let names = listed(&left.constants);
        let count = counted(left.constants.len(), "variable");
        parts.push(format!("written {count} ({names}: --set NAME=VALUE; 0 says that it is meant)"));
    }
    if !left.programs.is_empty() {
        let names = listed(&left.programs);
        parts.push(format!(
            "run {} ({names}: --run-prog NAME[:HEX])",
            counted(left.programs.len(), "program")
        ));
    }
    format!("its own loader would have {}", parts.join(" and "))
}

/// The first of these names, and how many there are besides.
pub fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "))
}

/// The failure of a command whose suspect runs and missed goals are not to pass. Void runs fail it without `--strict`.
///
/// # Errors
/// `--strict`, and a warning or a goal that is not met.
pub fn strict(document: &Document, strict: bool) -> Result<(), Failure> {
    let warnings = document.doubts();
    let missed = document.goals.iter().filter(|judged| !judged.is_met());
    let missed: Vec<String> = missed.map(JudgedGoal::sentence).collect();
    let (true, Some(first)) = (strict, warnings.first().or(missed.first())) else { return Ok(()) };
    let more = match (warnings.len(), missed.len()) {
        (1, 0) | (0, 1) => String::new(),
        (warnings, 0) => format!(" ({warnings} warnings in all)"),
        (0, missed) => format!(" ({missed} goals not met in all)"),
        (warnings, missed) => format!(" (warnings: {warnings}, goals not met: {missed})"),
    };
    Err(Failure::failed(format!("--strict: {first}{more}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;
    use crate::workload::scenario;

    #[test]
    fn contents_and_not_names_are_hashed() {
        let machine = shipped::machine(shipped::DEFAULT_MACHINE).unwrap().machine;
        let of = |scheduler: &str, workload: &str, machine: &Machine| {
            let scenario = scenario(workload, 1, None).unwrap();
            provenance(&Scheduler::find(scheduler).unwrap(), Some(&scenario), Some(machine))
        };
        let one = of("o1", "cpuhog:ntasks=2", &machine);
        assert_eq!(one, of("o1", "cpuhog:ntasks=2", &machine));
        assert_eq!(one.object.as_ref().map(String::len), Some(64));
        assert_ne!(one.object, of("o1+swap", "cpuhog:ntasks=2", &machine).object);
        assert_eq!(of("eevdf", "cpuhog:ntasks=2", &machine).object, None);
        assert_ne!(one.workload, of("o1", "cpuhog:ntasks=3", &machine).workload);
        let mut dearer = machine.clone();
        dearer.costs.schedule.0 += 1;
        assert_ne!(one.machine, of("o1", "cpuhog:ntasks=2", &dearer).machine);
        assert!(one.build.unwrap().starts_with(concat!(env!("CARGO_PKG_VERSION"), " ")));
    }
}
