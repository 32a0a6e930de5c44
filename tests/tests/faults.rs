//! Faults from the outside: whatever is wrong with an object, a scheduler, a file or the disk. The command ends with one
//! line that names place and cure, and the code of that kind of failure; it neither panics nor hangs.
//!
//! The C files of `tests/objects` serve both arms: what the simulator ejects, a real kernel ejects or its verifier
//! refuses. The part in the VM says "skipped" with the reason where there is no QEMU or kernel.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::path::PathBuf;
use std::time::Duration;

use schedlab_live::kernel_image;
use schedlab_tests::{Ended, Schedlab, clang, compile};

/// Far more than any of these takes on a busy host.
const LIMIT: Duration = Duration::from_secs(120);
/// For a boot under emulation and the watchdog's time.
const VM_LIMIT: Duration = Duration::from_secs(300);

/// Hogs, and tasks that are enqueued often.
const BUSY: &str = "periodic:tasks=6,run=1ms,sleep=1ms,ttime=4s";

/// Exactly one line of error, with all of `words`; and this code.
fn fails(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "one line: {ended:?}");
    assert!(ended.err.starts_with("schedlab: error: "), "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "no {word:?} in {}", ended.err);
    }
}

/// Compiles an object into the lab's folder; says so and gives nothing without a compiler.
fn object(lab: &Schedlab, name: &str, target: &str) -> Option<PathBuf> {
    if clang().is_none() {
        println!("skipped: no clang 19 or newer (Debian, Ubuntu: apt-get install clang-19)");
        return None;
    }
    let path = lab.path(&format!("{name}.bpf.o"));
    compile(name, target, &path).unwrap();
    Some(path)
}

fn sim(lab: &Schedlab, object: &str, workload: &str) -> Ended {
    lab.run(&["sim", "-s", object, "-c", "2", "-w", workload], LIMIT)
}

/// Bytes without meaning, the same in every run.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn files_that_are_no_objects() {
    let lab = Schedlab::new("no-objects");
    // This test's own program has the shipped objects in it, which would be found.
    let host = std::fs::read(env!("CARGO_BIN_EXE_run-tests")).unwrap();
    std::fs::write(lab.path("host.bpf.o"), host).unwrap();
    std::fs::write(lab.path("random.bpf.o"), noise(70_000)).unwrap();
    std::fs::write(lab.path("empty.bpf.o"), b"").unwrap();
    let mut half_random = b"\x7fELF\x02\x01\x01".to_vec();
    half_random.extend(noise(70_000));
    std::fs::write(lab.path("half.bpf.o"), half_random).unwrap();
    for name in ["host", "random", "empty", "half"] {
        let file = format!("./{name}.bpf.o");
        fails(&sim(&lab, &file, "cpuhog"), 2, &[&file]);
        fails(&lab.run(&["check", &file], LIMIT), 2, &[&file]);
    }
    fails(&sim(&lab, "./host.bpf.o", "cpuhog"), 2, &["BPF"]);
    fails(&sim(&lab, "./absent.bpf.o", "cpuhog"), 2, &["./absent.bpf.o", "No such file"]);
}

#[test]
fn truncated_objects() {
    let lab = Schedlab::new("truncated");
    let Some(path) = object(&lab, "complains", "bpf") else { return };
    let whole = std::fs::read(path).unwrap();
    for percent in [1, 10, 30, 50, 80, 99] {
        std::fs::write(lab.path("cut.bpf.o"), &whole[..whole.len() * percent / 100]).unwrap();
        fails(&sim(&lab, "./cut.bpf.o", "cpuhog"), 2, &["./cut.bpf.o"]);
        fails(&lab.run(&["check", "./cut.bpf.o"], LIMIT), 2, &["./cut.bpf.o"]);
    }
}

#[test]
fn objects_of_the_other_byte_order() {
    let lab = Schedlab::new("byte-order");
    let Some(_) = object(&lab, "complains", "bpfeb") else { return };
    fails(&sim(&lab, "./complains.bpf.o", "cpuhog"), 2, &["./complains.bpf.o", "endian"]);
}

#[test]
fn objects_that_need_what_no_kernel_has() {
    let lab = Schedlab::new("unknown-kfunc");
    let Some(_) = object(&lab, "unknown_kfunc", "bpf") else { return };
    let words =
        ["./unknown_kfunc.bpf.o", "unknown_kfunc_enqueue", "`scx_bpf_read_minds`", "unknown_kfunc.bpf.c:"];
    fails(&sim(&lab, "./unknown_kfunc.bpf.o", "cpuhog"), 2, &words);
    fails(&lab.run(&["check", "./unknown_kfunc.bpf.o"], LIMIT), 1, &words);
}

