//! The dialect of the kernel's own examples. Our headers named scx/ hold every macro to what examples do with it. Sources move
//! unchanged between our headers, those of the kernel's tools/sched_ext and those of sched-ext/scx.
//!
//! `SCHEDLAB_SCX_SOURCES` names folders of sources, with `:` between them: a kernel's tree (it has tools/sched_ext), and scx's (it
//! has scheds/include). Says "skipped" with the reason where a test lacks one, or a compiler.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedlab_tests::{Schedlab, compile, files, has_clang, root, written_headers};
use schedlab_trace::RunRecord;

const LIMIT: Duration = Duration::from_secs(120);

/// What names the sources of others.
const SOURCES: &str = "SCHEDLAB_SCX_SOURCES";

/// Flags of the kernel's Makefile for its examples, besides those that every object has.
const OF_THE_KERNEL: [&str; 4] =
    ["-Wall", "-Wno-compare-distinct-pointer-types", "-Wno-microsoft-anon-tag", "-fms-extensions"];

/// The first folder of [`SOURCES`] with this one in it; says so where there is none.
fn sources(within: &str) -> Option<PathBuf> {
    let named = std::env::var_os(SOURCES).unwrap_or_default();
    let found =
        std::env::split_paths(&named).map(|folder| folder.join(within)).find(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: {SOURCES} names no folder with {within} in it");
    }
    found
}

/// Headers of the kernel's or of scx's, and of the system behind them, as their Makefiles search them.
fn of_others(include: &Path) -> Vec<OsString> {
    let headers = written_headers().unwrap();
    // The folder scx beside vmlinux.h is ours; others come first.
    let own = [include.to_path_buf(), include.join("bpf-compat"), headers];
    let mut flags: Vec<OsString> = own.iter().flat_map(|folder| ["-I".into(), folder.into()]).collect();
    for system in ["/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu", "/usr/include"] {
        flags.extend(["-idirafter".into(), system.into()]);
    }
    flags.extend(OF_THE_KERNEL.map(OsString::from));
    flags.push(
        if cfg!(target_arch = "aarch64") { "-D__TARGET_ARCH_arm64" } else { "-D__TARGET_ARCH_x86" }.into(),
    );
    flags
}

/// Headers of ours alone.
fn of_ours() -> Vec<OsString> {
    let own = ["-I".into(), written_headers().unwrap().into()];
    own.into_iter().chain(OF_THE_KERNEL.map(OsString::from)).collect()
}

fn run(lab: &Schedlab, object: &str, more: &[&str]) -> RunRecord {
    let fixed = ["sim", "-v", "-s", object, "-w", "periodic:tasks=6,ttime=1s", "-c", "2", "--json", "r.json"];
    let ended = lab.run(&[&fixed[..], more].concat(), LIMIT);
    assert!([0, 4].contains(&ended.code), "{object}: {ended:?}");
    lab.record("r.json")
}

fn counter(run: &RunRecord, name: &str) -> u64 {
    run.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
}

/// Each macro does what examples of the kernel rely on. The objects count what they expect, and what is wrong.
#[test]
fn macros_do_what_examples_rely_on() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("dialect");
    for (name, least) in [("queues", 3000), ("data", 3000), ("cids", 12)] {
        compile(&format!("dialect/{name}"), "bpf", &lab.path("o.bpf.o")).unwrap();
        let run = run(&lab, "./o.bpf.o", &[]);
        assert_eq!(run.exit.kind.name(), "none", "{name}: {:?}", run.exit);
        assert_eq!(counter(&run, "nr_wrong"), 0, "{name}: {:?}", run.counters);
        assert!(counter(&run, "nr_checks") >= least, "{name}: {:?}", run.counters);
        let used: &[&str] = match name {
            "queues" => &["nr_moved", "nr_first"],
            "data" => &["nr_timers", "nr_started"],
            _ => &[],
        };
        assert!(used.iter().all(|name| counter(&run, name) > 50), "{name}: {:?}", run.counters);
        assert!(run.warnings.is_empty(), "{name}: nothing is left to a loader: {:?}", run.warnings);
    }
}

/// The macros call what there is on the oldest kernel with sched_ext: functions go by their older names.
#[test]
fn older_kernels_have_what_the_macros_call() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("dialect-old");
    compile("dialect/queues", "bpf", &lab.path("o.bpf.o")).unwrap();
    for kernel in ["6.12", "6.18", "7.0", "7.3"] {
        let run = run(&lab, "./o.bpf.o", &["--kernel", kernel]);
        assert_eq!(run.exit.kind.name(), "none", "{kernel}: {:?}", run.exit);
        assert!(
            counter(&run, "nr_wrong") == 0 && counter(&run, "nr_moved") > 50,
            "{kernel}: {:?}",
            run.counters
        );
    }
}

