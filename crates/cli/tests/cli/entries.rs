//! Entries of `-s`: a scheduler against itself, labels, tunables of one entry; lists of CPUs; names that are nearly right.

use crate::Folder;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

const LOAD: &str = "-w cpuhog:ntasks=3,ttime=30ms --runs 2 -q";

fn refused(line: &str, words: &[&str]) {
    Folder::new().run(line).refused(2, words);
}

/// The labels of a comparison's results, each once, in their order.
fn labels(schedulers: &str, flags: &str) -> Vec<String> {
    let folder = Folder::new();
    let text = folder.run(&format!("compare -s {schedulers} {flags} {LOAD} -c 1 --csv r.csv")).ok();
    let mut rows = csv::Reader::from_path(folder.path().join("r.csv")).unwrap();
    let mut labels: Vec<String> = rows.records().map(|row| row.unwrap()[0].to_string()).collect();
    labels.dedup();
    for label in &labels {
        assert!(text.contains(label.as_str()), "{label}: {text}");
    }
    labels
}

#[test]
fn a_scheduler_against_itself() {
    assert_eq!(labels("o1,o1", ""), ["o1", "o1#2"]);
    assert_eq!(labels("eevdf,eevdf,eevdf", ""), ["eevdf", "eevdf#2", "eevdf#3"]);
    let two = ["o1[profile=d1]", "o1[profile=rh8]"];
    assert_eq!(labels(&two.join(","), ""), two);
    assert_eq!(labels("o1[profile=d1],o1[profile=d1]", ""), ["o1[profile=d1]", "o1#2[profile=d1]"]);
    // What results print is what is taken.
    assert_eq!(labels("o1#2[profile=d1],o1", ""), ["o1#2[profile=d1]", "o1"]);
}

#[test]
fn entries_have_labels() {
    let folder = Folder::new();
    let (old, new) = ("old=o1", "new=o1[profile=rh8]");
    assert_eq!(labels(&format!("{old},{new}"), ""), ["old", "new[profile=rh8]"]);
    let out = folder.run("sim -s mine=o1[profile=rh8] -w cpuhog:ttime=5ms -q").ok();
    assert!(out.contains("mine[profile=rh8]"), "{out}");
}

#[test]
fn an_entry_goes_before_set() {
    let one = labels("o1[profile=d1],o1", "--set profile=rh8");
    assert_eq!(one, ["o1[profile=d1]", "o1[profile=rh8]"]);
    assert_eq!(labels("a=o1,b=o1", "--set b:profile=rh8"), ["a", "b[profile=rh8]"]);
    let commas = "o1+swap[swap_exclude=make,cc1],o1+swap";
    let own = labels(commas, "--swap-exclude ld");
    assert_eq!(own, ["o1+swap[swap_exclude=make,cc1]", "o1+swap[swap_exclude=ld]"]);
}

/// The settings of an entry have their effect: the same as those of `--set`.
#[test]
fn tunables_of_an_entry_reach_the_scheduler() {
    let folder = Folder::new();
    let sim = |scheduler: &str| {
        let line = format!("sim -s {scheduler} -w reflex:tasks=8,rounds=50 -m p3-700 -q --json -");
        folder.run(&line).ok()
    };
    assert_eq!(sim("o1[profile=rh8]"), sim("o1 --set profile=rh8"));
    assert_eq!(sim("staircase[20ms:compute=1]"), sim("staircase --set-at 20ms:compute=1"));
    assert_ne!(sim("vanilla[profile=tsss]"), sim("vanilla"));
}

#[test]
fn entries_that_are_none() {
    let refused =
        |schedulers: &str, words: &[&str]| refused(&format!("compare -s {schedulers} {LOAD}"), words);
    refused("o1,o1[profile=d1", &["-s o1[profile=d1:", "a '[' without its ']'", "NAME[VARIABLE=VALUE,..]"]);
    refused("o1,o1]", &["-s o1]:", "no '['"]);
    refused("o1,o1[]", &["-s o1[]:", "not VARIABLE=VALUE"]);
    refused("o1,o1[profile=d1]x", &["-s o1[profile=d1]x:", "text after its ']'"]);
    refused("o1,o1[profile=d1,profile=rh8]", &["-s o1[profile=d1,profile=rh8]:", "leave one of the two out"]);
    refused("o1,o1[profil=d1]", &["scheduler o1", "no tunable `profil`", "did you mean 'profile'?"]);
    refused("o1,eevdf[x=1]", &["-s eevdf[x=1]:", "no tunables"]);
    refused("a=o1,a=vanilla", &["two schedulers are called 'a'"]);
    refused("vanilla=o1,vanilla", &["-s vanilla=o1:", "another scheduler's name"]);
    refused("=o1,vanilla", &["-s =o1:", "label"]);
    refused("new=./none.bpf.o,o1", &["./none.bpf.o", "No such file"]);
}

