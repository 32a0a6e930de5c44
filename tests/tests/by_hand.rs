//! Objects by hand: what a scheduler's own loader would have done is done by flags, the same in both arms.
//!
//! Says "skipped" with the reason where there is no compiler, QEMU or kernel.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::collections::BTreeMap;
use std::time::Duration;

use schedlab_live::kernel_image;
use schedlab_tests::{Schedlab, clang, compile, program_with};

/// Far more than any of these takes on a busy host, boot under emulation included.
const LIMIT: Duration = Duration::from_secs(400);

/// The workload of all runs.
const HOG: &str = "cpuhog:ttime=100ms";

/// A lab with these objects, each as `NAME.bpf.o`; says so and gives nothing without a compiler.
fn lab(test: &str, objects: &[&str]) -> Option<Schedlab> {
    if clang().is_none() {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    }
    let lab = Schedlab::new(test);
    for name in objects {
        compile(name, "bpf", &lab.path(&format!("{name}.bpf.o"))).unwrap();
    }
    Some(lab)
}

/// True if a kernel can be booted; says so where none can.
fn has_vm() -> bool {
    let qemu = std::process::Command::new("qemu-system-x86_64").arg("--version").output();
    let ready = qemu
        .map_err(|error| error.to_string())
        .and_then(|_| kernel_image::find_or_fetch(&mut |_| {}).map_err(|error| error.to_string()));
    ready.map_err(|error| println!("skipped: {error}")).is_ok()
}

/// The counters of a run of the arm with these flags.
fn counters(lab: &Schedlab, arm: &[&str], object: &str, flags: &[&str]) -> BTreeMap<String, u64> {
    counters_under(lab, arm, object, HOG, flags)
}

fn counters_under(
    lab: &Schedlab,
    arm: &[&str],
    object: &str,
    workload: &str,
    flags: &[&str],
) -> BTreeMap<String, u64> {
    let fixed = ["-q", "-c", "2", "-s", object, "-w", workload, "--json", "r.json"];
    let ended = lab.run(&[arm, &fixed, flags].concat(), LIMIT);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arm:?} {flags:?}");
    let counters = lab.record("r.json").counters;
    counters.into_iter().map(|counter| (counter.name, counter.value)).collect()
}

/// What is refused by a run of each arm, with these words: the real arm refuses it before a kernel boots.
fn refused(lab: &Schedlab, object: &str, flags: &[&str], words: &[&str]) {
    for arm in [&["sim"][..], &["run", "--vm", "--kernel", "/none/bzImage"]] {
        let fixed = ["-q", "-s", object, "-w", HOG];
        let ended = lab.run(&[arm, &fixed, flags].concat(), LIMIT);
        assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{arm:?} {flags:?} {ended:?}");
        for word in words {
            assert!(ended.err.contains(word), "{arm:?}: no {word:?} in {}", ended.err);
        }
    }
}

/// What is set, and the counters that show it.
const SETTINGS: [(&str, &str, &str, i64); 25] = [
    ("map.pairs[fast].first", "17", "nr_first", 17),
    ("map.pairs[9].second", "[1,-2]", "nr_second", -2),
    ("map.per_cpus[1]", "18", "nr_per_cpu", 18),
    ("byte", "255", "nr_byte", 255),
    ("half", "-32768", "nr_half", -32768),
    ("flag", "true", "nr_flag", 1),
    ("pace", "fast", "nr_pace", 9),
    ("wide_pace", "WIDE_HIGH", "nr_wide_pace", 0x0123_4567_89ab),
    ("limits.low", "-5", "nr_low", -5),
    ("limits.high", "[1,2,3]", "nr_high", 3),
    ("limits.inner.deep", "0x7f", "nr_deep", 127),
    ("limits.inner.pace", "9", "nr_inner_pace", 9),
    ("grid", "[[1],[0,2,3]]", "nr_grid", 321),
    ("flags", "[true,off,1]", "nr_flags", 5),
    ("bytes", "[7,0,0,9]", "nr_bytes", 9007),
    ("in_data", "-9223372036854775808", "nr_in_data", i64::MIN),
    ("tilt", "-5", "nr_tilt", -5),
    ("doses", "[0,20]", "nr_doses", 2000),
    ("gait", "9", "nr_gait", 9),
    ("pulse", "200", "nr_pulse", 200),
    ("in_bss", "4_294_967_295", "nr_in_bss", 0xffff_ffff),
    ("hidden", "8", "nr_hidden", 8),
    ("__underscored", "6", "nr_underscored", 6),
    ("per_cpu[1]", "42", "nr_last_cpu", 42),
    ("ops.timeout_ms", "7000", "nr_folded", 5),
];

