//! Everything that is refused, with its code and the words that help.

use crate::{Done, Folder};

fn refused(line: &str, code: i32, words: &[&str]) {
    Folder::new().run(line).refused(code, words);
}

#[test]
fn names_that_do_not_exist() {
    refused("sim -s cfs -w cpuhog", 2, &["no scheduler named 'cfs'", "vanilla", "o1", "eevdf", "*.bpf.o"]);
    refused("sim -s eevdf -w nope", 2, &["'nope'", "cpuhog", "chat"]);
    refused("sim -s eevdf -w cpuhog -m cray", 2, &["'cray'", "modern", "p3-700", "*.toml"]);
    refused("sim -s ./none.bpf.o -w cpuhog", 2, &["./none.bpf.o", "No such file"]);
    refused("sim -s eevdf -w none.json", 2, &["none.json", "No such file"]);
    refused("sim -s eevdf -w none.toml", 2, &["none.toml", "No such file"]);
    refused("frobnicate", 2, &["frobnicate", "--help"]);
    refused("sim -s eevdf -w cpuhog --frob", 2, &["--frob"]);
}

#[test]
fn bad_values() {
    refused("sim -s eevdf -w cpuhog:colour=red", 2, &["colour", "ntasks"]);
    refused("sim -s eevdf -w cpuhog:ntasks=-1", 2, &["ntasks"]);
    refused("sim -s eevdf -w cpuhog:ntasks=99999999999999999999", 2, &["ntasks"]);
    refused("sim -s eevdf -w cpuhog --duration 10", 2, &["'10' is not a duration", "500ms"]);
    refused("sim -s eevdf -w cpuhog --duration 0s", 2, &["--duration", "500ms"]);
    refused("sim -s eevdf -w cpuhog -c 0", 2, &["0", "--cpus"]);
    refused("sim -s eevdf -w cpuhog -c 100000", 2, &["-c 100000", "at most"]);
    refused("sim -s eevdf -w cpuhog --seed x", 2, &["--seed"]);
    refused("sim -s eevdf -w cpuhog -c x", 2, &["'x'", "--cpus", "give a whole number"]);
    refused("sim -s eevdf -w cpuhog --seed 99999999999999999999", 2, &["--seed", "too large"]);
    refused("compare -s eevdf,o1 -w cpuhog --runs 0", 2, &["--runs", "from 1 up"]);
    refused("compare -s eevdf,o1 -w cpuhog --runs 99999999999", 2, &["--runs", "10000 or less"]);
    refused("reproduce all --runs 10001", 2, &["--runs", "10000 or less"]);
    refused("reproduce all --jobs 99999999999", 2, &["--jobs", "1024 or less"]);
    refused(
        "sim -s eevdf -w cpuhog -c 18446744073709551615",
        2,
        &["-c 18446744073709551615", "at most 4096"],
    );
    refused("sim -s eevdf -w swap-multi:unit=0ms", 2, &["unit", "some CPU time"]);
    refused("sim -s eevdf", 2, &["--workload"]);
    refused("sim -q -v -s eevdf -w cpuhog", 2, &["--quiet", "--verbose"]);
    refused("sim -s eevdf -w cpuhog -c -1", 2, &["'-1' is negative", "start at 0"]);
    refused("sim -s eevdf -w cpuhog --duration -5s", 2, &["'-5' is negative"]);
    refused(
        "sim -s eevdf -w cpuhog --duration 99999999999s",
        2,
        &["--duration", "too long", "720h (30 days) or less"],
    );
}

