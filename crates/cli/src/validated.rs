//! What is known of how far simulated figures are from a real kernel's: the measurement of `schedlab fidelity` that is kept in
//! the sources, beside every simulated run.

use schedlab_report::{Fidelity, scheduler_label};
use schedlab_trace::{Backend, RunRecord};

/// The measurement on the kernel whose rules are simulated.
const MEASURED: &str = include_str!("../../../fidelity/linux-7.3.json");

/// A line on the figures of a simulated run; nothing for a real one.
pub(crate) fn line(run: &RunRecord) -> Option<String> {
    if run.backend != Backend::Sim {
        return None;
    }
    match run.machine.split_once('@') {
        Some((_, kernel)) => Some(format!("real kernel: not validated under the rules of {kernel}\n")),
        None => Some(words(&scheduler_label(run), run.cpus)),
    }
}

fn words(scheduler: &str, cpus: usize) -> String {
    let told = Fidelity::told_of(MEASURED, scheduler, cpus);
    let fidelity = told.expect("the kept measurement is what `schedlab fidelity` wrote");
    match fidelity.within(scheduler, cpus) {
        Some((measured, within)) => {
            let unit = if measured == 1 { "CPU" } else { "CPUs" };
            format!(
                "real kernel ({}, {measured} {unit}, other workloads): {within}\n",
                fidelity.kernel_name()
            )
        }
        None => "real kernel: not validated under this scheduler (`schedlab fidelity` does it)\n".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn measured() -> Fidelity {
        Fidelity::from_json(MEASURED).unwrap()
    }

    #[test]
    fn the_part_of_a_scheduler_says_what_the_whole_says() {
        let whole = measured();
        assert_eq!(whole.to_json(), MEASURED);
        let schedulers: BTreeSet<&String> = whole.cells.iter().map(|cell| &cell.scheduler).collect();
        for scheduler in schedulers {
            for cpus in [1, 2, 8] {
                let part = Fidelity::told_of(MEASURED, scheduler, cpus).unwrap();
                assert!(part.within(scheduler, cpus).is_some(), "{scheduler}");
                assert_eq!(part.within(scheduler, cpus), whole.within(scheduler, cpus));
            }
        }
        assert!(Fidelity::told_of(MEASURED, "\"", 8).unwrap().cells.is_empty());
    }

    #[test]
    fn what_is_measured_is_told_and_what_is_not() {
        let told = words("eevdf", 1);
        assert!(
            told.contains("real kernel (linux-7.3") && told.contains("context switches within"),
            "{told}"
        );
        let other = words("./mine.bpf.o", 1);
        assert!(other.contains("not validated under this scheduler"), "{other}");
    }

    #[test]
    fn the_book_shows_the_kept_measurement() {
        let page = include_str!("../../../docs/fidelity.md");
        assert!(page.contains(&measured().overview()), "docs/fidelity.md has\n{}", measured().overview());
    }
}
