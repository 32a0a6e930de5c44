//! Where a graph is drawn: tasks in columns, and every line between two columns in a row of its own there. So no text
//! lies on another text or on a line, however many tasks there are.
//!
//! Lines go from left to right where they can. A chain that is longer than the columns, and a cycle, continue at the
//! left. Parts that nothing joins stand below and beside each other.

/// Columns of tasks. Chosen: with labels between them they fit on a screen.
const LAYERS: usize = 4;
/// Height of a row in pixels: a box or a label above its line, and the space between two.
pub(super) const ROW: f64 = 26.0;
/// Between two columns: where lines bend.
const BEND: f64 = 40.0;
/// Between two parts, and around all.
const SPACE: f64 = 14.0;
pub(super) const EDGE: f64 = 8.0;
/// Parts stand beside each other up to this width. Chosen: the page's.
const WIDEST: f64 = 1480.0;
/// How often boxes are moved to the lines that they have. Chosen: more changes nothing to be seen.
const SWEEPS: usize = 12;

/// A line to be drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Numbers of the boxes.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Of its label, in pixels.
    pub(super) label: f64,
}

/// Where a box is, or the part of a line that crosses a column. All of a column are as wide as it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Place {
    /// Left end.
    pub(super) x: f64,
    /// Vertical centre.
    pub(super) y: f64,
    pub(super) width: f64,
}

/// Places for all, in pixels.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// One for each box.
    pub(super) boxes: Vec<Place>,
    /// For each line the columns that it crosses, from its requester on; its label is in the first one.
    pub(super) routes: Vec<Vec<Place>>,
}

/// A box, or a line in one column.
struct Item {
    column: usize,
    width: f64,
    neighbours: Vec<usize>,
    place: Place,
}

/// Lays out boxes of these widths.
pub(super) fn layout(boxes: &[f64], lines: &[Line]) -> Layout {
    let layers = layers(boxes.len(), lines);
    let item = |column, width| Item { column, width, neighbours: Vec::new(), place: Place::default() };
    let mut items: Vec<Item> = (0..boxes.len()).map(|at| item(2 * layers[at], boxes[at])).collect();
    let mut routes: Vec<Vec<usize>> = Vec::new();
    for line in lines {
        let columns = crossed(2 * layers[line.from], 2 * layers[line.to]);
        let mut last = line.from;
        let mut route = Vec::new();
        for (at, column) in columns.into_iter().enumerate() {
            route.push(items.len());
            items.push(item(column, if at == 0 { line.label } else { 0.0 }));
            join(&mut items, last, route[at]);
            last = route[at];
        }
        join(&mut items, last, line.to);
        routes.push(route);
    }
    let sizes: Vec<(Vec<usize>, f64, f64)> = parts(&items)
        .into_iter()
        .map(|part| {
            let (width, height) = arrange(&mut items, &part);
            (part, width, height)
        })
        .collect();
    let (width, height) = pack(&mut items, &sizes);
    let place = |at: &usize| items[*at].place;
    Layout {
        width,
        height,
        boxes: items[..boxes.len()].iter().map(|item| item.place).collect(),
        routes: routes.iter().map(|route| route.iter().map(place).collect()).collect(),
    }
}

fn join(items: &mut [Item], one: usize, other: usize) {
    items[one].neighbours.push(other);
    items[other].neighbours.push(one);
}

/// The columns between two of boxes; the next one on the right for a line within a column.
fn crossed(from: usize, to: usize) -> Vec<usize> {
    match from.cmp(&to) {
        std::cmp::Ordering::Less => (from + 1..to).collect(),
        std::cmp::Ordering::Greater => (to + 1..from).rev().collect(),
        std::cmp::Ordering::Equal => vec![from + 1],
    }
}

/// The layer of each box: to the right of those that it is waited for by, as far as cycles and [`LAYERS`] allow.
fn layers(boxes: usize, lines: &[Line]) -> Vec<usize> {
    let mut forward: Vec<Line> = Vec::new();
    let mut layers = vec![0; boxes];
    for line in in_depth(boxes, lines) {
        forward.push(line);
        match longest(boxes, &forward) {
            Some(found) => layers = found,
            None => {
                forward.pop();
            }
        }
    }
    // Those that no task waits for stand beside the first one that they wait for.
    for at in 0..boxes {
        let next = forward.iter().filter(|line| line.from == at).map(|line| layers[line.to]).min();
        if let Some(next) = next.filter(|_| forward.iter().all(|line| line.to != at)) {
            layers[at] = next - 1;
        }
    }
    layers
}

