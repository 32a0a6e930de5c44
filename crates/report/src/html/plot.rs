//! Plots of points over two axes as SVG: drawn in one size that stays readable on a narrow
//! screen, with a legend in the page's own text. Series differ by shape and dash, not by
//! colour alone.

use super::{breakable, escape};
use crate::format::number;
use crate::names::label;
use std::fmt::Write as _;

/// Size of a plot and of its parts, in pixels.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 316.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 464.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 250.0;

/// Colours and shapes before they repeat. Colours repeat first, so that pairs stay apart.
pub(super) const COLOURS: usize = 6;
const SHAPES: usize = 5;
/// Half the width of a letter: the larger ones of a narrow screen.
const LETTER: f64 = 4.4;
/// An axis whose largest value is so many times the smallest one is logarithmic. Chosen.
const WIDE: f64 = 8.0;

/// Points of a plot from which on their intervals are pale and have no caps, since they lie over each other. Chosen.
const MANY: usize = 100;

/// One value at one place.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The ends of its interval.
    pub(super) interval: Option<[f64; 2]>,
    /// What is shown when it is pointed at.
    pub(super) about: String,
}

/// The ends of the interval around a mean that has this half width.
pub(super) fn around(mean: f64, half: Option<f64>) -> Option<[f64; 2]> {
    half.map(|half| [mean - half, mean + half])
}

/// A line of its own, which does not join the points.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) corners: Vec<(f64, f64)>,
    /// What is shown when it is pointed at.
    pub(super) about: String,
}

/// The points of one name.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
    /// Drawn in place of a line from point to point.
    pub(super) course: Option<Course>,
}

impl Point {
    /// The ends of its interval, where that can be drawn.
    fn ends(&self) -> Option<[f64; 2]> {
        self.interval.filter(|[low, high]| low.is_finite() && high.is_finite() && low < high)
    }
}

impl Series {
    /// Points without a course.
    pub(super) fn new(name: String, points: Vec<Point>) -> Series {
        Series { name, points, course: None }
    }

    fn corners(&self) -> impl Iterator<Item = (f64, f64)> {
        self.course.iter().flat_map(|course| course.corners.iter().copied())
    }
}

/// How values become places.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Axis {
    /// From zero.
    Linear,
    /// From zero to this value at least: plots that are compared have the same scale.
    UpTo(f64),
    /// Equal factors are equal distances where the values are far apart, else linear.
    Factors,
    /// Equal factors are equal distances, from 1 divided by this value to it. What is farther lies at the end.
    Ratios(f64),
    /// The values 0, 1, 2 ... with these names.
    Names(Vec<String>),
}

/// A plot to be drawn.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// The points of a series are joined, unless it has a course.
    pub(super) lines: bool,
    pub(super) series: Vec<Series>,
}

/// Round steps (1, 2 or 5 times a power of ten) of which at most `count` fit into a span.
pub(crate) fn step(span: f64, count: f64) -> f64 {
    let least = span / count;
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|round| round * power).find(|step| *step >= least).unwrap_or(least)
}

