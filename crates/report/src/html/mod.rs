//! A report as one HTML file that needs nothing else. Pictures are in it as SVG, the script that
//! draws the time line too. It is light and dark by the reader's setting.

mod agreement;
mod comparisons;
mod distribution;
mod fidelity;
mod groups;
mod growth;
mod latency;
pub(crate) mod plot;
mod reproduction;
mod runs;
mod timeline;
mod verdicts;

pub use fidelity::fidelity_html;

use crate::cells::{first_runs, scheduler_label};
use crate::goals::{GOAL_COLUMNS, GOAL_NUMBERS, goal_rows};
use crate::json::Document;
pub(crate) use crate::names::escape;
use crate::priority_plot::priorities_svg;
use crate::waits::section as waits_section;
use crate::workload_names::workload_text;
use schedlab_base::counted;
use schedlab_trace::RunRecord;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Plots of one kind that are open at first; further ones are folded up. Chosen.
const PLOTS: usize = 6;

/// What a page says besides the results.
#[derive(Clone, Debug, Default)]
pub struct HtmlPage {
    /// The page's title.
    pub title: String,
    /// The command that makes the same results again.
    pub command: String,
    /// Text blocks, folded up in front of the tables: heading and preformatted body.
    pub notes: Vec<(String, String)>,
}

/// Escaped text of a heading: a line that is too long ends between parameters or the words of a name, not inside one.
pub(crate) fn breakable(text: &str) -> String {
    [',', ':', '_'].iter().fold(escape(text), |text, end| text.replace(*end, &format!("{end}<wbr>")))
}

/// The page around its content.
pub(crate) fn page(page: &HtmlPage, content: &str) -> String {
    let title = escape(&page.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
        breakable(&page.title)
    );
    text.push_str(&made_by(&page.command));
    for (heading, body) in &page.notes {
        let heading = format!("{}, as text", escape(heading));
        text.push_str(&folded(&heading, &format!("<pre>{}</pre>\n", escape(body))));
    }
    text.push_str(content);
    text.push_str("</main>\n");
    // Only what has a time line needs the script.
    if content.contains("<div class=\"timeline\"") {
        text.push_str(&format!("<script>\n{SCRIPT}</script>\n"));
    }
    text.push_str("</body>\n</html>\n");
    text
}

/// What made the results; a run that no command made has only the version.
fn made_by(command: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if command.is_empty() {
        return format!("<p>schedlab {version}.</p>\n");
    }
    let command = escape(command);
    format!(
        "<p>schedlab {version}. To make these results again:</p>\n<pre class=\"command\">{command}</pre>\n"
    )
}

/// Writes the page.
pub fn to_html(head: &HtmlPage, document: &Document) -> String {
    let mut text = facts(&document.runs);
    text.push_str(&warnings(document));
    text.push_str(&goals(document));
    if document.reproduction.is_empty() {
        text.push_str(&comparisons::sections(document));
    } else {
        text.push_str(&reproduction::sections(&document.reproduction));
    }
    text.push_str(&plots("Latency", &latency::plots(&document.runs)));
    text.push_str(&plots("Cost of a decision", &latency::costs(&document.runs)));
    let first: Vec<&RunRecord> = first_runs(&document.runs);
    for run in &first {
        let label = watched(run, first.len() > 1);
        text.extend(timeline::section(run, &label));
        if let Some(picture) = priorities_svg(run) {
            text.push_str(&format!(
                "<section>\n<h2>Priorities under {}</h2>\n<p>The best priority is on top; the line is thick where the task \
                 runs.</p>\n\
                 <div class=\"scroll\">{picture}</div>\n</section>\n",
                breakable(&label)
            ));
        }
        if let Some(waits) = &run.waits {
            let heading = format!("Who waits for whom under {label}");
            text.push_str(&waits_section(&heading, waits, 0));
        }
    }
    text.push_str(&runs::section(&document.runs));
    page(head, &text)
}

/// Writes a page with the CPUs of one run over time and nothing else.
pub fn timeline_html(head: &HtmlPage, run: &RunRecord) -> String {
    let facts = facts(std::slice::from_ref(run));
    page(head, &(facts + &timeline::section(run, &scheduler_label(run)).unwrap_or_default()))
}

