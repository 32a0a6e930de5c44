//! `completions` and `man`: what the argument parser knows of itself.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output;
use crate::target::Target;
use clap::CommandFactory;
use std::path::Path;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "schedlab", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Prints the main manual page, or writes all pages into a folder.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &args.folder else {
        return output::print(&page(command, "schedlab", Path::new("-"))?);
    };
    if !folder.is_dir() {
        let text = format!("man {}: not a folder; make it first", folder.display());
        return Err(Failure::usage(text));
    }
    let subcommands: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    write_page(folder, command, "schedlab")?;
    for subcommand in subcommands {
        if subcommand.get_name() != "help" {
            let name = format!("schedlab-{}", subcommand.get_name());
            write_page(folder, subcommand, &name)?;
        }
    }
    Ok(())
}

fn write_page(folder: &Path, command: clap::Command, name: &str) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    let text = page(command, name, &path)?;
    Target::new("man", &path)?.write(&text)
}

fn page(command: clap::Command, name: &str, path: &Path) -> Result<String, Failure> {
    let mut text = Vec::new();
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    clap_mangen::Man::new(command.name(name))
        .render(&mut text)
        .map_err(|error| Failure::environment(format!("man {}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
