//! Arguments of the commands that make no run.

use super::{GuestMemory, HostArgs, SandboxArgs, some_time};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum, ValueHint};
use schedlab_base::DurationNs;
use schedlab_report::DOCUMENTS;
use schedlab_scx::RunProgram;
use schedlab_trace::Window;
use std::path::PathBuf;

/// Arguments of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab new mine               ./mine with mine.bpf.c, headers and a Makefile
  schedlab new mine --from fifo   begin with less")]
pub(crate) struct NewArgs {
    /// Name of the scheduler, and of the folder that is made here: lowercase letters, digits and _
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
    /// Hosts sub-schedulers: CPU time by the weights of their groups (cid form, Linux 7.1)
    Host,
    /// The order of virtual times within a group: a sub-scheduler (cid form, Linux 7.1)
    Guest,
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
    /// Instructions that the verifier of --vm or --live may walk in all programs together: verifier=20000; more end with exit code 1
    #[arg(long = "budget", value_name = "verifier=N", help_heading = "Gate")]
    pub(crate) budget: Option<schedlab_lab::gate::budget::Budget>,
    /// All of it as JSON; `-` writes it to standard output instead of the text
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// Give variables what the scheduler's loader wrote into them: a file of bpftool map dump -j; --set goes before it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide = true)]
    pub(crate) state: Option<PathBuf>,
    /// Set a tunable first: VAR=VALUE
    #[arg(long = "set", value_name = "VAR=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Run a program of the object before the scheduler is attached, as its loader would (SEC("syscall")); HEX is its context
    #[arg(long = "run-prog", value_name = "NAME[:HEX]", value_parser = schedlab_lab::scheduler::run_prog::parse, hide = true)]
    pub(crate) programs: Vec<RunProgram>,
    /// Memory that the object may use in the simulator: 64M, 2G
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(crate) guest_memory: GuestMemory,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// This is the guest of a VM
    #[arg(long, hide = true, requires = "live")]
    pub(crate) as_guest: bool,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  schedlab sim -s o1 -w chat -c 4 -o chat.record
  schedlab show chat.record                              what the run printed
  schedlab show chat.record --as timehist | less         every switch, like perf sched timehist
  schedlab show chat.record --as perfetto --to chat.pftrace
  schedlab show chat.record --as timeline --window 10ms..25ms --to chat.html
  schedlab show chat.record --as json | jq '.runs[0].metrics'

A view has the bytes that the flag of the same name would have written during the run; a page names the command that made the record. docs/records.md \
describes the file.")]
pub(crate) struct ShowArgs {
    /// A record, as sim, run and compare write it with -o
    #[arg(value_name = "RECORD", value_hint = ValueHint::FilePath)]
    pub(crate) record: PathBuf,
    /// How it is shown
    #[arg(long = "as", value_enum, value_name = "VIEW", default_value_t)]
    pub(crate) view: ViewKind,
    /// Where it goes [default: standard output]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) to: Option<PathBuf>,
    /// The part of the run that a page draws over time (10ms..25ms)
    #[arg(long, value_name = "FROM..TO", default_value = "..", hide_default_value = true)]
    pub(crate) window: Window,
    /// The run that is shown of several, counted from 0 in the order of --as json
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) run: usize,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// How a record is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewKind {
    /// What the command printed; -v has all metrics, counters and tables
    #[default]
    Table,
    /// The results, as --json writes them
    Json,
    /// One line per run and metric
    Csv,
    /// A self-contained page
    Html,
    /// A page with the CPUs over time and nothing else
    Timeline,
    /// One line per stretch of a task on a CPU
    Timehist,
    /// How long each task waited for a CPU
    Latency,
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// A picture (SVG) of the tasks' priorities
    Priorities,
    /// Which cache lines moved between CPUs, and which source lines moved them
    Lines,
    /// Which task waited for which, through what
    Waits,
    /// One line per pass through schedule(), as CSV for sched-samples
    Samples,
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
