//! `schedlab`: a laboratory for Linux CPU schedulers.
//!
//! Five steps: take on a special role (a VM's first process, a task of a workload);
//! parse; run a subcommand; tell its failure; exit with its code.

mod args;
mod commands;
mod confine;
mod cpu_counts;
mod gate;
mod output;
mod progress;
mod results;
mod typed;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use schedlab_base::did_you_mean;
use schedlab_lab::failure::{Code, Failure};
use schedlab_lab::files::stdout::stdout_failure;
use schedlab_lab::run::{batch, defect};
use schedlab_lab::workload;
use schedlab_live::signals;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::listen();
    defect::install();
    schedlab_live::enter();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return parse_failure(&error),
    };
    workload::follow(cli.rt_app, cli.quiet);
    finish(defect::guard(|| "the command".to_string(), || run(&cli)))
}

/// Tells a failure, and gives the exit code. Where the reader of standard output went away and nothing else failed, the command
/// ends as every Unix tool does: silently, by SIGPIPE.
fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.code == Code::Done => {
            signals::end_by(signals::PIPE);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            if !failure.text.is_empty() {
                output::error(&failure.to_string());
            }
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::List(args) => commands::list(args, cli.verbose),
        Command::Sim(args) => commands::sim(args, cli.quiet, cli.verbose),
        Command::Compare(args) => commands::compare(args, cli.quiet, cli.verbose),
        Command::Calibrate(args) => commands::calibrate(args, cli.quiet),
        Command::Fidelity(args) => commands::fidelity(args, cli.quiet, cli.verbose),
        Command::GuestList => batch::run_list(),
        Command::Bench(args) => commands::bench(args, cli.quiet, cli.verbose),
        Command::Reproduce(args) => commands::reproduce(args, cli.quiet),
        Command::Run(args) => commands::run(args, cli.quiet, cli.verbose),
        Command::Deps(args) => commands::deps(args, cli.quiet, cli.verbose),
        Command::Hunt(args) => commands::hunt(args, cli.quiet),
        Command::Check(args) => commands::check(args, cli.quiet),
        Command::Judge(args) => commands::judge(args, cli.quiet),
        Command::New(args) => commands::new(args, cli.quiet),
        Command::Show(args) => commands::show(args, cli.quiet, cli.verbose),
        Command::Stat(args) => commands::stat(args, cli.quiet),
        Command::SchedSamples(args) => commands::sched_samples(args, cli.quiet),
        Command::Schema(args) => commands::schema(args),
        Command::Mcp => commands::mcp(),
        Command::Completions(args) => commands::completions(args),
        Command::Man(args) => commands::man(args),
    }
}

/// Help and version are results; anything else is one line.
fn parse_failure(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Colours only where the terminal and NO_COLOR allow.
            finish(error.print().map_err(|error| stdout_failure(&error)))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::help_as_error(&error.render().to_string());
            ExitCode::from(Code::Usage as u8)
        }
        _ => {
            output::error(&one_line(&in_words(error)));
            ExitCode::from(Code::Usage as u8)
        }
    }
}

/// The parser's message. For a malformed number it says what to write.
fn in_words(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use std::num::{IntErrorKind, ParseIntError};
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg)
        && !found.starts_with('-')
    {
        let words = error.render().to_string().lines().next().unwrap_or_default().replace("error: ", "");
        return format!("{words}; several schedulers are one list with commas: -s A,B");
    }
    if let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg)
        && found.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return format!("'{found}' is negative, or no flag; numbers and times start at 0");
    }
    if let (Some(ContextValue::String(found)), None) =
        (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        let command = Cli::command();
        let near = did_you_mean(found, command.get_subcommands().map(clap::Command::get_name));
        return format!("error: unrecognized subcommand '{found}'{near}");
    }
    let one_workload = |found: &ContextValue| found.to_string().starts_with("--workload ");
    if error.kind() == clap::error::ErrorKind::ArgumentConflict
        && error.get(ContextKind::PriorArg).is_some_and(one_workload)
        && error.get(ContextKind::InvalidArg).is_some_and(one_workload)
    {
        return "-w is given twice; `schedlab compare` takes several workloads, -w a.json+b.json puts rt-app files together"
            .to_string();
    }
    let text = error.render().to_string();
    let Some(cause) =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<ParseIntError>())
    else {
        return text;
    };
    let cure = match cause.kind() {
        IntErrorKind::Zero => "give a whole number from 1 up",
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "that is too large; give a smaller number",
        _ => "give a whole number",
    };
    text.replace(&cause.to_string(), cure)
}

/// The command that these arguments begin with, as its help is asked for.
fn command_of(mut args: impl Iterator<Item = String>) -> String {
    let command = Cli::command();
    let name = args.find(|arg| !arg.starts_with('-'));
    match name.and_then(|name| command.find_subcommand(name).map(|found| found.get_name().to_string())) {
        Some(name) if name != "help" => format!("schedlab {name}"),
        _ => "schedlab".to_string(),
    }
}

/// The parser's message without its headings: what is wrong, and what helps.
fn one_line(text: &str) -> String {
    let parts: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .map(|line| line.strip_prefix("tip: ").unwrap_or(line))
        .collect();
    // A line that announces others ends in a colon already.
    let line = parts.join("; ").replace(":; ", ": ");
    format!("{line} (see {} --help)", command_of(std::env::args().skip(1)))
}
