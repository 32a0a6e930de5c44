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
    let json = folder.run("stat runs.csv:before runs.csv:after --json - -c 95,99").ok();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let difference = &value["differences"][0];
    assert_eq!(
        (&difference["sample"], &difference["reference"]),
        (&"runs.csv:after".into(), &"runs.csv:before".into())
    );
    assert_eq!(
        (&difference["student"][1]["difference"], &difference["student"][1]["proven"]),
        (&10.0.into(), &true.into())
    );
    assert!(folder.run("stat a.txt --json s.json").ok().contains("Stddev"), "the text too");
    assert!(folder.read("s.json").contains("\"differences\": []"));
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
fn samples_from_elsewhere() {
    let folder = Folder::new();
    folder.write("windows.txt", "\u{feff}1\r\n2\r\n4\r\n");
    folder.write("windows.csv", "\u{feff}x,y\r\n1,2\r\n2,3\r\n4,5\r\n");
    let text = folder.run("stat windows.txt windows.csv:x").ok();
    assert!(text.contains("No difference proven at 95.0% confidence"), "{text}");
    folder.write("far.txt", "1e308\n-1e308\n1e308\n");
    assert!(folder.run("stat far.txt windows.txt").ok().contains("No test: the values lie too far apart"));
}

/// Drawing permutations of so many would take minutes.
#[test]
fn huge_samples() {
    let folder = Folder::new();
    folder.write("huge.txt", (0..200_000u32).map(|i| format!("{}\n", i % 977)).collect::<String>());
    folder.write("three.txt", "1\n2\n3\n");
    let text = folder.run("stat huge.txt huge.txt --box").ok();
    assert!(text.contains("Welch: p = 1)"), "{text}");
    let text = folder.run("stat three.txt huge.txt --box").ok();
    assert!(text.contains("drawn permutations: p = "), "{text}");
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
    folder.write("void.csv", "");
    folder.run("stat void.csv:x").refused(2, &["void.csv", "no numbers"]);
    folder.write("norun.json", "{ \"schedlab\": { \"version\": \"0.1.0\", \"schema\": 1 }, \"runs\": [] }");
    folder.run("stat norun.json:x").refused(2, &["norun.json", "no runs in it"]);
    folder.run("stat runs.csv:speed").refused(2, &["no column 'speed'", "seed, time"]);
    folder.run("stat runs.csv:time").refused(2, &["runs.csv:3", "'ten'"]);
    folder.write("twice.csv", "time,seed,time\n1,10,2\n2,11,3\n");
    folder.run("stat twice.csv:time").refused(2, &["twice.csv", "several columns are named 'time'"]);
    assert!(folder.run("stat twice.csv:seed").ok().contains("Stddev"));
    folder.write("lines.csv", "name,time\n\"a\nb\",1\nc,ten\n");
    folder.run("stat lines.csv:time").refused(2, &["lines.csv:4", "'ten'"]);
    folder.run("stat none.txt").refused(2, &["none.txt", "No such file"]);
    folder.run("stat r.json:x").refused(2, &["r.json", "schema 99"]);
    folder.run("stat r.json").refused(2, &["r.json", "name one"]);
    folder.run("stat words.txt --json nowhere/s.json").refused(2, &["words.txt:2"]);
    folder.write("a.txt", "1\n2\n");
    folder.run("stat a.txt --json nowhere/s.json").refused(2, &["nowhere/s.json", "does not exist"]);
    folder.run("stat - -").refused(2, &["standard input"]);
    folder.run("stat").refused(2, &["<SAMPLE>"]);
}

/// Mean and deviation of a published figure as three values with just these.
fn three(mean: f64, sd: f64) -> String {
    format!("{}\n{mean}\n{}\n", mean - sd, mean + sd)
}

