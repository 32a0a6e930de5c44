//! Comparisons in a page: the main figure of each workload first, then every other metric,
//! folded up; a plot over the CPUs or bars, and the table behind it.

use super::plot::{Axis, COLOURS, Plot, Point, Series, around, told};
use super::{breakable, escape, table};
use crate::comparison::{Comparison, Sample};
use crate::comparison_table::{change, verdict_text};
use crate::format::number;
use crate::json::Document;
use crate::names::label;
use crate::overview::{OVERVIEW_MEANS, overview};
use crate::ranking::{RANKING_COLUMNS, RANKING_MEANS, RANKING_NUMBERS, is_main, no_ratio_text, ranking_rows};
use crate::workload_names::WorkloadNames;
use crate::workload_names::workload_text;
use schedlab_base::{Better, counted};

/// All comparisons of a document.
pub(super) fn sections(document: &Document) -> String {
    let groups = groups(&document.comparisons);
    if groups.is_empty() {
        return String::new();
    }
    let (main, other): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| is_main(group[0], &document.runs));
    let names = WorkloadNames::of(document.comparisons.iter().map(|c| &c.cell.workload));
    let mut text = ranked(document);
    text.push_str("<h2>Comparisons</h2>\n");
    for group in &main {
        let heading = heading(group[0], &names);
        text.push_str(&format!("<section>\n<h3>{heading}</h3>\n{}</section>\n", body(group)));
    }
    if !other.is_empty() {
        text.push_str("<h3>Other metrics</h3>\n");
    }
    for group in &other {
        let body = body(group);
        text.push_str(&format!(
            "<details>\n<summary>{}: {}</summary>\n{body}</details>\n",
            heading(group[0], &names),
            breakable(&verdicts(group))
        ));
    }
    text
}

/// Several workloads together: the ranking, and their main figures side by side.
fn ranked(document: &Document) -> String {
    if document.ranking.is_empty() {
        return String::new();
    }
    let main = document.comparisons.iter().filter(|c| is_main(c, &document.runs)).cloned();
    let (header, rows) = overview(&main.collect::<Vec<_>>(), &document.runs);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let left = no_ratio_text(&document.ranking)
        .map_or_else(String::new, |text| format!("<p>{}</p>\n", escape(&text)));
    format!(
        "<section>\n<h2>Ranking</h2>\n<p>{}.</p>\n{}{left}<h3>Main figures</h3>\n<p>{}.</p>\n{}</section>\n",
        escape(RANKING_MEANS),
        table(&RANKING_COLUMNS, &RANKING_NUMBERS, &ranking_rows(&document.ranking)),
        escape(OVERVIEW_MEANS),
        table(&header, &[1, 4], &rows)
    )
}

/// Comparisons of one metric, workload, machine and backend.
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

fn heading(first: &Comparison, names: &WorkloadNames) -> String {
    let direction = match first.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "",
    };
    let unit = if first.unit == "1" { "" } else { first.unit };
    let parts: Vec<&str> = [unit, direction].into_iter().filter(|part| !part.is_empty()).collect();
    let about = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let workload =
        if names.are_several() { format!("{}: ", names.get(&first.cell.workload)) } else { String::new() };
    breakable(&format!("{workload}{}{about}", first.metric))
}

/// How often each verdict came.
fn verdicts(group: &[&Comparison]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for comparison in group {
        let name = comparison.trust().mark(comparison.verdict.name());
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| if group.len() == 1 { name.to_string() } else { format!("{count} {name}") })
        .collect();
    parts.join(", ")
}

