//! Verdicts of both arms in a page: their counts, those that contradict each other, a matrix of all, and the sizes of the
//! changes against each other.

use super::plot::{Axis, Plot, Point, Series};
use super::{breakable, escape, folded, table};
use crate::fidelity::FidelityCell;
use crate::format::{number, signed};
use crate::kernel_verdicts::{
    COUNT_NUMBERS, Judged, LEAST_PERCENT, Outcome, PAIR_COLUMNS, PAIR_NUMBERS, Pair, count_columns,
    count_rows, factor_text,
};
use schedlab_base::counted;
use std::collections::BTreeMap;

/// How an outcome is shown: its place among colours and shapes, its letter, and what it means. The ones that matter most are
/// drawn last, above the others.
const MARKS: [(Outcome, char, &str); 5] = [
    (Outcome::NotDecided, 'n', "the simulated difference is inside its bar"),
    (Outcome::Missed, 'M', "the kernel has a difference, the simulator has none"),
    (Outcome::Invented, 'I', "the simulator has a difference, the kernel has none"),
    (Outcome::Same, 's', "both find the same direction, or both find no difference"),
    (Outcome::Reversed, 'R', "they contradict each other"),
];

/// Changes that are larger are drawn at the edge. Chosen.
const FARTHEST: f64 = 100.0;
/// An axis reaches at least so far, where all changes are small. Chosen: it has three marks then.
const NEAREST: f64 = 2.0;

/// The part of the page.
pub(super) fn section(judged: &[Judged], names: &BTreeMap<&str, String>) -> String {
    let all = || judged.iter().flat_map(|judged| &judged.pairs);
    if all().next().is_none() {
        return "<p>Verdicts are on pairs: no pair of schedulers was measured under one workload.</p>\n"
            .to_string();
    }
    let mut text = format!(
        "<section>\n<h2>Verdicts on pairs of schedulers</h2>\n<p>Is the second scheduler above or below the first one, and \
         does the simulator say what the kernel says? A difference counts from {LEAST_PERCENT} % on, where the ranges of \
         the runs do not overlap.</p>\n{}{}",
        legend(),
        table(&count_columns(), &COUNT_NUMBERS, &count_rows(judged))
    );
    text.push_str(
        "<h3>All pairs at once</h3>\n<p>A row is a workload, a column a pair of schedulers. A cell tells both sizes when it \
         is pointed at; the tables below have them too. An empty one was not measured.</p>\n",
    );
    let filled = || judged.iter().filter(|judged| !judged.pairs.is_empty());
    text.extend(filled().map(|judged| matrix(judged, names)));
    text.push_str(
        "<h3>Simulated change against real change</h3>\n<p>A point is a pair: how many times the first scheduler's figure \
         the second one's is. On the diagonal both arms agree. The line through a point is its bar, and where it crosses \
         the diagonal the bar holds.</p>\n<div class=\"plots\">\n",
    );
    text.extend(filled().filter_map(scatter));
    text.push_str("</div>\n");
    text.push_str(&reversed(all()));
    text.push_str("<h3>Sizes of all pairs</h3>\n");
    for judged in filled() {
        let rows: Vec<Vec<String>> = judged.pairs.iter().map(Pair::row).collect();
        let heading = format!("{}: {}", place(judged), counted(rows.len(), "pair"));
        text.push_str(&folded(&heading, &table(&PAIR_COLUMNS, &PAIR_NUMBERS, &rows)));
    }
    text + "</section>\n"
}

fn place(judged: &Judged) -> String {
    format!("{} on {}", judged.name, counted(judged.cpus, "CPU"))
}

/// The place of an outcome among [`MARKS`].
fn mark(outcome: Outcome) -> usize {
    MARKS.iter().position(|(one, ..)| *one == outcome).unwrap_or(0)
}

