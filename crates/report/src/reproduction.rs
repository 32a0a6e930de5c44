//! Documents measured again, as text: published beside measured, a verdict a row, what is
//! known of the rows that do not agree, and the share of rows that do.

use crate::format::number;
use crate::table::table;
use schedlab_reproduction::{
    DocumentOutcome, Judgement, Published, RowOutcome, Sensitivity, Share, TableOutcome,
};

/// All tables of the documents, then their summary.
pub fn reproduction_text(documents: &[DocumentOutcome]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str(&format!("{}: {}\n\n", document.name, document.title));
        for shown in &document.tables {
            text.push_str(&table_text(document, shown));
        }
        for shown in document.tables.iter().filter(|shown| !shown.growth.is_empty()) {
            let title = format!("{} {}, growth: {}", document.name, shown.id, growth_title(shown));
            text.push_str(&rows_text(&title, GROWTH, &shown.growth));
        }
        if let Some(group) = unanswerable(document) {
            text.push_str(&format!("{}: {UNANSWERABLE}\n{}\n", document.name, group_text(&group)));
        }
    }
    text + &summary(documents)
}

/// What is said above rows about growth.
pub(crate) const GROWTH: &str =
    "The figure is what a scheduler has on more CPUs over what it has on fewer. These rows decide nothing.";

/// What the growth rows of a table are about, and how many agree.
pub(crate) fn growth_title(shown: &TableOutcome) -> String {
    format!("{}; {}", shown.title, share_text(Share::of(shown.growth.iter())))
}

/// What stands above the rows that no scheduler can answer.
pub(crate) const UNANSWERABLE: &str = "rows that no scheduler can answer";

