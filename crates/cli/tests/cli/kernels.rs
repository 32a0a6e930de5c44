//! Machines under other kernels: `--kernel`, presets, and what older kernels lack.

use super::Folder;

const LOAD: &str = "-w cpuhog:ntasks=2,ttime=200ms -c 1";

#[test]
fn kernels_are_listed() {
    let folder = Folder::new();
    let text = folder.run("list kernels").ok();
    assert!(text.contains("debian-13 ") && text.contains("Linux 6.12, 250 Hz, full preemption"), "{text}");
    let text = folder.run("list kernels -v").ok();
    assert!(text.contains("since 6.12") && text.contains("deadline servers"), "{text}");
}

#[test]
fn a_machine_runs_under_another_kernel() {
    let folder = Folder::new();
    let hash = |kernel: &str| {
        folder.run(&format!("sim -q -s eevdf {LOAD} {kernel} --json r.json")).ok();
        let result: serde_json::Value = serde_json::from_str(&folder.read("r.json")).unwrap();
        let run = &result["runs"][0];
        (run["machine"].as_str().unwrap().to_string(), run["trace_hash"].as_str().unwrap().to_string())
    };
    let [own, same, debian] = ["", "--kernel 7.3.4", "--kernel debian-13"].map(hash);
    assert_eq!((own.0.as_str(), same.0.as_str()), ("modern", "modern@7.3"));
    assert_eq!(own.1, same.1, "7.3 is the machine's own");
    assert!(debian.0 == "modern@debian-13" && debian.1 != own.1, "{debian:?}");
    folder.write("m.toml", "[machine]\nname = 'm'\ncpus = 1\n[kernel]\npreset = 'debian-13'\n");
    let text = folder.run(&format!("sim -q -s eevdf {LOAD} -m m.toml")).ok();
    assert!(text.contains('m'), "{text}");
    let text = folder.run(&format!("compare -q -s eevdf,o1 {LOAD} --runs 1 --kernel 6.18")).ok();
    assert!(text.contains("eevdf"), "{text}");
}

#[test]
fn unknown_kernels_and_what_they_lack_are_named() {
    let folder = Folder::new();
    let run =
        |scheduler: &str, kernel: &str| folder.run(&format!("sim -s {scheduler} {LOAD} --kernel {kernel}"));
    run("eevdf", "debain-13")
        .refused(2, &["no kernel 'debain-13' (did you mean 'debian-13'?)", "arch, cachyos"]);
    run("eevdf", "5.15").refused(2, &["Linux 5.15 is not modelled: its fair class is CFS"]);
    run("o1", "ubuntu-24.04").refused(2, &["Linux 6.8 has no sched_ext, which came with 6.12"]);
}

/// Shipped schedulers ask for features of later kernels, and run without them.
#[test]
fn shipped_schedulers_run_under_the_first_kernel_with_sched_ext() {
    let folder = Folder::new();
    for scheduler in ["o1", "ule"] {
        folder.run(&format!("sim -q -s {scheduler} {LOAD} --kernel 6.12")).ok();
    }
}
