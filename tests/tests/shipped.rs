//! The shipped schedulers against their documents: what an object says of itself stands in its README, and nothing else.

use schedlab_scx::{LoadOptions, Requirements, requirements};
use schedlab_tests::{readme_table, root, shipped};
use std::fs;

fn plain(cell: &str) -> &str {
    cell.trim_matches('`')
}

fn needs(name: &str, object: &[u8]) -> Requirements {
    requirements(name, object, &LoadOptions::default()).expect("a shipped object is one")
}

/// Every counter has a meaning, and the READMEs have the same ones: the scheduler's its own, that of all those of the glue.
#[test]
fn counters_are_explained() {
    let common = fs::read_to_string(root().join("schedulers/README.md")).unwrap();
    let common = readme_table(&common, "Counters of the glue");
    assert!(common.len() > 10, "the table of common counters is found");
    let mut findings = Vec::new();
    for (name, object) in shipped() {
        let readme = fs::read_to_string(root().join(format!("schedulers/{name}/README.md"))).unwrap();
        let mut told: Vec<(String, String)> = [&common[..], &readme_table(&readme, "Counters")]
            .concat()
            .iter()
            .map(|row| (plain(&row[0]).to_string(), row[1].clone()))
            .collect();
        for (counter, meaning) in needs(&name, &object).counters {
            let Some(at) = told.iter().position(|(known, _)| *known == counter) else {
                findings.push(format!("{name}: {counter} ({meaning}) is in no README"));
                continue;
            };
            let (_, text) = told.remove(at);
            if meaning.is_empty() {
                findings.push(format!("{name}: {counter} lacks COUNTS(\"{text}\")"));
            } else if meaning != text {
                findings.push(format!("{name}: {counter} is \"{meaning}\", in the README \"{text}\""));
            }
        }
        findings.extend(
            told.iter().map(|(counter, _)| format!("{name}: the README has {counter}, the object not")),
        );
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// The READMEs have the tunables with their defaults.
#[test]
fn tunables_are_listed() {
    let mut findings = Vec::new();
    for (name, object) in shipped() {
        let readme = fs::read_to_string(root().join(format!("schedulers/{name}/README.md"))).unwrap();
        let told = readme_table(&readme, "Tunables");
        let mut told: Vec<(&str, &str)> = told.iter().map(|row| (plain(&row[0]), plain(&row[1]))).collect();
        for tunable in needs(&name, &object).tunables {
            match told.iter().position(|(known, _)| *known == tunable.name) {
                None => findings.push(format!("{name}: the README lacks the tunable {}", tunable.name)),
                Some(at) => {
                    let (_, default) = told.remove(at);
                    if !tunable.default.is_empty() && default != tunable.default {
                        let (variable, value) = (&tunable.name, &tunable.default);
                        findings.push(format!("{name}: {variable} is {value}, in the README {default}"));
                    }
                }
            }
        }
        findings.extend(
            told.iter().map(|(tunable, _)| format!("{name}: the README has {tunable}, the object not")),
        );
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
