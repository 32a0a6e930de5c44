//! The rules of the tree: dependency direction between rooms, banned types in
//! the deterministic rooms, file and function length, module headers, and the
//! maps in the documents against the tree.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/programs.rs"]
mod programs;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/rows.rs"]
mod rows;
#[path = "tidy/schedulers.rs"]
mod schedulers;
#[path = "tidy/upward.rs"]
mod upward;

use schedlab_tests::{files, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The rooms that a room may depend on; the whole list, so that a new room must be placed.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("clang", &[]),
    ("machine", &["base"]),
    ("trace", &["base"]),
    ("stats", &["base"]),
    ("workload", &["base"]),
    ("bpf", &["base"]),
    ("sim", &["base", "trace", "workload"]),
    ("scx", &["base", "trace", "workload", "bpf", "sim"]),
    ("live", &["base", "trace", "workload", "bpf", "clang"]),
    ("loader", &["base", "bpf", "sandbox", "scx"]),
    ("sandbox", &[]),
    ("reproduction", &["base", "trace", "stats"]),
    ("report", &["base", "trace", "stats", "reproduction"]),
    ("sweep", &["trace", "report"]),
    ("mcp", &[]),
    ("web", &["machine", "trace", "workload", "bpf", "scx", "report", "lab"]),
    (
        "lab",
        &[
            "base",
            "machine",
            "trace",
            "stats",
            "workload",
            "bpf",
            "sim",
            "scx",
            "live",
            "loader",
            "reproduction",
            "report",
            "sweep",
            "clang",
        ],
    ),
    (
        "cli",
        &[
            "mcp",
            "lab",
            "base",
            "machine",
            "trace",
            "stats",
            "workload",
            "bpf",
            "scx",
            "live",
            "loader",
            "sandbox",
            "reproduction",
            "report",
            "sweep",
            "clang",
        ],
    ),
];

/// The rooms of `sim`, lowest first: a file names its own and those below it.
const SIM_ROOMS: &[&str] = &["event", "ipc", "state", "class", "core", "exec", "lane", "check", "run"];

/// What `state` holds for rooms above it: data that they define and that only they look into. The list may only shrink.
const HELD: &[&str] = &[
    "class::ext::dump",
    "class::fair",
    "class::server",
    "check::StreamChecker",
    "check::Watch",
    "core::wake_list",
    "exec::Executor",
    "exec::TaskExec",
    "exec::sleepers",
    "exec::UserMemory",
];

/// Rooms where a run must be a function of its inputs alone.
const DETERMINISTIC: &[&str] =
    &["base", "machine", "trace", "stats", "workload", "bpf", "sim", "scx", "reproduction"];

/// Words that have no place there, and what to use instead.
const BANNED: &[(&str, &str)] = &[
    ("HashMap", "BTreeMap or an index-keyed table"),
    ("HashSet", "BTreeSet or a bit set"),
    ("std::thread", "the lab room runs things in parallel"),
    ("Instant", "TimeNs of the run's clock"),
    ("SystemTime", "TimeNs of the run's clock"),
    ("std::env", "a parameter"),
    ("std::fs", "bytes handed in by the caller"),
    ("std::process", "the live room"),
    ("RandomState", "Prng with a seed"),
];

/// Where what programs call is written: it reaches guest memory through the typed layer alone.
const TYPED: &[&str] = &["crates/bpf/src/helpers", "crates/scx/src/kfunc"];

/// Ways around that layer.
const UNTYPED: &[&str] = &["vm.mem", "kernel_objects", "mem.slice", "mem.write_u", "mem.read_u", ".perm_at("];

const MAX_FILE_LINES: usize = 600;
const MAX_FUNCTION_LINES: usize = 70;

/// Files that are longer still. The list may only shrink.
const LONG_FILES: &[&str] = &["crates/cli/src/args.rs", "tests/tests/vm/main.rs"];

/// Functions that may be longer, with the reason. The list may only shrink.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[(
    "crates/bpf/src/engine/interpret.rs",
    "run",
    "one match over the instruction set, a line an operation: splitting it would hide it from the optimiser",
)];

