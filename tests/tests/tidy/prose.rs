//! Comments and pages are short sentences about named subjects.
//!
//! A sentence has at most [`LONGEST`] words. The words of [`HIDING`] are not said of tasks and CPUs, nor of anything else:
//! the subject has a name. What was read through once is in [`READ`]; parts of it that were not wait in [`NOT_YET_READ`].
//! Pages, help texts and comments have none of the phrases that a table of `STYLE.md` lists.

use super::{report, shown};
use schedlab_tests::{files, root};
use std::fs;
use std::path::Path;

/// Folders and pages at the root whose prose holds to the rules, but for what is in [`NOT_YET_READ`].
const READ: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "bench",
    "crates",
    "docs",
    "findings",
    "fuzz",
    "machines",
    "packaging",
    "published",
    "python",
    "schedulers",
    "tests",
    "web",
    "workloads",
];

/// Rooms and pages that have not been read through yet. The list may only shrink.
const NOT_YET_READ: &[&str] = &["crates/bpf", "crates/live", "crates/loader"];

/// Folders whose comments have none of the listed phrases, but for the files of [`NOT_YET_REWORDED`].
const REWORDED: &[&str] = &["crates", "fuzz", "python", "schedulers", "tests"];

/// Files and folders whose comments still have listed phrases. The list may only shrink.
const NOT_YET_REWORDED: &[&str] = &[
    "crates/cli/src/commands",
    "crates/lab/src/run",
    "crates/live/src/load/mod.rs",
    "crates/scx/src/kfunc",
    "crates/trace/src/summary.rs",
];

/// Words that a sentence may have.
const LONGEST: usize = 30;

/// What hides the subject.
const HIDING: &[&str] = &["who", "whom", "whoever", "whomever", "nobody", "somebody", "anybody", "everybody"];

/// A paragraph: the number of its first line, and its text on one line.
type Paragraph = (usize, String);

/// Puts lines together; an empty one ends a paragraph.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut open = false;
    for (number, line) in lines {
        let line = line.trim();
        if line.is_empty() {
            open = false;
        } else if open {
            let (_, text) = found.last_mut().expect("a paragraph is open");
            text.push(' ');
            text.push_str(line);
        } else {
            found.push((number, line.to_string()));
            open = true;
        }
    }
    found
}

/// A list's line without its mark: `* text`, `- text`, `3. text`.
fn without_mark(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = digits.strip_prefix(". ").filter(|_| digits.len() < text.len());
    numbered.or_else(|| text.strip_prefix("* ")).or_else(|| text.strip_prefix("- "))
}

/// What a page says: no tables, headings and code.
fn of_page(text: &str) -> Vec<Paragraph> {
    let mut code = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fence = line.starts_with("```");
        code ^= fence;
        if fence || code || line.starts_with('|') || line.starts_with('#') || line.starts_with("    ") {
            lines.push((at + 1, ""));
        } else if let Some(item) = without_mark(line) {
            lines.extend([(at + 1, ""), (at + 1, item)]);
        } else {
            lines.push((at + 1, line));
        }
    }
    paragraphs(lines.into_iter())
}

/// What C comments say; lines that are set in are pictures and code.
fn of_c(text: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        let first = text[..text.len() - rest.len() + at].matches('\n').count() + 1;
        let (comment, after) = rest[at + 2..].split_once("*/").unwrap_or((&rest[at + 2..], ""));
        let lines = comment.lines().enumerate().map(|(n, line)| {
            let bare = if n == 0 { line.trim() } else { line.trim_start().trim_start_matches('*') };
            let bare = bare.strip_prefix(' ').unwrap_or(bare);
            (first + n, if bare.starts_with(' ') { "" } else { bare })
        });
        found.extend(paragraphs(lines));
        rest = after;
    }
    found
}

/// What comments of Rust and Python say.
fn of_lines(text: &str, marks: &[&str]) -> Vec<Paragraph> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or("");
        lines.push((at + 1, comment.strip_prefix("  ").map_or(comment, |_| "")));
    }
    paragraphs(lines.into_iter())
}

