//! The simulator against what real kernels said, value by value (`schedlab_tests::values`).

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_tests::values::{self, Answers, Known, Sheet};

/// Fewer values than this would mean that questions are lost.
const AT_LEAST: usize = 3000;

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn the_simulator_says_what_kernels_said() {
    if schedlab_tests::clang().is_none() {
        println!("skipped: {}", schedlab_clang::MISSING);
        return;
    }
    let known = Known::all(
        &std::fs::read_to_string(values::folder().join("differences")).expect("the list is there"),
    );
    let sheets = Sheet::all();
    let objects =
        values::objects(&sheets, Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("the questions compile");
    let mut used = vec![0usize; known.len()];
    let mut unknown = Vec::new();
    for (version, kept) in values::all_kept() {
        assert!(kept.count() >= AT_LEAST, "{version}: {} values are kept", kept.count());
        let machine = values::machine(&version);
        let mut answers = Answers::new();
        // The tree of groups was asked of some kernels alone.
        let asked = sheets
            .iter()
            .zip(&objects)
            .filter(|(sheet, _)| !sheet.has_groups() || kept.knows(&sheet.site.name));
        for (sheet, object) in asked {
            let found = values::simulated(sheet, object, &machine);
            answers.extend(found.unwrap_or_else(|why| panic!("{version}: {}: {why}", sheet.site.name)));
        }
        for difference in kept.against(&answers) {
            match known.iter().position(|one| one.covers(&version, &difference)) {
                Some(one) => used[one] += 1,
                None => unknown.push(format!("{version} {difference}")),
            }
        }
    }
    unknown.sort();
    assert!(
        unknown.is_empty(),
        "{} values differ; mend them, or list them in tests/values/differences:\n{}",
        unknown.len(),
        unknown.iter().take(40).cloned().collect::<Vec<_>>().join("\n")
    );
    let unused: Vec<&str> = known
        .iter()
        .zip(&used)
        .filter(|(_, used)| **used == 0)
        .map(|(one, _)| one.question.as_str())
        .collect();
    assert!(unused.is_empty(), "listed as different, and the same: {unused:?}");
}

/// Every kind of difference stands in the page, with its reason.
#[test]
fn the_page_lists_the_differences() {
    let page =
        std::fs::read_to_string(schedlab_tests::root().join("docs/sched-ext.md")).expect("the page is there");
    let section =
        page.split("\n## ").find(|section| section.starts_with("Values that differ")).expect("a section");
    let known = Known::all(
        &std::fs::read_to_string(values::folder().join("differences")).expect("the list is there"),
    );
    let reasons: BTreeMap<&str, &str> =
        known.iter().map(|one| (one.reason.as_str(), one.question.as_str())).collect();
    for (reason, question) in reasons {
        assert!(
            section.contains(reason),
            "docs/sched-ext.md does not say why `{question}` differs: {reason}"
        );
    }
}
