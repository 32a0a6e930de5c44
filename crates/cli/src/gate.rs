//! The gate of a comparison: its conditions, its files and its annotations.

use crate::args::{Annotate, GateArgs};
use crate::output;
use crate::results::{Results, command_line};
use schedlab_lab::failure::Failure;
use schedlab_lab::files::target::{self, Target};
use schedlab_lab::gate::Conditions;
use schedlab_lab::gate::budget::Budget;
use schedlab_report::{Document, MarkdownNotes, to_junit, to_markdown};

/// What the command line asks for, checked before the work begins.
#[derive(Debug)]
pub(crate) struct Gate {
    conditions: Conditions,
    junit: Option<Target>,
    markdown: Option<Target>,
    annotates: bool,
}

impl Gate {
    /// Checks conditions and paths.
    ///
    /// # Errors
    /// A path that cannot be a file, and what [`Conditions::check_runs`] refuses.
    pub(crate) fn new(args: &GateArgs, budgets: &[Budget], runs: usize) -> Result<Gate, Failure> {
        let target = |option, path: &Option<std::path::PathBuf>| {
            path.as_deref().map(|path| Target::new(option, path)).transpose()
        };
        let conditions = Conditions { fail_on: args.fail_on.clone(), budgets: budgets.to_vec() };
        conditions.check_runs(runs)?;
        let asked = !args.fail_on.is_empty() || !budgets.is_empty();
        let at_github = || asked && std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true");
        Ok(Gate {
            conditions,
            junit: target("--junit", &args.junit)?,
            markdown: target("--markdown", &args.markdown)?,
            annotates: args.annotate.map_or_else(at_github, |annotate| annotate == Annotate::Github),
        })
    }

    /// The conditions.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The files that were asked for.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.junit, &self.markdown].into_iter().flatten()
    }

    /// Refuses files in one place.
    ///
    /// # Errors
    /// The options and the path that they share.
    pub(crate) fn distinct(&self, results: &Results, record: Option<&Target>) -> Result<(), Failure> {
        target::distinct(results.targets().chain(self.targets()).chain(record))
    }

    /// Judges the results, and prints and writes them with what the gate says. The second answer is whether the gate was passed: a
    /// failure that all others precede.
    pub(crate) fn finish(
        &self,
        results: &Results,
        text: &str,
        document: &Document,
        own: impl Fn(&str, &str) -> bool,
        lines: Vec<String>,
    ) -> (Result<(), Failure>, Result<(), Failure>) {
        let judged = match self.conditions.judge(document, &own) {
            Ok(judged) => judged,
            Err(failure) => return (results.write(text, document, &[]), Err(failure)),
        };
        let mut beside = Vec::new();
        if let Some(target) = &self.junit {
            beside.push((target, to_junit(&judged, &document.runs)));
        }
        let told: String = lines.iter().map(|line| format!("\n{line}\n")).collect();
        if let Some(target) = &self.markdown {
            let notes = MarkdownNotes { command: command_line(), lines };
            let named =
                |metric: &str| self.conditions.fail_on.iter().any(|rule| rule.metric() == Some(metric));
            let shown = |workload: &str, metric: &str| own(workload, metric) || named(metric);
            beside.push((target, to_markdown(document, &judged, shown, &notes)));
        }
        let text = format!("{text}{told}{}", judged.text());
        let written = results.write_beside(&text, document, &[], &beside);
        if self.annotates {
            output::annotate(&judged.github(document));
        }
        let asked = !judged.asked.is_empty();
        let failure = judged.failure().filter(|_| asked);
        (written, failure.map_or(Ok(()), |reason| Err(Failure::failed(reason))))
    }
}
