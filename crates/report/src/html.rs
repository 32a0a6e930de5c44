//! A report as one HTML file that needs nothing else: no script, no network, light
//! and dark by the reader's setting.

use crate::comparison::{Comparison, Sample, scheduler_label};
use crate::format::{number, signed};
use crate::json::Document;
use crate::priority_plot::priorities_svg;
use crate::table::workload_text;
use crate::waits::section;
use schedlab_base::Better;
use schedlab_trace::RunRecord;

const STYLE: &str = include_str!("report.css");

/// What a page says besides the results.
#[derive(Clone, Debug, Default)]
pub struct HtmlPage {
    /// Its title.
    pub title: String,
    /// The command that makes the same results again.
    pub command: String,
    /// Text blocks in front of the tables: heading and preformatted body.
    pub notes: Vec<(String, String)>,
}

/// The page around its content.
pub(crate) fn page(page: &HtmlPage, content: &str) -> String {
    let title = escape(&page.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    text.push_str(&format!(
        "<p>schedlab {}. To make these results again:</p>\n<pre>{}</pre>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&page.command)
    ));
    for (heading, body) in &page.notes {
        text.push_str(&format!("<h2>{}</h2>\n<pre>{}</pre>\n", escape(heading), escape(body)));
    }
    text.push_str(content);
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

/// Writes the page.
pub fn to_html(head: &HtmlPage, document: &Document) -> String {
    let mut text = String::new();
    if !document.comparisons.is_empty() {
        text.push_str("<h2>Comparisons</h2>\n");
        for group in groups(&document.comparisons) {
            text.push_str(&group_html(&group));
        }
    }
    for run in &document.runs {
        if let Some(picture) = priorities_svg(run) {
            let label = escape(&scheduler_label(run));
            text.push_str(&format!(
                "<h2>Priorities under {label}</h2>\n<p>Best on top; thick: runs.</p>\n{picture}"
            ));
        }
    }
    for run in &document.runs {
        if let Some(waits) = &run.waits {
            let heading = format!("Who waits for whom under {}", scheduler_label(run));
            text.push_str(&section(&heading, waits, 0));
        }
    }
    text.push_str("<h2>Runs</h2>\n");
    for run in &document.runs {
        text.push_str(&run_html(run));
    }
    page(head, &text)
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Comparisons of one metric and workload.
fn groups(comparisons: &[Comparison]) -> Vec<Vec<&Comparison>> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    for comparison in comparisons {
        let same = |group: &&mut Vec<&Comparison>| {
            let first = group[0];
            first.metric == comparison.metric
                && first.cell.workload == comparison.cell.workload
                && first.cell.machine == comparison.cell.machine
                && first.cell.backend == comparison.cell.backend
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups
}

fn group_html(group: &[&Comparison]) -> String {
    let first = group[0];
    let direction = match first.better {
        Better::Higher => ", higher is better",
        Better::Lower => ", lower is better",
        Better::Neither => "",
    };
    let mut text = format!(
        "<section>\n<h3>{} ({}{direction})</h3>\n<p>{} on {}, {}; intervals at {} %</p>\n",
        escape(&first.metric),
        escape(first.unit),
        escape(&workload_text(&first.cell.workload)),
        escape(&first.cell.machine),
        first.cell.backend.name(),
        first.level_percent
    );
    text.push_str(&chart(group));
    text.push_str(
        "<table>\n<tr><th>CPUs<th>scheduler<th>runs<th>mean<th>+/-<th>sd<th>change<th>p (Welch)<th>p \
         (permutation)<th>verdict</tr>\n",
    );
    let mut last = None;
    for comparison in group {
        let cpus = comparison.cell.cpus;
        if last != Some(cpus) {
            text.push_str(&sample_line(
                cpus,
                &comparison.baseline,
                ["", "", "", "baseline"].map(String::from),
            ));
            last = Some(cpus);
        }
        let percent = comparison.percent.map_or_else(String::new, |percent| format!("{} %", signed(percent)));
        let p = |p: Option<f64>| p.map_or_else(String::new, number);
        let tail =
            [percent, p(comparison.p_welch), p(comparison.p_permutation), comparison.verdict.name().into()];
        text.push_str(&sample_line(cpus, &comparison.candidate, tail));
    }
    text + "</table>\n</section>\n"
}

fn sample_line(cpus: usize, sample: &Sample, tail: [String; 4]) -> String {
    let head = [
        cpus.to_string(),
        escape(&sample.scheduler),
        sample.moments.count.to_string(),
        number(sample.moments.mean),
        sample.half_width.map_or_else(String::new, number),
        number(sample.moments.sd),
    ];
    let cells: String = head.iter().chain(&tail).map(|cell| format!("<td>{cell}")).collect();
    format!("<tr>{cells}</tr>\n")
}

/// Bars of the means with their intervals, grouped by CPU count, from zero.
fn chart(group: &[&Comparison]) -> String {
    let mut bars: Vec<(usize, &Sample)> = Vec::new();
    for comparison in group {
        for sample in [&comparison.baseline, &comparison.candidate] {
            let cpus = comparison.cell.cpus;
            if !bars.iter().any(|(other, seen)| *other == cpus && seen.scheduler == sample.scheduler) {
                bars.push((cpus, sample));
            }
        }
    }
    let top = bars.iter().map(|(_, s)| s.moments.mean + s.half_width.unwrap_or(0.0)).fold(0.0, f64::max);
    if top <= 0.0 || !top.is_finite() {
        return String::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, sample) in &bars {
        if !names.contains(&sample.scheduler.as_str()) {
            names.push(&sample.scheduler);
        }
    }
    let (row, left, room) = (22, 190, 420.0);
    let height = bars.len() * row + 6;
    let mut text = format!(
        "<svg viewBox=\"0 0 760 {height}\" width=\"760\" height=\"{height}\" role=\"img\" aria-label=\"means\">\n"
    );
    for (index, (cpus, sample)) in bars.iter().enumerate() {
        let y = index * row + 4;
        let width = |value: f64| (value.max(0.0) / top * room * 10.0).round() / 10.0;
        let color = names.iter().position(|name| *name == sample.scheduler).unwrap_or(0) % 6;
        let (mean, half) = (sample.moments.mean, sample.half_width.unwrap_or(0.0));
        text.push_str(&format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} &#183; {cpus} CPUs</text><rect class=\"c{color}\" \
             x=\"{left}\" y=\"{y}\" width=\"{}\" height=\"16\"/><path class=\"w\" d=\"M{} {}H{}\"/><text x=\"{}\" \
             y=\"{}\">{}</text>\n",
            left - 8,
            y + 12,
            escape(&sample.scheduler),
            width(mean),
            left as f64 + width(mean - half),
            y + 8,
            left as f64 + width(mean + half),
            left as f64 + width(mean + half) + 8.0,
            y + 12,
            number(mean)
        ));
    }
    text + "</svg>\n"
}

fn run_html(run: &RunRecord) -> String {
    let mut text = format!(
        "<details>\n<summary>{}: {} on {}, {} CPUs, seed {}, exit {}</summary>\n",
        escape(&scheduler_label(run)),
        escape(&workload_text(&run.workload)),
        escape(&run.machine),
        run.cpus,
        run.seed,
        run.exit.kind.name()
    );
    for part in [&run.exit.reason, &run.exit.message, &run.exit.dump] {
        if !part.is_empty() {
            text.push_str(&format!("<pre>{}</pre>\n", escape(part)));
        }
    }
    text.push_str("<table>\n<tr><th>metric<th>value<th>unit</tr>\n");
    for metric in &run.metrics {
        let (name, unit) = (escape(&metric.name), escape(metric.unit));
        text.push_str(&format!("<tr><td>{name}<td>{}<td>{unit}</tr>\n", number(metric.value)));
    }
    text.push_str(
        "</table>\n<table>\n<tr><th>task<th>nice<th>CPU ms<th>share<th>switches<th>migrations</tr>\n",
    );
    for task in &run.tasks {
        text.push_str(&format!(
            "<tr><td>{}<td>{}<td>{}<td>{:.4}<td>{}<td>{}</tr>\n",
            escape(&task.name),
            task.nice,
            number(task.cpu_time.as_secs_f64() * 1e3),
            task.share,
            task.switches,
            task.migrations
        ));
    }
    text.push_str("</table>\n");
    if let Some(hash) = &run.trace_hash {
        text.push_str(&format!("<p>trace <code>{}</code></p>\n", escape(hash)));
    }
    text + "</details>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{compare, tests::run};
    use schedlab_stats::Level;

    #[test]
    fn a_page_stands_alone_and_is_escaped() {
        let runs = vec![run("vanilla", 1, 10.0), run("vanilla", 2, 11.0), run("<o1>", 1, 30.0)];
        let document = Document { comparisons: compare(&runs, Level::P95), runs, ..Document::default() };
        let page = HtmlPage { title: "a & b".into(), command: "schedlab compare".into(), notes: Vec::new() };
        let text = to_html(&page, &document);
        assert!(text.contains("<h1>a &amp; b</h1>") && text.contains("&lt;o1&gt;"));
        assert!(!text.contains("<o1>") && !text.contains("http") && !text.contains("<script"));
        assert!(text.contains("prefers-color-scheme: dark") && text.contains("<svg"));
        assert_eq!(text.matches("<section>").count(), text.matches("</section>").count());
    }
}
