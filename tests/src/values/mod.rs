//! The differential of values: what a program sees, asked in the simulator and of real kernels, value by value.
//!
//! `members` and `calls` list questions: the members of kernel structures that can be read, and helpers and kernel functions
//! with ordinary and edge arguments. `source` writes an object for each [`Site`], a callback or another kind of program, that
//! asks all of them when a watched task passes. `tree` has those about cgroups, and scripts with a tree of them. Each arm runs
//! the object under one script of operations, and [`decode`] reads its answers. `kept` holds what kernels said, by version, so that a test compares the simulator without a VM.

mod calls;
mod kept;
mod members;
mod simulated;
mod source;
mod tree;

pub use kept::{Difference, Kept, Known};
pub use simulated::simulated;
pub use source::Sheet;
pub use tree::Script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedlab_base::Machine;
use schedlab_workload::Scenario;

/// Answers by the name of what was asked: `enqueue.1.0 p->on_rq`, and the answer as text.
pub type Answers = BTreeMap<String, String>;

/// Where questions are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name in answers: a callback, or a kind of program.
    pub name: String,
    /// Section of the program.
    pub section: String,
    /// Type and name of each argument, in order.
    pub arguments: Vec<(String, String)>,
    /// What the program returns, as C; nothing where it returns nothing.
    pub returns: Option<&'static str>,
    /// The task that it is about, as C; the running one where it is about none.
    pub task: Option<&'static str>,
    /// The program may sleep.
    pub sleeps: bool,
    /// The callback runs with the lock of a run queue.
    pub locks: bool,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name in answers.
    pub name: String,
    /// Expression in C, of an integer.
    pub expression: String,
    /// Condition, as C, that the kernel has what the expression needs.
    pub exists: String,
}

/// The task sets its nice value to the number of the phase that it begins, so that both arms count the same calls.
pub const PHASES: usize = 12;
/// Calls of a callback that are asked in each phase.
pub const CALLS: usize = 2;

/// How many pages of answers a sheet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Phases of the script.
    pub phases: usize,
    /// Calls that are asked in each of them.
    pub calls: usize,
}

/// What the watched task does, phase by phase.
const SCRIPT: &str = r#"
name = "watched"
end = "all-exit"
[objects]
there = { kind = "pipe" }
[programs]
watched = [
  "cpus self 0", "sleep 5ms",
  "nice self 1", "run 1ms", "sleep 5ms", "run 1ms",
  "nice self 2", "yield", "run 1ms",
  "nice self 3", "cpus self 1", "run 1ms", "cpus self 0", "run 1ms",
  "nice self 4", "policy self batch", "run 1ms", "sleep 5ms",
  "nice self 5", "policy self idle", "run 1ms", "sleep 5ms", "policy self other",
  "nice self 6", "recv there 8", "run 1ms",
  "nice self 7", "fork child", "wait-child", "run 1ms",
  "nice self 8", "policy self fifo:10", "run 1ms", "sleep 2ms", "policy self other", "run 1ms",
  "nice self 9", "run 12ms",
  "nice self 10", "exec", "run 1ms",
  "nice self 11", "run 1ms",
]
child = ["run 1ms"]
partner = ["sleep 250ms", "send there 8", "sleep 300ms"]
[[tasks]]
name = "zza"
program = "watched"
[[tasks]]
name = "zzb"
program = "partner"
cpus = [1]
"#;

/// The script of a sheet as a workload.
///
/// # Panics
/// When the text above is no workload.
pub fn script(sheet: &Sheet) -> Scenario {
    match sheet.script {
        Script::Phases => schedlab_workload::file::parse(SCRIPT, "script").expect("the script is a workload"),
        groups => tree::script(groups),
    }
}

/// Reads the bytes of an object's table `answers`.
pub fn decode(sheet: &Sheet, bytes: &[u8]) -> Answers {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    };
    let mut answers = Answers::new();
    let Shape { phases, calls } = sheet.shape;
    for phase in 0..phases {
        for call in 0..calls {
            for (number, question) in sheet.questions.iter().enumerate() {
                let at = 16 * ((phase * calls + call) * sheet.questions.len() + number);
                let (Some(asked), Some(value)) = (word(at), word(at + 8)) else { continue };
                let answer = match asked {
                    0 => continue,
                    1 if question.name.ends_with(" name") => text(value),
                    1 => value.cast_signed().to_string(),
                    _ => "absent".to_string(),
                };
                answers.insert(format!("{}.{phase}.{call} {}", sheet.site.name, question.name), answer);
            }
        }
    }
    answers
}

/// A number whose bytes are a name; the root group has none.
fn text(value: u64) -> String {
    let letters = value.to_le_bytes().into_iter().take_while(|byte| *byte != 0);
    let name: String = letters.map(char::from).collect();
    if value.cast_signed() < 0 { value.cast_signed().to_string() } else { format!("'{name}'") }
}

/// Where the answers of kernels are kept.
pub fn folder() -> PathBuf {
    crate::root().join("tests/values")
}

/// What is kept, with the kernel's version.
///
/// # Panics
/// When the folder cannot be read.
pub fn all_kept() -> Vec<(String, Kept)> {
    let named = |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_string);
    let versions = crate::files(&folder(), &["txt"]).into_iter();
    let read = |path: PathBuf| {
        let version = named(&path).filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))?;
        Some((version, Kept::from_text(&std::fs::read_to_string(path).expect("the tree is readable"))))
    };
    versions.filter_map(read).collect()
}

/// The simulated machine of the comparison: two CPUs and the VM's tick, with a kernel of this version.
///
/// # Panics
/// When the version is none.
pub fn machine(version: &str) -> Machine {
    let mut machine = Machine::uniform("two", 2);
    machine.hz = 250;
    let known = version.rsplit_once('.').map_or(version, |(known, _)| known);
    machine.kernel = known.parse::<schedlab_base::KernelVersion>().expect("a version").features();
    machine
}

/// The objects of all sheets, made in `folder` by as many compilers as there are processors.
///
/// # Errors
/// What the compiler says.
pub fn objects(sheets: &[Sheet], folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let length = sheets.len().div_ceil(workers).max(1);
    let made: Vec<Result<Vec<Vec<u8>>, String>> = std::thread::scope(|scope| {
        let parts: Vec<_> = sheets
            .chunks(length)
            .map(|part| scope.spawn(move || part.iter().map(|sheet| compiled(sheet, folder)).collect()))
            .collect();
        parts.into_iter().map(|part| part.join().expect("the compiler's thread ends")).collect()
    });
    made.into_iter().collect::<Result<Vec<_>, _>>().map(|parts| parts.into_iter().flatten().collect())
}

/// The object of a sheet, made in `folder`.
///
/// # Errors
/// What the compiler says.
fn compiled(sheet: &Sheet, folder: &Path) -> Result<Vec<u8>, String> {
    let name = sheet.site.name.replace(['/', ' '], "_");
    let (source, object) = (folder.join(format!("{name}.bpf.c")), folder.join(format!("{name}.bpf.o")));
    std::fs::write(&source, sheet.source()).map_err(|error| error.to_string())?;
    let quiet = ["-Wno-everything"];
    schedlab_clang::compile(&source, &object, quiet)?;
    std::fs::read(&object).map_err(|error| error.to_string())
}