fn of(path: &Path) -> Vec<Paragraph> {
    let text = fs::read_to_string(path).unwrap();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => of_page(&text),
        Some("c" | "h") => of_c(&text),
        Some("py") => of_lines(&text, &["# "]),
        _ => of_lines(&text, &["//! ", "/// ", "// "]),
    }
}

/// The sentences of a paragraph: a mark, white space, and a beginning.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_whitespace()) {
        let before = text[begin..at].trim_end_matches(['"', '\'', ')', '*']);
        let next = text[at + c.len_utf8()..].chars().next();
        let begins = next.is_some_and(|c| c.is_uppercase() || c.is_ascii_digit() || "`@*\"(".contains(c));
        if before.ends_with(['.', '?', '!']) && begins {
            found.push(text[begin..at].trim());
            begin = at;
        }
    }
    found.push(text[begin..].trim());
    found
}

/// What is wrong with a sentence, if anything.
fn fault(sentence: &str) -> Option<String> {
    let count = sentence.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
    if count > LONGEST {
        return Some(format!("{count} words, at most {LONGEST}"));
    }
    let mut words = sentence.split(|c: char| !c.is_alphanumeric() && c != '_');
    let hiding = words.find(|word| HIDING.contains(&word.to_lowercase().as_str()))?;
    Some(format!("{hiding:?} hides the subject: name it"))
}

/// What is wrong with the prose of a folder or page.
fn findings(place: &str) -> Vec<String> {
    let path = root().join(place);
    let all = if path.is_file() { vec![path] } else { files(&path, &["c", "h", "md", "rs", "py"]) };
    let mut found = Vec::new();
    for path in all {
        for (line, text) in of(&path) {
            for sentence in sentences(&text) {
                if let Some(fault) = fault(sentence) {
                    found.push(format!("{}:{line}: {fault}: {sentence}", shown(&path)));
                }
            }
        }
    }
    found
}

#[test]
fn sentences_are_short_and_name_their_subject() {
    let waits = |finding: &String| NOT_YET_READ.iter().any(|place| finding.starts_with(place));
    report(READ.iter().flat_map(|place| findings(place)).filter(|finding| !waits(finding)).collect());
}

/// Everything with prose has been read, or waits for it; what is clean waits no more.
#[test]
fn what_is_not_read_yet_is_known() {
    let mut found = Vec::new();
    for place in NOT_YET_READ {
        if findings(place).is_empty() {
            found.push(format!("{place} has no faults: take it off the list"));
        }
    }
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let prose = path.is_dir() || name.ends_with(".md");
        let listed = name.starts_with('.') || name == "target" || READ.contains(&name.as_str());
        if prose && !listed && !findings(&name).is_empty() {
            found.push(format!("{name} has faults and is not in the list"));
        }
    }
    report(found);
}

/// The phrases of the table in `STYLE.md`, each with what is better.
fn phrases(style: &str) -> Vec<(String, String)> {
    let (_, section) = style.split_once("\n### Phrases\n").expect("STYLE.md has the section");
    let section = section.split("\n## ").next().unwrap();
    let rows =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let of_row = |(phrases, better): (&str, &str)| {
        let better = better.to_string();
        phrases.split(", ").map(|phrase| (phrase.to_string(), better.clone())).collect::<Vec<_>>()
    };
    rows.skip(1).flat_map(of_row).collect()
}

/// A text's words in lower case, one blank around each, so that a phrase is found whatever breaks its line.
fn spoken(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_string(), |mut all, word| {
        all.push_str(&word.to_lowercase());
        all.push(' ');
        all
    })
}

/// The first phrase of the list in a text, with what is better.
fn phrase_in(text: &str, phrases: &[(String, String)]) -> Option<String> {
    let spoken = spoken(text);
    let (phrase, better) = phrases.iter().find(|(phrase, _)| spoken.contains(&format!(" {phrase} ")))?;
    Some(format!("{phrase:?} reads as translated: {better}"))
}

/// The help texts: comments of the arguments, and the texts behind them.
fn of_help(text: &str) -> Vec<Paragraph> {
    let bare = |line| str::trim_end_matches(str::trim(line), '\\').trim_start_matches("///");
    paragraphs(text.lines().enumerate().map(|(at, line)| (at + 1, bare(line))))
}

