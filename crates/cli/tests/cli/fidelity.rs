//! `fidelity` against runs of a real kernel that were kept. These here are simulated ones that say that they are real, so
//! that every figure is known to agree.

use crate::Folder;
use serde_json::Value;

const CASE: &str = "-q -s o1 -w pipe:loops=100 -m vm-icount -c 1";

/// Two runs of the case as a VM's: without and with callbacks counted.
fn kept(folder: &Folder) -> String {
    let text = folder
        .run(&format!("sim {CASE} --json -"))
        .ok()
        .replace("\"backend\": \"sim\"", "\"backend\": \"vm\"");
    let place = |word: &str| text.find(word).unwrap();
    let (runs, rest) = (place("\"runs\": [") + 9, place("],\n  \"comparisons\""));
    let (callbacks, tasks) = (place("\"callbacks\""), place("\"tasks\""));
    let [head, before, after, tail] =
        [&text[..runs], &text[runs..callbacks], &text[tasks..rest], &text[rest..]];
    format!("{head}{before}{after},{}{tail}", &text[runs..rest])
}

#[test]
fn kept_runs_are_the_real_arm() {
    let folder = Folder::new();
    let document = kept(&folder);
    folder.write("real.json", &document);
    let text = folder.run(&format!("fidelity {CASE} --phases 1 --real real.json -o cells.json")).ok();
    assert!(text.contains("runs kept in real.json"), "{text}");
    let cells: Value = serde_json::from_str(&folder.read("cells.json")).unwrap();
    let cells = cells["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["error"] == 0.0), "{cells:?}");
    let figures: Vec<&str> = cells.iter().map(|cell| cell["figure"].as_str().unwrap()).collect();
    for figure in ["cpu_share", "context_switches", "calls_enqueue", "calls_running"] {
        assert!(figures.contains(&figure), "{figures:?}");
    }
    assert!(text.contains(&format!("agree in {} of {0} cells", cells.len())), "{text}");

    // Another number of switches is another figure.
    let place = document.find("\"context_switches\"").unwrap();
    let (before, after) = document.split_at(place);
    folder
        .write("other.json", before.to_string() + &after.replacen("\"value\": 202.0", "\"value\": 404.0", 1));
    let text = folder.run(&format!("fidelity {CASE} --phases 1 --real other.json")).ok();
    assert!(text.contains("50 / -50") && text.contains(&format!("in {} of", cells.len() - 1)), "{text}");
}

#[test]
fn runs_that_are_missing_or_simulated_are_no_real_arm() {
    let folder = Folder::new();
    let document = kept(&folder);
    folder.write("real.json", &document);
    let text = folder.run(&format!("fidelity {CASE} --phases 2 --real real.json -o out.json")).ok();
    assert!(text.contains("seed 2 is not among the runs of --real"), "{text}");
    let other = CASE.replace("o1", "hamq");
    let done = folder.run(&format!("fidelity {other} --phases 1 --real real.json"));
    done.refused(5, &["no run was finished in both arms", "seed 1 is not among the runs of --real"]);
    folder.write("sim.json", document.replacen("\"vm\"", "\"sim\"", 1));
    let done = folder.run(&format!("fidelity {CASE} --real sim.json"));
    done.refused(2, &["--real sim.json: the run of o1 in it is simulated"]);
    folder.run(&format!("fidelity {CASE} --real nowhere.json")).refused(2, &["nowhere.json"]);
}

/// A bar holds for the machine, the number of CPUs and the mechanisms that were measured; a run that has none says why.
#[test]
fn a_run_tells_what_is_known_of_the_kernel() {
    let folder = Folder::new();
    let told = |line: &str| folder.run(&format!("-q {line}")).ok();
    let text = told("sim -s o1 -w pipe:loops=100 -m vm-icount -c 1");
    assert!(text.contains("real kernel (linux-7.3") && text.contains("80 % of figures"), "{text}");
    for (line, why) in [
        ("-w pipe:loops=100 -c 1", "prices and kernel of modern were never held against a real one"),
        ("-w pipe:loops=100 -m vm-icount -c 3", "3 CPUs were not measured"),
        ("-w swap-udp:iterations=1 -m vm-icount -c 1", "udp"),
        ("-w pipe:loops=100 -m vm-icount --kernel 6.12 -c 1", "vm-icount@6.12"),
    ] {
        let text = told(&format!("sim -s o1 {line}"));
        assert!(text.contains("real kernel: not validated: ") && text.contains(why), "{line}: {text}");
    }
    // A file of that name with another price.
    let machine = include_str!("../../../../machines/vm-icount.toml")
        .replace("schedule = \"508ns\"", "schedule = \"608ns\"");
    folder.write("own.toml", machine);
    let text = told("sim -s o1 -w pipe:loops=100 -m own.toml -c 1");
    assert!(text.contains("not validated: it is not the machine vm-icount that was held against"), "{text}");
    let document = told("compare -s eevdf,o1 -w pipe:loops=100 -m vm-icount -c 1 --runs 2 --json -");
    let document: Value = serde_json::from_str(&document).unwrap();
    let run = &document["runs"][0];
    let value = run["metrics"]["context_switches"]["value"].as_f64().unwrap();
    let interval = &run["validation"]["intervals"]["context_switches"];
    assert!(interval[0].as_f64().unwrap() <= value && value <= interval[1].as_f64().unwrap(), "{run}");
    let judged = document["comparisons"].as_array().unwrap();
    let time = judged.iter().find(|one| one["metric"] == "time").unwrap();
    let (factor, percent) = (time["kernel_factor"].as_f64(), time["difference_percent"].as_f64());
    // The simulated change is far smaller than what the simulator errs by.
    assert!(factor.is_some_and(|factor| 100.0 * (factor - 1.0) > percent.unwrap().abs()), "{time}");
    assert_eq!(time["verdict"], "not decided by this simulator");
}

/// SWAP's programs run within a switch, where the next task is on the run queue and the one before still counts as running. They
/// pay like everything else on a machine whose CPUs are turns of one processor.
#[test]
fn programs_at_a_switch_pay_on_a_shared_processor() {
    let folder = Folder::new();
    let cost = |line: &str| -> f64 {
        let text = folder.run(&format!("-q sim -w pipe:loops=50 -m vm-icount {line} --json -")).ok();
        let document: Value = serde_json::from_str(&text).unwrap();
        document["runs"][0]["metrics"]["sched_cost_ns_per_switch"]["value"].as_f64().unwrap()
    };
    for cpus in [1, 2] {
        let [swap, plain] = ["o1+swap", "o1"].map(|name| cost(&format!("-s {name} -c {cpus}")));
        assert!(swap > plain, "{cpus} CPUs: {swap} ns a switch with SWAP, {plain} ns without");
    }
}

/// The measurement in the sources, and one that is made here.
#[test]
fn a_page_shows_both_arms() {
    let folder = Folder::new();
    let kept_cells = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fidelity/linux-7.3.json");
    let show = format!("fidelity --show {kept_cells} --verdicts");
    let text = folder.run(&format!("{show} -v --html page.html --json verdicts.json")).ok();
    let page = folder.read("page.html");
    assert!(page.contains("<wbr> vm-icount and linux-7.3.4</h1>"), "{}", &page[..9_000]);
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("), "it stands alone");
    let data: Value = serde_json::from_str(&folder.read("verdicts.json")).unwrap();
    let verdicts = data["verdicts"].as_array().unwrap();
    let count = |name: &str| verdicts.iter().filter(|one| one["verdict"] == name).count();
    for (name, letter, mark) in [
        ("same", "s", 3),
        ("missed", "M", 1),
        ("invented", "I", 2),
        ("reversed", "R", 4),
        ("not decided", "n", 0),
    ] {
        let begin = format!("<span class=\"v s{mark}\" title");
        let starts = |cell: &&str| cell.split_once('>').unwrap().1.starts_with(letter);
        let cells = page.split(&begin).skip(1).filter(starts).count();
        assert!(cells > 0 && cells == count(name), "{name}: {cells} in the page, {} as data", count(name));
    }
    // The list of the text and of the page.
    assert_eq!(text.lines().filter(|line| line.trim_end().ends_with(" reversed")).count(), count("reversed"));
    assert_eq!(
        page.matches("<td>reversed</td>").count(),
        2 * count("reversed"),
        "the list and the tables of all"
    );

    folder.write("real.json", kept(&folder));
    let measured = format!("fidelity {CASE} --phases 1 --real real.json");
    folder.run(&format!("{measured} --html own.html")).ok();
    let own = folder.read("own.html");
    assert!(own.contains("no pair of schedulers") && own.contains("1 figure, no bar"), "{own}");
    let page = folder.run(&format!("{show} --html -")).ok();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "no tables around it");
    folder.run(&format!("{show} --html x --json x")).refused(2, &["--json and --html", "both name x"]);
    folder.run(&format!("{show} --html missing/x")).refused(2, &["--html missing/x", "folder"]);
    folder.run(&format!("fidelity --show {kept_cells} --json x")).refused(2, &["--verdicts"]);
    folder.run("fidelity --show own.html --html own.html").refused(2, &["own.html is read by this command"]);
}

/// Kept runs are a stranger's file: what reads them has given up all but starting itself.
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn kept_runs_are_read_in_a_sandbox() {
    let folder = Folder::new();
    folder.write("real.json", kept(&folder));
    let own = env!("CARGO_BIN_EXE_schedlab");
    let line = format!("-f -o calls {own} -v fidelity {CASE} --phases 1 --real real.json -o cells.json");
    let mut strace = std::process::Command::new("strace");
    let traced = strace.args(line.replace("-q ", "").split_whitespace()).current_dir(folder.path()).output();
    let Some(traced) = traced.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no strace, or it may not trace here");
        return;
    };
    let told = String::from_utf8_lossy(&traced.stderr);
    assert!(!told.contains("sandbox: "), "nothing is lacking: {told}");
    let calls = folder.read("calls");
    let (before, after) = calls.split_once("seccomp(SECCOMP_SET_MODE_FILTER").unwrap();
    assert!(!before.contains("real.json\", O_RDONLY|O_CLOEXEC) ="), "it is read later: {before}");
    assert!(after.contains("real.json\", O_RDONLY"), "{after}");
    for call in after.lines().filter(|call| call.contains("execve(")) {
        assert!(call.contains(&format!("execve(\"{own}\"")), "{call}");
    }
    assert!(["socket(", "ptrace(", "bpf("].iter().all(|banned| !after.contains(banned)), "{after}");
    assert_eq!(after.matches("execve(").count(), 1, "one run: {after}");
    let text = folder.run("fidelity --show cells.json -v").ok();
    assert!(text.contains("agree in"), "{text}");
}
