//! The graph of waits: one node a task, one edge a pair from the requester to its provider.

use super::layout::{self, EDGE, Layout, Place};
use super::{ms, party, through};
use crate::names::{cut, escape, visible};
use schedlab_base::DurationNs;
use schedlab_trace::waits::{Party, WaitPair, Waits};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use unicode_width::UnicodeWidthStr;

/// Lines in a picture. Chosen: more are not told apart. Where there are more pairs, the tasks of a group are one box.
const LINES: usize = 120;

/// The inversion of a line that is marked, as a part of its time: one in so many. Chosen.
const MARKED: u64 = 10;

/// Characters of a name or a label that the picture shows. Chosen; pointing at it shows all of them.
const SHOWN: usize = 36;

/// Width of a column of text in a box, and in a label, in pixels: their fonts are monospaced.
const LETTER: f64 = 7.3;
const NOTE: f64 = 6.7;

/// One line of the picture: waits of a task, or of a group of tasks, for another one.
#[derive(Clone, Debug)]
struct Line {
    from: String,
    to: String,
    through: String,
    waits: u64,
    time: DurationNs,
    inversion: DurationNs,
    /// Nothing where the line stands for several pairs.
    confidence: Option<u32>,
}

impl Line {
    fn new(pair: &WaitPair) -> Line {
        Line {
            from: party(&pair.requester),
            to: party(&pair.provider),
            through: through(pair),
            waits: pair.waits,
            time: pair.time,
            inversion: pair.inversion,
            confidence: Some(pair.confidence),
        }
    }

    fn is_marked(&self) -> bool {
        self.inversion.0 > 0 && self.inversion.0 >= self.time.0 / MARKED
    }

    /// 1 to 6, by the part of the longest total.
    fn stroke(&self, most: u64) -> f64 {
        1.0 + 5.0 * self.time.0 as f64 / most.max(1) as f64
    }

    fn label(&self) -> String {
        format!("{} {}x, {} ms", self.through, self.waits, ms(self.time))
    }

    fn details(&self) -> String {
        let sure = self.confidence.map_or_else(String::new, |sure| format!(", confidence {sure}"));
        format!(
            "{} waits for {} through {}: {} waits, {} ms, {} ms of it inversion{sure}",
            self.from,
            self.to,
            self.through,
            self.waits,
            ms(self.time),
            ms(self.inversion)
        )
    }
}

/// What is drawn of waits.
struct Graph {
    /// The longest total first.
    lines: Vec<Line>,
    /// What the picture leaves out; nothing where every pair is a line.
    remark: Option<String>,
}

impl Graph {
    /// The pairs that are at least so sure. Where they are more than [`LINES`], the tasks of a group (the name before the
    /// `/`) are drawn as one.
    fn new(waits: &Waits, min_confidence: u32) -> Graph {
        let sure: Vec<&WaitPair> =
            waits.pairs.iter().filter(|pair| pair.confidence >= min_confidence).collect();
        if sure.len() <= LINES {
            return Graph { lines: sure.into_iter().map(Line::new).collect(), remark: None };
        }
        let mut lines = grouped(&sure);
        let left_out = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let mut remark = format!(
            "{} pairs are too many for a picture: tasks whose names are equal before the / are one box in it.",
            sure.len()
        );
        if left_out > 0 {
            remark.push_str(&format!(" The {left_out} lines with the least time are left out."));
        }
        Graph { lines, remark: Some(remark) }
    }

    fn most(&self) -> u64 {
        self.lines.iter().map(|line| line.time.0).max().unwrap_or(0)
    }
}

/// The pairs summed up by group of tasks and mechanism.
fn grouped(pairs: &[&WaitPair]) -> Vec<Line> {
    let group = |party: &Party| party.name.split('/').next().unwrap_or_default().to_string();
    let sides = pairs.iter().flat_map(|pair| [&pair.requester, &pair.provider]);
    let members: BTreeSet<(String, i32)> = sides.map(|party| (group(party), party.thread)).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in &members {
        *counts.entry(name).or_default() += 1;
    }
    let named = |one: &Party| match group(one) {
        name if counts.get(name.as_str()).is_none_or(|count| *count == 1) => party(one),
        name => format!("{name} ({} tasks)", counts[name.as_str()]),
    };
    let mut lines: BTreeMap<(String, String, String), Line> = BTreeMap::new();
    for pair in pairs {
        let new = Line { from: named(&pair.requester), to: named(&pair.provider), ..Line::new(pair) };
        match lines.entry((new.from.clone(), new.to.clone(), new.through.clone())) {
            Entry::Vacant(place) => drop(place.insert(new)),
            Entry::Occupied(mut known) => {
                let line = known.get_mut();
                line.waits += new.waits;
                line.time += new.time;
                line.inversion += new.inversion;
                line.confidence = None;
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.time));
    lines
}

/// The graph in Graphviz' language: `dot -Tsvg` draws it.
pub fn waits_dot(waits: &Waits, min_confidence: u32) -> String {
    // Graphviz resolves character references in quoted text.
    let quoted = |text: &str| {
        let text = visible(text).replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{text}\"")
    };
    let graph = Graph::new(waits, min_confidence);
    let mut text = "digraph waits {\n  rankdir=LR;\n  node [shape=box];\n".to_string();
    for line in &graph.lines {
        text.push_str(&format!(
            "  {} -> {} [label={}, tooltip={}, penwidth={:.1}{}];\n",
            quoted(&line.from),
            quoted(&line.to),
            quoted(&line.label()),
            quoted(&line.details()),
            line.stroke(graph.most()),
            if line.is_marked() { ", color=red" } else { "" }
        ));
    }
    text + "}\n"
}