/// The longest path to each box; nothing where one has more than [`LAYERS`] boxes, as in a cycle.
fn longest(boxes: usize, forward: &[Line]) -> Option<Vec<usize>> {
    let mut layers = vec![0; boxes];
    loop {
        let mut settled = true;
        for line in forward {
            if layers[line.to] <= layers[line.from] {
                layers[line.to] = layers[line.from] + 1;
                settled = false;
                if layers[line.to] >= LAYERS {
                    return None;
                }
            }
        }
        if settled {
            return Some(layers);
        }
    }
}

/// The lines along the chains, those that no task waits for first.
fn in_depth(boxes: usize, lines: &[Line]) -> Vec<Line> {
    let (first, other): (Vec<usize>, Vec<usize>) =
        (0..boxes).partition(|at| lines.iter().all(|line| line.to != *at));
    let mut seen = vec![false; boxes];
    let mut found = Vec::new();
    for start in first.into_iter().chain(other) {
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let own = lines.iter().filter(|line| line.from == at);
            found.extend(own.clone().copied());
            open.extend(own.map(|line| line.to).rev());
        }
    }
    found
}

/// The items that hang together, in the order of their first ones.
fn parts(items: &[Item]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; items.len()];
    let mut parts = Vec::new();
    for start in 0..items.len() {
        let (mut open, mut part) = (vec![start], Vec::new());
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                part.push(at);
                open.extend(&items[at].neighbours);
            }
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

/// Gives the items of a part their places from 0 on, and the part its size.
fn arrange(items: &mut [Item], part: &[usize]) -> (f64, f64) {
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); 2 * LAYERS];
    for &at in part {
        items[at].place.y = ROW * columns[items[at].column].len() as f64;
        columns[items[at].column].push(at);
    }
    columns.retain(|column| !column.is_empty());
    for sweep in 0..SWEEPS {
        let forth = sweep % 2 == 0;
        for at in 0..columns.len() {
            let column = if forth { at } else { columns.len() - 1 - at };
            settle(items, &mut columns[column]);
        }
    }
    let mut x = 0.0;
    for column in &columns {
        let width = column.iter().map(|at| items[*at].width).fold(0.0, f64::max);
        for &at in column {
            (items[at].place.x, items[at].place.width) = (x, width);
        }
        x += width + BEND;
    }
    let ys = || part.iter().map(|at| items[*at].place.y);
    let (top, bottom) = (ys().fold(f64::INFINITY, f64::min), ys().fold(0.0, f64::max));
    for &at in part {
        items[at].place.y += ROW / 2.0 - top;
    }
    (x - BEND, bottom - top + ROW)
}

/// Moves the items of a column to the mean of their neighbours, a row apart from each other.
fn settle(items: &mut [Item], column: &mut [usize]) {
    let wish = |at: usize| {
        let neighbours = &items[at].neighbours;
        neighbours.iter().map(|other| items[*other].place.y).sum::<f64>() / neighbours.len().max(1) as f64
    };
    let mut wishes: Vec<(f64, usize)> = column.iter().map(|&at| (wish(at), at)).collect();
    wishes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    // Those that come too close are moved together: as many rows around the mean of their wishes.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (row, (wish, _)) in wishes.iter().enumerate() {
        blocks.push((wish - row as f64 * ROW, 1));
        while let [.., (above, several), (below, more)] = blocks[..]
            && above > below
        {
            let count = several + more;
            let mean = (above * several as f64 + below * more as f64) / count as f64;
            blocks.truncate(blocks.len() - 2);
            blocks.push((mean, count));
        }
    }
    let tops = blocks.into_iter().flat_map(|(top, count)| std::iter::repeat_n(top, count));
    for (row, (top, (_, at))) in tops.zip(wishes).enumerate() {
        items[at].place.y = top + row as f64 * ROW;
        column[row] = at;
    }
}

