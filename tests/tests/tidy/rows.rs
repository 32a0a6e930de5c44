//! One row a fact: a kernel function and an operation of sched_ext stand in one table each, and in few files besides.

use super::{is_test_file, report, rust_files, shown};
use proc_macro2::{Delimiter, Ident, Literal, TokenStream, TokenTree};
use schedlab_bpf::helpers::GenericKfunc;
use schedlab_scx::{kernel_declarations, prototypes};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// How many files of `crates/` may name a kernel function or an operation, besides tests: the row, and one that does it or
/// speaks of it in a message.
const FILES: usize = 2;

/// Names that more files have, with their number. The list may only shrink.
const MORE: &[(&str, usize)] = &[
    // The table and the prototypes, and what kind of object it makes or takes.
    ("bpf_obj_new", 3),
    ("bpf_rdonly_cast", 3),
    ("bpf_res_spin_lock", 3),
    // The table, and messages.
    ("cgroup_init", 3),
    ("dump", 3),
    ("init", 3),
    ("init_task", 3),
];

/// The names of kernel functions: the words before the parameters.
fn kernel_functions() -> BTreeSet<String> {
    let word = |prototype: &str| {
        let before = prototype.split('(').next().unwrap_or_default();
        before.rsplit([' ', '*']).next().unwrap_or_default().to_string()
    };
    prototypes().map(word).chain(GenericKfunc::NAMES.map(str::to_string)).collect()
}

/// The names of operations in either form.
fn operations() -> BTreeSet<String> {
    let text = kernel_declarations();
    let structs = text.split("\nstruct ").filter(|text| text.starts_with("sched_ext_ops"));
    let lines = structs.flat_map(|text| text.split("\n};").next().unwrap_or_default().lines());
    let name = |line: &str| Some(line.split_once("(*")?.1.split_once(')')?.0.to_string());
    lines.filter_map(name).collect()
}

/// What a file's code has, without comments and tests.
#[derive(Default)]
struct Said {
    identifiers: BTreeSet<String>,
    strings: Vec<String>,
}

impl Said {
    fn of(text: &str) -> Said {
        let mut said = Said::default();
        said.read(text.parse().expect("it compiles"));
        said
    }

    fn read(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let Some(TokenTree::Group(group)) = tokens.peek() else { continue };
                    let attribute = group.stream().to_string().replace(' ', "");
                    // Comments of documentation are attributes here.
                    if attribute.starts_with("doc=") || attribute == "cfg(test)" {
                        tokens.next();
                    }
                    if attribute == "cfg(test)" {
                        let ends = |token: &TokenTree| match token {
                            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                            TokenTree::Punct(mark) => matches!(mark.as_char(), ';' | ','),
                            _ => false,
                        };
                        tokens.find(ends);
                    }
                }
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(word) => self.identifier(&word),
                TokenTree::Literal(literal) => self.literal(&literal),
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn identifier(&mut self, word: &Ident) {
        self.identifiers.insert(word.to_string());
    }

    fn literal(&mut self, literal: &Literal) {
        let text = literal.to_string();
        if let Some(text) = text.strip_suffix('"') {
            self.strings.push(text.replace("\\n", " "));
        }
    }

    /// True if it has a word of this name.
    fn names(&self, name: &str) -> bool {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let mut words = self.strings.iter().flat_map(|text| text.split(|letter| !is_part(letter)));
        self.identifiers.contains(name) || words.any(|word| word == name)
    }

    /// True if it has the operation of this name: as a member in C, in a message, or in a string of its own. Identifiers
    /// do not count, since many are common words.
    fn names_operation(&self, name: &str, of_sched_ext: bool) -> bool {
        let of_c = format!("(*{name})");
        let told = format!("ops.{name}(");
        let own = format!("\"{name}");
        let is =
            |text: &String| text.contains(&of_c) || text.contains(&told) || (of_sched_ext && *text == own);
        self.strings.iter().any(is)
    }
}

#[test]
fn a_name_of_sched_ext_stands_in_few_files() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (functions, operations) = (kernel_functions(), operations());
    assert!(functions.contains("scx_bpf_dsq_insert") && operations.contains("select_cid"));
    for path in rust_files("crates").into_iter().filter(|path| !is_test_file(path)) {
        let (said, place) = (Said::of(&fs::read_to_string(&path).unwrap()), shown(&path));
        let of_sched_ext = place.starts_with("crates/scx/") || place.starts_with("crates/sim/");
        let named = functions.iter().filter(|name| said.names(name));
        let named = named.chain(operations.iter().filter(|name| said.names_operation(name, of_sched_ext)));
        named.for_each(|name| files.entry(name.clone()).or_default().push(place.clone()));
    }
    let mut findings = Vec::new();
    for name in functions.iter().chain(&operations) {
        let places = files.get(name).map_or(&[][..], Vec::as_slice);
        let listed = MORE.iter().find(|(more, _)| more == name).map(|(_, count)| *count);
        let allowed = listed.unwrap_or(FILES);
        if places.len() > allowed {
            findings.push(format!(
                "{name}: in {} files, at most {allowed}: {}",
                places.len(),
                places.join(", ")
            ));
        } else if listed.is_some_and(|count| places.len() < count) {
            findings.push(format!("{name}: in {} files; the list says more", places.len()));
        }
        if places.is_empty() {
            findings.push(format!("{name}: no file has its row"));
        }
    }
    let known = |name: &str| functions.contains(name) || operations.contains(name);
    findings.extend(
        MORE.iter()
            .filter(|(name, count)| !known(name) || *count <= FILES)
            .map(|(name, _)| format!("{name}: not for this list")),
    );
    report(findings);
}

#[test]
fn tests_and_comments_do_not_count() {
    let text = "/// `scx_a`\nfn f() { g(\"scx_b (x)\", scx_c) } // scx_d\n#[cfg(test)]\nmod tests { const A: &str = \"scx_e\"; }";
    let said = Said::of(text);
    let found = ["scx_a", "scx_b", "scx_c", "scx_d", "scx_e"].map(|name| said.names(name));
    assert_eq!(found, [false, true, true, false, false]);
    let said =
        Said::of("const A: &str = \"void (*tick)(void);\"; fn f() { g(\"ops.init() fails\", \"exit\") }");
    let found = ["tick", "init", "exit", "exi"].map(|name| said.names_operation(name, true));
    assert_eq!(found, [true, true, true, false]);
    assert!(!said.names_operation("exit", false));
}
