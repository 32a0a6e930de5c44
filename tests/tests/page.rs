//! The laboratory as WebAssembly gives what the command gives: every byte of the document and the trace hash, in node.
//!
//! The module is built with overflow checks and debug assertions. An address of 64 bits that a host of 32 bits truncates then ends
//! a run, even where results would be right.

use schedlab_tests::{Schedlab, compile, has_clang, root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The target of the page.
const TARGET: &str = "wasm32-unknown-unknown";

/// Every shipped scheduler, and some with SWAP.
const SCHEDULERS: [&str; 10] =
    ["eevdf", "o1", "vanilla", "hamq", "libenzi", "staircase", "bsd4", "ule", "o1+swap", "ule+swap"];

/// Small loads of each kind: computing, talking, forking with descriptors.
const WORKLOADS: [(&str, Option<&str>); 3] = [
    ("cpuhog:ntasks=6", Some("150ms")),
    ("chat:rooms=1,users=4,messages=3", None),
    ("hackbench:groups=1,fds=3,loops=4", None),
];

/// CPUs and seeds of each pair of a scheduler and a workload.
const SHAPES: [(usize, u64); 5] = [(1, 1), (2, 2), (3, 3), (5, 1), (8, 2)];

/// Foreign objects, and hostile ones that end in different ways.
const OBJECTS: [&str; 12] = [
    "by_node",
    "counts",
    "life",
    "null_pointer",
    "stall",
    "bad_dsq",
    "hostile/hash_keys",
    "hostile/dump_endless",
    "hostile/iterator_forged",
    "hostile/storage_huge",
    "hostile/pointers_stale",
    "hostile/mask_onto_task",
];

/// Why the test cannot run here.
fn lacking() -> Option<&'static str> {
    let ended = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output().ok();
    if !ended("node", &["--version"]).is_some_and(|done| done.status.success()) {
        return Some("no node");
    }
    let libraries = ended("rustc", &["--print", "target-libdir", "--target", TARGET])?;
    let folder = String::from_utf8_lossy(&libraries.stdout).trim().to_string();
    (!Path::new(&folder).is_dir())
        .then_some("no standard library for wasm32-unknown-unknown (scripts/setup page)")
}

/// A folder with the module and its WebAssembly, checked.
fn module(lab: &Schedlab) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["build", "--quiet", "--locked", "--package", "schedlab-web"]);
    build.args(["--profile", "web-checked", "--target", TARGET, "--target-dir"]).arg(target());
    let built = build.output().expect("cargo starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let folder = lab.path("module");
    std::fs::create_dir_all(&folder).unwrap();
    let wasm = target().join(TARGET).join("web-checked/schedlab_web.wasm");
    std::fs::copy(wasm, folder.join("schedlab.wasm")).unwrap();
    std::fs::copy(root().join("web/schedlab.mjs"), folder.join("schedlab.mjs")).unwrap();
    folder
}

/// The target folder of this test.
fn target() -> PathBuf {
    // .../target/PROFILE/deps/test-hash
    let own = std::env::current_exe().expect("the test knows its own path");
    own.ancestors().nth(3).expect("tests lie in PROFILE/deps").to_path_buf()
}

/// Has the command make the run of these options, and gives the case.
fn case(lab: &Schedlab, number: usize, options: Value, object: Option<&Path>) -> Value {
    let text = |name: &str| options[name].as_str().map(str::to_string);
    let own = object.map(|path| path.display().to_string());
    let scheduler = own.clone().or_else(|| text("scheduler")).unwrap();
    let (workload, document) = (text("workload").unwrap(), format!("{number}.json"));
    let (cpus, seed) = (options["cpus"].to_string(), options["seed"].to_string());
    let mut args = vec!["sim", "-q", "--engine", "interpreted", "--json", &document];
    args.extend(["-s", &scheduler, "-w", &workload, "-c", &cpus, "--seed", &seed]);
    let duration = text("duration");
    if let Some(duration) = &duration {
        args.extend(["--duration", duration]);
    }
    let ended = lab.run(&args, Duration::from_secs(120));
    let mut options = options;
    // The command calls an object by its path.
    options["scheduler"] = scheduler.clone().into();
    let name = format!("{scheduler} {workload} on {cpus}, seed {seed}");
    json!({"name": name, "options": options, "object": own, "json": lab.path(&document), "code": ended.code})
}

fn cases(lab: &Schedlab) -> Vec<Value> {
    let mut all = Vec::new();
    for scheduler in SCHEDULERS {
        for (workload, duration) in WORKLOADS {
            for (cpus, seed) in SHAPES {
                let options = json!({
                    "scheduler": scheduler, "workload": workload, "cpus": cpus, "seed": seed, "duration": duration,
                });
                all.push(case(lab, all.len(), options, None));
            }
        }
    }
    for name in OBJECTS.iter().filter(|_| has_clang()) {
        let object = lab.path(&format!("{}.bpf.o", name.replace('/', "-")));
        compile(name, "bpf", &object).unwrap();
        let options =
            json!({"workload": "chat:rooms=1,users=3,messages=2", "cpus": 2, "seed": 1, "duration": "300ms"});
        all.push(case(lab, all.len(), options, Some(&object)));
    }
    all
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn the_page_gives_what_the_command_gives() {
    if let Some(lacking) = lacking() {
        println!("skipped: {lacking}");
        return;
    }
    let lab = Schedlab::new("page");
    let module = module(&lab);
    let cases = cases(&lab);
    let codes: BTreeSet<u64> = cases.iter().filter_map(|case| case["code"].as_u64()).collect();
    assert!(
        [0, 2, 4].iter().all(|code| codes.contains(code)),
        "runs end well, are refused and are ejected: {codes:?}"
    );
    let file = lab.path("cases.json");
    std::fs::write(&file, Value::from(cases.clone()).to_string()).unwrap();
    let node =
        Command::new("node").arg(root().join("tests/page/compare.mjs")).arg(&module).arg(&file).output();
    let node = node.expect("node starts");
    let told = String::from_utf8_lossy(&node.stdout);
    let whole = format!("{{\"same\":{}}}", cases.len());
    assert_eq!(told.trim_end(), whole, "{}", String::from_utf8_lossy(&node.stderr));
}
