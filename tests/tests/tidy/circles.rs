//! Inside a room files use each other in one direction: of two files, one is below the other.

use super::{report, rust_files, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use syn::visit::{self, Visit};

/// The rooms in which files are looked at.
const ROOMS: &[&str] = &["report", "live", "cli", "lab"];

/// Pairs of files that use each other all the same. The list may only shrink.
const CIRCLES: &[(&str, &str, &str)] = &[("live", "exec/resume", "exec/task")];

/// A module by its path in the room, without `crate`.
type Module = Vec<String>;

/// The module of a file: a folder's is in its `mod.rs`, the room's own in `lib.rs` or `main.rs`.
fn module_of(file: &str) -> Module {
    let mut module: Module = file.trim_end_matches(".rs").split('/').map(String::from).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The paths that a file names from its room or from the module above it, as modules of the room with what they name in them.
struct Named {
    module: Module,
    found: Vec<Module>,
}

impl Named {
    fn add(&mut self, path: &[String]) {
        let above = path.iter().take_while(|part| *part == "super").count();
        let base = match path.first().map(String::as_str) {
            Some("crate") => &[],
            Some("super") => &self.module[..self.module.len().saturating_sub(above)],
            _ => return,
        };
        self.found.push([base, &path[above.max(1)..]].concat());
    }

    fn add_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.add(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(before, item)),
        }
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {
        // Tests may use what they like; a module in a file is the file's.
    }
}

/// The files of a room by their modules, each with the modules that it uses.
fn uses_of(room: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let folder = format!("crates/{room}/src/");
    let files: Vec<(Module, String)> = rust_files(&folder)
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            (module_of(shown(path).trim_start_matches(&folder)), text)
        })
        .collect();
    let modules: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
    let file_of = |path: &Module| {
        let longest = (0..=path.len()).rev().map(|length| path[..length].to_vec());
        longest.into_iter().find(|module| modules.contains(module)).unwrap_or_default()
    };
    let uses = |(module, text): &(Module, String)| {
        let mut named = Named { module: module.clone(), found: Vec::new() };
        named.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{module:?}: {error}")));
        (module.clone(), named.found.iter().map(file_of).collect())
    };
    files.iter().map(uses).collect()
}

#[test]
fn files_of_a_room_use_each_other_in_one_direction() {
    let mut findings = Vec::new();
    for room in ROOMS {
        let uses = uses_of(room);
        assert!(uses.values().any(|used| used.len() > 1), "{room}: no file uses another one");
        for (one, used) in &uses {
            // What a module and those inside it have in common is theirs to arrange.
            for other in used.iter().filter(|other| !one.starts_with(other) && !other.starts_with(one)) {
                let (a, b) = (one.join("/"), other.join("/"));
                if one < other && uses[other].contains(one) && !CIRCLES.contains(&(room, &a, &b)) {
                    findings.push(format!("crates/{room}/src: {a} and {b} use each other"));
                }
            }
        }
    }
    report(findings);
}

#[test]
fn paths_are_found_in_all_their_forms() {
    let text = "use crate::{a::b, c}; use super::super::d::E; fn f() -> crate::g::H { super::i::j() }";
    let mut named = Named { module: module_of("x/y/mod.rs"), found: Vec::new() };
    named.visit_file(&syn::parse_file(text).unwrap());
    let found: Vec<String> = named.found.iter().map(|path| path.join("/")).collect();
    assert_eq!(found, ["a/b", "c", "d/E", "g/H", "x/i/j"]);
}
