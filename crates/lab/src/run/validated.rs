//! What is known of how far simulated figures are from a real kernel's. It is the measurement of `schedlab fidelity` that is kept
//! in the sources; it stands beside every simulated run and under every verdict.

use crate::shipped;
use schedlab_base::{Machine, Metric};
use schedlab_report::{Bars, Fidelity};
use schedlab_trace::{Provenance, RunRecord, Validation};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The measurement on the kernel whose rules are simulated.
const MEASURED: &str = include_str!("../../../../fidelity/linux-7.3.json");

/// What has been read of it, by number of CPUs: a command makes many runs.
static READ: Mutex<BTreeMap<usize, Fidelity>> = Mutex::new(BTreeMap::new());

fn bars(machine: &str, cpus: usize, made_of: &Provenance) -> Result<Bars, String> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let part =
        || Fidelity::part(MEASURED, cpus).expect("the kept measurement is what `schedlab fidelity` wrote");
    read.entry(cpus).or_insert_with(part).bars(machine, cpus, made_of.mechanisms.as_deref())
}

/// What is known of the kernel's figures where a simulated run has these.
pub fn validation(machine: &Machine, made_of: &Provenance, metrics: &[Metric]) -> Validation {
    match bars(&machine.name, machine.cpu_count(), made_of) {
        Ok(_) if differs(machine) => {
            let name = &machine.name;
            Validation::None(format!("it is not the machine {name} that was held against a real one"))
        }
        Ok(bars) => bars.validation(metrics),
        Err(why) => Validation::None(why),
    }
}

/// Whether a machine has the name of a shipped one, and another description. The number of CPUs is the run's.
fn differs(machine: &Machine) -> bool {
    let shipped = shipped::machine(&machine.name);
    !shipped.is_ok_and(|shipped| Machine { cpus: machine.cpus.clone(), ..shipped.machine } == *machine)
}

/// The bars of verdicts on runs like this one; none where nothing is known of its own figures.
pub fn bars_of(run: &RunRecord) -> Option<Bars> {
    matches!(run.validation, Some(Validation::Intervals { .. })).then_some(())?;
    bars(&run.machine, run.cpus, &run.provenance).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Fidelity {
        Fidelity::from_json(MEASURED).unwrap()
    }

    #[test]
    fn the_part_of_a_number_of_cpus_says_what_the_whole_says() {
        let whole = measured();
        assert_eq!(whole.to_json(), MEASURED);
        for cpus in [1, 2, 3] {
            let part = Fidelity::part(MEASURED, cpus).unwrap();
            for uses in [&[][..], &["pipe".to_string()], &["hotplug".to_string()]] {
                let bars = |fidelity: &Fidelity| fidelity.bars("vm-icount", cpus, Some(uses));
                assert_eq!(bars(&part), bars(&whole), "{cpus}, {uses:?}");
            }
        }
    }

    #[test]
    fn the_book_shows_the_kept_measurement() {
        let page = include_str!("../../../../docs/fidelity.md");
        assert!(page.contains(&measured().overview()), "docs/fidelity.md has\n{}", measured().overview());
    }
}
