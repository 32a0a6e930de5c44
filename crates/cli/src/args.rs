//! The command line: what the flags are called and what their help says.

#[cfg(test)]
mod help;
mod measured;

use crate::cpu_counts::CpuCounts;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use schedlab_base::{DurationNs, TimedSetting};
use schedlab_bpf::memory::{DEFAULT_GUEST_MEMORY, GUEST_LIMIT};
use schedlab_report::DOCUMENTS;
use schedlab_scx::{RunProgram, TimedProgram};
use schedlab_trace::Window;
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) use measured::{CalibrateArgs, FidelityArgs};

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
    /// What an object needs, and whether the simulator and a real kernel's verifier take it
    Check(CheckArgs),
    /// A folder with a scheduler of your own, to begin with
    New(NewArgs),
    /// Two or more samples compared, ministat style
    Stat(StatArgs),
    /// What samples of schedule() say: consistency, cost, migrations, stints, disturbances
    SchedSamples(SchedSamplesArgs),
    /// The form of what --json writes, as JSON Schema
    Schema(SchemaArgs),
    /// Shell completions
    Completions(CompletionsArgs),
    /// Manual pages
    Man(ManArgs),
}

/// Arguments of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab new mine               ./mine with mine.bpf.c, headers and a Makefile
  schedlab new mine --from fifo   begin with less")]
pub(crate) struct NewArgs {
    /// Name of the scheduler, and of the folder that is made here: small letters, digits and _
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Scheduler to start from
    #[arg(long, value_enum, default_value = "vtime")]
    pub(crate) from: Template,
}

/// What a new scheduler begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// CPU time by weight, in the order of virtual times
    Vtime,
    /// First come, first served
    Fifo,
    /// Run queues of its own: a copy of o1 with the layers that it uses
    O1,
    /// The same with the layer SWAP
    #[value(name = "o1+swap")]
    O1Swap,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab list               everything, one line each
  schedlab list workloads -v  parameters with defaults, metrics with units
  schedlab list schedulers -v tunables, as --set takes them
  schedlab list workloads chat  all about one")]
pub(crate) struct ListArgs {
    /// Only these
    #[arg(value_enum)]
    pub(crate) what: Option<ListKind>,
    /// All about these: parameters and metrics of workloads, tunables of schedulers
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// What `list` can be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// What `-s` takes
    Schedulers,
    /// What `-w` takes
    Workloads,
    /// What `-m` takes
    Machines,
    /// What `--kernel` takes
    Kernels,
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

/// What happens when a scheduler is ejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterEjection {
    /// The run ends.
    #[default]
    Stop,
    /// The kernel's own class takes over; figures from before and after stand apart.
    Continue,
}

/// What a process that simulates keeps of the host.
#[derive(Debug, Default, Args)]
pub(crate) struct SandboxArgs {
    /// Keep files and system calls that simulating does not need: for debuggers
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

/// How many simulated runs are made.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Parallel runs [default: CPUs of the host]
    #[arg(short, long, value_name = "N", value_parser = up_to::<1024>, help_heading = "Many runs")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Keep finished runs in DIR, and do not repeat those that are there; further folders are read only
    #[arg(long, value_name = "DIR,..", value_delimiter = ',', value_hint = ValueHint::DirPath, help_heading = "Many runs")]
    pub(crate) resume: Vec<PathBuf>,
    /// Make only every N-th run, from the I-th; the report needs all runs in the folders of --resume
    #[arg(long, value_name = "I/N", requires = "resume", help_heading = "Many runs")]
    pub(crate) shard: Option<schedlab_sweep::Shard>,
}

/// What the layer SWAP is for.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SwapArgs {
    /// Only waits of these types: pipe, socket, sysv-sem, futex, poll, ... (all: see docs/swap.md)
    #[arg(long = "swap-types", value_name = "LIST", value_delimiter = ',', help_heading = "SWAP")]
    pub(crate) types: Vec<String>,
    /// Leave tasks with these names (comm) alone
    #[arg(long = "swap-exclude", value_name = "COMM,..", value_delimiter = ',', help_heading = "SWAP")]
    pub(crate) exclude: Vec<String>,
}

