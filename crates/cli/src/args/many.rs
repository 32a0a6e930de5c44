//! Arguments of the commands that make many runs: `compare`, `bench` and `reproduce`.

use super::{
    EngineKind, GateArgs, HostArgs, RecordArgs, ResultArgs, SetupArgs, SwapArgs, VmArgs, percent, up_to,
};
use crate::cpu_counts::CpuCounts;
use clap::{Args, ValueHint};
use schedlab_lab::gate::budget::Budget;
use schedlab_trace::Window;
use std::num::NonZeroUsize;
use std::path::PathBuf;

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

/// When a difference is one.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerdictArgs {
    /// Confidence in percent: 80, 90, 95, 98, 99 or 99.5
    #[arg(long, value_name = "PERCENT", default_value = "95", help_heading = "Verdict")]
    pub(crate) confidence: schedlab_stats::Level,
    /// The smallest difference that matters, in percent of the baseline's mean; anything smaller is never better or worse
    #[arg(long, value_name = "PERCENT", default_value_t = schedlab_report::LEAST_EFFECT, value_parser = percent, help_heading = "Verdict")]
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
  schedlab compare -s old=./a.bpf.o,new=./b.bpf.o -w chat --fail-on worse=5 --junit gate.xml
  sudo schedlab compare -s eevdf,o1 --live -w chat:rooms=2 --runs 5

The first scheduler is the baseline. Run k has the seed --seed + k, the same for every scheduler. \
Results do not depend on --jobs, --resume and --shard.")]
pub(crate) struct CompareArgs {
    /// Schedulers, the baseline first: shipped names, NAME+swap, object files (*.bpf.o), exec:COMMAND (its own loader), eevdf. Each may have
    /// tunables (o1[profile=d1]) and a label (new=./x.bpf.o), and may be listed twice
    #[arg(short, long = "schedulers", alias = "scheduler", value_name = "A,B,..", required = true)]
    pub(crate) schedulers: Vec<String>,
    /// Workload: NAME[:key=value,...], an rt-app file (*.json) or a workload file of schedlab (*.toml). Several -w are run one by one and make one
    /// table with a ranking; a.json+b.json is one workload, whose tasks all run at the same time
    #[arg(short, long = "workload", value_name = "NAME[:k=v,..]|FILE", required = true)]
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
    #[command(flatten)]
    pub(crate) gate: GateArgs,
    /// The baseline's runs from a file of an earlier command (-o or --json), of its first scheduler or of SCHEDULER; -s needs no
    /// other one then. Workload, machine, CPUs, seeds and --duration must be the same
    #[arg(long, value_name = "FILE[:SCHEDULER]", value_hint = ValueHint::FilePath, conflicts_with_all = ["live", "vm"], help_heading = "Gate")]
    pub(crate) baseline: Option<String>,
    /// Instructions that a scheduler other than the baseline may take, on average: enqueue=400 for each call of a callback,
    /// switch=2000 for each switch of tasks; more end with exit code 1
    #[arg(long = "budget", value_name = "CALLBACK=INSNS", help_heading = "Gate")]
    pub(crate) budgets: Vec<Budget>,
    /// On this machine's kernel (root), the schedulers taking turns; -m is ignored
    #[arg(long, conflicts_with_all = ["vm", "cpus", "jobs", "resume", "time_limit"])]
    pub(crate) live: bool,
    /// In a virtual machine, booted for every run; -m is ignored
    #[arg(long, conflicts_with_all = ["jobs", "resume", "time_limit"])]
    pub(crate) vm: bool,
    #[command(flatten)]
    pub(crate) machine: VmArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// A folder for traces for ui.perfetto.dev, one per run: SCHEDULER-WORKLOAD-4cpus-seed1.pftrace
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["live", "vm", "resume"], help_heading = "Views")]
    pub(crate) perfetto: Option<PathBuf>,
    /// The part of the run whose CPUs --html draws over time (10ms..25ms), of the first seed of each scheduler
    #[arg(
        long,
        value_name = "FROM..TO",
        requires = "html",
        conflicts_with_all = ["live", "vm", "resume"],
        help_heading = "Views"
    )]
    pub(crate) timeline: Option<Window>,
    /// Also report which task waited for which, through what, and how much of it was priority inversion. Tables and page have
    /// the first seed of each scheduler, --json has every run
    #[arg(long, help_heading = "Views")]
    pub(crate) explain_waits: bool,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// A command: `schedlab bench` compares schedulers under one
    #[arg(last = true, hide = true)]
    pub(crate) command: Vec<String>,
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
    pub(crate) gate: GateArgs,
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
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value_t,
        hide_possible_values = true,
        hide = true
    )]
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
