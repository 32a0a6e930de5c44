//! The command line: what the flags are called and what their help says.

#[cfg(test)]
mod help;
mod hunt;
mod judge;
mod many;
mod measured;
mod one;
mod tools;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use schedlab_base::DurationNs;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(crate) use hunt::HuntArgs;
pub(crate) use judge::JudgeArgs;
pub(crate) use many::{BenchArgs, CompareArgs, ReproduceArgs, SweepArgs};
pub(crate) use measured::{CalibrateArgs, FidelityArgs};
pub(crate) use one::{
    AfterEjection, EngineKind, GuestMemory, HistoryArgs, InstructionTime, MeanwhileArgs, RunArgs, SetupArgs,
    SimArgs, SwapArgs, VmArgs,
};
pub(crate) use tools::{
    CheckArgs, CompletionsArgs, DepsArgs, ListArgs, ListKind, ManArgs, NewArgs, SchedSamplesArgs, SchemaArgs,
    ShowArgs, StatArgs, Template, ViewKind,
};

/// A laboratory for Linux CPU schedulers: the same sched_ext object runs in a deterministic
/// simulation and on a real kernel
#[derive(Debug, Parser)]
#[command(
    name = "schedlab",
    version,
    arg_required_else_help = true,
    propagate_version = false,
    max_term_width = 100,
    after_help = "\
Examples:
  schedlab list                                       what can be named below
  schedlab sim -s o1 -w chat:rooms=10,messages=50 -c 8
  schedlab compare -s vanilla,o1 -w chat -c 2,4,8 --runs 5
  schedlab reproduce kravetz --quick                  published figures beside measured ones
  schedlab stat before.txt after.txt

Exit codes: 0 done; 1 a comparison or check failed; 2 usage or input error; 3 inconclusive; \
4 the scheduler was ejected; 5 the environment lacks something (named, with the cure)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// No progress and no notes on standard error
    #[arg(short, long, global = true, display_order = 998)]
    pub(crate) quiet: bool,
    /// Say more: all metrics, counters, costs, messages of the scheduler
    #[arg(short, long, global = true, display_order = 999, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Files of rt-app mean what this version makes of them: 1.0, the release, or head (commit 55cb0c0)
    #[arg(long, global = true, value_name = "1.0|head", default_value = "head", display_order = 997)]
    pub(crate) rt_app: schedlab_workload::rtapp::Version,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Names of schedulers, workloads and machines
    List(ListArgs),
    /// One simulated run
    Sim(SimArgs),
    /// Schedulers compared over CPU counts and seeds, with statistics
    Compare(CompareArgs),
    /// What things cost on this machine or in the VM, as a machine file
    Calibrate(CalibrateArgs),
    /// How far simulated figures are from a real kernel's: the same runs in both arms
    Fidelity(FidelityArgs),
    /// What a guest of this command does that was given several runs
    #[command(hide = true)]
    GuestList,
    /// A command of yours under several schedulers on a real kernel, with statistics
    Bench(BenchArgs),
    /// A document's tables: published beside measured, with a verdict per row
    Reproduce(ReproduceArgs),
    /// Load a scheduler into a real kernel, run a workload or a command under it, unload it
    Run(RunArgs),
    /// Watch the running kernel: which task waits for which, through what, how sure
    Deps(DepsArgs),
    /// A search for runs in which a scheduler starves, stalls or forgets tasks, made as small as can be
    Hunt(HuntArgs),
    /// What an object needs, and whether the simulator and a real kernel's verifier take it
    Check(CheckArgs),
    /// A verdict on a scheduler: a suite of loads, a score with its interval, and reasons
    Judge(JudgeArgs),
    /// A folder with a scheduler of your own, to begin with
    New(NewArgs),
    /// A record of sim, run or compare (-o) as a table, a page, a trace, ...
    Show(ShowArgs),
    /// Two or more samples compared, ministat style
    Stat(StatArgs),
    /// What samples of schedule() say: consistency, cost, migrations, stints, disturbances
    SchedSamples(SchedSamplesArgs),
    /// The form of what --json writes, as JSON Schema
    Schema(SchemaArgs),
    /// A server of the Model Context Protocol on standard input and output, for programs that write schedulers
    #[command(after_help = "\
