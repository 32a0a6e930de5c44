//! The help texts of all commands, held to their form, and the page of the book that is made of them.

use super::Cli;
use clap::CommandFactory;
use std::fmt::Write as _;
use std::path::Path;

fn commands() -> Vec<clap::Command> {
    let mut all = Cli::command();
    all.build();
    let subcommands: Vec<clap::Command> =
        all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    std::iter::once(all).chain(subcommands).collect()
}

#[test]
fn every_option_says_what_it_is() {
    for command in commands() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let place = format!("{} {}: {help:?}", command.get_name(), arg.get_id());
            assert!(help.len() > 5 && !help.ends_with("without"), "{place}");
        }
    }
}

/// A paragraph is one line, which the width of the terminal breaks; examples keep their lines.
#[test]
fn paragraphs_are_broken_once() {
    for command in commands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_example = |paragraph: &&str| paragraph.lines().any(|line| line.starts_with("  "));
        for paragraph in after.split("\n\n").filter(|paragraph| !is_example(paragraph)) {
            assert!(!paragraph.trim_end().contains('\n'), "{}: {paragraph}", command.get_name());
        }
    }
}

/// What a reader sees first: the options without a heading of their own, and where results go.
#[test]
fn the_first_page_is_short() {
    for command in commands() {
        let first =
            |arg: &&clap::Arg| !arg.is_hide_set() && matches!(arg.get_help_heading(), None | Some("Results"));
        let names: Vec<_> = command.get_arguments().filter(first).map(|arg| arg.get_id().as_str()).collect();
        assert!(names.len() <= 20, "{}: {} options: {names:?}", command.get_name(), names.len());
    }
}

/// A cell of a table: one line without the mark between cells.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// `-s`, `--scheduler NAME|FILE`; or `NAME...` for what has no flag.
fn flag(arg: &clap::Arg) -> String {
    let names: Vec<String> =
        arg.get_value_names().into_iter().flatten().map(|name| name.replace('|', "\\|")).collect();
    let takes = arg.get_action().takes_values();
    let value = if takes { names.join(" ") } else { String::new() };
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let long = arg.get_long().map(|long| format!("`{}`", format!("--{long} {value}").trim_end()));
    let all: Vec<String> = short.into_iter().chain(long).collect();
    if all.is_empty() { format!("`{value}`") } else { all.join(", ") }
}

fn row(page: &mut String, arg: &clap::Arg) {
    let mut means = cell(&arg.get_help().map(ToString::to_string).unwrap_or_default());
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !arg.is_hide_default_value_set() && arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(means, " [default: {}]", cell(&defaults.join(",")));
    }
    let _ = writeln!(page, "| {} | {means} |", flag(arg));
}

/// `docs/options.md`.
fn options_page() -> String {
    let mut page = "# All options\n\nThe words of `schedlab COMMAND --help`, which this page is made of: \
        `SCHEDLAB_BLESS=1 cargo test -p schedlab --bins options` writes it.\n"
        .to_string();
    for command in commands() {
        let name = if command.get_name() == "schedlab" {
            "Every command".into()
        } else {
            format!("`{}`", command.get_name())
        };
        let global = command.get_name() == "schedlab";
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(
            page,
            "\n## {name}\n\n{}.\n\n| option | means |\n|---|---|\n",
            cell(&about).trim_end_matches('.')
        );
        let shown = |arg: &&clap::Arg| {
            !arg.is_hide_set() && arg.get_id() != "help" && (global || !arg.is_global_set())
        };
        let args: Vec<&clap::Arg> = command.get_arguments().filter(shown).collect();
        let mut headings: Vec<Option<&str>> = Vec::new();
        for heading in args.iter().map(|arg| arg.get_help_heading()) {
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        headings.sort_by_key(Option::is_some);
        for heading in headings {
            if let Some(heading) = heading.filter(|heading| *heading != "Options" && *heading != "Arguments")
            {
                let _ = writeln!(page, "| **{heading}** | |");
            }
            args.iter().filter(|arg| arg.get_help_heading() == heading).for_each(|arg| row(&mut page, arg));
        }
    }
    page
}

#[test]
fn the_page_of_options_is_what_the_parser_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let page = options_page();
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let differs = kept.lines().zip(page.lines()).find(|(kept, page)| kept != page);
    assert!(
        kept == page,
        "docs/options.md is not what the parser says (SCHEDLAB_BLESS=1 writes it): {differs:?}"
    );
}