/// The picture of the graph, and what it leaves out; nothing without pairs.
pub(super) fn svg(waits: &Waits, min_confidence: u32) -> Option<(String, Option<String>)> {
    let graph = Graph::new(waits, min_confidence);
    let names: BTreeSet<&str> = graph.lines.iter().flat_map(|line| [&*line.from, &*line.to]).collect();
    let numbers: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let lines = graph.lines.iter().map(|line| layout::Line {
        from: numbers[line.from.as_str()],
        to: numbers[line.to.as_str()],
        label: width(&line.label(), NOTE),
    });
    let lines: Vec<layout::Line> = lines.collect();
    let boxes: Vec<f64> = names.iter().map(|name| width(name, LETTER)).collect();
    let places = layout::layout(&boxes, &lines);
    let (width, height) = (places.width.ceil(), places.height.ceil());
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"who waits for whom\">\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" \
         markerUnits=\"userSpaceOnUse\" markerWidth=\"12\" markerHeight=\"12\" orient=\"auto\"><path class=\"head\" \
         d=\"M0 0L8 4L0 8z\"/></marker></defs>\n"
    );
    for (at, line) in graph.lines.iter().enumerate() {
        text.push_str(&line_svg(line, graph.most(), &path(lines[at], at, &places), places.routes[at][0]));
    }
    text.extend(names.iter().zip(&places.boxes).map(|(name, at)| box_svg(name, *at)));
    (!names.is_empty()).then(|| (text + "</svg>\n", graph.remark))
}

/// Room for a text in letters of one width, with its margins.
fn width(text: &str, letter: f64) -> f64 {
    cut(text, SHOWN).width() as f64 * letter + 2.0 * EDGE
}

/// A line with its label above the part of it at `label`.
fn line_svg(line: &Line, most: u64, path: &str, label: Place) -> String {
    format!(
        "<g><title>{}</title><path class=\"{}\" stroke-width=\"{:.1}\" marker-end=\"url(#arrow)\" d=\"{path}\"/>\
         <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>\n",
        escape(&line.details()),
        if line.is_marked() { "wait marked" } else { "wait" },
        line.stroke(most),
        label.x + label.width / 2.0,
        label.y - 7.0,
        escape(&cut(&line.label(), SHOWN))
    )
}

fn box_svg(name: &str, at: Place) -> String {
    format!(
        "<g><title>{}</title><rect class=\"node\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"22\" \
         rx=\"4\"/><text class=\"task\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>\n",
        escape(name),
        at.x,
        at.y - 11.0,
        at.width,
        at.x + at.width / 2.0,
        at.y + 4.0,
        escape(&cut(name, SHOWN))
    )
}

