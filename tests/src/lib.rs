//! Helpers of the cross-room tests: the tree, the command, and objects compiled for BPF.

pub mod values;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use schedlab_base::Machine;
use schedlab_report::from_json;
use schedlab_scx::{BpfScheduler, LoadOptions, run};
use schedlab_sim::{Class, Config};
use schedlab_trace::RunRecord;
use schedlab_workload::catalog;

/// The root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the tree").to_path_buf()
}

/// Every file below `dir` with one of the extensions, in a fixed order; build
/// output is left out.
///
/// # Panics
/// When a directory cannot be read.
pub fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).expect("the tree is readable") {
            let path = entry.expect("the tree is readable").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            if path.is_dir() && !["target", "build", ".git", ".cache", "corpus"].contains(&name) {
                pending.push(path);
            } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The compiler for BPF that is installed.
pub use schedlab_clang::found as clang;

/// Compiles `tests/objects/NAME.bpf.c` to `object` for `target` (`bpf`, `bpfeb`).
///
/// # Errors
/// There is no compiler, or what it says.
pub fn compile(name: &str, target: &str, object: &Path) -> Result<(), String> {
    let source = root().join(format!("tests/objects/{name}.bpf.c"));
    let include = root().join("schedulers/include");
    // A policy on the shipped layers has its policy.h beside it.
    let beside = source.parent().expect("it is in a folder");
    // One in the kernel's own dialect includes vmlinux.h and libbpf's headers too.
    let text = std::fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let written = text.contains("<scx/").then(written_headers).transpose()?;
    let written = written.as_deref().unwrap_or(beside);
    let folders = [&*include, beside, written].map(|folder| ["-I".as_ref(), folder.as_os_str()]).concat();
    let flags = ["-target", target, "-Wall", "-Werror"].map(OsStr::new);
    schedlab_clang::compile(&source, object, flags.into_iter().chain(folders))
}

/// A folder with what `schedlab check --vmlinux-h` writes: `vmlinux.h`, libbpf's headers in `bpf`, those of sched_ext in `scx`.
///
/// # Errors
/// The command's own words, or that the folder cannot be made.
pub fn written_headers() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = || {
        // Tests of other processes run at the same time.
        let folder = Schedlab::new(&format!("headers-{}", std::process::id()));
        let ended = folder.run(&["check", "-q", "--vmlinux-h", "vmlinux.h"], Duration::from_secs(60));
        if ended.code == 0 { Ok(folder.folder.clone()) } else { Err(ended.err) }
    };
    MADE.get_or_init(made).clone()
}

/// Whether all that tests run is built: the command, the example `bench`, the objects of `schedulers`. `run-tests --built` says so;
/// else each test process has to ask Cargo and make.
pub fn is_built() -> bool {
    std::env::var_os("SCHEDLAB_BUILT").is_some()
}

/// Has Cargo build a part of the workspace in the profile of the test that asks, if it is not there or old. Returns the profile's
/// folder. Features are those of the whole workspace, with which the test was built, so that nothing is compiled a second time.
///
/// # Panics
/// When it cannot be built.
pub fn build(part: &[&str]) -> PathBuf {
    let own = std::env::current_exe().expect("the test knows its own path");
    // .../target/PROFILE/deps/test-hash
    let profile = own.ancestors().nth(2).expect("tests lie in PROFILE/deps").to_path_buf();
    if is_built() {
        return profile;
    }
    let target = profile.parent().expect("the profile lies in the target folder");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace"]).args(part).arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let built = build.current_dir(root()).status().expect("cargo starts");
    assert!(built.success(), "cargo build --workspace {}", part.join(" "));
    profile
}

/// Makes the shipped schedulers' objects, once in a process.
///
/// # Panics
/// When they cannot be made.
pub fn make_objects() {
    static MADE: Once = Once::new();
    let make = || {
        let schedulers = root().join("schedulers");
        // Test programs that run at the same time make them one after the other.
        let _turn = locked(&schedulers).expect("the folder can be locked");
        let made = Command::new("make").args(["-s", "-C"]).arg(&schedulers).output();
        let made = made.expect("make is installed");
        let words = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "make -C schedulers (it needs clang 19 or newer): {words}");
    };
    MADE.call_once(|| {
        if !is_built() {
            make()
        }
    });
}

/// Makes the shipped schedulers' objects, and reads them: name and bytes, in name order.
///
/// # Panics
/// When they cannot be made.
pub fn shipped() -> Vec<(String, Vec<u8>)> {
    make_objects();
    let schedulers = root().join("schedulers");
    let folders = std::fs::read_dir(&schedulers).expect("the tree is readable");
    let mut names: Vec<String> = folders
        .filter_map(|entry| entry.expect("the tree is readable").file_name().into_string().ok())
        .filter(|name| schedulers.join(format!("{name}/{name}.bpf.c")).is_file())
        .collect();
    names.sort();
    names.into_iter().map(built).collect()
}