#[test]
fn every_published_line_of_ministat_comes_out() {
    let published = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published");
    let records = |name: &str| -> Vec<csv::StringRecord> {
        let mut reader = csv::Reader::from_path(published.join(name)).unwrap();
        reader.records().map(Result::unwrap).collect()
    };
    let mut means = Vec::new();
    for name in [
        "buildworld_pentium4",
        "buildworld_athlon64_i386",
        "buildworld_athlon64_amd64",
        "compile_apache2",
        "ubench",
        "oggenc",
    ] {
        means.extend(records(&format!("freebsd_{name}.csv")));
    }
    let folder = Folder::new();
    let mut checked = 0;
    // workload, platform, make_j, table, metric, better, n, significant, difference, +/-, level, pooled, faster
    for line in records("freebsd_comparisons.csv") {
        for scheduler in ["ULE", "4BSD"] {
            let same = |m: &&csv::StringRecord| {
                m[3] == line[3] && m[2] == line[2] && m[5] == line[4] && &m[4] == scheduler
            };
            let found = means.iter().find(same).unwrap();
            folder.write(scheduler, three(found[8].parse().unwrap(), found[9].parse().unwrap()));
        }
        let text = folder.run("stat 4BSD ULE").ok();
        assert_eq!(text.contains("No difference proven at 95.0%"), &line[7] == "no", "{line:?}: {text}");
        if &line[7] == "yes" {
            let percent = text.lines().find(|l| l.contains("% +/- ")).unwrap().replace('%', "");
            let both = |line: &str| -> Vec<f64> {
                line.split("+/-").map(|part| part.trim().parse().unwrap()).collect()
            };
            let figures = both(&percent);
            // ministat of that time took the reference's mean for exact: its half width in percent follows from the difference.
            let difference = both(text.lines().find(|l| l.contains(" +/- ") && !l.contains('%')).unwrap());
            let half_width = figures[0].abs() * difference[1] / difference[0].abs();
            let pooled = text.split("pooled s = ").nth(1).unwrap().split(')').next().unwrap();
            let pooled: f64 = pooled.parse().unwrap();
            for (computed, column) in [(figures[0].abs(), 8), (half_width, 9), (pooled, 11)] {
                let printed: f64 = line[column].parse().unwrap();
                assert!((computed - printed).abs() <= 1e-5 * printed, "{line:?}: {computed}");
            }
            let faster = if (figures[0] < 0.0) == (&line[5] == "lower") { "ULE" } else { "4BSD" };
            assert_eq!(&line[12], faster, "{line:?}");
        }
        checked += 1;
    }
    assert_eq!(checked, 35);
}

#[test]
fn one_scheduler_of_a_result_file() {
    let folder = Folder::new();
    folder.run("compare -s eevdf,o1 -w cpuhog:ttime=50ms -c 1 --runs 3 -q --json r.json").ok();
    let text =
        folder.run("stat r.json:eevdf:context_switches r.json:o1:context_switches --box -c 90,99").ok();
    assert!(text.contains("|") && text.contains("r.json:o1:context_switches"), "{text}");
    folder.run("stat r.json:work").refused(2, &["several schedulers", "r.json:eevdf:work"]);
    folder.run("stat r.json:cfs:work").refused(2, &["no runs of 'cfs'", "eevdf, o1"]);
    folder.write("a.csv", "x\n1\n");
    folder.run("stat a.csv:o1:x").refused(2, &["a.csv:COLUMN", "without 'o1'"]);
}

/// Files that were cut, edited or written by another program: each has its numbers, or is one error on its line.
#[test]
fn columns_of_damaged_files_are_refused_at_their_line() {
    let folder = Folder::new();
    for (content, told) in [
        ("a,b\n1,2\n3\n", "c.csv:3: the line has 1 field, the header 2"),
        ("a,b\n1,2,3\n", "c.csv:2: the line has 3 fields, the header 2"),
        ("a\n1,5\n", "c.csv:2: the line has 2 fields, the header 1"),
        ("a,b\n1,\"x\n", "c.csv: a quote is not closed"),
        ("a,b\nx,1\n", "c.csv:2: 'x' is not a number"),
        ("a\nnan\n", "c.csv:2: 'nan' is not a number"),
        ("a\n1e999\n", "c.csv:2: '1e999' is not a number"),
        ("a\n'=1\n", "c.csv:2: "),
        ("a,a\n1,2\n", "several columns are named 'a'"),
        ("a;b\n1;2\n", "no column 'a'; it has: a;b"),
        ("b\n1\n", "no column 'a'"),
        ("a\n", "no numbers in it"),
        ("", "no numbers in it"),
    ] {
        folder.write("c.csv", content);
        folder.run("stat c.csv:a").refused(2, &[told]);
    }
    for content in [
        "\u{feff}a,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n3,4\r\n",
        "a\n\n1\n\n 3 \n",
        "\"a\",\"b\"\n\"1\",\"x, y\"\n3,z\n",
    ] {
        folder.write("c.csv", content);
        assert!(folder.run("stat c.csv:a").ok().contains("Stddev"), "{content:?}");
    }
}
