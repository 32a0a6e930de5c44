//! The shipped workload files.

use super::Folder;
use std::path::Path;

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    path.canonicalize().unwrap().display().to_string()
}

/// CPU time of a task in milliseconds, out of the table of tasks.
fn cpu_ms(text: &str, task: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{task} "))).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn a_hog_gets_less_while_it_is_nice() {
    let folder = Folder::new();
    let file = shipped("renice.toml");
    let text = folder.run_words(&["sim", "-q", "-s", "o1", "-w", &file, "-c", "2"]).ok();
    // Shares a CPU with hog/1: half of 2 s, slices of 5 against 100 ms for 2 s, half of 2 s.
    let first = cpu_ms(&text, "hog/0");
    assert!((2060.0..2140.0).contains(&first), "{first}: {text}");
    assert!((cpu_ms(&text, "hog/1") - (6000.0 - first)).abs() < 5.0, "{text}");
    assert!(cpu_ms(&text, "changes") < 1.0, "{text}");
}