#[test]
fn every_kind_of_variable_is_set_in_both_arms() {
    let Some(lab) = lab("settable", &["settable"]) else { return };
    let settings: Vec<String> = SETTINGS.iter().map(|(name, value, ..)| format!("{name}={value}")).collect();
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let expect = |arm: &[&str]| {
        let found = counters(&lab, arm, "./settable.bpf.o", &flags);
        for (name, value, counter, expected) in SETTINGS {
            assert_eq!(found[counter].cast_signed(), expected, "{arm:?} {name}={value}");
        }
    };
    expect(&["sim"]);
    if has_vm() {
        expect(&["run", "--vm"]);
    }
    // The same as results print it.
    let entry = format!("settable.bpf.o[{}]", settings.join(","));
    assert_eq!(counters(&lab, &["sim"], &format!("./{entry}"), &[])["nr_grid"], 321);
}

#[test]
fn what_does_not_fit_is_refused_by_both_arms_alike() {
    let Some(lab) = lab("not-settable", &["settable"]) else { return };
    let cases: [(&str, &[&str]); 33] = [
        ("map.pears[1]=1", &["no map `pears`", "did you mean 'pairs'?", "maps: pairs, per_cpus"]),
        ("map.pairs[soon]=1", &["key: `soon` is none of the values of enum pace"]),
        ("map.pairs[1]=1", &["a struct pair cannot be set as a whole"]),
        ("map.pairs[1].frist=1", &["did you mean 'first'?"]),
        ("map.per_cpus[1=1", &["`[` without `]`"]),
        ("map.pairs.flags=1", &["only max_entries and entries"]),
        ("byt=1", &["no tunable `byt`", "did you mean 'byte'?", "tunables: byte, bytes"]),
        ("byte=256", &["256 does not fit into u8 (0 to 255)", "`byte` is of type u8"]),
        ("byte=0x", &["`0x` is no number for u8"]),
        ("half=-32769", &["s16 (-32768 to 32767)"]),
        ("flag=2", &["2 does not fit into bool"]),
        ("flag=maybe", &["`maybe` is neither true nor false"]),
        ("pace=quick", &["none of the values of enum pace", "PACE_SLOW, PACE_FAST"]),
        ("pace=4294967296", &["does not fit into enum pace"]),
        ("limits=1", &["a struct limits cannot be set as a whole"]),
        ("limits.lwo=1", &["no member `lwo` in struct limits", "did you mean 'low'?"]),
        ("limits.high[3]=1", &["index 3 of an array of 3"]),
        ("limits.high[x]=1", &["`x` is no index"]),
        ("grid=[1]", &["element 0: `1` is no list for u32 [3]"]),
        ("grid=[[1,2,3,4]]", &["element 0: a list of 4 for u32 [3]"]),
        ("grid=[[1]", &["brackets"]),
        ("bytes=abc", &["`abc` is no list for u8 [4]"]),
        ("tilt=-6", &["-6 is none of the values of `tilt`", "how far it leans", "-5..5 degrees"]),
        ("tilt=much", &["`much` is no number", "how far it leans", "-5..5 degrees"]),
        ("doses[1]=9", &["9 is none of the values", "what each one gets", "0 (nothing) or 10..20 mg"]),
        ("doses=[10,21]", &["21 is none of the values of `doses`"]),
        ("gait=2", &["2 is none of the values of `gait`", "how it walks", "PACE_SLOW, PACE_FAST"]),
        ("pulse=201", &["201 is none of the values of `pulse`", "how often it beats", "40..200)"]),
        ("pulse=0", &["0 is none of the values of `pulse`"]),
        ("folded=1", &["`folded` is `const` without `volatile`"]),
        ("ops.enqueue=1", &["a function cannot be set", "timeout_ms"]),
        ("ops.timeout=1", &["no member `timeout`", "did you mean 'timeout_ms'?"]),
        ("settable_ops.timeout_ms=-1", &["-1 does not fit into u32"]),
    ];
    for (setting, words) in cases {
        refused(&lab, "./settable.bpf.o", &["--set", setting], words);
    }
    for at in ["10ms:pulse=39", "10ms:pulse=0xffff"] {
        refused(&lab, "./settable.bpf.o", &["--set-at", at], &["of the values of `pulse`", "40..200"]);
    }
    refused(&lab, "./settable.bpf.o[tilt=6]", &[], &["6 is none of the values of `tilt`", "-5..5 degrees"]);
    let beyond = lab.run(&["sim", "-s", "./settable.bpf.o", "-w", HOG, "--set", "map.per_cpus[2]=1"], LIMIT);
    assert!(beyond.code == 2 && beyond.err.contains("does not take this entry"), "{beyond:?}");
    // How many elements it has depends on the machine.
    let ended =
        lab.run(&["sim", "-s", "./settable.bpf.o", "-w", HOG, "-c", "2", "--set", "per_cpu[2]=1"], LIMIT);
    assert!(
        ended.code == 2 && ended.err.contains("no such element (per_cpu has 16 bytes here)"),
        "{ended:?}"
    );
}

