//! What a simulating process gives up before it reads what others wrote: an object, a workload, results.
//!
//! Two mechanisms of the kernel, each used as far as it is there, and neither needs privileges:
//! * Landlock limits files to the paths that a [`Sandbox`] was given. It also denies TCP, abstract Unix sockets and
//!   signals to other processes, on kernels that know these.
//! * A seccomp filter limits system calls to those that computing and writing results need: none that runs a program,
//!   opens a socket, looks at another process, loads BPF or changes the machine.
//!
//! A refused call fails with `EPERM` (`EACCES` where Landlock refuses), and every caller of a system call handles
//! errors. So a library that tries something optional continues, and a result that cannot be written is one clear error. A
//! defect of the filter costs a feature and not the runs of a night. Code that an attacker runs gains nothing from the
//! error.
//!
//! [`Sandbox::enter`] belongs at the start of a process, while it has one thread: Landlock's rules hold for that thread and
//! those that it starts later. The filter holds for all threads.

mod calls;
mod files;
pub mod passed;

use std::path::PathBuf;

/// What a process keeps.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    read: Vec<PathBuf>,
    replace: Vec<PathBuf>,
    write: Vec<PathBuf>,
    run: Vec<PathBuf>,
    start: Vec<PathBuf>,
}

/// What could not be given up, each as a sentence with the reason; empty if all was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(pub Vec<String>);

impl Sandbox {
    /// A process that may use what it has open, and compute.
    pub fn new() -> Sandbox {
        Sandbox::default()
    }

    /// Files, or folders with all below, that it may read. Those that do not exist are left out.
    pub fn may_read(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Sandbox {
        self.read.extend(paths);
        self
    }

    /// Folders in which it may make, read, replace and remove plain files; the kernel includes the folders below.
    pub fn may_replace_in(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Sandbox {
        self.replace.extend(folders);
        self
    }

    /// Files and devices that exist and that it may write.
    pub fn may_write(mut self, files: impl IntoIterator<Item = PathBuf>) -> Sandbox {
        self.write.extend(files);
        self
    }

    /// Programs, with files and folders that they need, which it may start and trace: schedulers' own loaders. They live in the
    /// same sandbox.
    pub fn may_run(mut self, files: impl IntoIterator<Item = PathBuf>) -> Sandbox {
        self.run.extend(files);
        self
    }

    /// This very program, with what it needs to start: processes of it may be started, and give up more than this one.
    pub fn may_start(mut self, files: impl IntoIterator<Item = PathBuf>) -> Sandbox {
        self.start.extend(files);
        self
    }

    /// Gives up everything else, for good and for all threads to come.
    pub fn enter(&self) -> Missing {
        let mut missing = Vec::new();
        if let Err(why) = files::restrict(self) {
            missing.push(format!("files are not restricted: {why}"));
        }
        let writes = !self.replace.is_empty() || !self.write.is_empty();
        let kept = calls::Kept { writes, starts: !self.start.is_empty(), loaders: !self.run.is_empty() };
        if let Err(why) = calls::restrict(kept) {
            missing.push(format!("system calls are not restricted: {why}"));
        }
        Missing(missing)
    }
}