/// What a scheduler's user space does during a run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MeanwhileArgs {
    /// Change a tunable while it runs: TIME:VAR=VALUE (2s:compute=1)
    #[arg(long = "set-at", value_name = "TIME:VAR=VALUE")]
    pub(crate) changes: Vec<TimedSetting>,
    /// Run a program of the object (SEC("syscall")) while the scheduler is attached; HEX is its context
    #[arg(long = "run-prog-at", value_name = "TIME:NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse_timed)]
    pub(crate) timed_programs: Vec<TimedProgram>,
    /// Attach the scheduler this long after the run began: tasks exist before it (500ms, 2s)
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) attach_at: Option<DurationNs>,
    /// Detach the scheduler this long after the run began; the run continues under the kernel's own class
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) detach_at: Option<DurationNs>,
}

/// What is simulated.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Machine: NAME or FILE.toml
    #[arg(short, long, value_name = "NAME|FILE", default_value = schedlab_lab::shipped::DEFAULT_MACHINE)]
    pub(crate) machine: String,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// End a run after this much of its own time (500ms, 2s) [default: the workload's end]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// When the scheduler leaves before the end: stop, or continue under the kernel's own class (simulated runs)
    #[arg(long, value_name = "stop|continue", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) after_ejection: AfterEjection,
    /// Set a scheduler's tunable: VAR=VALUE, or SCHEDULER:VAR=VALUE for one of several
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse)]
    pub(crate) programs: Vec<RunProgram>,
    /// How the scheduler's programs are executed: compiled, or interpreted (slower, the same results)
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t, hide_possible_values = true)]
    pub(crate) engine: EngineKind,
    /// What an object may take of memory for its maps, its arena and the kernel objects that it makes: 64M, 2G
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(crate) guest_memory: GuestMemory,
    #[command(flatten)]
    pub(crate) swap: SwapArgs,
}

/// How programs are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// Interpreted at first, and compiled as soon as interpreting has cost what compiling does
    #[default]
    Auto,
    /// Compiled to machine code from the start; interpreted where the host forbids that
    Compiled,
    /// Interpreted: slower, and nothing that an object contains becomes machine code
    Interpreted,
}

/// Bytes of guest memory, at most [`GUEST_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuestMemory(pub(crate) u64);

impl Default for GuestMemory {
    fn default() -> GuestMemory {
        GuestMemory(DEFAULT_GUEST_MEMORY)
    }
}

impl fmt::Display for GuestMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M", self.0 >> 20)
    }
}

impl FromStr for GuestMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<GuestMemory, String> {
        let (number, shift) = match text.char_indices().next_back() {
            Some((at, 'K' | 'k')) => (&text[..at], 10),
            Some((at, 'M' | 'm')) => (&text[..at], 20),
            Some((at, 'G' | 'g')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number: Option<u64> = number.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift));
        match bytes.filter(|bytes| (1 << 20..=GUEST_LIMIT).contains(bytes)) {
            Some(bytes) => Ok(GuestMemory(bytes)),
            None => Err(format!("give a size from 1M to {}G, as in 64M or 2G", GUEST_LIMIT >> 30)),
        }
    }
}

/// What a run reports of each task and switch.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// One line per stretch of a task on a CPU, in the form of `perf sched timehist`. Each has the end and length of the
    /// stretch, and how long the task had been away and had waited since its wakeup. Without FILE it goes to standard output,
    /// instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 0..=1, default_missing_value = "-", help_heading = "Results")]
    pub(crate) timehist: Option<PathBuf>,
    /// A table of the tasks as `perf sched latency` prints it: how long each waited for a CPU, on average and at most, and when
    #[arg(long, help_heading = "Results")]
    pub(crate) latency: bool,
}

