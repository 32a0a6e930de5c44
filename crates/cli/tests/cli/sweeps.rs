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
    let small = "compare -s eevdf,o1 -w cpuhog:ttime=10ms --runs 1 -c 1 -q --json -";
    // Before a run is made that could not be kept.
    folder
        .run(&format!("{small} --resume /proc"))
        .refused(2, &["--resume /proc", "name a folder that you may write"]);
    // Something else in the place of a record is reported before a run is made, and is left there.
    folder.run(&format!("{small} --resume kept")).ok();
    let record = std::fs::read_dir(folder.path().join("kept")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    let name = record.file_name().unwrap().to_str().unwrap();
    folder.run(&format!("{small} --resume kept")).refused(2, &[name, "it is a folder", "remove it"]);
    assert!(record.is_dir());
}

/// Runs that are kept are used if they are what was written, by this build, for this run.
#[test]
fn records_are_trusted_for_what_they_hold() {
    let folder = Folder::new();
    let sweep = "compare -s eevdf,o1 -w cpuhog:ttime=10ms --runs 2 -c 1 --json -";
    let kept = format!("{sweep} --resume runs");
    let plain = folder.run(sweep).ok();
    assert_eq!(folder.run(&kept).ok(), plain);
    assert_eq!(folder.run(&kept).ok(), plain);
    let entries = std::fs::read_dir(folder.path().join("runs")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 4);
    let read = |at: usize| std::fs::read_to_string(&files[at]).unwrap();
    // All that is reported of a file, and that the repeated run is there the next time.
    let noticed = |at: &[usize], why: &str| {
        let done = folder.run(&kept);
        assert_eq!((done.code, done.out.as_str()), (0, plain.as_str()), "{done:?}");
        assert_eq!(done.err.lines().count(), at.len(), "{done:?}");
        for (line, &at) in done.err.lines().zip(at) {
            let name = files[at].file_name().unwrap().to_str().unwrap();
            let told = line.contains("warning: --resume: runs/") && line.contains("made again");
            assert!(told && line.contains(name) && line.contains(why), "{why}: {line}");
        }
        assert_eq!(folder.run(&kept).ok(), plain);
    };
    let good = read(0);
    let digit = good.find("\"duration_ns\": 1").unwrap() + "\"duration_ns\": ".len();
    let edited = format!("{}2{}", &good[..digit], &good[digit + 1..]);
    std::fs::write(&files[0], edited).unwrap();
    noticed(&[0], "the checksum differs");
    std::fs::write(&files[1], &read(1)[..1000]).unwrap();
    noticed(&[1], "no record of a run");
    std::fs::write(&files[2], &plain).unwrap();
    noticed(&[2], "of an older form");
    let other = read(3);
    std::fs::rename(&files[3], folder.path().join("kept")).unwrap();
    std::fs::copy(&files[0], &files[3]).unwrap();
    noticed(&[3], "it is of another run: ");
    assert_eq!(read(3), other, "it is the same again");
    std::fs::File::create(&files[0]).unwrap().set_len(257 << 20).unwrap();
    noticed(&[0], "longer than 256 MiB");
    std::fs::remove_file(&files[1]).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&files[1]).status().unwrap().success());
    noticed(&[1], "it is no file");
    files.iter().for_each(|file| std::fs::write(file, "").unwrap());
    let done = folder.run(&format!("{kept} -q"));
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, plain.as_str(), ""));
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

#[test]
fn growth_is_counted_beside_the_other_rows() {
    let folder = Folder::new();
    let text =
        folder.run("reproduce kravetz -q --quick --document-table chat --json r.json --html p.html").ok();
    assert!(text.contains("kravetz chat, growth: messages per second, higher is better; "), "{text}");
    assert!(text.contains(" of 27 rows agree\n") && text.contains("\nrooms=30, o1, 2 to 8 CPUs "), "{text}");
    let last = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
    let [document, rows, .., "of", grown] = last[..] else { panic!("{text}") };
    assert_eq!((document, rows, grown), ("kravetz", "18", "27"));
    let json = folder.read("r.json");
    assert!(json.contains("\"growth\"") && json.contains("\"place\": \"rooms=30, o1, 2 to 8 CPUs\""));
    // Three schedulers with 10, 20 and 30 rooms on 2, 4 and 8 CPUs: growth adds no run.
    assert_eq!(json.matches("\"seed\": ").count(), 27);
    let page = folder.read("p.html");
    assert!(page.contains("chat, growth: messages per second"), "{page}");
    let drawn = |name: &str| page.matches(&format!("{name}</figcaption>")).count();
    assert_eq!((drawn(" published"), drawn(" measured")), (3, 3));
}

#[test]
fn rows_that_no_scheduler_can_answer_count_and_are_told_apart() {
    let folder = Folder::new();
    let text = folder.run("reproduce freebsd --quick --document-table oggenc --json r.json").ok();
    let shares = "With them 7 of 9 rows agree (77.8 %), without them 7 of 7 rows agree (100.0 %).";
    assert!(text.contains("freebsd: rows that no scheduler can answer\n") && text.contains(shares), "{text}");
    assert_eq!(folder.read("r.json").matches("\"unanswerable\": ").count(), 2);
}

#[test]
fn metrics_with_the_same_figures_share_a_table() {
    let text = Folder::new().run("compare -q -s eevdf,o1 -w mkbench:makes=1,scale=0.001 -c 2 --runs 2").ok();
    let title = "build_time_avg, makespan, build_time_fastest, build_time_slowest in s of mkbench:";
    assert!(text.contains(title), "{text}");
    assert_eq!(text.matches("verdict\n").count(), 1, "{text}");
}

#[test]
fn long_work_is_announced() {
    let folder = Folder::new();
    let told = |line: &str| folder.run(line).err;
    let hog = "cpuhog:ntasks=1,ttime=80s -c 1";
    let single = told(&format!("sim -s eevdf -w {hog}"));
    assert!(
        single.contains("schedlab: one run of 80 s of simulated time; --duration makes it less\n"),
        "{single}"
    );
    let several = told(&format!("compare -s eevdf,o1 --runs 2 -w {hog} --duration 20s"));
    assert!(several.contains("schedlab: 4 runs of 20 s of simulated time each;"), "{several}");
    assert_eq!(told(&format!("sim -q -s eevdf -w {hog}")), "");
    assert_eq!(told(&format!("sim -s eevdf -w {hog} --duration 10s")), "");
}
