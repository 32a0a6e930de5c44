//! `stat`: where samples come from, and what is said about them.

use crate::{Done, Folder};
use std::io::Write;
use std::process::Stdio;

#[test]
fn plain_csv_and_result_files() {
    let folder = Folder::new();
    folder.write("a.txt", "# seconds\n10\n11\n\n12 # warm\n");
    folder.write("runs.csv", "seed,before,after\n1,10,20\n2,11,21\n3,12,22\n");
    let text = folder.run("stat a.txt runs.csv:after").ok();
    assert!(text.contains("Difference at 95.0% confidence\n\t10 +/- 2.2665945"), "{text}");
    let text = folder.run("stat runs.csv:before a.txt").ok();
    assert!(text.contains("No difference proven at 95.0% confidence"), "{text}");
    folder.run("sim -s eevdf -w cpuhog:ttime=50ms --json r.json").ok();
    assert!(folder.run("stat r.json:work").ok().contains("Stddev"));
}

#[test]
fn standard_input_is_a_sample() {
    let folder = Folder::new();
    folder.write("a.txt", "1\n2\n3\n");
    let mut child = folder
        .command(&["stat", "a.txt", "-", "--confidence", "99.5", "--width", "30"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"101\n102\n103\n").unwrap();
    let text = Done::of(child.wait_with_output().unwrap()).ok();
    assert!(text.contains("Difference at 99.5% confidence"), "{text}");
}

#[test]
fn samples_that_are_none() {
    let folder = Folder::new();
    folder.write("words.txt", "1\ntwo\n3\n");
    folder.write("empty.txt", "# nothing\n");
    folder.write("runs.csv", "seed,time\n1,10\n2,ten\n");
    folder.write("r.json", "{ \"schedlab\": { \"version\": \"9\", \"schema\": 99 } }");
    folder.run("stat words.txt").refused(2, &["words.txt:2", "'two'"]);
    folder.run("stat empty.txt").refused(2, &["empty.txt", "no numbers"]);
    folder.run("stat runs.csv:speed").refused(2, &["no column 'speed'", "seed, time"]);
    folder.run("stat runs.csv:time").refused(2, &["runs.csv:3", "'ten'"]);
    folder.run("stat none.txt").refused(2, &["none.txt", "No such file"]);
    folder.run("stat r.json:x").refused(2, &["r.json", "schema 99"]);
    folder.run("stat r.json").refused(2, &["r.json", "name one"]);
    folder.run("stat - -").refused(2, &["standard input"]);
    folder.run("stat").refused(2, &["<SAMPLE>"]);
}
