//! Arguments of `judge`.

use super::{HostArgs, up_to};
use clap::{Args, ValueHint};
use schedlab_lab::judge::suite::DEFAULT_SUITE;
use schedlab_lab::scheduler::FAIR;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Most runs at once.
const MOST_JOBS: usize = 1024;

/// Arguments of `judge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab judge mine.bpf.c                        compile, check, simulate the suite desktop
  schedlab judge mine.bpf.o --against old.bpf.o --suite server
  schedlab judge mine.bpf.c --json - | jq .score   at most 2048 bytes
  schedlab judge mine.bpf.c --seed-key 7           the same answer each time
  schedlab judge mine.bpf.c --over slice_ns=1ms..20ms    what an optimiser may choose
  schedlab judge mine.bpf.c --set slice_ns=3000000
  schedlab judge mine.bpf.c --verify               and a real kernel is asked once, in a VM

Names, parameters, lengths, start orders and seeds are drawn from the key. Accepted means: all runs are valid, no task \
falls below its floor, and nothing is shown to be worse than its bound. Exit codes: 0 accepted, 1 rejected, 2 usage.")]
pub(crate) struct JudgeArgs {
    /// Scheduler to judge: a source (*.bpf.c), an object (*.bpf.o), a shipped name, or exec:COMMAND
    #[arg(value_name = "CANDIDATE", value_hint = ValueHint::FilePath)]
    pub(crate) candidate: String,
    /// Scheduler to compare with, named as the candidate is
    #[arg(long, value_name = "BASE", default_value = FAIR)]
    pub(crate) against: String,
    /// Loads to judge by: desktop, server, or a file (*.toml)
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_SUITE, value_hint = ValueHint::FilePath)]
    pub(crate) suite: String,
    /// Text that everything random is drawn from [default: drawn by the system, and printed]
    #[arg(long, value_name = "KEY")]
    pub(crate) seed_key: Option<String>,
    /// Set a tunable of the candidate: VAR=VALUE
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Print the space of a tunable as JSON, for optimisers, and judge nothing; repeatable
    #[arg(long, value_name = "VAR=LOW..HIGH")]
    pub(crate) over: Vec<String>,
    /// Show the loads that answers do not show. A program that writes schedulers should not see them
    #[arg(long)]
    pub(crate) show_hidden: bool,
    /// The answer as one line of JSON; `-` writes it to standard output instead of the text
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Run the loads that answers show in a VM too, and say where a real kernel has another direction
    #[arg(long, conflicts_with = "over", help_heading = "Virtual machine")]
    pub(crate) verify: bool,
    /// The VM's kernel: a version or a release of `list kernels`, or a bzImage's path [default: the distribution's newest]
    #[arg(long, value_name = "NAME|VERSION|PATH", value_hint = ValueHint::FilePath, requires = "verify", help_heading = "Virtual machine")]
    pub(crate) kernel: Option<PathBuf>,
    /// Runs at once [default: the CPUs of this host]
    #[arg(short, long, value_name = "N", value_parser = up_to::<MOST_JOBS>, help_heading = "Host")]
    pub(crate) jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}