/// Which run a picture shows; where there are `several`, with what tells it from the others.
fn watched(run: &RunRecord, several: bool) -> String {
    let label = scheduler_label(run);
    if !several {
        return label;
    }
    format!("{label}, {} on {}, seed {}", workload_text(&run.workload), counted(run.cpus, "CPU"), run.seed)
}

/// What ran: everything that the results depend on besides the command.
fn facts(runs: &[RunRecord]) -> String {
    let list = |text: &dyn Fn(&RunRecord) -> String| listed(runs.iter().map(text));
    let mut cpus: Vec<usize> = runs.iter().map(|run| run.cpus).collect();
    cpus.sort_unstable();
    let facts = [
        ("workload", list(&|run| workload_text(&run.workload))),
        ("schedulers", list(&scheduler_label)),
        ("machine", list(&|run| format!("{} ({})", run.machine, run.backend.name()))),
        ("CPUs", listed(cpus.iter().map(usize::to_string))),
        ("seeds", list(&|run| run.seed.to_string())),
        ("runs", runs.len().to_string()),
    ];
    if runs.is_empty() { String::new() } else { fact_list(&facts) }
}

/// Names beside their values, which are escaped already.
fn fact_list(facts: &[(&str, String)]) -> String {
    let rows: String =
        facts.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).collect();
    format!("<dl class=\"facts\">\n{rows}</dl>\n")
}

/// What is closed at first, under its escaped heading.
fn folded(heading: &str, body: &str) -> String {
    format!("<details>\n<summary>{heading}</summary>\n{body}</details>\n")
}

/// What the figures alone do not tell.
fn warnings(document: &Document) -> String {
    listed_under("Warnings", &document.each_warning())
}

/// Sentences under a heading, the first ones open; nothing without any.
fn listed_under(heading: &str, warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let (open, rest) = warnings.split_at(warnings.len().min(WARNINGS));
    let list = |warnings: &[String]| {
        let items: String = warnings.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
        format!("<ul>\n{items}</ul>\n")
    };
    let mut text = format!("<section>\n<h2>{heading}</h2>\n{}", list(open));
    if !rest.is_empty() {
        text.push_str(&folded(&format!("{} more", rest.len()), &list(rest)));
    }
    text + "</section>\n"
}

/// The goals of the workloads beside what was reached.
fn goals(document: &Document) -> String {
    if document.goals.is_empty() {
        return String::new();
    }
    let rows = table(&GOAL_COLUMNS, &GOAL_NUMBERS, &goal_rows(&document.goals));
    format!("<section>\n<h2>Goals</h2>\n{rows}</section>\n")
}

/// Warnings that are open at first. Chosen.
const WARNINGS: usize = 10;

/// The different ones of some values, in their order.
fn listed(values: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    let more = seen.len().saturating_sub(FACTS);
    seen.truncate(FACTS);
    if more > 0 {
        seen.push(format!("{more} more"));
    }
    breakable(&seen.join(", "))
}

/// Different values told of one fact. Chosen.
const FACTS: usize = 6;

/// Plots side by side under a heading; nothing without any.
fn plots(heading: &str, plots: &[String]) -> String {
    if plots.is_empty() {
        return String::new();
    }
    let (open, rest) = plots.split_at(plots.len().min(PLOTS));
    let grid = |plots: &[String]| format!("<div class=\"plots\">\n{}</div>\n", plots.concat());
    let mut text = format!("<section>\n<h2>{heading}</h2>\n{}", grid(open));
    if !rest.is_empty() {
        text.push_str(&folded(&format!("{} more", rest.len()), &grid(rest)));
    }
    text + "</section>\n"
}