#[test]
fn ranges_of_cpus() {
    let folder = Folder::new();
    folder.run(&format!("compare -s eevdf,o1 {LOAD} -c 1,2-4,8 --csv r.csv")).ok();
    let mut rows = csv::Reader::from_path(folder.path().join("r.csv")).unwrap();
    let at = rows.headers().unwrap().iter().position(|name| name == "cpus").unwrap();
    let mut cpus: Vec<String> = rows.records().map(|row| row.unwrap()[at].to_string()).collect();
    cpus.dedup();
    assert_eq!(cpus, ["1", "2", "3", "4", "8"]);
    let refused =
        |list: &str, words: &[&str]| refused(&format!("compare -s eevdf,o1 {LOAD} -c {list}"), words);
    refused("4-2", &["4-2", "from the smaller number"]);
    refused("1-99999999999", &["4096 at most"]);
    refused("2-", &["'2-'", "give a whole number"]);
    refused("0-2", &["'0-2'", "from 1 up"]);
    refused("1-3,2", &["-c names 2 twice"]);
}

#[test]
fn names_that_are_nearly_right() {
    refused("sim -s vanila -w cpuhog", &["'vanila' (did you mean 'vanilla'?)"]);
    refused("sim -s o2+swap -w cpuhog", &["did you mean 'o1+swap'?"]);
    refused("sim -s o1+swp -w cpuhog", &["did you mean 'o1+swap'?"]);
    refused("smi -s o1 -w cpuhog", &["'smi' (did you mean 'sim'?)"]);
    refused("sim -s o1 -w chatt", &["'chatt' (did you mean 'chat'?); there are: "]);
    refused("sim -s o1 -w chat:room=3", &["'room' (did you mean 'rooms'?); there are: "]);
    refused("sim -s o1 -w cyclictest:policy=fifoo", &["did you mean 'fifo'?"]);
    let samples = "sim -s o1 -w cpuhog:ttime=1ms --sched-samples s.csv --sched-mark nr_piks";
    refused(samples, &["--sched-mark", "did you mean 'nr_picks'?"]);
    refused("sim -s eevdf -w cpuhgo", &["did you mean 'cpuhog'?"]);
    refused("sim -s eevdf -w cpuhog:ntask=2", &["'ntask'", "did you mean 'ntasks'?"]);
    refused("sim -s eevdf -w cpuhog -m moderm", &["did you mean 'modern'?"]);
    refused("sim -s o1 --set profil=d1 -w cpuhog", &["did you mean 'profile'?"]);
    refused("check o1 --set profil=d1", &["did you mean 'profile'?"]);
    refused("compare -s eevdf,vanilla --set vanila:x=1 -w cpuhog", &["'vanila'", "did you mean 'vanilla'?"]);
    refused("sim -s o1+swap --swap-types pip -w cpuhog", &["did you mean 'pipe'?"]);
    refused("reproduce kravets", &["did you mean 'kravetz'?"]);
    let folder = Folder::new();
    folder.run("sim -s eevdf -w cpuhog:ttime=5ms -q --json r.json").ok();
    folder.run("stat r.json:throughputs").refused(2, &["no metric 'throughputs'"]);
    folder.run("stat r.json:context_switche").refused(2, &["no metric", "did you mean '"]);
}

#[test]
fn one_name_is_listed_with_all_about_it() {
    let folder = Folder::new();
    let text = folder.run("list workloads chat").ok();
    assert!(text.starts_with("chat ") && text.contains("rooms=") && text.contains("-> throughput"), "{text}");
    assert!(!text.contains("cpuhog"), "{text}");
    assert!(folder.run("list schedulers o1").ok().contains("--set profile"));
    folder.run("list workloads chatt").refused(2, &["'chatt'", "did you mean 'chat'?", "cpuhog"]);
    folder.run("list chat").refused(2, &["chat", "workloads"]);
}