/// Schedulers that are loaded and ejected: name, exit kind, words of the message.
const EJECTED: [(&str, &str, &[&str]); 6] = [
    ("stall", "error_stall", &["failed to run for"]),
    ("bad_dsq", "error", &["non-existent DSQ 0xdead"]),
    ("complains", "error_bpf", &["this is enough"]),
    ("endless", "error", &["endless_enqueue"]),
    ("null_pointer", "error", &["null_pointer_enqueue"]),
    ("writes_field", "error", &["task_struct.flags", "writes_field_enqueue"]),
];

#[test]
fn faulty_schedulers_are_ejected_from_the_simulation() {
    let lab = Schedlab::new("ejected");
    for (name, kind, message) in EJECTED {
        let Some(_) = object(&lab, name, "bpf") else { return };
        let file = format!("./{name}.bpf.o");
        let ended = sim(&lab, &file, BUSY);
        fails(&ended, 4, &[&file, &format!("{kind}:")]);
        fails(&ended, 4, message);
        assert!(ended.out.contains("scheduler exit: "), "the results are still told: {ended:?}");
        let again = sim(&lab, &file, BUSY);
        assert_eq!((again.out, again.err), (ended.out, ended.err), "{name}: the same bytes again");
    }
}

/// Whether a VM can be booted here; says what is missing.
fn has_vm() -> bool {
    if let Err(error) = std::process::Command::new("qemu-system-x86_64").arg("--version").output() {
        println!("skipped: qemu-system-x86_64: {error} (package qemu-system-x86)");
        return false;
    }
    if let Err(error) = kernel_image::find_or_fetch(&mut |_| {}) {
        println!("skipped: {error}");
        return false;
    }
    true
}

/// The same objects on a real kernel: those that its verifier takes end with the same exit kind, the others are refused by
/// name before they run.
#[test]
fn faulty_schedulers_are_ejected_from_a_real_kernel() {
    let lab = Schedlab::new("ejected-vm");
    if !has_vm() {
        return;
    }
    for (name, kind, message) in EJECTED {
        let Some(_) = object(&lab, name, "bpf") else { return };
        let file = format!("./{name}.bpf.o");
        let ended = lab.run(&["run", "-q", "--vm", "-s", &file, "-w", "cpuhog:ntasks=3,ttime=8s"], VM_LIMIT);
        if ["endless", "null_pointer", "writes_field"].contains(&name) {
            fails(&ended, 2, &["in the VM", &format!("{name}_enqueue")]);
        } else {
            fails(&ended, 4, &[&file, &format!("{kind}:")]);
            fails(&ended, 4, message);
            assert!(ended.out.contains(&format!("scheduler exit: {kind} after ")), "{ended:?}");
        }
    }
}

/// The scheduler of the second run is refused; the first run is not lost for that.
#[test]
fn a_comparison_on_a_real_kernel_keeps_what_has_finished() {
    let lab = Schedlab::new("kept");
    if !has_vm() {
        return;
    }
    let Some(_) = object(&lab, "null_pointer", "bpf") else { return };
    let words =
        ["compare", "-q", "--vm", "-s", "eevdf,./null_pointer.bpf.o", "-w", "cpuhog:ntasks=2,ttime=200ms"];
    let ended = lab.run(&[&words[..], &["--runs", "2", "--json", "r.json"]].concat(), VM_LIMIT);
    fails(
        &ended,
        2,
        &["run 2 of 4 (./null_pointer.bpf.o on 2 CPUs, seed 1): in the VM: ", "null_pointer_enqueue"],
    );
    let told = ended.out.split("Finished:\n").nth(1).expect("a list");
    assert!(told.starts_with("eevdf on ") && told.contains("\nwork "), "{ended:?}");
    let json = std::fs::read_to_string(lab.path("r.json")).unwrap();
    let names: Vec<&str> = json.lines().filter(|line| line.contains("\"scheduler\": ")).collect();
    // The runs of the other scheduler do not suffer.
    assert!(names.len() == 2 && names.iter().all(|name| name.contains("eevdf")), "{names:?}");
}

