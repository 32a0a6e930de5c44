//! `man`: what the argument parser knows of itself, with the tables of the book that hold for all commands.

use super::completions::with_names;
use crate::args::ManArgs;
use crate::output;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::Target;
use std::io;
use std::path::Path;

/// The page of the book that says what holds for all commands; its tables stand in the manual pages as well.
const REFERENCE: &str = include_str!("../../../../docs/command-line.md");

/// Sections of the manual pages: heading, and what the first row of the table says in [`REFERENCE`].
const SECTIONS: [(&str, &str); 3] = [
    ("EXIT STATUS", "| exit code | means |"),
    ("ENVIRONMENT", "| variable | means |"),
    ("FILES", "| file | means |"),
];

/// Prints the main manual page, or writes all pages into a folder.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = with_names();
    command.build();
    let Some(folder) = &args.folder else {
        return output::print_exact(&page(command, "schedlab", Path::new("-"))?);
    };
    if !folder.is_dir() {
        let text = format!("man {}: not a folder; make it first", folder.display());
        return Err(Failure::usage(text));
    }
    let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
    write_page(folder, command, "schedlab")?;
    for subcommand in subcommands {
        if subcommand.get_name() != "help" {
            let name = format!("schedlab-{}", subcommand.get_name());
            write_page(folder, subcommand, &name)?;
        }
    }
    Ok(())
}

fn write_page(folder: &Path, command: Command, name: &str) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    let text = page(command, name, &path)?;
    Target::new("man", &path)?.write(&text)
}

fn page(command: Command, name: &str, path: &Path) -> Result<String, Failure> {
    let text = rendered(command, name);
    let text = text.map_err(|error| Failure::environment(format!("man {}: {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn rendered(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let mut text = Vec::new();
    Man::new(command.name(name)).render(&mut text)?;
    for (heading, first_row) in SECTIONS {
        let mut section = Roff::new();
        section.control("SH", [heading]);
        for (what, means) in rows(first_row) {
            section.control("TP", []);
            section.text([bold(what)]);
            section.text([roman(means)]);
        }
        section.to_writer(&mut text)?;
    }
    // The parser has no name for what stands behind the options: examples, and words about them.
    let text = String::from_utf8_lossy(&text).replace("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n");
    Ok(text.into_bytes())
}

/// The rows of a table of [`REFERENCE`] that begins with `first_row`, as plain text.
fn rows(first_row: &str) -> Vec<(String, String)> {
    let lines = REFERENCE.lines().skip_while(|line| *line != first_row).skip(2);
    let row = |line: &str| {
        let (what, means) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((plain(what), plain(means)))
    };
    lines.map_while(row).collect()
}

/// Markdown without its marks for code and links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](") {
        plain.push_str(&before.replacen('[', "", 1));
        rest = link.split_once(')').map_or("", |(_, rest)| rest);
    }
    (plain + rest).replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_book_become_sections() {
        for (heading, first_row) in SECTIONS {
            assert!(!rows(first_row).is_empty(), "{heading}: no table `{first_row}` in docs/command-line.md");
        }
        let (code, means) = &rows(SECTIONS[0].1)[0];
        assert_eq!((code.as_str(), means.as_str()), ("0", "done"));
    }

    #[test]
    fn links_and_code_become_text() {
        assert_eq!(plain("see [that page](a.md#b) and `x`"), "see that page and x");
    }
}
