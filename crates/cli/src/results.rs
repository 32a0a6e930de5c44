//! What every command does with its results: tables to standard output, everything
//! to the files that were asked for.

use crate::args::ResultArgs;
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_report::{Document, HtmlPage, to_csv, to_html, to_json};

/// The files asked for, checked before the work begins.
#[derive(Debug)]
pub(crate) struct Results {
    json: Option<Target>,
    csv: Option<Target>,
    html: Option<Target>,
}

impl Results {
    /// Checks the paths.
    ///
    /// # Errors
    /// A path that cannot be a file, or one that two options ask for.
    pub(crate) fn new(args: &ResultArgs) -> Result<Results, Failure> {
        let target = |option, path: &Option<std::path::PathBuf>| {
            path.as_deref().map(|path| Target::new(option, path)).transpose()
        };
        let results = Results {
            json: target("--json", &args.json)?,
            csv: target("--csv", &args.csv)?,
            html: target("--html", &args.html)?,
        };
        target::distinct(results.targets())?;
        Ok(results)
    }

    /// The files that were asked for.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.json, &self.csv, &self.html].into_iter().flatten()
    }

    /// As [`Results::write_beside`], with nothing beside.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn write(
        &self,
        tables: &str,
        document: &Document,
        notes: &[(String, String)],
    ) -> Result<(), Failure> {
        self.write_beside(tables, document, notes, &[])
    }

    /// Prints the tables, unless a file goes to standard output in their place, and
    /// writes all files and those beside. A file that fails keeps nothing else from being written.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub(crate) fn write_beside(
        &self,
        tables: &str,
        document: &Document,
        notes: &[(String, String)],
        beside: &[(&Target, String)],
    ) -> Result<(), Failure> {
        let mut failure = None;
        let mut keep = |result: Result<(), Failure>| {
            if let Err(error) = result {
                failure.get_or_insert(error);
            }
        };
        if !self.targets().chain(beside.iter().map(|(target, _)| *target)).any(Target::is_stdout) {
            keep(output::print(tables));
        }
        beside.iter().for_each(|(target, text)| keep(target.write(text)));
        if let Some(target) = &self.json {
            keep(target.write(&to_json(document)));
        }
        if let Some(target) = &self.csv {
            keep(target.write(&to_csv(&document.runs, &document.goals)));
        }
        if let Some(target) = &self.html {
            let page = HtmlPage { title: document.title(), command: command_line(), notes: notes.to_vec() };
            keep(target.write(&to_html(&page, document)));
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The command as it was given, quoted for a shell.
pub(crate) fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@+%".contains(c);
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .enumerate()
        .map(|(index, word)| match index {
            0 => "schedlab".to_string(),
            _ if !word.is_empty() && word.chars().all(plain) => word,
            _ => format!("'{}'", word.replace('\'', "'\\''")),
        })
        .collect::<Vec<_>>()
        .join(" ")
}