/// A command goes into the VM with its libraries; a message names what it misses there, with the flag that takes it along.
#[test]
fn a_command_runs_on_a_real_kernel() {
    let lab = Schedlab::new("command-vm");
    if !has_vm() {
        return;
    }
    let words = ["run", "-q", "--vm", "--icount=16", "-c", "1", "-s", "o1"];
    let script = ["--", "sh", "-c", "sleep 0.1; echo $?"];
    let with = [&words[..], &["--with", "sleep", "--latency", "--timehist", "h.txt"], &script].concat();
    let ended = lab.run(&with, VM_LIMIT);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    assert!(ended.out.starts_with("0\no1 on linux-") && ended.out.contains("\nelapsed "), "{ended:?}");
    assert!(ended.out.contains("wakeup avg ms"), "{ended:?}");
    let history = std::fs::read_to_string(lab.path("h.txt")).unwrap();
    let waits = history.lines().filter(|line| line.contains(" sleep["));
    let waits = waits.filter_map(|line| line.split_whitespace().nth(3)?.parse::<f64>().ok());
    assert!(waits.fold(0.0, f64::max) >= 100.0, "it slept for 100 ms: {history}");
    let ended = lab.run(&[&words[..], &["--", "sh", "-c", "no_such_program"]].concat(), VM_LIMIT);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("--with NAME"), "{ended:?}");
}

#[test]
fn files_with_mistakes() {
    let lab = Schedlab::new("mistakes");
    let write = |name: &str, text: &str| std::fs::write(lab.path(name), text).unwrap();
    write(
        "key.toml",
        "name = 'x'\n[programs]\nhog = ['run 1ms']\n[[tasks]]\nname = 'a'\nprogram = 'hog'\ncolour = 'red'\n",
    );
    fails(&sim(&lab, "eevdf", "key.toml"), 2, &["key.toml:7", "colour"]);
    write(
        "line.toml",
        "name = 'x'\n[programs]\nhog = ['dance 1ms']\n[[tasks]]\nname = 'a'\nprogram = 'hog'\n",
    );
    fails(&sim(&lab, "eevdf", "line.toml"), 2, &["line.toml:3", "dance"]);
    write("zero.toml", "[machine]\nname = 'zero'\ncpus = 0\n");
    let ended = lab.run(&["sim", "-s", "eevdf", "-w", "cpuhog", "-m", "zero.toml"], LIMIT);
    fails(&ended, 2, &["zero.toml:3", "at least one CPU"]);
    write("binary.toml", "\u{0}\u{1}");
    fails(&sim(&lab, "eevdf", "binary.toml"), 2, &["binary.toml:1"]);
}

#[test]
fn a_full_disk() {
    let lab = Schedlab::new("full");
    for option in ["--json", "--csv", "--html", "--perfetto"] {
        let ended = lab.run(&["sim", "-s", "eevdf", "-w", "cpuhog:ttime=1s", option, "/dev/full"], LIMIT);
        fails(&ended, 5, &[option, "/dev/full", "No space left", "free some room"]);
    }
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg("exec \"$0\" list > /dev/full").arg(lab.binary());
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    fails(
        &Ended { code: output.status.code().unwrap(), out: String::new(), err },
        5,
        &["standard output", "No space"],
    );
}

/// The kernel's rules on idle CPUs by node (`validate_node()` in its `ext/idle.c`). Asking by node without tracking by node, or the
/// other way round, ends the scheduler; no node is an error for the program alone.
#[test]
fn idle_cpus_are_asked_for_as_they_are_tracked() {
    let lab = Schedlab::new("by-node");
    if object(&lab, "by_node", "bpf").is_none() {
        return;
    }
    let run = |settings: &[&str]| {
        let mut arguments =
            vec!["sim", "-s", "./by_node.bpf.o", "-c", "2", "-w", "periodic:tasks=3,ttime=100ms", "-v"];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        lab.run(&arguments, LIMIT)
    };
    let by_node = "by_node_ops.flags=64";
    for (settings, words) in [
        (vec!["node=0"], "per-node idle tracking is disabled"),
        (vec![by_node], "per-node idle tracking is enabled"),
        (vec!["node=7", by_node], "invalid node 7"),
    ] {
        let ended = run(&settings);
        assert_eq!(ended.code, 4, "{settings:?} {ended:?}");
        assert!(ended.err.contains(words), "{settings:?}: no {words:?} in {}", ended.err);
    }
    for settings in [vec![], vec!["node=0", by_node], vec!["node=-1", by_node]] {
        let ended = run(&settings);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{settings:?}");
    }
}
