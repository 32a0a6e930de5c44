//! Folders in the place of files, files in the place of folders, and files whose names say nothing. Each is one error that
//! names the option and the cure.

use crate::Folder;

/// A folder with the folder `dir`, the file `a.txt` of numbers, and an rt-app file.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    folder.write("a.txt", "1\n2\n3\n");
    folder
}

const HOG: &str = "-w cpuhog:ttime=1ms -c 1";

#[test]
fn a_folder_is_no_file() {
    let folder = folder();
    let sim = format!("sim -s eevdf {HOG}");
    let results =
        ["--json", "--csv", "--html", "--perfetto", "--priorities", "--timehist", "--sched-samples"];
    let mut lines: Vec<(String, &str)> =
        results.iter().map(|option| (format!("{sim} {option} dir"), *option)).collect();
    let others = [
        ("sim -s dir -w cpuhog", "scheduler dir"),
        ("sim -s ./dir -w cpuhog", "./dir"),
        ("sim -s x=dir -w cpuhog", "scheduler dir"),
        ("compare -s eevdf,dir -w cpuhog", "scheduler dir"),
        ("sim -s exec:./dir -w cpuhog", "exec:./dir"),
        ("sim -s eevdf -w dir", "workload dir"),
        ("sim -s eevdf -w ./dir", "workload ./dir"),
        ("compare -s eevdf,o1 -w cpuhog -w dir", "workload dir"),
        ("sim -s eevdf -w cpuhog -m dir", "machine dir"),
        ("sim -s eevdf -w cpuhog -m ./dir", "machine file ./dir"),
        ("sim -s o1 -w cpuhog --state dir", "--state dir"),
        ("check dir", "scheduler dir"),
        ("check o1 --json dir", "--json dir"),
        ("stat dir a.txt", "stat dir"),
        ("stat a.txt a.txt --json dir", "--json dir"),
        ("sched-samples dir", "dir"),
        ("reproduce libenzi --machine-file dir", "machine file dir"),
        ("reproduce libenzi --json dir", "--json dir"),
        ("calibrate -o dir", "-o dir"),
        ("fidelity --show dir", "--show dir"),
        ("fidelity --real dir -s o1", "--real dir"),
        ("run -s eevdf -w dir --vm", "workload dir"),
        ("run -s dir -w cpuhog --vm", "scheduler dir"),
        ("run -s eevdf -w cpuhog --vm --kernel dir", "kernel image dir"),
        ("run -s eevdf -- ./dir", "command ./dir"),
        ("run -s eevdf --vm -- ./dir", "command ./dir"),
        ("bench -s eevdf,o1 --vm -- ./dir", "command ./dir"),
        ("deps --json dir", "--json dir"),
        ("deps --dot dir", "--dot dir"),
    ];
    lines.extend(others.map(|(line, place)| (line.to_string(), place)));
    for (line, place) in lines {
        folder.run(&line).refused(2, &[place, "it is a folder"]);
    }
}

#[test]
fn a_file_is_no_folder() {
    let folder = folder();
    for (line, option) in [
        (format!("compare -s eevdf,o1 {HOG} --perfetto a.txt"), "--perfetto a.txt"),
        (format!("compare -s eevdf,o1 {HOG} --resume a.txt"), "--resume a.txt"),
        ("reproduce libenzi --figures a.txt".to_string(), "--figures a.txt"),
    ] {
        folder.run(&line).refused(2, &[option, "it is a file; name a folder"]);
    }
    folder.run("man a.txt").refused(2, &["man a.txt", "not a folder"]);
    folder.run("new dir").refused(2, &["there is a dir already", "another name"]);
    assert_eq!(folder.read("a.txt"), "1\n2\n3\n");
}

#[test]
fn a_file_whose_name_says_nothing_is_told_how_to_be_named() {
    let folder = folder();
    let words = |form: &'static str| ["a.txt", "there is such a file", form];
    folder.run("sim -s a.txt -w cpuhog").refused(2, &words("*.bpf.o"));
    folder.run("sim -s eevdf -w a.txt").refused(2, &words("*.toml"));
    folder.run("sim -s eevdf -w cpuhog -m a.txt").refused(2, &words("*.toml"));
    folder.run("sim -s eevdf -w ./none").refused(2, &["./none", "no such file", "*.toml"]);
}

#[test]
fn what_fidelity_shows_is_not_measured_again() {
    let folder = folder();
    folder.run("fidelity --show a.txt").refused(2, &["--show a.txt", "fidelity -o"]);
    for other in ["-s o1", "-w pipe", "-c 2", "--phases 2", "-m modern", "--duration 1s", "--icount", "--vm"]
    {
        folder.run(&format!("fidelity --show a.txt {other}")).refused(2, &["--show", "cannot be used with"]);
    }
}

/// Assumed prices would be compared with this machine without a word.
#[test]
fn fidelity_on_the_host_wants_measured_prices() {
    folder()
        .run("fidelity --host -s eevdf -w cpuhog:ttime=1ms")
        .refused(2, &["--host", "are not known", "calibrate --host"]);
}

#[test]
fn a_mistake_in_a_command_line_leads_to_the_help_of_its_command() {
    let folder = folder();
    for (line, help) in [
        ("sim -x", "(see schedlab sim --help)"),
        ("-q check", "(see schedlab check --help)"),
        ("reproduce all --runs 0", "(see schedlab reproduce --help)"),
        ("nosuch", "(see schedlab --help)"),
        ("--nosuch", "(see schedlab --help)"),
    ] {
        folder.run(line).refused(2, &[help]);
    }
}

#[test]
fn times_of_options_have_bounds() {
    let folder = folder();
    let sim = "sim -s o1 -w cpuhog:ttime=1ms -c 1";
    for option in ["--duration", "--time-limit", "--attach-at", "--detach-at"] {
        folder.run(&format!("{sim} {option} 721h")).refused(2, &[option, "720h (30 days) or less"]);
        folder.run(&format!("{sim} {option} 0s")).refused(2, &[option, "give it some time"]);
    }
    folder.run(&format!("{sim} --duration 720h")).ok();
    folder.run("fidelity --vm -s o1 --duration 1000000h").refused(2, &["--duration", "720h"]);
    folder.run("deps --duration 1000000h").refused(2, &["--duration", "720h"]);
}

#[test]
fn seeds_end_where_numbers_do() {
    let folder = folder();
    let most = u64::MAX - 1;
    let compare =
        |seed: u64| folder.run(&format!("compare -q -s eevdf,o1 {HOG} --runs 2 --seed {seed} --json -"));
    assert_eq!(compare(most).ok().matches(&format!("\"seed\": {}", u64::MAX)).count(), 2);
    compare(u64::MAX).refused(2, &["--seed", "--runs 2", &most.to_string()]);
    folder.run(&format!("reproduce libenzi --runs 2 --seed {}", u64::MAX)).refused(2, &["--seed"]);
}
