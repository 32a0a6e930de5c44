//! Figures of both arms in a page: for each workload how many times the kernel's figure the simulated one is under each
//! scheduler, beside the bar.

use super::plot::shape;
use super::{breakable, escape, folded, table};
use crate::bars::{Bars, error};
use crate::fidelity::{FIGURES, Fidelity, FidelityCell};
use crate::format::number;
use crate::kernel_verdicts::factor_text;
use schedlab_base::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Size of a strip, and how far from its middle a figure is drawn that is [`FARTHEST`] off.
const WIDTH: f64 = 152.0;
const HEIGHT: f64 = 30.0;
const REACH: f64 = 70.0;
/// Figures that are farther off are drawn at the edge. Chosen.
const FARTHEST: f64 = 10.0;

/// The marks of a figure: without a bar, outside of it, inside.
const BARE: usize = 0;
const OUTSIDE: usize = 2;
const INSIDE: usize = 3;

/// The columns of the table behind the strips, and which have numbers.
const COLUMNS: [&str; 8] = ["workload", "figure", "scheduler", "simulated", "real", "times", "bar", "inside"];
const NUMBERS: [usize; 4] = [3, 4, 5, 6];

/// The bars of each workload and number of CPUs.
type OwnBars<'a> = BTreeMap<(&'a str, usize), Bars>;

/// The part of the page.
pub(super) fn section(fidelity: &Fidelity, bars: &OwnBars, names: &BTreeMap<&str, String>) -> String {
    let cpus: BTreeSet<usize> = fidelity.cells.iter().map(|cell| cell.cpus).collect();
    if cpus.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<section>\n<h2>Figures in both arms</h2>\n<p>A mark is a scheduler: how many times the real figure the simulated one \
         is. In the middle they are equal; what is more than {FARTHEST} times off lies at the edge. The band is the bar, made \
         of the other workloads.</p>\n{}{}",
        legend(),
        summary(fidelity, bars)
    );
    for &cpus in &cpus {
        text.push_str(&strips(fidelity, bars, names, cpus));
    }
    for &cpus in &cpus {
        let here = fidelity.cells.iter().filter(|cell| cell.cpus == cpus);
        let rows: Vec<Vec<String>> =
            here.filter(|cell| has_column(cell)).map(|cell| row(cell, bars)).collect();
        let heading = format!("{} on {}", counted(rows.len(), "figure"), counted(cpus, "CPU"));
        text.push_str(&folded(&heading, &table(&COLUMNS, &NUMBERS, &rows)));
    }
    text + "</section>\n"
}

fn has_column(cell: &FidelityCell) -> bool {
    FIGURES.contains(&cell.figure.as_str())
}

/// The factor of a cell's bar, where there is one.
fn bar(cell: &FidelityCell, bars: &OwnBars) -> Option<f64> {
    let bars = &bars.get(&(cell.workload.as_str(), cell.cpus))?.figures;
    bars.iter().find(|bar| bar.figure == cell.figure).map(|bar| bar.factor)
}

fn mark(cell: &FidelityCell, bar: Option<f64>) -> usize {
    match bar {
        None => BARE,
        Some(factor) if error(cell).abs() <= factor.ln() => INSIDE,
        Some(_) => OUTSIDE,
    }
}

/// How a figure with such a mark stands to its bar.
fn standing(mark: usize) -> &'static str {
    match mark {
        INSIDE => "yes",
        OUTSIDE => "no",
        _ => "-",
    }
}

fn legend() -> String {
    let entry = |(mark, text): (usize, &str)| {
        format!(
            "<li><svg viewBox=\"-8 -8 16 16\" width=\"16\" height=\"16\" aria-hidden=\"true\"><g class=\"s{mark}\">{}</g></svg>\
             {text}</li>\n",
            shape(mark)
        )
    };
    let entries = [(INSIDE, "inside the bar"), (OUTSIDE, "outside"), (BARE, "no bar")].map(entry);
    format!("<ul class=\"legend\">\n{}</ul>\n", entries.concat())
}