#[test]
fn a_timeline_begins_at_nothing() {
    let folder = Folder::new();
    folder.run("sim -s o1 -w cpuhog:ttime=5ms -q --html t.html --timeline 0..3ms").ok();
    assert!(folder.read("t.html").contains("<svg"));
    refused("sim -s o1 -w cpuhog --html t.html --timeline 1..3ms", &["'1' is not a duration"]);
}

#[test]
fn nobody_has_that_pid() {
    refused("deps --pid 99999999 --duration 1s", &["--pid 99999999", "no process", "ps -eLf"]);
}

/// The last words of a command that SIGINT ends.
fn interrupted(line: &str) -> String {
    let folder = Folder::new();
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = folder.command(&words);
    crate::heed_signals(&mut command);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Until it has its handler, the signal would end it without a word.
    let id = child.id();
    let status = format!("/proc/{id}/status");
    let catches = |line: &str| {
        let mask = line.strip_prefix("SigCgt:").map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
        mask.is_some_and(|mask| mask & 1 << (libc::SIGINT - 1) != 0)
    };
    while !std::fs::read_to_string(&status).unwrap().lines().any(catches) {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    // SAFETY: it is a child that has not been waited for.
    unsafe { libc::kill(id.cast_signed(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_interrupted_command_says_what_is_kept() {
    let long = "-w cpuhog:ntasks=4,ttime=100000s -m dual-p3-733";
    let text = interrupted(&format!("compare -s eevdf,o1 {long} --resume runs"));
    assert!(text.contains("interrupted: finished runs are kept in runs; the same command"), "{text}");
    let text = interrupted(&format!("compare -s eevdf,o1 {long}"));
    assert!(text.contains("interrupted: nothing is kept; with --resume DIR"), "{text}");
    let text = interrupted(&format!("sim -s o1 {long}"));
    assert!(text.contains("interrupted: nothing is kept, result files are as they were"), "{text}");
    assert_eq!(interrupted(&format!("sim -q -s o1 {long} --json r.json --perfetto t")), "");
}

/// What `--sub` does not take, each with what to do instead.
#[test]
fn sub_schedulers_that_no_run_can_attach_are_refused() {
    let folder = Folder::new();
    let load = "name = \"g\"\nend = \"1ms\"\n[[groups]]\nname = \"a\"\n[programs]\nhog = [ \"run 1s\" ]\n[[tasks]]\n\
                name = \"x\"\nprogram = \"hog\"\ngroup = \"a\"\n";
    folder.write("g.toml", load);
    for (scheduler, more, words) in [
        ("o1", "--sub x", &["--sub x", "GROUP=SCHEDULER"][..]),
        ("o1", "--sub a=eevdf", &["the kernel's own class"]),
        ("o1", "--sub b=o1", &["--sub b", "no such group"]),
        ("o1", "--sub a@5=o1", &["'5' is not a duration"]),
        ("o1", "--sub a=o1", &["of the cid form", "struct sched_ext_ops_cid"]),
        (
            "o1",
            "--sub a=staircase[1ms:compute=1]",
            &["a variable of a sub-scheduler does not change", "[compute=1]"],
        ),
        ("o1", "--sub a=nix", &["no scheduler named 'nix'"]),
        ("o1", "--sub a=o1 --kernel 6.12", &["Linux 6.12 has no sub-schedulers", "--kernel 7.3"]),
        ("o1", "--sub a=o1 --attach-at 1ms", &["--attach-at"]),
        ("eevdf", "--sub a=o1", &["the fair class has no sub-schedulers"]),
    ] {
        folder.run(&format!("sim -s {scheduler} -w g.toml -c 2 {more}")).refused(2, words);
    }
    folder
        .run("run --vm -s o1 -w g.toml --sub a=o1")
        .refused(2, &["of the cid form", "struct sched_ext_ops_cid"]);
    folder.run("run --vm -s o1 --sub a=o1 -- true").refused(2, &["a command has no groups"]);
    folder.run("sim -s o1 -w chat --sub a=o1").refused(2, &["chat has no groups", "[[groups]]"]);
}
