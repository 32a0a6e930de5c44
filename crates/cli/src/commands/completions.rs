//! `completions`: what the argument parser knows of itself, with the names that there are.
//!
//! The generators complete fixed values only: no lists (`vanilla,o1`), no files beside names, in fish no values of
//! positional arguments. So a mark stands for the names while the generator works, and is replaced in its text by a call
//! of a function in the shell's own language.

use super::reproduce;
use crate::args::{Cli, CompletionsArgs};
use crate::output;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgGroup, Command, CommandFactory, Id};
use clap_complete::Shell;
use schedlab_lab::failure::Failure;
use schedlab_lab::machine::host::HOST;
use schedlab_lab::scheduler::{FAIR, SWAP};
use schedlab_lab::shipped::{MACHINES, SCHEDULERS};
use schedlab_workload::catalog;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = args.shell;
    let mut command = with_values(|arg| match mark(arg.get_id().as_str()) {
        Some(mark) => arg.value_parser(PossibleValuesParser::new([kept(mark)])),
        None => arg,
    });
    if shell == Shell::Zsh {
        command = with_zsh_names(command);
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "schedlab", &mut text);
    let text = String::from_utf8_lossy(&text);
    output::print_exact(&match shell {
        Shell::Bash => bash(&text),
        Shell::Zsh => zsh(&text),
        Shell::Fish => fish(&text),
        // Their generators leave values to the shell.
        _ => text.into_owned(),
    })
}

/// What an argument takes that has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// One name, or a file.
    NameOrFile,
    /// Names and files, separated by commas.
    List,
    /// One name.
    Name,
}

/// The arguments that take names, as the parser calls them.
const ARGUMENTS: [(&str, Takes); 8] = [
    ("scheduler", Takes::NameOrFile),
    ("schedulers", Takes::List),
    ("object", Takes::NameOrFile),
    ("workload", Takes::NameOrFile),
    ("workloads", Takes::NameOrFile),
    ("machine", Takes::NameOrFile),
    ("document", Takes::Name),
    ("names", Takes::Name),
];

/// The names that an argument takes; nothing for another argument.
fn names(argument: &str) -> Option<Vec<String>> {
    let schedulers = || {
        let shipped = SCHEDULERS.iter().flat_map(|one| [one.name.to_string(), format!("{}{SWAP}", one.name)]);
        std::iter::once(FAIR.to_string()).chain(shipped)
    };
    let workloads = || catalog::list().iter().map(|workload| workload.name.to_string());
    let machines = || MACHINES.iter().map(|(name, _)| (*name).to_string());
    match argument {
        "scheduler" | "schedulers" | "object" => Some(schedulers().collect()),
        "workload" | "workloads" => Some(workloads().collect()),
        "machine" => Some(machines().chain([HOST.to_string()]).collect()),
        "document" => Some(reproduce::names().into_iter().map(String::from).collect()),
        "names" => Some(schedulers().chain(workloads()).chain(machines()).collect()),
        _ => None,
    }
}

/// The parser as the manual pages show it: arguments that take a name say which there are.
pub(super) fn with_names() -> Command {
    with_values(|arg| match names(arg.get_id().as_str()) {
        Some(names) => arg.value_parser(PossibleValuesParser::new(names.into_iter().map(kept))),
        None => arg,
    })
}

/// The parser without what is hidden, its arguments that take values changed.
fn with_values(change: impl Fn(Arg) -> Arg + Copy) -> Command {
    let all = Cli::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| {
        let shown = shown(command);
        shown.mut_args(|arg| if arg.get_action().takes_values() { change(arg) } else { arg })
    });
    shown(&all).subcommands(commands)
}

/// A command without its subcommands and its hidden arguments.
fn shown(command: &Command) -> Command {
    let args: Vec<Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned().collect();
    let is_shown = |id: &&Id| args.iter().any(|arg| arg.get_id() == *id);
    // What an argument conflicts with may be a group.
    let groups = command.get_groups().map(|group| {
        let members: Vec<Id> = group.get_args().filter(is_shown).cloned().collect();
        ArgGroup::new(group.get_id().clone()).multiple(true).args(members)
    });
    let groups: Vec<ArgGroup> = groups.collect();
    let mut shown = Command::new(kept(command.get_name().to_string())).args(args).groups(groups);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        shown = shown.after_help(after.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(kept(version.to_string()));
    }
    shown
}

/// A text for the parser, which takes only texts that stay for ever; this command is short.
fn kept(text: String) -> &'static str {
    text.leak()
}

/// What stands for the names of an argument until the shell's text is complete.
fn mark(argument: &str) -> Option<String> {
    ARGUMENTS.iter().any(|(known, _)| *known == argument).then(|| format!("@{argument}@"))
}

