//! Many runs: the same bytes whatever the number of workers and shards, and wherever the
//! work was interrupted.

use crate::Folder;
use std::process::Stdio;

const SWEEP: &str =
    "compare -s vanilla,o1,eevdf -w reflex:tasks=8,rounds=100 -m p3-700 -c 2,4 --runs 3 -q --json -";

/// The report from the folders, after all has been done there; nothing is run any more.
fn report(folder: &Folder, command: &str, folders: &str) -> String {
    folder.run(&format!("{command} --resume {folders}")).ok()
}

#[test]
fn workers_shards_and_interruptions_change_nothing() {
    let folder = Folder::new();
    let one = folder.run(&format!("{SWEEP} -j 1")).ok();
    assert!(one.matches("\"seed\": ").count() == 18 && one.contains("\"paired\": true"));
    assert_eq!(folder.run(&format!("{SWEEP} -j 2")).ok(), one);
    for shard in 1..=3 {
        let done = folder.run(&format!("{} --resume d{shard} --shard {shard}/3", SWEEP.replace(" -q", "")));
        assert_eq!((done.code, done.out.as_str()), (0, ""), "{done:?}");
        assert!(done.err.contains("6 of 18 runs are there"), "{}", done.err);
    }
    assert_eq!(report(&folder, SWEEP, "d1,d2,d3"), one);
    let files = |name: &str| std::fs::read_dir(folder.path().join(name)).map_or(0, Iterator::count);
    assert_eq!((files("d1"), files("d2"), files("d3")), (6, 6, 6));
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_stopped() {
    let folder = Folder::new();
    let sweep = "compare -s vanilla,o1 -w reflex:tasks=16,rounds=1500 -m p3-700 -c 2 --runs 8 -q --json -";
    let words: Vec<&str> = sweep.split_whitespace().chain(["-j", "1", "--resume", "runs"]).collect();
    let mut child = folder.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let finished = || {
        let names = std::fs::read_dir(folder.path().join("runs")).into_iter().flatten().flatten();
        names.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
    };
    while finished() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // On a fast machine it may be done already: then there is nothing left to resume, and the
    // comparison below still has to hold.
    let _ = child.kill();
    child.wait().unwrap();
    assert!(finished() > 0);
    let resumed = folder.run_words(&words).ok();
    assert_eq!(resumed, folder.run(sweep).ok());
}

#[test]
fn documents_are_shared_out_too() {
    let folder = Folder::new();
    let table = "reproduce libenzi --quick --document-table hogs --json -";
    let whole = folder.run(&format!("{table} -j 1")).ok();
    assert!(whole.contains("\"reproduction\"") && whole.contains("\"is\": \"agrees\""), "{whole}");
    folder.run(&format!("{table} --resume a --shard 1/2"));
    folder.run(&format!("{table} --resume b --shard 2/2"));
    assert_eq!(report(&folder, table, "a,b"), whole);
}

#[test]
fn folders_and_shards_that_are_none() {
    let folder = Folder::new();
    folder.write("file", "");
    folder.run(&format!("{SWEEP} --resume file")).refused(2, &["--resume file"]);
    folder.run(&format!("{SWEEP} --resume a,none")).refused(2, &["none", "no such folder"]);
    folder.run(&format!("{SWEEP} --resume a --shard 4/3")).refused(2, &["4/3", "1/3"]);
    folder.run(&format!("{SWEEP} --shard 1/3")).refused(2, &["--resume"]);
    let small = "compare -s eevdf,o1 -w cpuhog:ttime=10ms --runs 1 -c 1 -q --json - --resume broken";
    folder.run(small).ok();
    for entry in std::fs::read_dir(folder.path().join("broken")).unwrap() {
        std::fs::write(entry.unwrap().path(), "{").unwrap();
    }
    folder.run(small).refused(2, &["broken/", "remove the file"]);
    for entry in std::fs::read_dir(folder.path().join("broken")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    }
    folder.run(small).refused(2, &["broken/", "longer than 256 MiB"]);
    // Before a run is made that could not be kept.
    folder
        .run(&small.replace("broken", "/proc"))
        .refused(2, &["--resume /proc", "name a folder that you may write"]);
}

#[test]
fn documents_tables_and_parameters_by_name() {
    let folder = Folder::new();
    folder.run("reproduce linus").refused(2, &["linus", "kravetz", "all"]);
    folder.run("reproduce kravetz --document-table x").refused(2, &["x", "mkbench"]);
    folder.run("reproduce kravetz --sensitivity colour").refused(2, &["colour", "lock_transfer"]);
    let text = folder
        .run("reproduce libenzi --quick --document-table hogs --sensitivity fork,tick --json r.json")
        .ok();
    assert!(text.contains("No verdict depends on: tick, fork"), "{text}");
    assert!(folder.read("r.json").contains("\"sensitivity\""));
}
