//! The laboratory as WebAssembly gives what the command gives: every byte of the document and the trace hash, in node; and the
//! page around it shows that hash, in Chromium.
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

/// The WebAssembly, checked.
fn wasm() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["build", "--quiet", "--locked", "--package", "schedlab-web"]);
    build.args(["--profile", "page-checked", "--target", TARGET, "--target-dir"]).arg(target());
    let built = build.output().expect("cargo starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target().join(TARGET).join("page-checked/schedlab_web.wasm")
}

/// A folder with the module and its WebAssembly.
fn module(lab: &Schedlab) -> PathBuf {
    let folder = lab.path("module");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(wasm(), folder.join("schedlab.wasm")).unwrap();
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

/// The package that drives a browser, as npm names it; the version is the one that the test was written with.
const DRIVER: &str = "playwright-core@1.65.1";

/// The browsers that it can drive, as distributions name them.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser and the folder of its driver, or why there is none.
fn browser() -> Result<(PathBuf, PathBuf), String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let found = BROWSERS.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    let browser = found.into_iter().find(|path| path.is_file()).ok_or("no Chromium")?;
    let folder = target().join("page-tests");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let driver = folder.join("node_modules/playwright-core");
    if !driver.is_dir() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(&folder)
            .arg(DRIVER);
        let installed = npm.output().map_err(|error| format!("no npm: {error}"))?;
        if !installed.status.success() {
            return Err(format!("npm cannot install {DRIVER}"));
        }
    }
    Ok((browser, driver))
}

/// A run in the page, with the hash of the command's run of the same.
fn page_case(lab: &Schedlab, scheduler: &str, object: Option<&Path>, whole: bool) -> Value {
    let own = object.map(|path| path.display().to_string());
    let (cpus, params) =
        if whole { ("4", json!({})) } else { ("2", json!({"rooms": "1", "users": "4", "messages": "3"})) };
    let workload = if whole { "chat" } else { "chat:rooms=1,users=4,messages=3" };
    let mut args = vec![
        "sim",
        "-q",
        "--engine",
        "interpreted",
        "--json",
        "-",
        "-w",
        workload,
        "-c",
        cpus,
        "--seed",
        "1",
    ];
    args.extend(["-s", own.as_deref().unwrap_or(scheduler)]);
    let ended = lab.run(&args, Duration::from_secs(120));
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
    json!({
        "name": format!("{scheduler} on {cpus}"), "scheduler": scheduler, "object": own, "workload": "chat", "params": params,
        "cpus": cpus, "seed": 1, "hash": document["runs"][0]["trace_hash"],
    })
}

/// What the browser does: five shipped schedulers, a foreign object, and a faulty one.
fn visits(lab: &Schedlab) -> Value {
    let mut cases = vec![page_case(lab, "o1", None, true)];
    cases.extend(["vanilla", "hamq", "ule", "o1+swap"].map(|name| page_case(lab, name, None, false)));
    let mut hostile = Value::Null;
    if has_clang() {
        let object = |name: &str| {
            let object = lab.path(&format!("{name}.bpf.o"));
            compile(name, "bpf", &object).unwrap();
            object
        };
        cases.push(page_case(lab, "counts", Some(&object("counts")), false));
        hostile = page_case(lab, "null_pointer", Some(&object("null_pointer")), false);
        hostile["words"] = "null_pointer.bpf.c:13".into();
    }
    json!({"cases": cases, "hostile": hostile})
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so, and times are printed")]
fn the_page_works_in_a_browser() {
    let found = lacking().map_or_else(browser, |lacking| Err(lacking.to_string()));
    let (browser, driver) = match found {
        Ok(found) => found,
        Err(lacking) => return println!("skipped: {lacking}"),
    };
    let lab = Schedlab::new("page-browser");
    let folder = lab.path("site");
    let built = Command::new(root().join("scripts/page")).arg(&folder).arg(wasm()).output();
    let built = built.expect("bash starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut config = visits(&lab);
    // With a folder for them there are pictures to look at.
    let shots = std::env::var("SCHEDLAB_PAGE_SHOTS").ok();
    for (name, value) in [
        ("folder", json!(folder)),
        ("playwright", json!(driver)),
        ("chromium", json!(browser)),
        ("profiles", json!(lab.path("profiles"))),
        ("shots", json!(shots)),
    ] {
        config[name] = value;
    }
    let file = lab.path("visits.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let node = Command::new("node").arg(root().join("tests/page/browser.mjs")).arg(&file).output();
    let node = node.expect("node starts");
    let (told, figures) = (String::from_utf8_lossy(&node.stdout), String::from_utf8_lossy(&node.stderr));
    println!("{figures}");
    assert_eq!(told.trim_end(), "{\"checks\":true}", "{figures}");
}