#[test]
fn pages_and_help_have_none_of_the_listed_phrases() {
    let phrases = phrases(&fs::read_to_string(root().join("STYLE.md")).unwrap());
    assert!(phrases.len() > 15, "the table of STYLE.md is read: {phrases:?}");
    let mut found = Vec::new();
    let help = files(&root().join("crates/cli/src/args"), &["rs"]).into_iter();
    let help = help.chain([root().join("crates/cli/src/args.rs")]).map(|path| (path, true));
    let pages = files(&root(), &["md"]).into_iter().map(|path| (path, false));
    for (path, help) in pages.chain(help) {
        let text = fs::read_to_string(&path).unwrap();
        for (line, text) in if help { of_help(&text) } else { of_page(&text) } {
            if let Some(fault) = phrase_in(&text, &phrases) {
                found.push(format!("{}:{line}: {fault}: {text}", shown(&path)));
            }
        }
    }
    report(found);
}

/// What comments behind code say.
fn behind_code(text: &str) -> Vec<Paragraph> {
    let behind = |(at, line): (usize, &str)| {
        let (code, comment) = line.split_once(" // ")?;
        let whole = code.trim().is_empty() || code.trim_start().starts_with("//");
        (!whole).then(|| (at + 1, comment.to_string()))
    };
    text.lines().enumerate().filter_map(behind).collect()
}

#[test]
fn comments_have_none_of_the_listed_phrases() {
    let phrases = phrases(&fs::read_to_string(root().join("STYLE.md")).unwrap());
    let mut found = Vec::new();
    for path in REWORDED.iter().flat_map(|place| files(&root().join(place), &["c", "h", "rs", "py"])) {
        let name = shown(&path).to_string();
        if NOT_YET_REWORDED.iter().any(|place| name.starts_with(place)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let behind = if name.ends_with(".rs") { behind_code(&text) } else { Vec::new() };
        for (line, text) in of(&path).into_iter().chain(behind) {
            // Names of code are not words.
            let words: Vec<&str> = text.split('`').step_by(2).collect();
            if let Some(fault) = phrase_in(&words.join(" code "), &phrases) {
                found.push(format!("{name}:{line}: {fault}: {text}"));
            }
        }
    }
    report(found);
}

#[test]
fn phrases_are_found() {
    let phrases = phrases(
        "a\n### Phrases\n\nb\n\n| phrase | better |\n|---|---|\n| for ever, anew | again |\n\n## c\n| d | e |\n",
    );
    let named = |phrase: &str| (phrase.to_string(), "again".to_string());
    assert_eq!(phrases, [named("for ever"), named("anew")]);
    assert!(
        phrase_in("A task waits For\never, it seems.", &phrases)
            .is_some_and(|fault| fault.contains("for ever"))
    );
    assert!(phrase_in("A task waits for everything.", &phrases).is_none());
    assert_eq!(behind_code("// a // b\nlet c = 1; // d\n"), [(2, "d".to_string())]);
    assert_eq!(
        of_help("/// Waits for\n/// ever\n\na \\\nb\n"),
        [(1, "Waits for ever".to_string()), (4, "a b".to_string())]
    );
}

#[test]
fn faults_are_found() {
    let long = format!("This one has {}end.", "many ".repeat(40));
    assert!(fault(&long).is_some_and(|fault| fault.contains("44 words")));
    assert!(fault("A CPU takes whoever is first.").is_some());
    assert!(fault("A CPU takes the first task whose whole slice is left.").is_none());
    assert_eq!(
        sentences("It runs, e.g. alone. Then `x` stops. 3 wait."),
        ["It runs, e.g. alone.", "Then `x` stops.", "3 wait."]
    );
    assert_eq!(
        of_c("int a; /* one */\n/*\n * two\n *     picture\n * three\n */\n"),
        [(1, "one".to_string()), (3, "two".to_string()), (5, "three".to_string())]
    );
    assert_eq!(
        of_page("# No\n\na\nb\n| no |\n* c\n1. d\n"),
        [(3, "a b".to_string()), (6, "c".to_string()), (7, "d".to_string())]
    );
}