fn legend() -> String {
    let entry = |(outcome, name): (Outcome, &str)| {
        let at = mark(outcome);
        let (_, letter, meaning) = MARKS[at];
        format!("<li><span class=\"v s{at}\">{letter}</span>{name}: {meaning}</li>\n")
    };
    format!("<ul class=\"legend\">\n{}</ul>\n", Outcome::ALL.map(entry).concat())
}

/// The pairs on which the arms contradict each other, the largest change of the kernel's first.
fn reversed<'a>(pairs: impl Iterator<Item = &'a Pair<'a>>) -> String {
    let mut found: Vec<&Pair> = pairs.filter(|pair| pair.outcome == Outcome::Reversed).collect();
    found.sort_by(|a, b| b.change[1].abs().total_cmp(&a.change[1].abs()));
    let rows: Vec<Vec<String>> = found.into_iter().map(Pair::row).collect();
    let body = match rows.as_slice() {
        [] => "<p>No verdict is reversed.</p>\n".to_string(),
        rows => table(&PAIR_COLUMNS, &PAIR_NUMBERS, rows),
    };
    format!("<h3>Reversed verdicts</h3>\n{body}")
}

/// The two schedulers of a column, in the order in which all of them were met.
type Column<'a> = (&'a str, &'a str);

/// The pairs of schedulers that a matrix has.
fn columns<'a>(pairs: &[Pair<'a>]) -> Vec<Column<'a>> {
    let mut schedulers: Vec<&str> = Vec::new();
    for name in pairs.iter().flat_map(|pair| [&pair.one, &pair.other]).map(|cell| cell.scheduler.as_str()) {
        if !schedulers.contains(&name) {
            schedulers.push(name);
        }
    }
    let after = |at: usize| schedulers[at + 1..].iter();
    let all = schedulers.iter().enumerate().flat_map(|(at, one)| after(at).map(move |other| (*one, *other)));
    all.filter(|column| pairs.iter().any(|pair| is_of(pair, *column))).collect()
}

fn is_of(pair: &Pair, (one, other): Column) -> bool {
    let names = (pair.one.scheduler.as_str(), pair.other.scheduler.as_str());
    names == (one, other) || names == (other, one)
}

/// Workloads against pairs of schedulers.
fn matrix(judged: &Judged, names: &BTreeMap<&str, String>) -> String {
    let columns = columns(&judged.pairs);
    // A gap stands before each new first scheduler.
    let begins =
        |at: usize| if at > 0 && columns[at - 1].0 != columns[at].0 { " class=\"begins\"" } else { "" };
    let heads = columns.iter().enumerate().map(|(at, (one, other))| {
        let names = format!("{} \u{2192} {}", escape(one), escape(other));
        format!("<th scope=\"col\"{}><span class=\"turned\">{names}</span></th>", begins(at))
    });
    let mut by_workload: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in &judged.pairs {
        by_workload.entry(&pair.one.workload).or_default().push(pair);
    }
    let row = |(workload, pairs): (&&str, &Vec<&Pair>)| {
        let of = |column: &Column| pairs.iter().find(|pair| is_of(pair, *column));
        let cells = columns.iter().enumerate().map(|(at, column)| {
            let verdict = of(column).map_or_else(String::new, |pair| cell(pair));
            format!("<td{}>{verdict}</td>", begins(at))
        });
        let name = names.get(workload).map_or(*workload, String::as_str);
        format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", breakable(name), cells.collect::<String>())
    };
    format!(
        "<h4>{}</h4>\n<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><td></td>{}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        place(judged),
        heads.collect::<String>(),
        by_workload.iter().map(row).collect::<String>()
    )
}

fn cell(pair: &Pair) -> String {
    let at = mark(pair.outcome);
    format!("<span class=\"v s{at}\" title=\"{}\">{}</span>", escape(&about(pair)), MARKS[at].1)
}

/// A pair with both sizes.
fn about(pair: &Pair) -> String {
    let [simulated, real] = pair.change.map(signed);
    format!(
        "{}, {} \u{2192} {}: simulated {simulated} %, real {real} %, bar {}: {}",
        pair.one.workload,
        pair.one.scheduler,
        pair.other.scheduler,
        factor_text(pair.bar),
        pair.outcome.name()
    )
}