fn rust_files(dir: &str) -> Vec<PathBuf> {
    files(&root().join(dir), &["rs"])
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn is_test_file(path: &Path) -> bool {
    let text = shown(path);
    text.contains("/tests/") || text.starts_with("tests/") || text.ends_with("/tests.rs")
}

/// The production part: up to the test module, which comes last in our files.
fn production(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn dependencies_point_one_way() {
    let mut findings = Vec::new();
    let rooms: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let room = dir.file_name().unwrap().to_str().unwrap().to_string();
        let Some(allowed) = rooms.get(room.as_str()) else {
            findings.push(format!("crates/{room}: not in the list of rooms"));
            continue;
        };
        let manifest: toml::Table = fs::read_to_string(dir.join("Cargo.toml")).unwrap().parse().unwrap();
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(section).and_then(|table| table.as_table()) else { continue };
            for name in table.keys().filter_map(|name| name.strip_prefix("schedlab-")) {
                if !allowed.contains(&name) {
                    findings.push(format!("crates/{room}/Cargo.toml: {room} must not depend on {name}"));
                }
            }
        }
    }
    report(findings);
}

#[test]
fn rooms_of_the_simulator_point_down() {
    let rank = |room: &str| SIM_ROOMS.iter().position(|other| *other == room);
    let mut findings = Vec::new();
    for path in rust_files("crates/sim/src") {
        let shown = shown(&path);
        let mut parts = shown.trim_start_matches("crates/sim/src/").split('/');
        let (room, file) = (parts.next().unwrap_or_default(), parts.next());
        let Some(here) = rank(room).filter(|_| file.is_some()) else {
            if file.is_some() || !["lib.rs", "flags.rs"].contains(&room) {
                findings.push(format!("{shown}: not in a room of the simulator"));
            }
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in production(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for named in code.split("crate::").skip(1) {
                let other = named.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap_or("");
                let held = room == "state" && HELD.iter().any(|held| named.starts_with(held));
                if rank(other).is_some_and(|other| other > here) && !held {
                    findings.push(format!("{shown}:{}: {room} is below {other}", number + 1));
                }
            }
        }
    }
    report(findings);
}

#[test]
fn deterministic_rooms_use_nothing_of_the_host() {
    let mut findings = Vec::new();
    for room in DETERMINISTIC {
        for path in rust_files(&format!("crates/{room}/src")) {
            let text = fs::read_to_string(&path).unwrap();
            for (number, line) in production(&text).lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                for (word, instead) in BANNED {
                    let whole_word = code.match_indices(word).any(|(at, _)| {
                        let before = code[..at].chars().next_back();
                        let after = code[at + word.len()..].chars().next();
                        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                        !part(before) && !part(after)
                    });
                    if whole_word {
                        let place = format!("{}:{}", shown(&path), number + 1);
                        findings.push(format!("{place}: {word} is banned here; use {instead}"));
                    }
                }
            }
        }
    }
    report(findings);
}

#[test]
fn what_programs_call_reaches_memory_through_typed_arguments() {
    let mut findings = Vec::new();
    for dir in TYPED {
        for path in rust_files(dir) {
            let text = fs::read_to_string(&path).unwrap();
            for way in UNTYPED.iter().filter(|way| production(&text).contains(**way)) {
                findings.push(format!("{}: {way}: take a typed argument (schedlab_bpf::args)", shown(&path)));
            }
        }
    }
    report(findings);
}