/// What an object says of its tunables holds before anything runs: no VM boots.
#[test]
fn settings_out_of_range() {
    let words = ["0 is none of the values of `exit_weight`", "an exiting child", "1..100"];
    for arm in ["sim", "run --vm --kernel /none/bzImage"] {
        refused(&format!("{arm} -s o1 --set exit_weight=0 -w cpuhog"), 2, &words);
        refused(&format!("{arm} -s o1[exit_weight=0] -w cpuhog"), 2, &words);
        refused(&format!("{arm} -s o1+swap --set interactive_delta=1000 -w cpuhog"), 2, &["0..5 priorities"]);
        refused(
            &format!("{arm} -s ule --set slice_min=0 -w cpuhog"),
            2,
            &["shortest slice", "1..1000 ticks"],
        );
        refused(&format!("{arm} -s o1 --set tick_ns=1 -w cpuhog"), 2, &["0 (1 ms in 2.6.10", "100000000 ns"]);
        refused(&format!("{arm} -s o1 --set profile=7 -w cpuhog"), 2, &["generation", "PROFILE_RH8"]);
        refused(&format!("{arm} -s staircase --set-at 1s:compute=2 -w cpuhog"), 2, &["false, true"]);
        refused(&format!("{arm} -s o1+swap --set swap_providers_of_type[3]=21 -w cpuhog"), 2, &["1..20"]);
    }
    refused("compare -s vanilla,o1 --set o1:exit_weight=101 -w cpuhog", 2, &["1..100"]);
    refused("check o1 --set exit_weight=0", 2, &words);
}

#[test]
fn bad_settings() {
    refused("sim -s o1 --set nothing=1 -w cpuhog", 2, &["nothing", "profile"]);
    refused("sim -s o1 --set profile=3.14 -w cpuhog", 2, &["3.14", "PROFILE_D1"]);
    refused("sim -s o1 --set profile -w cpuhog", 2, &["VARIABLE=VALUE"]);
    refused("sim -s eevdf --set profile=d1 -w cpuhog", 2, &["eevdf", "no tunables"]);
    refused("compare -s eevdf,o1 --set o2:x=1 -w cpuhog", 2, &["'o2'"]);
    let twice = ["profile=d1 and profile=rh8", "o1", "leave one of the two out"];
    refused("sim -s o1 --set profile=d1 --set profile=rh8 -w cpuhog", 2, &twice);
    refused("compare -s o1,vanilla --set profile=d1 --set o1:profile=rh8 -w cpuhog", 2, &twice);
    let twice = ["swap_exclude=make and swap_exclude=cc1", "o1+swap"];
    refused("sim -s o1+swap --set swap_exclude=make --swap-exclude cc1 -w cpuhog", 2, &twice);
}

#[test]
fn names_that_no_task_has() {
    let long = ["swap_exclude=make,gnome-terminal-server", "15 bytes", "write 'gnome-terminal-'"];
    for flag in ["--swap-exclude ", "--set swap_exclude=", "--set o1+swap:swap_exclude="] {
        refused(&format!("sim -s o1+swap {flag}make,gnome-terminal-server -w cpuhog"), 2, &long);
        refused(&format!("run -s o1+swap {flag}make,gnome-terminal-server -w cpuhog"), 2, &long);
    }
    refused("check o1+swap --set swap_exclude=make,gnome-terminal-server", 2, &long);
    refused("sim -s o1+swap --swap-exclude fünfzehnbytesßß -w cpuhog", 2, &["write 'fünfzehnbytes'"]);
    // Fifteen are a name.
    let folder = Folder::new();
    folder.run("sim -q -s o1+swap --set swap_exclude=fifteen-bytes-x -w cpuhog:ttime=1ms").ok();
}

#[test]
fn bad_changes_while_it_runs() {
    let refused = |flag: &str, words: &[&str]| {
        refused(&format!("sim -s staircase -w cpuhog --set-at {flag}"), 2, words);
    };
    refused("compute=1", &["TIME:VARIABLE=VALUE"]);
    refused("soon:compute=1", &["'soon' is not a duration"]);
    refused("1s:computer=1", &["no tunable `computer`", "compute, "]);
    refused("1s:compute=2", &["2 does not fit"]);
    refused("1s:burst_rule=v7", &["constant", "--set burst_rule", "compute, interactive"]);
    Folder::new().run("sim -s eevdf --set-at 1s:x=1 -w cpuhog").refused(2, &["eevdf", "no tunables"]);
}