/// How often each figure agrees, and how often it is inside its bar.
fn summary(fidelity: &Fidelity, bars: &OwnBars) -> String {
    let row = |(figure, (good, all)): (&str, (usize, usize))| {
        let cells = fidelity.cells.iter().filter(|cell| cell.figure == figure && has_column(cell));
        let marks: Vec<usize> = cells.map(|cell| mark(cell, bar(cell, bars))).collect();
        let count = |wanted: usize| marks.iter().filter(|mark| **mark == wanted).count();
        let (inside, outside) = (count(INSIDE), count(OUTSIDE));
        let barred =
            if inside + outside == 0 { "-".to_string() } else { format!("{inside}/{}", inside + outside) };
        vec![figure.to_string(), format!("{good}/{all}"), barred]
    };
    let rows: Vec<Vec<String>> = fidelity.agreement().into_iter().map(row).collect();
    folded("How often each figure agrees", &table(&["figure", "agree", "inside the bar"], &[1, 2], &rows))
}

/// Workloads against figures on so many CPUs.
fn strips(fidelity: &Fidelity, bars: &OwnBars, names: &BTreeMap<&str, String>, cpus: usize) -> String {
    let heads = FIGURES.map(|figure| format!("<th scope=\"col\">{}{}</th>", escape(figure), scale()));
    let mut by_workload: BTreeMap<&str, Vec<&FidelityCell>> = BTreeMap::new();
    for cell in fidelity.cells.iter().filter(|cell| cell.cpus == cpus) {
        by_workload.entry(&cell.workload).or_default().push(cell);
    }
    let row = |(workload, cells): (&&str, &Vec<&FidelityCell>)| {
        let of = |figure: &str| -> Vec<&FidelityCell> {
            cells.iter().filter(|cell| cell.figure == figure).copied().collect()
        };
        let strips = FIGURES.map(|figure| format!("<td>{}</td>", strip(&of(figure), bars)));
        let name = names.get(workload).map_or(*workload, String::as_str);
        format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", breakable(name), strips.concat())
    };
    format!(
        "<h3>On {}</h3>\n<div class=\"scroll\"><table class=\"matrix strips\">\n<thead><tr><td></td>{}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        counted(cpus, "CPU"),
        heads.concat(),
        by_workload.iter().map(row).collect::<String>()
    )
}

/// What the places of a strip mean.
fn scale() -> String {
    let text = |at: f64, anchor: &str, text: &str| {
        format!("<text x=\"{at}\" y=\"11\" text-anchor=\"{anchor}\">{text}</text>")
    };
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 14\" aria-hidden=\"true\">{}{}{}</svg>",
        text(0.0, "start", &format!("1/{FARTHEST}")),
        text(WIDTH / 2.0, "middle", "1"),
        text(WIDTH, "end", &FARTHEST.to_string())
    )
}

/// The place of a factor's logarithm, to a tenth of a pixel.
fn at(logarithm: f64) -> f64 {
    let share = (logarithm / FARTHEST.ln()).clamp(-1.0, 1.0);
    ((WIDTH / 2.0 + share * REACH) * 10.0).round() / 10.0
}

