//! Results as Markdown for a pull request: the outcome, a table, warnings, and what it takes to repeat them.
//!
//! Foreign names stand in spans and blocks of code, in which no mark, link or mention of a person is read.

use crate::cells::{cell_of, distinct, scheduler_label};
use crate::comparison::{Comparison, Sample};
use crate::comparison_table::{change, verdict_text};
use crate::format::number;
use crate::gate::Gate;
use crate::in_words::in_words;
use crate::json::Document;
use crate::names::{cell, visible};
use crate::workload_names::WorkloadNames;
use schedlab_base::counted;
use std::fmt::Write as _;

/// Hexadecimal digits of a hash that a table shows. Chosen: as many as `git` takes for certain.
const DIGITS: usize = 16;

/// What stands around the results.
#[derive(Clone, Debug, Default)]
pub struct MarkdownNotes {
    /// The command, as for a shell.
    pub command: String,
    /// Further lines: where a kept baseline comes from.
    pub lines: Vec<String>,
}

/// Writes the comparisons that `shown` names by workload and metric.
pub fn to_markdown(
    document: &Document,
    gate: &Gate,
    shown: impl Fn(&str, &str) -> bool,
    notes: &MarkdownNotes,
) -> String {
    let is_shown = |c: &&Comparison| shown(&c.cell.workload.name, &c.metric);
    let owned: Vec<Comparison> = document.comparisons.iter().filter(is_shown).cloned().collect();
    let comparisons: Vec<&Comparison> = owned.iter().collect();
    let mut page = outcome(gate, &comparisons);
    let words: Vec<String> = in_words(&owned, &document.runs).lines().map(str::to_string).collect();
    if !words.is_empty() {
        let _ = write!(page, "\n{}", block("text", &words));
    }
    page.push_str(&table(document, &comparisons));
    for line in &notes.lines {
        let _ = writeln!(page, "\n{}", code(line));
    }
    let warnings = document.warnings();
    if !warnings.is_empty() {
        let _ = write!(page, "\n**{}**\n\n{}", counted(warnings.len(), "warning"), block("text", &warnings));
    }
    page.push_str("\n<details><summary>What was compared, and how to repeat it</summary>\n\n");
    page.push_str(&hashes(document));
    let _ = write!(page, "\n{}\n</details>\n", block("sh", std::slice::from_ref(&notes.command)));
    page
}

/// The heading with the outcome, and the reasons.
fn outcome(gate: &Gate, comparisons: &[&Comparison]) -> String {
    let reasons: Vec<String> = gate.reasons().map(str::to_string).collect();
    let verdicts = distinct(comparisons.iter().map(|c| c.verdict.name()));
    let count = |name: &&str| comparisons.iter().filter(|c| c.verdict.name() == *name).count();
    let verdicts: Vec<String> = verdicts.iter().map(|name| format!("{} {name}", count(name))).collect();
    let word = match (reasons.is_empty(), gate.asked.is_empty()) {
        (false, _) => "failed",
        (true, false) => "passed",
        (true, true) => "compared",
    };
    let verdicts = if verdicts.is_empty() { "none".to_string() } else { verdicts.join(", ") };
    let mut text = format!("### schedlab: {word}\n\nVerdicts: {verdicts}.");
    if !gate.asked.is_empty() {
        let asked: Vec<String> = gate.asked.iter().map(|asked| code(asked)).collect();
        let _ = write!(text, " Gate ({}): {}.", asked.join(", "), gate.summary());
    }
    text.push('\n');
    if !reasons.is_empty() {
        let _ = write!(text, "\n{}", block("text", &reasons));
    }
    text
}