/// Arguments of `sim`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab sim -s o1 -w chat:rooms=10,messages=50 -c 8
  schedlab sim -s vanilla --set profile=tsss -w cpuhog:ntasks=2,nice=0/5 -c 1 --duration 10s
  schedlab sim -s ./mine.bpf.o -w reflex -m p3-700 --perfetto trace.pftrace
  schedlab sim -s o1 -w chat -c 2 --timehist | less         every switch, like perf sched timehist
  schedlab sim -s eevdf -w mkbench -c 4 --json - | jq '.runs[0].metrics'

The same command with the same seed gives the same bytes on every host. A scheduler that is \
ejected (stall, bad dispatch, BPF error) ends with exit code 4 and its exit kind.")]
pub(crate) struct SimArgs {
    /// Scheduler: a shipped name, NAME+swap, an object file (*.bpf.o, FILE#NAME for one of several schedulers, or a program with one), exec:COMMAND (its own loader), or eevdf; NAME[VAR=VALUE,..] sets tunables
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) scheduler: String,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json; a.json+b.json are put together) or an own one (*.toml)
    #[arg(short, long, value_name = "NAME[:k=v,..]|FILE")]
    pub(crate) workload: String,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// Kernel of the machine, instead of its own: a version (6.12) or a distribution's, as in `schedlab list kernels`
    #[arg(long, value_name = "NAME|VERSION")]
    pub(crate) kernel: Option<String>,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) meanwhile: MeanwhileArgs,
    /// A picture (SVG) of the tasks' priorities over time, if the scheduler shows them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) priorities: Option<PathBuf>,
    /// Number of CPUs [default: the machine's]
    #[arg(short, long, value_name = "N")]
    pub(crate) cpus: Option<NonZeroUsize>,
    /// Check the simulated kernel's invariants after every event (slow): a broken one stops the command
    #[arg(long)]
    pub(crate) checkers: bool,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// A trace for ui.perfetto.dev, written while it runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) perfetto: Option<PathBuf>,
    /// The part of the run whose CPUs --html draws over time (10ms..25ms); as much of it as a page takes
    #[arg(
        long,
        value_name = "FROM..TO",
        default_value = "..",
        requires = "html",
        hide_default_value = true,
        help_heading = "Results"
    )]
    pub(crate) timeline: Window,
    /// One line per pass through schedule(), as CSV for `schedlab sched-samples`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) sched_samples: Option<PathBuf>,
    /// Also report which task waited for which, through what, and how much of it was priority
    /// inversion
    #[arg(long, help_heading = "Results")]
    pub(crate) explain_waits: bool,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    /// Also report which cache lines of the scheduler's memory moved between CPUs, and which lines of its source moved them, on
    /// machines that price moved lines
    #[arg(long, help_heading = "Results")]
    pub(crate) profile_lines: bool,
    /// Mark the samples in which this counter of the scheduler rises (vanilla: nr_recalcs)
    #[arg(long, value_name = "COUNTER", requires = "sched_samples", help_heading = "Results")]
    pub(crate) sched_mark: Option<String>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// When a difference is one.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerdictArgs {
    /// Confidence in percent: 80, 90, 95, 98, 99 or 99.5
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    pub(crate) confidence: schedlab_stats::Level,
    /// The least difference that matters, in percent of the baseline's mean: a smaller one is no verdict
    #[arg(long, value_name = "PERCENT", default_value_t = schedlab_report::LEAST_EFFECT, value_parser = percent)]
    pub(crate) at_least: f64,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab compare -s vanilla,o1 -w chat:rooms=10,messages=20 -m p3-700 -c 2,4,8 --runs 5
  schedlab compare -s eevdf,./mine.bpf.o -w reflex:tasks=16 -c 4 --html report.html
  schedlab compare -s vanilla,o1 --set vanilla:profile=tsss --set o1:profile=d1 -w mkbench
  schedlab compare -s 'o1[profile=d1],o1[profile=rh8]' -w chat -c 2-4
  schedlab compare -s old=./before.bpf.o,new=./after.bpf.o -w reflex
  schedlab compare -s eevdf,o1 -w chat -w mkbench -w reflex     one table and a ranking
  sudo schedlab compare -s eevdf,o1 --live -w chat:rooms=2 --runs 5
  sudo schedlab compare -s eevdf,o1 --live -- make -j8          a command, see schedlab bench