Examples:
  schedlab mcp                          what a client starts, as its configuration says
  claude mcp add schedlab schedlab mcp  for one that is configured by a command

Tools: check, sim, compare, judge, explain. An answer has at most 2 KiB. docs/how-to/let-a-program-ask.md has a session.")]
    Mcp,
    /// Shell completions
    Completions(CompletionsArgs),
    /// Manual pages
    Man(ManArgs),
}

/// Where results go besides standard output.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArgs {
    /// All results as JSON; `-` writes them to standard output instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// One line per run and metric
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,
    /// A report as one self-contained page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,
    /// Suspect runs (a task starved, CPUs idled beside waiting tasks), seeds that change nothing and goals that are not met end with exit code 1
    #[arg(long, help_heading = "Results")]
    pub(crate) strict: bool,
}

/// What fails a comparison, and what CI systems read of it.
#[derive(Clone, Debug, Args)]
pub(crate) struct GateArgs {
    /// End with exit code 1 on a verdict `worse` against the baseline, of the workload's own metrics or of METRIC. For the verdict, the
    /// whole interval of the change lies beyond 0; for PERCENT, the estimate must exceed it. suspect: on suspect or void runs. Repeatable
    #[arg(long, value_name = "worse[:METRIC][=PERCENT]|suspect", help_heading = "Gate")]
    pub(crate) fail_on: Vec<schedlab_lab::gate::FailOn>,
    /// The checks as a JUnit test report; `-` writes it to standard output instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Gate")]
    pub(crate) junit: Option<PathBuf>,
    /// Outcome, table, warnings, hashes and command as Markdown for a pull request; `-` as of --junit
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Gate")]
    pub(crate) markdown: Option<PathBuf>,
    /// Name failed checks on standard error as annotations of a CI system [default: github if GITHUB_ACTIONS is true]
    #[arg(long, value_name = "github|none", value_enum, hide_possible_values = true, help_heading = "Gate")]
    pub(crate) annotate: Option<Annotate>,
}

/// Annotations of checks that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Annotate {
    /// Workflow commands of GitHub Actions
    Github,
    /// None
    None,
}

/// Where the record of a run goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordArgs {
    /// Everything of the run in one file, of which `schedlab show` makes each of the results later
    #[arg(short = 'o', long = "record", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) record: Option<PathBuf>,
}

/// What a process that simulates keeps of the host.
#[derive(Debug, Default, Args)]
pub(crate) struct SandboxArgs {
    /// Do not give up files and system calls that simulating does not need: for debuggers
    #[arg(long, help_heading = "Host")]
    pub(crate) no_sandbox: bool,
}

/// What a simulated run may use of the host.
#[derive(Debug, Default, Args)]
pub(crate) struct HostArgs {
    /// End each run after this much host time (10s, 5m): it counts as not finished, exit code 3 [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "Host")]
    pub(crate) time_limit: Option<DurationNs>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// A number from 1 to `MOST`, which is chosen: more than a user needs, and no more than a memory holds.
fn up_to<const MOST: usize>(text: &str) -> Result<NonZeroUsize, Box<dyn Error + Send + Sync>> {
    let count: NonZeroUsize = text.parse()?;
    if count.get() > MOST {
        return Err(format!("give {MOST} or less").into());
    }
    Ok(count)
}

/// A percentage from 0 up.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    number
        .ok()
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is no percentage from 0 to 1000, as in 1 or 2.5"))
}

/// A time that is more than nothing.
fn some_time(text: &str) -> Result<DurationNs, String> {
    match text.parse() {
        Ok(DurationNs::ZERO) => Err("give it some time, as in 500ms or 2s".to_string()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}")),
    }
}
