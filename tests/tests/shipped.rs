//! The shipped schedulers against their documents: what an object says of itself stands in its README, and nothing else.

use schedlab_scx::{LoadOptions, Requirements, Tunable, requirements};
use schedlab_tests::{readme_table, root, shipped, shipped_with_swap};
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

/// Rows of the table of tunables, as the object describes them.
fn tunable_rows(tunables: &[Tunable]) -> Vec<String> {
    let row = |Tunable { name, default, takes, meaning, .. }: &Tunable| {
        format!("| `{name}` | {default} | {takes} | {meaning} |")
    };
    tunables.iter().map(row).collect()
}

/// What a README's table of tunables lacks, and what it has that the objects do not.
fn differences(readme: &str, tunables: &[Tunable]) -> Vec<String> {
    let text = fs::read_to_string(root().join(readme)).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Tunables")).unwrap_or("");
    let told: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let wanted = tunable_rows(tunables);
    let lacks = wanted.iter().filter(|row| !told.contains(&row.as_str()));
    let lacks = lacks.map(|row| format!("{readme} lacks the row: {row}"));
    let more = told.iter().filter(|row| !wanted.iter().any(|known| known == *row));
    lacks.chain(more.map(|row| format!("{readme} has a row that no object describes: {row}"))).collect()
}

/// The READMEs have the tunables as the objects describe them: default, values and meaning.
#[test]
fn tunables_are_listed_as_the_objects_describe_them() {
    let mut findings = Vec::new();
    for ((name, plain), (_, with_swap)) in shipped().into_iter().zip(shipped_with_swap()) {
        let plain = needs(&name, &plain).tunables;
        findings.extend(differences(&format!("schedulers/{name}/README.md"), &plain));
        let mut layer = needs(&name, &with_swap).tunables;
        layer.retain(|tunable| !plain.contains(tunable));
        findings.extend(differences("schedulers/include/swap/README.md", &layer));
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Every tunable says what it means; numbers have a range, in which the default lies.
#[test]
fn tunables_are_described() {
    let mut findings = Vec::new();
    for (name, object) in shipped().into_iter().chain(shipped_with_swap()) {
        for tunable in needs(&name, &object).tunables {
            if tunable.meaning.is_empty() || tunable.takes.is_empty() {
                findings.push(format!("{name}: {} lacks TUNABLE() or SETS()", tunable.name));
            }
            let default = tunable.default.parse().ok();
            if let (Some(range), Some(default)) = (&tunable.range, default)
                && !range.contains(default)
            {
                findings.push(format!("{name}: {} is {default} by default, not {range}", tunable.name));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