The first scheduler is the baseline. Run k has the seed --seed + k, the same for every scheduler. \
Results do not depend on --jobs, --resume and --shard.")]
pub(crate) struct CompareArgs {
    /// Schedulers, the baseline first: shipped names, NAME+swap, object files (*.bpf.o), exec:COMMAND (its own loader), eevdf. Each may have
    /// tunables (o1[profile=d1]) and a label (new=./x.bpf.o), and may be listed twice
    #[arg(short, long = "schedulers", alias = "scheduler", value_name = "A,B,..", required = true)]
    pub(crate) schedulers: Vec<String>,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json) or an own one (*.toml). Several -w are run one by one and make one
    /// table with a ranking; a.json+b.json is one workload, whose tasks all run at the same time
    #[arg(short, long = "workload", value_name = "NAME[:k=v,..]|FILE", required_unless_present = "command")]
    pub(crate) workloads: Vec<String>,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// Numbers of CPUs, as in 1,2-4,8 [default: the machine's]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cpus: Vec<CpuCounts>,
    /// Runs of each scheduler and CPU count
    #[arg(long, value_name = "N", default_value = "3", value_parser = up_to::<10_000>)]
    pub(crate) runs: NonZeroUsize,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,
    /// On this machine's kernel (root), the schedulers taking turns; -m means nothing then
    #[arg(long, conflicts_with_all = ["vm", "cpus", "jobs", "resume", "time_limit"])]
    pub(crate) live: bool,
    /// In a virtual machine, booted for every run; -m means nothing then
    #[arg(long, conflicts_with_all = ["jobs", "resume", "time_limit"])]
    pub(crate) vm: bool,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// A folder for traces for ui.perfetto.dev, one per run: SCHEDULER-WORKLOAD-4cpus-seed1.pftrace
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["live", "vm", "resume"], help_heading = "Results")]
    pub(crate) perfetto: Option<PathBuf>,
    /// The part of the run whose CPUs --html draws over time (10ms..25ms), of the first seed of each scheduler
    #[arg(
        long,
        value_name = "FROM..TO",
        requires = "html",
        conflicts_with_all = ["live", "vm", "resume"],
        help_heading = "Results"
    )]
    pub(crate) timeline: Option<Window>,
    /// Also report which task waited for which, through what, and how much of it was priority inversion. Tables and page have
    /// the first seed of each scheduler, --json has every run
    #[arg(long, help_heading = "Results")]
    pub(crate) explain_waits: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Warm-up runs of each scheduler, which do not count [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "command",
        conflicts_with = "workloads",
        help_heading = "A command"
    )]
    pub(crate) warmup: Option<usize>,
    /// Programs, files and directories that go into the VM beside the command
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires_all = ["vm", "command"], conflicts_with_all = ["workloads", "live"], help_heading = "A command")]
    pub(crate) with: Vec<String>,
    /// A command instead of a workload, with --live or --vm, as in `schedlab bench`
    #[arg(
        last = true,
        value_name = "COMMAND",
        conflicts_with_all = [
            "workloads", "machine", "seed", "duration", "after_ejection", "engine", "guest_memory", "perfetto", "timeline",
            "explain_waits", "shard",
        ]
    )]
    pub(crate) command: Vec<String>,
}