/// A number in few characters: `250k`, `1.5M`.
pub(super) fn short(value: f64) -> String {
    let (divisor, sign) = match value.abs() {
        size if size >= 1e15 => return format!("{value:.0e}"),
        size if size >= 1e12 => (1e12, "T"),
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        size if size >= 1e-3 || size == 0.0 => (1.0, ""),
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{:.4}", value / divisor);
    format!("{}{sign}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// An axis with the range of its values.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Values are finite; there is at least one.
    fn new(axis: &Axis, values: &[f64], named: bool) -> Scale {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match axis {
            Axis::Names(names) => {
                let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
                Scale { low: -0.3, high: names.len() as f64 - 0.7, log: false, ticks }
            }
            Axis::Factors if low > 0.0 && high / low >= WIDE => Scale::factors(low, high, values, named),
            Axis::Ratios(reach) => Scale::factors(1.0 / reach, *reach, values, false),
            Axis::UpTo(most) => Scale::linear(low, high.max(*most), values, named),
            Axis::Linear | Axis::Factors => Scale::linear(low, high, values, named),
        }
    }

    fn linear(low: f64, high: f64, values: &[f64], named: bool) -> Scale {
        let (low, high) = (low.min(0.0), if high > low.min(0.0) { high } else { low.min(0.0) + 1.0 });
        let by = step(high - low, 5.0);
        let (first, last) = ((low / by).floor(), (high / by).ceil());
        let count = (last - first) as usize;
        let mut ticks: Vec<f64> = (0..=count).map(|at| (first + at as f64) * by).collect();
        if named {
            ticks = few(values).unwrap_or(ticks);
        }
        let ticks = ticks.into_iter().map(|value| (value, short(value))).collect();
        Scale { low: first * by, high: last * by, log: false, ticks }
    }

    fn factors(low: f64, high: f64, values: &[f64], named: bool) -> Scale {
        let (first, last) = (low.log10().floor(), high.log10().ceil());
        let decades = (last - first) as i32;
        let rounds: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks: Vec<f64> = (0..=decades)
            .flat_map(|at| rounds.iter().map(move |round| round * 10f64.powf(first + f64::from(at))))
            .collect();
        if named {
            ticks = few(values).unwrap_or(ticks);
        }
        let (low, high) = (low / 1.25, high * 1.25);
        ticks.retain(|tick| (low..=high).contains(tick));
        let ticks = ticks.into_iter().map(|value| (value, short(value))).collect();
        Scale { low: low.log10(), high: high.log10(), log: true, ticks }
    }

    /// The place between two ends, to a tenth of a pixel.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        ((from + share * (to - from)) * 10.0).round() / 10.0
    }
}

/// The different values, if they are so few that each can have a tick.
fn few(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.dedup();
    (values.len() <= 8).then_some(values)
}

impl Plot {
    /// The plot with its legend; nothing without finite points.
    pub(super) fn html(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| finite(point));
        let corners = || self.series.iter().flat_map(Series::corners);
        let xs: Vec<f64> = points().map(|point| point.x).chain(corners().map(|(x, _)| x)).collect();
        let ys: Vec<f64> = points()
            .flat_map(|point| {
                let [low, high] = point.ends().unwrap_or([point.y; 2]);
                let low = if self.y == Axis::Factors && low <= 0.0 { point.y } else { low };
                [low, point.y, high]
            })
            .chain(corners().map(|(_, y)| y))
            .collect();
        if xs.is_empty() {
            return None;
        }
        // Where only points are, each may have its own mark on the axis.
        let named = corners().next().is_none();
        let (x, y) = (Scale::new(&self.x, &xs, named), Scale::new(&self.y, &ys, false));
        let about = format!("{}: {} over {}", self.title, self.y_label, self.x_label);
        let mut text = format!(
            "<figure class=\"plot\">\n<figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-label=\"{}\">\n",
            breakable(&self.title),
            escape(&about)
        );
        self.axes(&mut text, &x, &y);
        for (at, series) in self.series.iter().enumerate() {
            self.series(&mut text, at, series, &x, &y);
        }
        text.push_str("</svg>\n");
        text.push_str(&self.legend());
        Some(text + "</figure>\n")
    }

    /// Names of the series that have something to show, with their marks, which stand on a line where points are joined.
    fn legend(&self) -> String {
        let line = if self.lines { "<path class=\"line\" d=\"M-14 0H14\"/>" } else { "" };
        let shown = |series: &Series| !series.points.is_empty() || series.course.is_some();
        let entry = |(at, series): (usize, &Series)| {
            format!(
                "<li><svg viewBox=\"-14 -8 28 16\" width=\"28\" height=\"16\" aria-hidden=\"true\"><g class=\"s{} d{}\">\
                 {line}{}</g></svg>{}</li>\n",
                at % COLOURS,
                at % SHAPES,
                shape(at),
                escape(&label(&series.name))
            )
        };
        let entries = self.series.iter().enumerate().filter(|(_, series)| shown(series)).map(entry);
        format!("<ul class=\"legend\">\n{}</ul>\n", entries.collect::<String>())
    }

    fn axes(&self, text: &mut String, x: &Scale, y: &Scale) {
        for (value, name) in &y.ticks {
            let at = y.place(*value, BOTTOM, TOP);
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{LEFT} {at}H{RIGHT}\"/><text x=\"{}\" y=\"{}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                escape(name)
            );
        }
        for (at, row, name) in places(x) {
            let _ = write!(text, "<path class=\"grid\" d=\"M{at} {BOTTOM}v5\"/>");
            if let Some(row) = row {
                let _ = writeln!(
                    text,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    at.min(WIDTH - name.chars().count() as f64 * LETTER),
                    BOTTOM + 19.0 + 16.0 * row as f64,
                    escape(name)
                );
            }
        }
        let _ = writeln!(
            text,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/><text x=\"{}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text><text transform=\"translate(13 {}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            HEIGHT - 10.0,
            escape(&self.x_label),
            f64::midpoint(TOP, BOTTOM),
            escape(&self.y_label)
        );
        // On two axes of one range, equal values lie on the diagonal.
        if matches!(self.x, Axis::Ratios(_)) && self.x == self.y {
            let _ = writeln!(text, "<path class=\"axis\" d=\"M{LEFT} {BOTTOM}L{RIGHT} {TOP}\"/>");
        }
    }

    fn series(&self, text: &mut String, at: usize, series: &Series, x: &Scale, y: &Scale) {
        let points: Vec<&Point> = series.points.iter().filter(|point| finite(point)).collect();
        let at_pixel = |px: f64, py: f64| (x.place(px, LEFT, RIGHT), y.place(py, BOTTOM, TOP));
        let place = |point: &Point| at_pixel(point.x, point.y);
        let many = self.series.iter().map(|series| series.points.len()).sum::<usize>() > MANY;
        let pale = if many { " many" } else { "" };
        let _ = writeln!(text, "<g class=\"s{} d{}{pale}\">", at % COLOURS, at % SHAPES);
        if let Some(course) = &series.course {
            let places = series.corners().map(|(x, y)| at_pixel(x, y));
            let about = escape(&course.about);
            let _ =
                writeln!(text, "<path class=\"line\" d=\"{}\"><title>{about}</title></path>", path(places));
        } else if self.lines && points.len() > 1 {
            let path: Vec<String> =
                points.iter().map(|point| place(point)).map(|(x, y)| format!("{x} {y}")).collect();
            let _ = writeln!(text, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
        }
        for point in points {
            let (px, py) = place(point);
            if let Some(ends) = point.ends() {
                let [low, high] = ends.map(|end| y.place(end, BOTTOM, TOP));
                let caps = if many { String::new() } else { format!("M{0} {low}h8M{0} {high}h8", px - 4.0) };
                let _ = write!(text, "<path class=\"interval\" d=\"M{px} {low}V{high}{caps}\"/>");
            }
            let _ = writeln!(
                text,
                "<g transform=\"translate({px} {py})\">{}<title>{}</title></g>",
                shape(at),
                escape(&point.about)
            );
        }
        text.push_str("</g>\n");
    }
}