/// How many times one figure the other one is in both arms: simulated, real; nothing where one of the four is zero.
fn ratios(pair: &Pair) -> Option<[f64; 2]> {
    let ratio = |figure: fn(&FidelityCell) -> f64| figure(pair.other) / figure(pair.one);
    let both = [ratio(|cell| cell.simulated), ratio(|cell| cell.real)];
    both.iter().all(|ratio| ratio.is_finite() && *ratio > 0.0).then_some(both)
}

/// Simulated over real changes; both axes have the same range.
fn scatter(judged: &Judged) -> Option<String> {
    let sizes = judged.pairs.iter().filter_map(ratios).flatten().map(|ratio| ratio.ln().abs());
    let reach = sizes.fold(0.0, f64::max).exp().clamp(NEAREST, FARTHEST);
    let drawn = |pair: &Pair| {
        let [y, x] = ratios(pair)?;
        let interval = pair.bar.map(|factor| [y / factor, y * factor]);
        Some(Point { x, y, interval, about: about(pair) })
    };
    let series = MARKS.iter().map(|(outcome, ..)| {
        let pairs = judged.pairs.iter().filter(|pair| pair.outcome == *outcome);
        Series::new(outcome.name().to_string(), pairs.filter_map(drawn).collect())
    });
    Plot {
        title: format!("{} (at most {} times)", place(judged), number(FARTHEST)),
        x_label: "real change, times".into(),
        y_label: "simulated change, times".into(),
        x: Axis::Ratios(reach),
        y: Axis::Ratios(reach),
        lines: false,
        series: series.collect(),
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_verdicts::tests::{cell, three};

    #[test]
    fn a_matrix_has_a_letter_and_both_sizes_for_each_pair() {
        let fidelity = three();
        let judged = fidelity.judged(&BTreeMap::new());
        let text = section(&judged, &BTreeMap::new());
        let about = "w, a \u{2192} b: simulated +16 %, real -14 %, bar -: reversed";
        let cell = format!("<td><span class=\"v s4\" title=\"{about}\">R</span></td>");
        assert!(text.contains(&cell), "{text}");
        let row = text.split("<tr><th scope=\"row\">w</th>").nth(1).unwrap().split("</tr>").next().unwrap();
        assert_eq!((row.matches(">R<").count(), row.matches(">s<").count()), (2, 1), "{row}");
        // Counts, reversed ones, all of them.
        assert_eq!(text.matches("<table>").count(), 3, "{text}");
        assert!(text.contains("<summary>throughput on 2 CPUs: 3 pairs</summary>"), "{text}");
    }

    #[test]
    fn pairs_in_another_order_share_a_column() {
        let mut fidelity = three();
        let mut others = [cell("c", 1.0, 1.0, 0.0), cell("a", 1.0, 1.0, 0.0)];
        others.iter_mut().for_each(|cell| cell.workload = "x".into());
        fidelity.cells.extend(others);
        let judged = fidelity.judged(&BTreeMap::new());
        let text = matrix(&judged[0], &BTreeMap::new());
        assert_eq!(text.matches("<span class=\"turned\">").count(), 3, "{text}");
        assert!(text.contains("x, c \u{2192} a: simulated 0 %") && text.contains("<td></td><td"), "{text}");
    }

    #[test]
    fn changes_are_drawn_with_their_bars() {
        let mut fidelity = three();
        fidelity.cells.push(cell("d", 0.0, 100.0, 0.0));
        let mut judged = fidelity.judged(&BTreeMap::new());
        judged[0].pairs.iter_mut().for_each(|pair| pair.bar = Some(1.2));
        let text = scatter(&judged[0]).unwrap();
        // What has no ratio has no point.
        assert_eq!(text.matches("<title>").count(), 3, "{text}");
        assert!(
            text.contains("class=\"interval\"")
                && text.contains("<path class=\"axis\" d=\"M70 250L464 12\"/>")
        );
    }
}