/// Replaces in `text` what `pattern` makes of each argument's mark by what `call` makes of its names.
fn replaced(
    text: &str,
    pattern: impl Fn(&str) -> String,
    call: impl Fn(&str, Takes, &str) -> String,
) -> String {
    ARGUMENTS.iter().fold(text.to_string(), |text, (argument, takes)| {
        let names = names(argument).unwrap_or_default().join(" ");
        text.replace(&pattern(&format!("@{argument}@")), &call(argument, *takes, &names))
    })
}

/// Bash completes files by itself where no name fits.
fn bash(text: &str) -> String {
    const LIST: &str = "\
_schedlab_list() {
    local before=
    if [[ $2 == *,* ]] ; then
        before=\"${2%,*},\"
    fi
    compgen -P \"$before\" -W \"$1\" -- \"${2#\"$before\"}\"
}

";
    let text = replaced(
        text,
        |mark| format!("$(compgen -W \"{mark}\" -- \"${{cur}}\")"),
        |_, takes, names| match takes {
            Takes::List => format!("$(_schedlab_list \"{names}\" \"${{cur}}\")"),
            _ => format!("$(compgen -W \"{names}\" -- \"${{cur}}\")"),
        },
    );
    // Those of positional arguments stand among the options.
    let text = replaced(&text, str::to_string, |_, _, names| names.to_string());
    format!("{LIST}{text}")
}

/// In zsh the text between colons is a message; what follows the last one completes.
fn with_zsh_names(command: Command) -> Command {
    let escaped = |arg: Arg| {
        let names: Option<Vec<&str>> = arg
            .get_value_names()
            .map(|names| names.iter().map(|name| kept(name.replace(':', "\\:"))).collect());
        match names {
            Some(names) => arg.value_names(names),
            None => arg,
        }
    };
    command.mut_subcommands(|subcommand| subcommand.mut_args(escaped))
}

fn zsh(text: &str) -> String {
    const FIRST: &str = "autoload -U is-at-least\n";
    let mut functions = String::new();
    for (argument, takes) in ARGUMENTS {
        let names = names(argument).unwrap_or_default().join(" ");
        let body = match takes {
            Takes::Name => format!("compadd -- {names}"),
            Takes::NameOrFile => format!("_alternative 'names:name:({names})' 'files:file:_files'"),
            Takes::List => {
                format!("compset -P '*,'\n    _alternative 'names:name:({names})' 'files:file:_files'")
            }
        };
        functions.push_str(&format!("\n_schedlab_names_{argument}() {{\n    {body}\n}}\n"));
    }
    let text =
        replaced(text, |mark| format!("({mark})"), |argument, _, _| format!("_schedlab_names_{argument}"));
    text.replacen(FIRST, &format!("{FIRST}{functions}"), 1)
}

/// Words for fish without a description, which were that of the whole argument.
fn undescribed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("{word}\\t''")).collect::<Vec<_>>().join(" ")
}

fn fish(text: &str) -> String {
    const LIST: &str = "\
function __schedlab_list
    set -l before (string match -r '^.*,' -- (commandline -ct | string replace -r '^--?[a-z]+=' ''))
    printf '%s\\t\\n' $before$argv
end

";
    let text = replaced(
        text,
        |mark| format!("-r -f -a \"{mark}\\t''\""),
        |_, takes, names| match takes {
            Takes::Name => format!("-r -f -a \"{}\"", undescribed(names.split(' '))),
            Takes::NameOrFile => format!("-r -F -a \"{}\"", undescribed(names.split(' '))),
            Takes::List => format!("-r -F -a \"(__schedlab_list {names})\""),
        },
    );
    let mut text = format!("{LIST}{text}");
    for command in with_names().get_subcommands() {
        let under =
            format!("complete -c schedlab -n \"__fish_schedlab_using_subcommand {}\"", command.get_name());
        for argument in command.get_positionals() {
            let values = argument.get_possible_values();
            let takes = ARGUMENTS.iter().find(|(known, _)| *known == argument.get_id().as_str());
            let files = if takes.is_some_and(|(_, takes)| *takes == Takes::NameOrFile) { "-F" } else { "-f" };
            if !values.is_empty() {
                text.push_str(&format!(
                    "{under} {files} -a \"{}\"\n",
                    undescribed(values.iter().map(PossibleValue::get_name))
                ));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_stays_and_nothing_hidden_shows() {
        for argument in ARGUMENTS {
            assert!(names(argument.0).is_some_and(|names| !names.is_empty()), "{argument:?}");
        }
        let command = with_names();
        assert!(command.get_subcommands().all(|command| command.get_name() != "guest-list"));
        let run = command.find_subcommand("run").unwrap();
        assert!(run.get_arguments().all(|arg| arg.get_id() != "as_guest"));
    }
}
