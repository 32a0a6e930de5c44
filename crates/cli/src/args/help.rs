//! The help texts of all commands, held to their form.

use super::Cli;
use clap::CommandFactory;

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