impl CompareArgs {
    /// What `bench` is to do, if a command stands in place of workloads.
    pub(crate) fn bench(&self) -> Option<BenchArgs> {
        (!self.command.is_empty()).then(|| BenchArgs {
            schedulers: self.schedulers.clone(),
            runs: self.runs,
            warmup: self.warmup.unwrap_or(WARMUP),
            settings: self.setup.settings.clone(),
            verdict: self.verdict.clone(),
            swap: self.setup.swap.clone(),
            vm: self.vm,
            cpus: self.cpus.clone(),
            with: self.with.clone(),
            machine: self.machine.clone(),
            results: self.results.clone(),
            command: self.command.clone(),
            as_guest: false,
        })
    }
}

/// Runs that warm up, where the user does not say.
const WARMUP: usize = 1;

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo schedlab bench -s eevdf,o1,./mine.bpf.o --runs 10 -- make -j8
  sudo schedlab bench -s 'o1[profile=d1],o1[profile=rh8]' --warmup 2 -- ./my-program --fast
  schedlab bench --vm --icount -c 1,2 -s eevdf,ule --with sleep -- sh -c 'sleep 1'

The schedulers take turns, the first is the baseline. The command has no input, its output is \
discarded. If it fails, bench prints the end of its messages and makes no more runs. user and system are the \
CPU time of the command and of what it waited for. Whatever happens, the machine is back under its \
own scheduler afterwards.")]
pub(crate) struct BenchArgs {
    /// Schedulers, the baseline first: shipped names, NAME+swap, object files (*.bpf.o), eevdf. Each may have
    /// tunables (o1[profile=d1]) and a label (new=./x.bpf.o), and may be listed twice
    #[arg(short, long = "schedulers", alias = "scheduler", value_name = "A,B,..", required = true)]
    pub(crate) schedulers: Vec<String>,
    /// Runs of each scheduler that count
    #[arg(long, value_name = "N", default_value = "5", value_parser = up_to::<10_000>)]
    pub(crate) runs: NonZeroUsize,
    /// Warm-up runs of each scheduler, which do not count
    #[arg(long, value_name = "N", default_value_t = WARMUP)]
    pub(crate) warmup: usize,
    /// Set a scheduler's tunable: VAR=VALUE, or SCHEDULER:VAR=VALUE for one of several
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,
    #[command(flatten)]
    pub(crate) swap: SwapArgs,
    /// In a virtual machine; into it go the command's program, with libraries or interpreter, the files that its
    /// arguments name, and the tools that a shell's script calls
    #[arg(long)]
    pub(crate) vm: bool,
    /// Numbers of CPUs of the VM, as in 1,2-4,8 [default: 2]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', requires = "vm")]
    pub(crate) cpus: Vec<CpuCounts>,
    /// Programs, files and directories that go into the VM beside the command
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "vm")]
    pub(crate) with: Vec<String>,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// The command
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<String>,
    /// This is the guest of a VM
    #[arg(long, hide = true)]
    pub(crate) as_guest: bool,
}

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab reproduce all --quick                    smaller workloads: some minutes
  schedlab reproduce kravetz --html kravetz.html
  schedlab reproduce swap --document-table fig2 --runs 5
  schedlab reproduce all --resume runs --shard 1/3  a third of the runs, for an array of jobs

Documents: freebsd, kravetz, libenzi, santosa, swap. The rules of the verdicts are in \
docs/reproduction.md. Exit code 0 when as many rows of each document agree as are wanted, else 1.")]
pub(crate) struct ReproduceArgs {
    /// The document, or all
    #[arg(value_name = "DOCUMENT")]
    pub(crate) document: String,
    /// Smaller workloads
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these tables
    #[arg(long = "document-table", value_name = "ID,..", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Runs of each row and scheduler
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<10_000>)]
    pub(crate) runs: NonZeroUsize,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Halve and double these parameters of the machine, one at a time: all, or names of its costs and caches
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) sensitivity: Vec<String>,
    /// Take this machine file in place of the shipped machine that has its name
    #[arg(long = "machine-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) machine_files: Vec<PathBuf>,
    /// How the schedulers' programs are executed: compiled, or interpreted (slower, the same results)
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t, hide_possible_values = true)]
    pub(crate) engine: EngineKind,
    /// Pictures (SVG) of all tables, published beside measured, into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Results")]
    pub(crate) figures: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// What a virtual machine is like, of the commands that run workloads in one (`--vm`).