/// Puts parts of these sizes below each other, and beside each other where there is room; gives the size of all.
fn pack(items: &mut [Item], parts: &[(Vec<usize>, f64, f64)]) -> (f64, f64) {
    let most = |sizes: &mut dyn Iterator<Item = f64>| sizes.fold(0.0, f64::max);
    let widest = most(&mut parts.iter().map(|part| part.1));
    let tallest = most(&mut parts.iter().map(|part| part.2));
    let beside = ((WIDEST + BEND) / (widest + BEND)).floor().max(1.0);
    let full = (parts.iter().map(|part| part.2 + SPACE).sum::<f64>() / beside).max(tallest);
    let (mut x, mut y, mut size) = (EDGE, EDGE, (0.0f64, 0.0f64));
    let (mut column, mut left) = (0.0f64, beside);
    for (part, width, height) in parts {
        // The next column begins with the part of which less than half fits into this one.
        if left > 1.0 && y - EDGE + height / 2.0 > full {
            (x, y, left) = (x + column + BEND, EDGE, left - 1.0);
            column = 0.0;
        }
        for &at in part {
            items[at].place.x += x;
            items[at].place.y += y;
        }
        column = column.max(*width);
        size = (size.0.max(x + column + EDGE), size.1.max(y + height + EDGE));
        y += height + SPACE;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pairs: &[(usize, usize)]) -> Vec<Line> {
        pairs.iter().map(|&(from, to)| Line { from, to, label: 150.0 }).collect()
    }

    /// Whether no two places touch and all are inside.
    fn is_clear(layout: &Layout) -> bool {
        let places: Vec<&Place> = layout.boxes.iter().chain(layout.routes.iter().flatten()).collect();
        let apart = |one: &Place, other: &Place| {
            (one.y - other.y).abs() >= ROW - 1e-6
                || one.x + one.width <= other.x + 1e-6
                || other.x + other.width <= one.x + 1e-6
        };
        let inside = |place: &&Place| {
            place.x >= EDGE - 1e-6
                && place.x + place.width <= layout.width - EDGE + 1e-6
                && place.y >= EDGE + ROW / 2.0 - 1e-6
                && place.y <= layout.height - EDGE - ROW / 2.0 + 1e-6
        };
        places.iter().all(inside)
            && places.iter().enumerate().all(|(at, one)| places[..at].iter().all(|other| apart(one, other)))
    }

    #[test]
    fn the_size_follows_from_the_content() {
        let two = layout(&[100.0; 2], &lines(&[(0, 1), (1, 0)]));
        assert!(is_clear(&two), "{two:?}");
        assert_eq!((two.width, two.height), (2.0 * (EDGE + 100.0 + BEND) + 150.0, 2.0 * (EDGE + ROW)));
        // Forty such pairs: as many columns as the page is wide.
        let pairs: Vec<_> = (0..40).flat_map(|at| [(2 * at, 2 * at + 1), (2 * at + 1, 2 * at)]).collect();
        let many = layout(&[100.0; 80], &lines(&pairs));
        assert!(is_clear(&many));
        assert!(many.width > 1200.0 && many.width <= WIDEST + 2.0 * EDGE, "{}", many.width);
        assert!(many.height < 40.0 * (2.0 * ROW + SPACE) / 2.0, "{}", many.height);
        assert!(layout(&[], &[]).boxes.is_empty());
    }

    #[test]
    fn nothing_touches_whatever_the_graph() {
        let ring: Vec<_> = (0..80).map(|at| (at, (at + 1) % 80)).collect();
        let star: Vec<_> = (1..80).flat_map(|at| [(at, 0), (0, at)]).collect();
        let dense: Vec<_> = (0..120).map(|at| (at * 7 % 20, at * at % 20)).collect();
        let odd = [(0, 0), (0, 1), (0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6), (6, 6), (2, 7), (7, 0)];
        for pairs in [&ring, &star, &dense, &odd.to_vec()] {
            let found = layout(&vec![110.0; 80], &lines(pairs));
            assert!(is_clear(&found), "{pairs:?}: {found:?}");
            assert!(found.width < WIDEST + 2.0 * EDGE, "{}", found.width);
            assert!(found.routes.iter().all(|route| !route.is_empty()));
        }
        let height = layout(&[110.0; 80], &lines(&ring)).height;
        assert!(height < 60.0 * ROW, "a ring of 80 goes on at the left: {height}");
    }

    #[test]
    fn lines_go_from_left_to_right_where_they_can() {
        let chain = layout(&[50.0; 5], &lines(&[(3, 2), (2, 1), (1, 0), (0, 4)]));
        let x = |at: usize| chain.boxes[at].x;
        assert!(x(3) < x(2) && x(2) < x(1) && x(1) < x(0) && x(4) < x(0), "{chain:?}");
        assert!(chain.routes[0][0].x > x(3) && chain.routes[0][0].x < x(2));
        // A line back crosses every column between.
        assert_eq!(chain.routes[3].len(), 5);
    }
}