/// A row for each scheduler that is compared with the baseline.
fn table(document: &Document, comparisons: &[&Comparison]) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let names = WorkloadNames::of(document.runs.iter().map(|run| &run.workload));
    let mut text = String::from(
        "\n| workload | CPUs | metric | baseline | mean | scheduler | mean | change | verdict |\n|---|--:|---|---|--:|---|--:|--:|---|\n",
    );
    let mean = |sample: &Sample| {
        let width = sample.half_width.map(|width| format!(" ± {}", number(width))).unwrap_or_default();
        format!("{}{width}", number(sample.moments.mean))
    };
    for c in comparisons {
        let unit = if c.unit == "1" { String::new() } else { format!(", {}", c.unit) };
        let cells = [
            code(names.get(&c.cell.workload)),
            c.cell.cpus.to_string(),
            code(&format!("{}{unit}", c.metric)),
            code(&c.baseline.scheduler),
            mean(&c.baseline),
            code(&c.candidate.scheduler),
            mean(&c.candidate),
            change(c),
            verdict_text(c),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    if let Some(first) = comparisons.first() {
        let runs = counted(first.candidate.values.len(), "run");
        let level = first.level_percent;
        let _ = writeln!(
            text,
            "\n{runs} of each; intervals at {level} %; backend {}.",
            first.cell.backend.name()
        );
    }
    text
}

/// What the runs were made of.
fn hashes(document: &Document) -> String {
    let runs = &document.runs;
    let mut rows: Vec<(String, String)> = Vec::new();
    for run in runs {
        let of = &run.provenance;
        let scheduler = of.object.as_deref().unwrap_or("no object: the kernel's own class");
        let machine = format!("machine {} with {}", run.machine, counted(run.cpus, "CPU"));
        rows.push((format!("scheduler {}", scheduler_label(run)), scheduler.to_string()));
        let workload = crate::workload_names::workload_text(&run.workload);
        let first = runs.iter().find(|first| cell_of(first) == cell_of(run)).map(|first| first.seed);
        if first == Some(run.seed) {
            let name = format!("workload {workload}, seed {}", run.seed);
            rows.extend(of.workload.clone().map(|hash| (name, hash)));
        }
        rows.extend(of.machine.clone().map(|hash| (machine, hash)));
        rows.extend(of.build.clone().map(|build| ("build of schedlab".to_string(), build)));
    }
    let mut text = String::from("| what | SHA-256 |\n|---|---|\n");
    for (what, hash) in distinct(rows.into_iter()) {
        let is_hash = hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit());
        let short = if is_hash { &hash[..DIGITS] } else { &hash };
        let _ = writeln!(text, "| {} | {} |", code(&what), code(short));
    }
    text
}

/// A span of code, in a table or outside: nothing in it is a mark.
fn code(text: &str) -> String {
    let text = cell(text).replace('`', "'").replace('|', "\\|");
    // A span that is empty or begins with a blank would be read in another way.
    let text = text.trim();
    if text.is_empty() { "` `".to_string() } else { format!("`{text}`") }
}

/// A block of code whose fence is longer than any in it.
fn block(language: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| visible(line).into_owned()).collect();
    let ticks = lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(ticks.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::runs;
    use crate::names::tests::nasty;
    use schedlab_stats::Level;

    fn page(name: &str) -> String {
        let mut runs = runs(&[20.0, 21.0, 20.5], &[10.0, 11.0, 10.6]);
        for run in &mut runs {
            run.workload.name = name.to_string();
            run.warnings[0].text = name.to_string();
            if run.scheduler == "o1" {
                run.scheduler = name.to_string();
            }
        }
        let comparisons = compare(&runs, Level::P95, 1.0);
        let document = Document { runs, comparisons, ..Document::default() };
        let notes = MarkdownNotes { command: format!("schedlab {name}"), lines: vec![name.to_string()] };
        to_markdown(&document, &Gate::default(), |_, metric| metric == "throughput", &notes)
    }

    #[test]
    fn a_page_has_table_hashes_and_command() {
        let text = page("slower");
        for part in [
            "### schedlab: compared\n\nVerdicts: 1 worse.\n",
            "```text\nOn 2 CPUs, throughput of slower is ",
            "| `slower` | 2 | `throughput, messages/s` | `vanilla` | 20.500 ± 1.242 | `slower` |",
            "| `scheduler slower` | `ab12` |",
            "```sh\nschedlab slower\n```",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn no_name_leaves_its_cell_or_block() {
        let usual = page("slower");
        for name in nasty().into_iter().chain(["a|b`c``` @d <b>".to_string(), "```\n# x".to_string()]) {
            let text = page(&name);
            let shape = |text: &str| {
                let pipes = |line: &str| line.replace("\\|", "").matches('|').count();
                text.lines().filter(|line| line.starts_with('|')).map(pipes).collect::<Vec<_>>()
            };
            assert_eq!(shape(&text), shape(&usual), "{text}");
            assert_eq!(text.matches("<details>").count(), 1);
            let outside: String = text.lines().filter(|line| line.starts_with('|')).collect();
            assert!(outside.matches('`').count().is_multiple_of(2), "{outside}");
        }
    }
}