#[derive(Clone, Debug, Args)]
pub(crate) struct VmArgs {
    /// The VM's kernel: a version (6.18, 7.3.4) or a release (debian-sid) of `list kernels`, fetched once and kept, or a bzImage's path. Of
    /// simulated comparisons it is the machine's [default: the distribution's newest]
    #[arg(long, value_name = "NAME|VERSION|PATH", value_hint = ValueHint::FilePath)]
    pub(crate) kernel: Option<PathBuf>,
    /// Guest time counts instructions, NS nanoseconds each (1, 2, 4 ... 1024): the same on a busy host
    #[arg(long, value_name = "NS", requires = "vm", num_args = 0..=1, require_equals = true, default_missing_value = "8")]
    pub(crate) icount: Option<InstructionTime>,
    /// Boot the VM for each run, instead of starting from the saved state of an earlier boot
    #[arg(long, requires = "vm")]
    pub(crate) no_snapshot: bool,
    /// Longest time for a run in the VM, boot not included
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "vm", value_parser = some_time)]
    pub(crate) timeout: DurationNs,
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

/// Time of an instruction in a VM: this power of two, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionTime(pub(crate) u8);

impl std::str::FromStr for InstructionTime {
    type Err = String;

    fn from_str(text: &str) -> Result<InstructionTime, String> {
        let shifts = 0..=10;
        let known = shifts.into_iter().find(|shift| text == (1_u32 << shift).to_string());
        known.map(InstructionTime).ok_or_else(|| "a power of two from 1 to 1024 is wanted".to_string())
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["workload", "command"]),
    after_help = "\
Examples:
  sudo schedlab run -s o1 -w chat:rooms=2,messages=20
  sudo schedlab run -s ./mine.bpf.o -- make -j8
  schedlab run --vm -s o1 -w chat:rooms=2,messages=20 --json result.json
  schedlab run --vm -s o1 --with sh,make,gcc,./src -- make -C src -j2
  schedlab run --vm --icount -c 1 -s ule -w cpuhog:ntasks=2,nice=0/5,ttime=20s

On the host it needs root and a kernel with sched_ext; whatever happens, the machine is back under \
its own scheduler afterwards. With --vm a stock kernel from the distribution's package archive (kept \
in the cache, fetched once) boots in QEMU with this command as its only program."
)]
pub(crate) struct RunArgs {
    /// Scheduler: a shipped name, NAME+swap, an object file (*.bpf.o, FILE#NAME for one of several schedulers, or a program that carries one), or eevdf; NAME[VAR=VALUE,..] sets tunables
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) scheduler: String,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json) or an own one (*.toml)
    #[arg(short, long, value_name = "NAME[:k=v,..]|FILE")]
    pub(crate) workload: Option<String>,
    /// In a virtual machine
    #[arg(long)]
    pub(crate) vm: bool,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    /// Number of CPUs of the VM [default: 2]
    #[arg(short, long, value_name = "N")]
    pub(crate) cpus: Option<NonZeroUsize>,
    /// Seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// End the run after this long (500ms, 2s) [default: the workload's end]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// When the scheduler leaves before the end: stop; only simulated runs continue
    #[arg(long, value_name = "stop|continue", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) after_ejection: AfterEjection,
    /// Set a tunable of the scheduler: VAR=VALUE
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) swap: SwapArgs,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) meanwhile: MeanwhileArgs,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse)]
    pub(crate) programs: Vec<RunProgram>,
    /// Also report which task waited for which, through what, and how much of it was priority
    /// inversion
    #[arg(long, help_heading = "Results")]
    pub(crate) explain_waits: bool,
    /// Also report how often each callback of the scheduler was called, and how long it took; counting adds two clock reads
    /// to each call
    #[arg(long, help_heading = "Results")]
    pub(crate) callbacks: bool,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Command to run under the scheduler; into a VM go its program, with libraries or interpreter, the files that its
    /// arguments name, and the tools that a shell's script calls
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Programs, files and directories that go into the VM beside the command
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires_all = ["vm", "command"], conflicts_with = "workload")]
    pub(crate) with: Vec<String>,
    /// Runs of the command before the one that counts; their output is discarded
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "workload")]
    pub(crate) warmup: usize,
    /// This is the guest of a VM
    #[arg(long, hide = true)]
    pub(crate) as_guest: bool,
    /// Where the command's output goes
    #[arg(long, hide = true, requires = "command")]
    pub(crate) command_output: Option<PathBuf>,
}