#[test]
fn one_of_several_schedulers_is_chosen_by_name() {
    let Some(lab) = lab("two", &["two"]) else { return };
    let count = |arm: &[&str], object: &str, flags: &[&str]| {
        let found = counters(&lab, arm, object, flags);
        (found["nr_short"] > 0, found["nr_long"] > 0)
    };
    assert_eq!(count(&["sim"], "./two.bpf.o#short_ops", &[]), (true, false));
    assert_eq!(count(&["sim"], "./two.bpf.o#lengthy", &["--set", "ops.timeout_ms=5000"]), (false, true));
    if has_vm() {
        let real = ["run", "--vm"];
        assert_eq!(count(&real, "./two.bpf.o#long_ops", &["--set", "ops.timeout_ms=5000"]), (false, true));
        assert_eq!(count(&real, "./two.bpf.o#brief", &[]), (true, false));
    }
    let line = ["compare", "-q", "-s", "./two.bpf.o#brief,a=./two.bpf.o#long_ops,./two.bpf.o#brief"];
    let compared = lab.run(&[&line[..], &["-w", HOG, "-c", "1"]].concat(), LIMIT);
    assert_eq!(compared.code, 0, "{compared:?}");
    assert!(compared.out.contains("./two.bpf.o#brief#2"), "{compared:?}");

    let listed = "FILE#NAME: short_ops (\"brief\"), long_ops (\"lengthy\")";
    for (object, words) in [
        ("./two.bpf.o", &["2 schedulers in one object", listed][..]),
        ("./two.bpf.o#shirt_ops", &["no scheduler `shirt_ops`", "did you mean 'short_ops'?", listed]),
    ] {
        let checked = lab.run(&["check", object], LIMIT);
        assert!(checked.code == 2 && words.iter().all(|word| checked.err.contains(word)), "{checked:?}");
        refused(&lab, object, &[], words);
    }
}

