//! Test programs: each file of tests is a part of one, and each that a text names is there.

use super::{report, shown};
use schedlab_tests::{files, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every package that has tests: its folder, and what it says of its test programs.
fn packages() -> Vec<(PathBuf, toml::Table)> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let all = crates.chain(["fuzz", "tests"].map(|name| root().join(name)));
    let with = all.filter(|folder| folder.join("tests").is_dir());
    with.map(|folder| {
        (folder.clone(), fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap())
    })
    .collect()
}

/// Its test programs: name, file, and whether it lists `#[test]` functions by itself.
fn programs(folder: &Path, manifest: &toml::Table) -> Vec<(String, PathBuf, bool)> {
    let mut found = Vec::new();
    for one in manifest.get("test").and_then(|tests| tests.as_array()).into_iter().flatten() {
        let name = one["name"].as_str().unwrap();
        let path =
            one.get("path").map_or(format!("tests/{name}.rs"), |path| path.as_str().unwrap().to_string());
        let harness = one.get("harness").is_none_or(|harness| harness.as_bool() == Some(true));
        found.push((name.to_string(), folder.join(path), harness));
    }
    if manifest["package"].get("autotests").is_none() {
        for entry in fs::read_dir(folder.join("tests")).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
            let file = if entry.is_dir() { entry.join("main.rs") } else { entry };
            if file.is_file() && file.extension().is_some_and(|end| end == "rs") {
                let known = found.iter().any(|(_, path, _)| *path == file);
                found.extend((!known).then_some((name, file, true)));
            }
        }
    }
    found
}

/// A file of tests that no program names would not be compiled, and a `#[test]` in a program with its own `main()` would not run.
#[test]
fn every_file_of_tests_is_run() {
    let mut findings = Vec::new();
    for (folder, manifest) in packages() {
        let programs = programs(&folder, &manifest);
        for (_, file, harness) in &programs {
            let beside = file.ends_with("main.rs").then(|| files(file.parent().unwrap(), &["rs"]));
            if !harness {
                for path in beside.unwrap_or(vec![file.clone()]) {
                    if fs::read_to_string(&path).unwrap().lines().any(|line| line.trim() == "#[test]") {
                        findings.push(format!("{}: #[test] in a program with its own main()", shown(&path)));
                    }
                }
                continue;
            }
            if !file.ends_with("main.rs") {
                continue;
            }
            let text = fs::read_to_string(file).unwrap();
            for entry in fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()) {
                let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
                let module =
                    entry.join("mod.rs").is_file() || entry.extension().is_some_and(|end| end == "rs");
                let program = programs.iter().any(|(_, path, _)| *path == entry);
                if module && !program && !text.lines().any(|line| line == format!("mod {name};")) {
                    findings.push(format!("{}: {} does not name it", shown(&entry), shown(file)));
                }
            }
        }
    }
    report(findings);
}

/// Pages, scripts and comments that call a test program by `--test`.
#[test]
fn test_programs_that_are_named_are_there() {
    let all = packages();
    let known: BTreeSet<String> =
        all.iter().flat_map(|(folder, manifest)| programs(folder, manifest)).map(|(name, ..)| name).collect();
    let mut checked = files(&root(), &["md", "rs", "yml"]);
    checked.extend(["Makefile", "scripts/check", "flake.nix"].map(|name| root().join(name)));
    let mut findings = Vec::new();
    for path in
        checked.iter().filter(|path| !path.ends_with("tidy/programs.rs") && !path.ends_with("run-tests.rs"))
    {
        let text = fs::read_to_string(path).unwrap();
        for named in text.split("--test ").skip(1) {
            let name: String =
                named.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect();
            if !name.is_empty() && !known.contains(&name) {
                findings.push(format!("{}: there is no test program `{name}`", shown(path)));
            }
        }
    }
    report(findings);
}