/// Arguments of `deps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo schedlab deps                                  a table that refreshes; Ctrl-C ends with the result
  sudo schedlab deps --duration 10s --comm firefox    who makes it wait, and whom it makes wait
  sudo schedlab deps --duration 5s --json - | jq '.waits.pairs[0]'
  sudo schedlab deps --duration 5s --dot waits.dot && dot -Tsvg waits.dot > waits.svg

Works on any kernel with BTF from 5.19 on (x86-64), under any scheduler; needs root. What the figures \
mean is in docs/waits.md.")]
pub(crate) struct DepsArgs {
    /// Watch this long (500ms, 10s) [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<DurationNs>,
    /// Time between two tables on a terminal
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub(crate) interval: DurationNs,
    /// Leave out pairs of a lower confidence: 0 to 40; 20 is a provider seen once and never contradicted
    #[arg(
        long,
        value_name = "N",
        default_value_t = schedlab_trace::waits::CONFIDENCE_DEFAULT,
        value_parser = clap::value_parser!(u32).range(0..=40)
    )]
    pub(crate) min_confidence: u32,
    /// Only pairs in which one side is of these processes or threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,
    /// Only pairs in which the name of one side holds one of these texts
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,
    /// The result as JSON; `-` writes it to standard output instead of the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// The graph in Graphviz' language
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) dot: Option<PathBuf>,
    /// Picture and table as one self-contained page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab check o1                  a shipped scheduler
  schedlab check ./mine.bpf.o --vm   also ask the verifier of a stock kernel in a VM
  schedlab check ./mine.bpf.o --kernel 6.12   as that version takes it
  schedlab check ./mine.bpf.o --vm --kernel 6.18   and as that kernel's verifier does, in a VM
  schedlab check --vmlinux-h vmlinux.h   what sources include
  schedlab check ./mine.bpf.o --json - | jq '.answers[] | select(.takes == false)'

Exit code 0 if every asked kernel accepts the object, 1 otherwise.")]
pub(crate) struct CheckArgs {
    /// Object file (*.bpf.o) or shipped name
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "vmlinux_h")]
    pub(crate) object: Option<String>,
    /// Write a header with the types and functions of the simulated kernel, for sources that include vmlinux.h. Beside it:
    /// libbpf's headers in a folder bpf, and those of sched_ext (scx/common.bpf.h) in a folder scx
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["object", "live", "vm", "json"])]
    pub(crate) vmlinux_h: Option<PathBuf>,
    /// Ask the verifier of this machine's kernel too (root)
    #[arg(long)]
    pub(crate) live: bool,
    /// Ask the verifier of a kernel in a VM too
    #[arg(long)]
    pub(crate) vm: bool,
    /// The kernel, as for sim (6.12, debian-13). With --vm it is the VM's, as for run, and the simulator has its version
    #[arg(long, value_name = "NAME|VERSION|PATH", value_hint = ValueHint::FilePath)]
    pub(crate) kernel: Option<String>,
    /// All of it as JSON; `-` writes it to standard output instead of the text
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) state: Option<PathBuf>,
    /// Set a tunable before: VAR=VALUE
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse)]
    pub(crate) programs: Vec<RunProgram>,
    /// What the object may take of memory in the simulator: 64M, 2G
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(crate) guest_memory: GuestMemory,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// This is the guest of a VM
    #[arg(long, hide = true, requires = "live")]
    pub(crate) as_guest: bool,
}