/// One figure under one workload: a mark a scheduler, one below the other.
fn strip(cells: &[&FidelityCell], bars: &OwnBars) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let bar = bar(first, bars);
    let band = bar.map_or_else(String::new, |factor| {
        let (left, right) = (at(-factor.ln()), at(factor.ln()));
        format!("<rect class=\"band\" x=\"{left}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>", right - left)
    });
    let step = (HEIGHT - 8.0) / cells.len().saturating_sub(1).max(1) as f64;
    let dot = |(row, cell): (usize, &&FidelityCell)| {
        let (mark, y) = (mark(cell, bar), 4.0 + step * row as f64);
        // A simulated figure of nothing is endlessly too small.
        let error = if cell.simulated > 0.0 { error(cell) } else { -error(cell) };
        format!(
            "<g class=\"s{mark}\" transform=\"translate({} {y:.1}) scale(0.6)\">{}<title>{}</title></g>",
            at(error),
            shape(mark),
            escape(&about(cell, bar))
        )
    };
    let inside = cells.iter().filter(|cell| mark(cell, bar) == INSIDE).count();
    let label = match bar {
        Some(factor) => {
            format!("{inside} of {} inside the bar of {}", cells.len(), factor_text(Some(factor)))
        }
        None => format!("{}, no bar", counted(cells.len(), "figure")),
    };
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}, {}: {label}\">{band}\
         <path class=\"axis\" d=\"M{} 0V{HEIGHT}\"/>{}</svg>",
        escape(&first.workload),
        escape(&first.figure),
        WIDTH / 2.0,
        cells.iter().enumerate().map(dot).collect::<String>()
    )
}

fn about(cell: &FidelityCell, bar: Option<f64>) -> String {
    format!(
        "{}, {}, {}: simulated {}, real {}, times {}, bar {}",
        cell.workload,
        cell.figure,
        cell.scheduler,
        number(cell.simulated),
        number(cell.real),
        number(cell.simulated / cell.real),
        factor_text(bar)
    )
}

/// A line of the table behind the strips.
fn row(cell: &FidelityCell, bars: &OwnBars) -> Vec<String> {
    let bar = bar(cell, bars);
    vec![
        cell.workload.clone(),
        cell.figure.clone(),
        cell.scheduler.clone(),
        number(cell.simulated),
        number(cell.real),
        number(cell.simulated / cell.real),
        factor_text(bar),
        standing(mark(cell, bar)).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Bar;
    use crate::kernel_verdicts::tests::{cell, three};

    fn bars(factor: f64) -> OwnBars<'static> {
        let figures = vec![Bar { figure: "throughput".into(), factor }];
        let bars = Bars {
            kernel: String::new(),
            workloads: 1,
            cells: 1,
            figures,
            changes: Vec::new(),
            spreads: Vec::new(),
        };
        BTreeMap::from([(("w", 2), bars)])
    }

    #[test]
    fn a_strip_has_the_bar_and_a_mark_a_scheduler() {
        let text = section(&three(), &bars(1.2), &BTreeMap::new());
        assert!(text.contains("aria-label=\"w, throughput: 2 of 3 inside the bar of x 1.200\""), "{text}");
        assert!(text.contains("<rect class=\"band\" x=\"70.5\" width=\"11.0\""), "{text}");
        let about = "w, throughput, b: simulated 116, real 86, times 1.349, bar x 1.200";
        assert!(text.contains(&format!("<title>{about}</title>")), "{text}");
        // Outside by shape as well as by colour.
        assert!(
            text.contains("<g class=\"s2\" transform=\"translate(85.1 15.0) scale(0.6)\"><path"),
            "{text}"
        );
        assert!(
            text.contains("<td>throughput</td><td class=\"n\">3/3</td><td class=\"n\">2/3</td>"),
            "{text}"
        );
        assert!(text.contains("<td class=\"n\">x 1.200</td><td>no</td>"), "{text}");
    }

    #[test]
    fn figures_without_a_bar_or_of_nothing_are_drawn_too() {
        let fidelity =
            Fidelity { cells: vec![cell("a", 0.0, 5.0, 0.0), cell("b", 0.0, 0.0, 0.0)], ..three() };
        let text = section(&fidelity, &BTreeMap::new(), &BTreeMap::new());
        assert!(text.contains("2 figures, no bar") && !text.contains("class=\"band\""), "{text}");
        assert!(text.contains("translate(6 4.0)") && text.contains("translate(76 26.0)"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf\""), "{text}");
    }
}
