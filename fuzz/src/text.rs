//! Text that people write or that comes back from a disk: each input is refused with a reason, or read; what can be
//! written again reads as the same.

use schedlab_base::DurationNs;
use schedlab_lab::files::numbers;
use schedlab_report::{
    Document, HtmlPage, fidelity_cells, from_json, read_samples, to_csv, to_html, to_json,
};
use schedlab_workload::{file, rtapp};

/// The input as text; bytes that are none are what the reader of files refuses.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// An error is one line that names where it is.
fn one_line(message: &str, origin: &str) {
    assert!(message.contains(origin), "no {origin:?} in {message:?}");
    assert!(!message.contains('\n'), "more than a line: {message:?}");
}

/// A machine file.
pub(crate) fn machine_file(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match schedlab_machine::parse(text, "in.toml") {
        Ok(file) => file.machine.validate().expect("what was read is valid"),
        Err(error) => one_line(&error.to_string(), "in.toml:"),
    }
}

/// A workload file of our own; it can be written and read again.
pub(crate) fn workload_file(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match file::parse(text, "in.toml") {
        Ok(scenario) => {
            let written = file::write(&scenario);
            let again = file::parse(&written, "again.toml").expect("what we write can be read");
            assert_eq!(file::write(&again), written, "and is the same");
        }
        Err(error) => one_line(&error.to_string(), "in.toml"),
    }
}

/// A workload of rt-app.
pub(crate) fn rt_app(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Err(error) = rtapp::parse(text, "in.json", Some(DurationNs::from_ms(10))) {
        one_line(&error.to_string(), "in.json");
    }
}

/// A result file, read again, and written in every form.
pub(crate) fn results(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let Ok(document) = from_json(text) else { return };
    let written = to_json(&document);
    let again = from_json(&written).expect("what we write can be read");
    assert_eq!(to_json(&again), written, "and is the same");
    written_forms(&document);
}

/// CSV has a row for each metric; the page is one whole.
fn written_forms(document: &Document) {
    let csv = to_csv(&document.runs, &document.goals);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let width = reader.headers().expect("a header").len();
    for record in reader.records() {
        assert_eq!(record.expect("rows are as long as the header").len(), width);
    }
    let page =
        to_html(&HtmlPage { title: "t".to_string(), command: "c".to_string(), notes: Vec::new() }, document);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    // As the runs that `fidelity --real` reads.
    let _ = fidelity_cells("in", &document.runs, &document.runs, &document.runs);
}

/// A file of samples of `schedule()`.
pub(crate) fn samples(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if let Err(message) = read_samples(text, "in.samples") {
        one_line(&message, "in.samples");
    }
}

/// Numbers for `stat`: a number a line, a column of a CSV file, a metric of a result file. The first line names the
/// column or metric.
pub(crate) fn csv(input: &[u8]) {
    let Some((name, rest)) = text(input).and_then(|text| text.split_once('\n')) else { return };
    // The name comes from the command line, where the shell's user sees it.
    let name = name.trim_end_matches('\r');
    for read in [
        numbers::plain(rest, "in"),
        numbers::column(rest, "in", name),
        numbers::metric(rest, "in", None, name),
    ] {
        match read {
            Ok(values) => assert!(!values.is_empty() && values.iter().all(|value| value.is_finite())),
            Err(failure) => one_line(&failure.text, "in"),
        }
    }
}