#[test]
fn bad_machine_files() {
    let folder = Folder::new();
    folder.write("zero.toml", "[machine]\nname = 'zero'\ncpus = 0\n");
    folder.run("sim -s eevdf -w cpuhog -m zero.toml").refused(2, &["zero.toml:3", "at least one CPU"]);
    folder.write("key.toml", "[machine]\nname = 'key'\ncpus = 1\ncolour = 'red'\n");
    folder.run("sim -s eevdf -w cpuhog -m key.toml").refused(2, &["key.toml:4", "colour", "cache_kib"]);
    folder.write("cost.toml", "[machine]\nname = 'c'\ncpus = 1\n[costs]\nfork = 5\n");
    folder
        .run("sim -s eevdf -w cpuhog -m cost.toml")
        .refused(2, &["cost.toml:5: fork: a time with its unit"]);
    folder.run("sim -s eevdf -w cpuhog -m none.toml").refused(2, &["none.toml", "No such file"]);
}

#[test]
fn bad_workload_files() {
    let folder = Folder::new();
    folder.write("key.toml", "[workload]\nname = 'x'\ncolour = 'red'\n");
    folder.run("sim -s eevdf -w key.toml").refused(2, &["key.toml"]);
    folder.write(
        "count.toml",
        "name = 'x'\n[programs]\np = ['run 1ms']\n[[tasks]]\nname = 'a'\nprogram = 'p'\ncount = -1\n",
    );
    folder.run("sim -s eevdf -w count.toml").refused(2, &["count.toml:7: count: a whole number from 0 to"]);
    folder.write("key.json", "{ \"tasks\": { \"a\": { \"dance\": 5 } } }");
    folder.run("sim -s eevdf -w key.json").refused(2, &["key.json", "dance"]);
    folder.write("cut.json", "{ \"tasks\": ");
    folder.run("sim -s eevdf -w cut.json").refused(2, &["cut.json"]);
}

