//! Documents measured again, in a page. It has a line a document, then each table with published
//! beside measured and a verdict a row. A plot shows how far each figure is from the published one.

use super::plot::{Axis, Plot, Point, Series};
use super::{escape, growth, table};
use crate::format::number;
use crate::reproduction::{
    GROWTH, GroupTable, SUMMARY, SUMMARY_RIGHT, UNANSWERABLE, explanations, group_tables, growth_title,
    summary_row, unanswerable,
};
use schedlab_reproduction::{DocumentOutcome, Judgement, RowOutcome, TableOutcome};

/// All documents.
pub(super) fn sections(documents: &[DocumentOutcome]) -> String {
    let rows: Vec<Vec<String>> = documents.iter().map(summary_row).collect();
    let mut text = format!("<h2>Summary</h2>\n{}", table(&SUMMARY, &SUMMARY_RIGHT, &rows));
    for document in documents {
        text.push_str(&format!(
            "<section>\n<h2>{}: {}</h2>\n",
            escape(&document.name),
            escape(&document.title)
        ));
        if let Some(plot) = plot(document) {
            text.push_str(&format!("<div class=\"plots\">\n{plot}</div>\n"));
        }
        for shown in &document.tables {
            text.push_str(&rows_html(&format!("{}: {}", shown.id, shown.title), &shown.about, &shown.rows));
        }
        for shown in document.tables.iter().filter(|shown| !shown.growth.is_empty()) {
            let title = format!("{}, growth: {}", shown.id, growth_title(shown));
            text.push_str(&rows_html(&title, GROWTH, &shown.growth));
            text.push_str(&growth::plots(shown));
        }
        if let Some(group) = unanswerable(document) {
            text.push_str(&format!("<h3>{UNANSWERABLE}</h3>\n{}", group_html(&group)));
        }
        text.push_str("</section>\n");
    }
    text
}

/// Rows under a title and what a reader must know for them, then what is known of those that do not agree.
fn rows_html(title: &str, about: &str, shown: &[RowOutcome]) -> String {
    let mut text = format!("<h3>{}</h3>\n", escape(title));
    text.push_str(&paragraph(about));
    text.extend(group_tables(shown).iter().map(group_html));
    let told: String = explanations(shown)
        .lines()
        .map(|line| match line.strip_prefix("* ") {
            Some(entry) => format!("<li>{}\n", escape(entry)),
            None => format!("{}\n", escape(line)),
        })
        .collect();
    if told.is_empty() { text } else { format!("{text}<ul>\n{told}</ul>\n") }
}

fn paragraph(about: &str) -> String {
    match about.trim() {
        "" => String::new(),
        about => format!("<p>{}</p>\n", escape(about)),
    }
}

fn group_html(group: &GroupTable) -> String {
    let header: Vec<&str> = group.header.iter().map(String::as_str).collect();
    paragraph(&group.about) + &table(&header, &group.right, &group.lines)
}

/// Measured over published, by table. Each verdict has its own mark, the same in all documents.
fn plot(document: &DocumentOutcome) -> Option<String> {
    let side = |name: &str, wanted: &dyn Fn(&Judgement) -> bool| {
        let mut points = Vec::new();
        for (at, table) in document.tables.iter().enumerate() {
            let inside = table.rows.iter().filter(|row| wanted(&row.verdict));
            points.extend(inside.filter_map(|row| point(at, table, row)));
        }
        Series::new(name.to_string(), points)
    };
    let series = vec![
        side("agrees", &|verdict| matches!(verdict, Judgement::Agrees)),
        side("differs", &|verdict| matches!(verdict, Judgement::Differs(_))),
        side("not comparable", &|verdict| matches!(verdict, Judgement::NotComparable(_))),
    ];
    Plot {
        title: "measured over published, by table (at most 100 times off)".into(),
        x_label: "table".into(),
        y_label: "1 is as published".into(),
        x: Axis::Names(document.tables.iter().map(|table| table.id.clone()).collect()),
        y: Axis::Factors,
        lines: false,
        series,
    }
    .html()
}

/// Figures farther off are drawn at this factor. Chosen.
const FARTHEST: f64 = 100.0;

fn point(at: usize, table: &TableOutcome, row: &RowOutcome) -> Option<Point> {
    let (published, measured) = (row.published?.value, row.measured?);
    let ratio = measured / published;
    let about = format!(
        "{}, {}: published {}, measured {}",
        table.id,
        row.place,
        number(published),
        number(measured)
    );
    // A difference that is hardly there may be any factor off.
    let y = ratio.clamp(1.0 / FARTHEST, FARTHEST);
    (ratio.is_finite() && ratio > 0.0).then_some(Point { x: at as f64, y, interval: None, about })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::tests::outcome;

    #[test]
    fn published_is_beside_measured() {
        let mut document = outcome();
        document.title = "a <mail>".into();
        let text = sections(&[document]);
        for part in [
            "<h2>kravetz: a &lt;mail&gt;</h2>",
            "<th scope=\"col\" class=\"n\">vanilla publ.</th>",
            "<td>other order</td>",
            "<li>rooms=10, 2 CPUs: the bus is slow",
            "chat, rooms=10, 2 CPUs: published 3, measured 0.9000",
            "<h3>chat, growth: throughput; 1 of 1 rows agree</h3>",
            "<td>rooms=10, o1, 2 to 4 CPUs</td>",
            "<h3>rows that no scheduler can answer</h3>",
            "<td>one process alone</td>",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn a_verdict_has_the_same_mark_in_every_document() {
        let text = sections(&[outcome()]);
        let legend = text.split("<ul class=\"legend\">").nth(1).unwrap().split("</ul>").next().unwrap();
        let entries: Vec<&str> = legend.lines().filter(|line| line.starts_with("<li>")).collect();
        // No row that agrees has a point; the others keep their marks all the same.
        assert_eq!(entries.len(), 2, "{legend}");
        assert!(entries[0].contains("class=\"s1 d1\"") && entries[0].ends_with("differs</li>"), "{legend}");
        assert!(
            entries[1].contains("class=\"s2 d2\"") && entries[1].ends_with("not comparable</li>"),
            "{legend}"
        );
    }
}