#[test]
fn programs_that_carry_an_object_are_read() {
    let Some(lab) = lab("carried", &["settable", "two", "unconfigured"]) else { return };
    let read = |name: &str| std::fs::read(lab.path(&format!("{name}.bpf.o"))).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(lab.path(name), bytes).unwrap();
    write("scx_one", &program_with(&read("settable")));
    let both = [read("settable"), vec![0; 5], read("two")].concat();
    write("scx_both", &program_with(&both));
    assert_eq!(counters(&lab, &["sim"], "./scx_one", &["--set", "byte=3"])["nr_byte"], 3);
    assert_eq!(counters(&lab, &["sim"], "./scx_both#settable_ops", &[])["nr_byte"], 1);
    assert!(counters(&lab, &["sim"], "./scx_both#brief", &[])["nr_short"] > 0);
    if has_vm() {
        assert!(counters(&lab, &["run", "--vm"], "./scx_both#brief", &[])["nr_short"] > 0);
    }

    write("scx_none", &program_with(&[]));
    write("scx_broken", &program_with(&read("two")[..900]));
    write("scx_text", &program_with(b"not an object"));
    write("scx_many", &program_with(&read("unconfigured").repeat(17)));
    for (object, words) in [
        ("./scx_both", &["several objects: settable_ops, short_ops, long_ops", "FILE#NAME"][..]),
        ("./scx_both#other", &["no object in it has a scheduler `other`"]),
    ] {
        refused(&lab, object, &[], words);
    }
    for (object, word) in [
        ("./scx_none", "it is a program that carries no BPF object"),
        ("./scx_broken", "section .bpf.objs, object 0"),
        ("./scx_text", "section .bpf.objs, object 0"),
        ("./scx_many", "more than 16"),
    ] {
        let checked = lab.run(&["check", object], LIMIT);
        assert!(checked.code == 2 && checked.err.contains(word), "{checked:?}");
    }
}

#[test]
fn programs_of_a_loader_run_before_the_scheduler_and_reporting_ones_are_left_out() {
    let Some(lab) = lab("auxiliary", &["auxiliary", "decides"]) else { return };
    let object = "./auxiliary.bpf.o";
    let context = "set_up:40420f00000000000700000000000000";
    let twice = ["--run-prog", context, "--run-prog", context];
    let mut arms = vec![&["sim"][..]];
    if has_vm() {
        arms.push(&["run", "--vm"]);
    }
    for arm in &arms {
        let found = counters(&lab, arm, object, &twice);
        let value = |name: &str| found[name].cast_signed();
        assert_eq!((value("nr_slice"), value("nr_times")), (1_000_000, 14), "{arm:?}");
        // No entry is open: -ENOENT, a value of zeros, and -E2BIG beyond the end.
        assert_eq!([value("nr_read"), value("nr_value"), value("nr_large")], [-2, -2000, -7], "{arm:?}");
        let found = counters_under(&lab, arm, object, "mixed:ttime=2s", &twice);
        let value = |name: &str| found.get(name).copied().unwrap_or(0);
        assert!(value("nr_execs") > 0 && value("nr_renames") >= value("nr_execs"), "{arm:?} {found:?}");
        assert_eq!(value("nr_unnamed"), 0, "{arm:?}");
        assert_eq!(value("nr_softirqs") > 0, arm[0] == "run", "{arm:?}");
        assert!(value("nr_below") == 1 || arm[0] == "run" && value("nr_below") > 1, "{arm:?}");
        assert_eq!((value("nr_above"), value("nr_no_order").cast_signed()), (1, -1), "{arm:?}");
        for (program, why) in [("fails", "returned -22"), ("set_up", "set_up"), ("set_up:01", "set_up")] {
            let fixed = ["-q", "-c", "2", "-s", object, "-w", HOG, "--run-prog", program];
            let ended = lab.run(&[arm, &fixed[..]].concat(), LIMIT);
            assert!([2, 4].contains(&ended.code) && ended.err.contains(why), "{arm:?} {program} {ended:?}");
        }
    }
    let run = lab.run(&["sim", "-q", "-s", object, "-w", HOG, "-c", "2", "--json", "r.json"], LIMIT);
    assert_eq!(run.code, 0, "{run:?}");
    let kinds: Vec<(&str, u64)> =
        lab.record("r.json").warnings.iter().map(|warning| (warning.kind.name(), warning.count)).collect();
    assert_eq!(kinds, [("unconfigured", 2), ("left_out", 3), ("not_modelled", 1)]);
    let left = "left out by the simulator: report_tasks (iter/task), on_sample (perf_event), on_sleep (fentry/do_nanosleep), on_softirq (tp_btf/softirq_entry)";
    let checked = lab.run(&["check", object], LIMIT);
    assert!(checked.code == 0 && checked.out.contains(left), "{checked:?}");

    refused(&lab, object, &["--run-prog", "setup"], &["no program `setup`", "did you mean 'set_up'?"]);
    refused(&lab, object, &["--run-prog", "report_tasks"], &["no program `report_tasks`", "set_up, fails"]);
    refused(&lab, object, &["--run-prog", "set_up:0"], &["two hexadecimal digits"]);
    let decides = lab.run(&["sim", "-s", "./decides.bpf.o", "-w", HOG], LIMIT);
    for word in ["on_sleep", "fentry/do_nanosleep", "may decide something", "shares `slice_now`"] {
        assert!(decides.code == 2 && decides.err.contains(word), "{decides:?}");
    }
}

