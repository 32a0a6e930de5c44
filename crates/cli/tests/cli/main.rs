//! The command from the outside: every test runs the real binary in an empty folder
//! of its own.

mod authors;
mod commands;
mod compared;
mod documentation;
mod engines;
mod entries;
mod exit_codes;
mod faults;
mod fidelity;
mod files;
mod gate;
mod history;
mod host;
mod kernels;
mod large_objects;
mod mcp;
mod places;
mod records;
mod refusals;
mod results;
mod samples;
mod sched_samples;
mod schemas;
mod standing;
mod sweeps;
mod trust;
mod workload_files;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder that goes away with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("schedlab-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Runs the command with the words of `line` as its arguments.
    fn run(&self, line: &str) -> Done {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_words(&words)
    }

    fn run_words(&self, words: &[&str]) -> Done {
        Done::of(self.command(words).stdin(Stdio::null()).output().unwrap())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command
            .args(words)
            .current_dir(&self.0)
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .env_remove("GITHUB_ACTIONS");
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What runs the tests may ignore signals, as a shell's background and nohup(1) do; the command is not to inherit that.
fn heed_signals(command: &mut Command) {
    let heed = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGXCPU] {
            // SAFETY: plain system call.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only.
    unsafe { command.pre_exec(heed) };
}

/// How a command ended.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output) -> Done {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Done {
            code: output.status.code().expect("no signal ends it"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Checks success and gives standard output.
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// Checks that it is one line of error with this code and these words.
    fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        let errors: Vec<&str> = self.err.lines().filter(|line| line.contains("error")).collect();
        assert_eq!(errors.len(), 1, "one line: {self:?}");
        assert!(errors[0].starts_with("schedlab: error: "), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        for word in words {
            assert!(errors[0].contains(word), "no '{word}' in {:?}", errors[0]);
        }
    }
}