#[test]
fn files_are_one_idea_long_and_say_which() {
    let mut findings = Vec::new();
    for path in rust_files("crates").into_iter().chain(rust_files("tests")).chain(rust_files("fuzz")) {
        let text = fs::read_to_string(&path).unwrap();
        if !text.starts_with("//!") && !text.starts_with("#!") {
            findings.push(format!("{}: no module header (//! ...)", shown(&path)));
        }
        let lines = production(&text).lines().count();
        if lines > MAX_FILE_LINES && !LONG_FILES.contains(&shown(&path).as_str()) {
            findings.push(format!("{}: {lines} lines, at most {MAX_FILE_LINES}", shown(&path)));
        }
    }
    for path in ["schedulers", "tests/objects", "fuzz/driver"]
        .iter()
        .flat_map(|dir| files(&root().join(dir), &["c", "h"]))
    {
        let text = fs::read_to_string(&path).unwrap();
        let first_lines: String = text.lines().take(2).collect();
        if !first_lines.contains("SPDX-License-Identifier: GPL-2.0-only") {
            findings.push(format!("{}: no SPDX line of the GPL", shown(&path)));
        }
        if text.lines().count() > MAX_FILE_LINES {
            findings.push(format!("{}: over {MAX_FILE_LINES} lines", shown(&path)));
        }
    }
    report(findings);
}

struct FunctionLengths {
    path: String,
    findings: Vec<String>,
}

impl FunctionLengths {
    fn check(&mut self, name: &syn::Ident, block: &syn::Block) {
        let lines = block.span().end().line - block.span().start().line + 1;
        let excused = LONG_FUNCTIONS.iter().any(|(path, function, _)| self.path == *path && name == function);
        if lines > MAX_FUNCTION_LINES && !excused {
            let line = name.span().start().line;
            self.findings.push(format!(
                "{}:{line}: fn {name} has {lines} lines, at most {MAX_FUNCTION_LINES}",
                self.path
            ));
        }
    }
}

impl<'ast> Visit<'ast> for FunctionLengths {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }
}

#[test]
fn functions_are_short() {
    let mut findings = Vec::new();
    let checked = rust_files("crates").into_iter().chain(rust_files("fuzz"));
    for path in checked.filter(|path| !is_test_file(path)) {
        let text = fs::read_to_string(&path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", shown(&path)));
        let mut lengths = FunctionLengths { path: shown(&path), findings: Vec::new() };
        lengths.visit_file(&file);
        findings.append(&mut lengths.findings);
    }
    report(findings);
}

#[test]
fn the_map_matches_the_tree() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut findings = Vec::new();
    for dir in ["crates", "schedulers"] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            let listed = map.contains(&format!("`{dir}/{name}`"));
            if path.is_dir() && name != "build" && !listed {
                findings.push(format!("ARCHITECTURE.md: `{dir}/{name}` is missing"));
            }
        }
    }
    for place in map.split('`').skip(1).step_by(2).filter(|place| place.contains('/') && !place.contains(' '))
    {
        if !root().join(place).exists() {
            findings.push(format!("ARCHITECTURE.md: `{place}` does not exist"));
        }
    }
    report(findings);
}

#[test]
fn one_version_is_told_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("CITATION.cff", format!("version: {version}")),
        ("packaging/PKGBUILD", format!("pkgver={version}")),
        ("python/pyproject.toml", format!("version = \"{version}\"")),
        ("python/src/schedlab/__init__.py", format!("__version__ = \"{version}\"")),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.lines().any(|other| other == line), "{file} has no line `{line}`");
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for line in manifest.lines().filter(|line| line.starts_with("schedlab-")) {
        assert!(line.contains(&format!("version = \"{version}\"")), "Cargo.toml: another version: {line}");
    }
}

#[test]
fn every_crate_can_be_packed_with_its_licence() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.chain(["fuzz", "tests"].map(|name| root().join(name))) {
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read(folder.join(name)).ok();
            assert_eq!(text, fs::read(root().join(name)).ok(), "{}: no link to {name}", shown(&folder));
        }
        // A dependency by its place alone cannot be packed.
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in manifest.lines().filter(|line| line.starts_with("schedlab-") && line.contains("path = "))
        {
            assert!(line.contains("version = "), "{}: no version: {line}", shown(&folder));
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut findings = Vec::new();
    for path in files(&root(), &["md"]) {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            if !path.parent().unwrap().join(target).exists() {
                findings.push(format!("{}: link to {target} leads nowhere", shown(&path)));
            }
        }
    }
    report(findings);
}