#[test]
fn integers_that_change_are_counters_whatever_their_name() {
    let Some(lab) = lab("integers", &["counts"]) else { return };
    let mut arms = vec![&["sim"][..]];
    if has_vm() {
        arms.push(&["run", "--vm"]);
    }
    for arm in arms {
        let found = counters(&lab, arm, "./counts.bpf.o", &[]);
        assert!(found["count"] > 0 && found["nr_calls"] == found["count"], "{arm:?} {found:?}");
        assert_eq!((found.get("below"), found.get("still")), (None, None), "{arm:?}: no count is below 0");
    }
}

#[test]
fn the_state_that_a_loader_left_is_restored() {
    let Some(lab) = lab("state", &["settable"]) else { return };
    let write = |text: &str| std::fs::write(lab.path("state.json"), text).unwrap();
    let dump = r#"[{"value": {".rodata": [{"byte": 7}, {"half": -9}, {"flag": true}, {"folded": 99}, {"last_cpu": 0},
        {"__SCX_SLICE_DFL": 1}, {"nr_cpu_ids": 512}, {"limits": {"low": 3, "high": [4, 5, 6], "inner": {"deep": 8, "pace": 9}}},
        {"grid": [[1, 0, 0], [0, 2, 3]]}]}}, {"value": {".bss": [{"in_bss": 11}]}}]"#;
    // Neither of these is a variable of this object.
    write(&dump.replace(r#"{"__SCX_SLICE_DFL": 1}, {"nr_cpu_ids": 512}, "#, ""));
    let mut arms = vec![&["sim"][..]];
    if has_vm() {
        arms.push(&["run", "--vm"]);
    }
    for arm in arms {
        let found = counters(&lab, arm, "./settable.bpf.o", &["--state", "state.json", "--set", "byte=8"]);
        let value = |name: &str| found[name].cast_signed();
        assert_eq!([value("nr_byte"), value("nr_half"), value("nr_flag")], [8, -9, 1], "{arm:?}");
        assert_eq!([value("nr_folded"), value("nr_low"), value("nr_high")], [5, 3, 6], "{arm:?}");
        assert_eq!([value("nr_deep"), value("nr_grid"), value("nr_in_bss")], [8, 321, 11], "{arm:?}");
    }
    for (text, words) in [
        (dump, &["state.json", "no variable `__SCX_SLICE_DFL`", "another version"][..]),
        ("[{\"value\": {\".rodata\": [{\"byte\": 256}]}}]", &["256 does not fit into u8"]),
        ("[{\"key\": [\"0x00\"], \"value\": [\"0x01\"]}]", &["no dump of a data section"]),
        ("byte=1", &["no JSON"]),
    ] {
        write(text);
        refused(&lab, "./settable.bpf.o", &["--state", "state.json"], words);
    }
    refused(&lab, "./settable.bpf.o", &["--state", "none.json"], &["none.json", "No such file"]);
}

#[test]
fn trees_and_lists_have_their_order_in_both_arms() {
    let Some(lab) = lab("by-hand-graph", &["graph"]) else { return };
    let mut arms = vec![&["sim", "--engine", "compiled"][..], &["sim", "--engine", "interpreted"]];
    if has_vm() {
        arms.push(&["run", "--vm"]);
    }
    for arm in arms {
        let counters = counters(&lab, arm, "graph.bpf.o", &[]);
        let wanted = [("nr_made", 12), ("nr_tree", 122_589), ("nr_list", 341), ("nr_owned", 67)];
        for (name, value) in wanted {
            assert_eq!(counters[name], value, "{arm:?} {name}");
        }
    }
}