fn body(group: &[&Comparison]) -> String {
    let first = group[0];
    let mut text = format!(
        "<p>{} on {}, {}; intervals at {} %</p>\n",
        breakable(&workload_text(&first.cell.workload)),
        escape(&first.cell.machine),
        first.cell.backend.name(),
        first.level_percent
    );
    let samples = samples(group);
    let several = samples.iter().any(|(cpus, _)| *cpus != samples[0].0);
    if several {
        let plot = over_cpus(first, &samples).unwrap_or_default();
        text.push_str(&format!("<div class=\"plots\">\n{plot}</div>\n"));
    } else {
        text.extend(bars(first.unit, &samples));
    }
    let header = [
        "CPUs",
        "scheduler",
        "runs",
        "mean",
        "+/-",
        "sd",
        "change",
        "p (pairs)",
        "p (Welch)",
        "p (permutation)",
        "verdict",
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut last = None;
    for comparison in group {
        let cpus = comparison.cell.cpus;
        if last != Some(cpus) {
            rows.push(row(cpus, &comparison.baseline, ["", "", "", "", "baseline"].map(String::from)));
            last = Some(cpus);
        }
        let percent = comparison.percent.map_or_else(String::new, |_| change(comparison));
        let p = |p: Option<f64>| p.map_or_else(String::new, number);
        let tail = [
            percent,
            p(comparison.p_paired),
            p(comparison.p_welch),
            p(comparison.p_permutation),
            verdict_text(comparison),
        ];
        rows.push(row(cpus, &comparison.candidate, tail));
    }
    text + &table(&header, &[0, 2, 3, 4, 5, 6, 7, 8, 9], &rows)
}

fn row(cpus: usize, sample: &Sample, tail: [String; 5]) -> Vec<String> {
    let mut row = vec![
        cpus.to_string(),
        sample.scheduler.clone(),
        sample.moments.count.to_string(),
        number(sample.moments.mean),
        sample.half_width.map_or_else(String::new, number),
        sample.moments.known_sd().map_or_else(|| "-".to_string(), number),
    ];
    row.extend(tail);
    row
}

/// Every sample of a group once, with its number of CPUs.
fn samples<'a>(group: &[&'a Comparison]) -> Vec<(usize, &'a Sample)> {
    let mut samples: Vec<(usize, &Sample)> = Vec::new();
    for comparison in group {
        for sample in [&comparison.baseline, &comparison.candidate] {
            let cpus = comparison.cell.cpus;
            if !samples.iter().any(|(other, seen)| *other == cpus && seen.scheduler == sample.scheduler) {
                samples.push((cpus, sample));
            }
        }
    }
    samples
}

fn schedulers<'a>(samples: &[(usize, &'a Sample)]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, sample) in samples {
        if !names.contains(&sample.scheduler.as_str()) {
            names.push(&sample.scheduler);
        }
    }
    names
}