/// The line with this number: straight in the columns that it crosses, bent between them.
fn path(line: layout::Line, number: usize, places: &Layout) -> String {
    let (from, to, route) = (places.boxes[line.from], places.boxes[line.to], &places.routes[number]);
    let right = route[0].x > from.x;
    // Between boxes of one column the line turns back where its label begins.
    let returns = right && to.x < route[0].x;
    let (mut x, mut y) = (if right { from.x + from.width } else { from.x }, from.y);
    let mut text = format!("M{x:.1} {y:.1}");
    let mut bend = |to_x: f64, to_y: f64| {
        let middle = f64::midpoint(x, to_x);
        text.push_str(&format!("C{middle:.1} {y:.1} {middle:.1} {to_y:.1} {to_x:.1} {to_y:.1}"));
        (x, y) = (to_x, to_y);
    };
    for place in route {
        let (left, end) = (place.x, place.x + place.width);
        bend(if right { left } else { end }, place.y);
        if !returns {
            let far = if right { end } else { left };
            bend(far, place.y);
        }
    }
    // The last curve has a length, from which the arrow takes its direction.
    bend(if right && !returns { to.x } else { to.x + to.width }, to.y);
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::waits;
    use super::*;
    use schedlab_trace::waits::Mechanism;

    #[test]
    fn graphs_hold_the_sure_pairs() {
        let mut waits = waits();
        waits.pairs[0].provider.name = "a\"b\\".into();
        let text = waits_dot(&waits, 20);
        assert!(text.starts_with("digraph waits {") && text.ends_with("}\n"));
        assert!(text.contains("\"client [8]\" -> \"a\\\"b\\\\ [9]\""), "{text}");
        assert_eq!(text.matches("->").count(), 2);
        assert!(text.contains("color=red"), "two thirds are inversion");
        assert_eq!(waits_dot(&Waits::default(), 0).matches("->").count(), 0);
    }

    #[test]
    fn the_picture_has_every_node_once() {
        let (text, remark) = svg(&waits(), 0).unwrap();
        assert_eq!(text.matches("<rect").count(), 4);
        assert_eq!(text.matches("class=\"wait").count(), 3);
        assert!(text.contains("&lt;server&gt; [9]") && !text.contains("<server>"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(svg(&waits(), 41).is_none() && remark.is_none());
    }

    /// A ring of so many tasks, each waiting for the next one through so many mechanisms.
    fn ring(tasks: i32, mechanisms: &[Mechanism]) -> Waits {
        let mut waits = waits();
        let first = waits.pairs[0].clone();
        let party = |at: i32| Party { name: format!("m/{at}"), thread: 1001 + at, ..first.requester.clone() };
        let pair = |at, mechanism| WaitPair {
            requester: party(at),
            provider: party((at + 1) % tasks),
            mechanism,
            ..first.clone()
        };
        waits.pairs = mechanisms
            .iter()
            .flat_map(|one| (0..tasks).map(|at| pair(at, *one)).collect::<Vec<_>>())
            .collect();
        waits
    }

    /// Left, right, top and bottom of every text of a picture, as wide as a browser draws them, and the picture's size.
    fn texts(svg: &str) -> (Vec<[f64; 4]>, f64, f64) {
        let document = roxmltree::Document::parse(svg).unwrap();
        let number = |node: &roxmltree::Node, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let texts = document.descendants().filter(|node| node.has_tag_name("text")).map(|node| {
            let letter = if node.attribute("class") == Some("task") { 12.0 } else { 11.0 } * 0.605;
            let half = node.text().unwrap().width() as f64 * letter / 2.0;
            let (x, y) = (number(&node, "x"), number(&node, "y"));
            [x - half, x + half, y - 10.0, y + 3.0]
        });
        let root = document.root_element();
        (texts.collect(), number(&root, "width"), number(&root, "height"))
    }

    #[test]
    fn texts_are_apart_and_the_picture_is_as_large_as_they_need() {
        let pipe = &[Mechanism::Pipe];
        for (waits, least, most) in [
            (waits(), (400.0, 60.0), (1500.0, 140.0)),
            (ring(2, pipe), (400.0, 60.0), (600.0, 80.0)),
            (ring(80, pipe), (900.0, 500.0), (1500.0, 1400.0)),
            (
                ring(40, &[Mechanism::Pipe, Mechanism::Futex, Mechanism::Tcp]),
                (900.0, 600.0),
                (1500.0, 2600.0),
            ),
        ] {
            let (svg, _) = svg(&waits, 0).unwrap();
            let (texts, width, height) = texts(&svg);
            assert!(
                (least.0..most.0).contains(&width) && (least.1..most.1).contains(&height),
                "{width} {height}"
            );
            for (at, one) in texts.iter().enumerate() {
                assert!(one[0] > 0.0 && one[1] < width && one[2] > 0.0 && one[3] < height, "{one:?}");
                let apart = |other: &[f64; 4]| {
                    one[1] < other[0] || other[1] < one[0] || one[3] < other[2] || other[3] < one[2]
                };
                assert!(texts[..at].iter().all(apart), "{one:?} of {texts:?}");
            }
        }
    }

    #[test]
    fn arrows_lead_from_the_requester_to_the_provider() {
        let (text, _) = svg(&ring(2, &[Mechanism::Pipe]), 0).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let places = |path: &str| -> Vec<f64> {
            path.split(['M', 'C', ' ']).filter_map(|number| number.parse().ok()).collect()
        };
        let ends: Vec<(f64, f64, f64)> = document
            .descendants()
            .filter(|node| node.attribute("marker-end").is_some())
            .map(|node| places(node.attribute("d").unwrap()))
            .map(|numbers| (numbers[0], numbers[numbers.len() - 2], numbers[numbers.len() - 4]))
            .collect();
        // Start, end, and the point that the arrow comes from: to the right, and back to the left.
        let [(a, b, before), (c, d, after)] = ends[..] else { panic!("{ends:?}") };
        assert!(a < before && before < b && d < after && after < c, "{ends:?}");
        assert!((a - d).abs() < 0.1 && (b - c).abs() < 0.1, "{ends:?}");
    }

    #[test]
    fn many_pairs_are_drawn_by_groups() {
        let waits = ring(80, &[Mechanism::Pipe, Mechanism::Futex]);
        let (text, remark) = svg(&waits, 0).unwrap();
        assert_eq!((text.matches("<rect").count(), text.matches("class=\"wait").count()), (1, 2));
        assert!(text.contains("m (80 tasks)") && text.contains("pipe 800x, 1200.000 ms"), "{text}");
        assert!(remark.unwrap().starts_with("160 pairs are too many for a picture"));
        assert_eq!(waits_dot(&waits, 0).matches("->").count(), 2);
    }
}