#[test]
fn a_scheduler_ends_itself_as_it_says() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("dialect-ends");
    compile("dialect/ends", "bpf", &lab.path("o.bpf.o")).unwrap();
    let failed = run(&lab, "./o.bpf.o", &[]);
    assert_eq!(failed.exit.kind.name(), "error_bpf", "{:?}", failed.exit);
    let message = format!("{:?}", failed.exit);
    assert!(message.contains("ends.bpf.c:22: enough after 20 tasks, 1 of them here"), "{message}");
    let printed: Vec<&str> = failed.printed.lines.iter().map(|line| line.text.as_str()).collect();
    assert!(printed[0] == "begins" && printed[1].ends_with(" waiting"), "{printed:?}");
    let left = run(&lab, "./o.bpf.o", &["--set", "in_order=true"]);
    assert_eq!(left.exit.kind.name(), "unreg_bpf", "{:?}", left.exit);
}

/// Names `HAVE_...` of enum_defs.autogen.h are the enumerators of the `vmlinux.h` that we write, all of them.
#[test]
fn enumerators_that_are_there_are_named() {
    let header = fs::read_to_string(written_headers().unwrap().join("vmlinux.h")).unwrap();
    let of_scx = header.split("enum scx_").skip(1).filter_map(|text| text.split_once('{')?.1.split_once('}'));
    let there: BTreeSet<&str> = of_scx
        .flat_map(|(values, _)| values.split(','))
        .filter_map(|value| value.split_once('=').map(|(name, _)| name.trim()))
        .filter(|name| name.starts_with("SCX_") || name.starts_with("__SCX_"))
        .collect();
    let text = fs::read_to_string(root().join("schedulers/include/scx/enum_defs.autogen.h")).unwrap();
    let named: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("#define HAVE_")).collect();
    assert!(there.len() > 100, "{}", there.len());
    assert_eq!(named, there);
}

/// Sources of ours that move: the templates, the objects of these tests, and the one that the book shows.
fn ours_that_move(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in files(&root().join("schedulers/templates"), &["c"]) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap().replace("NAME", name);
        found.push(folder.join(format!("{name}.bpf.c")));
        fs::write(found.last().unwrap(), text).unwrap();
    }
    let page = fs::read_to_string(root().join("docs/how-to/write-a-scheduler.md")).unwrap();
    let (_, block) = page.split_once("```c two/two.bpf.c\n").expect("the book shows a source");
    found.push(folder.join("two.bpf.c"));
    fs::write(found.last().unwrap(), block.split_once("\n```").unwrap().0).unwrap();
    found.extend(files(&root().join("tests/objects/dialect"), &["c"]));
    found
}

fn all_compile(sources: &[PathBuf], flags: &[OsString], object: &Path) {
    for source in sources {
        let done = schedlab_clang::compile(source, object, flags);
        assert!(done.is_ok(), "{}", done.unwrap_err());
    }
}

/// What an author has written here compiles with the headers of the kernel and of scx, and runs.
#[test]
fn our_sources_compile_with_the_headers_of_others() {
    if !has_clang() {
        return;
    }
    let lab = Schedlab::new("dialect-moves");
    let ours = ours_that_move(&lab.folder);
    all_compile(&ours, &of_ours(), &lab.path("o.bpf.o"));
    if let Some(kernel) = sources("tools/sched_ext/include") {
        let flags = of_others(&kernel);
        all_compile(&ours, &flags, &lab.path("o.bpf.o"));
        schedlab_clang::compile(&lab.path("two.bpf.c"), &lab.path("o.bpf.o"), &flags).unwrap();
        assert_eq!(run(&lab, "./o.bpf.o", &[]).exit.kind.name(), "none");
    }
    if let Some(scx) = sources("scheds/include") {
        // Sets of cids are not in scx yet.
        let old: Vec<PathBuf> = ours.into_iter().filter(|path| !path.ends_with("cids.bpf.c")).collect();
        all_compile(&old, &of_others(&scx), &lab.path("o.bpf.o"));
    }
}

/// The kernel's own examples compile with our headers and `vmlinux.h`, and the simplest gives the shares that it has with its own.
#[test]
fn examples_of_the_kernel_compile_with_our_headers() {
    let Some(kernel) = sources("tools/sched_ext").filter(|_| has_clang()) else { return };
    let lab = Schedlab::new("dialect-examples");
    let examples: Vec<PathBuf> = files(&kernel, &["c"])
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    assert!(examples.iter().any(|path| path.ends_with("scx_qmap.bpf.c")), "{examples:?}");
    all_compile(&examples, &of_ours(), &lab.path("o.bpf.o"));
    let shares = |flags: &[OsString]| {
        schedlab_clang::compile(&kernel.join("scx_simple.bpf.c"), &lab.path("o.bpf.o"), flags).unwrap();
        run(&lab, "./o.bpf.o", &[]).tasks.iter().map(|task| task.share).collect::<Vec<f64>>()
    };
    let (ours, own) = (shares(&of_ours()), shares(&of_others(&kernel.join("include"))));
    assert!(ours.iter().zip(&own).all(|(ours, own)| (ours - own).abs() < 0.001), "{ours:?}, {own:?}");
}
