//! Results as a JUnit test report: a suite a workload and number of CPUs, a test case a scheduler and check.

use crate::cells::{Cell, cell_of, distinct, scheduler_label};
use crate::gate::{Gate, GateCheck, Outcome};
use crate::names::cut;
use crate::workload_names::workload_text;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use schedlab_base::counted;
use schedlab_trace::RunRecord;

/// Characters of a name, a message or a property. Chosen: what a page of a CI system shows.
const LONGEST: usize = 2000;

/// Writes the report of a gate over these runs.
pub fn to_junit(gate: &Gate, runs: &[RunRecord]) -> String {
    let mut report = Report::new("schedlab");
    for cell in distinct(runs.iter().map(cell_of)) {
        let mut suite = TestSuite::new(text(&place(&cell)));
        let inside: Vec<&RunRecord> = runs.iter().filter(|run| cell_of(run) == cell).collect();
        suite.add_properties(properties(&inside));
        suite.add_test_cases(gate.checks.iter().filter(|check| check.cell == cell).map(case));
        report.add_test_suite(suite);
    }
    report.to_string().expect("visible text is text of XML")
}

/// `chat:rooms=10 on 2 CPUs`.
fn place(cell: &Cell) -> String {
    format!("{} on {}", workload_text(&cell.workload), counted(cell.cpus, "CPU"))
}

fn text(text: &str) -> String {
    cut(text, LONGEST).into_owned()
}

fn case(check: &GateCheck) -> TestCase {
    let unwell = |kind, name: &str, why: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(text(why)).set_type(name).set_description(text(&check.found));
        status
    };
    let status = match &check.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed(why) => unwell(NonSuccessKind::Failure, "failed", why),
        Outcome::Undecided(why) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(text(why));
            status
        }
    };
    let mut case = TestCase::new(text(&format!("{}: {}", check.scheduler, check.what)), status);
    case.set_classname(text(&place(&check.cell)));
    case.add_property(Property::new("found", text(&check.found)));
    case
}

/// What the runs were made of: the hash of each scheduler's object, and those of the workload with its first seed, the machine and
/// the build.
fn properties(runs: &[&RunRecord]) -> Vec<Property> {
    let mut found = vec![Property::new("machine", text(&runs[0].machine))];
    found.push(Property::new("backend", runs[0].backend.name()));
    let schedulers = distinct(runs.iter().map(|run| scheduler_label(run)));
    for label in schedulers {
        let run = runs.iter().find(|run| scheduler_label(run) == label).expect("it is the label of one");
        if let Some(hash) = &run.provenance.object {
            found.push(Property::new(text(&format!("object_sha256 {label}")), text(hash)));
        }
    }
    let of = &runs[0].provenance;
    for (name, value) in
        [("workload_sha256", &of.workload), ("machine_sha256", &of.machine), ("build", &of.build)]
    {
        found.extend(value.as_ref().map(|value| Property::new(name, text(value))));
    }
    let seeds = distinct(runs.iter().map(|run| run.seed));
    let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    found.push(Property::new("seeds", text(&seeds.join(","))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::run;
    use crate::names::tests::nasty;

    fn gate(name: &str, runs: &[RunRecord]) -> Gate {
        let check = |outcome: Outcome| GateCheck {
            cell: cell_of(&runs[0]),
            scheduler: name.to_string(),
            what: "throughput".to_string(),
            found: name.to_string(),
            outcome,
        };
        let (failed, undecided) = (Outcome::Failed(name.to_string()), Outcome::Undecided(name.to_string()));
        Gate { asked: Vec::new(), checks: vec![check(Outcome::Passed), check(failed), check(undecided)] }
    }

    #[test]
    fn any_name_is_read_again() {
        for name in nasty() {
            let mut named = run(&name, 1, 1.0);
            named.workload.name.clone_from(&name);
            named.machine.clone_from(&name);
            let runs = [named];
            let xml = to_junit(&gate(&name, &runs), &runs);
            let read = roxmltree::Document::parse(&xml).unwrap();
            let count = |tag: &str| read.descendants().filter(|node| node.has_tag_name(tag)).count();
            assert_eq!(["testsuite", "testcase", "failure", "skipped"].map(count), [1, 3, 1, 1], "{xml}");
        }
    }

    #[test]
    fn hashes_are_properties() {
        let runs = [run("vanilla", 1, 10.0), run("o1", 1, 9.0)];
        let xml = to_junit(&gate("o1", &runs), &runs);
        let read = roxmltree::Document::parse(&xml).unwrap();
        let property = |name: &str| {
            read.descendants().find(|node| node.attribute("name") == Some(name)).unwrap().attribute("value")
        };
        assert_eq!(property("object_sha256 o1"), Some("ab12"));
        assert_eq!((property("build"), property("seeds")), (Some("0.1"), Some("1")));
    }
}
