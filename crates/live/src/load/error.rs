//! Why a scheduler does not run on this machine, or a watcher of its kernel.

use std::io;

use super::verifier;

/// Why a scheduler does not run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The running kernel has no sched_ext.
    #[error(
        "this kernel ({release}) has no sched_ext: it takes Linux 6.12 or newer with \
         CONFIG_SCHED_CLASS_EXT=y; use --vm to run in a virtual machine with such a kernel"
    )]
    NoSchedExt {
        /// Release of the running kernel.
        release: String,
    },
    /// Loading takes privilege.
    #[error("loading a scheduler takes root (CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN); use sudo, or --vm")]
    NotPrivileged,
    /// Watching the kernel takes privilege.
    #[error("watching the kernel takes root (CAP_BPF, CAP_PERFMON); use sudo")]
    WatchNotPrivileged,
    /// This build lacks a program that watches the kernel.
    #[error(
        "this build of schedlab cannot watch the kernel: no clang 19 or newer was found when it was \
         made; install one (Debian, Ubuntu: apt-get install clang-19) and build again"
    )]
    NoWatcher,
    /// The events of a run have no place.
    #[error(
        "no file for the events of the run ({0}); free some room in the folder of temporary files (TMPDIR)"
    )]
    NoSpool(io::Error),
    /// Another scheduler is in charge.
    #[error("the scheduler \"{name}\" is in charge of this machine already; stop it first")]
    Busy {
        /// Its name.
        name: String,
    },
    /// Not an object that libbpf opens.
    #[error("{name}: not a usable BPF object: {}", .words.join("; "))]
    Open {
        /// The object's name.
        name: String,
        /// What libbpf said.
        words: Vec<String>,
    },
    /// The object defines no scheduler.
    #[error("{name}: no sched_ext_ops in it, so there is no scheduler to load")]
    NoScheduler {
        /// The object's name.
        name: String,
    },
    /// Our own reader of objects refuses the object, or a setting.
    #[error(transparent)]
    Object(#[from] schedlab_bpf::error::LoadError),
    /// A setting that fits the object and that libbpf does not take.
    #[error("setting `{setting}`: {problem}")]
    Setting {
        /// The setting as the user gave it.
        setting: String,
        /// What is wrong.
        problem: String,
    },
    /// A program that was to run before the scheduler is attached.
    #[error("--run-prog {name}: {problem}")]
    Program {
        /// The program.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Its own program did not put it in charge.
    #[error("{name}: {problem}{}", .output.lines().map(|line| format!("\n  {line}")).collect::<String>())]
    Loader {
        /// The scheduler's name.
        name: String,
        /// What is wrong.
        problem: String,
        /// The end of what the program wrote.
        output: String,
    },
    /// The kernel's verifier refused a program.
    #[error(
        "{name}: the kernel's verifier refuses {program}: {}\nThe end of its log:\n{}",
        verifier::headline(.lines),
        .lines.iter().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
    )]
    Verifier {
        /// The object's name.
        name: String,
        /// The program refused.
        program: String,
        /// The last lines of the verifier's log, the decisive one last.
        lines: Vec<String>,
    },
    /// The kernel refused the object before the verifier saw it.
    #[error("{name}: the kernel does not load it ({source}): {}", .words.join("; "))]
    Load {
        /// The object's name.
        name: String,
        /// The kernel's reason.
        source: io::Error,
        /// What libbpf and the kernel's log said.
        words: Vec<String>,
    },
    /// The kernel loaded the object but did not let it take over.
    #[error("{name}: attaching {what} failed ({source}): {}", .words.join("; "))]
    Attach {
        /// The object's name.
        name: String,
        /// What was being attached.
        what: String,
        /// The kernel's reason.
        source: io::Error,
        /// What libbpf and the kernel's log said.
        words: Vec<String>,
    },
}