/// A line a scheduler over the numbers of CPUs.
fn over_cpus(first: &Comparison, samples: &[(usize, &Sample)]) -> Option<String> {
    let series = schedulers(samples).into_iter().map(|name| {
        let points = samples.iter().filter(|(_, sample)| sample.scheduler == name).map(|(cpus, sample)| {
            let (mean, half) = (sample.moments.mean, sample.half_width);
            let about = format!("{name}, {}: {}", counted(*cpus, "CPU"), told(mean, half, first.unit));
            Point { x: *cpus as f64, y: mean, interval: around(mean, half), about }
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series::new(name.to_string(), points)
    });
    let y_label = if first.unit == "1" { first.metric.clone() } else { first.unit.to_string() };
    Plot {
        title: format!("{} against CPUs", first.metric),
        x_label: "CPUs".into(),
        y_label,
        x: Axis::Factors,
        y: Axis::Linear,
        lines: true,
        series: series.collect(),
    }
    .html()
}

/// Bars of the means with their intervals, from zero, the longest as wide as the page; nothing where a mean is below zero.
fn bars(unit: &str, samples: &[(usize, &Sample)]) -> Option<String> {
    let top = samples.iter().map(|(_, s)| s.moments.mean + s.half_width.unwrap_or(0.0)).fold(0.0, f64::max);
    let negative = samples.iter().any(|(_, sample)| sample.moments.mean < 0.0);
    if top <= 0.0 || !top.is_finite() || negative {
        return None;
    }
    let names = schedulers(samples);
    let percent = |value: f64| value.max(0.0) / top * 100.0;
    let bar = |(_, sample): &(usize, &Sample)| {
        let colour = names.iter().position(|name| *name == sample.scheduler).unwrap_or(0) % COLOURS;
        let (mean, half) = (sample.moments.mean, sample.half_width.unwrap_or(0.0));
        let low = percent(mean - half);
        format!(
            "<span>{}</span><span class=\"track\"><span class=\"s{colour} bar\" style=\"width:{:.2}%\"></span><span \
             class=\"spread\" style=\"left:{low:.2}%;width:{:.2}%\"></span></span><span class=\"n\">{}</span>\n",
            breakable(&label(&sample.scheduler)),
            percent(mean),
            percent(mean + half) - low,
            escape(&told(mean, sample.half_width, unit))
        )
    };
    let bars: String = samples.iter().map(bar).collect();
    Some(format!(
        "<div class=\"bars\" role=\"group\" aria-label=\"bars of the means with their intervals\">\n{bars}</div>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;
    use crate::made_up::run;
    use crate::ranking::{ranking, tests::two_workloads};
    use schedlab_stats::Level;
    use schedlab_trace::RunRecord;

    fn document(cpus: &[usize]) -> Document {
        let mut runs = Vec::new();
        for &cpus in cpus {
            for (scheduler, seed, value) in [("a", 1, 10.0), ("a", 2, 12.0), ("b", 1, 30.0), ("b", 2, 31.0)] {
                runs.push(RunRecord { cpus, ..run(scheduler, seed, value * cpus as f64) });
            }
        }
        Document { comparisons: compare(&runs, Level::P95, 1.0), runs, ..Document::default() }
    }

    #[test]
    fn several_cpu_counts_make_a_line_plot_and_one_makes_bars() {
        let text = sections(&document(&[1, 2, 4]));
        assert!(text.contains("throughput against CPUs") && text.contains("b, 4 CPUs: 122 \u{b1}"), "{text}");
        assert!(!text.contains("bars of the means"));
        let text = sections(&document(&[2]));
        assert!(text.contains("bars of the means") && !text.contains("against CPUs"));
    }

    #[test]
    fn bars_are_parts_of_the_width() {
        let runs = [("a", 1, 10.0), ("a", 2, 12.0), ("b", 1, 40.0), ("b", 2, 40.0)];
        let found = compare(&runs.map(|(name, seed, value)| run(name, seed, value)), Level::P95, 1.0);
        let text = bars("ms", &[(2, &found[0].baseline), (2, &found[0].candidate)]).unwrap();
        // The mean of b, which has no spread, is the longest; the interval of a goes below zero and is cut there.
        assert!(text.contains("s1 bar\" style=\"width:100.00%\"") && text.contains("width:27.50%"), "{text}");
        assert!(
            text.contains("left:0.00%;width:59.27%") && text.contains("left:100.00%;width:0.00%"),
            "{text}"
        );
        assert!(text.contains("11 \u{b1} ") && text.contains(" ms</span>"), "{text}");
        let zero = compare(&[run("a", 1, 0.0), run("b", 1, 0.0)], Level::P95, 1.0);
        assert!(bars("1", &[(2, &zero[0].baseline)]).is_none());
    }

    #[test]
    fn several_workloads_are_ranked_and_headings_name_them() {
        let runs = two_workloads(&[("a", [10.0, 12.0], [8.0, 9.0]), ("<b>", [30.0, 31.0], [2.0, 2.5])]);
        let comparisons = compare(&runs, Level::P95, 1.0);
        let ranking = ranking(&comparisons, &runs);
        let text = sections(&Document { ranking, comparisons, runs, ..Document::default() });
        let (ranked, compared) = text.split_once("<h2>Comparisons</h2>").unwrap();
        assert!(ranked.contains("<td class=\"n\">1</td><td>&lt;b&gt;</td>"), "{ranked}");
        assert!(
            ranked.contains("<td>chat</td><td class=\"n\">2</td><td>throughput*, messages/s</td>"),
            "{ranked}"
        );
        assert!(
            compared.contains("<h3>build:<wbr> time (messages/s,<wbr> lower is better)</h3>"),
            "{compared}"
        );
        assert!(!sections(&document(&[2])).contains("Ranking"));
    }

    #[test]
    fn the_main_figure_is_open_and_the_others_are_folded_up() {
        let text = sections(&document(&[2]));
        let (main, other) = text.split_once("Other metrics").unwrap();
        assert!(main.contains("<h3>throughput (messages/s,<wbr> higher is better)</h3>"), "{main}");
        assert!(
            other.contains("<summary>context_<wbr>switches: no difference that matters</summary>"),
            "{other}"
        );
    }
}
