//! The rules of `schedulers/`: behaviours are numbered and tested, no conditions of the preprocessor in functions, headers
//! in any order.

use super::{report, rust_files, shown};
use schedlab_tests::{clang, files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of policies: those with `NAME/NAME.bpf.c`.
fn policies() -> Vec<String> {
    let folders = fs::read_dir(root().join("schedulers")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| root().join(format!("schedulers/{name}/{name}.bpf.c")).is_file()).collect();
    names.sort();
    names
}

/// The behaviours of a README, `1. ...` and so on below their heading: how many there are.
fn numbered(readme: &str) -> Result<usize, String> {
    let section = readme.split("\n## ").find(|section| section.starts_with("Behaviours\n"));
    let section = section.ok_or("no section \"Behaviours\"")?;
    let mut last = 0;
    for line in section.lines() {
        let Some((number, _)) = line.split_once(". ") else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        if number != last + 1 {
            return Err(format!("behaviour {number} follows {last}"));
        }
        last = number;
    }
    Ok(last)
}

/// Each behaviour that a scheduler's README numbers is named by a test, and tests name no other ones.
#[test]
fn behaviours_are_numbered_and_tested() {
    let mut found = Vec::new();
    let mut told = BTreeMap::new();
    for name in policies() {
        let readme = fs::read_to_string(root().join(format!("schedulers/{name}/README.md"))).unwrap();
        match numbered(&readme) {
            Ok(0) => found.push(format!("schedulers/{name}/README.md: no behaviour is numbered")),
            Ok(count) => told.extend([(name, count)]),
            Err(error) => found.push(format!("schedulers/{name}/README.md: {error}")),
        }
    }
    let mut tested = BTreeSet::new();
    for path in rust_files("tests/tests/behaviour") {
        let text = fs::read_to_string(&path).unwrap();
        for (at, line) in text.lines().enumerate() {
            let Some(named) = line.trim().strip_prefix("/// Behaviour ") else { continue };
            let place = format!("{}:{}", shown(&path), at + 1);
            let parts = named.strip_suffix('.').and_then(|named| named.split_once('.'));
            let number =
                parts.and_then(|(name, number)| Some((name.to_string(), number.parse::<usize>().ok()?)));
            let known = |(name, number): &(String, usize)| {
                told.get(name).is_some_and(|count| (1..=*count).contains(number))
            };
            match number.filter(known) {
                Some(behaviour) => tested.extend([behaviour]),
                None => found.push(format!("{place}: {named} is no behaviour of a README")),
            }
        }
    }
    for (name, count) in told {
        for number in (1..=count).filter(|number| !tested.contains(&(name.clone(), *number))) {
            found.push(format!("schedulers/{name}/README.md: no test names behaviour {name}.{number}"));
        }
    }
    report(found);
}

/// A comment cites a numbered section or point: of which document?
fn cites(comment: &str) -> bool {
    let words: Vec<&str> = comment.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let cited = ["section", "sections", "point", "points"].contains(&pair[0].to_lowercase().as_str());
        cited && pair[1].starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Tests and schedulers cite no section of a document that is not in the tree.
#[test]
fn citations_lead_somewhere() {
    let mut found = Vec::new();
    let checked =
        rust_files("tests/tests").into_iter().chain(files(&root().join("schedulers"), &["c", "h", "md"]));
    for path in checked.filter(|path| !path.ends_with("tidy/schedulers.rs")) {
        let text = fs::read_to_string(&path).unwrap();
        for (at, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            let comments = path.extension().is_some_and(|extension| extension == "md")
                || ["//", "*", "/*"].iter().any(|mark| comment.starts_with(mark));
            if comments && cites(comment) {
                found.push(format!("{}:{}: of which document? {comment}", shown(&path), at + 1));
            }
        }
    }
    report(found);
    assert!(cites("/// Section 4, yield") && cites("see point 7:") && !cites("at this point a task"));
}

/// Lines with a condition of the preprocessor inside a function; a body begins and ends with a brace alone on its line.
fn conditions_in_functions(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        match line {
            "{" => inside = true,
            "}" => inside = false,
            _ if inside && ["#if", "#el"].iter().any(|mark| line.starts_with(mark)) => found.push(at + 1),
            _ => {}
        }
    }
    found
}

#[test]
fn functions_have_no_conditions_of_the_preprocessor() {
    let mut found = Vec::new();
    for path in files(&root().join("schedulers"), &["c", "h"]) {
        let text = fs::read_to_string(&path).unwrap();
        for line in conditions_in_functions(&text) {
            found.push(format!("{}:{line}: make it a verb or a constant", shown(&path)));
        }
    }
    report(found);
    assert_eq!(
        conditions_in_functions("#ifdef A\nint f(void)\n{\n#ifdef B\n\tx();\n#endif\n}\n#endif\n"),
        [4]
    );
}

/// Includes come before everything else but macros, which policies set for them.
#[test]
fn includes_stand_at_the_top() {
    let mut found = Vec::new();
    for path in files(&root().join("schedulers"), &["c", "h"]) {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().position(|line| {
            let first = line.chars().next().unwrap_or(' ');
            first.is_alphabetic() || first == '{'
        });
        let after = text.lines().enumerate().skip(code.unwrap_or(usize::MAX));
        found.extend(
            after
                .filter(|(_, line)| line.starts_with("#include"))
                .map(|(at, line)| format!("{}:{}: {line}: not at the top", shown(&path), at + 1)),
        );
    }
    report(found);
}

/// Does a source of this text compile beside the policy?
fn compiles(clang: &str, policy: &str, text: &str, swap: bool, scratch: &Path) -> bool {
    let schedulers = root().join("schedulers");
    let source = scratch.join("first.bpf.c");
    fs::write(&source, text).unwrap();
    let mut command = Command::new(clang);
    command.args(["-O2", "-target", "bpf", "-mcpu=v3", "-fsyntax-only", "-I"]).arg(schedulers.join(policy));
    command.arg("-I").arg(schedulers.join("include")).args(swap.then_some("-DSWAP")).arg(&source);
    command.output().is_ok_and(|done| done.status.success())
}

/// Any header of the layers may be the first one that a policy includes.
#[test]
fn headers_are_included_in_any_order() {
    let Some(clang) = clang() else { return };
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("headers");
    fs::create_dir_all(&scratch).unwrap();
    let include = root().join("schedulers/include");
    let mut found = Vec::new();
    for path in files(&include, &["h"]) {
        let name = path.strip_prefix(&include).unwrap().display().to_string();
        // What policy.h itself includes comes with it.
        if ["types.h", "swap/types.h", "domain.h", "prio_queue.h", "freebsd.h"].contains(&name.as_str()) {
            continue;
        }
        // Those of ordinary schedulers want vmlinux.h; tests of the dialect compile them.
        if name.starts_with("scx/") {
            continue;
        }
        let text = format!("#include \"{name}\"\n");
        let swap = name.starts_with("swap/");
        if !policies().iter().any(|policy| compiles(&clang, policy, &text, swap, &scratch)) {
            found.push(format!("schedulers/include/{name}: no policy can include it first"));
        }
    }
    report(found);
}
