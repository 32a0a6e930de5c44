//! Pictures of a document's tables, published beside measured: SVG files that stand alone in a page of the book.

use crate::format::number;
use crate::html::plot::step;
use crate::names::{escape, label};
use schedlab_base::counted;
use schedlab_reproduction::{Curves, DocumentOutcome, Judgement, RowOutcome, TableOutcome};
use std::fmt::Write as _;

/// Sizes in pixels: of a picture, of the text beside its rows, of a row, of a head, of an axis.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 690.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 46.0;
const AXIS: f64 = 26.0;
/// Height of a small plot of curves, and of what it leaves for its name and numbers of CPUs.
const SMALL: f64 = 170.0;
const MARGIN: f64 = 40.0;
/// A quotient's axis reaches at least so far on both sides of 1. Chosen.
const LEAST_FACTOR: f64 = 1.25;
/// Characters of a row's name. Chosen: what fits beside the plot.
const NAME: usize = 52;

const STYLE: &str = "\
.document { font: 11px system-ui, sans-serif; }
.document text { fill: #57606a; }
.document .head { font-size: 13px; font-weight: 600; }
.document .grid { stroke: #d0d7de; fill: none; }
.document .unit { stroke: #8b95a3; fill: none; }
.document .gap { stroke: #8b95a3; stroke-width: 2; fill: none; }
.document .published { stroke: #24292f; fill: #ffffff; stroke-width: 1.5; }
.document .agrees { fill: #2f81d7; }
.document .differs { fill: #d1495b; }
.document .curve { fill: none; stroke-width: 2; }
.document .c0 { stroke: #d1495b; } .document .c1 { stroke: #2f81d7; } .document .c2 { stroke: #3a9a5b; }
@media (prefers-color-scheme: dark) {
.document text { fill: #b1b8c0; }
.document .grid { stroke: #363c45; }
.document .published { stroke: #e6edf3; fill: #0d1117; }
}
";

/// A picture with the name of its file, without an ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPlot {
    /// `kravetz-chat`, `kravetz-chat-growth`.
    pub name: String,
    /// The SVG.
    pub svg: String,
}

/// The pictures of all tables of a document that have something measured beside something published, and of growth.
pub fn document_plots(document: &DocumentOutcome) -> Vec<DocumentPlot> {
    let mut plots = Vec::new();
    for table in &document.tables {
        let name = format!("{}-{}", document.name, table.id);
        if let Some(svg) = rows_svg(table) {
            plots.push(DocumentPlot { name: name.clone(), svg });
        }
        if let Some(svg) = growth_svg(table) {
            plots.push(DocumentPlot { name: format!("{name}-growth"), svg });
        }
    }
    plots
}

/// To a tenth of a pixel.
fn place(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn begin(height: f64, about: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"document\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{about}\">\n<style>\n{STYLE}</style>\n"
    )
}

/// A row that can be drawn.
#[derive(Clone, Copy)]
struct Drawn<'a> {
    row: &'a RowOutcome,
    published: f64,
    measured: f64,
}

impl Drawn<'_> {
    fn of(row: &RowOutcome) -> Option<Drawn<'_>> {
        let (published, measured) = (row.published?.value, row.measured?);
        let shown = row.counts && !row.cells.is_empty() && published.is_finite() && measured.is_finite();
        shown.then_some(Drawn { row, published, measured })
    }

    /// Figures of different units share no axis.
    fn unit(&self) -> &str {
        &self.row.unit
    }
}

/// An axis from the smallest to the largest figure.
struct Scale {
    low: f64,
    high: f64,
    /// Equal factors are equal distances.
    factors: bool,
}

impl Scale {
    fn of(rows: &[Drawn<'_>]) -> Scale {
        let values = || rows.iter().flat_map(|row| [row.published, row.measured]);
        let (low, high) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let factors = rows.iter().all(|row| row.unit().is_empty()) && low > 0.0;
        let (low, high) = match factors {
            true => (low.min(1.0 / LEAST_FACTOR) * 0.95, high.max(LEAST_FACTOR) * 1.05),
            false => {
                let room = 0.04 * (high.max(0.0) - low.min(0.0)).max(1e-9);
                (low.min(0.0) - room, high.max(0.0) + room)
            }
        };
        Scale { low, high, factors }
    }

    fn x(&self, value: f64) -> f64 {
        let share = match self.factors {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place(LEFT + share * (RIGHT - LEFT))
    }

    fn ticks(&self) -> Vec<f64> {
        if self.factors {
            let known = [0.1, 0.2, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];
            return known.into_iter().filter(|tick| (self.low..=self.high).contains(tick)).collect();
        }
        let by = step(self.high - self.low, 6.0);
        let first = (self.low / by).ceil() as i64;
        let last = (self.high / by).floor() as i64;
        (first..=last).map(|tick| tick as f64 * by).collect()
    }
}

/// All rows of a table, one line each: the published figure as a ring, the measured one as a dot.
fn rows_svg(table: &TableOutcome) -> Option<String> {
    let rows: Vec<Drawn<'_>> = table.rows.iter().filter_map(Drawn::of).collect();
    let mut units: Vec<&str> = Vec::new();
    rows.iter().for_each(|row| {
        if !units.contains(&row.unit()) {
            units.push(row.unit())
        }
    });
    if rows.is_empty() {
        return None;
    }
    let height = HEAD + rows.len() as f64 * ROW + units.len() as f64 * (AXIS + 6.0);
    let title = escape(&label(&table.title));
    let mut svg = begin(height, &title);
    let _ = writeln!(svg, "<text class=\"head\" x=\"8\" y=\"18\">{title}</text>");
    let _ = writeln!(
        svg,
        "<circle class=\"published\" cx=\"14\" cy=\"32\" r=\"4\"/><text x=\"24\" y=\"36\">published</text>\
         <circle class=\"agrees\" cx=\"94\" cy=\"32\" r=\"4\"/><text x=\"104\" y=\"36\">measured, agrees</text>\
         <circle class=\"differs\" cx=\"214\" cy=\"32\" r=\"4\"/><text x=\"224\" y=\"36\">measured, differs</text>"
    );
    let mut top = HEAD;
    for unit in units {
        let of_unit: Vec<Drawn<'_>> = rows.iter().filter(|row| row.unit() == unit).copied().collect();
        top = panel(&mut svg, top, &of_unit, unit);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The rows of one unit from `top` on; says where they end.
fn panel(svg: &mut String, top: f64, rows: &[Drawn<'_>], unit: &str) -> f64 {
    let scale = Scale::of(rows);
    let bottom = top + rows.len() as f64 * ROW;
    for tick in scale.ticks() {
        let (x, neutral) = (scale.x(tick), if scale.factors { 1.0 } else { 0.0 });
        let class = if (tick - neutral).abs() < 1e-9 { "unit" } else { "grid" };
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{x} {top}V{bottom}\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            number(tick)
        );
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", RIGHT + 16.0, bottom + 14.0, escape(unit));
    for (at, Drawn { row, published, measured }) in rows.iter().enumerate() {
        let y = place(top + (at as f64 + 0.5) * ROW);
        let name: String = format!("{}: {}", row.place, row.figure).chars().take(NAME).collect();
        let class = if row.verdict == Judgement::Agrees { "agrees" } else { "differs" };
        let (from, to) = (scale.x(*published), scale.x(*measured));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><path class=\"gap\" d=\"M{from} {y}H{to}\"/>\
             <circle class=\"published\" cx=\"{from}\" cy=\"{y}\" r=\"4\"/><circle class=\"{class}\" cx=\"{to}\" cy=\"{y}\" r=\"4\"/>",
            LEFT - 10.0,
            y + 4.0,
            escape(&label(&name)),
        );
    }
    bottom + AXIS + 6.0
}

/// How figures go with the number of CPUs: for each workload the published curves on the left, the measured ones on the
/// right, on one scale.
fn growth_svg(table: &TableOutcome) -> Option<String> {
    let all = table.curves();
    let first = all.first()?;
    let height = HEAD + all.len() as f64 * SMALL;
    let title = escape(&label(&format!("{}: fewest CPUs = 1", table.title)));
    let mut svg = begin(height, &title);
    let _ = writeln!(svg, "<text class=\"head\" x=\"8\" y=\"18\">{title}</text>");
    for (at, curve) in first.schedulers.iter().enumerate() {
        let x = 14.0 + at as f64 * 190.0;
        let name = escape(&label(&curve.scheduler));
        let _ = writeln!(
            svg,
            "<path class=\"curve c{}\" d=\"M{x} 32h22\"/><text x=\"{}\" y=\"36\">{name}</text>",
            at % 3,
            x + 28.0
        );
    }
    for (at, curves) in all.iter().enumerate() {
        let top = HEAD + at as f64 * SMALL;
        pair(&mut svg, top, curves);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The two plots of one workload.
fn pair(svg: &mut String, top: f64, curves: &Curves) {
    let points = || curves.schedulers.iter().flat_map(|curve| curve.published.iter().chain(&curve.measured));
    let most = points().map(|point| point.times).fold(1.0, f64::max) * 1.05;
    let (Some(fewest), Some(largest)) =
        (points().map(|point| point.cpus).min(), points().map(|point| point.cpus).max())
    else {
        return;
    };
    let half = WIDTH / 2.0;
    let sides = [("published", MARGIN, false), ("measured", half + MARGIN, true)];
    for (name, left, measured) in sides {
        let (right, bottom) = (left + half - MARGIN - 20.0, top + SMALL - MARGIN);
        let x = |cpus: usize| {
            let share = (cpus as f64 / fewest as f64).ln() / (largest as f64 / fewest as f64).ln().max(1e-9);
            place(left + share * (right - left))
        };
        let y = |times: f64| place(bottom - times / most * (bottom - top - 18.0));
        let workload = escape(&label(&curves.workload));
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\">{workload}: {name}</text>", top + 12.0);
        let by = step(most, 4.0);
        for tick in 0..=(most / by).floor() as i64 {
            let value = tick as f64 * by;
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{left} {at}H{right}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y(value) + 4.0,
                number(value),
                at = y(value),
            );
        }
        for (number, curve) in curves.schedulers.iter().enumerate() {
            let points = if measured { &curve.measured } else { &curve.published };
            let path: Vec<String> =
                points.iter().map(|point| format!("{} {}", x(point.cpus), y(point.times))).collect();
            let _ = writeln!(svg, "<path class=\"curve c{}\" d=\"M{}\"/>", number % 3, path.join("L"));
            for point in points.iter().filter(|_| number == 0) {
                let _ = writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    x(point.cpus),
                    bottom + 16.0,
                    counted(point.cpus, "CPU")
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::tests::outcome;

    #[test]
    fn a_table_has_a_picture_of_its_rows_and_one_of_growth() {
        let plots = document_plots(&outcome());
        let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
        let table = format!("{}-{}", outcome().name, outcome().tables[0].id);
        assert_eq!(names[..2], [table.clone(), format!("{table}-growth")], "{names:?}");
        let rows = outcome().tables[0].rows.iter().filter_map(Drawn::of).count();
        assert_eq!(plots[0].svg.matches("class=\"gap\"").count(), rows);
        assert!(plots[1].svg.contains(": published</text>") && plots[1].svg.contains(": measured</text>"));
        assert!(plots.iter().all(|plot| plot.svg.ends_with("</svg>\n")));
    }

    #[test]
    fn a_row_without_a_figure_is_not_drawn() {
        let mut document = outcome();
        document.tables.truncate(1);
        document.tables[0].growth.clear();
        document.tables[0].rows.iter_mut().for_each(|row| row.measured = None);
        assert_eq!(document_plots(&document), []);
    }
}
