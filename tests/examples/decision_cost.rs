//! What a decision costs: BPF instructions per context switch over 10, 100, 1,000 and 5,000 runnable tasks, for every
//! shipped scheduler. Writes the table in `docs/decision-cost.md` (between its marks) and `docs/figures/decision-cost.svg`.
//!
//! `cargo run --release -p schedlab-tests --example decision_cost`
#![allow(clippy::print_stderr, reason = "progress of a command")]

use schedlab_tests::{insns_per_switch, root, shipped};

const TASKS: [u32; 4] = [10, 100, 1_000, 5_000];

/// Instructions per switch of a scheduler, by number of tasks.
type Row = (String, Vec<f64>);

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let places = digits.len();
    let separator = |at: usize| if at > 0 && (places - at).is_multiple_of(3) { "," } else { "" };
    digits.chars().enumerate().map(|(at, digit)| format!("{}{digit}", separator(at))).collect()
}

fn table(rows: &[Row]) -> String {
    let heads: String = TASKS.iter().map(|tasks| format!(" {} |", grouped(f64::from(*tasks)))).collect();
    let mut text =
        format!("| scheduler |{heads} 1,000 against 10 |\n|---|{}---|\n", "---|".repeat(TASKS.len()));
    for (name, insns) in rows {
        let cells: String = insns.iter().map(|value| format!(" {} |", grouped(*value))).collect();
        text.push_str(&format!("| `{name}` |{cells} {:.2} |\n", insns[2] / insns[0]));
    }
    text
}

/// Both axes logarithmic; the name stands at the right end of each line, moved where two would overlap.
fn figure(rows: &[Row]) -> String {
    let (width, height, left, right, top, bottom) = (760.0, 420.0, 70.0, 110.0, 20.0, 50.0);
    let most = rows.iter().flat_map(|row| &row.1).copied().fold(1000.0, f64::max).log10().ceil();
    let x = |tasks: f64| left + (tasks.log10() - 1.0) / (5000f64.log10() - 1.0) * (width - left - right);
    let y = |insns: f64| height - bottom - (insns.log10() - 2.0) / (most - 2.0) * (height - top - bottom);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\" aria-label=\"instructions per switch by runnable tasks\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for power in 2..=most as i32 {
        let at = y(10f64.powi(power));
        text.push_str(&format!("<path d=\"M{left} {at:.1}H{}\" stroke=\"#dddddd\"/>\n", width - right));
        let label = grouped(10f64.powi(power));
        text.push_str(&format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            left - 8.0,
            at + 4.0
        ));
    }
    for tasks in TASKS {
        let (at, label) = (x(tasks.into()), grouped(tasks.into()));
        text.push_str(&format!(
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>\n",
            height - 28.0
        ));
    }
    text.push_str(&format!(
        "<text x=\"{left}\" y=\"{}\">runnable tasks; instructions per switch</text>\n",
        height - 8.0
    ));
    let colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
    let mut ends: Vec<(f64, usize)> = rows.iter().enumerate().map(|(n, row)| (y(row.1[3]), n)).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::MIN;
    for (end, number) in ends {
        let (name, insns) = &rows[number];
        let colour = colours[number % colours.len()];
        let points = TASKS
            .iter()
            .zip(insns)
            .map(|(tasks, value)| format!("{:.1},{:.1}", x((*tasks).into()), y(*value)));
        let points = points.collect::<Vec<_>>().join(" ");
        text.push_str(&format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"
        ));
        let at = end.max(lowest + 14.0);
        lowest = at;
        let place = width - right + 8.0;
        text.push_str(&format!(
            "<text x=\"{place}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>\n",
            at + 4.0
        ));
    }
    text + "</svg>\n"
}

fn main() {
    let mut rows = Vec::new();
    for (name, object) in shipped() {
        let insns = TASKS.map(|tasks| insns_per_switch(&name, &object, tasks)).to_vec();
        eprintln!("{name}: {insns:.0?}");
        rows.push((name, insns));
    }
    let page = root().join("docs/decision-cost.md");
    let text = std::fs::read_to_string(&page).expect("docs/decision-cost.md is there");
    let (head, rest) = text.split_once("<!-- table -->\n").expect("the page has its first mark");
    let (_, tail) = rest.split_once("<!-- end -->").expect("the page has its second mark");
    let text = format!("{head}<!-- table -->\n{}<!-- end -->{tail}", table(&rows));
    std::fs::write(&page, text).expect("the tree is writable");
    let figures = root().join("docs/figures");
    std::fs::create_dir_all(&figures).expect("the tree is writable");
    std::fs::write(figures.join("decision-cost.svg"), figure(&rows)).expect("the tree is writable");
}
