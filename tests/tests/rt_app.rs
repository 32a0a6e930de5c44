//! Files of rt-app as the simulator reads them for `--rt-app 1.0`, compared with that very program (Debian's package `rt-app`): what
//! it refuses, and how often each thread goes through its phases. Counts alone are compared.
//!
//! Says "skipped" where the program is missing.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use schedlab_tests::Schedlab;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What rt-app makes of a file.
#[derive(Debug, PartialEq, Eq)]
enum Made {
    /// The program ends with an error.
    Refused,
    /// Phases that each thread has gone through, by the lines of its log. A thread that runs for the whole duration has far more than a
    /// hundred.
    Phases(Vec<(&'static str, u64)>),
}

use Made::{Phases, Refused};

/// More than any thread that ends by itself here goes through; one that does not end gets to more in a second.
const ENDLESS: u64 = 100;

/// A file's tasks, what rt-app 1.0 makes of them, and loops that the simulator counts; nothing where it refuses the file.
fn files() -> Vec<(&'static str, Made, Option<u64>)> {
    let quick = r#""run": 100, "sleep": 500"#;
    let of = |text: &str| -> &'static str { text.replace("QUICK", quick).leak() };
    vec![
        (
            of(r#""a": { "loop": 2, "phases": { "x": { "loop": 3, QUICK }, "y": { QUICK } } }"#),
            Phases(vec![("a-0", 8)]),
            Some(2),
        ),
        (
            of(r#""b": { "instance": 2, "loop": 3, "phases": { "x": { "loop": 4, QUICK } } }"#),
            Phases(vec![("b-0", 12), ("b-1", 12)]),
            Some(6),
        ),
        (
            of(r#""c": { "loop": 5, "phases": { "x": { QUICK } }, "cpus": [0] }"#),
            Phases(vec![("c-0", 5)]),
            Some(5),
        ),
        // Tasks without phases, and loops of 0, run for the whole duration.
        (of(r#""d": { "loop": 5, QUICK }"#), Phases(vec![("d-0", ENDLESS)]), Some(ENDLESS)),
        (of(r#""e": { "phases": { "x": { "loop": 0, QUICK } } }"#), Phases(vec![("e-0", ENDLESS)]), Some(0)),
        (of(r#""f": { "loop": 2, "phases": { "x": { QUICK } }, "cpus": [0, 999] }"#), Refused, None),
        (
            of(
                r#""g": { "loop": 4, "phases": { "x": { "run": 10, "timer": { "ref": "t", "period": 2000 } } } },
                 "h": { "loop": 6, "phases": { "x": { "run": 10, "timer": { "ref": "t", "period": 2000 } } } }"#,
            ),
            Phases(vec![("g-0", 4), ("h-1", 6)]),
            Some(10),
        ),
        (
            of(r#""i": { "loop": 3, "phases": { "x": { "lock": "m", "run": 10, "unlock": "m" } } },
                 "j": { "loop": 7, "phases": { "x": { "lock": "m", "run": 10, "unlock": "m" } } }"#),
            Phases(vec![("i-0", 3), ("j-1", 7)]),
            Some(10),
        ),
        (of(r#""l": { "loop": 2, "policy": "SCHED_NONE", "phases": { "x": { QUICK } } }"#), Refused, None),
    ]
}

/// Runs rt-app in a folder, and counts the lines of each thread's log.
fn real(folder: &Path, file: &str) -> Made {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", "rt-app", file]).current_dir(folder).stdin(Stdio::null());
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts");
    if !done.success() {
        return Refused;
    }
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(thread) = name.strip_prefix("log-").and_then(|name| name.strip_suffix(".log")) else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let lines =
            text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count() as u64;
        threads.insert(&*thread.to_string().leak(), lines.min(ENDLESS));
    }
    Phases(threads.into_iter().collect())
}

#[test]
fn files_mean_what_they_mean_to_rt_app() {
    if !["/usr/bin/rt-app", "/usr/local/bin/rt-app"].iter().any(|path| Path::new(path).exists()) {
        println!("skipped: no rt-app (Debian, Ubuntu: apt-get install rt-app)");
        return;
    }
    let lab = Schedlab::new("rt-app");
    for (at, (tasks, made, loops)) in files().into_iter().enumerate() {
        let folder = lab.path(&at.to_string());
        std::fs::create_dir(&folder).unwrap();
        let global = r#""duration": 1, "calibration": 50, "default_policy": "SCHED_OTHER", "logdir": ".", "log_basename": "log""#;
        let text = format!("{{ \"tasks\": {{ {tasks} }}, \"global\": {{ {global} }} }}");
        std::fs::write(folder.join("file.json"), text).unwrap();
        assert_eq!(real(&folder, "file.json"), made, "rt-app: {tasks}");
        let file = format!("{at}/file.json");
        let limit = Duration::from_secs(60);
        let ended = lab.run(
            &["sim", "-q", "-s", "eevdf", "-c", "4", "-w", &file, "--rt-app", "1.0", "--json", "r.json"],
            limit,
        );
        match loops {
            None => assert_eq!(ended.code, 2, "{tasks}: {}", ended.err),
            Some(loops) => {
                assert_eq!(ended.code, 0, "{tasks}: {}", ended.err);
                let counted = lab.record("r.json").metric("loops").unwrap_or(0.0) as u64;
                assert_eq!(counted.min(ENDLESS), loops, "{tasks}");
            }
        }
    }
}