/// The rows that no scheduler can answer, with the reason of each and the share with and without them.
pub(crate) fn unanswerable(document: &DocumentOutcome) -> Option<GroupTable> {
    let rows = document.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let line = |(table, row): (&TableOutcome, &RowOutcome)| {
        let measured = row.measured.map_or_else(|| "-".to_string(), number);
        vec![
            format!("{}: {}", table.id, row.place),
            published(row.published, &row.says),
            measured,
            row.verdict.text(),
            row.unanswerable.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = rows.filter(|(_, row)| !row.unanswerable.is_empty()).map(line).collect();
    let share = |share: Share| format!("{} ({:.1} %)", share_text(share), share.percent());
    let (with, without) = (share(document.measured()), share(document.answerable()));
    let about = format!("They are judged and counted above. With them {with}, without them {without}.");
    let header = ["row", "published", "measured", "verdict", "why"].map(String::from).to_vec();
    (!lines.is_empty()).then_some(GroupTable { about, header, right: vec![1, 2], lines })
}

/// One line a document: how many of its rows agree, and whether that is enough.
pub fn summary(documents: &[DocumentOutcome]) -> String {
    let rows: Vec<Vec<String>> = documents.iter().map(summary_row).collect();
    table(&SUMMARY, &SUMMARY_RIGHT, &rows)
}

/// Columns of the summary, and those of numbers.
pub(crate) const SUMMARY: [&str; 9] =
    ["document", "rows", "agree", "share", "wanted", "computed again", "in all", "answerable", "growth"];
pub(crate) const SUMMARY_RIGHT: [usize; 7] = [1, 2, 3, 4, 5, 7, 8];

pub(crate) fn summary_row(document: &DocumentOutcome) -> Vec<String> {
    let measured = document.measured();
    let apart = |share: Share| match share.rows {
        0 => "-".to_string(),
        rows => format!("{} of {rows}", share.agreeing),
    };
    let share = if measured.rows == 0 { "-".to_string() } else { format!("{:.1} %", measured.percent()) };
    vec![
        document.name.clone(),
        measured.rows.to_string(),
        measured.agreeing.to_string(),
        share,
        format!("{:.0} %", document.wanted_percent),
        apart(document.recomputed()),
        if document.reached() { "reached" } else { "not reached" }.to_string(),
        apart(document.answerable()),
        apart(document.growth()),
    ]
}

fn table_text(document: &DocumentOutcome, shown: &TableOutcome) -> String {
    let title = format!("{} {}: {}", document.name, shown.id, shown.title);
    rows_text(&title, &shown.about, &shown.rows)
}

/// Rows under a title and what a reader must know for them, then what is known of those that do not agree.
fn rows_text(title: &str, about: &str, rows: &[RowOutcome]) -> String {
    let mut text = format!("{title}\n");
    if !about.is_empty() {
        text.push_str(&format!("{}\n", about.trim()));
    }
    for group in group_tables(rows) {
        text.push_str(&format!("\n{}", group_text(&group)));
    }
    let explanations = explanations(rows);
    if !explanations.is_empty() {
        text.push_str(&format!("\n{explanations}"));
    }
    text + "\n"
}

/// Rows that are one table: the same cells with published values of their own, and the
/// same figure; all others together.
fn groups(rows: &[RowOutcome]) -> Vec<Vec<&RowOutcome>> {
    let mut groups: Vec<Vec<&RowOutcome>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Vec<&RowOutcome>| columns(group[0]) == columns(row);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// The columns of cells that a row has: scheduler and name of each, and the figure.
fn columns(row: &RowOutcome) -> Option<(Vec<(&str, &str)>, &str)> {
    let wide = row.cells.len() > 1 && row.cells.iter().all(|cell| cell.published.is_some());
    let names = || row.cells.iter().map(|cell| (cell.name.as_str(), cell.scheduler.as_str())).collect();
    wide.then(|| (names(), row.figure.as_str()))
}

/// A table of rows: what they have in common, header, columns of numbers, lines.
pub(crate) struct GroupTable {
    pub(crate) about: String,
    pub(crate) header: Vec<String>,
    pub(crate) right: Vec<usize>,
    pub(crate) lines: Vec<Vec<String>>,
}

/// The tables that some rows make.
pub(crate) fn group_tables(rows: &[RowOutcome]) -> Vec<GroupTable> {
    groups(rows).iter().map(|group| group_table(group)).collect()
}

fn group_table(group: &[&RowOutcome]) -> GroupTable {
    let first = group[0];
    let wide = columns(first).is_some();
    let unit = if first.unit.is_empty() { String::new() } else { format!(" in {}", first.unit) };
    let mut header = vec!["row".to_string()];
    let mut about = String::new();
    if wide {
        let named: Vec<String> =
            first.cells.iter().map(|cell| format!("{} is {}", cell.name, cell.scheduler)).collect();
        let share = share_text(Share::of(group.iter().copied()));
        about = format!("{}; figure: {}{unit}; {}; {share}", named.join(", "), first.figure, first.rule);
        header.extend(first.cells.iter().map(|cell| format!("{} publ.", cell.name)));
        header.push("figure".to_string());
        header.extend(first.cells.iter().map(|cell| cell.name.clone()));
        header.push("figure".to_string());
    } else {
        header.extend(["figure", "unit", "published", "measured"].map(String::from));
    }
    header.extend(["+/-", "verdict"].map(String::from));
    if !wide {
        header.push("rule".to_string());
    }
    let lines: Vec<Vec<String>> = group.iter().map(|row| line(row, wide)).collect();
    let right: Vec<usize> = (if wide { 1 } else { 3 }..header.len() - if wide { 1 } else { 2 }).collect();
    GroupTable { about, header, right, lines }
}

fn group_text(group: &GroupTable) -> String {
    let header: Vec<&str> = group.header.iter().map(String::as_str).collect();
    let about = if group.about.is_empty() { String::new() } else { format!("{}\n\n", group.about) };
    about + &table(&header, &group.right, &group.lines)
}

fn line(row: &RowOutcome, wide: bool) -> Vec<String> {
    let measured = |value: Option<f64>| value.map_or_else(|| "-".to_string(), number);
    let mut line = vec![row.place.clone()];
    if wide {
        line.extend(row.cells.iter().map(|cell| published(cell.published, "")));
        line.push(published(row.published, &row.says));
        line.extend(row.cells.iter().map(|cell| measured(cell.measured)));
    } else {
        line.extend([row.figure.clone(), row.unit.clone(), published(row.published, &row.says)]);
    }
    line.push(measured(row.measured));
    line.push(measured(row.half_width));
    line.push(row.verdict.text());
    if !wide {
        line.push(row.rule.clone());
    }
    line
}

fn published(figure: Option<Published>, says: &str) -> String {
    match figure {
        Some(figure) => format!("{}{}", figure.qualifier.sign(), number(figure.value)),
        None if says.is_empty() => "-".to_string(),
        None => says.to_string(),
    }
}

fn share_text(share: Share) -> String {
    format!("{} of {} rows agree", share.agreeing, share.rows)
}

/// What is known of the rows that do not agree, each text once with its rows.
pub(crate) fn explanations(rows: &[RowOutcome]) -> String {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let text = match &row.verdict {
            Judgement::Agrees | Judgement::NotComparable(_) => continue,
            Judgement::Differs(_) | Judgement::NoFigure => row.explanation.as_str(),
        };
        let text = if text.is_empty() { "not explained" } else { text };
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.push(&row.place),
            None => told.push((text, vec![&row.place])),
        }
    }
    let entry = |(text, places): (&str, Vec<&str>)| {
        let mut places = places;
        places.dedup();
        format!("* {}: {}\n", places.join("; "), text.trim())
    };
    told.into_iter().map(entry).collect()
}

/// Which parameter of the machine decides which row: one line a change of a verdict, and the
/// parameters that change none.
pub fn sensitivity_text(found: &[Sensitivity]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut rows = Vec::new();
    let mut idle: Vec<&str> = Vec::new();
    for one in found {
        let changes: Vec<String> = one
            .changed
            .iter()
            .map(|row| format!("{} {}: {} -> {}", row.table, row.place, row.before, row.after))
            .collect();
        if changes.is_empty() {
            idle.push(&one.parameter);
        }
        for (at, change) in changes.into_iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            let share = format!("{} of {}", one.agreeing, one.rows);
            let factor = format!("x {}", one.factor);
            rows.push(vec![first(one.parameter.clone()), first(factor), first(share), change]);
        }
    }
    let never: Vec<&str> = idle
        .iter()
        .copied()
        .filter(|name| found.iter().all(|one| one.parameter != *name || one.changed.is_empty()))
        .collect();
    let mut never = never;
    never.dedup();
    let mut text = "\nRows whose verdict a parameter of the machine changes:\n\n".to_string();
    text.push_str(&table(&["parameter", "times", "agree", "row"], &[], &rows));
    if !never.is_empty() {
        text.push_str(&format!("\nNo verdict depends on: {}\n", never.join(", ")));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use schedlab_reproduction::{CellOutcome, Qualifier};

    pub(crate) fn outcome() -> DocumentOutcome {
        let figure = |value| Some(Published { value, qualifier: Qualifier::Is });
        let cell = |name: &str, published: f64, measured: f64| CellOutcome {
            name: name.into(),
            scheduler: format!("{name}[profile=d1]"),
            workload: "chat:rooms=10".into(),
            machine: "p3-700".into(),
            cpus: Some(2),
            metric: "throughput".into(),
            published: figure(published),
            measured: Some(measured),
            values: vec![Some(measured), None],
        };
        let wide = RowOutcome {
            place: "rooms=10, 2 CPUs".into(),
            cells: vec![cell("vanilla", 100.0, 10.0), cell("o1", 300.0, 9.0)],
            figure: "o1 / vanilla".into(),
            unit: String::new(),
            published: figure(3.0),
            says: String::new(),
            measured: Some(0.9),
            half_width: Some(0.1),
            values: vec![0.85, 0.95],
            rule: "same order".into(),
            verdict: Judgement::Differs("other order".into()),
            counts: true,
            explanation: "the bus is slow".into(),
            unanswerable: "one process alone".into(),
        };
        let computed = RowOutcome {
            cells: Vec::new(),
            published: None,
            says: "no difference".into(),
            verdict: Judgement::Agrees,
            unanswerable: String::new(),
            ..wide.clone()
        };
        let shown = RowOutcome {
            verdict: Judgement::NotComparable("another machine".into()),
            rule: "not judged: another machine".into(),
            unanswerable: String::new(),
            cells: wide.cells[..1].to_vec(),
            ..wide.clone()
        };
        let more = CellOutcome { cpus: Some(4), ..cell("more", 300.0, 40.0) };
        let grown = RowOutcome {
            place: "rooms=10, o1, 2 to 4 CPUs".into(),
            cells: [cell("fewer", 100.0, 10.0), more]
                .map(|cell| CellOutcome {
                    scheduler: "o1[profile=d1]".into(),
                    values: vec![cell.measured],
                    ..cell
                })
                .to_vec(),
            figure: "more / fewer".into(),
            measured: Some(4.0),
            half_width: None,
            values: vec![4.0],
            verdict: Judgement::Agrees,
            unanswerable: String::new(),
            ..wide.clone()
        };
        let table = TableOutcome {
            id: "chat".into(),
            title: "throughput".into(),
            about: "about it".into(),
            rows: vec![wide, computed, shown],
            growth: vec![grown],
        };
        DocumentOutcome {
            name: "kravetz".into(),
            title: "a mail".into(),
            wanted_percent: 80.0,
            tables: vec![table],
        }
    }

    #[test]
    fn rows_are_told_with_figures_verdict_and_explanation() {
        let text = reproduction_text(&[outcome()]);
        for part in [
            "vanilla is vanilla[profile=d1], o1 is o1[profile=d1]; figure: o1 / vanilla; same order; 0 of 1 rows agree",
            "rooms=10, 2 CPUs            100       300       3       10   9  0.9000  0.1000  other order",
            "no difference",
            "not judged: another machine",
            "* rooms=10, 2 CPUs: the bus is slow\n",
            "kravetz: rows that no scheduler can answer\nThey are judged and counted above. With them 0 of 1 rows agree (0.0 %), \
             without them 0 of 0 rows agree (100.0 %).\n",
            "chat: rooms=10, 2 CPUs          3    0.9000  other order  one process alone\n",
            "kravetz chat, growth: throughput; 1 of 1 rows agree\n",
            "rooms=10, o1, 2 to 4 CPUs          100         300       3     10    40       4    -  agrees",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn the_summary_counts_measured_and_computed_rows_apart() {
        let text = summary(&[outcome()]);
        let last = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(last, "kravetz 1 0 0.0 % 80 % 1 of 1 not reached - 1 of 1");
        let mut without = outcome();
        without.tables[0].growth.clear();
        let text = summary(&[without]);
        assert!(text.trim_end().ends_with("not reached           -       -"), "{text}");
    }
}
