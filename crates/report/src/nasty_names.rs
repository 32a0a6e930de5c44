//! Test: names that an attacker chose, through every output.

use crate::comparison::{LEAST_EFFECT, compare};
use crate::html::{HtmlPage, to_html};
use crate::json::{Document, from_json, to_json};
use crate::made_up::run;
use crate::names::tests::nasty;
use crate::names::{is_hidden, visible};
use crate::perfetto::PerfettoSink;
use crate::priority_plot::priorities_svg;
use crate::stat_json::stat_json;
use crate::waits::{tests::waits, waits_dot, waits_html, waits_table};
use crate::{comparison_table, counters_table, metrics_table, run_summary, scheduler_tables, tasks_table};
use schedlab_base::{TaskId, TimeNs};
use schedlab_stats::Level;
use schedlab_trace::waits::Party;
use schedlab_trace::{Priorities, RunRecord};

/// A run in which everything is called `name`.
fn named(name: &str, seed: u64, throughput: f64) -> RunRecord {
    let mut run = run(name, seed, throughput);
    let text = name.to_string();
    run.settings = vec![(text.clone(), text.clone())];
    run.workload.name.clone_from(&text);
    run.workload.params = vec![(text.clone(), text.clone())];
    run.machine.clone_from(&text);
    run.exit.reason.clone_from(&text);
    run.exit.message.clone_from(&text);
    run.exit.dump.clone_from(&text);
    run.loader_output.clone_from(&text);
    run.series[0].name.clone_from(&text);
    run.counters[0].name.clone_from(&text);
    run.counters[0].meaning.clone_from(&text);
    run.tasks[0].name.clone_from(&text);
    run.tables[0].name.clone_from(&text);
    run.tables[0].columns[0].clone_from(&text);
    run.tables[0].rows[0][0].clone_from(&text);
    let mut priorities = Priorities::default();
    priorities.add(TimeNs(5), TaskId(0), 7, Some(true));
    run.priorities = priorities.courses().to_vec();
    let mut waits = waits();
    for pair in &mut waits.pairs {
        pair.requester.name.clone_from(&text);
        pair.provider.name.clone_from(&text);
    }
    waits.counters[0].name.clone_from(&text);
    waits.counters[0].meaning.clone_from(&text);
    run.waits = Some(waits);
    run
}

fn document(name: &str) -> Document {
    let second =
        |value: f64| RunRecord { scheduler: format!("{name}2"), ..named(name, value as u64, 9.0 * value) };
    let runs: Vec<RunRecord> = [1.0, 2.0, 3.0]
        .into_iter()
        .flat_map(|value| [named(name, value as u64, value), second(value)])
        .collect();
    let comparisons = compare(&runs, Level::P95, LEAST_EFFECT);
    Document { runs, comparisons, ..Document::default() }
}

/// As much of a name as a message can show.
fn start(name: &str) -> String {
    format!("{:?}", name.chars().take(60).collect::<String>())
}

/// Every picture in the page is well-formed XML, and the page has only our own elements and scripts.
fn assert_harmless_page(page: &str, name: &str) {
    assert!(!page.contains(|c: char| is_hidden(c) && c != '\n' && c != '\t'), "{}", start(name));
    assert!(!page.contains("<img") && !page.contains("<script>alert"), "{}", start(name));
    let mut pictures = 0;
    for part in page.split("<svg").skip(1) {
        let picture = format!("<svg{}</svg>", part.split("</svg>").next().unwrap());
        roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{error} with {}", start(name)));
        pictures += 1;
    }
    assert!(pictures > 0);
    assert!(page.len() < 600_000 + 600 * name.len(), "{} bytes", page.len());
}

#[test]
fn pages_and_pictures_stay_what_they_are() {
    for name in nasty() {
        let document = document(&name);
        let page = HtmlPage {
            title: name.clone(),
            command: name.clone(),
            notes: vec![(name.clone(), name.clone())],
        };
        assert_harmless_page(&to_html(&page, &document), &name);
        let waits = document.runs[0].waits.as_ref().unwrap();
        assert_harmless_page(&waits_html(&page, waits, 0), &name);
        let picture = priorities_svg(&document.runs[0]).unwrap();
        let picture = roxmltree::Document::parse(&picture).unwrap();
        let texts: Vec<&str> = picture.descendants().filter_map(|node| node.text()).collect();
        let wanted: String = visible(&name).chars().take(20).collect();
        assert!(texts.iter().any(|text| text.starts_with(&wanted)), "{}", start(&name));
    }
}

#[test]
fn tables_keep_their_lines() {
    for name in nasty() {
        let Document { runs, comparisons, .. } = document(&name);
        let tables = [
            metrics_table(&runs[0]),
            tasks_table(&runs[0], 5),
            counters_table(&runs[0]),
            waits_table(runs[0].waits.as_ref().unwrap(), 0, 5),
        ];
        for table in &tables {
            assert!(!table.contains(|c: char| is_hidden(c) && c != '\n'), "{}", start(&name));
            assert!(table.lines().all(|line| line.chars().count() < 2000), "{}", start(&name));
        }
        assert_eq!(tables[1].lines().count(), 3, "{}", start(&name));
        // What names in front of a table do to a terminal is for the command to prevent: they may have lines.
        for text in
            [run_summary(&runs[0]), scheduler_tables(&runs[0], |_| true), comparison_table(&comparisons)]
        {
            assert!(!text.is_empty());
        }
    }
}

#[test]
fn data_keep_the_names() {
    for name in nasty() {
        let document = document(&name);
        let json = to_json(&document);
        assert!(!json.contains(|c: char| is_hidden(c) && c != '\n'), "{}", start(&name));
        let read = from_json(&json).unwrap();
        assert_eq!(read.runs[0].tasks[0].name, name);
        assert_eq!(read.runs[0].workload.name, name);
        let samples = [(name.clone(), vec![1.0, 2.0]), ("b".to_string(), vec![3.0, 4.0])];
        let json = stat_json(&samples, &[Level::P95]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["samples"][0]["name"], name.as_str());
        assert!(!json.contains(|c: char| is_hidden(c) && c != '\n'), "{}", start(&name));
    }
}

#[test]
fn graphs_and_traces_have_harmless_names() {
    for name in nasty() {
        let waits = named(&name, 1, 1.0).waits.unwrap();
        let dot = waits_dot(&waits, 0);
        assert!(!dot.contains(|c: char| is_hidden(c) && c != '\n'), "{}", start(&name));
        assert_eq!(dot.lines().count(), 4 + 3, "a line for each edge: {dot}");
        for line in dot.lines().filter(|line| line.contains("->")) {
            // Quotes that no backslash is in front of come in pairs: two nodes, label and tooltip.
            let plain = line.replace("\\\\", "").replace("\\\"", "");
            assert_eq!(plain.matches('"').count(), 8, "{line}");
        }
        let mut bytes = Vec::new();
        let party = Party { name: name.clone(), thread: 1001, process: 1001, prio: 120 };
        PerfettoSink::new(&mut bytes, vec![party], 1001).finish().unwrap();
        let shown = visible(&name);
        assert!(
            bytes.windows(shown.len().max(1)).any(|window| window == shown.as_bytes()) || name.is_empty()
        );
        assert!(!bytes.windows(2).any(|window| window == b"\x1b]" || window == b"\x1b["), "{}", start(&name));
    }
}