#[test]
fn bad_objects() {
    let folder = Folder::new();
    folder.write("empty.bpf.o", b"");
    folder.write("text.bpf.o", b"#!/bin/sh\n");
    folder.write(
        "random.bpf.o",
        (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>(),
    );
    let own = std::fs::read(env!("CARGO_BIN_EXE_schedlab")).unwrap();
    folder.write("foreign.bpf.o", &own[..own.len().min(1 << 20)]);
    for file in ["empty", "text", "random", "foreign"] {
        let path = format!("./{file}.bpf.o");
        folder.run(&format!("sim -s {path} -w cpuhog")).refused(2, &[&path]);
        folder.run(&format!("check {path}")).refused(2, &[&path]);
    }
    folder.run("check eevdf").refused(2, &["no object"]);
    folder.run("check o1 --set nothing=1").refused(2, &["there is no tunable `nothing`", "profile"]);
}

#[test]
fn comparisons_that_compare_nothing() {
    refused("compare -s o1 -w cpuhog", 2, &["two schedulers"]);
    refused("compare -s , -w cpuhog", 2, &["no scheduler named ''"]);
    // The same runs would count as more of them.
    refused("compare -s eevdf,o1 -w cpuhog -c 2,4,2", 2, &["-c names 2 twice"]);
    refused("compare -s eevdf,o1 -w cpuhog -c 2,x", 2, &["x"]);
    refused("compare -s eevdf,o1 -w cpuhog --runs 0", 2, &["--runs"]);
    refused("compare -s eevdf,o1 -w cpuhog --confidence 97", 2, &["97", "choose 80"]);
    refused("compare -s eevdf,o1 -w cpuhog --live --vm", 2, &["--live", "--vm"]);
    refused("compare -s eevdf,o1 -w cpuhog --live -c 2", 2, &["--cpus"]);
    refused("reproduce linus", 2, &["linus", "kravetz"]);
}

#[test]
fn commands_that_cannot_be_compared() {
    refused("bench -s eevdf,eevdf", 2, &["required", "<COMMAND>"]);
    refused("bench -s eevdf -- true", 2, &["two schedulers", "schedlab run"]);
    refused("bench -s eevdf,eevdf --vm -c 2,2 -- true", 2, &["-c names 2 twice"]);
    refused("bench -s eevdf,eevdf -- ./no-such-program", 2, &["run 1 of 12", "warm-up", "./no-such-program"]);
    refused("bench -s eevdf,eevdf --with sh -- true", 2, &["--vm"]);
    refused("run -s eevdf --vm --with sh -w chat", 2, &["--with", "--workload"]);
    refused("bench -s eevdf,eevdf -c 2 -- true", 2, &["--vm"]);
    refused("bench -s eevdf,eevdf --vm --with ./nothing -- true", 2, &["./nothing"]);
    refused("bench -s eevdf,eevdf --runs 0 -- true", 2, &["--runs"]);
}

#[test]
fn watches_of_nothing() {
    refused("deps --duration 0s", 2, &["--duration", "500ms"]);
    refused("deps --duration 1s --interval 0s", 2, &["--interval", "500ms"]);
    refused("deps --json - --dot -", 2, &["only one of --json and --dot"]);
    refused("deps --dot x --html x", 2, &["--dot and --html", "both name x"]);
    refused("deps --pid 0", 2, &["--pid", "0 is not in 1.."]);
    refused("deps --min-confidence 41", 2, &["41", "0..=40"]);
    refused("deps --html missing/x.html", 2, &["--html missing/x.html", "folder"]);
}

#[test]
fn runs_without_work_or_with_too_much() {
    refused("run -s eevdf", 2, &["required", "not provided: <--workload"]);
    refused("run -s eevdf -w cpuhog -- true", 2, &["cannot be used with"]);
    refused("run -s eevdf --vm -- ./no-such-program", 2, &["./no-such-program", "PATH"]);
    refused("run -s eevdf --vm --with ./nothing -- true", 2, &["./nothing", "PATH"]);
    refused("run -s eevdf --with sh -- true", 2, &["--vm"]);
    refused("run -s eevdf -c 2 -w cpuhog", 2, &["-c", "--vm"]);
    refused("run -s eevdf --duration 1s -- true", 2, &["timeout"]);
    refused("run -s eevdf -- ./no-such-program", 2, &["./no-such-program"]);
    refused("run -s o1 -w cpuhog --kernel x", 2, &["--vm"]);
    refused("run -s o1 -w cpuhog --icount", 2, &["--vm"]);
    refused("run -s o1 -w cpuhog --vm --icount=3", 2, &["--icount", "power of two from 1 to 1024"]);
    refused("run -s o1 -w cpuhog --vm --timeout 0s", 2, &["--timeout", "500ms"]);
    refused("run -s o1 --vm --kernel ./nothing -w cpuhog", 2, &["./nothing", "--kernel"]);
    let names = ["--kernel debian-31: no kernel for a VM (did you mean 'debian-13'?)", "debian-sid"];
    refused("run -s o1 --vm --kernel debian-31 -w cpuhog", 2, &names);
    for command in
        ["bench --vm -s o1 --kernel 6.8 -- true", "fidelity --vm --kernel 6.8", "calibrate --vm --kernel 6.8"]
    {
        refused(command, 2, &["--kernel 6.8: sched_ext came with Linux 6.12"]);
    }
    refused("check o1 --vm --kernel arch", 2, &["--kernel arch: the simulator alone has it by name"]);
    refused(
        "sim -s o1 -w cpuhog --kernel ./bzImage",
        2,
        &["--kernel ./bzImage: an image is for the VM: add --vm"],
    );
}

/// Files without an end would fill the memory.
#[test]
fn files_without_an_end() {
    let object = ["scheduler object /dev/zero", "bytes in an object file, the limit is 67108864"];
    refused("sim -s /dev/zero -w cpuhog", 2, &object);
    refused("sim -s eevdf -w cpuhog -m /dev/zero", 2, &["machine file /dev/zero", "than 8 MiB"]);
    refused("sim -s o1 -w cpuhog --state /dev/zero", 2, &["--state /dev/zero", "than 8 MiB"]);
    refused("stat /dev/zero", 2, &["stat /dev/zero", "256 MiB"]);
}

/// What a message quotes cannot steer the terminal.
#[test]
fn control_characters_in_files() {
    let folder = Folder::new();
    folder.write("a.txt", "\x1b[2J\x07\n");
    let done = folder.run("stat a.txt");
    done.refused(2, &["a.txt:1", "'\u{fffd}[2J\u{fffd}'"]);
    assert!(!done.err.trim_end().contains(char::is_control), "{done:?}");
}

/// What a result quotes cannot steer the terminal either.
#[test]
fn control_characters_in_names() {
    let folder = Folder::new();
    let file = "name = 'x'\n[programs]\np = ['run 1ms']\n[[tasks]]\nname = \"a\\u001b[2Jb\"\nprogram = 'p'\n";
    folder.write("w.toml", file);
    let text = folder.run("sim -s eevdf -w w.toml --json r.json").ok();
    assert!(text.contains("a\u{fffd}[2Jb ") && !text.contains('\u{1b}'), "{text}");
    assert!(folder.read("r.json").contains("a\\u001b[2Jb"), "data stays as it is");
}

/// What was there before is left as it was when the command is refused.
#[test]
fn refusals_leave_files_alone() {
    let folder = Folder::new();
    folder.write("old.json", "old");
    folder.run("sim -s eevdf -w nope --json old.json --csv new.csv").refused(2, &["'nope'"]);
    assert_eq!((folder.read("old.json").as_str(), folder.path().join("new.csv").exists()), ("old", false));
}

/// The guest's memory takes more address space than a tight limit leaves.
#[test]
fn too_little_address_space() {
    let folder = Folder::new();
    let limited = format!("ulimit -v 4000000; exec {} sim -s o1 -w cpuhog", env!("CARGO_BIN_EXE_schedlab"));
    let mut command = std::process::Command::new("sh");
    let done = Done::of(command.args(["-c", &limited]).current_dir(folder.path()).output().unwrap());
    done.refused(5, &["scheduler o1: cannot reserve", "ulimit -v"]);
}

/// A full disk is reported, whatever was to be written.
#[test]
fn standard_output_that_takes_nothing() {
    let folder = Folder::new();
    for line in ["sim --help", "list", "sim -s eevdf -w cpuhog:ttime=1ms --perfetto -"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = Done::of(folder.command(&words).stdout(full).output().unwrap());
        done.refused(5, &["standard output", "No space left"]);
    }
}

#[test]
fn two_results_in_one_file() {
    let twice = |flags: &str, words: &[&str]| refused(&format!("sim -s eevdf -w cpuhog {flags}"), 2, words);
    twice("--json r --csv r", &["--json and --csv", "both name r"]);
    twice("--json r --csv ./r", &["--json and --csv", "both name ./r"]);
    twice("--json /tmp/../tmp/r --html /tmp/r", &["--json and --html", "both name /tmp/r"]);
    twice("--json - --perfetto -", &["only one of --json and --perfetto"]);
    twice("--html r --sched-samples r --sched-mark x", &["--html and --sched-samples", "both name r"]);
    let devices = "sim -s eevdf -w cpuhog:ttime=1ms --json /dev/null --csv /dev/null";
    Folder::new().run(devices).ok();
}

#[test]
fn results_that_cannot_be_written() {
    refused("sim -s eevdf -w cpuhog --json no/where.json", 2, &["--json no/where.json", "folder"]);
    refused("sim -s eevdf -w cpuhog --csv .", 2, &["--csv .", "name a file"]);
    // Before anything runs: the results of hours would be lost.
    let done = Folder::new().run("sim -s eevdf -w cpuhog --json /proc/r.json");
    done.refused(2, &["--json /proc/r.json", "name a file that you may write"]);
    assert_eq!(done.out, "");
    refused("sim -s eevdf -w cpuhog --json - --csv -", 2, &["only one"]);
}
