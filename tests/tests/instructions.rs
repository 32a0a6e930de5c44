//! A guard of speed: host instructions that a simulated context switch takes, counted by callgrind, against what is kept in
//! `tests/instructions.toml`.
//!
//! Counts are the same at any load of the host. They belong to one compiler and to the profile of tests, whose assertions are in
//! them: another compiler skips the test with a word. After a change that is worth more instructions, or saves some,
//! `SCHEDLAB_BLESS=1 cargo test -p schedlab-tests --test tree instructions::` writes the file again; say so in the commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// How many percent more than is kept a switch may take.
const LEEWAY: f64 = 2.0;

/// The cells: name, object, CPUs and tasks. The object is one of `crates/scx/tests/objects`, a shipped one, or the fair class.
const CELLS: [(&str, Source, usize, usize); 3] = [
    ("one queue, 8 CPUs, 64 tasks", Source::Test("fifo"), 8, 64),
    ("o1, 8 CPUs, 64 tasks", Source::Shipped("o1"), 8, 64),
    ("fair class, 2 CPUs, 8 tasks", Source::Fair, 2, 8),
];

/// Where a cell's scheduler comes from.
#[derive(Clone, Copy)]
enum Source {
    Test(&'static str),
    Shipped(&'static str),
    Fair,
}

/// What is kept.
#[derive(Deserialize, Serialize)]
struct Kept {
    /// The compiler, as `rustc --version` says.
    compiler: String,
    /// Instructions a switch, by cell.
    cells: BTreeMap<String, u64>,
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn a_switch_takes_no_more_instructions_than_before() {
    let file = schedlab_tests::root().join("tests/instructions.toml");
    let compiler = output(Command::new("rustc").arg("--version")).unwrap_or_default().trim().to_string();
    let blesses = std::env::var_os("SCHEDLAB_BLESS").is_some();
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let kept: Kept =
        toml::from_str(&text).unwrap_or(Kept { compiler: String::new(), cells: BTreeMap::new() });
    if kept.compiler != compiler && !blesses {
        println!("skipped: tests/instructions.toml is of {}, this is {compiler}", kept.compiler);
        return;
    }
    if let Err(why) = output(Command::new("valgrind").arg("--version")) {
        println!("skipped: {why}; Debian, Ubuntu: apt-get install valgrind");
        return;
    }
    if !schedlab_tests::has_clang() {
        return;
    }
    let bench = bench();
    let cells: BTreeMap<String, u64> = CELLS
        .iter()
        .map(|(name, source, cpus, tasks)| {
            (name.to_string(), a_switch(&bench, &object(*source), *cpus, *tasks))
        })
        .collect();
    println!("instructions a switch: {cells:?}");
    if blesses {
        let text = toml::to_string(&Kept { compiler, cells }).expect("it can be written");
        std::fs::write(&file, text).expect("the tree is writable");
        return;
    }
    let dearer: Vec<String> = cells
        .iter()
        .filter(|(name, now)| **now as f64 > kept.cells[*name] as f64 * (1.0 + LEEWAY / 100.0))
        .map(|(name, now)| format!("{name}: {now} instructions, {} are kept", kept.cells[name]))
        .collect();
    assert!(
        dearer.is_empty(),
        "a switch takes over {LEEWAY} % more:\n{}\n(SCHEDLAB_BLESS=1 keeps these)",
        dearer.join("\n")
    );
}

/// The bench example in the profile of this test.
fn bench() -> PathBuf {
    schedlab_tests::build(&["--example", "bench"]).join("examples/bench")
}

/// What the bench example takes as a scheduler.
fn object(source: Source) -> PathBuf {
    let root = schedlab_tests::root();
    match source {
        Source::Fair => PathBuf::from("eevdf"),
        Source::Shipped(name) => {
            schedlab_tests::shipped();
            root.join(format!("schedulers/build/{name}.bpf.o"))
        }
        Source::Test(name) => {
            let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.bpf.o"));
            let source = root.join(format!("crates/scx/tests/objects/{name}.bpf.c"));
            schedlab_clang::compile(&source, &object, ["-Wall"]).expect("it compiles");
            object
        }
    }
}

/// Instructions a switch: the difference of two lengths, which leaves out what a start costs.
fn a_switch(bench: &Path, object: &Path, cpus: usize, tasks: usize) -> u64 {
    let (short, long) =
        (counted(bench, object, cpus, tasks, "0.05"), counted(bench, object, cpus, tasks, "0.1"));
    assert!(long.1 > short.1, "{}: {} switches, then {}", object.display(), short.1, long.1);
    (long.0 - short.0) / (long.1 - short.1)
}

/// Instructions and switches of one run.
fn counted(bench: &Path, object: &Path, cpus: usize, tasks: usize, seconds: &str) -> (u64, u64) {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(bench);
    command.args(["--cell", "1", "--size", "0", "--seconds", seconds, "--limit", "1000"]);
    command.args(["--cpus", &cpus.to_string(), "--tasks", &tasks.to_string()]).arg(object);
    let done = command.output().expect("valgrind starts");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{err}");
    let collected = err.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok());
    let switches = out.lines().find_map(|line| line.split_whitespace().nth(3)?.parse().ok());
    (
        collected.unwrap_or_else(|| panic!("no count in {err}")),
        switches.unwrap_or_else(|| panic!("no switches in {out}")),
    )
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