/// A path from corner to corner, without those that are less than a pixel from the one before.
fn path(corners: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    let mut last: Option<(f64, f64)> = None;
    let mut corners = corners.peekable();
    while let Some((x, y)) = corners.next() {
        let _ = match last {
            None => write!(text, "M{x} {y}"),
            Some((lx, ly)) if corners.peek().is_some() && (x - lx).abs() < 1.0 && (y - ly).abs() < 1.0 => {
                continue;
            }
            Some((_, ly)) if y.total_cmp(&ly).is_eq() => write!(text, "H{x}"),
            Some((lx, _)) if x.total_cmp(&lx).is_eq() => write!(text, "V{y}"),
            Some(_) => write!(text, "L{x} {y}"),
        };
        last = Some((x, y));
    }
    text
}

/// Where the marks of the axis below are: place, row of the name (none where it would touch others in both rows), name.
fn places(x: &Scale) -> Vec<(f64, Option<usize>, &str)> {
    let mut ends = [f64::NEG_INFINITY; 2];
    let placed = |(value, name): &'_ (f64, String)| {
        let at = x.place(*value, LEFT, RIGHT);
        let half = name.chars().count() as f64 * LETTER;
        let row = ends.iter().position(|end| at - half > *end);
        if let Some(row) = row {
            ends[row] = at + half + 10.0;
        }
        (at, row)
    };
    let rows: Vec<(f64, Option<usize>)> = x.ticks.iter().map(placed).collect();
    rows.into_iter().zip(&x.ticks).map(|((at, row), (_, name))| (at, row, name.as_str())).collect()
}

