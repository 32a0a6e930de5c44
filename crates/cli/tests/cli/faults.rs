//! Schedulers that misbehave: each is ejected with its kind, and the command says so
//! with exit code 4. The sources are those that the VM's tests load into a kernel.

use crate::Folder;
use schedlab_base::DurationNs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a faulty scheduler into the folder, with the compiler that has built the
/// shipped ones.
fn compile(folder: &Folder, name: &str) {
    let root = root();
    let source = root.join(format!("tests/objects/{name}.bpf.c"));
    let object = folder.path().join(format!("{name}.bpf.o"));
    let named = std::env::var("CLANG").unwrap_or_default();
    for clang in [named.as_str(), "clang-22", "clang-21", "clang-20", "clang-19", "clang"] {
        let mut command = Command::new(clang);
        command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-I"]).arg(root.join("schedulers/include"));
        command.arg("-c").arg(&source).arg("-o").arg(&object);
        if !clang.is_empty() && command.status().is_ok_and(|status| status.success()) {
            return;
        }
    }
    panic!("no clang compiles {}", source.display());
}

fn ejected(name: &str, words: &[&str]) {
    let folder = Folder::new();
    compile(&folder, name);
    let done = folder.run(&format!("sim -s ./{name}.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --json r.json"));
    done.refused(4, words);
    let json = folder.read("r.json");
    assert!(json.contains(&format!("\"kind\": \"{}\"", words[0])));
    let run = schedlab_report::from_json(&json).unwrap().runs.remove(0);
    let after = run.exit.after.expect("it left before the end");
    assert!(DurationNs::ZERO < after && after < run.duration, "{after} of {}", run.duration);
    let told = format!("scheduler exit: {} after {:.3} s, ", words[0], after.as_secs_f64());
    assert!(done.out.contains(&told), "{told:?} in {}", done.out);
}

#[test]
fn one_that_never_dispatches() {
    ejected("stall", &["error_stall", "failed to run for"]);
}

#[test]
fn one_that_uses_a_queue_that_is_not_there() {
    ejected("bad_dsq", &["error", "non-existent DSQ 0xdead"]);
}

#[test]
fn one_that_complains_itself() {
    ejected("complains", &["error_bpf", "this is enough"]);
}

#[test]
fn one_that_follows_a_null_pointer() {
    ejected("refused", &["error", "NULL pointer", "refused_enqueue"]);
    let source = std::fs::read_to_string(root().join("tests/objects/null_pointer.bpf.c")).unwrap();
    let (number, line) = source.lines().enumerate().find(|(_, line)| line.contains("->pid")).unwrap();
    let place = format!("; null_pointer.bpf.c:{}: {}", number + 1, line.trim());
    ejected("null_pointer", &["error", "null_pointer_enqueue at instruction", &place]);
}

#[test]
fn only_time_in_bypass_counts_as_bypass() {
    let folder = Folder::new();
    let bypass = |line: &str| {
        folder.run(&format!("{line} -w cpuhog:ntasks=3,ttime=10s -c 2 -q --json r.json"));
        let run = schedlab_report::from_json(&folder.read("r.json")).unwrap().runs.remove(0);
        let value =
            run.counters.iter().find(|counter| counter.name == "SCX_EV_BYPASS_DURATION").unwrap().value;
        (value, run)
    };
    assert_eq!(bypass("sim -s o1").0, 0);
    compile(&folder, "stall");
    let (value, run) = bypass("sim -s ./stall.bpf.o");
    let after = run.exit.after.unwrap();
    assert!(0 < value && value < run.duration.0 - after.0, "{value} ns of {}", run.duration);
}

#[test]
fn a_long_dump_is_shortened() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let line = "sim -s ./stall.bpf.o -w cpuhog:ntasks=50,ttime=10s -c 2";
    let (done, all) = (folder.run(line), folder.run(&format!("{line} -v")));
    done.refused(4, &["error_stall"]);
    assert!(done.out.ends_with(" more lines; -v and --json have all)\n"), "{}", done.out);
    assert!(done.out.lines().count() < 90 && all.out.lines().count() > 300);
    assert!(all.out.contains("SCX_EV_BYPASS_ACTIVATE"), "{}", all.out);
}

#[test]
fn an_ejected_run_is_left_out_of_a_comparison() {
    let folder = Folder::new();
    compile(&folder, "stall");
    let done = folder.run("compare -q -s eevdf,./stall.bpf.o -w cpuhog:ntasks=3,ttime=40s -c 2 --runs 1");
    done.refused(4, &["./stall.bpf.o", "error_stall"]);
    assert!(done.out.contains("Left out, because the scheduler was ejected:"), "{}", done.out);
}
