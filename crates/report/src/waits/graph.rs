//! The graph of waits: one node a task, one edge a pair from who waits to whom it waits for.

use super::{ms, party, through};
use crate::names::{escape, label as shown, visible};
use schedlab_trace::waits::{WaitPair, Waits};
use std::f64::consts::TAU;

/// Pairs in a picture. Chosen: more are not told apart; the longest totals come first.
const EDGES: usize = 40;

/// The inversion of an edge that is marked, as a part of its time: one in so many. Chosen.
const MARKED: u64 = 10;

fn edges(waits: &Waits, min_confidence: u32) -> Vec<&WaitPair> {
    waits.pairs.iter().filter(|pair| pair.confidence >= min_confidence).take(EDGES).collect()
}

fn is_marked(pair: &WaitPair) -> bool {
    pair.inversion.0 > 0 && pair.inversion.0 >= pair.time.0 / MARKED
}

/// 1 to 6, by the part of the longest total.
fn width(pair: &WaitPair, most: u64) -> f64 {
    1.0 + 5.0 * pair.time.0 as f64 / most.max(1) as f64
}

fn label(pair: &WaitPair) -> String {
    format!("{} {}x, {} ms", through(pair), pair.waits, ms(pair.time))
}

fn details(pair: &WaitPair) -> String {
    format!(
        "{} waits for {} through {}: {} waits, {} ms, {} ms of it inversion, confidence {}",
        party(&pair.requester),
        party(&pair.provider),
        through(pair),
        pair.waits,
        ms(pair.time),
        ms(pair.inversion),
        pair.confidence
    )
}

/// The graph in Graphviz' language: `dot -Tsvg` draws it.
pub fn waits_dot(waits: &Waits, min_confidence: u32) -> String {
    // Graphviz resolves character references in quoted text.
    let quoted = |text: &str| {
        let text = visible(text).replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{text}\"")
    };
    let edges = edges(waits, min_confidence);
    let most = edges.iter().map(|pair| pair.time.0).max().unwrap_or(0);
    let mut text = "digraph waits {\n  rankdir=LR;\n  node [shape=box];\n".to_string();
    for pair in edges {
        text.push_str(&format!(
            "  {} -> {} [label={}, tooltip={}, penwidth={:.1}{}];\n",
            quoted(&party(&pair.requester)),
            quoted(&party(&pair.provider)),
            quoted(&label(pair)),
            quoted(&details(pair)),
            width(pair, most),
            if is_marked(pair) { ", color=red" } else { "" }
        ));
    }
    text + "}\n"
}

/// A point of the picture.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

const SIZE: Point = Point { x: 900.0, y: 620.0 };

/// Where node `at` of `count` is: on an ellipse, the first on the left.
fn place(at: usize, count: usize) -> Point {
    let angle = TAU * at as f64 / count.max(1) as f64 + TAU / 2.0;
    Point {
        x: SIZE.x / 2.0 + angle.cos() * (SIZE.x / 2.0 - 120.0),
        y: SIZE.y / 2.0 + angle.sin() * (SIZE.y / 2.0 - 60.0),
    }
}

/// The picture of the graph; none without edges. Edges bend to their right, so those of two tasks
/// that wait for each other are apart.
pub(super) fn svg(waits: &Waits, min_confidence: u32) -> Option<String> {
    let edges = edges(waits, min_confidence);
    let most = edges.iter().map(|pair| pair.time.0).max()?;
    let mut nodes: Vec<String> = Vec::new();
    for name in edges.iter().flat_map(|pair| [party(&pair.requester), party(&pair.provider)]) {
        if !nodes.contains(&name) {
            nodes.push(name);
        }
    }
    let (width_px, height_px) = (SIZE.x, SIZE.y);
    let mut text = format!(
        "<svg viewBox=\"0 0 {width_px} {height_px}\" width=\"{width_px}\" height=\"{height_px}\" role=\"img\" \
         aria-label=\"who waits for whom\">\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" \
         markerUnits=\"userSpaceOnUse\" markerWidth=\"12\" markerHeight=\"12\" orient=\"auto\"><path class=\"head\" \
         d=\"M0 0L8 4L0 8z\"/></marker></defs>\n"
    );
    for (at, pair) in edges.iter().enumerate() {
        let find = |name: String| nodes.iter().position(|node| *node == name).unwrap_or(0);
        let from = place(find(party(&pair.requester)), nodes.len());
        let to = place(find(party(&pair.provider)), nodes.len());
        let same = |other: &&&WaitPair| {
            other.requester.thread == pair.requester.thread && other.provider.thread == pair.provider.thread
        };
        let parallel = edges[..at].iter().filter(same).count();
        text.push_str(&edge(pair, from, to, parallel, width(pair, most)));
    }
    for (at, name) in nodes.iter().enumerate() {
        let Point { x, y } = place(at, nodes.len());
        let name = shown(name);
        let half = name.chars().count() as f64 * 3.6 + 8.0;
        text.push_str(&format!(
            "<rect class=\"node\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"22\" rx=\"4\"/><text x=\"{x:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            x - half,
            y - 11.0,
            2.0 * half,
            y + 4.0,
            escape(&name)
        ));
    }
    Some(text + "</svg>\n")
}

/// One edge: a curve from near `from` to near `to`, the further out the more are parallel to it.
fn edge(pair: &WaitPair, from: Point, to: Point, parallel: usize, width: f64) -> String {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy).max(1.0);
    let bend = 34.0 + 30.0 * parallel as f64;
    let middle = Point {
        x: f64::midpoint(from.x, to.x) - dy / length * bend,
        y: f64::midpoint(from.y, to.y) + dx / length * bend,
    };
    // The ends stay clear of the boxes.
    let clear = |end: Point| {
        let (x, y) = (middle.x - end.x, middle.y - end.y);
        let distance = x.hypot(y).max(1.0);
        let gap = 11.0 * distance / y.abs().max(distance * 0.2) + 3.0;
        Point { x: end.x + x / distance * gap, y: end.y + y / distance * gap }
    };
    let (start, end) = (clear(from), clear(to));
    let class = if is_marked(pair) { "wait marked" } else { "wait" };
    format!(
        "<path class=\"{class}\" stroke-width=\"{width:.1}\" marker-end=\"url(#arrow)\" d=\"M{:.1} {:.1}Q{:.1} {:.1} \
         {:.1} {:.1}\"><title>{}</title></path><text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{}</text>\n",
        start.x,
        start.y,
        middle.x,
        middle.y,
        end.x,
        end.y,
        escape(&details(pair)),
        f64::midpoint(middle.x, f64::midpoint(from.x, to.x)),
        f64::midpoint(middle.y, f64::midpoint(from.y, to.y)),
        escape(&shown(&label(pair)))
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::waits;
    use super::*;

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
        let text = svg(&waits(), 0).unwrap();
        assert_eq!(text.matches("<rect").count(), 4);
        assert_eq!(text.matches("class=\"wait").count(), 3);
        assert!(text.contains("&lt;server&gt; [9]") && !text.contains("<server>"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(svg(&waits(), 41).is_none());
    }
}