fn finite(point: &Point) -> bool {
    point.x.is_finite() && point.y.is_finite()
}

/// The mark of a series around the origin.
pub(super) fn shape(at: usize) -> &'static str {
    [
        "<circle r=\"4.5\"/>",
        "<rect x=\"-4\" y=\"-4\" width=\"8\" height=\"8\"/>",
        "<path d=\"M0-5.5L5.2 4H-5.2z\"/>",
        "<path d=\"M0-6L6 0L0 6L-6 0z\"/>",
        "<path d=\"M0 5.5L5.2-4H-5.2z\"/>",
    ][at % SHAPES]
}

/// A value with its interval and unit.
pub(super) fn told(mean: f64, half: Option<f64>, unit: &str) -> String {
    let half = half.map_or_else(String::new, |half| format!(" \u{b1} {}", number(half)));
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    format!("{}{half}{unit}", number(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64, Option<f64>)]) -> Plot {
        let point = |&(x, y, half): &(f64, f64, Option<f64>)| {
            let interval = around(y, half);
            Point { x, y, interval, about: "<b>&".into() }
        };
        Plot {
            title: "t<1>".into(),
            x_label: "CPUs".into(),
            y_label: "\"y\"".into(),
            x: Axis::Factors,
            y: Axis::Linear,
            lines: true,
            series: vec![Series::new("<o1>".into(), points.iter().map(point).collect())],
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let text = plot(&[(1.0, 0.0, None), (10.0, 100.0, Some(50.0)), (100.0, 200.0, None)]).html().unwrap();
        // Factors: the second point is half way between the others; linear from 0 to 200.
        assert!(text.contains("translate(267 131)"), "{text}");
        assert!(text.contains("M267 190.5V71.5"), "{text}");
        assert!(text.contains("t&lt;1&gt;: &quot;y&quot; over CPUs") && text.contains("&lt;b&gt;&amp;"));
        assert!(!text.contains("<o1>") && !text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn ticks_of_five_letters_leave_the_label_alone() {
        let plot = Plot { y: Axis::Factors, ..plot(&[(1.0, 0.001, None), (10.0, 1.0, None)]) };
        let text = plot.html().unwrap();
        let label = text.split("translate(").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let tick =
            text.split(">0.001</text>").next().and_then(|before| before.rsplit("<text x=\"").next()).unwrap();
        let tick: f64 = tick.split('"').next().unwrap().parse().unwrap();
        // A letter that hangs below the line is half a letter's width longer there.
        let label = label.parse::<f64>().unwrap() + LETTER;
        assert!(tick - 5.0 * 2.0 * LETTER >= label, "{tick} {label}: {text}");
    }

    #[test]
    fn odd_values_make_no_broken_picture() {
        assert!(plot(&[]).html().is_none() && plot(&[(f64::NAN, 1.0, None)]).html().is_none());
        let lists: [&[(f64, f64, Option<f64>)]; 4] = [
            &[(0.0, 0.0, None)],
            &[(5.0, -3.0, Some(f64::INFINITY)), (5.0, f64::INFINITY, None)],
            &[(1e-300, 1e300, None), (1e300, 1e-300, None)],
            &[(2.0, 7.0, Some(0.0)), (2.0, 7.0, Some(1e9))],
        ];
        for list in lists {
            for y in [Axis::Linear, Axis::Factors] {
                let text = Plot { y, ..plot(list) }.html().unwrap();
                assert!(!text.contains("NaN") && !text.contains("inf"), "{list:?}: {text}");
            }
        }
    }

    #[test]
    fn a_course_is_drawn_in_place_of_a_line_between_the_points() {
        let mut plot = plot(&[(10.0, 100.0, None)]);
        let corners = vec![(1.0, 200.0), (1.0, 100.0), (1.001, 99.9), (100.0, 100.0), (100.0, 0.0)];
        plot.series[0].course = Some(Course { corners, about: "<all>".into() });
        let text = plot.html().unwrap();
        // The corner a tenth of a pixel away is left out.
        assert!(text.contains("d=\"M87.4 12V131H446.6V250\"><title>&lt;all&gt;</title>"), "{text}");
        assert!(text.contains("translate(267 131)"), "the axes reach to the ends of the course: {text}");
    }

    #[test]
    fn equal_ratios_lie_on_the_diagonal() {
        let reach = Axis::Ratios(8.0);
        let points = [(1.0, 1.0, None), (0.5, 2.0, None), (100.0, 0.001, None)];
        let plot = Plot { x: reach.clone(), y: reach, lines: false, ..plot(&points) };
        let text = plot.html().unwrap();
        assert!(text.contains("<path class=\"axis\" d=\"M70 250L464 12\"/>"), "{text}");
        // 1 is in the middle, opposite changes are equally far from it, and what is too far lies at the ends.
        for place in ["translate(267 131)", "translate(207.7 95.2)", "translate(464 250)"] {
            assert!(text.contains(place), "{place}: {text}");
        }
        let mut crowd = Plot { y: Axis::Linear, ..plot };
        crowd.series[0].points =
            vec![Point { interval: Some([1.0, 2.0]), ..crowd.series[0].points[0].clone() }; 101];
        let text = crowd.html().unwrap();
        assert!(text.contains(" many\">") && !text.contains("h8M") && !text.contains("L464 12"), "{text}");
    }

    #[test]
    fn names_that_would_touch_stand_in_two_rows() {
        let names = ["ministat", "pentium4", "i386", "amd64", "apache", "oggenc", "ubench", "builds"];
        let x = Axis::Names(names.map(String::from).to_vec());
        let text = Plot { x, lines: false, ..plot(&[(1.0, 1.0, None)]) }.html().unwrap();
        assert!(names.iter().all(|name| text.contains(&format!(">{name}</text>"))), "{text}");
        assert!(text.contains("y=\"269\"") && text.contains("y=\"285\""), "{text}");
        assert!(!text.contains("class=\"line\""), "a legend of marks alone");
    }

    #[test]
    fn steps_are_round_and_numbers_short() {
        let steps = [step(40.0, 4.0), step(39.0, 4.0), step(0.9, 5.0), step(0.0, 4.0)];
        let wanted = [10.0, 10.0, 0.2, 1.0];
        assert!(steps.iter().zip(wanted).all(|(got, want)| (got - want).abs() < 1e-12), "{steps:?}");
        let texts = [0.0, 0.25, 400.0, 250_000.0, 1.5e6, 3e13, 1e18, -2e4].map(short);
        assert_eq!(texts, ["0", "0.25", "400", "250k", "1.5M", "30T", "1e18", "-20k"]);
    }
}