/// A table that scrolls by itself where it is too wide; `right` names the columns of numbers.
/// The cells are escaped.
pub(crate) fn table(header: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let class = |column: usize| if right.contains(&column) { " class=\"n\"" } else { "" };
    let head: String = header
        .iter()
        .enumerate()
        .map(|(column, name)| format!("<th scope=\"col\"{}>{}</th>", class(column), escape(name)))
        .collect();
    let row = |cells: &Vec<String>| {
        let cells = cells.iter().enumerate();
        let cells = cells.map(|(column, cell)| format!("<td{}>{}</td>", class(column), escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::run;
    use schedlab_stats::Level;

    fn text(runs: Vec<RunRecord>) -> String {
        let document = Document { comparisons: compare(&runs, Level::P95, 1.0), runs, ..Document::default() };
        let page = HtmlPage { title: "a & b".into(), command: "schedlab compare".into(), notes: Vec::new() };
        to_html(&page, &document)
    }

    #[test]
    fn a_page_stands_alone_and_is_escaped() {
        let text = text(vec![run("vanilla", 1, 10.0), run("vanilla", 2, 11.0), run("<o1>", 1, 30.0)]);
        assert!(text.contains("<h1>a &amp; b</h1>") && text.contains("&lt;o1&gt;"));
        assert!(!text.contains("<o1>") && !text.contains("http") && !text.contains("<script"));
        assert!(text.contains("prefers-color-scheme: dark") && text.contains("<svg"));
        for name in ["section", "table", "figure", "details", "div", "ul", "svg", "dl"] {
            let (begun, ended) = (format!("<{name}"), format!("</{name}>"));
            let begun =
                text.matches(&format!("{begun}>")).count() + text.matches(&format!("{begun} ")).count();
            assert_eq!(begun, text.matches(&ended).count(), "{name}");
        }
    }

    #[test]
    fn headings_end_their_lines_between_words() {
        let text = text(vec![run("vanilla", 1, 10.0), run("o1", 1, 30.0)]);
        for tag in ["figcaption", "h1", "h2", "h3", "summary"] {
            let begin = format!("<{tag}>");
            for heading in text.split(&begin).skip(1).filter_map(|rest| rest.split("</").next()) {
                for (at, _) in heading.match_indices([',', '_']) {
                    let next = &heading[at + 1..];
                    assert!(next.starts_with("<wbr>") || next.starts_with(' '), "{tag}: {heading}");
                }
            }
        }
        assert!(text.contains("<figcaption>run delay:<wbr> chat:<wbr>rooms=3,<wbr>fanout"), "{text}");
        assert_eq!(breakable("a_b,<c>"), "a_<wbr>b,<wbr>&lt;c&gt;");
    }

    #[test]
    fn hostile_names_stay_text_everywhere() {
        let mut hostile = [run("vanilla", 1, 10.0), run("vanilla", 2, 12.0), run("o1", 1, 30.0)];
        let name = "\"><img src=x onerror=alert(1)><!--";
        for (at, run) in hostile.iter_mut().enumerate() {
            run.scheduler = format!("{name}{}", at / 2);
            run.settings = vec![(name.into(), name.into())];
            run.workload.name = name.into();
            run.workload.params = vec![(name.into(), name.into())];
            run.machine = name.into();
            run.tasks[0].name = name.into();
            run.metrics.iter_mut().for_each(|metric| metric.name = format!("{name}{}", metric.name));
            run.exit.message = name.into();
            run.exit.dump = name.into();
            run.counters[0].name = name.into();
            run.counters[0].meaning = name.into();
            run.trace_hash = Some(name.into());
            run.warnings[0].text = name.into();
            run.task_waits[0].name = name.into();
            run.task_waits[0].run_delay.as_mut().unwrap().worst.task = name.into();
            run.provenance.object = Some(name.into());
        }
        let text = text(hostile.to_vec());
        assert!(text.contains("&quot;&gt;&lt;img"));
        assert!(!text.contains("<img") && !text.contains("<!--"), "{text}");
    }

    #[test]
    fn what_ran_is_told() {
        let wide = RunRecord { cpus: 16, ..run("vanilla", 1, 10.0) };
        let text = text(vec![wide, run("vanilla", 1, 10.0), run("o1", 7, 11.0)]);
        assert!(
            text.contains("<dt>seeds</dt><dd>1,<wbr> 7</dd>")
                && text.contains("<dd>chat:<wbr>rooms=3,<wbr>fanout=a&lt;b</dd>")
                && text.contains("<dt>CPUs</dt><dd>2,<wbr> 16</dd>")
        );
        assert!(
            text.contains("<dt>machine</dt><dd>modern (sim)</dd>")
                && text.contains("<dd>vanilla,<wbr> o1</dd>")
        );
    }
}