/// A file or folder that is open and locked, once no other process has it so; until it is closed.
fn locked(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // SAFETY: flock takes a descriptor that is open for the length of the call.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The shipped schedulers' objects that carry SWAP: `NAME+swap` and bytes, in name order.
///
/// # Panics
/// When they cannot be made.
pub fn shipped_with_swap() -> Vec<(String, Vec<u8>)> {
    shipped().into_iter().map(|(name, _)| built(format!("{name}+swap"))).collect()
}

/// The object of that name in the build folder, with its name.
fn built(name: String) -> (String, Vec<u8>) {
    let path = root().join(format!("schedulers/build/{name}.bpf.o"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (name, bytes)
}

/// The cells of every row whose first cell is code, of the table below the heading `## HEADING...` of a document.
pub fn readme_table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap_or("");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells =
        |row: &str| row.trim_matches(['|', ' ']).split(" | ").map(|cell| cell.trim().to_string()).collect();
    rows.map(cells).collect()
}

/// How the command ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code; 124 when it took longer than it was given.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Whether there is a compiler; without one the test is skipped, which is reported.
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
pub fn has_clang() -> bool {
    let found = clang().is_some();
    if !found {
        println!("skipped: {}", schedlab_clang::MISSING);
    }
    found
}

/// A folder for `test` with the object of [the test's own loader](../src/bin/own-loader.rs); nothing where there is no compiler,
/// which is reported.
///
/// # Panics
/// When the object does not compile.
pub fn with_loaded_object(test: &str) -> Option<Schedlab> {
    if !has_clang() {
        return None;
    }
    let lab = Schedlab::new(test);
    compile("loaded", "bpf", &lab.path("loaded.bpf.o")).expect("the compiler takes it");
    Some(lab)
}

/// The `schedlab` binary of the build that this test belongs to.
pub struct Schedlab {
    binary: PathBuf,
    /// Where it runs: an empty folder below the build's.
    pub folder: PathBuf,
}

impl Schedlab {
    /// Builds the binary if it is not there or old, once in a process, and makes a folder for `test`.
    ///
    /// # Panics
    /// When it cannot be built.
    pub fn new(test: &str) -> Schedlab {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let profile = BUILT.get_or_init(|| build(&["--bin", "schedlab"]));
        let folder = profile.join("tmp-tests").join(test);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the build's folder is writable");
        Schedlab { binary: profile.join("schedlab"), folder }
    }

    /// Runs it in its folder; it is killed after `limit`.
    ///
    /// # Panics
    /// When it cannot be started, or a signal ends it.
    pub fn run(&self, args: &[&str], limit: Duration) -> Ended {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &limit.as_secs().to_string()]).arg(&self.binary).args(args);
        command.current_dir(&self.folder).env("NO_COLOR", "1").env_remove("COLUMNS").stdin(Stdio::null());
        let output = command.output().expect("timeout (coreutils) starts");
        Ended {
            code: output.status.code().expect("no signal ends it"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The binary itself.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The first run of a result file in the folder.
    ///
    /// # Panics
    /// When there is no such file, or no run in it.
    pub fn record(&self, name: &str) -> RunRecord {
        self.records(name).remove(0)
    }

    /// All runs of a result file in the folder.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn records(&self, name: &str) -> Vec<RunRecord> {
        let text = std::fs::read_to_string(self.path(name)).expect("the command has written its results");
        from_json(&text).expect("it is a result file").runs
    }
}

/// BPF instructions per context switch that a scheduler's object needs on one CPU with so many tasks, which do nothing but
/// yield (`lat-sched`).
///
/// # Panics
/// When the object cannot be loaded, or is ejected.
pub fn insns_per_switch(name: &str, object: &[u8], tasks: u32) -> f64 {
    let machine = Machine::uniform("one", 1);
    let scheduler = BpfScheduler::load(name, object, &LoadOptions::default(), &machine).expect("it loads");
    let scenario =
        catalog::build(&format!("lat-sched:ntasks={tasks}"), 1).expect("a workload of the catalogue");
    let result = run(&Config::new(machine, 1), &scenario, Class::Ext(scheduler)).expect("it runs");
    assert!(!result.exit.kind.is_ejection(), "{name}: {:?}", result.exit);
    result.costs.bpf_insns as f64 / result.costs.switches as f64
}

/// A program of 64 bits without code whose section `.bpf.objs` has this content, as loaders written in Rust carry their
/// objects.
pub fn program_with(content: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.bpf.objs\0.shstrtab\0";
    let mut file = vec![0u8; 64];
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    // ET_DYN, x86-64, version 1.
    file[16..24].copy_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    let at = |file: &Vec<u8>| file.len() as u64;
    let content_at = at(&file);
    file.extend(content);
    let names_at = at(&file);
    file.extend(NAMES);
    file.resize(file.len().next_multiple_of(8), 0);
    let table_at = at(&file);
    // Name, type (PROGBITS 1, STRTAB 3), place and size of each section.
    let sections = [(0, 0u32, 0, 0), (1, 1, content_at, content.len()), (11, 3, names_at, NAMES.len())];
    for (name, kind, offset, size) in sections {
        file.extend([name as u32, kind].iter().flat_map(|word| word.to_le_bytes()));
        let words = [0, 0, offset, size as u64, 0, 1, 0];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    file[40..48].copy_from_slice(&table_at.to_le_bytes());
    // Bytes of this header, of a program's and a section's header; sections; the one with the names.
    for (place, value) in [(52, 64u16), (54, 56), (58, 64), (60, 3), (62, 2)] {
        file[place..place + 2].copy_from_slice(&value.to_le_bytes());
    }
    file
}
