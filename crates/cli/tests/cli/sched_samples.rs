//! `sim --sched-samples` and `sched-samples`.

use super::Folder;
use std::path::Path;

fn published(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../published").join(name);
    path.canonicalize().unwrap().display().to_string()
}

#[test]
fn a_published_trace_as_text() {
    let trace = published("libenzi_trace3_smp_current.csv");
    let text = Folder::new().run_words(&["sched-samples", &trace, "--clock", "733"]).ok();
    let golden = "\
Samples: 48 on 2 CPUs, 1873.777 ms
Consistency: 0 violations

Cost of a pass in cycles
CPU  mark  passes   min  median    mean    max
---  ----  ------  ----  ------  ------  -----
  0  no        25  1033  2010.0  3477.1   6411
  1  no        23  1933  2373.0  4026.2  13357

Migrations and stints (ms)
PID      time  migrations  stints   median  longest
---  --------  ----------  ------  -------  -------
686     0.219           0       1    0.219    0.219
687  1142.475           8       9  149.996  149.996
688  1116.910           7       8  149.996  159.995
689  1199.965           7       8  149.996  149.996
Hogs (at least 1 % of the time): 22 migrations (11.74 a second), stint median 149.996, longest 159.995

Disturbances
CPU 0: the same task went on after 0 of 0
CPU 1: the same task went on after 0 of 0
";
    assert_eq!(text, golden);
}

/// Libenzi's experiment on his machine with the scheduler of his day. The simulated trace has what the printed one has:
/// stints of 60 and 90 ms that make 150 ms, after each of which a hog changes its CPU.
#[test]
fn three_hogs_on_two_cpus_as_in_the_published_trace() {
    let folder = Folder::new();
    let sim = "sim -q -s vanilla -w cpuhog:ntasks=3,ttime=4s -m dual-p3-733 --sched-samples s.csv --sched-mark nr_recalcs";
    let with = folder.run(sim).ok();
    let without = folder.run("sim -q -s vanilla -w cpuhog:ntasks=3,ttime=4s -m dual-p3-733").ok();
    assert_eq!(with, without, "looking on changes nothing");
    let samples = folder.read("s.csv");
    assert!(
        samples.starts_with("# clock_mhz = 733\ncpu,seq,CYSTART,CYEND,SCHCY,PID,PRUN,mark\n0,1,"),
        "{samples}"
    );
    assert!(samples.lines().any(|line| line.ends_with(",1")), "epochs are marked");
    let text = folder.run("sched-samples s.csv").ok();
    assert!(text.contains("on 2 CPUs, 3999.99") && text.contains("Consistency: 0 violations"), "{text}");
    assert!(text.contains("stint median 150.0"), "{text}");
    let rate = text.split("migrations (").nth(1).unwrap().split(' ').next().unwrap();
    let rate: f64 = rate.parse().unwrap();
    assert!((11.0..14.0).contains(&rate), "{rate} a second, published 11.74");
}

#[test]
fn disturbances_of_the_keyboard_are_counted() {
    let folder = Folder::new();
    folder.run("sim -q -s vanilla --set kernel_threads=1 -w keyboard:ttime=2s -m athlon-1000 --sched-samples k.csv").ok();
    let text = folder.run("sched-samples k.csv --disturbers 1003").ok();
    let last = text.lines().last().unwrap();
    // 56 keys in 2 s, one of which finds no key before it.
    assert!(last.starts_with("CPU 0: the same task went on after ") && last.ends_with(" of 55"), "{text}");
    assert!(!last.contains("after 55"), "the document's scheduler goes on with another hog at times: {text}");
    assert!(folder.run("sched-samples k.csv").ok().ends_with("after 0 of 0\n"));
}

#[test]
fn mistakes_name_place_and_cure() {
    let folder = Folder::new();
    folder.run("sched-samples none.csv").refused(2, &["none.csv"]);
    folder
        .write("bad.csv", "cpu,seq,CYSTART,CYEND,SCHCY,PID,PRUN,mark\n0,1,0,2,2,7,10,0\n0,2,10,x,2,7,10,0\n");
    folder.run("sched-samples bad.csv").refused(2, &["bad.csv:3", "CYEND: 'x' is not a whole number"]);
    folder.write("empty.csv", "cpu,seq,CYSTART,CYEND,SCHCY,PID,PRUN,mark\n");
    folder.run("sched-samples empty.csv").refused(2, &["empty.csv", "no samples"]);
    folder
        .write("two.csv", "cpu,seq,CYSTART,CYEND,SCHCY,PID,PRUN,mark\n0,1,0,2,2,7,10,0\n1,1,5,6,1,7,10,0\n");
    let done = folder.run("sched-samples two.csv");
    done.refused(1, &["two.csv: 1 violation in 2 samples"]);
    assert!(done.out.contains("two.csv:3: PID 7 still runs on CPU 0"), "{}", done.out);
    let sim = "sim -s vanilla -w cpuhog:ttime=10ms --sched-samples s.csv --sched-mark nr_nothing";
    folder.run(sim).refused(2, &["--sched-mark", "'nr_nothing'", "nr_recalcs"]);
    let fair = "sim -s eevdf -w cpuhog:ttime=10ms --sched-samples s.csv --sched-mark nr_recalcs";
    folder.run(fair).refused(2, &["--sched-mark", "eevdf", "no counters"]);
    folder.run("sim -s eevdf -w cpuhog --sched-mark x").refused(2, &["--sched-samples"]);
}