/// Arguments of `stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab stat before.txt after.txt              one number a line; blank lines and # are skipped
  schedlab stat runs.csv:before runs.csv:after    columns of a CSV file
  schedlab stat a.json:throughput b.json:throughput --confidence 95,99
  schedlab stat r.json:vanilla:throughput r.json:o1:throughput    two schedulers of one result file
  seq 10 20 | schedlab stat base.txt -            - is standard input
  schedlab stat a.txt b.txt --json - | jq '.differences[0].student[0]'

The first sample is the reference. Exit code 0 whether or not a difference is proven.")]
pub(crate) struct StatArgs {
    /// FILE, FILE.csv:COLUMN, FILE.json:METRIC, FILE.json:SCHEDULER:METRIC or -
    #[arg(value_name = "SAMPLE", required = true)]
    pub(crate) samples: Vec<String>,
    /// Confidence in percent, one or several: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "PERCENT,..", default_value = "95", value_delimiter = ',')]
    pub(crate) confidence: Vec<schedlab_stats::Level>,
    /// Draw boxes (smallest value, quartiles, largest value) in place of the values
    #[arg(long = "box")]
    pub(crate) boxes: bool,
    /// Width of the plot in columns
    #[arg(long, value_name = "N", default_value_t = 74, value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) width: u16,
    /// All figures as JSON; `-` writes them to standard output instead of the text
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// Arguments of `sched-samples`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab sim -s vanilla -w cpuhog:ntasks=3 -m dual-p3-733 --sched-samples s.csv --sched-mark nr_recalcs
  schedlab sched-samples s.csv
  schedlab sched-samples published/libenzi_trace3_smp_current.csv --clock 733
  schedlab sched-samples s.csv --disturbers 1003    the third task of a simulated run

The format is described in docs/sched-samples.md. Exit code 0 when the samples are consistent, \
else 1.")]
pub(crate) struct SchedSamplesArgs {
    /// Samples as CSV; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Clock of the cycle counter in MHz, if the file does not give it
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clock: Option<u32>,
    /// PIDs whose runs disturb other tasks; 2 is the kernel thread of the historic traces
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2")]
    pub(crate) disturbers: Vec<u64>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab schema > results.schema.json    of the results of sim, compare, run, bench, reproduce, deps
  schedlab schema check                    of what `schedlab check --json` writes
  schedlab schema | jq '.[\"$defs\"].Run.properties.duration_ns'    what a field means, and its unit")]
pub(crate) struct SchemaArgs {
    /// The document
    #[arg(value_name = "NAME", default_value = "results", value_parser = schemas())]
    pub(crate) name: String,
}

/// The documents that have a schema.
fn schemas() -> PossibleValuesParser {
    DOCUMENTS
        .iter()
        .map(|document| PossibleValue::new(document.name).help(document.about))
        .collect::<Vec<_>>()
        .into()
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab completions bash > /etc/bash_completion.d/schedlab
  schedlab completions zsh > ~/.zfunc/_schedlab")]
pub(crate) struct CompletionsArgs {
    /// The shell that completes
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab man | man -l -                  read the page of the whole command
  schedlab man /usr/local/share/man/man1   one page a command")]
pub(crate) struct ManArgs {
    /// Write all pages into this folder, which must exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
}
