//! What a gate says of results: its checks, which of them failed, and the annotations that CI systems show.

use crate::cells::Cell;
use crate::json::Document;
use crate::names::visible;
use schedlab_base::counted;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that was asked for stands against it.
    Passed,
    /// The reason, on one line.
    Failed(String),
    /// Why the figures do not allow an answer.
    Undecided(String),
}

/// One check: of a scheduler's metric, of a budget, or of how far its runs count.
#[derive(Clone, Debug, PartialEq)]
pub struct GateCheck {
    /// Where.
    pub cell: Cell,
    /// The scheduler with its settings.
    pub scheduler: String,
    /// What is checked: a metric, `budget enqueue`, `standing`.
    pub what: String,
    /// The figures, for readers: the change with its interval and the verdict.
    pub found: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// A gate that results have passed or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// The conditions as they were given: `--fail-on worse`.
    pub asked: Vec<String>,
    /// Its checks, in the order of the runs.
    pub checks: Vec<GateCheck>,
}

impl Gate {
    /// Why checks failed, in their order.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            Outcome::Failed(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The first reason on one line, and how many there are.
    pub fn failure(&self) -> Option<String> {
        let first = self.reasons().next()?;
        let count = self.reasons().count();
        let more = if count > 1 { format!("; {count} checks failed in all") } else { String::new() };
        Some(format!("{first}{more}"))
    }

    /// How many checks passed, failed, and were not decided.
    pub fn summary(&self) -> String {
        let failed = self.reasons().count();
        let undecided = self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Undecided(_)));
        let undecided = undecided.count();
        let checks = counted(self.checks.len(), "check");
        let passed = self.checks.len() - failed - undecided;
        format!("{checks}: {passed} passed, {failed} failed, {undecided} not decided")
    }

    /// The gate as the last lines of a comparison's text; nothing where nothing was asked for.
    pub fn text(&self) -> String {
        if self.asked.is_empty() {
            return String::new();
        }
        let reasons: String = self.reasons().map(|reason| format!("* {reason}\n")).collect();
        format!("\ngate ({}): {}\n{reasons}", self.asked.join(", "), self.summary())
    }

    /// Workflow commands of GitHub Actions: an error for each failed check, a warning for each doubt about figures, and the summary.
    pub fn github(&self, document: &Document) -> String {
        let errors = self.reasons().map(|reason| annotation("error", "schedlab gate", reason));
        let doubts = document.doubts();
        let doubts = doubts.iter().map(|doubt| annotation("warning", "schedlab", doubt));
        let summary = annotation("notice", "schedlab gate", &self.summary());
        errors.chain(doubts).chain([summary]).collect()
    }
}

/// A line that GitHub's runner reads as a command.
fn annotation(command: &str, title: &str, text: &str) -> String {
    let data = |text: &str| {
        let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        visible(&text).into_owned()
    };
    let property = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{command} title={property}::{}\n", data(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::cell_of;
    use crate::made_up::run;
    use crate::names::is_hidden;
    use crate::names::tests::nasty;

    fn check(outcome: Outcome) -> GateCheck {
        let (scheduler, what) = ("o1".to_string(), "throughput".to_string());
        GateCheck { cell: cell_of(&run("o1", 1, 1.0)), scheduler, what, found: String::new(), outcome }
    }

    #[test]
    fn reasons_are_counted() {
        let failed = |text: &str| check(Outcome::Failed(text.to_string()));
        let undecided = check(Outcome::Undecided("bars".to_string()));
        let checks = vec![check(Outcome::Passed), failed("a"), undecided, failed("b")];
        let gate = Gate { asked: vec!["--fail-on worse".to_string()], checks };
        assert_eq!(gate.failure().unwrap(), "a; 2 checks failed in all");
        assert_eq!(gate.summary(), "4 checks: 1 passed, 2 failed, 1 not decided");
        assert!(gate.text().ends_with("\n* a\n* b\n"));
        assert_eq!((Gate::default().failure(), Gate::default().text()), (None, String::new()));
    }

    #[test]
    fn no_name_makes_a_command_of_its_own() {
        assert_eq!(annotation("error", "a:b,c", "5 %\n::x"), "::error title=a%3Ab%2Cc::5 %25%0A::x\n");
        for name in nasty() {
            let line = annotation("error", &name, &name);
            assert!(line.starts_with("::error title="), "{line}");
            assert!(line.ends_with('\n') && !line[..line.len() - 1].contains(is_hidden), "{line:?}");
        }
    }
}
